"""How much may be missing of a text that has begun: the most bytes that a shortest continuation can have, whatever was read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .kinds import ALT, BYTES, CAT, EMPTY, EPSILON, LEAF, LITERAL, REPEAT

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["remainder"]

_STATES = 48  # that are looked at, where nothing else tells


def remainder(pool: Pool, e: int, memo: dict[int, float]) -> float:
    """An upper bound of ``min_length`` of what is left of ``e`` after any beginning of a member; infinite where none is known.

    After a beginning of a concatenation either its head has begun, and its tail is missing as a whole, or its tail has begun. Leaves may
    tell by themselves (``remainder``); what is left of others, and of intersections and complements, is looked at one by one.
    """
    parts = []
    while pool.kinds[e] == CAT:
        head, e = pool.args[e]
        parts.append(head)
    worst, behind = _part(pool, e, memo), pool.min_length(e)
    for head in reversed(parts):
        worst = max(worst, _part(pool, head, memo) + behind)
        behind += pool.min_length(head)
    return worst


def _part(pool: Pool, e: int, memo: dict[int, float]) -> float:
    found = memo.get(e)
    if found is None:
        found = memo[e] = _bound(pool, e, memo)
    return found


def _bound(pool: Pool, e: int, memo: dict[int, float]) -> float:
    kind, args = pool.kinds[e], pool.args[e]
    if e in (EMPTY, EPSILON):
        return 0
    if kind == BYTES:
        return 1
    if kind == LITERAL:
        return len(args[0])
    if kind == ALT:
        return max(remainder(pool, member, memo) for member in args)
    if kind == REPEAT:
        body, lo, _ = args
        return remainder(pool, body, memo) + max(lo - 1, 0) * pool.min_length(body)
    known = getattr(args[0], "remainder", None) if kind == LEAF else None
    return _explored(pool, e) if known is None else known


def _explored(pool: Pool, e: int) -> float:
    """The bound by looking at everything that may be left, if that is not much: numbers, short patterns."""
    known, todo = {e}, [e]
    while todo:
        for _, after in pool.transitions(todo.pop()):
            if after not in known:
                if len(known) >= _STATES:
                    return math.inf
                known.add(after)
                todo.append(after)
    return max(map(pool.min_length, known))
