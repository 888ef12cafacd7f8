"""Fitting a tilt: expected metrics become the goals."""

from __future__ import annotations

import math

import pytest

from grammars.errors import ConstraintError
from guided.evaluation.toys import A
from samplers.daemon import Tilt, daemon, fit_tilt
from samplers.importance import importance
from samplers.target import Sample, Samples, Target
from tests.laws.cases import case

METRICS = {"tokens": len, "a": lambda tokens: float(tokens.count(A))}


def exact(name: str) -> Samples:
    """Every text of a case, weighed by its probability."""
    return Samples([Sample(s, math.log(p), math.log(p), True) for s, p in case(name).law.items()], 0.0, 0.0, [], 0, 0.0, "exact")


def expected(law: dict[tuple[int, ...], float]) -> dict[str, float]:
    total = sum(law.values())
    return {name: sum(p * metric(s) for s, p in law.items()) / total for name, metric in METRICS.items()}


def tilted(tilt: Tilt, name: str) -> dict[tuple[int, ...], float]:
    return {s: p * math.exp(tilt.log_value(s)) for s, p in case(name).law.items()}


def test_the_goals_are_met_and_nothing_else_is_changed() -> None:
    goals = {"tokens": 3.6, "a": 0.9}
    law = tilted(fit_tilt(exact("random, regex"), METRICS, goals), "random, regex")
    assert expected(law) == pytest.approx(goals, abs=1e-6)
    texts = {}
    for s, p in law.items():  # texts of equal metrics keep their odds
        other, q = texts.setdefault((len(s), s.count(A)), (s, p))
        assert p / q == pytest.approx(case("random, regex").law[s] / case("random, regex").law[other])


def test_goals_that_are_met_already_need_no_tilt() -> None:
    goals = expected(case("random, set").law)
    assert list(fit_tilt(exact("random, set"), METRICS, goals).coefficients.values()) == pytest.approx([0, 0], abs=1e-6)


def test_coefficients_come_from_weighted_samples_too() -> None:
    goals = {"tokens": 3.4, "a": 0.8}
    target = case("random, regex").target()
    tilt = fit_tilt(importance(target, 1500, seed=3), METRICS, goals)
    found = expected(tilted(tilt, "random, regex"))
    assert found == pytest.approx(goals, abs=0.15)
    assert found != pytest.approx(expected(case("random, regex").law), abs=0.2), "the tilt moved something"


def test_samples_have_the_metrics() -> None:
    tilt = fit_tilt(exact("random, regex"), METRICS, {"tokens": 3.6, "a": 0.9})
    found = daemon(case("random, regex").target(), 150, seed=2, candidates=8, tilt=tilt)
    for name, goal in {"tokens": 3.6, "a": 0.9}.items():
        value, error = found.estimate(METRICS[name])
        assert abs(value - goal) < 4 * error


def test_a_tilt_adds_to_the_reward() -> None:
    base = case("reward").target()
    assert base.reward is not None
    tilt = Tilt({"tokens": len}, {"tokens": 0.5})
    target: Target = tilt.target(base)
    assert target.potential((0, 1, 5), True) == pytest.approx(base.potential((0, 1, 5), True) - 1.5)
    assert target.potential((0, 1), False) == base.potential((0, 1), False)


@pytest.mark.parametrize("goals", [{"tokens": 9.0, "a": 0.5}, {"tokens": 2.0, "a": 2.0}, {"tokens": 3.0, "a": -0.1}])
def test_goals_out_of_reach_are_refused(goals: dict[str, float]) -> None:
    with pytest.raises(ConstraintError, match="no weighting"):
        fit_tilt(exact("random, regex"), METRICS, goals)


@pytest.mark.parametrize("goals", [{}, {"tokens": 3.0}, {"tokens": 3.0, "b": 1.0}])
def test_every_metric_has_a_goal(goals: dict[str, float]) -> None:
    with pytest.raises(ConstraintError, match="same names"):
        fit_tilt(exact("random, set"), METRICS, goals)


def test_numbers_are_checked() -> None:
    with pytest.raises(ValueError, match="candidates"):
        daemon(case("random, set").target(), 2, seed=0, candidates=0)
