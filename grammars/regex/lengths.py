"""Character lengths of trees, and bounds on them merged into the counts of a pattern.

``^[a-z]+$`` with at most ten characters is ``^[a-z]{1,10}$``: no intersection is needed.
"""

from __future__ import annotations

from . import ast
from .ast import Node

__all__ = ["bounded", "lengths"]


def lengths(node: Node) -> tuple[int, int | None]:
    """Least and greatest number of characters of a match (``None``: unbounded). The tree has no assertions."""
    if isinstance(node, ast.Chars):
        return 1, 1
    if isinstance(node, ast.Sequence):
        parts = [lengths(item) for item in node.items]
        most = [hi for _, hi in parts if hi is not None]
        return sum(lo for lo, _ in parts), sum(most) if len(most) == len(parts) else None
    if isinstance(node, ast.Union_):
        parts = [lengths(item) for item in node.items]
        most = [hi for _, hi in parts if hi is not None]
        return min(lo for lo, _ in parts), max(most) if len(most) == len(parts) else None
    if isinstance(node, ast.Repeat):
        lo, hi = lengths(node.body)
        if hi == 0 or node.hi == 0:
            return 0, 0
        return lo * node.lo, None if hi is None or node.hi is None else hi * node.hi
    raise TypeError(f"{type(node).__name__} has no length of its own")


def bounded(node: Node, lo: int, hi: int | None) -> Node | None:
    """The tree of the matches of ``lo`` to ``hi`` characters, or ``None`` where counts alone cannot say it."""
    least, most = lengths(node)
    if least >= lo and (hi is None or (most is not None and most <= hi)):
        return node
    if (most is not None and most < lo) or (hi is not None and least > hi):
        return ast.NOTHING
    if isinstance(node, ast.Union_):
        parts = [bounded(item, lo, hi) for item in node.items]
        kept = [part for part in parts if part is not None]
        return ast.union(kept) if len(kept) == len(parts) else None
    if isinstance(node, ast.Repeat):
        return _repeat(node, lo, hi)
    if isinstance(node, ast.Sequence):
        return _sequence(node, lo, hi)
    return None


def _repeat(node: ast.Repeat, lo: int, hi: int | None) -> Node | None:
    """A repetition of something of fixed length."""
    size, same = lengths(node.body)
    if size != same or size == 0:
        return None
    least = max(node.lo, -(-lo // size))
    limits = [n for n in (node.hi, None if hi is None else hi // size) if n is not None]
    most = min(limits) if limits else None
    return ast.NOTHING if most is not None and most < least else ast.Repeat(node.body, least, most)


def _sequence(node: ast.Sequence, lo: int, hi: int | None) -> Node | None:
    """A sequence of which all but one factor have a fixed length."""
    sizes = [lengths(item) for item in node.items]
    free = [i for i, (least, most) in enumerate(sizes) if least != most]
    if len(free) != 1:
        return None
    fixed = sum(least for i, (least, _) in enumerate(sizes) if i != free[0])
    part = bounded(node.items[free[0]], max(lo - fixed, 0), None if hi is None else hi - fixed)
    if part is None:
        return None
    return ast.sequence([part if i == free[0] else item for i, item in enumerate(node.items)])
