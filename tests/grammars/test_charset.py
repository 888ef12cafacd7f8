"""Character sets against Python sets, and folding against ``re``."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.regex.charset import ANY, CharSet, fold_closure, property_set

SMALL = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10)).map(lambda t: (t[0], t[0] + t[1])), max_size=6)


def _points(ranges: list[tuple[int, int]]) -> set[int]:
    return {p for lo, hi in ranges for p in range(lo, hi + 1)}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(SMALL, SMALL)
def test_set_algebra(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a, b = CharSet(left), CharSet(right)
    x, y = _points(left), _points(right)
    for made, expected in [(a | b, x | y), (a & b, x & y), (a - b, x - y), (a ^ b, x ^ y)]:
        assert set(made.points()) == expected
        assert len(made) == len(expected)
        assert made == CharSet.of(expected)
        assert hash(made) == hash(CharSet.of(expected))
        assert all(lo <= hi for lo, hi in made)
        assert all(made.ranges[i][1] + 1 < made.ranges[i + 1][0] for i in range(len(made.ranges) - 1))
    assert ~~a == a
    assert ~a | a == ANY
    for point in range(0, 75, 3):
        assert (point in a) == (point in x)


def test_bounds() -> None:
    assert "a" in CharSet.of("abc")
    assert 0x110000 not in ANY
    with pytest.raises(ValueError, match="code points"):
        CharSet([(0, 0x110000)])
    assert CharSet([(5, 4)]) == CharSet.EMPTY
    assert CharSet.of("a\u00e9").ascii_mask == 1 << ord("a")


@pytest.mark.parametrize("category", ["Lu", "Nd", "Zs", "Pc"])
def test_categories(category: str) -> None:
    """The two Unicode versions differ only in characters that one of them does not know."""
    ours = property_set(category)
    for point in range(0x3000):
        name = unicodedata.category(chr(point))
        if name != "Cn":
            assert (point in ours) == (name == category), hex(point)


def test_properties() -> None:
    assert "\u03b1" in property_set("Greek")
    assert "\u03b1" in property_set("Script=Greek")
    assert "a" in property_set("Alphabetic")
    assert property_set("L") & property_set("N") == CharSet.EMPTY
    for bad in ("NoSuchThing", "L}x{", "", "Script=Klingonese"):
        with pytest.raises(KeyError):
            property_set(bad)


def test_folding_is_that_of_re() -> None:
    """Python's module joins the dotted and dotless i too; apart from them the classes agree."""
    for c in "kK\u212asS\u017f\u00df\u1e9e\u03c3\u03c2\u03a3\u01c5\u00b5\ufb05\u1f80a1":
        ours = {chr(p) for p in fold_closure(CharSet.of(c)).points()}
        theirs = set(re.findall(f"(?i:{c})", "".join(map(chr, range(0x20000)))))
        assert ours == theirs, (c, ours, theirs)
