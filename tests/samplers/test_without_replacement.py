"""Samples that are not independent: what each piece computes, beside the laws in ``tests/laws``."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest
import torch

from guided.evaluation.toys import case, cases
from samplers.models import Counting, TabularModel
from samplers.target import Target
from samplers.without_replacement import ConditionalPoisson, arithmetic_sampling, conditional_poisson_beams, stochastic_beam_search
from samplers.without_replacement.arithmetic import _Code, _shift
from samplers.without_replacement.stochastic_beam import gumbel_with_maximum

SAMPLERS = [arithmetic_sampling, stochastic_beam_search, conditional_poisson_beams]


# ---------------------------------------------------------------- conditional Poisson sampling
def subsets(log_weights: np.ndarray, k: int) -> dict[tuple[int, ...], float]:
    """Every subset and its probability."""
    found = {s: math.exp(math.fsum(log_weights[list(s)])) for s in itertools.combinations(range(len(log_weights)), k)}
    total = math.fsum(found.values())
    return {s: w / total for s, w in found.items()}


def by_recursion(weights: np.ndarray, k: int, item: int) -> float:
    """The inclusion probability from the recursion over items, ``W(i, j) = W(i - 1, j) + w_i W(i - 1, j - 1)``."""

    def normaliser(chosen: list[float], size: int) -> float:
        table = [1.0] + [0.0] * size
        for w in chosen:
            for j in range(size, 0, -1):
                table[j] += w * table[j - 1]
        return table[size]

    others = np.delete(weights, item).tolist()
    return weights[item] * normaliser(others, k - 1) / normaliser(weights.tolist(), k)


@pytest.mark.parametrize(("m", "k"), [(2, 1), (5, 2), (6, 5), (9, 4), (17, 3)])
def test_inclusion_probabilities_are_those_of_enumeration_and_of_the_recursion(m: int, k: int) -> None:
    log_weights = np.random.default_rng(m).normal(size=m) * 3
    design, law = ConditionalPoisson(log_weights, k), subsets(log_weights, k)
    for item in range(m):
        found = design.inclusion(item)
        assert found == pytest.approx(math.fsum(p for s, p in law.items() if item in s), rel=1e-9)
        assert found == pytest.approx(by_recursion(np.exp(log_weights), k, item), rel=1e-9)
    assert sum(map(design.inclusion, range(m))) == pytest.approx(k)


def test_subsets_come_with_their_probability() -> None:
    log_weights = np.random.default_rng(3).normal(size=6) * 1.5
    design, law, source, draws = ConditionalPoisson(log_weights, 3), subsets(log_weights, 3), random.Random(5), 20_000
    counts = Counter(tuple(design.sample(source)) for _ in range(draws))
    assert set(counts) <= set(law)
    error = max(abs(counts[s] / draws - p) / math.sqrt(p * (1 - p) / draws) for s, p in law.items())
    assert error < 5


def test_weights_of_any_size() -> None:
    design = ConditionalPoisson([0.0, -400.0, -800.0, -900.0, -30.0], 3)
    assert [design.inclusion(i) for i in range(5)] == pytest.approx([1, 1, math.exp(-400), math.exp(-500), 1], rel=1e-6)
    assert design.sample(random.Random(0)) == [0, 1, 4]
    scaled = ConditionalPoisson(np.array([1.0, 2.0, 3.0, 0.5]) - 5_000, 2)
    assert scaled.inclusion(2) == pytest.approx(ConditionalPoisson([1.0, 2.0, 3.0, 0.5], 2).inclusion(2))


@pytest.mark.parametrize(("weights", "k"), [([0.0, 1.0], 2), ([0.0, 1.0], 0), ([0.0, -math.inf], 1), ([0.0, math.nan], 1)])
def test_designs_that_there_are_not(weights: list[float], k: int) -> None:
    with pytest.raises(ValueError):
        ConditionalPoisson(weights, k)


# ---------------------------------------------------------------- Gumbel variables
def test_gumbel_variables_given_their_maximum() -> None:
    generator = torch.Generator().manual_seed(0)
    locations = torch.tensor([[0.5, -1.0, -math.inf, 2.0]]).double().expand(40_000, 4)
    maxima = torch.full((40_000,), 1.25).double()
    drawn = gumbel_with_maximum(locations, maxima, generator)
    assert (drawn.max(-1).values == 1.25).all() and (drawn[:, 2] == -math.inf).all()
    first = torch.bincount(drawn.argmax(-1), minlength=4) / len(drawn)
    assert torch.allclose(first.double(), locations[0].softmax(-1), atol=0.012)
    # given that it is not the greatest, a variable is a Gumbel variable cut off at the maximum
    others = drawn[drawn.argmax(-1) != 1, 1]
    at = torch.tensor([-2.0, -1.0, 0.0, 1.0]).double()
    cdf = torch.exp(-torch.exp(-(at + 1.0))) / math.exp(-math.exp(-(1.25 + 1.0)))
    assert torch.allclose((others[:, None] <= at).double().mean(0), cdf, atol=0.012)


# ---------------------------------------------------------------- code points
def test_code_points_are_evenly_spread_and_exact_at_any_length() -> None:
    rows, steps = 8, 400
    ends = np.array([1 << 51, 1 << 52])  # one bit a token: a code's own digits
    codes = [_Code(row, rows, _shift(4)) for row in range(rows)]
    digits = [[code.decode(ends) for _ in range(steps)] for code in codes]
    values = [int("".join(map(str, d)), 2) for d in digits]
    step = 1 << (steps - 3)
    assert all((b - a) % (1 << steps) == step for a, b in itertools.pairwise(values)), "exactly an eighth apart"
    tail = [bit for d in digits for bit in d[100:]]
    assert 0.4 < sum(tail) / len(tail) < 0.6, "digits do not run out"


def test_code_points_follow_probabilities_that_are_no_powers_of_two() -> None:
    ends = np.array([(1 << 52) // 10, (1 << 52) // 10, 1 << 52])  # 0.1, nothing, 0.9
    seen: Counter[tuple[int, ...]] = Counter()
    for seed in range(600):
        code = _Code(0, 1, _shift(seed))
        seen[tuple(code.decode(ends) for _ in range(2))] += 1
    assert set(seen) <= {(0, 0), (0, 2), (2, 0), (2, 2)}
    assert abs(seen[2, 2] / 600 - 0.81) < 0.06 and abs(seen[0, 2] / 600 - 0.09) < 0.05


def test_common_texts_come_as_often_as_they_should() -> None:
    problem, n = case("random, set"), 50
    for seed in range(5):
        counts = Counter(s.tokens for s in arithmetic_sampling(problem.target(), n, seed=seed).samples)
        for tokens, p in problem.masked.items():
            assert abs(counts[tokens] - n * p) < 1, "a text's interval holds its share of evenly spaced points, rounded up or down"


# ---------------------------------------------------------------- all of them
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda f: f.__name__)
def test_what_comes_back(sampler: object) -> None:
    for problem in cases():
        found = sampler(problem.target(), 6, seed=3)  # type: ignore[operator]
        assert 0 < len(found.samples) <= 6 and len(found.ess) == 1 and found.forwards > 0
        for sample in found.samples:
            assert sample.log_prob == pytest.approx(math.log(problem.probability(sample.tokens)))
            assert sample.finished == (sample.tokens in problem.masses)
            assert (sample.log_weight > -math.inf) == sample.finished
        mean = math.fsum(math.exp(s.log_weight) for s in found.samples) / len(found.samples)
        assert mean == pytest.approx(math.exp(found.log_z))


@pytest.mark.parametrize("sampler", SAMPLERS[1:], ids=lambda f: f.__name__)
def test_more_texts_than_there_are_give_the_exact_answer(sampler: object) -> None:
    problem = case("random, regex")
    found = sampler(problem.target(), 10_000, seed=0)  # type: ignore[operator]
    assert {s.tokens for s in found.samples if s.finished} == set(problem.masses)
    assert found.log_z == pytest.approx(problem.log_z) and found.log_z_error == 0 and found.kl == 0
    assert found.details["mass"] == pytest.approx(problem.z)
    assert found.expectation(len) == pytest.approx(math.fsum(p * len(s) for s, p in problem.law.items()))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda f: f.__name__)
def test_a_step_is_one_batch(sampler: object) -> None:
    problem = case("random, grammar")
    model = Counting(problem.model)
    found = sampler(problem.target(model=model), 8, seed=1)  # type: ignore[operator]
    assert model.forwards <= problem.max_tokens and model.rows == found.forwards


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda f: f.__name__)
def test_where_nothing_can_be_finished(sampler: object) -> None:
    model = TabularModel(3, 2, lambda prefix: [0.5, 0.5, 0.0])
    found = sampler(Target(model, (), None, max_tokens=3), 4, seed=0)  # type: ignore[operator]
    assert found.log_z == -math.inf and not any(s.finished for s in found.samples) and found.kl is None


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda f: f.__name__)
def test_no_texts_are_refused(sampler: object) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        sampler(case("free").target(), 0, seed=0)  # type: ignore[operator]


def test_long_texts_do_not_wear_a_code_out() -> None:
    model = TabularModel(3, 2, lambda prefix: [0.35, 0.65 - 1e-4, 1e-4])
    found = arithmetic_sampling(Target(model, (), None, max_tokens=600), 4, seed=1)
    for sample in found.samples:
        text = sample.tokens[-300:]
        if len(sample.tokens) > 500:
            assert 0.25 < text.count(0) / len(text) < 0.45
    assert any(len(s.tokens) > 500 for s in found.samples)
