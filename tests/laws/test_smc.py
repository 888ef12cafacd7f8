"""The law of sequential Monte Carlo: estimates are unbiased, errors fall with particles, moves leave their target as it is."""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, pvariance
from typing import Any

import pytest

from grammars import Regex
from samplers.smc import AtEnd, InLanguage, Potential, Prefix, Product, Reward, Rollouts, SequencePower, smc
from samplers.smc.particles import Node, Particle, Walker
from samplers.smc.potentials import evaluate
from samplers.smc.proposals import Masked, Move, Proposal
from samplers.smc.rejuvenation import rejuvenate
from samplers.target import Meter, Samples, Target, streams
from tests.laws.cases import TOKENS, Case, Tokens, case, names, vocabulary
from tests.laws.checks import SIGNIFICANCE, check_consistent, check_reproducible, check_stated_error, check_unbiased, chi_square

VARIANTS: dict[str, dict[str, Any]] = {
    "multinomial, always": {"resampling": "multinomial", "ess_threshold": 1.0},
    "stratified, always": {"resampling": "stratified", "ess_threshold": 1.0},
    "residual, always": {"resampling": "residual", "ess_threshold": 1.0},
    "blocks of two": {"block": 2, "ess_threshold": 1.0},
    "blocks that end with b": {"block": lambda tokens: TOKENS[tokens[-1]].endswith(b"b"), "ess_threshold": 1.0},
    "lookahead": {"lookahead": 2},
    "moves": {"moves": 2, "ess_threshold": 1.0},
    "moves of short suffixes, blocks": {"moves": 1, "move_depth": 2, "block": 2, "ess_threshold": 1.0, "resampling": "multinomial"},
    "awrs": {"proposal": "awrs"},
    "awrs, moves": {"proposal": "awrs", "moves": 1, "ess_threshold": 1.0},
    "awrs, lookahead": {"proposal": "awrs", "lookahead": 1},
}


# ---------------------------------------------------------------- estimates
@pytest.mark.parametrize("name", names())
def test_unbiased(name: str) -> None:
    check_unbiased(smc, case(name), particles=16, runs=120)


