"""Expressions that do as another one does on all but a few bytes.

The strings that are none of some texts are, byte after byte, any string but for the bytes along the texts. Whoever
tabulates transitions then copies the row of the *base* and mends those bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .kinds import CAT, LEAF

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["Difference", "difference"]


class Difference(NamedTuple):
    """How an expression differs from its base.

    Attributes:
        base: the expression that it is like.
        bytes: 256-bit mask of the bytes where they may differ.
        moves: the expression's transitions on those bytes (dead ones left out).
    """

    base: int
    bytes: int
    moves: list[tuple[int, int]]


def difference(pool: Pool, e: int) -> Difference | None:
    """The difference of ``e``, a leaf with a base or one followed by something else; ``None`` where there is no base."""
    kind, args = pool.kinds[e], pool.args[e]
    if kind == LEAF:
        return _of_leaf(pool, e)
    if kind != CAT or pool.kinds[args[0]] != LEAF:
        return None
    head, rest = args
    own = _of_leaf(pool, head)
    if own is None:
        return None
    moves = [(mask, pool.cat(target, rest)) for mask, target in own.moves]
    differs = own.bytes
    if pool.nullable(own.base):
        # The rest may begin at once in the base; whether it may here depends on the head.
        begins = pool.transitions(rest)
        first = 0
        for mask, _ in begins:
            first |= mask
        if first & differs or any(mask & first for mask, _ in pool.transitions(own.base)):
            return None
        if pool.nullable(head):
            moves += begins
        differs |= first
    return Difference(pool.cat(own.base, rest), differs, moves)


def _of_leaf(pool: Pool, e: int) -> Difference | None:
    find = getattr(pool.args[e][0], "difference", None)
    if find is None:
        return None
    base, differs, moves = find()
    return Difference(base, differs, [(m, 1 if t is None else t if isinstance(t, int) else pool.leaf(t)) for m, t in moves])
