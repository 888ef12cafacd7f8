"""Sets of Unicode code points, properties and case folding.

:class:`CharSet` is an immutable, hashable, sorted list of disjoint inclusive ranges. Property sets come from
the ``regex`` package (its Unicode tables are newer and richer than ``unicodedata``): the whole code space is
scanned once for a property and the result is kept for the process.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import regex as _unicode

__all__ = ["ANY", "EMPTY", "MAX_CODE_POINT", "CharSet", "fold_closure", "property_set", "scan"]

MAX_CODE_POINT = 0x10FFFF


def _normal(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted, disjoint, non-adjacent ranges."""
    out: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        if lo > hi:
            continue
        if out and lo <= out[-1][1] + 1:
            if hi > out[-1][1]:
                out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return tuple(out)


class CharSet:
    """An immutable set of code points 0..0x10FFFF, kept as sorted disjoint inclusive ranges.

    Args:
        ranges: pairs ``(first, last)``, both inclusive, in any order, overlapping or not.

    Iterating yields the ranges; ``len`` is the number of code points; ``&  |  -  ~  ^  <=  in`` do what they say
    (``in`` takes a character or a code point).
    """

    __slots__ = ("_hash", "ranges")

    ranges: tuple[tuple[int, int], ...]
    ANY: CharSet
    EMPTY: CharSet

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        normal = _normal(ranges)
        if normal and (normal[0][0] < 0 or normal[-1][1] > MAX_CODE_POINT):
            raise ValueError(f"code points must be in 0..{MAX_CODE_POINT:#x}, not {normal[0][0]}..{normal[-1][1]}")
        self.ranges = normal
        self._hash = hash(normal)

    @classmethod
    def of(cls, characters: Iterable[str | int]) -> CharSet:
        """The set of the given characters (a string, or an iterable of characters and code points)."""
        points = [c if isinstance(c, int) else ord(c) for c in characters]
        return cls((p, p) for p in points)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.ranges)

    def __len__(self) -> int:
        return sum(hi - lo + 1 for lo, hi in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharSet) and self.ranges == other.ranges

    def __contains__(self, character: str | int) -> bool:
        point = character if isinstance(character, int) else ord(character)
        i = bisect_right(self.ranges, (point, MAX_CODE_POINT + 1)) - 1
        return i >= 0 and self.ranges[i][1] >= point

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet(self.ranges + other.ranges)

    def __and__(self, other: CharSet) -> CharSet:
        out = []
        a, b = self.ranges, other.ranges
        i = j = 0
        while i < len(a) and j < len(b):
            lo, hi = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
            if lo <= hi:
                out.append((lo, hi))
            if a[i][1] < b[j][1]:
                i += 1
            else:
                j += 1
        return CharSet(out)

    def __invert__(self) -> CharSet:
        out, start = [], 0
        for lo, hi in self.ranges:
            out.append((start, lo - 1))
            start = hi + 1
        out.append((start, MAX_CODE_POINT))
        return CharSet(out)

    def __sub__(self, other: CharSet) -> CharSet:
        return self & ~other

    def __xor__(self, other: CharSet) -> CharSet:
        return (self | other) - (self & other)

    def __le__(self, other: CharSet) -> bool:
        """Whether this is a subset."""
        theirs = other.ranges
        for lo, hi in self.ranges:
            i = bisect_right(theirs, (lo, MAX_CODE_POINT + 1)) - 1
            if i < 0 or theirs[i][1] < hi:
                return False
        return True

    def points(self) -> Iterator[int]:
        """Every code point, ascending."""
        for lo, hi in self.ranges:
            yield from range(lo, hi + 1)

    @property
    def ascii_mask(self) -> int:
        """Bits 0..127 of the members below U+0080."""
        mask = 0
        for lo, hi in self.ranges:
            if lo > 0x7F:
                break
            mask |= (1 << (min(hi, 0x7F) + 1)) - (1 << lo)
        return mask

    def __repr__(self) -> str:
        shown = ", ".join(f"{lo:#x}" if lo == hi else f"{lo:#x}-{hi:#x}" for lo, hi in self.ranges[:8])
        return f"CharSet({shown}{', ...' if len(self.ranges) > 8 else ''})"


ANY = CharSet.ANY = CharSet([(0, MAX_CODE_POINT)])
EMPTY = CharSet.EMPTY = CharSet()


@functools.cache
def _all_text() -> str:
    return "".join(map(chr, range(MAX_CODE_POINT + 1)))


def scan(finditer: Callable[[str], Iterable[Any]]) -> CharSet:
    """The characters that a compiled one-class pattern (``[...]+``) finds in the text of all code points."""
    return CharSet((m.start(), m.end() - 1) for m in finditer(_all_text()))


@functools.lru_cache(maxsize=1024)
def property_set(name: str) -> CharSet:
    r"""The characters with a Unicode property, written as inside ``\p{...}``.

    General categories (``L``, ``Lu``, ``Letter``), scripts (``Greek``, ``sc=Grek``, ``Script=Greek``), script
    extensions (``scx=Greek``), blocks and binary properties (``Alphabetic``, ``Emoji`` where the table has it).

    Raises:
        KeyError: there is no such property.
    """
    if not re.fullmatch(r"[A-Za-z0-9_ \-]+([=:][A-Za-z0-9_ \-.]+)?", name):
        raise KeyError(name)
    if name.replace("_", "").replace(" ", "").lower() == "any":
        return ANY
    try:
        pattern = _unicode.compile(rf"\p{{{name}}}+", _unicode.V0)
    except _unicode.error as error:
        raise KeyError(name) from error
    return scan(lambda text: pattern.finditer(text))


@functools.cache
def _fold_classes() -> tuple[CharSet, dict[int, tuple[int, ...]]]:
    """All characters with case variants, and for each of them its whole equivalence class.

    Two characters are variants under *simple* case folding exactly if their full foldings are equal
    strings: where the full folding is one character it is the simple one, and longer foldings are shared
    only by pairs (U+1E9E and U+00DF, U+FB05 and U+FB06, the titlecase Greek letters) that the simple one joins too.
    """
    groups: dict[str, list[int]] = {}
    for point in range(MAX_CODE_POINT + 1):
        character = chr(point)
        folded = character.casefold()
        if folded != character:
            groups.setdefault(folded, []).append(point)
    classes: dict[int, tuple[int, ...]] = {}
    for folded, points in groups.items():
        members = tuple(sorted({*points, *([ord(folded)] if len(folded) == 1 else [])}))
        if len(members) > 1:
            classes.update(dict.fromkeys(members, members))
    return CharSet.of(classes), classes


@functools.lru_cache(maxsize=4096)
def fold_closure(chars: CharSet) -> CharSet:
    """``chars`` with every case variant of its members (Unicode simple case folding)."""
    cased, classes = _fold_classes()
    extra = {p for point in (chars & cased).points() for p in classes[point]}
    return chars | CharSet.of(extra)
