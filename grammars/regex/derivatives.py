"""Derivatives: what is left of each kind of expression after one byte, for all bytes at once.

A result is a list of pairs of a byte mask and an expression; masks are disjoint, expressions distinct. Languages of the
expressions may be empty here (:meth:`~grammars.regex.expr.Pool.transitions` leaves those out).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .kinds import ALL_BYTES, CAT
from .leaves import Leaf

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["MAKERS", "Parts"]

Parts = Sequence[tuple[int, int]]


def _nothing(pool: Pool) -> Parts:
    return ()


def _bytes(pool: Pool, mask: int) -> Parts:
    return ((mask, 1),)


def _literal(pool: Pool, data: bytes) -> Parts:
    return ((1 << data[0], pool.literal_piece(data[1:])),)


def _attach(pool: Pool, parts: Parts, rest: int) -> Parts:
    """Moves that go on with ``rest``."""
    if len(parts) == 1:
        return [(parts[0][0], pool.cat(parts[0][1], rest))]
    merged: dict[int, int] = {}
    for mask, target in parts:
        target = pool.cat(target, rest)
        merged[target] = merged.get(target, 0) | mask
    return [(mask, target) for target, mask in merged.items()]


def _cat(pool: Pool, a: int, b: int) -> Parts:
    first = _attach(pool, pool.raw(a), b)
    if not pool.nullable(a):
        return first
    lists = [first]
    while True:  # a chain of nullable heads, without recursion
        if pool.kinds[b] != CAT:
            lists.append(pool.raw(b))
            break
        a, b = pool.args[b]
        lists.append(_attach(pool, pool.raw(a), b))
        if not pool.nullable(a):
            break
    return _join(pool, lists)


def _alt(pool: Pool, *members: int) -> Parts:
    return _join(pool, [pool.raw(m) for m in members])


def _join(pool: Pool, lists: Sequence[Parts]) -> Parts:
    """The union of several transition lists."""
    groups: dict[int, set[int]] = {}
    for parts in lists:
        for mask, target in parts:
            groups.setdefault(mask, set()).add(target)
    split: list[tuple[int, set[int]]] = []
    seen = 0
    for mask, targets in groups.items():
        if mask & seen:
            rest, out = mask, []
            for m, ts in split:
                common = m & rest
                if not common:
                    out.append((m, ts))
                    continue
                out.append((common, ts | targets))
                if m != common:
                    out.append((m ^ common, ts))
                rest ^= common
            split = out
            mask, seen = rest, seen | mask
            if not rest:
                continue
        seen |= mask
        split.append((mask, targets))
    merged: dict[int, int] = {}
    for mask, targets in split:
        target = next(iter(targets)) if len(targets) == 1 else pool.alt(*targets)
        merged[target] = merged.get(target, 0) | mask
    return [(mask, target) for target, mask in merged.items() if target]


def _both(pool: Pool, *members: int) -> Parts:
    parts: list[tuple[int, tuple[int, ...]]] = [(ALL_BYTES, ())]
    for e in members:
        moves = pool.raw(e)
        parts = [(m & mask, (*ts, t)) for m, ts in parts for mask, t in moves if m & mask]
    merged: dict[int, int] = {}
    for mask, targets in parts:
        target = pool.both(*targets)
        merged[target] = merged.get(target, 0) | mask
    return [(mask, target) for target, mask in merged.items() if target]


def _not(pool: Pool, e: int) -> Parts:
    merged: dict[int, int] = {}
    rest = pool.universe
    for mask, target in pool.raw(e):
        mask &= pool.universe
        rest &= ~mask
        target = pool.negate(target)
        if mask and target:
            merged[target] = merged.get(target, 0) | mask
    if rest:
        merged[pool.anything] = merged.get(pool.anything, 0) | rest
    return [(mask, target) for target, mask in merged.items()]


def _repeat(pool: Pool, body: int, lo: int, hi: int | None) -> Parts:
    rest = pool.repeat(body, max(lo - 1, 0), None if hi is None else hi - 1)
    return _attach(pool, pool.raw(body), rest)


def _leaf(pool: Pool, leaf: Leaf) -> Parts:
    return [(m, 1 if t is None else t if isinstance(t, int) else pool.leaf(t)) for m, t in leaf.transitions()]


def _words(pool: Pool, number: int, lo: int, hi: int, depth: int) -> Parts:
    words = pool.words[number]
    lo += len(words[lo]) == depth
    merged: dict[int, int] = {}
    while lo < hi:
        byte = words[lo][depth]
        end = bisect_right(words, byte, lo, hi, key=lambda w: w[depth])
        target = pool.word_range(number, lo, end, depth + 1)
        merged[target] = merged.get(target, 0) | 1 << byte
        lo = end
    return [(mask, target) for target, mask in merged.items()]


def _variable(pool: Pool, number: int) -> Parts:
    return pool.raw(pool.definitions[number])


# By kind, in the order of :mod:`.kinds`.
MAKERS: tuple[Callable[..., Parts], ...] = (
    _nothing,
    _nothing,
    _bytes,
    _literal,
    _cat,
    _alt,
    _both,
    _not,
    _repeat,
    _leaf,
    _words,
    _variable,
)
