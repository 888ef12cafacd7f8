"""Mirostat: the surprise of the text, held at a target by feedback."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..registry import Law, method
from .base import FORBIDDEN, Row, Warper
from .memory import RowMemory

__all__ = ["Mirostat", "cap_surprise", "zipf_exponent", "zipf_k"]

_LARGEST = 1e3  # bits: keeps the control finite where a token of probability zero is forced on it


def zipf_exponent(logprobs: torch.Tensor, m: int = 100) -> torch.Tensor:
    """Exponent of Zipf's law fitted to the ``m`` most probable tokens of each row, ``float[rows]``.

    ``s = sum t_i b_i / sum t_i^2`` with ``t_i = log((i + 1) / i)``, ``b_i = log(p_i / p_(i+1))``, ``i < m`` (the estimator of least
    mean squared error in the paper). 0 where a row has one token only.
    """
    ordered = logprobs.topk(min(m, logprobs.shape[-1]), dim=-1).values
    drops = ordered[..., :-1] - ordered[..., 1:]
    ranks = torch.arange(1, ordered.shape[-1] + 1, dtype=logprobs.dtype, device=logprobs.device)
    t = (ranks[1:] / ranks[:-1]).log().expand_as(drops)
    real = ordered[..., 1:] != FORBIDDEN
    squares = (t.square() * real).sum(-1)
    return (t * drops.masked_fill(~real, 0.0)).sum(-1) / squares.clamp(min=1e-12)


def zipf_k(s: float, mu: float, count: int) -> int:
    """Top-k whose greatest surprise is ``mu`` bits under a Zipf law of exponent ``s`` over ``count`` tokens.

    ``k = ((s - 1) 2^mu / (1 - count^(1 - s)))^(1/s)``, with its limits at ``s = 1`` and ``s = 0``; between 1 and ``count``.
    """
    epsilon = s - 1
    if s <= 1e-3 or count == 1:
        return count
    # log of (1 - count^-epsilon) / epsilon, the sum of the Zipf law's weights
    weights = math.log(count) if abs(epsilon) < 1e-9 else -math.expm1(-epsilon * math.log(count)) / epsilon
    exponent = (mu * math.log(2) - math.log(weights)) / s
    return count if exponent > math.log(count) else max(1, round(math.exp(exponent)))


def cap_surprise(scores: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Keeps the tokens with surprise ``-log2 p`` at most ``bits`` (``float[rows]``), and the best one."""
    best = scores.amax(-1, keepdim=True)
    surprise = scores.log_softmax(-1) / -math.log(2)
    return scores.masked_fill((surprise > bits[..., None]) & (scores < best), FORBIDDEN)


@method(
    "Mirostat",
    law="exact",
    target=(
        "each token ~ the step's distribution truncated (v1: to the k best, k from a fitted Zipf law; v2: to surprise at most mu) and "
        "renormalised, where mu follows from the text so far: mu <- mu - rate (surprise of the last token - tau)"
    ),
    cost="a partial sort (v1) or a softmax (v2) of the vocabulary a step; one row of scores kept a text",
    paper="Basu et al. 2021, arXiv:2007.14966",
    use="guided.generate(..., warpers=[Mirostat(tau, version=2)])",
)
class Mirostat(Warper):
    """Truncation whose strength is controlled so that the mean surprise of the text stays at ``tau`` bits a token.

    A row starts with ``mu = 2 tau``. After each token ``v``, ``mu <- mu - rate (S(v) - tau)``, ``S(v) = -log2 p(v)`` in the distribution
    before truncation. Version 1 fits Zipf's law to the ``m`` most probable tokens, turns ``mu`` into a ``k`` and keeps the top k; version
    2 keeps the tokens with ``S <= mu`` (the paper's and its code's two algorithms). The best token is always kept.

    ``mu`` is a function of the row's text, and is found again by the text: rows may be reordered and copied between steps.

    Args:
        tau: target surprise in bits a token; ``2 ** tau`` is the perplexity aimed at.
        rate: how fast the control follows, above 0.
        version: 1 or 2.
        m: tokens of the fit in version 1.

    Raises:
        ValueError: an argument out of range.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, tau: float = 3.0, rate: float = 0.1, version: int = 2, m: int = 100) -> None:
        if not tau > 0 or not rate > 0 or m < 2:
            raise ValueError(f"tau and rate must be above 0 and m at least 2, not {tau}, {rate} and {m}")
        if version not in (1, 2):
            raise ValueError(f"version must be 1 or 2, not {version}")
        self.tau, self.rate, self.version, self.m = tau, rate, version, m
        self._memory: RowMemory[tuple[float, torch.Tensor]] = RowMemory()

    def reset(self) -> None:
        super().reset()
        self._memory.clear()

    def describe(self) -> str:
        return f"mirostat version {self.version} at {self.tau:g} bits"

    def mu(self, row: Row) -> float:
        """The cap that holds for the token after ``row``, from what the last step kept."""
        known = self._memory.recall(row)
        if known is None:
            return 2 * self.tau
        mu, logprobs = known
        surprise = min(-float(logprobs[row.tokens[-1]]) / math.log(2), _LARGEST)
        return mu - self.rate * (surprise - self.tau)

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        caps = [self.mu(row) for row in rows]
        logprobs = scores.log_softmax(-1)
        self._memory.keep(rows, list(zip(caps, logprobs)))
        if self.version == 2:
            return cap_surprise(scores, torch.tensor(caps, dtype=scores.dtype, device=scores.device))
        counts = (scores != FORBIDDEN).sum(-1).tolist()
        exponents = zipf_exponent(logprobs, self.m).tolist()
        keep = torch.tensor([zipf_k(s, mu, n) for s, mu, n in zip(exponents, caps, counts)], device=scores.device)
        ordered = scores.sort(dim=-1, descending=True).values
        return scores.masked_fill(scores < ordered.gather(-1, keep[:, None] - 1), FORBIDDEN)
