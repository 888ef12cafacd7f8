"""A tree that is searched for as Monte Carlo tree search does: likely continuations, and sometimes others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..tree import DraftTree
from .base import BaseShape, growable, values

__all__ = ["Puct"]


class Puct(BaseShape):
    """Each node comes of one walk from the root, which goes where ``Q + P * sqrt(N) / (1 + n) * (c1 + log((N + c2 + 1) / c2))`` is
    greatest: ``P`` is the draft's probability of a child (for one that is still to be drawn: what its siblings have left), ``n`` the
    walks through it, ``N`` those through its parent, and ``Q`` the mean value of the nodes that they ended in, as a share of the parent's.
    A node's value is the product of the probabilities on its path, the estimate of its being accepted.

    This is the draft construction of ADED (Liu et al. 2024, arXiv:2407.12021). The draft's size adapts: it ends where a walk comes to
    a node whose value is below ``least``.

    Args:
        nodes: proposals at most (the step's limit holds too).
        depth: levels at most.
        c1, c2: of the exploration, those of AlphaZero.
        least: see above.
        unknown: the probability of a node whose drafter has no estimate.
    """

    adaptive = True

    def __init__(
        self, nodes: int = 32, depth: int = 10, *, c1: float = 1.25, c2: float = 19652.0, least: float = 0.01, unknown: float = 0.5
    ) -> None:
        if min(nodes, depth) < 1 or c1 < 0 or c2 <= 0 or not 0 <= least < 1 or not 0 < unknown <= 1:
            raise ValueError("nodes and depth are at least 1, c1 not negative, c2 above 0, least and unknown probabilities")
        self.nodes, self.depth, self.c1, self.c2, self.least, self.unknown = nodes, depth, c1, c2, least, unknown

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """See :meth:`speculative.protocol.Shape.grow`."""
        if tree.size >= min(limit, self.nodes):
            return []
        worth = values(tree, self.unknown)
        walks, totals = [1] * len(tree), list(worth)
        for node in range(len(tree) - 1, 0, -1):
            walks[tree.parents[node]] += walks[node]
            totals[tree.parents[node]] += totals[node]
        live = set(growable(tree, range(len(tree)), min(depth, self.depth)))
        below = list(live)  # nodes with one that may grow at or below them
        for node in below:
            parent = tree.parents[node]
            if node and parent not in live and parent not in below:
                below.append(parent)
        return self._walk(tree, worth, walks, totals, live, set(below))

    def _walk(
        self, tree: DraftTree, worth: list[float], walks: list[int], totals: list[float], live: set[int], below: set[int]
    ) -> list[tuple[int, int]]:
        node = 0
        while node in below:
            children = [child for child in tree.children(node) if child in below]
            chances = {child: worth[child] / worth[node] if worth[node] else 0.0 for child in tree.children(node)}
            visits = walks[node]
            explore = math.sqrt(visits) * (self.c1 + math.log((visits + self.c2 + 1) / self.c2))
            scores = {
                child: totals[child] / walks[child] / max(worth[node], 1e-300) + chances[child] * explore / (1 + walks[child])
                for child in children
            }
            left = max(0.0, 1.0 - sum(chances.values()))
            best = max(scores, key=lambda child: (scores[child], -child)) if scores else None
            if node in live and (best is None or left * explore >= scores[best]):
                return [(node, 1)] if worth[node] * left >= self.least or not node else []
            assert best is not None
            node = best
        return []
