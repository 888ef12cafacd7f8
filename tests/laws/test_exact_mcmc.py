"""Markov chains: the target is left as it is by every step, and reached from anywhere."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import pytest

from grammars.errors import ConstraintError
from samplers import mcmc as mcmc_module
from samplers.mcmc import Cut, mcmc
from samplers.target import Samples
from tests.laws.cases import Law, case, names
from tests.laws.checks import check_exact, check_reproducible, check_unbiased


def from_the_target(target: Any, n: int, *, seed: int, law: Law, cut: Cut = "uniform", steps: int = 2) -> Samples:
    """Chains that begin with draws from the target: they must end with such."""
    start = random.Random(f"start {seed}").choices(list(law), weights=list(law.values()), k=n)
    return mcmc(target, n, seed=seed, steps=steps, cut=cut, start=start)


@pytest.mark.parametrize("name", names())
def test_the_target_is_stationary(name: str) -> None:
    check_exact(partial(from_the_target, law=case(name).law), case(name), draws=700)


@pytest.mark.parametrize("name", ["random, regex", "reward"])
def test_the_target_is_stationary_when_texts_begin_anew(name: str) -> None:
    check_exact(partial(from_the_target, law=case(name).law, cut="restart"), case(name), draws=700)


@pytest.mark.parametrize(("name", "cut"), [("distortion", "restart"), ("random, set", "uniform"), ("dead ends", "uniform")])
def test_chains_come_to_the_target(name: str, cut: Cut) -> None:
    check_exact(partial(mcmc, steps=20, cut=cut), case(name), draws=200)


def test_chains_come_to_the_target_from_an_unlikely_text() -> None:
    problem = case("random, set")
    worst = min(problem.law, key=lambda s: problem.law[s])
    check_exact(lambda target, n, *, seed: mcmc(target, n, seed=seed, steps=20, start=[worst] * n), problem, draws=200)
    with pytest.raises(AssertionError):
        check_exact(lambda target, n, *, seed: mcmc(target, n, seed=seed, steps=1, start=[worst] * n), problem, draws=200)


@pytest.mark.parametrize("cut", ["uniform", "restart"])
def test_taking_every_proposal_is_found(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcmc_module, "_accepts", lambda *_: True)
    with pytest.raises(AssertionError):
        check_exact(partial(from_the_target, law=case("distortion").law, cut=cut), case("distortion"), draws=600)


def test_forgetting_the_length_of_texts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = mcmc_module._log_proposal
    monkeypatch.setattr(mcmc_module, "_log_proposal", lambda to, text, cut: right(to, text, cut) + math.log(len(text.tokens)))
    with pytest.raises(AssertionError):
        check_exact(partial(from_the_target, law=case("random, regex").law, steps=6), case("random, regex"), draws=1500)


@pytest.mark.parametrize("name", ["distortion", "reward"])
def test_log_z_comes_from_the_first_texts(name: str) -> None:
    z = [math.exp(mcmc(case(name).target(), 3, seed=seed, steps=0).log_z) for seed in range(100)]
    error = (sum((v - sum(z) / 100) ** 2 for v in z) / 99 / 100) ** 0.5
    assert abs(sum(z) / 100 - case(name).z) < 5 * error + 1e-9


def test_without_weights_and_steps_it_is_masking() -> None:
    with pytest.raises(AssertionError):
        check_unbiased(partial(mcmc, steps=0), case("distortion"), runs=200)


def test_randomness_comes_from_the_seed() -> None:
    check_reproducible(mcmc, case("random, set"))
    few, many = (mcmc(case("random, set").target(), n, seed=4).samples for n in (3, 9))
    assert few == many[:3], "chains do not depend on each other"


def test_what_cannot_be_is_refused() -> None:
    target = case("random, set").target()
    for wrong in ({"steps": -1}, {"cut": "middle"}, {"start": [(0, 5)]}, {"max_starts": 0}):
        with pytest.raises(ValueError):
            mcmc(target, 2, seed=0, **wrong)
    for text in ((), (0,), (2, 5), (0, 5, 5), (0, 99), (6, 5)):
        with pytest.raises(ConstraintError, match="cannot start"):
            mcmc(target, 1, seed=0, start=[text])
