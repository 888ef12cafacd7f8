"""Resampling: particles with weights in, the same number of particles with equal weights out.

Every scheme is *unbiased*: particle ``i`` of normalised weight ``w_i`` has ``n * w_i`` descendants in expectation, which is all that an
unbiased estimate of ``Z`` needs. They differ in the variance of that number (Douc, Cappé, Moulines 2005, arXiv:cs/0507025):

=============  ==================================================================================================================
multinomial    ``n`` independent draws (Gordon, Salmond, Smith 1993)
stratified     one uniform in each of the ``n`` intervals ``[k/n, (k+1)/n)`` (Kitagawa 1996); never more variance than multinomial
systematic     one uniform, shifted by ``k/n`` (Carpenter, Clifford, Fearnhead 1999): ``floor`` or ``ceil`` of ``n * w_i`` descendants
residual       ``floor(n * w_i)`` descendants for sure, multinomial draws for the rest (Liu, Chen 1998)
=============  ==================================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch

__all__ = ["SCHEMES", "Scheme", "resample"]

Scheme = Literal["multinomial", "stratified", "systematic", "residual"]


def _invert(weights: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Indices whose intervals of the cumulative weights hold ``points`` of [0, 1); never one of weight zero."""
    cumulative = weights.cumsum(0)
    last = torch.searchsorted(cumulative, cumulative[-1:])  # where the sum grows for the last time: rounding must not lead past it
    return torch.minimum(torch.searchsorted(cumulative, points * cumulative[-1], right=True), last)


def _uniforms(n: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(n, dtype=torch.float64, generator=generator)


def _multinomial(weights: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return _invert(weights, _uniforms(n, generator))


def _stratified(weights: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return _invert(weights, (torch.arange(n, dtype=torch.float64) + _uniforms(n, generator)) / n)


def _systematic(weights: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    return _invert(weights, (torch.arange(n, dtype=torch.float64) + _uniforms(1, generator)) / n)


def _residual(weights: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    expected = weights * n
    sure = (expected + 1e-9).floor()  # a whole number that rounding made smaller is meant
    ancestors = torch.repeat_interleave(torch.arange(len(weights)), sure.long())
    rest = n - len(ancestors)
    if rest == 0:
        return ancestors
    return torch.cat([ancestors, _multinomial((expected - sure).clamp(min=0), rest, generator)])


SCHEMES: dict[str, Callable[[torch.Tensor, int, torch.Generator], torch.Tensor]] = {
    "multinomial": _multinomial,
    "stratified": _stratified,
    "systematic": _systematic,
    "residual": _residual,
}


def resample(log_weights: torch.Tensor, n: int, scheme: Scheme, generator: torch.Generator) -> torch.Tensor:
    """Ancestors of ``n`` particles of equal weight.

    Args:
        log_weights: ``float64[m]``, not normalised, at least one above ``-inf``.
        n: how many descendants.
        scheme: see :mod:`samplers.smc.resampling`.
        generator: the only randomness.

    Returns:
        ``int64[n]``, ascending for all schemes but ``multinomial`` and ``residual``.

    Raises:
        ValueError: an unknown scheme, ``n`` below 1, or no weight above zero.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"resampling must be one of {', '.join(get_args(Scheme))}, not {scheme!r}")
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    total = log_weights.logsumexp(0)
    if not torch.isfinite(total):
        raise ValueError("no particle has a finite weight above zero: there is nothing to resample")
    return SCHEMES[scheme](torch.exp(log_weights - total), n, generator)
