"""Exact search against enumeration, and the law of the best of n against its closed form."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from guided.evaluation.toys import Case, Tokens, case, names
from samplers.models import TabularModel
from samplers.scores import Function
from samplers.search.best_of_n import best_of_n
from samplers.search.exact import a_star, branch_and_bound
from samplers.search.frontier import SearchBudget, SearchResult, Space
from samplers.search.mcts import mcts
from samplers.search.rollout import begin, run
from samplers.search.steps import Tokens as Count
from samplers.target import Target
from tests.laws.checks import SIGNIFICANCE, chi_square

SEARCHES = {"a_star": a_star, "a_star, batches": lambda target, **given: a_star(target, batch=3, **given), "dive": branch_and_bound}


def enumerated(problem: Case, n: int) -> list[tuple[Tokens, float]]:
    """The best texts and their scores; of what is to be sampled the most probable ones."""
    ranked = sorted(problem.masses.items(), key=lambda item: -item[1])
    return [(tokens, math.log(mass)) for tokens, mass in ranked[:n]]


def bounds(problem: Case) -> dict[str, Any]:
    return {} if problem.reward is None else {"reward_bound": problem.reward_bound}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", names())
def test_equal_to_enumeration(name: str, search: str) -> None:
    problem = case(name)
    for n in (1, 4):
        expected = enumerated(problem, n)
        result = SEARCHES[search](problem.target(), n=n, **bounds(problem))
        assert result.complete and result.details["gap"] == pytest.approx(0.0, abs=1e-9)
        assert [found.score for found in result.found] == pytest.approx([score for _, score in expected], abs=1e-9)
        assert all(math.log(problem.masses[found.tokens]) == pytest.approx(found.score, abs=1e-9) for found in result.found)
        assert len({found.tokens for found in result.found}) == len(expected)


@pytest.mark.parametrize("seed", range(4))
def test_wide_rows_are_listed_in_parts(seed: int) -> None:
    """600 tokens: children are listed 64 at a time, and the best texts are asked for far beyond that."""
    model = TabularModel.random(600, 2, seed)
    law = sorted(model.enumerate(2).items(), key=lambda item: -item[1])
    for search in (a_star, branch_and_bound):
        result = search(Target(model, (), max_tokens=2), n=500)
        assert [found.score for found in result.found] == pytest.approx([math.log(mass) for _, mass in law[:500]], abs=1e-9)
        assert len({found.tokens for found in result.found}) == 500


def test_equal_probabilities_lose_no_text() -> None:
    model = TabularModel(200, 199, lambda prefix: [1 / 200] * 200 if not prefix else [0.0] * 199 + [1.0])
    found = a_star(Target(model, (), max_tokens=2), n=200).found
    assert len({text.tokens for text in found}) == 200


def test_a_tight_bound_opens_fewer_nodes() -> None:
    problem = case("reward")
    reward = problem.reward
    assert reward is not None

    def rest(tokens: Tokens) -> float:
        # a token writes at most one b more, and the last one writes nothing
        return reward(tokens, False) + 0.9 * (problem.max_tokens - 1 - len(tokens))

    loose = a_star(problem.target(), reward_bound=0.9 * 2 * problem.max_tokens)
    tight = a_star(problem.target(), reward_bound=rest)
    assert loose.best.tokens == tight.best.tokens == enumerated(problem, 1)[0][0]
    assert tight.forwards < loose.forwards


def test_bounds_are_asked_for_and_checked() -> None:
    problem = case("reward")
    with pytest.raises(ValueError, match="needs reward_bound"):
        a_star(problem.target())
    with pytest.raises(ValueError, match="too low"):
        branch_and_bound(problem.target(), reward_bound=0.1)
    with pytest.raises(ValueError, match="has none"):
        a_star(case("random, regex").target(), reward_bound=1.0)
    with pytest.raises(ValueError, match="finite"):
        a_star(problem.target(), reward_bound=math.inf)
    with pytest.raises(ValueError, match="cut"):
        a_star(case("free").target(), ending="cut")


@pytest.mark.parametrize("name", ["random, grammar", "dead ends", "reward"])
@pytest.mark.parametrize("forwards", [1, 2, 4, 7])
def test_budgets_and_the_stated_gap(name: str, forwards: int) -> None:
    """A search that is cut gives a valid text, and the upper bound that it states holds."""
    problem = case(name)
    best = enumerated(problem, 1)[0][1]
    for search in (a_star, branch_and_bound):
        result = search(problem.target(), budget=SearchBudget(forwards=forwards), **bounds(problem))
        assert result.forwards <= forwards + problem.max_tokens  # completing a text may need rows of its own
        assert result.details["upper_bound"] >= best - 1e-9
        if result.found and result.best.finished:
            assert result.details["gap"] == pytest.approx(max(0.0, result.details["upper_bound"] - result.best.score))
        if result.complete:
            assert result.best.score == pytest.approx(best)
        if name != "dead ends":
            assert result.best.tokens in problem.masses
            assert result.best.score == pytest.approx(math.log(problem.masses[result.best.tokens]))


def test_depth_first_has_a_text_early() -> None:
    model = TabularModel(4, 3, lambda prefix: [0.3, 0.35, 0.3, 0.05] if len(prefix) < 5 else [0.0, 0.0, 0.0, 1.0])
    target, budget = Target(model, (), max_tokens=6), SearchBudget(forwards=6)
    dive, best_first = branch_and_bound(target, budget=budget), a_star(target, budget=budget)
    assert dive.best.finished and not dive.complete
    assert dive.details["gap"] == pytest.approx(dive.details["upper_bound"] - dive.best.score) and dive.details["gap"] > 0
    assert not best_first.found or not best_first.best.finished or best_first.best.score < dive.best.score


# ---------------------------------------------------------------- the best of n
@pytest.mark.parametrize("name", ["distortion", "random, regex", "random, grammar", "late reward"])
def test_best_of_n_is_the_maximum_of_n_draws(name: str) -> None:
    """P(the best ranks at most r) = q(rank <= r) ** n, with q the law of local masking."""
    problem = case(name)
    rng = {tokens: math.sin(1 + 7.3 * i) for i, tokens in enumerate(sorted(problem.masses))}
    reward = Function(lambda candidate: rng[candidate.tokens], on="candidate")
    n, runs = 3, 250
    law, below = {}, 0.0
    for tokens in sorted(problem.masked, key=lambda text: rng[text]):
        upto = below + problem.masked[tokens]
        law[tokens], below = upto**n - below**n, upto
    target = problem.target(reward=None)
    counts = Counter(best_of_n(target, reward=reward, n=n, seed=seed).best.tokens for seed in range(runs))
    test = chi_square(counts, law)
    assert test.p_value >= SIGNIFICANCE, f"{name}: {test}"


def test_continuations_follow_local_masking() -> None:
    problem = case("random, set")
    space = Space(problem.target())
    rows = begin([space.start()], [1500], 5)
    assert run(space, rows)
    counts = Counter(row.node.tokens for row in rows)
    test = chi_square(counts, problem.masked)
    assert test.p_value >= SIGNIFICANCE, test
    assert all(row.node.logprob == pytest.approx(math.log(problem.probability(row.node.tokens))) for row in rows[:50])


def test_continuations_stop_at_steps() -> None:
    problem = case("random, grammar")
    space = Space(problem.target())
    rows = begin([space.start()], [20], 1)
    run(space, rows, rule=Count(2))
    assert all(len(row.node.tokens) == 2 or row.node.finished for row in rows) and any(len(row.node.tokens) == 2 for row in rows)


# ---------------------------------------------------------------- Monte Carlo tree search
@pytest.mark.parametrize("name", names(reward=False))
def test_mcts_finds_the_optimum_when_it_has_time(name: str) -> None:
    problem = case(name)
    result = mcts(problem.target(), likelihood=1.0, simulations=20_000, width=None, ending="exact", seed=None)
    assert result.details["solved"] == 1 and result.complete
    assert result.best.score == pytest.approx(enumerated(problem, 1)[0][1])


def test_mcts_gets_better_with_simulations() -> None:
    """Mean regret over random models falls to zero."""

    def regret(seed: int, simulations: int) -> float:
        model = TabularModel.random(5, 3, seed)
        worth = {tokens: math.sin(3 * i) for i, tokens in enumerate(sorted(model.enumerate(4)))}
        reward = Function(lambda candidate: worth[candidate.tokens], on="candidate")
        target = Target(model, (), max_tokens=4)
        return max(worth.values()) - mcts(target, reward=reward, simulations=simulations, width=None, seed=seed).best.score

    means = [sum(regret(seed, count) for seed in range(6)) / 6 for count in (2, 12, 400)]
    assert means[0] > means[1] > means[2] == 0.0


def test_mcts_follows_the_value() -> None:
    """With a perfect value the best text is found in few simulations; the wrong way round it is not."""
    model = TabularModel.random(8, 6, 2)
    found = {}
    for name, factor in {"right": 1.0, "wrong": -1.0}.items():
        value = Function(lambda tokens, factor=factor: factor * tokens.count(3), on="tokens")
        reward = Function(lambda tokens: tokens.count(3), on="tokens")
        found[name] = mcts(Target(model, (), max_tokens=7), reward=reward, value=value, simulations=120, width=None, c=0.3).best.score
    assert found["right"] == 6 and found["wrong"] < found["right"]


def results(result: SearchResult) -> list[tuple[Tokens, float]]:
    return [(found.tokens, found.score) for found in result.found]


def test_mcts_same_seed_same_result() -> None:
    target = Target(TabularModel.random(7, 7, 5), (), max_tokens=8)
    assert results(mcts(target, likelihood=1.0, simulations=40, seed=4)) == results(mcts(target, likelihood=1.0, simulations=40, seed=4))


def test_mcts_commits_token_by_token() -> None:
    target = Target(TabularModel.random(6, 12, 5), (), max_tokens=13)
    result = mcts(target, likelihood=1.0, simulations=12, commit=True, seed=1, batch=3)
    assert result.complete and result.best.finished
    assert mcts(target, likelihood=1.0, simulations=1, commit=True, seed=1).best.finished
