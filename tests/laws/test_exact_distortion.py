"""The known distortion: local masking begins with ``a`` in 30 % of its texts, the model given the language in 90 %."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from guided.evaluation.toys import A
from samplers.asap import asap
from samplers.awrs import awrs
from samplers.cars import cars
from samplers.daemon import daemon
from samplers.importance import importance
from samplers.mcmc import mcmc
from samplers.rejection import rejection
from samplers.smc import smc
from tests.laws.cases import distortion

TRUTH, MASKED = 0.9, 0.3

CORRECTED: dict[str, Callable[..., Any]] = {
    "masks with weights": importance,
    "rejection": rejection,
    "CARS": cars,
    "ASAp": asap,
    "AWRS": awrs,
    "SMC": smc,
    "AWRS with SMC": partial(smc, proposal="awrs"),
    "MCMC": partial(mcmc, steps=20),
    "DAEMON": partial(daemon, candidates=4),
}


def begins_with_a(tokens: tuple[int, ...]) -> float:
    return float(tokens[0] == A)


def test_the_case_is_what_it_is_said_to_be() -> None:
    problem = distortion()
    assert sum(p for s, p in problem.law.items() if s[0] == A) == pytest.approx(TRUTH, abs=1e-3)
    assert sum(p for s, p in problem.masked.items() if s[0] == A) == pytest.approx(MASKED, abs=1e-3)


def test_masking_shows_its_bias() -> None:
    found = importance(distortion().target(), 600, seed=5)
    share = sum(begins_with_a(s.tokens) for s in found.samples) / 600
    assert share == pytest.approx(MASKED, abs=4 * (0.3 * 0.7 / 600) ** 0.5)
    assert found.details["removed_mass"] > 0.5 and found.details["kl_masking"] > 0.5


@pytest.mark.parametrize("method", CORRECTED)
def test_the_corrected_method_hits_the_truth_within_its_stated_error(method: str) -> None:
    """Four standard errors of each of five runs (a right method fails once in 3,000 times), and these are small enough to exclude 30 %."""
    for seed in range(5):
        value, error = CORRECTED[method](distortion().target(), 200, seed=seed).estimate(begins_with_a)
        assert abs(value - TRUTH) <= 4 * error + 1e-3
        assert error < 0.1 and value > 0.5
