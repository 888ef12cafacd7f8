"""Cutting what lies beyond a horizon, so that many states share one answer.

A token mask asks only about continuations of at most as many bytes as the longest token has. Within that
horizon ``x{0,5000}`` and ``x*`` cannot be told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .kinds import ALT, BOTH, CAT, LITERAL, REPEAT

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["between", "saturate"]


def saturate(pool: Pool, e: int, k: int) -> int:
    """See :meth:`grammars.regex.expr.Pool.saturate`."""
    key = (e, k)
    found = pool.saturate_memo.get(key)
    if found is None:
        found = pool.saturate_memo[key] = e if e <= 1 else 0 if pool.is_empty(e) else _saturate(pool, e, k)
    return found


def _saturate(pool: Pool, e: int, k: int) -> int:
    kind, args = pool.kinds[e], pool.args[e]
    if kind == LITERAL:
        return e if len(args[0]) <= k + 1 else pool.literal_piece(args[0][: k + 1])
    if kind == ALT:
        return pool.alt(*(saturate(pool, m, k) for m in args))
    if kind == REPEAT:
        return _repeat(pool, args[0], args[1], args[2], k)
    if kind != CAT:
        return e
    parts = []
    while k >= 0 and e != 1:  # a head that cannot be completed within the horizon hides all that follows
        head, e = pool.args[e] if pool.kinds[e] == CAT else (e, 1)
        parts.append(saturate(pool, head, k))
        k -= pool.min_length(head)
    return pool.cat(*parts)


def _repeat(pool: Pool, body: int, lo: int, hi: int | None, k: int) -> int:
    """At most ``k // min_length`` bodies can be completed; one more can be begun."""
    reach = k // max(pool.min_length(body), 1) + 1
    least = min(lo, reach)
    most = None if hi is None or hi >= reach else hi
    inner = saturate(pool, body, k)
    return pool.repeat(inner, least, most)


def between(pool: Pool, e: int, few: int, memo: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Two expressions between which ``e`` lies (the first is a part of it, and it of the second), the same for many counts.

    Upper bounds of repetitions above ``few`` become ``few`` in the first and none in the second, except within bodies and complements.
    """
    found = memo.get(e)
    if found is None:
        kind, args = pool.kinds[e], pool.args[e]
        found = e, e
        if kind == REPEAT and args[2] is not None and args[1] <= few < args[2]:
            found = pool.repeat(args[0], args[1], few), pool.repeat(args[0], args[1], None)
        elif kind in (ALT, BOTH, CAT):
            make = {ALT: pool.alt, BOTH: pool.both, CAT: pool.cat}[kind]
            parts = [between(pool, part, few, memo) for part in (_sequence(pool, e) if kind == CAT else args)]
            if any(low != high for low, high in parts):
                found = make(*(low for low, _ in parts)), make(*(high for _, high in parts))
        memo[e] = found
    return found


def _sequence(pool: Pool, e: int) -> list[int]:
    """The parts of a concatenation."""
    parts = []
    while pool.kinds[e] == CAT:
        head, e = pool.args[e]
        parts.append(head)
    return [*parts, e]
