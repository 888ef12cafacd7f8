"""OPT-Tree: of all nodes that were drafted, those that are most likely to be accepted."""

from __future__ import annotations

from collections.abc import Sequence

from samplers.registry import method

from ..tree import DraftTree
from .base import BaseShape, growable, values

__all__ = ["OptTree"]


@method(
    "OPT-Tree",
    law="exact",
    target="a tree shape of fixed proposals: the law is the verifier's",
    cost="several times as many nodes are drafted as are verified; no forward of the target is added",
    paper="Wang et al. 2024, arXiv:2406.17276",
    use="speculative.decode(..., shape=OptTree())",
)
class OptTree(BaseShape):
    """Maximises the expected acceptance length ``E = sum of values``, a node's value being the product of the draft's probabilities on its
    path. A layer is drafted from the best nodes of the last one, each with its most probable children; drafting stops where another layer
    adds less than ``gain`` to ``E``; the best nodes of all layers are verified.

    Values never grow from a parent to its child, so the best nodes are a tree, and a layer with none of them ends the draft.

    Args:
        nodes: proposals at most (the step's limit holds too).
        depth: layers at most.
        branches: children that are looked at below a node. The paper looks at as many as there are nodes to keep; children of high rank
            are hardly ever among them.
        gain: see above.
        unknown: the value factor of a node whose drafter has no estimate.
    """

    fixed = True

    def __init__(self, nodes: int = 32, depth: int = 10, branches: int = 8, gain: float = 0.2, unknown: float = 0.5) -> None:
        if min(nodes, depth, branches) < 1 or gain < 0 or not 0 < unknown <= 1:
            raise ValueError("nodes, depth and branches are at least 1, gain is not negative, unknown is a probability")
        self.nodes, self.depth, self.branches, self.gain, self.unknown = nodes, depth, branches, gain, unknown

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """See :meth:`speculative.protocol.Shape.grow`."""
        nodes = growable(tree, fresh, min(depth, self.depth))
        limit = min(limit, self.nodes)
        if not nodes or limit < 1:
            return []
        worth = values(tree, self.unknown)
        if tree.size:
            before = set(fresh)
            old = sum(sorted((worth[n] for n in range(1, len(tree)) if n not in before), reverse=True)[:limit])
            if sum(sorted(worth[1:], reverse=True)[:limit]) - old < self.gain:
                return []
            best = self._best(tree, worth, limit)
            nodes = [n for n in nodes if n in best]
        return [(node, min(self.branches, limit)) for node in nodes]

    def finish(self, tree: DraftTree, limit: int) -> DraftTree:
        """The best nodes."""
        limit = min(limit, self.nodes)
        return tree if tree.size <= limit else tree.keep(self._best(tree, values(tree, self.unknown), limit))

    @staticmethod
    def _best(tree: DraftTree, worth: Sequence[float], limit: int) -> set[int]:
        # of equal values the earlier node, which is the parent rather than the child
        return set(sorted(range(1, len(tree)), key=lambda n: (-worth[n], n))[:limit])
