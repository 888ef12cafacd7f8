"""Greedy-exact verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from ..protocol import Verdict
from .base import Base

if TYPE_CHECKING:
    from samplers.sampling import Settings

    from ..shaping import TargetRows
    from ..tree import DraftTree, How

__all__ = ["Greedy"]


@method(
    "greedy verification",
    law="argmax",
    target="of each step's distribution over the allowed tokens: what greedy decoding writes, to rounding of the model's sums",
    cost="one forward over the tree a step; no distribution is normalised to choose a token",
    paper="Stern, Shazeer, Uszkoreit 2018, arXiv:1811.03115",
    use="speculative.decode(..., verifier=Greedy(), settings=Settings(temperature=0))",
)
class Greedy(Base):
    """Follows the tree as far as it holds the target's most probable tokens; the first that it lacks comes from the target.

    Raises:
        ValueError: the settings ask for sampling.
    """

    takes: tuple[How, ...] = ("fixed", "with", "without")
    invariant: bool = True

    def check(self, settings: Settings) -> None:
        """Temperature 0 only."""
        if settings.temperature:
            raise ValueError("greedy verification is for temperature 0; use Matching or an exact verifier for sampling")

    def verify(self, tree: DraftTree, rows: TargetRows, generator: torch.Generator) -> Verdict:
        """See :meth:`speculative.protocol.Verifier.verify`."""
        path: list[int] = []
        node = 0
        while not tree.places[node].ended:
            token = rows.best(node)
            child = tree.child(node, token)
            if child is None:
                return Verdict(path, token)
            path.append(child)
            node = child
        return Verdict(path, None)
