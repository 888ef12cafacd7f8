"""Samplers whose texts are draws from the target as they are: rejection, and CARS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from samplers import cars as cars_module
from samplers.cars import cars
from samplers.rejection import rejection
from tests.laws.bounded import bounded
from tests.laws.cases import case, names
from tests.laws.checks import check_exact, check_reproducible, check_stated_error, z_score

BOTH = [rejection, cars]
CHEAP = [n for n in names() if case(n).log_z - case(n).reward_bound > -2.5]


@pytest.mark.parametrize("name", names())
def test_cars_is_exact(name: str) -> None:
    check_exact(bounded(cars, name), case(name), draws=2000)


@pytest.mark.parametrize("name", names())
def test_rejection_is_exact(name: str) -> None:
    check_exact(bounded(rejection, name), case(name), draws=700 if name in CHEAP else 100)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_cars_is_exact_in_small_batches(size: int) -> None:
    """What is known when a text is begun differs from text to text most in the first few."""
    check_exact(cars, case("random, set"), draws=600, per_call=size)


@pytest.mark.parametrize("entries", [1, 20])
def test_cars_is_exact_when_it_may_not_remember(entries: int) -> None:
    check_exact(bounded(cars, "random, regex", max_entries=entries), case("random, regex"), draws=800)


@pytest.mark.parametrize("sampler", BOTH)
@pytest.mark.parametrize("name", ["random, set", "free", "checker"])
def test_the_stated_error_of_log_z_is_honest(sampler: Callable[..., Any], name: str) -> None:
    check_stated_error(bounded(sampler, name), case(name), particles=48, runs=15)


def test_the_acceptance_rate_is_an_unbiased_estimate() -> None:
    values = [math.exp(rejection(case("distortion").target(), 3, seed=seed).log_z) for seed in range(250)]
    assert abs(z_score(values, case("distortion").z)) < 5


@pytest.mark.parametrize("name", names())
def test_bounds_of_cars_hold(name: str) -> None:
    found = bounded(cars, name)(case(name).target(), 64, seed=2)
    assert found.details["log_z_lower"] - 1e-9 <= case(name).log_z <= found.details["log_z_upper"] + 1e-9
    assert found.details["log_z_lower"] - 1e-9 <= found.log_z <= found.details["log_z_upper"] + 1e-9


def test_cars_knows_z_exactly_once_it_has_seen_everything() -> None:
    found = cars(case("distortion").target(), 400, seed=0)
    assert found.log_z == pytest.approx(case("distortion").log_z, abs=1e-12) and found.log_z_error < 1e-12


def test_cars_needs_fewer_trials_and_forwards_than_rejection() -> None:
    target = case("random, grammar").target()
    plain, learning = rejection(target, 40, seed=1), cars(target, 40, seed=1)
    assert learning.details["trials"] < plain.details["trials"] / 4
    assert learning.forwards <= plain.forwards


def test_no_failure_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one row, every failed trial is the first visit of a prefix; so there are never more of them than prefixes."""
    target = case("random, set").target()
    failures = 0
    for seed in range(40):
        found = cars(target, 1, seed=seed)
        failures = max(failures, int(found.details["trials"]) - 1)
        assert found.details["trials"] - 1 <= found.forwards
    assert failures > 2


@pytest.mark.parametrize("sampler", BOTH)
def test_randomness_comes_from_the_seed(sampler: Callable[..., Any]) -> None:
    check_reproducible(sampler, case("random, set"))


def test_rows_of_rejection_do_not_depend_on_each_other() -> None:
    few, many = (rejection(case("random, set").target(), n, seed=4).samples for n in (3, 9))
    assert few == many[:3]


def test_trials_that_survive_what_they_should_not_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Going on with the mask's tokens where the trial should fail is local masking on the first visit of a prefix."""
    monkeypatch.setattr(cars_module._Trials, "survives", lambda self, bound: bound > 0)
    with pytest.raises(AssertionError):
        check_exact(cars, case("distortion"), draws=900, per_call=1)


def test_the_likelihood_has_its_maximum_where_it_should() -> None:
    bounds = np.array([0.9, 0.5, 0.5, 0.4])
    z, error = cars_module._most_likely(3, bounds, 0.01, 0.4)
    grid = np.linspace(0.01, 0.399, 20_000)
    values = [3 * math.log(g) + np.log1p(-g / bounds).sum() for g in grid]
    assert z == pytest.approx(grid[int(np.argmax(values))], abs=1e-4)
    curvature = (np.gradient(np.gradient(values, grid), grid))[int(np.argmax(values))]
    assert error == pytest.approx(1 / (z * math.sqrt(-curvature)), rel=0.02)
    assert cars_module._most_likely(3, np.empty(0), 0.1, 0.4)[0] == 0.4
    assert cars_module._most_likely(0, bounds, 0.1, 0.4)[0] == 0.0


def test_what_cannot_be_is_refused_or_given_up() -> None:
    for sampler in BOTH:
        with pytest.raises(ValueError, match="reward_bound"):
            sampler(case("reward").target(), 2, seed=0)
        with pytest.raises(ValueError, match="raise the bound"):
            sampler(case("reward").target(), 20, seed=0, reward_bound=-1.0)
        with pytest.raises(ValueError, match="max_trials"):
            sampler(case("reward").target(), 2, seed=0, max_trials=0)
        found = sampler(case("random, grammar").target(), 12, seed=0, max_trials=1)
        assert found.details["given_up"] > 0
        assert {s.log_weight for s in found.samples if not s.finished} == {-math.inf}
