"""GBNF against a small backtracking recogniser that is written here from llama.cpp's description of the format."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import ConstraintError, GrammarError, LimitError
from grammars.gbnf import Gbnf
from grammars.regex.expr import Pool
from grammars.vocabulary import Vocabulary
from tests.recogniser import Recogniser
from tests.sentences import mutate

# ---------------------------------------------------------------- the oracle
TOKEN = re.compile(
    r"""(?P<define>(?P<name>[a-zA-Z0-9-]+)\s*::=)|(?P<ref>[a-zA-Z0-9-]+)|(?P<string>"(?:\\.|[^"\\])*")
    |(?P<cls>\[(?:\\.|[^\]\\])*\])|(?P<count>\{\s*\d+\s*(?:,\s*\d*\s*)?\})|(?P<op>[()|*+?.])|(?P<gap>\#[^\n]*|\s+)""",
    re.VERBOSE,
)
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def unescape(text: str) -> list[tuple[str, bool]]:
    """Characters, and whether each was escaped."""
    out, i = [], 0
    while i < len(text):
        match = ESCAPE.match(text, i)
        if match is None:
            out.append((text[i], False))
            i += 1
        else:
            code = match[1] or match[2] or match[3]
            out.append((chr(int(code, 16)) if code else {"n": "\n", "t": "\t", "r": "\r"}.get(match[4], match[4]), True))
            i = match.end()
    return out


def char_class(source: str) -> tuple:
    chars = unescape(source[1:-1])
    negated = bool(chars) and chars[0] == ("^", False)
    chars = chars[negated:]
    ranges, i = [], 0
    while i < len(chars):
        if i + 2 < len(chars) and chars[i + 1] == ("-", False):
            ranges.append((chars[i][0], chars[i + 2][0]))
            i += 3
        else:
            ranges.append((chars[i][0], chars[i][0]))
            i += 1
    return "class", negated, tuple(ranges)


def read(text: str) -> dict[str, tuple]:
    """A well-formed grammar as nested tuples (lines matter little to a reader that trusts its input)."""
    tokens = [(m.lastgroup, m) for m in TOKEN.finditer(text) if m.lastgroup != "gap"]
    tokens = [("define" if m["define"] else kind, m) for kind, m in tokens]
    at = 0

    def alternatives() -> tuple:
        nonlocal at
        options: list[list[tuple]] = [[]]
        while at < len(tokens):
            kind, m = tokens[at]
            if kind == "define" or m.group() == ")":
                break
            at += 1
            if kind == "ref":
                options[-1].append(("ref", m.group()))
            elif kind == "string":
                options[-1].append(("text", "".join(c for c, _ in unescape(m.group()[1:-1]))))
            elif kind == "cls":
                options[-1].append(char_class(m.group()))
            elif kind == "count":
                lo, comma, hi = m.group()[1:-1].replace(" ", "").partition(",")
                options[-1].append(("rep", options[-1].pop(), int(lo), int(hi) if hi else None if comma else int(lo)))
            elif m.group() == "|":
                options.append([])
            elif m.group() == "(":
                options[-1].append(alternatives())
                at += 1
            elif m.group() == ".":
                options[-1].append(("class", True, ()))
            else:
                lo, top = {"*": (0, None), "+": (1, None), "?": (0, 1)}[m.group()]
                options[-1].append(("rep", options[-1].pop(), lo, top))
        return "alt", tuple(tuple(o) for o in options)

    rules = {}
    while at < len(tokens):
        name = tokens[at][1]["name"]
        at += 1
        rules[name] = alternatives()
    return rules


