"""Top-n-sigma: a threshold in standard deviations of the logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registry import method
from .base import FORBIDDEN, Row, Warper

__all__ = ["TopNSigma", "top_n_sigma"]


def top_n_sigma(scores: torch.Tensor, n: float) -> torch.Tensor:
    """Keeps the tokens with score at least ``max - n std``; the deviation is taken over the row's finite scores."""
    finite = scores != FORBIDDEN
    count = finite.sum(-1, keepdim=True)
    values = scores.masked_fill(~finite, 0.0)
    mean = values.sum(-1, keepdim=True) / count
    deviation = ((values - mean).masked_fill(~finite, 0.0).square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    return scores.masked_fill(scores < scores.amax(-1, keepdim=True) - n * deviation, FORBIDDEN)


@method(
    "top-n-sigma",
    law="exact",
    target="the step's distribution restricted to tokens with logit at least max - n times the logits' standard deviation, renormalised",
    cost="a pass over the vocabulary a step",
    paper="Tang et al. 2024, arXiv:2411.07641",
    use="guided.generate(..., warpers=[TopNSigma(n)])",
)
class TopNSigma(Warper):
    """Keeps ``{v: s(v) >= max s - n std(s)}`` of the logits ``s``; the kept set does not change with a temperature before or after it
    (Tang et al. 2024, arXiv:2411.07641).

    The standard deviation is the unbiased one, over the scores that are not minus infinity: with the constraint's mask before it, over
    the allowed tokens.

    Raises:
        ValueError: ``n`` is negative.
    """

    def __init__(self, n: float = 1.0) -> None:
        if not n >= 0:
            raise ValueError(f"n must be at least 0, not {n}")
        self.n = n

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return top_n_sigma(scores, self.n)

    def describe(self) -> str:
        return f"within {self.n:g} standard deviations of the best logit"
