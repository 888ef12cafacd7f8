"""Simplifications that keep unions and intersections small.

*Unions*: expressions that differ only in the counts of their first repetitions are compared by their
counts: ``x{0,3}y | x{0,5}y`` is ``x{0,5}y``, ``x{2}|x{3}`` is ``x{2,3}``. Without this the derivatives of
nested counts (``(x{1,100}y?){1,100}``) would hold one member for every pair of counts.

*Intersections*: two repetitions of the same prefix-free code, or of two sets of characters, intersect by arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .charset import CharSet
from .kinds import ALT, BYTES, CAT, LEAF, LITERAL, REPEAT
from .leaves import Utf8

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["Encoder", "Shape", "charsets_of", "intersect_repeats", "prefix_free", "simplify", "within"]

# One character out of a set, as it is written.
Encoder = Callable[["Pool", CharSet], int]
# The first few factors of a concatenation, repetitions by their body, then what follows; and the counts of the repetitions.
Counts = tuple[tuple[int, int | None], ...]
Shape = tuple[tuple[tuple[bool, int], ...], Counts]

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


def _merge(counts: list[Counts]) -> list[Counts]:
    """A smaller list of count vectors with the same union of languages."""
    for at in range(len(counts[0])):  # vectors that differ in one place only
        groups: dict[Counts, list[tuple[int, int | None]]] = {}
        for vector in counts:
            groups.setdefault(vector[:at] + vector[at + 1 :], []).append(vector[at])
        if len(groups) < len(counts):
            counts = [(*rest[:at], c, *rest[at:]) for rest, cs in groups.items() for c in _merge_intervals(cs)]
    if len(counts) > _PAIRWISE or len(counts[0]) == 1:
        return counts
    kept: list[Counts] = []
    for i, small in enumerate(counts):
        rivals = kept + counts[i + 1 :]
        if not any(all(map(_covers, big, small)) for big in rivals):
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
    return _merge_chars(pool, _absorb(pool, flat))


def charsets_of(pool: Pool, e: int) -> dict[Encoder | None, CharSet]:
    """The sets of characters that ``e`` is *one* character out of, by way of writing (``None``: UTF-8); empty if it is something else."""
    found = pool.charset_memo.get(e)
    if found is None:
        chars = _utf8_charset(pool, e)
        found = pool.charset_memo[e] = {} if chars is None else {None: chars}
    return found


def _utf8_charset(pool: Pool, e: int) -> CharSet | None:
    kind = pool.kinds[e]
    if kind == LEAF:
        leaf = pool.args[e][0]
        return CharSet(leaf.ranges) if type(leaf) is Utf8 and leaf.remaining == 0 else None
    if kind == LITERAL and len(pool.args[e][0]) <= 4:
        try:
            text = pool.args[e][0].decode()
        except UnicodeDecodeError:
            return None
        return CharSet.of(text) if len(text) == 1 else None
    if kind == BYTES and pool.args[e][0] < 1 << 128:
        return CharSet(_runs(pool.args[e][0]))
    return None


def _runs(mask: int) -> list[tuple[int, int]]:
    """The runs of set bits."""
    out, at = [], 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        length = (~mask & (mask + 1)).bit_length() - 1
        out.append((at + skip, at + skip + length - 1))
        mask >>= length
        at += skip + length
    return out


def within(pool: Pool, small: int, big: int) -> bool:
    """Whether both are characters out of sets, and the first set is part of the second (otherwise: not known)."""
    found = pool.within_memo.get((small, big))
    if found is None:
        a, b = charsets_of(pool, small), charsets_of(pool, big)
        found = small == big or any(encoder in b and chars <= b[encoder] for encoder, chars in a.items())
        pool.within_memo[small, big] = found
    return found


def _spelled(pool: Pool, e: int, body: int) -> bool:
    """Whether ``e`` is certainly part of ``body*``, a star over characters; looks at the first factors only."""
    for _ in range(2 * _DEPTH):
        if e == 1:
            return True
        head, e = pool.args[e] if pool.kinds[e] == CAT else (e, 1)
        if not within(pool, pool.args[head][0] if pool.kinds[head] == REPEAT else head, body):
            return False
    return False


def _absorb(pool: Pool, flat: set[int]) -> set[int]:
    """Leaves out members that are part of a member ``x*``: in a search, all that is left once a match is complete."""
    for star in [e for e in flat if pool.kinds[e] == REPEAT and pool.args[e][1] == 0 and pool.args[e][2] is None]:
        body = pool.args[star][0]
        if len(flat) > 1 and charsets_of(pool, body):
            flat = {e for e in flat if e == star or not _spelled(pool, e, body)}
    return flat


def intersect_repeats(pool: Pool, flat: set[int]) -> set[int]:
    """A smaller set of members with the same intersection."""
    single = [e for e in flat if pool.kinds[e] != REPEAT and charsets_of(pool, e)]
    repeats = [e for e in flat if pool.kinds[e] == REPEAT]
    if len(single) + len(repeats) < 2:
        return flat
    texts: list[tuple[int, int, int, int | None]] = [(e, e, 1, 1) for e in single]
    bodies: dict[int, list[int]] = {}
    for e in repeats:
        body, lo, hi = pool.args[e]
        if charsets_of(pool, body):
            texts.append((e, body, lo, hi))
        elif prefix_free(pool, body):
            bodies.setdefault(body, []).append(e)
    for encoder in {encoder: None for _, body, _, _ in texts for encoder in charsets_of(pool, body)}:
        alike = [t for t in texts if t[0] in flat and encoder in charsets_of(pool, t[1])]
        if len(alike) > 1:
            common = CharSet.ANY
            for _, body, _, _ in alike:
                common &= charsets_of(pool, body)[encoder]
            one = pool.chars(common) if encoder is None else encoder(pool, common) if common else 0
            flat = (flat - {t[0] for t in alike}) | {_counted(pool, one, [t[2:] for t in alike])}
    for body, members in bodies.items():
        if len(members) > 1:
            flat = (flat - set(members)) | {_counted(pool, body, [pool.args[e][1:] for e in members])}
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
