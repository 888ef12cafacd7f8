"""Draws without replacement, and how many checks adaptive rejection makes."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from grammars import Regex, Vocabulary
from samplers import awrs as module
from samplers.awrs import AdaptiveRejection, Urn, awrs, draw
from samplers.models import TabularModel
from samplers.target import Target

PROBS = np.array([0.5, 0.0, 0.2, 0.15, 0.1, 0.05])


def logs(probs: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probs)


@pytest.mark.parametrize("few", [0, 1, 24], ids=["sorted", "one by one, then sorted", "one by one"])
def test_tokens_come_by_successive_sampling(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    counts: Counter[tuple[int, ...]] = Counter()
    runs = 4000
    for seed in range(runs):
        urn = Urn(logs(PROBS) - 3.0, random.Random(seed))
        drawn: list[int] = []
        while True:
            left = [t for t in range(6) if t not in drawn and PROBS[t]]
            expected = math.log(sum(PROBS[t] for t in left)) - 3.0 if left else -math.inf
            if seed < 50:
                assert urn.log_left() == pytest.approx(expected, abs=1e-9)
            token = urn.draw()
            if token is None:
                break
            drawn.append(token)
        assert sorted(drawn) == [0, 2, 3, 4, 5]
        counts[tuple(drawn[:2])] += 1
    for (a, b), count in counts.items():
        p = PROBS[a] * PROBS[b] / (1 - PROBS[a])
        assert abs(count - runs * p) < 5 * math.sqrt(runs * p), (a, b)
    assert len(counts) == 20


def test_tokens_of_tiny_probability_are_told_apart() -> None:
    """What is left when nearly all the mass is gone is far below the rounding of cumulative sums."""
    scores = np.array([0.0, -60.0, -61.0])
    firsts = Counter()
    for seed in range(1000):
        urn = Urn(scores, random.Random(seed))
        assert urn.draw() == 0
        assert urn.log_left() == pytest.approx(float(np.logaddexp(-60, -61)))
        firsts[urn.draw()] += 1
    assert firsts[1] / 1000 == pytest.approx(1 / (1 + math.exp(-1)), abs=0.07)


def test_nothing_to_draw() -> None:
    urn = Urn(np.full(3, -math.inf), random.Random(0))
    assert urn.draw() is None and urn.log_left() == -math.inf
    assert draw(Urn(logs(PROBS), random.Random(0)), lambda token: False) == (None, -math.inf, 5)


@pytest.mark.parametrize("extra", [1, 2, 4, 9])
@pytest.mark.parametrize("good", [{0, 4}, {5}, {0, 2, 3, 4, 5}, {2, 3}])
def test_weights_are_unbiased_for_every_token(extra: int, good: set[int]) -> None:
    runs = 1500
    sums = np.zeros(6)
    squares = np.zeros(6)
    for seed in range(runs):
        asked: list[int] = []

        def allows(token: int, asked: list[int] = asked) -> bool:
            asked.append(token)
            return token in good

        token, log_weight, checks = draw(Urn(logs(PROBS), random.Random(seed)), allows, extra)
        assert token in good and checks == len(asked) == len(set(asked))
        sums[token] += math.exp(log_weight)
        squares[token] += math.exp(2 * log_weight)
        if extra == 9:
            assert math.exp(log_weight) == pytest.approx(sum(PROBS[t] for t in good)), "all was looked at"
    for token in good:
        mean = sums[token] / runs
        error = math.sqrt(max(squares[token] / runs - mean**2, 0) / runs)
        assert abs(mean - PROBS[token]) < 4.5 * error + 1e-9


def test_more_draws_vary_less() -> None:
    def variance(extra: int) -> float:
        found = [draw(Urn(logs(PROBS), random.Random(seed)), lambda t: t in (0, 3, 5), extra)[1] for seed in range(800)]
        return float(np.var(np.exp(found)))

    assert variance(3) < variance(2) < variance(1)


def test_an_expensive_checker_is_asked_about_few_tokens() -> None:
    """A model that knows what the checker wants: about two checks a token out of 400, whatever the number of particles."""
    width, end = 400, 399
    asked: list[tuple[tuple[int, ...], int]] = []

    def check(prefix: tuple[int, ...], token: int) -> bool:
        asked.append((prefix, token))
        return token == end if len(prefix) == 3 else token % 2 == 0

    def row(prefix: tuple[int, ...]) -> np.ndarray:
        weights = np.full(width, 1e-5)
        weights[[2, 4, 6]] = 1.0 if len(prefix) < 3 else 1e-3
        weights[end] = 1e-4 if len(prefix) < 3 else 1.0
        return weights / weights.sum()

    target = Target(TabularModel(width, end, row), (), max_tokens=6, check=check)
    found = awrs(target, 12, seed=0)
    assert len(asked) == len(set(asked)) == found.details["checks"], "particles share the answers"
    assert len(asked) / (found.details["steps"] * width) == pytest.approx(found.details["checked_fraction"])
    assert found.details["checked_fraction"] < 0.01
    assert all(s.finished and len(s.tokens) == 4 for s in found.samples)


def test_the_mask_first_leaves_only_the_checker_to_be_asked() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3])
    asked: list[int] = []

    def check(prefix: tuple[int, ...], token: int) -> bool:
        asked.append(token)
        return True

    target = Target(TabularModel.random(4, 5, seed=2), (), Regex("[ab]c?").compile(vocabulary), 5, check=check)
    awrs(target, 20, seed=1, premask=True)
    automaton = target.automaton
    assert automaton is not None and asked and 2 in asked
    assert all(automaton.allows(automaton.start, t) or t in (2, 3) for t in asked)


def test_there_must_be_a_draw_more() -> None:
    with pytest.raises(ValueError, match="extra"):
        AdaptiveRejection(extra=0)
