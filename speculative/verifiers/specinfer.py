"""SpecInfer's multi-step speculative sampling: candidates of several small models, tried in random order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from .rejection import Rejection

if TYPE_CHECKING:
    from ..tree import Draw, How

__all__ = ["SpecInfer"]


@method(
    "SpecInfer",
    law="exact",
    target="each token ~ the target's law of the step (masked, warped), whatever is proposed",
    cost="one forward over the merged tree of all drafters a step; a law is normalised for each token that is judged",
    paper="Miao et al. 2023, arXiv:2305.09781",
    use="speculative.decode(..., verifier=SpecInfer())",
)
class SpecInfer(Rejection):
    """Multi-step speculative sampling (algorithm 2 of the paper): of a node's candidates, each drawn by one of several small models, one is
    picked at random; it is taken with probability ``min(1, p(x) / q_s(x))``, ``q_s`` being the law of *its* model, and otherwise ``q_s`` is
    taken off the target, and the next one is picked.

    Greedy decoding follows the tree as far as it holds the target's token: use :class:`~speculative.verifiers.Greedy`.
    """

    takes: tuple[How, ...] = ("with", "fixed")

    def order(self, draws: Sequence[Draw], generator: torch.Generator) -> Sequence[int]:
        """At random: which one is tried first must not depend on what was drawn."""
        if len(draws) < 2:
            return range(len(draws))
        order: list[int] = torch.randperm(len(draws), generator=generator).tolist()
        return order
