"""The Lark front-end against Lark itself: the same texts are accepted and refused."""

from __future__ import annotations

import random
import re
from pathlib import Path

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.constraint import Constraint
from grammars.errors import ConstraintError, GrammarError, RegexError
from grammars.lark_grammar import Lark
from grammars.lark_grammar.backtracking import terminal_expr
from grammars.lark_grammar.properties import expand_properties
from grammars.patterns import Choice, Regex
from grammars.regex.expr import Pool
from grammars.vocabulary import Vocabulary
from tests.grammars.lark_grammars import GRAMMARS
from tests.recogniser import Recogniser
from tests.sentences import Sentences, member, mutate


class Engine:
    """A compiled grammar as a predicate on texts; the plain recogniser has to agree."""

    def __init__(self, constraint: Constraint, vocabulary: Vocabulary, twice: bool = True) -> None:
        self.automaton = constraint.compile(vocabulary)
        pool = Pool()
        self.recogniser = Recogniser(constraint.build(pool), pool) if twice else None

    def __call__(self, text: str) -> bool:
        data = text.encode()
        verdict = self.automaton.accepts(self.automaton.advance_bytes(self.automaton.start, data))
        if self.recogniser is not None:
            assert verdict == self.recogniser.accepts(data), f"the engine says {verdict}, the recogniser not: {text!r}"
        return bool(verdict)


def oracle(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def samples(parser: lark.Lark, rng: random.Random) -> dict[str, list[str]]:
    """Members of each terminal's pattern."""
    pool, out = Pool(), {}
    for terminal in parser.terminals:
        pattern = terminal.pattern
        expr = terminal_expr(pool, expand_properties(pattern.to_regexp()), first_match=pattern.type == "re")
        out[terminal.name] = [member(pool, expr, rng).decode(errors="ignore") for _ in range(40)]
    return out


def texts(name: str, parser: lark.Lark, start: str, given_texts: list[str], count: int) -> list[str]:
    rng = random.Random(name)
    drawn = samples(parser, rng)
    gaps = [text for ignored in parser.ignore_tokens for text in drawn[ignored]] + [" "] * bool(parser.ignore_tokens)
    sentences = Sentences(parser.rules, drawn, gaps)
    alphabet = "".join(given_texts) or "ab"
    out = list(given_texts) + [mutate(text, rng, alphabet) for text in given_texts for _ in range(5)]
    for _ in range(count):
        text = sentences.draw(start, rng)
        if len(text) <= 400:
            out += [text, mutate(text, rng, alphabet), mutate(text, rng, alphabet + text)]
    return out


@pytest.mark.parametrize("name", GRAMMARS)
def test_same_verdict_as_lark(name: str, byte_vocab: Vocabulary) -> None:
    text, options, given_texts = GRAMMARS[name]
    parser = lark.Lark(text, **options)
    accepts = Engine(Lark(text), byte_vocab)
    seen = {True: 0, False: 0}
    for sentence in texts(name, parser, "start", given_texts, 60):
        want = oracle(parser, sentence)
        assert accepts(sentence) == want, f"Lark says {want}: {sentence!r}"
        seen[want] += 1
    assert min(seen.values()) >= 15, seen


@pytest.mark.parametrize("name", ["arithmetic", "lists", "empties", "ambiguous", "recursion", "ranges"])
def test_any_lexing_is_larks_dynamic_complete(name: str, byte_vocab: Vocabulary) -> None:
    text, _, given_texts = GRAMMARS[name]
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    accepts = Engine(Lark(text, lexing="any"), byte_vocab)
    for sentence in texts(name, parser, "start", given_texts, 15):
        if len(sentence) <= 60:
            want = oracle(parser, sentence)
            assert accepts(sentence) == want, f"Lark says {want}: {sentence!r}"


@pytest.mark.parametrize("name", [name for name in GRAMMARS if name != "lookbehind"])
def test_what_the_engine_writes_is_read_by_lark(name: str, byte_vocab: Vocabulary) -> None:
    text, options, _ = GRAMMARS[name]
    parser, automaton, rng = lark.Lark(text, **options), Lark(text).compile(byte_vocab), random.Random(name)
    ends, tokens = set(byte_vocab.eos_token_ids), byte_vocab.tokens
    for length in range(0, 30, 2):
        state, out = automaton.start, b""
        for _ in range(length):
            moves = [(t, s) for t, s in zip(*automaton.successors(state), strict=True) if t not in ends]
            plain = [(t, s) for t, s in moves if tokens[t].isascii() and tokens[t].decode().isprintable()]
            if not moves:
                break
            token, state = rng.choice(plain or moves)
            out += tokens[token]
        out += b"".join(tokens[t] for t in automaton.shortest_completion(state) if t not in ends)
        assert oracle(parser, out.decode()), out


def test_larks_own_grammar_reads_grammars(byte_vocab: Vocabulary) -> None:
    folder = Path(lark.__file__).parent / "grammars"
    text = (folder / "lark.lark").read_text()
    parser = lark.Lark(text, parser="lalr")
    accepts = Engine(Lark(text), byte_vocab, twice=False)
    rng = random.Random(3)
    files = [(folder / name).read_text() for name in ("common.lark", "unicode.lark", "lark.lark")]
    for sentence in [*files, *(text for text, _, _ in GRAMMARS.values())]:
        assert accepts(sentence) == oracle(parser, sentence)
        for _ in range(4):
            broken = mutate(sentence, rng, 'aB:|"/()~.?\n ')
            assert accepts(broken) == oracle(parser, broken), broken


# ---------------------------------------------------------------- random grammars
@st.composite
def random_grammars(draw: st.DrawFn) -> str:
    """Small grammars over the letters a and b, all kinds of recursion and empty rules."""
    names = ["start", "p", "q", "r"][: draw(st.integers(1, 4))]
    symbol = st.sampled_from([*names, '"a"', '"b"', '"ab"'])
    lines = []
    for name in names:
        expansions = draw(st.lists(st.lists(symbol, max_size=3), min_size=1, max_size=3))
        lines.append(f"{name}: " + " | ".join(" ".join(e) for e in expansions))
    return "\n".join(lines) + "\n"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_grammars(), st.lists(st.text("ab", max_size=7), max_size=12))
