"""ARGS: alignment as reward-guided search."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registry import method
from ..scores.protocol import Value
from ..warpers.base import Row, only_best
from .tilt import Tilt

__all__ = ["ARGS"]


@method(
    "ARGS",
    law="exact",
    target=(
        "each token ~ softmax of (log p(v) + weight r(text + v)) / temperature over the k most probable allowed tokens; greedy: the best "
        "of them"
    ),
    cost="k scores of texts a step",
    paper="Khanov, Burapacheep, Li 2024, arXiv:2402.01694",
    use="guided.generate(..., guide=ARGS(value, weight=1.0, top_k=10)); greedy=True, or temperature=0, for ARGS-greedy",
)
class ARGS(Tilt):
    """``score(v) = log p(v) + weight r(text + v)`` for the ``k`` most probable allowed tokens ``v`` (Khanov, Burapacheep, Li 2024,
    arXiv:2402.01694). ARGS-greedy takes the best of them; ARGS-stochastic draws from the softmax of ``score / temperature``, where
    the temperature is the sampler's own (``guided.generate(..., temperature=...)``), which acts after the guide.

    Args:
        value: the reward ``r`` of a text so far, see :mod:`samplers.scores`.
        weight: of the reward; finite.
        top_k: ``k``, at least 1.
        greedy: leave the best token only, whatever the temperature.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, value: Value, weight: float = 1.0, top_k: int = 10, *, greedy: bool = False) -> None:
        super().__init__(value, weight, top_k)
        self.greedy = greedy
        self.law = "argmax" if greedy else "exact"

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        guided = super().warp(rows, scores)
        if not self.greedy:
            return guided
        best, tokens = guided.max(-1, keepdim=True)
        return only_best(guided, tokens, best)

    def describe(self) -> str:
        how = "the best by" if self.greedy else "plus"
        return f"{how} {self.weight:g} times the reward of the text with the token, of the {self.top_k} most probable (ARGS)"
