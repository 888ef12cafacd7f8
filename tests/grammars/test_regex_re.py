"""Random patterns against the ``re`` module, and random pairs of patterns against ``interegular``."""

from __future__ import annotations

import random
import re

import interegular
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import LimitError
from grammars.regex.expr import Pool
from grammars.regex.lower import char_length, to_expr

ATOMS = ["a", "b", "c", r"\n", "[ab]", "[^a]", ".", r"\w", r"\S", "\u00e9", " ", r"[^\W\d]", "\U0001f600"]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?m:^)", "(?m:$)"]
REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "{,2}", "{2,}"]


def _pattern(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        return rng.choice(ATOMS)
    inner = [_pattern(rng, depth - 1) for _ in range(2)]
    if kind < 0.5:
        return "".join(inner)
    if kind < 0.62:
        return f"(?:{inner[0]}|{inner[1]})"
    if kind < 0.78:
        return f"(?:{inner[0]}){rng.choice(REPEATS)}"
    if kind < 0.88:
        return rng.choice(PLACES)
    return f"(?{'=' if kind < 0.94 else '!'}{inner[0]})"


def _text(rng: random.Random) -> str:
    return "".join(rng.choice("aaabbbc \n\u00e9_\U0001f600") for _ in range(rng.randint(0, 6)))


def _compare(seed: int, patterns: int) -> int:
    rng, hits = random.Random(seed), 0
    for _ in range(patterns):
        pattern = _pattern(rng, rng.randint(1, 4))
        compiled, pool = re.compile(pattern), Pool()
        whole, anywhere = to_expr(pattern, pool), to_expr(pattern, pool, search=True)
        for _ in range(10):
            text = _text(rng)
            if text == "" and r"\B" in pattern:
                continue  # before version 3.14 the module finds no \B in the empty text
            for expr, match in ((whole, compiled.fullmatch), (anywhere, compiled.search)):
                expected = match(text) is not None
                assert pool.matches(expr, text.encode()) == expected, (pattern, text, match.__name__)
                hits += expected
    return hits


def test_random_patterns_against_re() -> None:
    assert _compare(seed=20, patterns=700) > 1000


@pytest.mark.slow
def test_many_random_patterns_against_re() -> None:
    assert _compare(seed=21, patterns=20_000) > 30_000


def test_mutated_matches() -> None:
    """Members found by our own search are matches of ``re``, and so are their mutations exactly if we say so."""
    rng = random.Random(5)
    for _ in range(300):
        pattern = _pattern(rng, 4)
        compiled, pool = re.compile(pattern), Pool()
        expr = to_expr(pattern, pool)
        member = pool.shortest(expr)
        if member is None:
            assert not any(compiled.fullmatch(_text(rng)) for _ in range(20)), pattern
            continue
        text = member.decode()
        assert compiled.fullmatch(text) or (text == "" and r"\B" in pattern), (pattern, text)
        for _ in range(10):
            at = rng.randint(0, len(text))
            other = text[:at] + rng.choice(["", "a", "b", "\n", " "]) + text[at + rng.randint(0, 1) :]
            if other or r"\B" not in pattern:
                assert pool.matches(expr, other.encode()) == (compiled.fullmatch(other) is not None), (pattern, other)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from(["^[a-z]{1,10}$", "^a*b{2,3}$", "[ab]+", "^(ab){1,4}$", "^(a|bc)*$", "^x?$|^y{3,}$", "a.c", "^(?!ab)[abc]*$"]),
    st.integers(0, 6),
    st.integers(0, 6),
    st.text("abcxyz", max_size=9),
)
def test_lengths(pattern: str, lo: int, extra: int, text: str) -> None:
    pool = Pool()
    hi = lo + extra
    expr = to_expr(pattern, pool, dialect="ecma", search=True, min_length=lo, max_length=hi)
    expected = re.search(pattern, text) is not None and lo <= len(text) <= hi
    assert pool.matches(expr, text.encode()) == expected
    plain = pool.both(to_expr(pattern, pool, dialect="ecma", search=True), char_length(pool, None, lo, hi))
    assert pool.is_empty(pool.minus(expr, plain))
    assert pool.is_empty(pool.minus(plain, expr))