def test_random_grammars(byte_vocab: Vocabulary, grammar: str, words: list[str]) -> None:
    try:
        parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
        constraint = Lark(grammar, lexing="any")
    except (lark.exceptions.LarkError, GrammarError):
        return  # an expansion twice, say
    words = ["", *words]
    verdicts = [oracle(parser, word) for word in words]
    try:
        accepts = Engine(constraint, byte_vocab)
    except ConstraintError:
        assert not any(verdicts)
        return
    assert [accepts(word) for word in words] == verdicts


# ---------------------------------------------------------------- what a pattern matches
PATTERNS = [
    r"\w+\b",
    r"[ab]+(?![ab])",
    r'".*?(?<!\\)(\\\\)*?"',
    r"/\*(.|\n)*?\*/",
    r"a|ab",
    r"a?(ab)?b",
    r"(?:a|ab)(?:c|bcd)(?:d*)",
    r'"(?!x)[^"]*"',
    r"(?i:if|IfF|straße|K)",
    r"[a-z]+\d*?x",
    r"(a+?b?)+?c",
    r"a{2,4}?b?",
    r"ab*?(?=c)c+",
    r"(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?",
    r"a\b-\ba",
    r"é+?ü|é",
    r"(?s:a.*?b)c?",
    "(?x: a  b+? # comment\n c)",
    r"x(?<=x)(?:y|yy)z?",
    r"(?a:\w+)é",
    r"(?m:[^\n]+)",
    r"(a|b|)*?c",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_first_match_is_what_re_finds(pattern: str) -> None:
    pool, rng, compiled = Pool(), random.Random(pattern), re.compile(pattern)
    expr = terminal_expr(pool, pattern)
    plain = terminal_expr(pool, pattern, first_match=False)
    for _ in range(1500):
        text = rng.choice(['"', "/*", "a", "aa", "é", "1", ".", "I", ""])
        text += "".join(rng.choices('abbcd"\\x/*.1e\n-éüifyzFkKs', k=rng.randint(1, 7)))
        longest, state = None, expr
        data = text.encode()
        for i, byte in enumerate(data):
            state = pool.derivative(state, byte)
            if pool.nullable(state):
                longest = data[: i + 1].decode()
        match = compiled.match(text)
        assert longest == (match.group() if match else None), text
        assert pool.matches(plain, data) == (compiled.fullmatch(text) is not None), text


@pytest.mark.parametrize("pattern", ["a(?=b)", "a$", "^a", r"(a)\1", "a++b", "(?>a|ab)c", r"(?<!x)a", r"a\b", "(a", "(?=(?!a)b)bc"])
def test_what_depends_on_the_text_around_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        terminal_expr(Pool(), pattern)


# ---------------------------------------------------------------- declared terminals, flags, options
def test_declared_terminals(byte_vocab: Vocabulary) -> None:
    grammar = 'start: ID "=" value\nvalue: COLOUR | ID\n%declare ID COLOUR\n%ignore " "\n'
    with pytest.raises(GrammarError, match="COLOUR is only declared") as info:
        Lark(grammar, terminals={"ID": "[a-z]+"})
    assert info.value.line == 2
    accepts = Engine(Lark(grammar, terminals={"ID": "[a-z]+", "COLOUR": Choice(["#fff", "#000"])}), byte_vocab)
    assert accepts("a = #fff") and accepts("a=b") and not accepts("a = #ff0")
    with pytest.raises(GrammarError, match="does not %declare"):
        Lark('start: "a"', terminals={"ID": "x"})
    with pytest.raises(RegexError):
        Lark(grammar, terminals={"ID": "[a-z", "COLOUR": "x"})


def test_declared_rules(byte_vocab: Vocabulary) -> None:
    accepts = Engine(Lark('start: "<" inner ">"\n%declare inner', terminals={"inner": Regex(r"\d{2}")}), byte_vocab)
    assert accepts("<12>") and not accepts("<1>")


def test_flags(byte_vocab: Vocabulary) -> None:
    accepts = Engine(Lark('start: "Ab" /[x-z]/', flags="i"), byte_vocab)
    assert accepts("aBY") and not accepts("abw")


def test_import_paths(tmp_path: Path, byte_vocab: Vocabulary) -> None:
    (tmp_path / "mine.lark").write_text('pair: A "," A\nA: "a" | "b"\n')
    accepts = Engine(Lark("start: pair\n%import mine.pair", import_paths=[str(tmp_path)]), byte_vocab)
    assert accepts("a,b") and not accepts("a,c")


def test_collisions_are_reported_on_request() -> None:
    grammar = "start: (A | B | C)*\nA: /[a-m]+/\nB: /[k-z]+/\nC.2: /[a-z]/\n"
    assert Lark(grammar).warnings == []
    (warning,) = Lark(grammar, check_collisions=True).warnings
    assert "A and B both match" in warning


@pytest.mark.parametrize(
    ("grammar", "line", "column", "message"),
    [
        ('start: a\na: "x" b\n', 2, 8, "'b' used but not defined"),
        ("start: A\nA: B\n", 2, 4, "not defined: B"),
        ('start: "x\n', 1, 8, "Unexpected input"),
        ('start: "a" )\n', 1, 12, "unexpected"),
        ("start: A\nA: /a*/\n", 2, 1, "matches the empty string"),
        ('start: A\nA: "x" A\n', None, None, "Recursion in terminal"),
        ("start: A\n\nA: /(a)\\1/\n", 3, 1, "backreference"),
        ("start: A\nA: /a$/\n", 2, 1, "anchor"),
        ("start: /b(?=c)/\n", 1, 8, "lookahead"),
        ("start: /b(?!c)/ /[a-z]/\n", 1, 8, "forbids 'bc'"),
        ("start: A\nA: /\\p{Nope}/\n", 2, 1, "no Unicode property 'Nope'"),
        ("start: A\nA: /[/\n", None, None, "unterminated character set"),
        ("%import nothing.X\nstart: X\n", 1, 9, "import_paths"),
        ('start: "a"\n%ignore Y\n', 2, 9, "not defined"),
        ('a: "x"\n', None, None, "start rule 'start' is not defined"),
        ('start: t{"a"}\nt{x}: x\nt{y}: y\n', 3, 1, "more than once"),
        ('start: t{"a"}\nt{x, y}: x y\n', 1, 8, "Wrong number of template arguments"),
        ("start: A\n%declare A\n", 1, 8, "only declared"),
        ('start: "a"~3..1\n', None, None, "Bad Range"),
    ],
)
def test_errors_say_where(grammar: str, line: int | None, column: int | None, message: str) -> None:
    with pytest.raises(GrammarError) as info:
        Lark(grammar).build(Pool())
    assert message in str(info.value)
    if line is not None:
        assert (info.value.line, info.value.column) == (line, column), str(info.value)


def test_languages_without_a_sentence() -> None:
    with pytest.raises(ConstraintError, match="empty"):
        Lark('start: "a" start\n').build(Pool())


@pytest.mark.parametrize("bad", [{"lexing": "contextual"}, {"flags": "q"}])
def test_bad_options(bad: dict[str, str]) -> None:
    with pytest.raises(ConstraintError):
        Lark('start: "a"', **bad)  # type: ignore[arg-type]