def matches(rules: dict[str, tuple], text: str, start: str = "root") -> bool:
    """Whether ``text`` is a sentence: all ends of every piece, by exhaustive search (no left recursion)."""

    @cache
    def ends(node: tuple, i: int) -> frozenset[int]:
        return frozenset(search(node, i))

    def series(items: tuple, i: int) -> set[int]:
        here = {i}
        for item in items:
            here = {e for h in here for e in ends(item, h)}
        return here

    def search(node: tuple, i: int) -> Iterator[int]:
        kind = node[0]
        if kind == "ref":
            yield from ends(rules[node[1]], i)
        elif kind == "text":
            if text.startswith(node[1], i):
                yield i + len(node[1])
        elif kind == "class":
            if i < len(text) and any(lo <= text[i] <= hi for lo, hi in node[2]) != node[1]:
                yield i + 1
        elif kind == "alt":
            for items in node[1]:
                yield from series(items, i)
        else:
            _, item, lo, hi = node
            here, n, seen = {i}, 0, set()
            while here:
                if n >= lo:
                    yield from here
                    if here <= seen and hi is None:
                        return
                    seen |= here
                if n == hi:
                    return
                here, n = {e for h in here for e in ends(item, h)}, n + 1

    return len(text) in ends(rules[start], 0)


GRAMMARS: dict[str, tuple[str, list[str]]] = {
    "arithmetic": (
        r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
""",
        ["a+1=2\n", "(a * b_2)/ 3= x\n", "1=\n", "a1=b\nc=d \n"],
    ),
    "json": (
        r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
""",
        ['{"a": [1, -2.5e3, "\\u00e9\\n"], "b":null}', "{}", '{"a":01}', '{"ü":{}}', '{"\x7f":1}'],
    ),
    "chess": (
        r"""
# moves of a game
root   ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move   ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn   ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
""",
        ["1. e4 e5\n2. Nf3 Nc6\n", "1. O-O-O axb8=Q+\n10. Rd1 Kxe2#\n", "1. e9 e5\n"],
    ),
    "list": (
        r"""
root ::= item{1,3} | "* "
# a bullet
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
""",
        ["- a\n- b c\n", "* ", "- a\n" * 3, "- a\n" * 4, "- \n", "- é日\n"],
    ),
    "c": (
        r"""
root ::= (declaration)*
declaration ::= type identifier "(" parameter? ")" "{" statement* "}"
type  ::= "int" | "float" | "char"
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= type identifier
statement ::=
    ( type identifier ws "=" ws expression ";" ) |
    ( identifier ws "=" ws expression ";" ) |
    ( "return" ws expression ";" ) |
    ( "while" "(" condition ")" "{" statement* "}" )
condition ::= expression ("==" | "!=" | "<=" | "<" | ">") expression
expression ::= term (("+" | "-") term)*
term ::= factor(("*" | "/") factor)*
factor ::= identifier | number | "-" factor | "(" expression ")"
number ::= [0-9]+
ws ::= ([ \t\n]+)?
""",
        ["intmain(){return 0;}", "floatf(intx){x = x*(1+-y);while(x<=2){x=x-1;}}", "intmain(){return;}"],
    ),
    "japanese": (
        r"""
root    ::= jp-char+ ([ \t\n] jp-char+)*
jp-char ::= hiragana | katakana | punctuation | cjk
hiragana ::= [ぁ-ゟ]
katakana ::= [ァ-ヿ]
punctuation ::= [、-〾]
cjk ::= [\u4E00-\U00009FFF]
""",
        ["ひらがな カタカナ、漢字。", "漢 字", "abc", "ひ ", "ｱ"],
    ),
    "counts": (
        r"""
root ::= ("ab"{2} | [x-z]{1,} "!"{0,2}){1,2} ("-" | ) .? tail{0}
tail ::= "never"
""",
        ["abab", "ababab", "x!!", "xyz-", "abab-é", "x!ababz", "abab!!!"],
    ),
    "escapes": (
        'root ::= "\\x41\\u00e9\\U0001F600" [\\]\\[\\\\\\x2d\\x5e-] [^\\n\\t\\"-z]* "\\""?\r\n# end',
        ['Aé😀-!"', "Aé😀]", "Aé😀\\ \u007f", "Aé😀^a"],
    ),
}


