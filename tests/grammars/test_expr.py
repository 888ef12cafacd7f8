"""The expression pool against brute force on a two-letter alphabet, and its costs on big counts and word lists."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from grammars.errors import LimitError
from grammars.regex.charset import ANY, CharSet, property_set
from grammars.regex.expr import ALL_BYTES, Pool

LONGEST = 5
AB = 1 << ord("a") | 1 << ord("b")
WORDS = [bytes(w) for n in range(LONGEST + 1) for w in product(b"ab", repeat=n)]
Language = frozenset[bytes]


def _cat(a: Language, b: Language) -> Language:
    return frozenset(x + y for x in a for y in b if len(x) + len(y) <= LONGEST)


def _repeat(a: Language, lo: int, hi: int | None) -> Language:
    out: set[bytes] = set()
    power = frozenset({b""})
    for n in range(lo + LONGEST + 1 if hi is None else hi + 1):
        if n >= lo:
            out |= power
        power = _cat(power, a)
    return frozenset(out)


# Trees: ("cat", x, y), ("repeat", x, lo, hi), ...
def _trees(size: int = 8) -> st.SearchStrategy[Any]:
    leaf = st.one_of(
        st.sampled_from([("literal", w) for w in WORDS if len(w) <= 3]),
        st.sampled_from([("bytes", AB), ("bytes", 1 << ord("a")), ("bytes", 0)]),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(lambda ws: ("choice", tuple(ws))),
    )
    counts = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)))

    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.tuples(st.just("cat"), inner, inner),
            st.tuples(st.just("alt"), inner, inner, inner),
            st.tuples(st.just("both"), inner, inner),
            st.tuples(st.just("negate"), inner),
            st.tuples(st.just("minus"), inner, inner),
            st.tuples(st.just("nonnull"), inner),
            st.builds(lambda x, c: ("repeat", x, c[0], None if c[1] is None else c[0] + c[1]), inner, counts),
        )

    return st.recursive(leaf, extend, max_leaves=size)


def _make(pool: Pool, tree: Any) -> tuple[int, Language]:
    kind, *rest = tree
    if kind == "literal":
        return pool.literal(rest[0]), frozenset({rest[0]})
    if kind == "bytes":
        return pool.byteset(rest[0]), frozenset(bytes((b,)) for b in b"ab" if rest[0] >> b & 1)
    if kind == "choice":
        return pool.choice(rest[0]), frozenset(rest[0])
    if kind == "repeat":
        e, language = _make(pool, rest[0])
        return pool.repeat(e, rest[1], rest[2]), _repeat(language, rest[1], rest[2])
    parts = [_make(pool, x) for x in rest]
    e = getattr(pool, kind)(*(p[0] for p in parts))
    languages = [p[1] for p in parts]
    everything = frozenset(WORDS)
    meaning: dict[str, Callable[[], Language]] = {
        "cat": lambda: _cat(*languages),
        "alt": lambda: languages[0] | languages[1] | languages[2],
        "both": lambda: languages[0] & languages[1],
        "negate": lambda: everything - languages[0],
        "minus": lambda: languages[0] - languages[1],
        "nonnull": lambda: languages[0] - {b""},
    }
    return e, meaning[kind]()


def _alive(pool: Pool, e: int, word: bytes) -> tuple[bool, bool]:
    """(accepts, can be completed) after ``word``."""
    for byte in word:
        e = pool.derivative(e, byte)
    return pool.nullable(e), not pool.is_empty(e)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(_trees())
def test_languages(tree: Any) -> None:
    pool = Pool(writable_bytes=AB)
    e, language = _make(pool, tree)
    for word in WORDS:
        assert pool.matches(e, word) == (word in language)
    for mask, target in pool.transitions(e):
        assert mask & ~AB == 0
        assert not pool.is_empty(target)
    shortest = pool.shortest(e)
    if language:
        best = min(map(len, language))
        assert shortest is not None
        assert shortest in language
        assert len(shortest) == best == pool.min_length(e)
        assert not pool.is_empty(e)
    elif shortest is None:
        assert pool.is_empty(e)
        assert not pool.transitions(e)
    else:
        assert len(shortest) > LONGEST
        assert pool.matches(e, shortest)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(_trees(), st.integers(0, 4))
def test_alive_means_completable(tree: Any, k: int) -> None:
    """A state is alive exactly if a word leads on from it; and cutting at a horizon changes no answer within it."""
    pool = Pool(writable_bytes=AB)
    e, language = _make(pool, tree)
    cut = pool.saturate(e, k)
    for word in WORDS:
        accepts, alive = _alive(pool, e, word)
        if any(w.startswith(word) for w in language):
            assert alive
        if len(word) <= k:
            assert _alive(pool, cut, word) == (accepts, alive)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(_trees(4), _trees(4))
def test_laws(left: Any, right: Any) -> None:
    """Equal by algebra means the difference is empty, also for words longer than brute force reaches."""
    pool = Pool(writable_bytes=AB, fuel=50_000)
    a, b = _make(pool, left)[0], _make(pool, right)[0]
    for x, y in [
        (pool.negate(pool.alt(a, b)), pool.both(pool.negate(a), pool.negate(b))),
        (pool.alt(a, pool.both(a, b)), a),
        (pool.star(pool.alt(a, b)), pool.star(pool.cat(pool.star(a), pool.star(b)))),
        (pool.alt(pool.minus(a, b), pool.both(a, b)), a),
    ]:
        try:
            assert pool.is_empty(pool.minus(x, y))
            assert pool.is_empty(pool.minus(y, x))
        except LimitError:
            reject()  # too many states to compare


def test_partition_is_disjoint_and_complete() -> None:
    pool = Pool()
    e = pool.alt(pool.cat(pool.chars(property_set("L")), pool.literal(b"x")), pool.chars(CharSet([(0x20, 0x10FFFF)])), pool.literal(b"abc"))
    seen = 0
    for mask, target in pool.transitions(e):
        assert mask & seen == 0
        assert target != pool.EMPTY
        seen |= mask
    text = "\u00e9x"
    assert pool.matches(e, text.encode())
    assert not pool.matches(e, b"1x")


@pytest.mark.parametrize(
    "chars", [ANY, property_set("L"), CharSet.of("a\u00e9\u20ac\U0001f600"), ~CharSet.of("\n"), CharSet([(0x7F, 0x80)])]
)
def test_utf8_classes(chars: CharSet) -> None:
    pool = Pool()
    e = pool.chars(chars)
    edges = {p for lo, hi in chars.ranges for p in (lo - 1, lo, hi, hi + 1)} | {0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF}
    for point in edges:
        if 0 <= point <= 0x10FFFF and not 0xD800 <= point < 0xE000:
            assert pool.matches(e, chr(point).encode()) == (point in chars), hex(point)
    for broken in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe2\x82"):
        assert not pool.matches(e, broken)


def test_writable() -> None:
    pool = Pool(writable=CharSet.of("ab\u00e9"), writable_bytes=AB)
    assert pool.literal(b"xa") == pool.EMPTY
    assert pool.matches(pool.literal("b\u00e9".encode()), "b\u00e9".encode())
    assert pool.chars(CharSet.of("xyz")) == pool.EMPTY
    assert pool.shortest(pool.chars(ANY - CharSet.of("ab"))) == "\u00e9".encode()
    rest = pool.both(pool.negate(pool.literal(b"a")), pool.any_text(), pool.repeat(pool.chars(ANY), 1, 1))
    assert pool.matches(rest, "\u00e9".encode())
    assert not pool.matches(rest, b"x")


def test_equal_expressions_are_equal_ids() -> None:
    pool = Pool()
    a, b = pool.literal(b"a"), pool.literal(b"b")
    assert pool.alt(a, b) == pool.alt(b, a, b) == pool.byteset(AB)
    assert pool.cat(pool.cat(a, b), a) == pool.literal(b"aba")
    assert pool.opt(pool.plus(a)) == pool.star(a) == pool.alt(pool.EPSILON, pool.plus(a))
    assert pool.repeat(pool.repeat(a, 1, 100), 1, 100) == pool.repeat(a, 1, 10_000)
    assert pool.negate(pool.negate(a)) == a
    assert pool.both(a, pool.negate(a)) == pool.EMPTY
    assert pool.both(pool.star(pool.chars(ANY)), pool.repeat(pool.byteset(AB), 3, None)) == pool.repeat(pool.byteset(AB), 3, None)
    assert pool.both(pool.repeat(pool.chars(ANY), 2, 9), pool.repeat(pool.byteset(AB), 3, 20)) == pool.repeat(pool.byteset(AB), 3, 9)
    long = bytes(range(97, 123)) * 20
    assert pool.cat(*(pool.literal(long[i : i + 7]) for i in range(0, len(long), 7))) == pool.literal(long)


def test_big_counts_cost_only_what_is_visited() -> None:
    pool = Pool()
    e = pool.repeat(pool.chars(~CharSet.of('"')), 0, 5000)
    for byte in b"hello" * 10:
        e = pool.derivative(e, byte)
    assert len(pool) < 1000
    assert pool.saturate(e, 32) == pool.star(pool.chars(~CharSet.of('"')))
    huge = pool.repeat(pool.repeat(pool.literal(b"ab"), 10**6, 10**6), 10**6, 10**6)
    assert pool.min_length(huge) == 2 * 10**12
    with pytest.raises(LimitError):
        pool.shortest(huge)


def test_nested_counts_stay_small() -> None:
    pool = Pool()
    a, b = pool.literal(b"a"), pool.literal(b"b")
    e = pool.repeat(pool.cat(pool.repeat(a, 1, 100), pool.opt(b)), 1, 100)
    before = len(pool)
    for byte in b"a" * 300:
        e = pool.derivative(e, byte)
    assert len(pool) - before < 10_000
    assert len(pool.show(e)) < 500


def test_many_words() -> None:
    pool = Pool()
    words = [f"{i * 7919 % 100_003}" for i in range(10_000)]
    e = pool.alt(*(pool.literal(w.encode()) for w in words))
    inside = set(words)
    for i in range(0, 100_003, 97):
        assert pool.matches(e, str(i).encode()) == (str(i) in inside)
    assert len(pool) < 50_000
    short = pool.both(e, pool.repeat(pool.byteset(ALL_BYTES), 1, 2))
    assert sorted(w for w in inside if len(w) <= 2) == sorted(str(i) for i in range(100) if pool.matches(short, str(i).encode()))


def test_fuel() -> None:
    """A search over exponentially many states ends in an error that names the limit."""
    pool = Pool(fuel=20_000)
    letters = pool.byteset(AB)
    a, b = (pool.cat(pool.star(letters), pool.literal(x), pool.repeat(letters, 20, 20)) for x in (b"a", b"b"))
    e = pool.both(a, b)
    with pytest.raises(LimitError) as caught:
        pool.is_empty(e)
    assert caught.value.limit == "fuel"


def test_recursive_variable() -> None:
    """X = b | a X, as a variable."""
    pool = Pool()
    x, new = pool.variable("x", False)
    assert new
    pool.define(x, pool.alt(pool.literal(b"b"), pool.cat(pool.literal(b"a"), x)))
    assert pool.variable("x", False) == (x, False)
    same = pool.cat(pool.star(pool.literal(b"a")), pool.literal(b"b"))
    assert pool.is_empty(pool.minus(x, same))
    assert pool.is_empty(pool.minus(same, x))
    assert pool.shortest(pool.cat(pool.literal(b"c"), x)) == b"cb"
