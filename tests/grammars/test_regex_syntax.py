"""Tables: what each dialect accepts, means and refuses."""

from __future__ import annotations

import re

import pytest

from grammars.errors import ConstraintError, RegexError
from grammars.regex.charset import ANY, CharSet
from grammars.regex.expr import Pool
from grammars.regex.lower import to_expr
from grammars.regex.syntax import parse


def _check(dialect: str, pattern: str, inside: list[str], outside: list[str], search: bool = False, flags: str = "") -> None:
    pool = Pool()
    expr = to_expr(parse(pattern, dialect, flags), pool, search=search)
    for text in inside:
        assert pool.matches(expr, text.encode()), (pattern, text)
    for text in outside:
        assert not pool.matches(expr, text.encode()), (pattern, text)


PYTHON = [
    (r"(?i)straSSe", ["STRASSE", "strasse"], ["straße"]),
    (r"(?i:a)b", ["Ab", "ab"], ["aB"]),
    (r"(?i)[^a]", ["b"], ["a", "A"]),
    (r"(?a)\w+", ["ab_1"], ["é"]),
    (r"\w+", ["é", "漢字", "٣"], ["-"]),
    (r"\d", ["٣"], ["a"]),
    (r"(?a:\d)\d", ["1٣"], ["٣1"]),
    (r"(?x) a b # comment", ["ab"], ["a b"]),
    (r"(?s).", ["\n"], []),
    (r".", ["\r", "\u2028"], ["\n"]),
    (r"[]a]+", ["]a"], ["b"]),
    (r"[a\-z]+", ["a-z"], ["b"]),
    (r"\N{BULLET}\x41\u00e9\U0001F600\101\0", ["•Aé😀A\0"], []),
    (r"(?P<x>a)(?#note)b", ["ab"], []),
    (r"a{,2}", ["", "aa"], ["aaa"]),
    (r"a{2", ["a{2"], ["aa"]),
    (r"a{,}", ["", "aaaa"], ["a{,}"]),
    (r"(?>a|b)c", ["ac", "bc"], ["abc"]),
    (r"a*+b", ["aab", "b"], ["a"]),
    (r"a++$", ["aa"], [""]),
    (r"(?:a|$)b?", ["ab", "a", ""], ["b"]),
    (r"(?:\ba|-)*", ["a-a", "--"], ["aa"]),
    (r"(?:(?!foo).)*", ["bar fo", ""], ["a foo b"]),
]
ECMA = [
    (r"^\d+$", ["12"], ["٣", "12\n"]),
    (r"^\w$", ["_"], ["é"]),
    (r"^\s$", ["\ufeff", "\u00a0", "\u2028"], ["\u200b"]),
    (r"^.$", ["é", "\x85"], ["\n", "\r", "\u2028"]),
    (r"^[^]$", ["\n", "a"], [""]),
    (r"[]", [], ["", "a"]),
    (r"^\-\/\_\@\"$", ['-/_@"'], []),
    (r"^a{,2}$", ["a{,2}"], ["aa"]),
    (r"^{}]$", ["{}]"], []),
    (r"^\u0041\u{1F600}\ud83d\ude00\x41\cA\0$", ["A😀😀A\x01\0"], []),
    (r"^\p{L}\P{L}\p{Script=Greek}$", ["a1α"], ["1aα"]),
    (r"^[\w-.]+$", ["a-."], ["é"]),
    (r"^(?<year>\d{4})$", ["2024"], ["24"]),
    (r"^(?:a|b)(?=c)c$", ["ac"], ["ad"]),
    (r"^(?!x)\w+$", ["ax"], ["xa"]),
    (r"^(?=.*\d)(?=.*[a-z]).{4,8}$", ["abc1"], ["abcd", "1a", "abcdefgh1"]),
    (r"foo", ["foo", "a foo b", "\nfoo\n"], ["fo"]),
    (r"^a|b$", ["ax", "xb"], ["xa", "bx"]),
    (r"^\1$", ["\x01"], []),
    (r"^\bfoo\b", ["foo bar", "foo"], ["food"]),
    (r"^(?i:a)b$", ["Ab"], ["AB"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"", ["", "anything"], []),
]
RUST = [
    (r"\pL\p{Greek}\PN\p{^Lu}", ["aα-x"], ["1ααα"]),
    (r"[[:alpha:][:^ascii:]]+", ["aé"], ["1"]),
    (r"[a-z&&[^aeiou]]+", ["bcd"], ["a"]),
    (r"[a-z--[c-x]]+", ["abyz"], ["c"]),
    (r"[a-c~~b-d]+", ["ad"], ["b"]),
    (r"[\p{L}--\p{Lu}]+", ["aé"], ["A"]),
    (r"\x{1F600}\u{e9}\x41", ["😀éA"], []),
    (r"\Aab\z", ["ab"], ["ab\n"]),
    (r"\Qa.b*\Ec", ["a.b*c"], ["axbc"]),
    (r"(?i)δ", ["Δ", "δ"], ["d"]),
    (r"(?i-u)k", ["K"], ["\u212a"]),
    (r"(?i)k", ["K", "\u212a"], []),
    (r"\d\w\s", ["٣é\u3000"], ["aé "]),
    (r"(?-u:\d\w\s)", ["1a "], ["٣a "]),
    (r"(?s-m:.)(?U)a+", ["\na"], ["a"]),
    (r"(?P<n>a)(?<m>b)", ["ab"], []),
    (r"a**", ["aaa", ""], ["b"]),
    (r"(?x)[ a b ] # c", ["a", "b"], [" "]),
    (r"(?R).", ["a"], ["\r", "\n"]),
    (r"a\b{end}-", ["a-"], ["a"]),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), PYTHON)
