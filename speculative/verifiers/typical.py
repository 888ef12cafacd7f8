"""Typical acceptance (Medusa): takes what the target does not find surprising. Not exact, and so longer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from ..protocol import Verdict
from .base import Base

if TYPE_CHECKING:
    from ..shaping import TargetRows
    from ..tree import DraftTree

__all__ = ["Typical"]

_IMPOSSIBLE = float("-inf")


@method(
    "typical acceptance",
    law="lossy",
    target=(
        "no distribution is followed; every token has, under the target's law of its step (masked, warped), at least the probability "
        "min(epsilon, delta exp(-entropy of that law))"
    ),
    cost="one forward over the tree a step; a law is normalised for each node below which something is judged",
    paper="Cai et al. 2024 (Medusa), arXiv:2401.10774",
    use="speculative.decode(..., verifier=Typical())",
)
class Typical(Base):
    """Of the paths whose every token has ``p(x) > min(epsilon, delta exp(-H(p)))`` (section 2.3.1 of the paper) the longest is taken, of
    equally long ones the most probable; then comes the target's most probable token, which satisfies the same bound, because
    ``max p >= exp(-H(p))``.

    Args:
        epsilon: hard threshold, in (0, 1].
        delta: of the entropy-dependent threshold, in (0, 1]; the paper sets ``epsilon = 0.09`` and ``delta = sqrt(epsilon)``.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, epsilon: float = 0.09, delta: float = 0.3) -> None:
        if not (0 < epsilon <= 1 and 0 < delta <= 1):
            raise ValueError(f"epsilon and delta must be in (0, 1], not {epsilon} and {delta}")
        self.epsilon, self.delta = epsilon, delta

    def threshold(self, law: torch.Tensor) -> float:
        """What a token's probability must exceed under ``law``, ``float64[width]`` of probabilities."""
        entropy = float(torch.special.entr(law).sum())
        return min(self.epsilon, self.delta * math.exp(-entropy))

    def verify(self, tree: DraftTree, rows: TargetRows, generator: torch.Generator) -> Verdict:
        """See :meth:`speculative.protocol.Verifier.verify`."""
        reached = {0: 0.0}  # nodes that can be kept, with the log-probability of their paths
        best = 0
        for node in range(len(tree)):
            if node not in reached:
                continue
            if (tree.depths[node], reached[node]) > (tree.depths[best], reached[best]):
                best = node
            children = tree.children(node)
            if not children or tree.places[node].ended or rows.kept(node) == _IMPOSSIBLE:
                continue
            law = rows.probabilities(node)
            least = self.threshold(law)
            for child in children:
                p = float(law[tree.tokens[child]])
                if p > least:
                    reached[child] = reached[node] + math.log(p)
        path = tree.path(best)
        if tree.places[best].ended or rows.kept(best) == _IMPOSSIBLE:
            return Verdict(path, None)
        return Verdict(path, rows.best(best))
