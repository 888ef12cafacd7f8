"""Overlapping terminals with priorities, drawn at random: which one Lark's contextual lexer takes, and where it ends."""

from __future__ import annotations

import logging
import random

import lark

from grammars.errors import ConstraintError, GrammarError
from grammars.lark_grammar import Lark
from grammars.lark_grammar.loader import TerminalPattern
from grammars.lark_grammar.precedence import ranks, scan_order
from grammars.regex.expr import Pool
from grammars.vocabulary import Vocabulary
from tests.recogniser import Recogniser

PATTERNS = [
    *("/a+/", "/a+b?/", "/[ab]+/", "/ab*/", "/a|ab/", "/b+?a/", "/(ab)+/", "/b/", "/a/", '"a"', '"ab"', '"b"', '"aba"', '"ba"i', "/ba?/"),
    *("/c+/", '"c"', "/[abc]/", "/a.*?b/", "/c[ab]*/", "/b(?!a)/", r"/a\b/", "/[ab]+?c/"),
]


def random_grammar(rng: random.Random) -> str:
    names = [f"T{i}" for i in range(rng.randint(2, 5))]
    lines = [f"{name}{rng.choice(['', '', '', '.2', '.-1'])}: {p}" for name, p in zip(names, rng.sample(PATTERNS, len(names)), strict=True)]
    rules = ["start", "p", "q"][: rng.randint(1, 3)]
    for rule in rules:
        expansions = []
        for _ in range(rng.randint(1, 3)):
            symbols = [rng.choice(names + rules[1:] if rng.random() < 0.8 else names) for _ in range(rng.randint(1, 3))]
            expansions.append(" ".join(s + rng.choice(["", "", "", "*", "?", "+"]) for s in symbols))
        lines.append(f"{rule}: " + " | ".join(expansions))
    return "\n".join(lines + ['%ignore " "'] * (rng.random() < 0.4)) + "\n"


class Conflicts(logging.Handler):
    """Counts what Lark says of shift/reduce conflicts: it resolves them, so that its language is no longer the grammar's."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "conflict" in record.getMessage().lower()


def lalr_parser(grammar: str) -> lark.Lark | None:
    handler, level = Conflicts(), lark.logger.level
    lark.logger.addHandler(handler)
    lark.logger.setLevel(logging.DEBUG)
    try:
        parser = lark.Lark(grammar, parser="lalr", debug=True)
    except (lark.exceptions.LarkError, AssertionError):
        return None
    finally:
        lark.logger.removeHandler(handler)
        lark.logger.setLevel(level)
    return None if handler.count else parser


def compare(seeds: range, vocabulary: Vocabulary | None) -> tuple[int, int, int]:
    """Grammars compared, texts accepted, grammars with warnings (which are left out)."""
    compared = accepted = warned = 0
    for seed in seeds:
        rng = random.Random(seed)
        grammar = random_grammar(rng)
        parser = lalr_parser(grammar)
        if parser is None:
            continue
        words = ["".join(rng.choices("aaabbbc ", k=rng.randint(0, 7))) for _ in range(50)]
        verdicts = []
        for word in words:
            try:
                parser.parse(word)
                verdicts.append(True)
            except lark.exceptions.LarkError:
                verdicts.append(False)
        constraint, pool = Lark(grammar), Pool()
        try:
            plain = Recogniser(constraint.build(pool), pool)
            automaton = constraint.compile(vocabulary) if vocabulary is not None else None
        except ConstraintError as error:
            assert (isinstance(error, GrammarError) and "lookahead" in str(error)) or not any(verdicts), (seed, grammar)
            continue
        if constraint.warnings:
            warned += 1
            continue
        compared += 1
        accepted += sum(verdicts)
        for word, want in zip(words, verdicts, strict=True):
            assert plain.accepts(word.encode()) == want, (seed, word, grammar)
            if automaton is not None:
                assert automaton.accepts(automaton.advance_bytes(automaton.start, word.encode())) == want, (seed, word, grammar)
    return compared, accepted, warned


def test_random_terminals(byte_vocab: Vocabulary) -> None:
    compared, accepted, warned = compare(range(160), byte_vocab)
    assert compared >= 50 and accepted >= 200 and warned * 3 <= compared


# ---------------------------------------------------------------- the order itself
def pattern(name: str, source: str, priority: int = 0, flags: str = "") -> TerminalPattern:
    text = source[1:-1]
    is_string = source[0] == '"'
    regexp = f"(?{flags}:{text})" if flags else text
    width = len(text) if is_string else 1000
    return TerminalPattern(name, regexp, text if is_string else None, frozenset(flags), priority, 1, width, len(text))


def test_keywords_stand_above_the_pattern_that_they_are_cut_from() -> None:
    order = ranks([pattern("NAME", "/[a-z]+/"), pattern("IF", '"if"'), pattern("EQ", '"=="'), pattern("NUM", "/[0-9]+[.][0-9]*/", 1)])
    assert order["IF"] > order["NAME"]
    assert order["NUM"] == max(order.values())


def test_a_keyword_of_another_priority_is_no_exception() -> None:
    order = ranks([pattern("NAME", "/[a-z]+/", 1), pattern("IF", '"if"')])
    assert order["NAME"] > order["IF"]


def test_what_an_ignored_pattern_takes_is_ignored() -> None:
    blanks, tab = pattern("WS", "/[ \t]+/"), pattern("TAB", '"\t"')
    assert ranks([blanks, tab])["TAB"] > ranks([blanks, tab])["WS"]
    assert ranks([blanks, tab], ignored=["WS"])["TAB"] < ranks([blanks, tab], ignored=["WS"])["WS"]


def test_scan_order() -> None:
    terminals = [pattern("B", '"ab"'), pattern("A", '"ab"'), pattern("C", '"abc"'), pattern("D", "/a/"), pattern("E", '"a"', 5)]
    assert [t.name for t in scan_order(terminals)] == ["E", "D", "C", "A", "B"]


def test_warnings_say_which_terminals() -> None:
    grammar = "start: A B+ | C* B*\nA: /a+b?/\nB: /ab*/\nC.-1: /(ab)+/\n"
    constraint = Lark(grammar)
    constraint.build(Pool())
    assert any("Lark prefers A to longer matches of B in some places" in warning for warning in constraint.warnings)
