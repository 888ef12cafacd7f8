"""Best of K: a distribution from which K draws cover the good alternatives."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registry import Law
from .base import FORBIDDEN, Row, Warper
from .simplex import newton, solve

__all__ = ["BestOfK", "Coverage", "best_of_k"]

_TINY = -700.0  # the logarithm of the smallest probability that is told from 0


class Coverage:
    """``omega_i(q) = t q log q - b w_i (1 - (1 - q)^K)``: entropy less a bonus for being met at least once in ``K`` draws.

    Args:
        k: number of draws, at least 1.
        bonus: ``b``, at least 0.
        weights: ``w``, ``float64[rows, width]``, at least 0.
        t: weight of the entropy, above 0.
    """

    def __init__(self, k: int, bonus: float, weights: torch.Tensor, t: float) -> None:
        self.k, self.t, self.reward = k, t, bonus * k * weights

    def slope(self, q: torch.Tensor) -> torch.Tensor:
        return self.t * (q.log() + 1) - self.reward * (1 - q) ** (self.k - 1)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        # in u = log q, between the solutions without the bonus and with all of it
        low = (y / self.t - 1).clamp(min=_TINY, max=0.0)
        high = ((y + self.reward) / self.t - 1).clamp(min=_TINY, max=0.0)

        def rising(u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            miss = 1 - u.exp()
            value = self.t * (u + 1) - self.reward * miss ** (self.k - 1) - y
            return value, self.t + self.reward * (self.k - 1) * miss ** max(self.k - 2, 0) * u.exp()

        return newton(rising, low, high).exp().masked_fill(y == FORBIDDEN, 0.0)

    def describe(self) -> str:
        return f"entropy of weight {self.t:g} and coverage by {self.k} draws"


def best_of_k(scores: torch.Tensor, k: int, bonus: float = 1.0, anchor: float = 1.0, candidates: int = 256) -> torch.Tensor:
    """The maximiser of ``-anchor KL(q || p) + bonus sum_i w_i (1 - (1 - q_i)^k)`` over the ``candidates`` best tokens, for each row.

    ``p = softmax(scores)`` over these candidates, and ``w = p``: the expected mass, under the model, of what ``k`` draws meet.

    Returns:
        ``float64[rows, width]``, probabilities.
    """
    best, tokens = scores.double().topk(min(candidates, scores.shape[-1]), dim=-1)
    logprobs = best.log_softmax(-1)
    # -anchor KL(q || p) = <q, anchor log p> - anchor sum q log q: the template of the simplex decoders
    q = solve(anchor * logprobs, Coverage(k, bonus, logprobs.exp(), anchor))
    return torch.zeros(scores.shape, dtype=q.dtype, device=q.device).scatter(-1, tokens, q)


class BestOfK(Warper):
    """For pipelines that draw ``k`` answers and keep the best (self-consistency, reranking, verifiers): stays near the model, but moves
    mass to the alternatives that ``k`` draws of the model would likely miss (Ji et al. 2026, arXiv:2602.18292).

    Each step samples from the ``q`` that maximises ``bonus sum_i w_i (1 - (1 - q_i)^k) - anchor KL(q || p)``: the second term holds
    ``q`` to the step's distribution ``p``, the first is the coverage of ``k`` draws. ``k = 1`` still sharpens towards likely tokens;
    ``bonus = 0`` gives ``p``.

    The divergence as an anchor and the coverage of ``k`` draws are the paper's. The form of the coverage that is written here, and its
    weights ``w = p``, are a reading of it: an alternative is good as far as the model says so, and the tail gains nothing.
    :class:`Coverage` takes any other weights.

    Args:
        k: number of draws, at least 1.
        bonus: weight of the coverage, at least 0.
        anchor: weight of the divergence, above 0.
        candidates: the support is that many best tokens.

    Raises:
        ValueError: an argument out of range.
    """

    law: Law = "exact"

    def __init__(self, k: int, bonus: float = 1.0, anchor: float = 1.0, candidates: int = 256) -> None:
        if k < 1 or candidates < 1 or not bonus >= 0 or not anchor > 0:
            raise ValueError(
                "k and candidates must be at least 1, bonus at least 0 and anchor above 0, "
                f"not k={k}, candidates={candidates}, bonus={bonus}, anchor={anchor}"
            )
        self.k, self.bonus, self.anchor, self.candidates = k, bonus, anchor, candidates

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return best_of_k(scores, self.k, self.bonus, self.anchor, self.candidates).log().to(scores.dtype)

    def describe(self) -> str:
        return f"best coverage by {self.k} draws near it, among the {self.candidates} best"
