"""DySpec: the tree grows where the next draw is most likely to be accepted."""

from __future__ import annotations

from collections.abc import Sequence

from samplers.registry import method

from ..tree import DraftTree
from .base import BaseShape, fitting, growable, values

__all__ = ["DySpec"]


@method(
    "DySpec",
    law="exact",
    target="a tree shape: the law is the verifier's (the paper draws siblings without replacement: Recursive())",
    cost="a draft forward for every node; with a threshold one for every layer",
    paper="Xiong et al. 2024, arXiv:2410.11744",
    use="speculative.decode(..., shape=DySpec(), verifier=Recursive())",
)
class DySpec(BaseShape):
    """Expansions (a node, and its next draw) are valued by the estimated probability that the verifier comes to them: the product of the
    draft's probabilities on the path, times the mass that the earlier draws of the node have left. The most valuable one is made next,
    until the nodes are used up.

    Args:
        nodes: proposals at most (the step's limit holds too).
        depth: levels at most.
        threshold: ``None``: one expansion after the other, the best first. A number: all expansions worth more than it, layer by layer
            (the paper's second algorithm, which needs fewer forwards of the draft model).
        unknown: the chance of a node whose drafter has no estimate.
    """

    adaptive = True

    def __init__(self, nodes: int = 32, depth: int = 16, threshold: float | None = None, unknown: float = 0.5) -> None:
        if min(nodes, depth) < 1 or not 0 < unknown <= 1 or not (threshold is None or 0 < threshold < 1):
            raise ValueError("nodes and depth are at least 1; unknown and threshold are probabilities above 0")
        self.nodes, self.depth, self.threshold, self.unknown = nodes, depth, threshold, unknown

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """See :meth:`speculative.protocol.Shape.grow`."""
        room = min(limit, self.nodes) - tree.size
        nodes = growable(tree, range(len(tree)), min(depth, self.depth))
        if room < 1 or not nodes:
            return []
        worth = values(tree, self.unknown)
        found = {node: worth[node] * self._left(tree, node) for node in nodes}
        if self.threshold is not None:
            wanted = sorted((n for n in nodes if found[n] > self.threshold), key=lambda n: (-found[n], n))
            return fitting([(n, 1) for n in wanted], room)
        best = max(nodes, key=lambda n: (found[n], -n))
        return [(best, 1)] if found[best] > 0 else []

    def _left(self, tree: DraftTree, node: int) -> float:
        """The share of the draft's mass at a node that its draws have not taken."""
        left = 1.0
        for draw in tree.draws[node]:
            chance = tree.chances[draw.node]
            left -= self.unknown if chance is None else chance
        return max(left, 0.0)
