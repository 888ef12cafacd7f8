"""Every resampling scheme is unbiased: ``n * w`` descendants in expectation, whatever else it does to their number."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, pvariance

import pytest
import torch

from samplers.smc.resampling import SCHEMES, resample
from tests.laws.checks import SIGNIFICANCE, critical, z_score

REPEATS = 1200
SHARES = {
    "uneven": [0.05, 0.0, 0.4, 0.15, 0.3, 0.1],
    "equal": [0.2] * 5,
    "one heavy": [0.93, 0.01, 0.02, 0.04],
    "steps of 1/n": [0.25, 0.5, 0.125, 0.125],
    "many": [(k * 7919) % 31 + 0.5 for k in range(24)],
}

Scheme = Callable[[torch.Tensor, int, torch.Generator], torch.Tensor]


def normalised(shares: list[float]) -> list[float]:
    total = math.fsum(shares)
    return [share / total for share in shares]


def counts(scheme: Scheme, shares: list[float], n: int, seed: int = 5) -> list[list[int]]:
    """For each particle, its number of descendants in every repetition."""
    generator = torch.Generator().manual_seed(seed)
    logs = torch.tensor(shares, dtype=torch.float64).log() - 700.0  # far from normalised
    drawn = [torch.bincount(scheme(logs, n, generator), minlength=len(shares)).tolist() for _ in range(REPEATS)]
    return [list(column) for column in zip(*drawn)]


def biased(scheme: Scheme, shares: list[float], n: int) -> list[int]:
    """Particles whose mean number of descendants is off, at the suite's significance."""
    bound = critical(SIGNIFICANCE / len(shares))
    found = counts(scheme, shares, n)
    return [i for i, (share, seen) in enumerate(zip(normalised(shares), found)) if abs(z_score(seen, n * share)) > bound]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("shares", SHARES)
def test_expected_descendants(name: str, shares: str) -> None:
    def scheme(logs: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
        return resample(logs, n, name, generator)  # type: ignore[arg-type]

    weights = SHARES[shares]
    assert not biased(scheme, weights, len(weights))
    assert not biased(scheme, weights, 3), "another number of descendants than of particles"


def test_the_check_finds_biased_schemes() -> None:
    def unshifted(logs: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
        return torch.searchsorted((logs - logs.logsumexp(0)).exp().cumsum(0), (torch.arange(n, dtype=torch.float64) + 0.5) / n)

    def greedy(logs: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
        kept = ((logs - logs.logsumexp(0)).exp() * n).floor().long()  # residual resampling that gives the rest to the heaviest
        return torch.cat([torch.repeat_interleave(torch.arange(len(logs)), kept), logs.argmax().repeat(n - int(kept.sum()))])

    def flattened(logs: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
        return resample(0.9 * logs, n, "systematic", generator)

    for wrong in (unshifted, greedy, flattened):
        assert biased(wrong, SHARES["uneven"], 6)


@pytest.mark.parametrize("shares", SHARES)
def test_numbers_of_descendants_stay_where_the_scheme_promises(shares: str) -> None:
    weights = SHARES[shares]
    n = len(weights)
    expected = [n * share for share in normalised(weights)]
    for name in SCHEMES:
        seen = counts(lambda logs, n, g, name=name: resample(logs, n, name, g), weights, n)  # type: ignore[misc]
        for mean, column in zip(expected, seen):
            low, high = math.floor(mean + 1e-9), math.ceil(mean - 1e-9)
            if mean == 0:
                assert max(column) == 0, name
            if name == "systematic":
                assert low <= min(column) and max(column) <= high
            if name == "stratified":
                assert low - 1 <= min(column) and max(column) <= high + 1
            if name == "residual":
                assert low <= min(column)


def test_variance_falls_as_it_should() -> None:
    variances = {
        name: fmean(pvariance(c) for c in counts(lambda logs, n, g, name=name: resample(logs, n, name, g), SHARES["many"], 24))  # type: ignore[misc]
        for name in SCHEMES
    }
    assert variances["systematic"] < variances["stratified"] < variances["residual"] < variances["multinomial"]


def test_bad_arguments() -> None:
    generator = torch.Generator().manual_seed(0)
    logs = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(ValueError, match="multinomial, stratified, systematic, residual"):
        resample(logs, 3, "best", generator)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n must be at least 1"):
        resample(logs, 0, "systematic", generator)
    with pytest.raises(ValueError, match="nothing to resample"):
        resample(logs - math.inf, 3, "systematic", generator)
