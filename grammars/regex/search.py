"""Searches over the derivatives of an expression: emptiness, shortest members.

Both walk a graph whose nodes are expressions. An edge is a byte (for intersections, complements, variables and leaves)
or a structural step (``ab`` leads to ``b`` once ``a`` is known to be inhabited; a union leads to its members).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ..errors import LimitError
from .alternatives import Encoder, charsets_of
from .kinds import ALT, BOTH, BYTES, CAT, LEAF, LITERAL, NOT, REPEAT, WORDS

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["bound", "byte_closure", "is_empty", "min_length", "shortest", "show"]

_WITNESS = 128  # bytes of a text that is tried out in an intersection
_LONGEST = 1 << 24  # bytes of a shortest member that is written out


# ---------------------------------------------------------------- emptiness
def is_empty(pool: Pool, e: int) -> bool:
    """Best-first search for a non-empty language; marks every node that is settled on the way."""
    known = pool.known
    state = known[e]
    if state is not None:
        return state
    if pool.kinds[e] == BOTH:
        if _too_long(pool, e):
            return True
        if _has_witness(pool, pool.args[e]):
            known[e] = False
            return False
    start = pool.work
    parent: dict[int, int] = {e: -1}
    heap = [(0, 0, e)]
    while heap:
        node = heapq.heappop(heap)[2]
        pool.work += 1
        pool.spend(start)
        for target in _steps(pool, node):
            if target in parent and target != node:
                continue
            state = known[target]
            if state is False:
                while node >= 0:
                    known[node] = False
                    node = parent[node]
                return False
            if state is None and target != node and not (pool.kinds[target] == BOTH and _too_long(pool, target)):
                parent[target] = node
                heapq.heappush(heap, (bound(pool, target), -len(parent), target))
    for node in parent:
        known[node] = True
    return True


def _too_long(pool: Pool, e: int) -> bool:
    """Whether an intersection is empty because one member needs more characters than another allows (then it is marked)."""
    members = pool.args[e]
    for limit in members:
        if pool.kinds[limit] == REPEAT and pool.args[limit][2] is not None:
            for encoder in charsets_of(pool, pool.args[limit][0]):
                for m in members:
                    least = None if m == limit else min_chars(pool, m, encoder)
                    if least is not None and least > pool.args[limit][2]:
                        pool.known[e] = True
                        return True
    return False


def min_chars(pool: Pool, e: int, encoder: Encoder | None) -> int | None:
    """A lower bound of the characters in members of ``e``, if it is made of nothing but characters written by ``encoder``."""
    key = (e, encoder)
    if key not in pool.chars_memo:
        pool.chars_memo[key] = _min_chars(pool, e, encoder)
    return pool.chars_memo[key]


def _min_chars(pool: Pool, e: int, encoder: Encoder | None) -> int | None:
    total = 0
    while e != 1:
        head, e = pool.args[e] if pool.kinds[e] == CAT else (e, 1)
        kind, args = pool.kinds[head], pool.args[head]
        part: int | None = None
        if encoder in charsets_of(pool, head):
            part = 1
        elif kind == REPEAT:
            part = min_chars(pool, args[0], encoder)
            part = None if part is None else part * args[1]
        elif kind == ALT:
            parts = [min_chars(pool, m, encoder) for m in args]
            part = None if None in parts else min(p for p in parts if p is not None)
        if part is None:
            return None
        total += part
    return total


def _has_witness(pool: Pool, members: tuple[int, ...]) -> bool:
    """Whether a shortest text of the member with the longest one is in all others: the usual case, quickly seen."""
    narrow = max((m for m in members if pool.kinds[m] != NOT), key=lambda m: bound(pool, m), default=0)
    if bound(pool, narrow) > _WITNESS or pool.known[narrow] is not False:
        return False
    text = shortest(pool, narrow)
    return text is not None and all(m == narrow or pool.matches(m, text) for m in members)


def _steps(pool: Pool, e: int) -> list[int]:
    """Expressions of which one must be inhabited for ``e`` to be."""
    kind, args = pool.kinds[e], pool.args[e]
    if kind == CAT:
        return [] if is_empty(pool, args[0]) else [args[1]]
    if kind == ALT:
        return list(args)
    if kind == REPEAT:
        return [] if is_empty(pool, args[0]) else [1]
    return [target for _, target in pool.raw(e)]


# ---------------------------------------------------------------- lengths
def bound(pool: Pool, e: int) -> int:
    """A lower bound of the length of members, cheap to find."""
    memo = pool.bound_memo
    found = memo.get(e)
    if found is not None:
        return found
    chain = []
    while pool.kinds[e] == CAT and e not in memo:
        chain.append(e)
        e = pool.args[e][1]
    value = memo.get(e)
    if value is None:
        value = memo[e] = _bound(pool, e)
    for e in reversed(chain):
        value += bound(pool, pool.args[e][0])
        memo[e] = value
    return value


def _bound(pool: Pool, e: int) -> int:
    kind, args = pool.kinds[e], pool.args[e]
    if kind == LITERAL:
        return len(args[0])
    if kind == ALT:
        return min(bound(pool, m) for m in args)
    if kind == BOTH:
        return max(bound(pool, m) for m in args)
    if kind == REPEAT:
        return int(args[1]) * bound(pool, args[0])
    if kind == LEAF:
        return int(getattr(args[0], "min_length", not args[0].nullable))
    return int(not pool.nullable(e))


def min_length(pool: Pool, e: int) -> int:
    """Bytes of the shortest member, without writing it out where counts are enough."""
    if pool.nullable(e):
        return 0
    total = 0
    while pool.kinds[e] == CAT:
        head, e = pool.args[e]
        total += min_length(pool, head)
    kind, args = pool.kinds[e], pool.args[e]
    if kind in (LITERAL, BYTES):
        return total + bound(pool, e)
    if kind == ALT:
        return total + min(min_length(pool, m) for m in args if not pool.is_empty(m))
    if kind == REPEAT:
        return total + int(args[1]) * min_length(pool, args[0])
    found = shortest(pool, e)
    if found is None:
        raise ValueError("the empty language has no shortest member")
    return total + len(found)


def shortest(pool: Pool, e: int) -> bytes | None:
    """A member of minimal length, by A*; ``None`` for the empty language."""
    memo = pool.shortest_memo
    if e in memo:
        return memo[e]
    if pool.is_empty(e):
        memo[e] = None
        return None
    start = pool.work
    best: dict[int, int] = {e: 0}
    came: dict[int, tuple[int, bytes]] = {}
    heap = [(bound(pool, e), 0, e)]
    goal = 1
    while heap:
        cost, number, node = heapq.heappop(heap)
        g = best[node]
        if cost > g + bound(pool, node):
            continue
        if node == goal:
            return _trace(pool, e, came)
        pool.work += 1
        pool.spend(start)
        if node in memo:
            known = memo[node]
            moves = [] if known is None else [(known, goal)]
        else:
            moves = _moves(pool, node)
        for label, target in moves:
            longer = g + len(label)
            if longer < best.get(target, 1 << 62):
                best[target] = longer
                came[target] = (node, label)
                heapq.heappush(heap, (longer + bound(pool, target), number - 1, target))
    raise AssertionError("an inhabited language without a shortest member")


def _trace(pool: Pool, e: int, came: dict[int, tuple[int, bytes]]) -> bytes:
    node, suffix = 1, b""
    while node != e:
        node, label = came[node]
        suffix = label + suffix
        pool.shortest_memo[node] = suffix
    return suffix


def _moves(pool: Pool, e: int) -> list[tuple[bytes, int]]:
    """Edges ``(bytes read, expression left)``; each is a shortest way to that target."""
    if pool.nullable(e):
        return [(b"", 1)]
    kind, args = pool.kinds[e], pool.args[e]
    if kind == LITERAL:
        return [(args[0], 1)]
    if kind == WORDS:
        number, lo, hi, depth = args
        return [(min(pool.words[number][lo:hi], key=len)[depth:], 1)]
    if kind == ALT:
        return [(b"", m) for m in args]
    if kind in (CAT, REPEAT):
        head = shortest(pool, args[0])
        if head is None:
            return []
        if kind == CAT:
            return [(head, args[1])]
        if len(head) * args[1] > _LONGEST:
            raise LimitError("fuel", pool.fuel, f"writing out a shortest text of {len(head) * args[1]} bytes")
        return [(head * args[1], 1)]
    return [(_lowest(mask), target) for mask, target in pool.raw(e)]


_LIKED = (((1 << 10) - 1) << 0x30, ((1 << 26) - 1) << 0x61, 1 << 0x20, ((1 << 0x4F) - 1) << 0x30, ((1 << 0x5F) - 1) << 0x20)


def _lowest(mask: int) -> bytes:
    """One byte of the mask: a digit, a small letter, a blank, or else a printable one if there is any: texts of these take few tokens."""
    for liked in (*_LIKED, mask):
        found = mask & liked
        if found:
            return bytes(((found & -found).bit_length() - 1,))
    raise AssertionError("an empty mask")


def byte_closure(pool: Pool, e: int) -> int:
    """Mask of all bytes that occur in derivations of ``e``; for small automata."""
    seen, todo, mask = {e}, [e], 0
    while todo:
        for m, target in pool.raw(todo.pop()):
            mask |= m
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return mask


# ---------------------------------------------------------------- display
def _show_mask(mask: int) -> str:
    runs: list[str] = []
    b = 0
    while b < 256:
        if mask >> b & 1:
            end = b
            while end < 255 and mask >> (end + 1) & 1:
                end += 1
            first, last = _show_byte(b), _show_byte(end)
            runs.append(first if b == end else f"{first}-{last}")
            b = end
        b += 1
    return "[" + "".join(runs) + "]"


def _show_byte(b: int) -> str:
    c = chr(b)
    return c if 0x20 < b < 0x7F and c not in "[]^-\\(){}|&~*+?" else f"\\x{b:02x}"


def show(pool: Pool, e: int, depth: int = 40) -> str:
    """A readable form of ``e``, cut where it is nested too deeply."""
    if depth == 0:
        return f"#{e}"
    kind, args = pool.kinds[e], pool.args[e]
    inner = [] if kind not in (CAT, ALT, BOTH, NOT) else [show(pool, m, depth - 1) for m in args]
    if kind == CAT:
        return "".join(inner)
    if kind == ALT:
        return "(" + "|".join(inner) + ")"
    if kind == BOTH:
        return "(" + "&".join(inner) + ")"
    if kind == NOT:
        return f"~({inner[0]})"
    if kind == BYTES:
        return _show_mask(args[0])
    if kind == LITERAL:
        return "".join(map(_show_byte, args[0]))
    if kind == REPEAT:
        body, lo, hi = args
        return f"({show(pool, body, depth - 1)}){{{lo},{'' if hi is None else hi}}}"
    if kind == LEAF:
        return f"<{args[0]!r}>"
    if kind == WORDS:
        return f"<words {args[0]}: {args[2] - args[1]} from {args[3]}>"
    return "[]" if e == 0 else "ε" if e == 1 else f"<variable #{e}>"
