"""Shapes that are known before anything is drafted: a chain, branches by level, a template of paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..tree import DraftTree
from .base import BaseShape, fitting, growable

__all__ = ["Branches", "Chain", "Template"]

Ranks = tuple[int, ...]
"""A node of a template: which child (0: the first) at each level, from the root down."""


class Branches(BaseShape):
    """So many children for every node of a level: ``Branches(4, 2, 1)`` has 4 + 8 + 8 nodes.

    Args:
        counts: children of a node at depth 0, 1, ...

    Raises:
        ValueError: a count below 1.
    """

    def __init__(self, *counts: int) -> None:
        if any(count < 1 for count in counts):
            raise ValueError(f"a level has at least one child a node, not {counts}")
        self.counts = counts

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """See :meth:`speculative.protocol.Shape.grow`."""
        nodes = growable(tree, fresh, min(depth, len(self.counts)))
        return fitting([(node, self.counts[tree.depths[node]]) for node in nodes], limit - tree.size)


class Chain(BaseShape):
    """One token after the other, at most ``length`` of them.

    Raises:
        ValueError: a length below 1.
    """

    def __init__(self, length: int = 8) -> None:
        if length < 1:
            raise ValueError(f"a chain has at least one token, not {length}")
        self.length = length

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """See :meth:`speculative.protocol.Shape.grow`."""
        return fitting([(node, 1) for node in growable(tree, fresh, min(depth, self.length))], limit - tree.size)


class Template(BaseShape):
    """A tree that is always the same, as Medusa's and Token Recycling's: which ranks have children, and how many.

    Args:
        paths: nodes, each as the ranks from the root down to it (``(0, 2)``: the third child of the first child). What leads to a node
            belongs to the tree, and so do siblings of lower rank, whether they are listed or not.

    Attributes:
        size: number of nodes.
        depth: of the deepest one.

    Raises:
        ValueError: a rank below 0, or no path.
    """

    def __init__(self, paths: Iterable[Sequence[int]]) -> None:
        self._counts: dict[Ranks, int] = {}
        for path in map(tuple, paths):
            if any(rank < 0 for rank in path):
                raise ValueError(f"ranks count from 0: {path}")
            for at, rank in enumerate(path):
                self._counts[path[:at]] = max(self._counts.get(path[:at], 0), rank + 1)
        if not self._counts:
            raise ValueError("a template has at least one path")
        self.size = sum(self._counts.values())
        self.depth = max(map(len, self._counts)) + 1

    @property
    def paths(self) -> list[Ranks]:
        """Every node, shorter paths first."""
        found = [(*path, rank) for path, count in self._counts.items() for rank in range(count)]
        return sorted(found, key=lambda path: (len(path), path))

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """See :meth:`speculative.protocol.Shape.grow`."""
        nodes = growable(tree, fresh, min(depth, self.depth))
        wanted = [(node, self._counts.get(tuple(map(tree.rank, tree.path(node))), 0)) for node in nodes]
        return fitting(wanted, limit - tree.size)
