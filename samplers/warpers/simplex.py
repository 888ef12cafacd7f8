"""Decoders as optimisation over the probability simplex: one template, one solver.

A step's distribution is the solution of

    maximise over q in the simplex   <q, s> - sum_i omega_i(q_i)     with q_i = 0 outside of a support

for a separable, strictly convex regulariser. It is characterised by one number ``nu`` (Karush, Kuhn, Tucker): ``omega_i'(q_i) = s_i - nu``
where ``q_i > 0``, and ``omega_i'(0) >= s_i - nu`` where it is 0. Each ``q_i`` falls as ``nu`` grows, so ``nu`` is found by bisection from
``sum q = 1``. Known decoders are choices of ``omega`` and of the support:

====================  =============================  ==========================
decoder               regulariser                    support
====================  =============================  ==========================
greedy                ``None`` (the linear problem)  all
softmax, temperature  :class:`Entropy`               all
top-k, top-p          :class:`Entropy`               the k best; the nucleus
sparsemax             ``Tsallis(2)``                 all (it is sparse by itself)
entmax                ``Tsallis(alpha)``             all
best of K             :class:`.best_of_k.Coverage`   the best candidates
====================  =============================  ==========================

Papers: Ji et al. 2026, arXiv:2602.18292 (the template); Martins, Astudillo 2016, arXiv:1602.02068 (sparsemax); Peters, Niculae, Martins
2019, arXiv:1905.05702 (entmax).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from ..registry import Law, method
from .base import FORBIDDEN, Row, Warper, only_best, top

__all__ = ["Entropy", "Regulariser", "Simplex", "Support", "Tsallis", "bisect", "newton", "solve"]

Support = Callable[[torch.Tensor], torch.Tensor]  # float[rows, width] -> the same with minus infinity outside of the support

_STEPS = 200  # of a bisection at most; doubles settle after some sixty


class Regulariser(Protocol):
    """A separable, strictly convex ``omega``, told by its derivative."""

    def slope(self, q: torch.Tensor) -> torch.Tensor:
        """``omega'(q)``, elementwise, for ``q`` in (0, 1]; grows with ``q``."""
        ...

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """The ``q`` in [0, 1] with ``omega'(q) = y``; 0 where ``y`` is below the slope at 0, 1 where it is above the slope at 1."""
        ...

    def describe(self) -> str:
        """Its name, with its parameters."""
        ...


class Entropy:
    """``omega(q) = t q log q``: the solution is ``softmax(s / t)``.

    Raises:
        ValueError: ``t`` is not above 0.
    """

    def __init__(self, t: float = 1.0) -> None:
        if not t > 0:
            raise ValueError(f"the weight of the entropy must be above 0, not {t}; no regulariser at all is greedy")
        self.t = t

    def slope(self, q: torch.Tensor) -> torch.Tensor:
        return self.t * (q.log() + 1)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        return (y / self.t - 1).clamp(max=0).exp()

    def describe(self) -> str:
        return f"entropy of weight {self.t:g}"


class Tsallis:
    """``omega(q) = t (q^alpha - q) / (alpha (alpha - 1))``: entmax; ``alpha = 2`` is sparsemax, ``alpha -> 1`` softmax.

    For ``alpha > 1`` the slope at 0 is finite, so small scores get probability zero.

    Raises:
        ValueError: ``alpha`` is not above 1, or ``t`` not above 0.
    """

    def __init__(self, alpha: float = 2.0, t: float = 1.0) -> None:
        if not alpha > 1 or not t > 0:
            raise ValueError(f"alpha must be above 1 and t above 0, not {alpha} and {t}; alpha = 1 is Entropy")
        self.alpha, self.t = alpha, t

    def slope(self, q: torch.Tensor) -> torch.Tensor:
        return self.t * (self.alpha * q ** (self.alpha - 1) - 1) / (self.alpha * (self.alpha - 1))

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        base = ((self.alpha - 1) * y / self.t + 1 / self.alpha).clamp(min=0)
        return (base ** (1 / (self.alpha - 1))).clamp(max=1)

    def describe(self) -> str:
        return f"Tsallis entropy {self.alpha:g} of weight {self.t:g}"


