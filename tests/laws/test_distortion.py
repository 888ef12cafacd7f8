"""The known distortion: where masking says 30 % the truth is 90 %, and every corrected method says so within its stated error.

An estimate may be off by as many of its own stated standard errors as a normal variate is with probability 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from guided.evaluation.laws import CONTENDERS, MASKING, REFERENCE, Contender
from samplers.importance import importance
from samplers.target import Samples
from tests.laws.cases import Tokens, distortion
from tests.laws.checks import SIGNIFICANCE, critical

CHAINS = "MCMC constrained sampling"
DIFFERENT = ("stochastic beam search", "CPSBS conditional-Poisson beams")
CORRECTED = [c for c in CONTENDERS if not c.peer and c.name not in (MASKING, REFERENCE, *DIFFERENT)]
TEXTS = 400


def begins_with_a(tokens: Tokens) -> float:
    return float(tokens[0] == 0)


def test_the_case_is_what_it_is_said_to_be() -> None:
    assert sum(p for tokens, p in distortion().law.items() if begins_with_a(tokens)) == pytest.approx(0.9, abs=1e-3)
    assert sum(p for tokens, p in distortion().masked.items() if begins_with_a(tokens)) == pytest.approx(0.3, abs=1e-3)


def contender(name: str) -> Contender:
    return next(c for c in CONTENDERS if c.name == name)


def drawn(method: Contender, seed: int) -> Samples:
    """The stated error of chains is that of the noise alone: they are given steps enough to forget where they began."""
    longer = replace(method, options={"steps": 60}) if method.name == CHAINS else method
    return longer.draw(distortion(), distortion().target(), TEXTS, seed)


@pytest.mark.parametrize("method", CORRECTED, ids=lambda c: c.name)
def test_corrected_methods_say_ninety_percent(method: Contender) -> None:
    estimate, error = drawn(method, 11).estimate(begins_with_a)
    assert error < 0.04, "an error that large says nothing"
    assert abs(estimate - 0.9) <= critical(SIGNIFICANCE) * error + 1e-9
    assert abs(estimate - 0.3) > 10 * error


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_texts_that_are_all_texts_say_it_exactly(name: str) -> None:
    samples = drawn(contender(name), 11)
    assert samples.expectation(begins_with_a) == pytest.approx(0.9)
    assert samples.log_z == pytest.approx(distortion().log_z)


def test_masking_says_thirty_percent() -> None:
    estimate, error = drawn(contender(MASKING), 11).estimate(begins_with_a)
    assert abs(estimate - 0.3) <= critical(SIGNIFICANCE) * error
    assert abs(estimate - 0.9) > 10 * error


def test_masking_tells_its_bias() -> None:
    details = importance(distortion().target(), TEXTS, seed=5).details
    masked, law = distortion().masked, distortion().law
    divergence = math.fsum(q * math.log(q / law[tokens]) for tokens, q in masked.items())
    assert details["kl_masking"] == pytest.approx(divergence, rel=0.3)
    assert details["removed_mass"] == pytest.approx(1 - distortion().z, abs=0.1)


@pytest.mark.parametrize("method", CORRECTED, ids=lambda c: c.name)
def test_log_z_is_within_its_stated_error(method: Contender) -> None:
    samples = drawn(method, 12)
    assert samples.log_z_error < 0.2
    assert abs(samples.log_z - distortion().log_z) <= critical(SIGNIFICANCE) * samples.log_z_error + 1e-9
