"""Locally typical sampling: tokens whose surprise is near the entropy."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registry import method
from .base import FORBIDDEN, Row, Warper
from .cutoff import entropy

__all__ = ["Typical", "typical"]


def typical(scores: torch.Tensor, mass: float) -> torch.Tensor:
    """Keeps the tokens whose surprise ``-log p`` is nearest to the row's entropy, until they hold ``mass``.

    Tokens that are as near as the last one needed are kept too.
    """
    logprobs = scores.log_softmax(-1)
    distance = (logprobs + entropy(scores)[..., None]).abs()  # infinite for forbidden tokens: they come last
    ordered, order = distance.sort(dim=-1, stable=True)
    held = logprobs.gather(-1, order).exp().cumsum(-1)
    last = (held < mass).sum(-1, keepdim=True).clamp(max=scores.shape[-1] - 1)
    return scores.masked_fill(distance > ordered.gather(-1, last), FORBIDDEN)


@method(
    "locally typical sampling",
    law="exact",
    target="the step's distribution restricted to the tokens with surprise nearest its entropy that hold the given mass, renormalised",
    cost="a sort of the vocabulary a step",
    paper="Meister et al. 2023, arXiv:2202.00666",
    use="guided.generate(..., warpers=[Typical(mass)])",
)
class Typical(Warper):
    """Keeps the smallest set, in the order of ``|-log p(v) - H(p)|``, whose mass is at least ``mass``; renormalised (Meister et al. 2023,
    arXiv:2202.00666).

    Raises:
        ValueError: ``mass`` is not in (0, 1).
    """

    def __init__(self, mass: float = 0.9) -> None:
        if not 0 < mass < 1:
            raise ValueError(f"mass must be above 0 and below 1, not {mass}")
        self.mass = mass

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return typical(scores, self.mass)

    def describe(self) -> str:
        return f"the typical set of mass {self.mass:g}"
