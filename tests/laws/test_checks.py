"""Tests of the tests: samplers written from the enumerated law pass every check, and deliberately wrong ones are found.

The wrong samplers err as real ones do: a forgotten weight, a retry after a failure, a logarithm averaged in the wrong place, an error
that promises too much, randomness from elsewhere.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from samplers.target import Sample, Samples, log_mean, relative_error
from tests.laws.cases import END, TOKENS, Case, Law, Tokens, case, cases, distortion, names, vocabulary
from tests.laws.checks import (
    binomial_tail,
    check_consistent,
    check_exact,
    check_reproducible,
    check_stated_error,
    check_unbiased,
    check_without_replacement,
    chi_square,
    critical,
    measure,
    total_variation,
    z_score,
)

Sampler = Callable[..., Samples]
BROAD = ["random, set", "random, regex", "dead ends", "reward"]


# ---------------------------------------------------------------- samplers that know the answer
def drawn(law: Law, n: int, seed: int) -> list[Tokens]:
    return random.Random(seed).choices(list(law), list(law.values()), k=n)


def samples(found: Iterable[tuple[Tokens, float]], log_z: float | None = None, error: float | None = None) -> Samples:
    rows = [Sample(tokens, weight, 0.0, True) for tokens, weight in found]
    weights = [s.log_weight for s in rows]
    log_z = log_mean(weights) if log_z is None else log_z
    return Samples(rows, log_z, relative_error(weights) if error is None else error, [], 0, None, "test")


def direct(law: Law) -> Sampler:
    """Draws from ``law``, as they are."""
    return lambda target, n, *, seed: samples(((s, 0.0) for s in drawn(law, n, seed)), log_z=0.0)


def weighted(case: Case, change: Callable[[float], float] = lambda w: w) -> Sampler:
    """Importance sampling: local masking is the proposal, ``change`` may spoil the logarithm of the weight."""
    weights = {s: math.log(case.masses[s] / q) for s, q in case.masked.items()}
    return lambda target, n, *, seed: samples((s, change(weights[s])) for s in drawn(case.masked, n, seed))


def rejecting(case: Case) -> Sampler:
    """Weights of 0 and 1: whether a draw of the masked law, thinned to half, is kept; the estimate of a normaliser often is 0."""
    kept = {s: case.masses[s] / q for s, q in case.masked.items()}

    def sampler(target: Any, n: int, *, seed: int) -> Samples:
        rng = random.Random(f"thin {seed}")
        rows = ((s, 0.0 if rng.random() < kept[s] else -math.inf) for s in drawn(case.masked, n, seed))
        return samples(rows)

    return sampler


def successive(law: Law) -> Sampler:
    """The largest perturbed log-probabilities: sampling without replacement, in order."""

    def sampler(target: Any, n: int, *, seed: int) -> Samples:
        rng = random.Random(seed)
        scores = {s: math.log(p) - math.log(-math.log(rng.random())) for s, p in law.items()}
        return samples((s, 0.0) for s in sorted(law, key=lambda s: -scores[s])[:n])

    return sampler


def altered(sampler: Sampler, change: Callable[[Samples], Samples | None]) -> Sampler:
    def wrong(target: Any, n: int, *, seed: int) -> Samples:
        found = sampler(target, n, seed=seed)
        return change(found) or found

    return wrong


# ---------------------------------------------------------------- the cases
@pytest.mark.parametrize("name", names())
def test_case_is_what_the_target_says(name: str) -> None:
    """The enumeration (predicates on texts, products of the table) against the library's automaton and tabular model."""
    problem = case(name)
    target = problem.target()
    for length in range(problem.max_tokens):
        for ids in itertools.product([t for t in range(len(TOKENS)) if t != END], repeat=length):
            if problem.probability((*ids, END)):
                assert target.contains((*ids, END)) == ((*ids, END) in problem.law)
    for tokens in list(problem.law)[:10]:
        context = target.root
        logprob = 0.0
        for token in tokens:
            logprob += target.logprobs([context])[0, token].item()
            context = context.extend(token)
        assert math.exp(logprob + target.potential(tokens, True)) == pytest.approx(problem.masses[tokens])
    assert math.fsum(problem.law.values()) == pytest.approx(1) and math.fsum(problem.masked.values()) == pytest.approx(1)


