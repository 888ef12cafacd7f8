"""Checks of a sampler's law against a :class:`~tests.laws.cases.Case`, each a test of a hypothesis with a stated significance.

A sampler is a function ``sampler(target, n, *, seed) -> Samples`` (:mod:`samplers.target`); bind other arguments with
:func:`functools.partial`. A check raises ``AssertionError`` with the numbers, and returns them where it passes.

``significance`` is the probability that a sampler whose law is right fails; where a check makes several comparisons they share it
(Bonferroni). It is tiny, so that hundreds of checks can run together; power comes from the number of draws. Seeds are fixed: what
passes once passes always, and a failing seed is not to be replaced by another one. ``test_checks.py`` holds the samplers that must
pass and the wrong ones that each check must find.

================================  ==========================================================  ======================================
check                             what it finds                                               by
================================  ==========================================================  ======================================
:func:`check_exact`               unweighted draws from another law                           Pearson's chi-square
:func:`check_unbiased`            a biased normaliser or weighted sum                         z-scores over independent runs
:func:`check_consistent`          an error that does not fall with the particles              total variation at growing sizes
:func:`check_stated_error`        a standard error of log Z that promises too much            binomial tail of the misses
:func:`check_without_replacement` repeats; an order that is not that of successive sampling   chi-square of ordered pairs
:func:`check_reproducible`        randomness from elsewhere than the seed                     equality
================================  ==========================================================  ======================================
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Any

import torch

from guided.evaluation.toys import END, Case, Law, Tokens, total_variation

__all__ = [
    "SIGNIFICANCE",
    "ChiSquare",
    "check_consistent",
    "check_exact",
    "check_reproducible",
    "check_stated_error",
    "check_unbiased",
    "check_without_replacement",
    "chi_square",
    "measure",
    "total_variation",
    "z_score",
]

SIGNIFICANCE = 1e-6
"""Probability that one check fails on a sampler that is right."""

Sampler = Callable[..., Any]


# ---------------------------------------------------------------- statistics
@dataclass(frozen=True)
class ChiSquare:
    """Pearson's test: the statistic, its degrees of freedom, and the probability of a larger one under the law."""

    statistic: float
    degrees: int
    p_value: float


def chi_square(counts: Mapping[Any, int], law: Mapping[Any, float], least: float = 5.0) -> ChiSquare:
    """Whether ``counts`` are draws from ``law``. Cells that expect fewer than ``least`` draws are put together into one.

    A draw outside of the support has ``p_value`` 0.
    """
    total = sum(counts.values())
    if any(counts[key] and not law.get(key, 0.0) for key in counts):
        return ChiSquare(math.inf, len(law) - 1, 0.0)
    cells = [(counts.get(key, 0), p * total) for key, p in law.items() if p * total >= least]
    rare = [key for key, p in law.items() if p * total < least]
    if rare:
        cells.append((sum(counts.get(key, 0) for key in rare), total * math.fsum(law[key] for key in rare)))
    statistic = math.fsum((seen - expected) ** 2 / expected for seen, expected in cells)
    degrees = len(cells) - 1
    if not degrees:
        return ChiSquare(statistic, 0, 1.0)
    halves = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    return ChiSquare(statistic, degrees, torch.special.gammaincc(halves[0], halves[1]).item())


def z_score(values: Sequence[float], truth: float) -> float:
    """Standard errors between the mean of independent ``values`` and ``truth``; 0 where they agree up to rounding."""
    difference = fmean(values) - truth
    if abs(difference) <= 1e-9 * max(1.0, abs(truth)):
        return 0.0
    error = stdev(values) / math.sqrt(len(values))
    return difference / error if error else math.copysign(math.inf, difference)


def critical(significance: float, sides: int = 2) -> float:
    """The z-score that is exceeded with probability ``significance``."""
    return NormalDist().inv_cdf(1 - significance / sides)


def binomial_tail(successes: int, trials: int, p: float) -> float:
    """Probability of at least so many successes."""
    return math.fsum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1))


def measure(samples: Any) -> Law:
    """The law that weighted samples stand for: normalised weights of finished texts. Empty where every weight is zero."""
    found: Law = {}
    alive = [s for s in samples.samples if s.log_weight > -math.inf]
    top = max((s.log_weight for s in alive), default=0.0)
    total = math.fsum(math.exp(s.log_weight - top) for s in alive)
    for s in alive:
        found[s.tokens] = found.get(s.tokens, 0.0) + math.exp(s.log_weight - top) / total
    return found


