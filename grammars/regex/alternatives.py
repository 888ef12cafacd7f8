"""Simplifications that keep unions and intersections small.

*Unions*: expressions that differ only in the counts of their first repetitions are compared by their
counts: ``x{0,3}y | x{0,5}y`` is ``x{0,5}y``, ``x{2}|x{3}`` is ``x{2,3}``. Without this the derivatives of
nested counts (``(x{1,100}y?){1,100}``) would hold one member for every pair of counts.

*Intersections*: two repetitions of the same prefix-free code, or of two sets of characters, intersect by arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .charset import CharSet
from .kinds import ALT, BYTES, CAT, LEAF, LITERAL, REPEAT
from .leaves import Utf8

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["Shape", "charset_of", "intersect_repeats", "prefix_free", "simplify"]

# The first few factors of a concatenation, repetitions by their body, then what follows; and the counts of the repetitions.
Shape = tuple[tuple[tuple[bool, int], ...], tuple[tuple[int, int | None], ...]]

_DEPTH = 4
_PAIRWISE = 64  # groups larger than this are not compared pair by pair


def _shape(pool: Pool, e: int) -> Shape | None:
    """The shape of ``e``, or ``None`` where no repetition is among its first factors."""
    factors: list[tuple[bool, int]] = []
    counts: list[tuple[int, int | None]] = []
    rest = e
    while rest != 1 and len(factors) < _DEPTH:
        head, rest = pool.args[rest] if pool.kinds[rest] == CAT else (rest, 1)
        if pool.kinds[head] == REPEAT:
            body, lo, hi = pool.args[head]
            factors.append((True, body))
            counts.append((lo, hi))
        else:
            factors.append((False, head))
    if not counts:
        return None
    return (*factors, (False, rest)), tuple(counts)


def _build(pool: Pool, shape: Shape) -> int:
    factors, counts = shape
    parts, left = [], iter(counts)
    for repeated, e in factors:
        parts.append(pool.repeat(e, *next(left)) if repeated else e)
    return pool.cat(*parts)


def _covers(big: tuple[int, int | None], small: tuple[int, int | None]) -> bool:
    return big[0] <= small[0] and (big[1] is None or (small[1] is not None and small[1] <= big[1]))


def _merge_intervals(counts: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    out: list[tuple[int, int | None]] = []
    for lo, hi in sorted(counts, key=lambda c: c[0]):
        if out and (out[-1][1] is None or lo <= out[-1][1] + 1):
            last = out[-1][1]
            out[-1] = (out[-1][0], None if last is None or hi is None else max(last, hi))
        else:
            out.append((lo, hi))
    return out


def _merge(counts: list[tuple[tuple[int, int | None], ...]]) -> list[tuple[tuple[int, int | None], ...]]:
    """A smaller list of count vectors with the same union of languages."""
    if len(counts[0]) == 1:
        return [(c,) for c in _merge_intervals([v[0] for v in counts])]
    if len(counts) > _PAIRWISE:
        return counts
    kept: list[tuple[tuple[int, int | None], ...]] = []
    for i, small in enumerate(counts):
        rivals = kept + counts[i + 1 :]
        if not any(all(_covers(b, s) for b, s in zip(big, small, strict=True)) for big in rivals):
            kept.append(small)
    return kept


def _merge_chars(pool: Pool, flat: set[int]) -> set[int]:
    """Joins the UTF-8 classes among the members that await the same number of bytes."""
    groups: dict[int, list[int]] = {}
    for e in flat:
        if pool.kinds[e] == LEAF and type(pool.args[e][0]) is Utf8:
            groups.setdefault(pool.args[e][0].remaining, []).append(e)
    for remaining, members in groups.items():
        if len(members) > 1:
            ranges = [r for e in members for r in pool.args[e][0].ranges]
            flat = (flat - set(members)) | {pool.leaf(Utf8(CharSet(ranges).ranges, remaining))}
    return flat


def simplify(pool: Pool, flat: set[int]) -> set[int]:
    """A smaller set of members with the same union."""
    groups: dict[tuple[tuple[bool, int], ...], list[int]] = {}
    memo = pool.shape_memo
    for e in flat:
        if e in memo:
            shape = memo[e]
        else:
            shape = memo[e] = _shape(pool, e)
        if shape is not None:
            groups.setdefault(shape[0], []).append(e)
    for key, members in groups.items():
        if len(members) > 1:
            counts = [shape[1] for shape in (memo[e] for e in members) if shape is not None]
            merged = _merge(counts)
            if len(merged) < len(counts):
                flat = (flat - set(members)) | {_build(pool, (key, c)) for c in merged}
    return _merge_chars(pool, flat)


def charset_of(pool: Pool, e: int) -> CharSet | None:
    """The characters, if ``e`` is one UTF-8 encoded character out of a set; else ``None``."""
    kind = pool.kinds[e]
    if kind == LEAF:
        leaf = pool.args[e][0]
        return CharSet(leaf.ranges) if type(leaf) is Utf8 and leaf.remaining == 0 else None
    if kind == LITERAL:
        try:
            text = pool.args[e][0].decode()
        except UnicodeDecodeError:
            return None
        return CharSet.of(text) if len(text) == 1 else None
    if kind == BYTES and pool.args[e][0] < 1 << 128:
        return CharSet.of(b for b in range(128) if pool.args[e][0] >> b & 1)
    return None


def intersect_repeats(pool: Pool, flat: set[int]) -> set[int]:
    """A smaller set of members with the same intersection."""
    single = [e for e in flat if pool.kinds[e] in (BYTES, LEAF, LITERAL) and charset_of(pool, e) is not None]
    repeats = [e for e in flat if pool.kinds[e] == REPEAT]
    if len(single) + len(repeats) < 2:
        return flat
    texts: list[tuple[int, CharSet, int, int | None]] = []
    bodies: dict[int, list[int]] = {}
    for e in single:
        chars = charset_of(pool, e)
        if chars is not None:
            texts.append((e, chars, 1, 1))
    for e in repeats:
        body, lo, hi = pool.args[e]
        chars = charset_of(pool, body)
        if chars is not None:
            texts.append((e, chars, lo, hi))
        elif prefix_free(pool, body):
            bodies.setdefault(body, []).append(e)
    if len(texts) > 1:
        common = texts[0][1]
        for _, chars, _, _ in texts[1:]:
            common &= chars
        joint = _counted(pool, pool.chars(common), [(lo, hi) for _, _, lo, hi in texts])
        flat = (flat - {e for e, _, _, _ in texts}) | {joint}
    for body, members in bodies.items():
        if len(members) > 1:
            joint = _counted(pool, body, [pool.args[e][1:] for e in members])
            flat = (flat - set(members)) | {joint}
    return flat


def _counted(pool: Pool, body: int, counts: list[tuple[int, int | None]]) -> int:
    lo = max(c[0] for c in counts)
    hi = min((c[1] for c in counts if c[1] is not None), default=None)
    return 0 if hi is not None and hi < lo else pool.repeat(body, lo, hi)


def prefix_free(pool: Pool, e: int) -> bool:
    """Whether ``e`` is certainly a prefix-free code."""
    kind, args = pool.kinds[e], pool.args[e]
    if kind in (BYTES, LITERAL):
        return True
    if kind == LEAF:
        return bool(getattr(args[0], "prefix_free", False))
    if kind == REPEAT:
        return args[1] == args[2] and prefix_free(pool, args[0])
    if kind == CAT:
        return prefix_free(pool, args[0]) and prefix_free(pool, args[1])
    if kind != ALT:
        return False
    seen = 0
    for member in args:
        mask = 0
        for m, _ in pool.raw(member):
            mask |= m
        if mask & seen or not prefix_free(pool, member):
            return False
        seen |= mask
    return True
