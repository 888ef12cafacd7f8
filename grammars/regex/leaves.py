"""Leaves: small automata that an expression pool expands lazily.

:class:`Leaf` is the protocol for user-defined ones; :class:`Utf8` is one UTF-8 encoded character out of a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .charset import CharSet

__all__ = ["Leaf", "Utf8", "utf8_length"]


class Leaf(Protocol):
    """A state of a user-defined byte automaton; hashable and equal by content.

    Every state must have a non-empty language, and equal remaining languages should be equal objects.
    A class may also carry ``prefix_free = True`` (no member is a proper prefix of another), which lets
    counted repetitions of it be intersected by arithmetic.
    It may carry ``remainder``, the most bytes of a shortest completion after anything that may have been read (see
    :mod:`.remainder`).
    """

    @property
    def nullable(self) -> bool:
        """Whether the empty string is in the language."""
        ...

    def transitions(self) -> Sequence[tuple[int, Leaf | int | None]]:
        """Pairs of a byte mask (bit ``b`` for byte ``b``; disjoint) and the state after it (``None``: only the empty string is left).

        A leaf that belongs to one pool may also go on with one of its expressions (its id).
        """
        ...


Ranges = tuple[tuple[int, int], ...]

# (first code point, last code point, lead byte base, continuation bytes)
_FORMS = ((0x80, 0x7FF, 0xC0, 1), (0x800, 0xFFFF, 0xE0, 2), (0x10000, 0x10FFFF, 0xF0, 3))
_NO_SURROGATES = ~CharSet([(0xD800, 0xDFFF)])


def utf8_length(point: int) -> int:
    """Bytes of a code point in UTF-8."""
    return 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4


def _split(ranges: Ranges, shift: int) -> list[tuple[int, Ranges]]:
    """Groups a sorted range list by ``value >> shift``; the groups' ranges are relative (low bits)."""
    parts: dict[int, list[tuple[int, int]]] = {}
    size = 1 << shift
    for lo, hi in ranges:
        for head in range(lo >> shift, (hi >> shift) + 1):
            base = head << shift
            parts.setdefault(head, []).append((max(lo - base, 0), min(hi - base, size - 1)))
    return [(head, tuple(part)) for head, part in sorted(parts.items())]


class Utf8:
    """What is left of one UTF-8 character: ``remaining`` continuation bytes whose joint value is in ``ranges``.

    ``remaining == 0`` is the state before the first byte, with code points as values. Equal tails are
    equal objects, whatever the lead byte was.
    """

    __slots__ = ("_hash", "ranges", "remaining")
    nullable = False
    prefix_free = True
    remainder = 4

    def __init__(self, ranges: Ranges, remaining: int = 0) -> None:
        self.ranges, self.remaining = ranges, remaining
        self._hash = hash((ranges, remaining))

    @classmethod
    def of(cls, chars: CharSet) -> Utf8:
        """One character out of ``chars`` (surrogates cannot be encoded and are left out; the rest must not be empty)."""
        return cls((chars & _NO_SURROGATES).ranges)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Utf8) and self.remaining == other.remaining and self.ranges == other.ranges

    def __repr__(self) -> str:
        return f"Utf8({self.remaining}, {len(self.ranges)} ranges)"

    @property
    def mask(self) -> int:
        """The byte mask of a state with one byte to come (``remaining == 1``)."""
        mask = 0
        for lo, hi in self.ranges:
            mask |= (1 << (hi + 1)) - (1 << lo)
        return mask << 0x80

    @property
    def min_length(self) -> int:
        return self.remaining or utf8_length(self.ranges[0][0])

    def transitions(self) -> Sequence[tuple[int, Leaf | None]]:
        if self.remaining == 1:
            return [(self.mask, None)]
        merged: dict[Utf8 | None, int] = {}
        if self.remaining:
            for head, part in _split(self.ranges, 6 * (self.remaining - 1)):
                tail = Utf8(part, self.remaining - 1)
                merged[tail] = merged.get(tail, 0) | 1 << (0x80 + head)
        else:
            chars = CharSet(self.ranges)
            if chars.ascii_mask:
                merged[None] = chars.ascii_mask
            for first, last, lead, count in _FORMS:
                for head, part in _split((chars & CharSet([(first, last)])).ranges, 6 * count):
                    tail = Utf8(part, count)
                    merged[tail] = merged.get(tail, 0) | 1 << (lead + head)
        return [(mask, tail) for tail, mask in merged.items()]
