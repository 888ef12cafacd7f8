"""Min-p: a threshold that scales with the best token's probability."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..registry import method
from .base import FORBIDDEN, Row, Warper

__all__ = ["MinP", "min_p"]


def min_p(scores: torch.Tensor, p: float) -> torch.Tensor:
    """Keeps the tokens with probability at least ``p`` times that of the best one.

    ``p(v) >= p max p`` is ``s(v) >= max s + log p``, which needs no softmax.
    """
    if not p:
        return scores
    return scores.masked_fill(scores < scores.amax(-1, keepdim=True) + math.log(p), FORBIDDEN)


@method(
    "min-p sampling",
    law="exact",
    target="the step's distribution restricted to tokens with at least p times the best token's probability, renormalised",
    cost="a maximum over the vocabulary a step",
    paper="Nguyen et al. 2024, arXiv:2407.01082",
    use="guided.generate(..., warpers=[MinP(p)])",
)
class MinP(Warper):
    """Keeps ``{v: p(v) >= p max_w p(w)}``, renormalised: strict where the model is sure, wide where it is not (Nguyen et al. 2024,
    arXiv:2407.01082).

    Raises:
        ValueError: ``p`` is not in [0, 1].
    """

    def __init__(self, p: float) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p must be between 0 and 1, not {p}")
        self.p = p

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return min_p(scores, self.p)

    def describe(self) -> str:
        return f"min-p {self.p:g}"
