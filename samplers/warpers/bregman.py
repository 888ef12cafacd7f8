"""Bregman decoders: the sparse distribution nearest to the model's, with its size chosen by a price a token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..registry import Law, method
from .base import FORBIDDEN, Row, Warper
from .simplex import bisect, newton

__all__ = ["Bregman", "bregman", "renormalise"]


def _phi(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """``x^alpha / (alpha (alpha - 1))``, its limit ``x log x`` at 1; both are 0 at 0."""
    return torch.special.xlogy(x, x) if alpha == 1 else x**alpha / (alpha * (alpha - 1))


def _slope(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return x.log() + 1 if alpha == 1 else x ** (alpha - 1) / (alpha - 1)


def _divergence(x: torch.Tensor, y: torch.Tensor, alpha: float) -> torch.Tensor:
    """``phi(x) - phi(y) - phi'(y) (x - y)``, elementwise; ``y`` above 0, or 0 where ``alpha > 1``."""
    return _phi(x, alpha) - _phi(y, alpha) - _slope(y, alpha) * (x - y)


def renormalise(p: torch.Tensor, alpha: float, dual: bool = False) -> torch.Tensor:
    """The distribution on the same tokens that is nearest to ``p`` in the Bregman divergence.

    Primal: ``q_i = phi'^-1(phi'(p_i) + nu)``; dual: ``phi''(q_i) (q_i - p_i) = nu``; ``nu >= 0`` from ``sum q = 1``. ``alpha = 1`` divides
    by the sum in both; ``alpha = 2`` adds the same to each in both; a primal ``alpha < 1`` favours the large, ``alpha > 1`` lifts the
    small.

    Args:
        p: ``float64[..., k]``, above 0, of sum at most 1.
        alpha: above 0; above 1 for the dual.
    """
    if alpha == 1:
        return p / p.sum(-1, keepdim=True)
    if alpha == 2:
        return p + (1 - p.sum(-1, keepdim=True)) / p.shape[-1]
    top = torch.ones_like(p[..., :1])
    largest = p.amax(-1, keepdim=True)
    if dual:
        high = top - largest  # phi''(1) (1 - largest): there the largest alone has all the mass

        def at(nu: torch.Tensor) -> torch.Tensor:
            def rising(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return q ** (alpha - 2) * (q - p) - nu, q ** (alpha - 3) * ((alpha - 1) * q - (alpha - 2) * p)

            return newton(rising, p, top.expand_as(p))
    else:
        high = _slope(top, alpha) - _slope(largest, alpha)

        def at(nu: torch.Tensor) -> torch.Tensor:
            return ((alpha - 1) * (_slope(p, alpha) + nu)) ** (1 / (alpha - 1))

    q = at(bisect(lambda nu: 1 - at(nu).sum(-1, keepdim=True), torch.zeros_like(high), high))
    return q / q.sum(-1, keepdim=True)


def _cost(p: torch.Tensor, k: int, alpha: float, dual: bool, price: float) -> float:
    """Value of the objective on the ``k`` largest of the sorted ``p``."""
    q = renormalise(p[:k], alpha, dual)
    rest = p[k:]
    nothing = torch.zeros_like(rest)
    if dual:
        value = _divergence(p[:k], q, alpha).sum() + _divergence(rest, nothing, alpha).sum()
    else:
        value = _divergence(q, p[:k], alpha).sum() + _divergence(nothing, rest, alpha).sum()
    return float(value) + price * k


def bregman(p: torch.Tensor, alpha: float, price: float, dual: bool = False, k: int | None = None) -> torch.Tensor:
    """The minimiser of ``D(q, p) + price |support(q)|`` (dual: ``D(p, q)``) over the simplex, for one distribution.

    The best support of size ``k`` is the ``k`` largest, and the objective is discretely convex in ``k``, so the first ``k`` that the next
    one does not improve on is found by binary search.

    Args:
        p: ``float64[width]``, probabilities.
        alpha: of ``phi(x) = x^alpha / (alpha (alpha - 1))``, ``x log x`` at 1.
        price: of a token in the support.
        k: fixes the size of the support.
    """
    ordered, order = p.sort(descending=True, stable=True)
    ordered = ordered[ordered > 0]
    if k is None:
        costs: dict[int, float] = {}

        def cost(size: int) -> float:
            if size not in costs:
                costs[size] = _cost(ordered, size, alpha, dual, price)
            return costs[size]

        # the divergence is not negative, so a size whose price alone is above the cost of one token cannot be the best
        low, high = 1, max(1, int(min(len(ordered), cost(1) / price)))
        while low < high:
            middle = (low + high) // 2
            if cost(middle + 1) < cost(middle):
                low = middle + 1
            else:
                high = middle
        k = low
    k = min(k, len(ordered))
    return torch.zeros_like(p).scatter(0, order[:k], renormalise(ordered[:k], alpha, dual))


@method(
    "Bregman decoders",
    law="exact",
    target="each token ~ the q on the simplex that minimises D(q, p) + price |support(q)| (dual: D(p, q)), p the step's distribution",
    cost="a sort of the vocabulary a step, and a renormalisation for each support size of a binary search",
    paper="Noarov et al. 2025, arXiv:2505.19371",
    use="guided.generate(..., warpers=[Bregman(alpha, price)])",
)
class Bregman(Warper):
    """The sparse distribution nearest to the step's in the Bregman divergence of ``phi(x) = x^alpha / (alpha (alpha - 1))`` (``x log x`` at
    1: the Kullback-Leibler divergence), where every token kept costs ``price`` (Noarov et al. 2025, arXiv:2505.19371).

    ``alpha = 1`` with a fixed ``k`` is top-k. With a price the size of the support follows the distribution.

    Args:
        alpha: above 0; above 1 for the dual, where a token that is left out would else cost infinitely much.
        price: above 0; or ``k``, the size of the support.
        dual: minimise ``D(p, q)`` instead of ``D(q, p)``.

    Raises:
        ValueError: an argument out of range, or not exactly one of ``price`` and ``k``.
    """

    law: Law = "exact"

    def __init__(self, alpha: float = 1.0, price: float | None = None, *, k: int | None = None, dual: bool = False) -> None:
        if not 0 < alpha < math.inf or (dual and alpha <= 1):
            raise ValueError(f"alpha must be above 0, and above 1 for the dual, not {alpha}")
        if (price is None) == (k is None):
            raise ValueError("give either price or k")
        if price is not None and not price > 0:
            raise ValueError(f"price must be above 0, not {price}")
        if k is not None and k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        self.alpha, self.price, self.k, self.dual = alpha, price, k, dual

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        made = [bregman(p, self.alpha, self.price or 0.0, self.dual, self.k) for p in scores.double().softmax(-1)]
        return torch.stack(made).log().masked_fill(scores == FORBIDDEN, FORBIDDEN).to(scores.dtype)

    def describe(self) -> str:
        size = f"{self.k} tokens" if self.k is not None else f"price {self.price:g} a token"
        return f"the nearest sparse distribution ({'dual ' if self.dual else ''}Bregman, alpha {self.alpha:g}, {size})"