def _simple(rng: random.Random, depth: int) -> str:
    """The subset of patterns that ``interegular`` knows."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(["a", "b", "[ab]", "[^a]", "c"])
    inner = [_simple(rng, depth - 1) for _ in range(2)]
    if kind < 0.6:
        return "".join(inner)
    if kind < 0.8:
        return f"({inner[0]}|{inner[1]})"
    return f"({inner[0]}){rng.choice(['*', '+', '?', '{1,2}'])}"


def test_equivalence_and_intersection_against_interegular() -> None:
    rng, equal, disjoint = random.Random(8), 0, 0
    for _ in range(150):
        left = _simple(rng, 3)
        right = left.replace("(a|b)", "[ab]").replace("+", "{1,}") if rng.random() < 0.4 else _simple(rng, 3)
        a, b = (interegular.parse_pattern(p).to_fsm() for p in (left, right))
        pool = Pool()
        x, y = to_expr(left, pool), to_expr(right, pool)
        same = pool.is_empty(pool.minus(x, y)) and pool.is_empty(pool.minus(y, x))
        assert same == a.equivalent(b), (left, right)
        apart = (a & b).empty()
        assert pool.is_empty(pool.both(x, y)) == apart, (left, right)
        equal += same
        disjoint += apart
    assert equal > 10
    assert disjoint > 10


@pytest.mark.parametrize(
    "pattern",
    [
        "(a|b)*a(a|b){40}",
        "((a{1,100}b?){1,100}c?){1,100}",
        "(?:a?){500}a{500}",
        "(a*)*b",
        "(a|aa)+$",
        "x{0,5000}y{0,5000}",
        "((((a{9}){9}){9}){9}){9}",
        "(.*)*(.*)*(.*)*x",
        "(?=.*a)(?=.*b)(?=.*c)[abc]{3,200}",
    ],
)
def test_hostile_patterns_are_cheap_to_walk(pattern: str) -> None:
    pool = Pool()
    expr = to_expr(pattern, pool)
    assert not pool.is_empty(expr)
    for byte in b"aabacab" * 30:
        following = pool.derivative(expr, byte)
        expr = following or expr
    assert len(pool) < 60_000


def test_hostile_patterns_end_in_errors() -> None:
    pool = Pool(fuel=30_000)
    with pytest.raises(LimitError):
        pool.is_empty(to_expr("(?=[ab]*a[ab]{20}$)[ab]*b[ab]{20}", pool))
    with pytest.raises(LimitError, match="nesting"):
        to_expr("(" * 5000 + "a" + ")" * 5000, pool)
    with pytest.raises(LimitError, match="regex_size"):
        to_expr("a" * 300_000, pool)


@pytest.mark.parametrize("pattern", ["[0-9]{5}", "a.*b.*[cd]", "(?:ab?){3}|x{4}", "(?=.*x)y{2}"])
@pytest.mark.parametrize("room", range(7))
def test_emptiness_within_a_length(pattern: str, room: int) -> None:
    """Room for a match, exactly: as many characters as the shortest match has."""
    pool = Pool()
    shortest = min(n for n in range(8) if not pool.is_empty(to_expr(pattern, pool, search=True, max_length=n)))
    expr = to_expr(pattern, pool, search=True, max_length=room)
    assert pool.is_empty(expr) == (room < shortest)
    member = pool.shortest(expr)
    if member is not None:
        text = member.decode()
        assert re.search(pattern, text)
        assert len(text) == shortest
    for byte in b"zz":  # characters that a match cannot use: room shrinks by one each
        expr = pool.derivative(expr, byte)
    assert pool.is_empty(expr) == (room < shortest + 2)
