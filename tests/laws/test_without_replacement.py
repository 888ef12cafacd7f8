"""Laws of sampling without replacement and of evenly spread code points: draws, order, weights, stated errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from guided.evaluation.toys import Case
from samplers.target import Samples, Target
from samplers.without_replacement import arithmetic_sampling, conditional_poisson_beams, stochastic_beam_search
from tests.laws.cases import END, case, names
from tests.laws.checks import (
    check_consistent,
    check_reproducible,
    check_stated_error,
    check_unbiased,
    check_without_replacement,
    chi_square,
)

SAMPLERS: list[Callable[..., Samples]] = [arithmetic_sampling, stochastic_beam_search, conditional_poisson_beams]
ALL = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda f: f.__name__)


def locally_masked(problem: Case) -> dict[tuple[int, ...], float]:
    """What local masking ends in, and with which probability, beginnings that cannot be finished included: by following every way."""
    target, found = problem.target(), {}
    todo: list[tuple[tuple[int, ...], int, float]] = [((), target.start, 1.0)]
    while todo:
        prefix, state, p = todo.pop()
        row = problem.row(prefix)
        allowed = [t for t in range(len(row)) if row[t] and target.allows(state, prefix, t)]
        total = math.fsum(row[t] for t in allowed)
        if prefix[-1:] == (END,) or not allowed:
            found[prefix] = p
            continue
        todo += [((*prefix, t), target.advance(state, t), p * row[t] / total) for t in allowed]
    return found


def draw(sampler: Callable[..., Samples], problem: Case, k: int, runs: int) -> list[Samples]:
    return [sampler(problem.target(), k, seed=seed) for seed in range(runs)]


# ---------------------------------------------------------------- draws
def test_every_row_of_arithmetic_sampling_follows_local_masking() -> None:
    law = locally_masked(case("random, set"))
    runs = draw(arithmetic_sampling, case("random, set"), 3, 800)
    for row in range(3):
        assert chi_square(Counter(found.samples[row].tokens for found in runs), law).p_value > 1e-6
    both = Counter(tuple(s.tokens for s in found.samples[:2]) for found in runs)
    independent = {(a, b): p * q for a, p in law.items() for b, q in law.items()}
    assert chi_square(both, independent).p_value < 1e-6, "they are not independent, and the test can tell"


def test_stochastic_beams_are_successive_draws_from_local_masking() -> None:
    """On a problem with dead ends, which are drawn as if they were texts."""
    law = locally_masked(case("holes"))
    counts: Counter[Any] = Counter()
    for found in draw(stochastic_beam_search, case("holes"), 2, 1000):
        first, second = (s.tokens for s in found.samples)
        counts[first, second] += 1
    pairs = {(a, b): p * q / (1 - p) for a, p in law.items() for b, q in law.items() if a != b}
    assert chi_square(counts, pairs).p_value > 1e-6


def _ending(prefix: tuple[int, ...]) -> list[float]:
    """Ends after at most two tokens, so that the bound of three is no constraint either."""
    return [0.0] * 5 + [1.0, 0.0] if len(prefix) >= 2 else [0.55, 0.1, 0.05, 0.03, 0.02, 0.25, 0.0]


SHORT = replace(case("free"), table=_ending)


def test_stochastic_beams_without_a_constraint_follow_the_model() -> None:
    check_without_replacement(stochastic_beam_search, SHORT, k=3, runs=600)


@pytest.mark.parametrize("name", ["random, set", "holes", "late reward"])
def test_conditional_poisson_beams_never_repeat(name: str) -> None:
    problem = case(name)
    for found in draw(conditional_poisson_beams, problem, 4, 50):
        texts = [s.tokens for s in found.samples]
        assert len(set(texts)) == len(texts) <= 4 and all(s in problem.masses for s in texts)


def test_a_beam_of_one_draws_by_the_odds() -> None:
    """With one row the design is a draw in proportion to ``p / (1 - p)`` at each step."""
    problem = case("late reward")
    law: dict[tuple[int, ...], float] = {}
    todo: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while todo:
        prefix, p = todo.pop()
        if prefix in problem.masses:
            law[prefix] = p
            continue
        following = sorted({s[: len(prefix) + 1] for s in problem.masses if s[: len(prefix)] == prefix})
        masses = [problem.probability(s) for s in following]
        odds = [m / (1 - m) for m in masses]
        todo += [(s, p * o / math.fsum(odds)) for s, o in zip(following, odds)]
    counts = Counter(found.samples[0].tokens for found in draw(conditional_poisson_beams, problem, 1, 600))
    assert chi_square(counts, law).p_value > 1e-6


# ---------------------------------------------------------------- weights
@ALL
@pytest.mark.parametrize("name", ["distortion", "random, grammar", "holes", "reward", "checker", "prompt", "free"])
def test_weighted_sums_are_unbiased(sampler: Callable[..., Samples], name: str) -> None:
    check_unbiased(sampler, case(name), particles=5, runs=120)


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("name", names())
def test_weighted_sums_are_unbiased_everywhere(sampler: Callable[..., Samples], name: str) -> None:
    # with few rows a text that is improbable at first, and all there is in the end, is hardly ever drawn: no 1000 runs show its mass
    check_unbiased(sampler, case(name), particles=16 if name == "dead ends" else 4, runs=1000)


@ALL
@pytest.mark.parametrize("name", ["random, grammar", "reward", "prompt"])
def test_weighted_means_come_to_the_target(sampler: Callable[..., Samples], name: str) -> None:
    check_consistent(sampler, case(name), particles=(4, 16, 64), runs=10)


@ALL
@pytest.mark.parametrize("name", ["random, grammar", "reward"])
def test_stated_errors_are_honest(sampler: Callable[..., Samples], name: str) -> None:
    check_stated_error(sampler, case(name), particles=48, runs=30)


@ALL
def test_same_seed_same_samples(sampler: Callable[..., Samples]) -> None:
    check_reproducible(sampler, case("random, regex"))


def test_less_variance_than_independent_draws() -> None:
    """Why one would want them: the squared error of an expectation at eight rows, against eight rows of independent draws."""
    truth = math.fsum(p * len(s) for s, p in SHORT.law.items())

    def squared_error(estimates: list[float]) -> float:
        return math.fsum((estimate - truth) ** 2 for estimate in estimates) / len(estimates)

    single = [found.expectation(len) for found in draw(arithmetic_sampling, SHORT, 1, 800)]
    independent = squared_error([math.fsum(single[i : i + 8]) / 8 for i in range(0, len(single), 8)])
    for sampler in SAMPLERS:
        together = squared_error([found.expectation(len) for found in draw(sampler, SHORT, 8, 100)])
        assert together < independent / 2, sampler.__name__


# ---------------------------------------------------------------- the tests can fail
def test_weights_that_forget_the_inclusion_probability_are_found() -> None:
    def naive(target: Target, n: int, *, seed: int) -> Samples:
        found = conditional_poisson_beams(target, n, seed=seed)
        total = math.fsum(math.exp(s.log_prob) for s in found.samples)
        samples = [replace(s, log_weight=s.log_prob) for s in found.samples]
        return replace(found, samples=samples, log_z=math.log(total))

    with pytest.raises(AssertionError):
        check_unbiased(naive, case("random, set"), particles=4, runs=100)


def test_a_beam_that_is_maximised_is_found() -> None:
    def maximised(target: Target, n: int, *, seed: int) -> Samples:
        found = stochastic_beam_search(target, 64, seed=seed)
        best = sorted(found.samples, key=lambda s: -s.log_prob)[:n]
        return replace(found, samples=best)

    with pytest.raises(AssertionError):
        check_without_replacement(maximised, SHORT, k=3, runs=100)