def check(name: str, vocabulary: Vocabulary, words: list[str]) -> dict[bool, int]:
    text, _ = GRAMMARS[name]
    rules, constraint = read(text), Gbnf(text)
    automaton, pool = constraint.compile(vocabulary), Pool()
    plain = Recogniser(constraint.build(pool), pool)
    seen = {True: 0, False: 0}
    for n, word in enumerate(words):
        want = matches(rules, word)
        got = automaton.accepts(automaton.advance_bytes(automaton.start, word.encode()))
        assert got == want, word
        if n % 4 == 0:
            assert plain.accepts(word.encode()) == want, word
        seen[want] += 1
    return seen


@pytest.mark.parametrize("name", GRAMMARS)
def test_mutated_sentences(name: str, byte_vocab: Vocabulary) -> None:
    rng, given_words = random.Random(name), GRAMMARS[name][1]
    alphabet = "".join(given_words)
    words = list(given_words)
    while len(words) < 250:
        words.append(mutate(rng.choice(words), rng, alphabet)[:60])
    seen = check(name, byte_vocab, words)
    assert seen[True] >= 3 and seen[False] >= 10, seen


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_the_engine_writes_is_a_sentence(name: str, byte_vocab: Vocabulary) -> None:
    rules, rng = read(GRAMMARS[name][0]), random.Random(name)
    automaton = Gbnf(GRAMMARS[name][0]).compile(byte_vocab)
    for length in range(0, 40, 2):
        state, out = automaton.start, b""
        for _ in range(length):
            tokens, states = automaton.successors(state)
            moves = [(t, s) for t, s in zip(tokens, states, strict=True) if t not in byte_vocab.eos_token_ids]
            if not moves:
                break
            token, state = rng.choice(moves)
            out += byte_vocab.tokens[token]
        out += b"".join(byte_vocab.tokens[t] for t in automaton.shortest_completion(state) if t not in byte_vocab.eos_token_ids)
        assert matches(rules, out.decode()), out


@st.composite
def random_grammars(draw: st.DrawFn) -> str:
    """Small grammars without left recursion: a rule refers to later ones, or to any behind a character."""
    names = ["root", "p-1", "q"]
    lines = []
    for i, name in enumerate(names):
        later = names[i + 1 :]
        atom = st.sampled_from([*later, *(f'"{c}" {n}' for c in "ab" for n in names), '"a"', '"ab"', "[ab]", "[^b]", "."])
        item = st.tuples(atom, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{1,}"])).map(
            lambda pair: f"({pair[0]}){pair[1]}" if " " in pair[0] else pair[0] + pair[1]
        )
        options = draw(st.lists(st.lists(item, max_size=3).map(lambda items: " ".join(items) or '""'), min_size=1, max_size=3))
        lines.append(f"{name} ::= " + " | ".join(options))
    return "\n".join(lines) + "\n"


@settings(max_examples=80, deadline=None, derandomize=True)
@given(random_grammars(), st.lists(st.text("abc", max_size=6), min_size=5, max_size=12))
def test_random_grammars(byte_vocab: Vocabulary, grammar: str, words: list[str]) -> None:
    rules = read(grammar)
    verdicts = [matches(rules, word) for word in ["", *words]]
    try:
        automaton = Gbnf(grammar).compile(byte_vocab)
    except ConstraintError:
        assert not any(verdicts)
        return
    assert [automaton.accepts(automaton.advance_bytes(automaton.start, w.encode())) for w in ["", *words]] == verdicts


# ---------------------------------------------------------------- the format
def accepted(grammar: str, word: str) -> bool:
    pool = Pool()
    return Recogniser(Gbnf(grammar).build(pool), pool).accepts(word.encode())


def test_left_recursion_works() -> None:
    grammar = 'root ::= root "+" num | num\nnum ::= [0-9]+\n'
    assert accepted(grammar, "1+22+3") and not accepted(grammar, "1+")


def test_repetition_applies_to_a_whole_string_and_to_a_repetition() -> None:
    assert accepted('root ::= "ab"+', "abab") and not accepted('root ::= "ab"+', "abb")
    assert accepted('root ::= "a"{2}{2}', "aaaa") and not accepted('root ::= "a"{2}{2}', "aaa")
    assert accepted('root ::= "a"?*', "aaa")