def test_python(pattern: str, inside: list[str], outside: list[str]) -> None:
    _check("python", pattern, inside, outside)
    for text in inside:
        assert re.fullmatch(pattern, text), "the table itself is wrong"
    for text in outside:
        assert not re.fullmatch(pattern, text), "the table itself is wrong"


@pytest.mark.parametrize(("pattern", "inside", "outside"), ECMA)
def test_ecma(pattern: str, inside: list[str], outside: list[str]) -> None:
    _check("ecma", pattern, inside, outside, search=True)


@pytest.mark.parametrize(("pattern", "inside", "outside"), RUST)
def test_rust(pattern: str, inside: list[str], outside: list[str]) -> None:
    _check("rust", pattern, inside, outside)


REFUSED = [
    ("python", r"(a)\1", 3),
    ("python", r"(?P<n>a)(?P=n)", 8),
    ("python", r"a(?<=b)c", 1),
    ("python", r"a(?<!b)c", 1),
    ("python", r"(a)?(?(1)b|c)", 4),
    ("python", r"a*+a", 1),
    ("python", r"(?>a|ab)c", 0),
    ("python", r"ab(?i)c", 2),
    ("python", r"\y", 0),
    ("python", r"[b-a]", 1),
    ("python", r"(ab", 0),
    ("python", r"ab)", 2),
    ("python", r"*a", 0),
    ("python", r"a**", 2),
    ("python", r"a{3,2}", 1),
    ("python", r"[ab", 0),
    ("python", "a\\", 1),
    ("python", r"\N{NO SUCH}", 0),
    ("ecma", r"(a)\1", 3),
    ("ecma", r"(?<n>a)\k<n>", 7),
    ("ecma", r"(?<=a)b", 0),
    ("ecma", r"(?i)a", 0),
    ("ecma", r"\p{Klingon}", 0),
    ("ecma", r"\u{110000}", 0),
    ("ecma", r"^*", 1),
    ("ecma", r"a++", 2),
    ("rust", r"(?=a)b", 0),
    ("rust", r"\C", 0),
    ("rust", r"(?-u).", 5),
    ("rust", r"\8", 0),
    ("rust", r"[[:foo:]]", 1),
    ("rust", r"a{", 1),
    ("rust", r"(?z)a", 0),
]


@pytest.mark.parametrize(("dialect", "pattern", "position"), REFUSED)
def test_refused_with_position(dialect: str, pattern: str, position: int) -> None:
    with pytest.raises(RegexError) as caught:
        to_expr(parse(pattern, dialect), Pool())
    assert caught.value.position == position
    assert caught.value.pattern == pattern
    assert f"position {position}" in str(caught.value)


def test_unknown_dialect() -> None:
    with pytest.raises(ConstraintError, match="perl"):
        parse("a", "perl")


@pytest.mark.parametrize(("flags", "inside", "outside"), [("i", "AB", "a\nb"), ("s", "a\nb", "AB"), ("is", "A\nb", "ac")])
def test_flags(flags: str, inside: str, outside: str) -> None:
    _check("python", "a.?b", [inside], [outside], flags=flags)


def test_refused_patterns_leave_the_pool_usable() -> None:
    """An error in the middle of a loop's translation must not leave half a definition behind."""
    pool = Pool()
    for _ in range(2):
        with pytest.raises(RegexError):
            to_expr(r"(?:\b(?:a*+a|b))*", pool)
    expr = to_expr(r"(?:\b(?:a*a|b))*", pool)
    assert pool.matches(expr, b"aaa")


def test_loops_with_assertions_are_shared() -> None:
    pool = Pool()
    assert to_expr(r"(?:(?!foo)\w)*", pool) == to_expr(r"(?:(?!foo)\w)*", pool)


def test_encoder_counts_characters() -> None:
    """Lengths and classes are about characters, however they are spelled."""

    def doubled(pool: Pool, chars: CharSet) -> int:
        spelled = {c: pool.literal(c.encode() * 2) for c in "ab" if c in chars}
        return pool.alt(*spelled.values())

    pool = Pool()
    expr = to_expr("^[^b]", pool, dialect="ecma", search=True, encoder=doubled, min_length=2, max_length=3)
    assert pool.matches(expr, b"aabb")
    assert pool.matches(expr, b"aabbaa")
    assert not pool.matches(expr, b"aa")
    assert not pool.matches(expr, b"bbaa")
    assert not pool.matches(expr, b"aabbaabb")
    negative = to_expr("(?!aa).*", pool, encoder=doubled)
    assert pool.matches(negative, b"aabb")
    assert not pool.matches(negative, b"aaaa")
    assert not pool.matches(negative, b"ab")


def test_lengths_merge_into_counts() -> None:
    pool = Pool()
    expr = to_expr("^[a-z]+$", pool, dialect="ecma", search=True, min_length=2, max_length=10)
    assert expr == pool.repeat(pool.chars(CharSet([(0x61, 0x7A)])), 2, 10)
    opened = to_expr("^[A-Z]", pool, dialect="ecma", search=True, max_length=5)
    assert opened == pool.cat(pool.chars(CharSet([(0x41, 0x5A)])), pool.repeat(pool.chars(ANY), 0, 4))
    assert to_expr("^abc$", pool, dialect="ecma", search=True, max_length=2) == pool.EMPTY
    assert to_expr("^(a|bc|def)$", pool, dialect="ecma", search=True, min_length=2, max_length=2) == pool.literal(b"bc")