@pytest.mark.parametrize("name", ["random, set", "reward"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_are_unbiased(variant: str, name: str) -> None:
    check_unbiased(partial(smc, **VARIANTS[variant]), case(name), particles=8, runs=60 if "lookahead" in variant else 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_are_unbiased_everywhere(variant: str, name: str) -> None:
    check_unbiased(partial(smc, **VARIANTS[variant]), case(name), particles=32, runs=800)


@pytest.mark.parametrize("proposal", ["masked", "awrs"])
def test_consistent(proposal: str) -> None:
    name = "distortion" if proposal == "awrs" else "late reward"
    check_consistent(partial(smc, proposal=proposal), case(name), particles=(8, 64, 256), runs=10)


@pytest.mark.parametrize("options", [{}, {"resampling": "multinomial", "ess_threshold": 1.0}, {"moves": 1}, {"lookahead": 2}], ids=str)
def test_stated_error_is_honest(options: dict[str, Any]) -> None:
    check_stated_error(partial(smc, **options), case("random, set"), particles=64, runs=30)


def test_stated_error_is_that_of_many_runs() -> None:
    problem = case("random, regex")
    found = [smc(problem.target(), 64, seed=seed, ess_threshold=1.0, resampling="multinomial") for seed in range(60)]
    seen = pvariance([math.exp(s.log_z - problem.log_z) for s in found])
    stated = fmean(s.log_z_error**2 for s in found)
    assert fmean(s.details["resampled"] for s in found) >= 2
    assert seen / 2 < stated < 2 * seen
    assert found[0].kl == pytest.approx(found[0].log_z_error ** 2 / 2)


def test_reproducible() -> None:
    for options in ({}, {"lookahead": 1, "moves": 1}):
        check_reproducible(partial(smc, **options), case("random, set"))  # type: ignore[arg-type]


# ---------------------------------------------------------------- wrong samplers are found
class Unweighted(Masked):
    """Local masking without its weights."""

    def propose(self, *arguments: Any) -> list[Move]:
        return [m._replace(log_weight=0.0) if m.log_weight > -math.inf else m for m in super().propose(*arguments)]


def forgets_to_average(target: Target, n: int, *, seed: int) -> Samples:
    """Averages logarithms of weights where weights should be averaged."""
    found = smc(target, n, seed=seed, ess_threshold=0.0)
    alive = [s.log_weight for s in found.samples if s.log_weight > -math.inf]
    return dataclasses.replace(found, log_z=fmean(alive))


@pytest.mark.parametrize("wrong", [partial(smc, proposal=Unweighted()), forgets_to_average], ids=["unweighted", "mean of logarithms"])
def test_wrong_samplers_are_found(wrong: Callable[..., Samples]) -> None:
    with pytest.raises(AssertionError, match="instead of"):
        check_unbiased(wrong, case("random, set"), particles=16, runs=200)


# ---------------------------------------------------------------- potentials are part of the target
def sampled(problem: Case, potential: Callable[[Target], Potential]) -> Callable[..., Samples]:
    """Gives the problem's reward as a potential, and not as a reward."""

    def sampler(target: Target, n: int, *, seed: int) -> Samples:
        return smc(dataclasses.replace(target, reward=None), n, seed=seed, potential=potential(target))

    return sampler


def test_power_of_the_sequence_probability() -> None:
    base = case("random, set")
    problem = dataclasses.replace(base, reward=lambda tokens, finished: math.log(base.probability(tokens)))
    check_unbiased(sampled(problem, lambda target: SequencePower(2.0)), problem, particles=16, runs=100)


def test_critic_at_the_end_and_product() -> None:
    def critic(tokens: Tokens) -> float:
        return 0.8 * len(tokens)

    def both(tokens: Tokens, finished: bool) -> float:
        return 0.5 * critic(tokens) + 0.3 * tokens.count(0)

    problem = dataclasses.replace(case("random, set"), reward=both)

    def potential(target: Target) -> Potential:
        counting = Reward(dataclasses.replace(target, reward=lambda tokens, finished: 0.3 * tokens.count(0)))
        return AtEnd(critic) ** 0.5 * counting

    check_unbiased(sampled(problem, potential), problem, particles=16, runs=100)


def test_second_language() -> None:
    base, second = case("random, set"), Regex("[ab]*|cab")
    automaton = second.compile(vocabulary())
    allowed = {b"a", b"b", b"ab", b"abab", b"cab"}
    problem = dataclasses.replace(base, accepts=lambda text: text in allowed)
    check_unbiased(sampled(problem, lambda target: InLanguage(automaton)), problem, particles=16, runs=100)


# ---------------------------------------------------------------- lookahead
class Exact(Potential):
    """The expected value of what may follow, by enumeration."""

    def __init__(self, problem: Case) -> None:
        self.problem = problem

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        values = []
        for prefix in prefixes:
            k = len(prefix.tokens)
            inside = math.fsum(m for s, m in self.problem.masses.items() if s[:k] == prefix.tokens)
            values.append(math.log(inside / self.problem.probability(prefix.tokens)) if inside else -math.inf)
        return values


def spread(problem: Case, **options: Any) -> float:
    """Variance of the estimate of Z, relative to Z squared."""
    return pvariance([math.exp(smc(problem.target(), 32, seed=seed, **options).log_z - problem.log_z) for seed in range(40)])


def test_exact_lookahead_gives_marginals() -> None:
    problem = case("late reward")
    check_unbiased(partial(smc, twist=Exact(problem), ess_threshold=1.0), problem, particles=8, runs=80)
    # with intermediate targets that are the marginals, particles of a weighted step are samples of the final target's prefixes
    counts: Counter[int] = Counter()
    for seed in range(300):
        found = smc(problem.target(), 8, seed=seed, twist=Exact(problem), ess_threshold=1.0, block=1)
        counts[found.resample(1, seed)[0].tokens[0]] += 1
    firsts: dict[int, float] = {}
    for tokens, p in problem.law.items():
        firsts[tokens[0]] = firsts.get(tokens[0], 0.0) + p
    assert chi_square(counts, firsts).p_value >= 1e-3


def test_lookahead_lowers_the_variance() -> None:
    base = case("reward")
    problem = dataclasses.replace(base, reward=lambda tokens, finished: 2.0 * tokens.count(1) if finished else 0.0)
    blind = spread(problem, ess_threshold=1.0)
    assert spread(problem, ess_threshold=1.0, twist=Exact(problem)) < blind / 2
    assert spread(problem, ess_threshold=1.0, lookahead=8) < blind / 2


def test_rollouts_estimate_the_expected_value() -> None:
    problem = case("late reward")
    target = problem.target()
    walker = Walker(target, Meter(target), Masked(), lambda tokens: True)
    rollouts = Rollouts(walker, Reward(target), 600, seed=3)
    firsts = sorted({s[:1] for s in problem.law if len(s) > 1})
    prefixes = [Prefix(tokens, False, math.log(problem.probability(tokens))) for tokens in firsts]
    for found, truth in zip(evaluate(rollouts, prefixes), Exact(problem).log_values(prefixes)):
        assert found == pytest.approx(truth, abs=0.1)
    assert rollouts.log_values(prefixes) == rollouts.log_values(prefixes[::-1])[::-1], "a function of the prefix"


# ---------------------------------------------------------------- moves
def intermediate(walker: Walker, potential: Potential, blocks: int) -> dict[Tokens, tuple[Node, float]]:
    """Every node of the intermediate target after ``blocks`` blocks, with its mass (not normalised)."""
    target, found = walker.target, {}
    stack = [walker.root()]
    while stack:
        node = stack.pop()
        if node.finished or node.blocks == blocks:
            found[node.tokens] = node
            continue
        allowed = target.allowed(node.state, node.tokens)
        row = target.logprobs([node.context])[0]
        kept = row.masked_fill(~allowed, -math.inf)
        log_kept = float(kept.logsumexp(0))
        for token in kept.isfinite().nonzero()[:, 0].tolist():
            stack.append(walker._extended(node, token, float(row[token]), log_kept))
    values = evaluate(potential, [node.prefix for node in found.values()])
    return {tokens: (node, math.exp(node.log_prob + value)) for (tokens, node), value in zip(found.items(), values)}


def moved(problem: Case, blocks: int, depth: int, change: Callable[[Node], Node] = lambda node: node) -> tuple[float, float]:
    """Moves 4000 exact samples of an intermediate target; the p-value of their law afterwards, and the share of accepted moves.

    ``change`` may spoil the nodes that the samples start from.
    """
    target = problem.target()
    walker = Walker(target, Meter(target), Masked(), lambda tokens: len(tokens) % 2 == 0)
    potential = Reward(target)
    law = intermediate(walker, potential, blocks)
    total = math.fsum(mass for _, mass in law.values())
    chosen = random.Random(1).choices(list(law), [mass for _, mass in law.values()], k=4000)
    values = dict(zip(law, evaluate(potential, [node.prefix for node, _ in law.values()])))
    particles = [Particle(change(law[tokens][0]), 0.0, values[tokens], 0) for tokens in chosen]
    tried, accepted = rejuvenate(particles, walker, potential, blocks, depth, streams(2, len(particles)))
    assert tried == 4000 and all(p.log_potential == values[p.node.tokens] for p in particles)
    counts = Counter(p.node.tokens for p in particles)
    return chi_square(counts, {tokens: mass / total for tokens, (_, mass) in law.items()}).p_value, accepted / tried


@pytest.mark.parametrize(("blocks", "depth"), [(1, 16), (2, 16), (2, 1), (3, 2)])
def test_moves_leave_the_intermediate_target_as_it_is(blocks: int, depth: int) -> None:
    for name in ("reward", "random, regex"):
        p_value, accepted = moved(case(name), blocks, depth)
        assert p_value >= SIGNIFICANCE and 0.1 < accepted < 1


def test_a_move_that_is_always_accepted_is_found() -> None:
    p_value, _ = moved(case("random, regex"), 3, 16, lambda node: dataclasses.replace(node, log_ratio=-1e9))
    assert p_value < SIGNIFICANCE


def test_proposal_protocol_is_what_the_masked_one_is() -> None:
    proposal: Proposal = Masked()
    target = case("random, regex").target()
    walker = Walker(target, Meter(target), proposal, lambda tokens: True)
    nodes = walker.step([walker.root()] * 3000, streams(0, 3000))
    row = target.logprobs([target.root])[0].exp()
    allowed = target.allowed(target.start, ())
    assert all(bool(allowed[n.tokens[0]]) for n in nodes)
    assert {round(math.exp(n.log_ratio), 9) for n in nodes} == {round(float(row[allowed].sum()), 9)}
    law = {t: float(row[t] / row[allowed].sum()) for t in allowed.nonzero()[:, 0].tolist()}
    assert chi_square(Counter(n.tokens[0] for n in nodes), law).p_value >= SIGNIFICANCE


def test_product_asks_late_factors_about_survivors_only() -> None:
    asked: list[Tokens] = []

    class Costly(Potential):
        def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
            asked.extend(p.tokens for p in prefixes)
            return [0.5] * len(prefixes)

    gate = InLanguage(Regex("a+").compile(vocabulary()))
    prefixes = [Prefix((0,), False, 0.0), Prefix((1,), False, 0.0), Prefix((0, 0), False, 0.0)]
    assert Product(gate, Costly()).log_values(prefixes) == [0.5, -math.inf, 0.5]
    assert asked == [(0,), (0, 0)]