def test_a_rule_ends_with_its_line_except_in_parentheses_and_after_a_bar() -> None:
    assert accepted('root ::= ("a"\n\n "b" # c\n | "c"\n)\n', "ab")
    assert accepted('root ::=\n "a" |\n "b"\n', "b")
    with pytest.raises(GrammarError) as info:
        Gbnf('root ::= "a"\n | "b"\n')
    assert (info.value.line, info.value.column) == (2, 2)


def test_the_last_definition_counts() -> None:
    assert accepted('root ::= "a"\nroot ::= "b"', "b") and not accepted('root ::= "a"\nroot ::= "b"', "a")


def test_start() -> None:
    pool = Pool()
    assert Recogniser(Gbnf('root ::= x\nx ::= "1"', start="x").build(pool), pool).accepts(b"1")
    with pytest.raises(GrammarError, match="start rule 'main'"):
        Gbnf('root ::= "a"', start="main")


def test_deep_nesting() -> None:
    deep = 400
    grammar = "root ::= " + '("x" ' * deep + '"a"' + ")" * deep
    assert accepted(grammar, "x" * deep + "a")
    with pytest.raises(LimitError, match="nesting"):
        Gbnf("root ::= " + "(" * 501 + '"a"' + ")" * 501)


def test_big_counts() -> None:
    assert accepted("root ::= [a-c]{10,5000}", "abc" * 50) and not accepted("root ::= [a-c]{10,5000}", "abc")


@pytest.mark.parametrize(
    ("grammar", "line", "column", "message"),
    [
        ("", None, None, "start rule 'root'"),
        ('x ::= "a"\n', None, None, "start rule 'root'"),
        ('root ::= a b\na ::= "x"\n', 1, 12, "'b' is used here but not defined"),
        ('root = "a"', 1, 6, "expected '::='"),
        ('ro_ot ::= "a"', 1, 3, "expected '::='"),
        ('root ::= ("a"', 1, 14, "expected ')' for the '(' of line 1, column 10"),
        ('root ::= "a")', 1, 13, "closes nothing"),
        ('root ::= "a', 1, 12, "line 1, column 10"),
        ("root ::= [a", 1, 12, "the text ends inside the character class"),
        ("root ::= [z-a]", 1, 11, "reversed"),
        ("root ::= []", 1, 10, "empty"),
        ('root ::= "\\q"', 1, 11, "unknown escape"),
        ('root ::= "\\x4"', 1, 11, "2 hexadecimal digits"),
        ('root ::= "\\uD800"', 1, 11, "not a character"),
        ('root ::= "\\U00110000"', 1, 11, "not a character"),
        ("root ::= *", 1, 10, "nothing in front"),
        ('root ::= ""*', 1, 12, "nothing in front"),
        ('root ::= "a"{,3}', 1, 14, "expected a number"),
        ('root ::= "a"{3', 1, 15, "expected '}'"),
        ('root ::= "a"{3,2}', 1, 13, "reversed"),
        ('root ::= "a"{9999999999}', 1, 14, "too large"),
        ("root ::= <[10]>", 1, 10, "token references"),
        ("root ::= !<think>", 1, 10, "token references"),
        ('root ::= "a" & "b"', 1, 14, "end of the line"),
        ('root ::= ("a" & "b")', 1, 15, "expected an item"),
        ('\n\n "a"', 3, 2, "expected a rule's name"),
    ],
)
def test_errors_say_where(grammar: str, line: int | None, column: int | None, message: str) -> None:
    with pytest.raises(GrammarError) as info:
        Gbnf(grammar)
    assert message in str(info.value)
    assert (info.value.line, info.value.column) == (line, column), str(info.value)


def test_a_language_without_a_sentence() -> None:
    with pytest.raises(ConstraintError, match="empty"):
        Gbnf('root ::= "a" root').build(Pool())