def test_cases_are_what_they_are_for() -> None:
    begins = {s: p for s, p in distortion().law.items() if s[0] == 0}
    assert sum(begins.values()) == pytest.approx(0.9)
    assert sum(distortion().masked[s] for s in begins) == pytest.approx(0.3)
    for problem in cases():
        assert total_variation(problem.law, problem.masked) > 0.25, f"{problem.name}: a method that forgets the weights must be seen"
        assert max(problem.law.values()) <= 0.9 and problem.z < 1
    assert set(names()) - set(names(reward=False, free=False)) == {"reward", "late reward", "free"}
    assert vocabulary().eos_token_ids == (END,) or list(vocabulary().eos_token_ids) == [END]
    with pytest.raises(ValueError, match="no case is called"):
        case("no such case")


def test_dead_ends_and_holes_are_there() -> None:
    """Prefixes that the language allows and that the model reaches, but from which no text of the target goes on."""
    for name in ("dead ends", "holes"):
        problem = case(name)
        alive = {s[:i] for s in problem.masses for i in range(len(s))}
        lost, todo = 0.0, [((), problem.automaton.start)]  # type: ignore[union-attr]
        while todo:
            prefix, state = todo.pop()
            for token in range(len(TOKENS)):
                after = problem.automaton.advance(state, token)  # type: ignore[union-attr]
                if after in (0, 1) or not problem.probability((*prefix, token)):
                    continue
                if (*prefix, token) not in alive:
                    lost += problem.probability((*prefix, token))
                else:
                    todo.append(((*prefix, token), after))
        assert lost > 0.4


# ---------------------------------------------------------------- statistics
def test_chi_square_agrees_with_tables() -> None:
    counts, law = Counter({"x": 60, "y": 40}), {"x": 0.5, "y": 0.5}
    assert chi_square(counts, law).statistic == pytest.approx(4) and chi_square(counts, law).p_value == pytest.approx(0.0455, abs=1e-4)
    table = {2: 5.991, 10: 18.307}  # the 5 % points
    for degrees, point in table.items():
        p = torch.special.gammaincc(torch.tensor(degrees / 2.0), torch.tensor(point / 2)).item()
        assert p == pytest.approx(0.05, abs=1e-4)
    assert chi_square(Counter({"z": 1}), law).p_value == 0
    assert chi_square(Counter({"x": 7}), {"x": 1.0}).p_value == 1


def test_rare_cells_are_put_together() -> None:
    law = dict.fromkeys(range(100), 1e-4) | {"much": 0.99}
    assert chi_square(Counter({"much": 990, 0: 10}), law).degrees == 1


def test_p_values_of_right_draws_are_what_they_say() -> None:
    law = case("random, regex").law
    rejected = [chi_square(Counter(drawn(law, 1500, seed)), law).p_value < 0.05 for seed in range(400)]
    assert binomial_tail(sum(rejected), 400, 0.05) > 1e-4 and sum(rejected) > 400 * 0.02


def test_z_scores_of_right_means_are_what_they_say() -> None:
    rng = random.Random(3)
    outside = sum(abs(z_score([rng.expovariate(1) for _ in range(200)], 1.0)) > critical(0.05) for _ in range(400))
    assert binomial_tail(outside, 400, 0.055) > 1e-4 and outside > 400 * 0.02
    assert z_score([2.0, 2.0], 2.0) == 0 and z_score([2.0, 2.0], 1.0) == math.inf and z_score([1.0, 1.0], 2.0) == -math.inf


def test_binomial_tail_and_measure() -> None:
    assert binomial_tail(0, 10, 0.3) == pytest.approx(1) and binomial_tail(10, 10, 0.5) == pytest.approx(2**-10)
    mixed = samples([((0, END), 0.0), ((1, END), math.log(3)), ((0, END), -math.inf)])
    assert measure(mixed) == pytest.approx({(0, END): 0.25, (1, END): 0.75})
    assert measure(samples([((0, END), -math.inf)])) == {}
    assert total_variation({(0,): 1.0}, {(1,): 1.0}) == 1 and total_variation({(0,): 1.0}, {(0,): 0.5, (1,): 0.5}) == 0.5


# ---------------------------------------------------------------- draws
@pytest.mark.parametrize("name", names())
def test_exact_draws_pass(name: str) -> None:
    check_exact(direct(case(name).law), case(name))


def test_exact_draws_of_another_law_pass_where_it_is_named() -> None:
    check_exact(direct(distortion().masked), distortion(), law=distortion().masked)
    check_exact(direct(case("free").law), case("free"), draws=600, per_call=1)


