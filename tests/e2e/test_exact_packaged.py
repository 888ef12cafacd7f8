"""On the packaged model: samplers that share nothing but their target agree on a small language."""

from __future__ import annotations

import math
from typing import Any

import pytest

import guided
from samplers.awrs import awrs
from samplers.cars import cars
from samplers.importance import importance
from samplers.rejection import rejection
from samplers.smc import smc
from samplers.target import Samples, Target

LANGUAGE = " ?(Yes|No|[0-9])"
PROMPT = "Question: Is the sky green?\nAnswer (yes or no): "


@pytest.fixture(scope="module")
def target() -> Target:
    model = guided.load()
    automaton = guided.Regex(LANGUAGE).compile(model.vocabulary)
    return Target(model.language_model, tuple(model.tokenizer.encode(PROMPT)), automaton, 5)


@pytest.fixture(scope="module")
def truth(target: Target) -> dict[tuple[int, ...], float]:
    """The mass of every text, by scoring all ways to write it."""
    texts: list[tuple[int, ...]] = []
    todo: list[tuple[int, tuple[int, ...]]] = [(target.start, ())]
    while todo:
        state, prefix = todo.pop()
        for token in target.allowed(state, prefix).nonzero()[:, 0].tolist():
            if token in target.ends:
                texts.append((*prefix, token))
            else:
                todo.append((target.advance(state, token), (*prefix, token)))
    return {text: math.exp(float(scores.sum())) for text, scores in zip(texts, target.model.score(target.root, texts))}


def agrees(samples: Samples, truth: dict[tuple[int, ...], float]) -> None:
    """The probability of every first token, and ``log Z``, within four and a half of the stated errors."""
    z = sum(truth.values())
    assert abs(samples.log_z - math.log(z)) <= 4.5 * samples.log_z_error + 0.02
    first: dict[int, float] = {}
    for tokens, mass in truth.items():
        first[tokens[0]] = first.get(tokens[0], 0.0) + mass / z
    for token, p in first.items():
        value, error = samples.estimate(lambda tokens, token=token: float(tokens[0] == token))
        assert abs(value - p) <= 4.5 * max(error, math.sqrt(p * (1 - p) / len(samples.samples))) + 0.01, (token, value, p)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "n", "options"),
    [
        (awrs, 200, {}),
        (importance, 200, {}),
        (smc, 200, {"proposal": "awrs"}),
        (cars, 200, {}),
        (rejection, 60, {}),
    ],
    ids=["AWRS", "masks with weights", "AWRS with SMC", "CARS", "rejection"],
)
def test_samplers_agree_with_brute_force(
    sampler: Any, n: int, options: dict[str, Any], target: Target, truth: dict[tuple[int, ...], float]
) -> None:
    found = sampler(target, n, seed=11, **options)
    agrees(found, truth)
    assert all(s.tokens in truth for s in found.samples if s.log_weight > -math.inf)
    if sampler is awrs:
        assert found.details["checked_fraction"] < 0.1
