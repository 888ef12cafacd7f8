"""Constraints in constraints: sequence, union, repetition, literal text."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.constraint import Constraint, Literal
from grammars.errors import ConstraintError
from grammars.gbnf import Gbnf
from grammars.lark_grammar import Lark
from grammars.patterns import Choice, Regex
from grammars.regex.expr import Pool
from grammars.vocabulary import Vocabulary
from tests.recogniser import Recogniser


class Check:
    """Engine and plain recogniser as one predicate."""

    def __init__(self, constraint: Constraint, vocabulary: Vocabulary) -> None:
        self.automaton, pool = constraint.compile(vocabulary), Pool()
        self.plain = Recogniser(constraint.build(pool), pool)

    def __call__(self, text: str) -> bool:
        data = text.encode()
        verdict = bool(self.automaton.accepts(self.automaton.advance_bytes(self.automaton.start, data)))
        assert verdict == self.plain.accepts(data), text
        return verdict


EXPRESSION = 'start: start "+" NAME | NAME\nNAME: /[a-z]+/\n%ignore " "\n'


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        ("Answer: " + Choice(["yes", "no"]), ["Answer: yes", "Answer: no"], ["Answer: ", "yes", "Answer: yesno"]),
        (Choice(["a", "ab"]) + Choice(["c", "bc"]), ["ac", "abc", "abbc"], ["ab", "abb"]),
        ("<" + Regex(r"\d+") + ">" + Regex(r"\n.*").optional(), ["<12>", "<1>\n", "<1>\nxyz"], ["<>", "<1>x"]),
        (Regex("a+") | "b" | Choice(["c"]), ["aa", "b", "c"], ["ab", ""]),
        ("x" | Literal("y"), ["x", "y"], ["xy"]),
        (Literal("ab").repeat(2, 3), ["abab", "ababab"], ["ab", "abababab", "aba"]),
        (Literal("ab").repeat(), ["", "ab", "ab" * 30], ["aba"]),
        (Literal("a").repeat(1000, 2000), ["a" * 1000, "a" * 2000], ["a" * 999, "a" * 2001]),
        ((Choice(["a", ""]) + ",").repeat(1), [",", "a,,a,"], ["a", ""]),
        (Choice(["", "a"]).repeat(3, 20), ["", "a" * 20], ["a" * 21]),
        (Literal("") + "" + Choice([""]), [""], ["a"]),
        ("f(" + Lark(EXPRESSION) + ")", ["f(a)", "f( a +bc )", "f(a+b)"], ["f()", "f(a b)", "f(a+)"]),
        (Lark(EXPRESSION) + Regex(r";+"), ["a+b;", "a ;;"], ["a", ";"]),
        (Lark(EXPRESSION) + "end", ["a+b end", "aend end"], ["a", "a+end"]),
        (Gbnf('root ::= "(" root? ")"') + Choice(["!", "?"]), ["(())!", "()?"], ["(()!"]),
        (Lark(EXPRESSION) | Regex(r"\d+") | Gbnf("root ::= [A-Z]+"), ["a + b", "12", "XY"], ["1a", "aX", ""]),
        ((Lark(EXPRESSION) + ";").repeat(1, 3), ["a;", "a+b; c ;", "a;b;c;"], ["a;b", "a;b;c;d;"]),
        (("[" + (Regex("[a-z]") | Literal("-").repeat(2, 2)).repeat(0, 2) + "]").repeat(1), ["[]", "[a--][b]"], ["[-]", "[abc]"]),
    ],
    ids=itertools.count(),
)
def test_compositions(constraint: Constraint, good: list[str], bad: list[str], byte_vocab: Vocabulary) -> None:
    check = Check(constraint, byte_vocab)
    assert [check(text) for text in good] == [True] * len(good)
    assert [check(text) for text in bad] == [False] * len(bad)


def test_longest_match_ends_at_the_grammars_edge(byte_vocab: Vocabulary) -> None:
    """A name takes all letters that it can, also those that what follows the grammar would have begun with."""
    check = Check(Lark(EXPRESSION) + "bc", byte_vocab)
    assert check("a bc") and check("a+a bc")
    assert not check("abc") and not check("a+abc")


def test_one_constraint_may_be_used_many_times(byte_vocab: Vocabulary) -> None:
    word = Regex("[a-z]+")
    check = Check(word + "=" + word + "," + word, byte_vocab)
    assert check("a=b,c") and not check("a=b,")


# ---------------------------------------------------------------- against re
@st.composite
def compositions(draw: st.DrawFn, depth: int = 3) -> tuple[Constraint, str]:
    """A constraint and the same language as a pattern for ``re``."""
    kind = draw(st.sampled_from(["literal", "choice", "regex"] if depth == 0 else ["literal", "choice", "regex", "seq", "alt", "rep"]))
    if kind == "literal":
        text = draw(st.text("ab", max_size=2))
        return Literal(text), text
    if kind == "choice":
        options = draw(st.lists(st.text("ab", max_size=3), min_size=1, max_size=4))
        return Choice(options), f"(?:{'|'.join(options)})"
    if kind == "regex":
        pattern = draw(st.sampled_from(["a*", "b+", "[ab]", "a|bb", "(?:ab)*"]))
        return Regex(pattern), f"(?:{pattern})"
    if kind == "rep":
        part, pattern = draw(compositions(depth=depth - 1))
        lo = draw(st.integers(0, 2))
        hi = draw(st.one_of(st.none(), st.integers(lo, lo + 2)))
        return part.repeat(lo, hi), f"(?:{pattern}){{{lo},{'' if hi is None else hi}}}"
    (left, a), (right, b) = draw(compositions(depth=depth - 1)), draw(compositions(depth=depth - 1))
    return (left + right, f"(?:{a})(?:{b})") if kind == "seq" else (left | right, f"(?:{a}|{b})")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(compositions(), st.lists(st.text("ab", max_size=7), min_size=5, max_size=15))
def test_compositions_are_regular_expressions(byte_vocab: Vocabulary, pair: tuple[Constraint, str], words: list[str]) -> None:
    constraint, pattern = pair
    check, compiled = Check(constraint, byte_vocab), re.compile(pattern)
    for word in ["", *words]:
        assert check(word) == (compiled.fullmatch(word) is not None), (pattern, word)


# ---------------------------------------------------------------- refusals
def test_what_is_no_constraint() -> None:
    with pytest.raises(ConstraintError, match="not int"):
        Literal("a") + 3  # type: ignore[operator]
    with pytest.raises(ConstraintError, match="0 <= lo <= hi"):
        Literal("a").repeat(3, 2)