def tempered(law: Law, power: float) -> Law:
    total = math.fsum(p**power for p in law.values())
    return {s: p**power / total for s, p in law.items()}


def without(law: Law, rank: int) -> Law:
    missing = list(law)[rank]
    return {s: p / (1 - law[missing]) for s, p in law.items() if s != missing}


@pytest.mark.parametrize("name", names())
def test_masking_is_found(name: str) -> None:
    with pytest.raises(AssertionError, match="total variation"):
        check_exact(direct(case(name).masked), case(name))


@pytest.mark.parametrize("name", BROAD)
@pytest.mark.parametrize("spoil", [lambda law: tempered(law, 1.2), lambda law: without(law, 4)], ids=["temperature", "a text is missing"])
def test_another_law_is_found(name: str, spoil: Callable[[Law], Law]) -> None:
    with pytest.raises(AssertionError, match="total variation"):
        check_exact(direct(spoil(case(name).law)), case(name))


def test_dependent_draws_are_found() -> None:
    law = case("random, regex").law
    stuck = lambda target, n, *, seed: samples([(s, 0.0) for s in drawn(law, n // 8, seed) for _ in range(8)], log_z=0.0)
    with pytest.raises(AssertionError, match="total variation"):
        check_exact(stuck, case("random, regex"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.samples.pop() and None, "samples instead of"),
        (lambda found: found.samples.__setitem__(5, Sample((0,), 0.0, 0.0, False)), "unfinished"),
        (lambda found: found.samples.__setitem__(5, Sample((0, END), 0.1, 0.0, True)), "one weight"),
        (lambda found: found.samples.__setitem__(5, Sample((6, END), 0.0, 0.0, True)), "probability 0"),
    ],
    ids=["too few", "unfinished", "weighted", "outside"],
)
def test_other_faults_of_exact_samplers_are_found(change: Callable[[Samples], None], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_exact(altered(direct(case("random, set").law), change), case("random, set"))


# ---------------------------------------------------------------- weights
@pytest.mark.parametrize("name", names())
def test_importance_sampling_is_unbiased(name: str) -> None:
    check_unbiased(weighted(case(name)), case(name))


@pytest.mark.parametrize("particles", [1, 2, 16])
def test_rejection_is_unbiased_for_any_number_of_particles(particles: int) -> None:
    check_unbiased(rejecting(distortion()), distortion(), particles=particles)


def mean_of_logs(found: Samples) -> None:
    found.log_z = math.fsum(s.log_weight for s in found.samples) / len(found.samples)


def of_the_survivors(found: Samples) -> None:
    """The mean over the samples that were not rejected, as when failures are thrown away and drawn again."""
    found.samples = [s for s in found.samples if s.log_weight > -math.inf] or found.samples
    found.log_z = log_mean(s.log_weight for s in found.samples)


def one_too_few(found: Samples) -> None:
    found.log_z += math.log(len(found.samples) / (len(found.samples) - 1))


@pytest.mark.parametrize("spoil", [mean_of_logs, one_too_few])
@pytest.mark.parametrize("name", ["distortion", *BROAD])
def test_a_biased_normaliser_is_found(name: str, spoil: Callable[[Samples], None]) -> None:
    with pytest.raises(AssertionError, match="instead of"):
        check_unbiased(altered(weighted(case(name)), spoil), case(name), particles=2)


def test_a_retry_after_failure_is_found() -> None:
    with pytest.raises(AssertionError, match="instead of"):
        check_unbiased(altered(rejecting(distortion()), of_the_survivors), distortion())


@pytest.mark.parametrize("name", ["distortion", *BROAD])
def test_a_forgotten_weight_is_found(name: str) -> None:
    """The normaliser is right, but the samples are not weighted."""
    problem = case(name)

    def forget(found: Samples) -> None:
        found.samples = [Sample(s.tokens, 0.0, s.log_prob, s.finished) for s in found.samples]

    with pytest.raises(AssertionError, match="mass of"):
        check_unbiased(altered(weighted(problem), forget), problem)
    with pytest.raises(AssertionError, match=r"does not fall|weighs"):
        check_consistent(altered(weighted(problem), forget), problem)


def test_weight_outside_of_the_language_is_found() -> None:
    outside = altered(weighted(distortion()), lambda found: found.samples.append(Sample((1, 1, END), 0.0, 0.0, True)))
    with pytest.raises(AssertionError, match="mass 0 in the target"):
        check_unbiased(outside, distortion())


# ---------------------------------------------------------------- consistency
@pytest.mark.parametrize("name", names())
def test_importance_sampling_is_consistent(name: str) -> None:
    errors = check_consistent(weighted(case(name)), case(name))
    assert errors[-1] < errors[0]


@pytest.mark.parametrize("name", ["distortion", *BROAD])
@pytest.mark.parametrize("power", [0.5, 1.5])
def test_a_wrong_power_of_the_weight_is_found(name: str, power: float) -> None:
    with pytest.raises(AssertionError, match=r"does not fall|weighs"):
        check_consistent(weighted(case(name), lambda w: power * w), case(name))


def test_particles_that_are_copies_are_found() -> None:
    eight = weighted(case("random, regex"))
    copies = lambda target, n, *, seed: samples([(s.tokens, s.log_weight) for s in eight(target, 8, seed=seed).samples] * (n // 8))
    with pytest.raises(AssertionError, match="does not fall"):
        check_consistent(copies, case("random, regex"))


def test_a_sampler_that_never_finds_a_text_is_found() -> None:
    with pytest.raises(AssertionError, match="does not fall"):
        check_consistent(weighted(distortion(), lambda w: -math.inf), distortion())


# ---------------------------------------------------------------- the stated error
@pytest.mark.parametrize("name", ["distortion", "random, grammar", "dead ends", "prompt"])
def test_the_delta_method_is_honest(name: str) -> None:
    check_stated_error(weighted(case(name)), case(name), particles=1024)


@pytest.mark.parametrize("error", [0.0, 0.2, math.nan])
def test_an_error_that_promises_too_much_is_found(error: float) -> None:
    def shrink(found: Samples) -> None:
        found.log_z_error *= error

    with pytest.raises(AssertionError, match="off by two errors"):
        check_stated_error(altered(weighted(distortion()), shrink), distortion())


# ---------------------------------------------------------------- without replacement
@pytest.mark.parametrize("name", ["distortion", "random, set", "long range"])
def test_successive_sampling_passes(name: str) -> None:
    check_without_replacement(successive(case(name).law), case(name))


def test_repeats_are_found() -> None:
    with pytest.raises(AssertionError, match="repeat"):
        check_without_replacement(direct(case("random, set").law), case("random, set"))


@pytest.mark.parametrize("wrong", ["sorted", "uniform", "masked"])
def test_another_order_is_found(wrong: str) -> None:
    problem = case("random, set")
    law = {"uniform": dict.fromkeys(problem.law, 1 / len(problem.law)), "masked": problem.masked}.get(wrong, problem.law)

    def by_probability(found: Samples) -> None:
        found.samples.sort(key=lambda s: -problem.law[s.tokens])

    sampler = altered(successive(law), by_probability) if wrong == "sorted" else successive(law)
    check_without_replacement(sampler, problem, runs=200, ordered=False)
    with pytest.raises(AssertionError, match="successive sampling"):
        check_without_replacement(sampler, problem)


def test_wrong_numbers_and_texts_are_found() -> None:
    problem = case("random, set")
    with pytest.raises(AssertionError, match="2 texts instead of 3"):
        check_without_replacement(altered(successive(problem.law), lambda found: found.samples.pop() and None), problem)
    swap = altered(successive(problem.law), lambda found: found.samples.__setitem__(0, Sample((6, END), 0.0, 0.0, True)))
    with pytest.raises(AssertionError, match="probability 0"):
        check_without_replacement(swap, problem)


# ---------------------------------------------------------------- seeds
def test_seeded_samplers_pass() -> None:
    check_reproducible(weighted(case("reward")), case("reward"))


def test_randomness_from_elsewhere_is_found() -> None:
    law = case("reward").law
    of_torch = lambda target, n, *, seed: direct(law)(target, n, seed=int(torch.randint(2**31, ())))
    of_random = lambda target, n, *, seed: direct(law)(target, n, seed=random.getrandbits(31))
    for sampler in (of_torch, of_random):
        with pytest.raises(AssertionError, match="same seed gave other"):
            check_reproducible(sampler, case("reward"))
    with pytest.raises(AssertionError, match="ten other seeds"):
        check_reproducible(lambda target, n, *, seed: direct(law)(target, n, seed=1), case("reward"))