def bisect(falling: Callable[[torch.Tensor], torch.Tensor], low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Where a falling function changes sign, elementwise: ``falling(low) >= 0 >= falling(high)``. To the last bit that bisection gives."""
    for _ in range(_STEPS):
        middle = low + (high - low) / 2
        if bool(((middle == low) | (middle == high)).all()):
            break
        above = falling(middle) >= 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return low


def newton(rising: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Where a rising function is 0, elementwise, by Newton's method kept within a bracket.

    Args:
        rising: ``x -> (value, derivative)``, derivative above 0.
        low, high: ``value(low) <= 0 <= value(high)``.
    """
    x = high
    for _ in range(_STEPS):
        value, steep = rising(x)
        low, high = torch.where(value <= 0, x, low), torch.where(value >= 0, x, high)
        step = x - value / steep
        after = torch.where((step >= low) & (step <= high), step, low + (high - low) / 2)
        settled = bool(((after - x).abs() <= 4e-16 * (1 + x.abs())).all())
        x = after
        if settled:
            break
    return x


def solve(scores: torch.Tensor, regulariser: Regulariser | None) -> torch.Tensor:
    """The maximiser of ``<q, s> - sum omega(q_i)`` over the simplex, for each row.

    Args:
        scores: ``float[..., width]``; minus infinity is outside of the support.
        regulariser: ``None`` for the linear problem, whose solution is all mass on the (first) best token.

    Returns:
        ``float64[..., width]``, probabilities.
    """
    s = scores.double()
    if regulariser is None:
        return torch.zeros_like(s).scatter(-1, s.argmax(-1, keepdim=True), 1.0)
    inside = s != FORBIDDEN
    best = s.amax(-1, keepdim=True)
    finite = (s - best).masked_fill(~inside, FORBIDDEN)  # the solution does not change with a constant, its precision does
    count = inside.sum(-1, keepdim=True)
    # at the lower end the best token alone would have all the mass; at the upper one no token has more than its share
    low = -regulariser.slope(torch.ones_like(s)).amax(-1, keepdim=True)
    high = -regulariser.slope((1.0 / count).expand_as(s)).amin(-1, keepdim=True)

    def mass(nu: torch.Tensor) -> torch.Tensor:
        return regulariser.inverse(finite - nu).masked_fill(~inside, 0.0)

    nu = bisect(lambda nu: mass(nu).sum(-1, keepdim=True) - 1, low, high)
    q = mass(nu)
    return q / q.sum(-1, keepdim=True)


@method(
    "Best-of-K / simplex decoders",
    law="exact",
    target="each token ~ the q that maximises <q, scores> - Omega(q) over the simplex, for the given regulariser and support",
    cost="some sixty passes over the vocabulary a step (bisection); best of K: a few thousand over its candidates",
    paper="Ji et al. 2026, arXiv:2602.18292",
    use="guided.generate(..., warpers=[Simplex(Tsallis(1.5))]), warpers=[BestOfK(k)]",
)
class Simplex(Warper):
    """The step's distribution is the solution of the template at the head of this module; its logarithm is returned.

    Args:
        regulariser: :class:`Entropy`, :class:`Tsallis` or one of your own; ``None`` is greedy.
        support: restricts the support, ``lambda s: top_k(s, 40)``, say; ``None``: every token that is not forbidden.
        name: of the support, for the stated law.
    """

    def __init__(self, regulariser: Regulariser | None, support: Support | None = None, name: str = "a given support") -> None:
        self.regulariser, self.support, self.name = regulariser, support, name
        self.law: Law = "argmax" if regulariser is None else "exact"

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        inside = scores if self.support is None else self.support(scores)
        if self.regulariser is None:
            best, tokens = top(inside, 1)
            return only_best(scores, tokens, best)
        return solve(inside, self.regulariser).log().to(scores.dtype)

    def describe(self) -> str:
        what = "all mass on the best" if self.regulariser is None else f"best expected score regularised by {self.regulariser.describe()}"
        return what + ("" if self.support is None else f" within {self.name}")