# ---------------------------------------------------------------- checks
def check_exact(
    sampler: Sampler,
    case: Case,
    *,
    draws: int = 4000,
    per_call: int | None = None,
    law: Law | None = None,
    seed: int = 0,
    significance: float = SIGNIFICANCE,
) -> ChiSquare:
    """Independent draws, all of one weight, from exactly the target.

    Args:
        sampler: see the module.
        case: the problem.
        draws: how many in all.
        per_call: draws of one call (each call has a seed of its own); ``None``: all. 1 where the draws of a call depend on each other.
        law: what the draws should follow instead of the target (:attr:`Case.masked`, say).
        seed: of the first call.
        significance: see the module.
    """
    size = per_call or draws
    counts: Counter[Tokens] = Counter()
    for call in range(draws // size):
        found = sampler(case.target(), size, seed=seed + call).samples
        assert len(found) == size, f"{case.name}: {len(found)} samples instead of {size}"
        assert all(s.finished and s.tokens[-1] == END for s in found), f"{case.name}: an exact sampler gave an unfinished text"
        spread = max(s.log_weight for s in found) - min(s.log_weight for s in found)
        assert spread < 1e-9, f"{case.name}: draws of an exact sampler have one weight, these differ by {spread}"
        counts.update(s.tokens for s in found)
    expected = case.law if law is None else law
    outside = [s for s in counts if not expected.get(s)]
    assert not outside, f"{case.name}: {outside[:3]} has probability 0 in the target"
    test = chi_square(counts, expected)
    distance = total_variation({s: n / draws for s, n in counts.items()}, expected)
    assert test.p_value >= significance, f"{case.name}: {test}, total variation {distance:.4f} after {draws} draws"
    return test


def check_unbiased(
    sampler: Sampler,
    case: Case,
    *,
    particles: int = 4,
    runs: int = 400,
    texts: int = 3,
    seed: int = 0,
    significance: float = SIGNIFICANCE,
) -> dict[str, float]:
    """``exp(log_z)`` and ``exp(log_z) * sum of weights * f`` have the means they should have, for any number of particles.

    ``f`` is 1, the indicator of each of the ``texts`` most probable texts, and that of all others; the true means are the unnormalised
    masses of the target.

    Returns:
        the z-score of each.
    """
    top = list(case.law)[:texts]
    truths = {"Z": case.z, **{f"mass of {s}": case.masses[s] for s in top}}
    truths["mass of all others"] = case.z - math.fsum(case.masses[s] for s in top)
    values: dict[str, list[float]] = {name: [] for name in truths}
    for run in range(runs):
        found = sampler(case.target(), particles, seed=seed + run)
        law, z = measure(found), math.exp(found.log_z)
        outside = [s for s in law if s not in case.masses]
        assert not outside, f"{case.name}: {outside[:3]} has mass 0 in the target, and a weight"
        shares = [law.get(s, 0.0) for s in top]
        for name, share in zip(truths, [1.0, *shares, sum(law.values()) - sum(shares)]):
            values[name].append(z * share)
    scores = {name: z_score(values[name], truth) for name, truth in truths.items()}
    bound = critical(significance / len(scores))
    wrong = {name: f"{fmean(values[name]):.6g} instead of {truths[name]:.6g} (z = {z:.1f})" for name, z in scores.items() if abs(z) > bound}
    assert not wrong, f"{case.name}: {wrong}, {runs} runs, |z| <= {bound:.2f} allowed"
    return scores


def check_consistent(
    sampler: Sampler,
    case: Case,
    *,
    particles: Sequence[int] = (8, 64, 512),
    runs: int = 16,
    seed: int = 0,
    significance: float = SIGNIFICANCE,
) -> list[float]:
    """The weighted samples come to the target as particles grow.

    The mean total variation over ``runs`` must fall from each size to the next at least by the fourth root of their ratio (a consistent
    estimator's falls by the square root), up to the noise that ``significance`` allows; and at the largest size the mean weight of
    each of the three most probable texts must be right. A run without a weight counts with distance 1.

    Returns:
        the mean total variation at each size.
    """
    errors: list[tuple[float, float]] = []
    laws: list[Law] = []
    for size in particles:
        laws = [measure(sampler(case.target(), size, seed=seed + run)) for run in range(runs)]
        distances = [total_variation(law, case.law) if law else 1.0 for law in laws]
        errors.append((fmean(distances), stdev(distances) / math.sqrt(runs)))
    top = list(case.law)[:3]
    comparisons = len(particles) - 1 + len(top)
    bound = critical(significance / comparisons, 1)
    shown = ", ".join(f"{n}: {mean:.4f} ± {error:.4f}" for n, (mean, error) in zip(particles, errors))
    for (small, (before, a)), (large, (after, b)) in zip(zip(particles, errors), zip(particles[1:], errors[1:])):
        rate = (small / large) ** 0.25
        slack = bound * math.hypot(a * rate, b) + 1e-9
        assert after <= before * rate + slack, f"{case.name}: the error does not fall from {small} to {large} particles: {shown}"
    allowed = critical(significance / comparisons)
    for s in top:
        # a self-normalised estimate has a bias of the order of its variance: as much again as that is allowed beside the noise
        values = [law.get(s, 0.0) for law in laws]
        bias = 4 * stdev(values) ** 2 + 1e-9
        off = abs(fmean(values) - case.law[s])
        noise = stdev(values) / math.sqrt(runs)
        assert off <= allowed * noise + bias, f"{case.name}: {s} weighs {fmean(values):.4f} ± {noise:.4f}, not {case.law[s]:.4f}; {shown}"
    return [mean for mean, _ in errors]


def check_stated_error(
    sampler: Sampler,
    case: Case,
    *,
    particles: int = 256,
    runs: int = 40,
    seed: int = 0,
    significance: float = SIGNIFICANCE,
) -> int:
    """``log_z`` lies within two of its stated standard errors of the truth as often as it should.

    Nominally 4.6 % of the runs miss; up to 15 % are taken as honest (the error is estimated itself), and more must be significant.

    Returns:
        the number of runs that missed.
    """
    found = [sampler(case.target(), particles, seed=seed + run) for run in range(runs)]
    misses = sum(not abs(s.log_z - case.log_z) <= 2 * s.log_z_error + 1e-9 for s in found)
    tail = binomial_tail(misses, runs, 0.15)
    shown = ", ".join(f"{s.log_z:.3f} ± {s.log_z_error:.3f}" for s in found[:4])
    assert tail >= significance, f"{case.name}: {misses} of {runs} runs are off by two errors: log Z is {case.log_z:.3f}, found {shown}"
    return misses


def check_without_replacement(
    sampler: Sampler,
    case: Case,
    *,
    k: int = 3,
    runs: int = 3000,
    ordered: bool = True,
    seed: int = 0,
    significance: float = SIGNIFICANCE,
) -> ChiSquare:
    """A call gives ``k`` different texts; ``ordered``: the first two, in order, follow successive sampling from the target.

    That is the law of the ``k`` largest perturbed log-probabilities (Gumbel top-k): the first is a draw from the target, the second
    a draw from what is left. ``ordered=False`` checks the support and the absence of repeats only.
    """
    counts: Counter[Any] = Counter()
    for run in range(runs):
        found = [s.tokens for s in sampler(case.target(), k, seed=seed + run).samples]
        assert len(found) == min(k, len(case.law)), f"{case.name}: {len(found)} texts instead of {min(k, len(case.law))}"
        assert len(set(found)) == len(found), f"{case.name}: {found} has a repeat"
        outside = [s for s in found if s not in case.law]
        assert not outside, f"{case.name}: {outside[:3]} has probability 0 in the target"
        counts[tuple(found[:2])] += 1
    if not ordered:
        return ChiSquare(0.0, 0, 1.0)
    pairs = {(a, b): p * q / (1 - p) for a, p in case.law.items() for b, q in case.law.items() if a != b}
    test = chi_square(counts, pairs)
    assert test.p_value >= significance, f"{case.name}: ordered pairs are not those of successive sampling: {test} after {runs} runs"
    return test


def check_reproducible(sampler: Sampler, case: Case, *, n: int = 8) -> None:
    """The same seed gives the same samples and weights, and among ten other seeds one gives others."""

    def outcome(seed: int) -> list[tuple[Tokens, float]]:
        return [(s.tokens, s.log_weight) for s in sampler(case.target(), n, seed=seed).samples]

    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        random.seed(7)
        first = outcome(1)
        torch.manual_seed(99)  # the state of a global generator is no input
        random.seed(99)
        again = outcome(1)
    random.setstate(state)
    assert again == first, f"{case.name}: the same seed gave other samples"
    assert any(outcome(seed) != first for seed in range(2, 12)), f"{case.name}: ten other seeds gave the very same samples"
