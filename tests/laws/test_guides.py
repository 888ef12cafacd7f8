"""Laws of guidance on tabular models under constraints: the closed form of every guide, written out in plain Python over the enumerated
texts; the theorems that name the law of whole texts; the laws of blocks by enumerating what may be drawn."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from samplers.guides import (
    ARGS,
    RAD,
    AutoregressiveReward,
    ControlledDecoding,
    DExperts,
    Fudge,
    GeDi,
    GenARM,
    LogLinear,
    Nado,
    Plugin,
    Tilt,
    WeakToStrong,
    blockwise,
    grace,
    guided_decode,
)
from samplers.models import TabularModel
from samplers.scores import Candidate, ValueBase, Weighted
from samplers.target import Samples
from tests.laws.cases import END, TOKENS, Case, Law, Tokens, case
from tests.laws.checks import SIGNIFICANCE, check_exact, check_reproducible, check_unbiased, chi_square

CASES = ["random, grammar", "prompt", "free"]
DRAWS = 60

Step = dict[int, float]
"""Probabilities of the allowed next tokens."""
StepLaw = Callable[[Tokens, Step], Step]
"""Generated tokens and what masking would follow in, what the guide should follow out."""


# ---------------------------------------------------------------- scores that are a fixed, arbitrary function of the text
def number(seed: int, tokens: Tokens, finished: bool) -> float:
    return random.Random(f"{seed}/{tokens}/{finished}").uniform(-1.5, 1.5)


class Arbitrary(ValueBase):
    """A value without rhyme or reason, of the generated tokens and of whether they are finished."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        return [number(self.seed, c.tokens, c.finished) for c in candidates]


class LogChance(Arbitrary):
    """Logarithms of arbitrary probabilities."""

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        return [math.log(chance(c.tokens, c.finished)) for c in candidates]


def chance(tokens: Tokens, finished: bool) -> float:
    return 1 / (1 + math.exp(-2 * number(7, tokens, finished)))


class Known(ValueBase):
    """A value by a function of the generated tokens."""

    def __init__(self, function: Callable[[Tokens], float]) -> None:
        self.function = function

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self.function(c.tokens) for c in candidates]


def other(seed: int) -> TabularModel:
    return TabularModel.random(len(TOKENS), 99, seed)


ONE, TWO = other(11), other(12)


def after(model: TabularModel, prompt: Tokens, tokens: Tokens) -> list[float]:
    """A second model's next-token probabilities, from its own rows."""
    return model.probabilities(prompt + tokens).tolist()


# ---------------------------------------------------------------- closed forms
def normal(weights: Step) -> Step:
    total = math.fsum(weights.values())
    return {v: w / total for v, w in weights.items()}


def most_probable(p: Step, k: int) -> list[int]:
    return sorted(p, key=lambda v: (-p[v], v))[:k]


def tilted(seed: int, weight: float, k: int = 99, power: float = 1.0) -> Callable[[Case], StepLaw]:
    def of(problem: Case) -> StepLaw:
        def law(text: Tokens, p: Step) -> Step:
            kept = most_probable(p, k)
            return normal({v: (p[v] * math.exp(weight * number(seed, (*text, v), v == END))) ** power for v in kept})

        return law

    return of


def by_chance(k: int, weight: float) -> Callable[[Case], StepLaw]:
    return lambda problem: lambda text, p: normal({v: p[v] * chance((*text, v), v == END) ** weight for v in most_probable(p, k)})


def product(power: float, *others: tuple[TabularModel, float]) -> Callable[[Case], StepLaw]:
    def of(problem: Case) -> StepLaw:
        def law(text: Tokens, p: Step) -> Step:
            rows = [(after(model, problem.prompt, text), weight) for model, weight in others]
            return normal({v: p[v] ** power * math.prod(row[v] ** weight for row, weight in rows) for v in p})

        return law

    return of


def gedi(omega: float, alpha: float, bias: float, drop: float, certain: float, code: Tokens) -> Callable[[Case], StepLaw]:
    def of(problem: Case) -> StepLaw:
        def scaled(model: TabularModel, before: Tokens, text: Tokens) -> float:
            chances = [after(model, before + problem.prompt, text[:i])[v] for i, v in enumerate(text)]
            return alpha / len(text) * math.fsum(map(math.log, chances))

        def law(text: Tokens, p: Step) -> Step:
            desired: Step = {}
            for v in p:
                good = math.exp(scaled(ONE, code, (*text, v)) + bias)
                desired[v] = good / (good + math.exp(scaled(TWO, (), (*text, v))))
            q = normal({v: p[v] * desired[v] ** omega for v in p})
            dropped, held = set(), 0.0
            for v in sorted(q, key=lambda v: (desired[v], v)):
                held += q[v]
                if held < drop and desired[v] < certain:
                    dropped.add(v)
            return normal({v: q[v] for v in q if v not in dropped})

        return law

    return of


GUIDES: dict[str, tuple[Callable[[], Any], Callable[[Case], StepLaw], dict[str, Any]]] = {
    "nothing": (lambda: LogLinear([]), product(1.0), {}),
    "tilt": (lambda: Tilt(Arbitrary(1), -0.7), tilted(1, -0.7), {}),
    "ARGS": (lambda: ARGS(Arbitrary(2), 1.5, 3), tilted(2, 1.5, 3), {}),
    "ARGS at temperature 0.6": (lambda: ARGS(Arbitrary(2), 1.5, 3), tilted(2, 1.5, 3, 1 / 0.6), {"temperature": 0.6}),
    "RAD": (lambda: RAD(Arbitrary(3), 2.0, 2), tilted(3, 2.0, 2), {}),
    "ARM": (lambda: AutoregressiveReward(Arbitrary(4), 1.2, None), tilted(4, 1.2), {}),
    "controlled": (lambda: ControlledDecoding(Arbitrary(5), 0.8), tilted(5, 0.8), {}),
    "a sum of rewards": (lambda: ControlledDecoding(Weighted((Arbitrary(5), 0.5), (Arbitrary(5), 0.3))), tilted(5, 0.8), {}),
    "FUDGE": (lambda: Fudge(LogChance(), 1.0, 3), by_chance(3, 1.0), {}),
    "FUDGE, stronger": (lambda: Fudge(LogChance(), 2.5, None), by_chance(99, 2.5), {}),
    "NADO": (lambda: Nado(LogChance()), by_chance(99, 1.0), {}),
    "GeDi": (
        lambda: GeDi(ONE, TWO, 3.0, desired_code=(0, 1), alpha=1.3, bias=0.4, drop=0.0),
        gedi(3.0, 1.3, 0.4, 0.0, 0.0, (0, 1)),
        {},
    ),
    "GeDi, filtered": (
        lambda: GeDi(ONE, TWO, 2.0, desired_code=(2,), drop=0.6, certain=0.55),
        gedi(2.0, 1.0, 0.0, 0.6, 0.55, (2,)),
        {},
    ),
    "DExperts": (lambda: DExperts(ONE, TWO, 0.6), product(1.0, (ONE, 0.6), (TWO, -0.6)), {}),
    "DExperts, anti-expert only": (lambda: DExperts(None, TWO, 0.5), product(1.5, (TWO, -0.5)), {}),
    "DExperts, expert only": (lambda: DExperts(ONE, None, 0.5), product(0.5, (ONE, 0.5)), {}),
    "weak to strong": (lambda: WeakToStrong(ONE, TWO, 1.4), product(1.0, (ONE, 1.4), (TWO, -1.4)), {}),
    "GenARM": (lambda: GenARM(ONE, 0.5), product(1.0, (ONE, 2.0)), {}),
    "GenARM, two objectives": (lambda: GenARM([(ONE, 0.6), (TWO, 0.2)], 2.0), product(1.0, (ONE, 0.3), (TWO, 0.1)), {}),
    "Plugin": (lambda: Plugin(TWO), product(1.0, (TWO, 1.0)), {}),
}


def law_of_texts(problem: Case, step: StepLaw) -> Law:
    """The law of whole texts of a law of steps, by enumeration; what may follow a prefix is what some text of the language has there."""
    children: dict[Tokens, set[int]] = {}
    for text in problem.masses:
        for i, token in enumerate(text):
            children.setdefault(text[:i], set()).add(token)
    steps: dict[Tokens, Step] = {}
    for prefix, tokens in children.items():
        row = problem.row(prefix)
        steps[prefix] = step(prefix, normal({v: row[v] for v in tokens}))
    law = {text: math.prod(steps[text[:i]].get(v, 0.0) for i, v in enumerate(text)) for text in problem.masses}
    return {text: p for text, p in law.items() if p}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("guide", GUIDES)
def test_every_guide_follows_its_closed_form(guide: str, name: str) -> None:
    """Text for text to the last digits, and by chi-square over the draws."""
    make, step, settings = GUIDES[guide]
    problem = case(name)
    law = law_of_texts(problem, step(problem))
    assert math.fsum(law.values()) == pytest.approx(1, abs=1e-9)
    found = guided_decode(problem.target(), make(), DRAWS, seed=3, **settings)
    for sample, records in zip(found.samples, found.records):
        assert sample.finished and [record.token for record in records] == list(sample.tokens)
        stated = math.exp(math.fsum(record.log_law for record in records))
        assert stated == pytest.approx(law.get(sample.tokens, 0.0), rel=1e-8), (sample.tokens, name)
        assert sample.log_prob == pytest.approx(math.log(problem.probability(sample.tokens)), abs=1e-9)
    test = chi_square(Counter(sample.tokens for sample in found.samples), law)
    assert test.p_value >= SIGNIFICANCE, (guide, name, test)


def test_the_closed_forms_differ() -> None:
    """None of the laws above is that of masking alone, so that a guide which does nothing is found out."""
    problem = case("random, grammar")
    for guide, (_, step, settings) in GUIDES.items():
        law = law_of_texts(problem, step(problem))
        distance = sum(abs(law.get(x, 0.0) - p) for x, p in problem.masked.items()) / 2
        assert (distance < 1e-9) == (guide == "nothing"), (guide, settings, distance)


# ---------------------------------------------------------------- what whole texts follow
def future(problem: Case, keep: Callable[[Tokens], bool] = lambda text: True) -> Callable[[Tokens], float]:
    """``log E[exp(reward) 1[language, keep] | prefix]`` under the model, by enumeration."""
    masses: dict[Tokens, float] = {}
    for text, mass in problem.masses.items():
        if keep(text):
            for i in range(len(text) + 1):
                masses[text[:i]] = masses.get(text[:i], 0.0) + mass

    def log_value(tokens: Tokens) -> float:
        mass = masses.get(tokens, 0.0)
        return math.log(mass / problem.probability(tokens)) if mass else -math.inf

    return log_value


@pytest.mark.parametrize("name", ["distortion", "dead ends", "reward", "late reward", "random, grammar"])
def test_controlled_decoding_with_the_true_value_is_exact(name: str) -> None:
    """Its texts follow the model given the language and the reward, and all weigh the same: nothing is left to correct."""
    problem = case(name)
    value = Known(future(problem))
    check_exact(lambda target, n, *, seed: guided_decode(target, ControlledDecoding(value), n, seed=seed), problem, draws=500)
    with pytest.raises(AssertionError):
        check_exact(lambda target, n, *, seed: guided_decode(target, ControlledDecoding(value, 0.3), n, seed=seed), problem, draws=500)


def even(text: Tokens) -> bool:
    """An oracle of whole texts: an even number of the letter a."""
    return b"".join(TOKENS[t] for t in text if t != END).count(b"a") % 2 == 0


@pytest.mark.parametrize("guide", [Fudge, Nado])
def test_a_true_classifier_gives_the_posterior(guide: Any) -> None:
    problem = case("random, regex")
    kept = {text: mass for text, mass in problem.masses.items() if even(text)}
    assert 0.05 < math.fsum(kept.values()) / problem.z < 0.95
    law = normal(kept)  # type: ignore[arg-type]
    sampler = guide(Known(future(problem, even)), top_k=None)
    found = guided_decode(problem.target(), sampler, 500, seed=0)
    assert all(even(sample.tokens) for sample in found.samples)
    assert chi_square(Counter(sample.tokens for sample in found.samples), law).p_value >= SIGNIFICANCE


def test_nado_measures_how_far_a_value_is_from_the_recursion() -> None:
    """The true chance satisfies it, one that is wrong by a factor at every token of a text does not, by the logarithm of the factor."""
    model = TabularModel.random(len(TOKENS), 3, 5, eos=END)
    problem = Case("ends by itself", "", lambda prefix: model.probabilities(prefix).tolist(), None, lambda text: True, 4)
    truth = future(problem, even)
    exact, wrong = Nado(Known(truth), audit=True), Nado(Known(lambda text: truth(text) - 0.5 * len(text)), audit=True)
    assert math.isnan(exact.recursion_error)
    guided_decode(problem.target(), exact, 20, seed=1)
    guided_decode(problem.target(), wrong, 20, seed=1)
    assert exact.recursion_error < 1e-9
    assert wrong.recursion_error == pytest.approx(0.5, abs=1e-9)


# ---------------------------------------------------------------- weights
@pytest.mark.parametrize("name", ["random, set", "reward", "prompt"])
def test_weights_lead_back_to_the_target(name: str) -> None:
    """A guide that rules nothing out is a proper proposal: weighted means are unbiased."""
    value = Arbitrary(6)
    check_unbiased(lambda target, n, *, seed: guided_decode(target, ControlledDecoding(value, 0.5), n, seed=seed), case(name), runs=100)


def test_the_same_seed_gives_the_same_texts() -> None:
    check_reproducible(lambda target, n, *, seed: guided_decode(target, RAD(Arbitrary(), 1.0, 4), n, seed=seed), case("random, regex"))
    check_reproducible(lambda target, n, *, seed: blockwise(target, Arbitrary(), n, k=2, block=2, seed=seed), case("random, grammar"))


def test_greedy_takes_the_best_of_every_step() -> None:
    problem = case("random, grammar")
    step = tilted(2, 1.5, 3)(problem)
    law = law_of_texts(problem, lambda prefix, p: {max(q := step(prefix, p), key=lambda v: q[v]): 1.0})
    ((text, p),) = law.items()
    assert p == 1
    for guide, temperature in ((ARGS(Arbitrary(2), 1.5, 3, greedy=True), 1.0), (ARGS(Arbitrary(2), 1.5, 3), 0.0)):
        found = guided_decode(problem.target(), guide, 2, seed=0, temperature=temperature)
        assert [sample.tokens for sample in found.samples] == [text, text]
        assert all(record.log_law == pytest.approx(0, abs=1e-12) for record in found.records[0])
    assert ARGS(Arbitrary(2), greedy=True).law == "argmax"


# ---------------------------------------------------------------- blocks
@cache
def blocks_after(name: str, prefix: Tokens, size: int) -> Step:
    """Probabilities, under masking, of every next block of ``size`` tokens (fewer where the text ends)."""
    found: dict[Any, float] = {}
    masked = case(name).masked
    total = math.fsum(p for text, p in masked.items() if text[: len(prefix)] == prefix)
    for text, p in masked.items():
        if text[: len(prefix)] == prefix:
            block = text[len(prefix) : len(prefix) + size]
            found[block] = found.get(block, 0.0) + p / total
    return found


Pick = Callable[[Tokens, Sequence[Tokens]], list[float]]
"""Text so far and the blocks that were drawn in, chances of each to be kept out."""


def law_by_blocks(problem: Case, size: int, k: int, pick: Pick) -> Law:
    law: Law = {}
    todo: list[tuple[Tokens, float]] = [((), 1.0)]
    while todo:
        prefix, p = todo.pop()
        if prefix[-1:] == (END,):
            law[prefix] = p
            continue
        blocks: Any = blocks_after(problem.name, prefix, size)
        kept: Counter[Any] = Counter()
        for drawn in itertools.product(blocks, repeat=k):
            together = math.prod(blocks[block] for block in drawn)
            for block, share in zip(drawn, pick(prefix, drawn)):
                kept[block] += together * share
        todo += [((*prefix, *block), p * share) for block, share in kept.items() if share]
    return law


def value_of(prefix: Tokens, block: Tokens) -> float:
    # rounded, so that there are ties
    return round(number(8, (*prefix, *block), block[-1] == END))


class Rounded(Arbitrary):
    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        return [round(number(8, c.tokens, c.finished)) for c in candidates]


def the_best(prefix: Tokens, drawn: Sequence[Tokens]) -> list[float]:
    values = [value_of(prefix, block) for block in drawn]
    return [float(i == values.index(max(values))) for i in range(len(drawn))]


def in_proportion(prefix: Tokens, drawn: Sequence[Tokens]) -> list[float]:
    weights = [math.exp(1.7 * value_of(prefix, block)) for block in drawn]
    return [w / sum(weights) for w in weights]


def by_blocks(sampler: Callable[..., Samples], problem: Case, law: Law, draws: int = 500) -> None:
    assert math.fsum(law.values()) == pytest.approx(1, abs=1e-9)
    found = sampler(problem.target(), draws).samples
    test = chi_square(Counter(sample.tokens for sample in found), law)
    assert test.p_value >= SIGNIFICANCE, test
    plain = chi_square(Counter(sample.tokens for sample in found), problem.masked)
    assert plain.p_value < SIGNIFICANCE, "nothing was chosen"


@pytest.mark.parametrize(("k", "size"), [(3, 2), (2, 3), (2, 99)])
def test_blocks_are_the_best_of_what_was_drawn(k: int, size: int) -> None:
    problem = case("random, regex")
    law = law_by_blocks(problem, size, k, the_best)
    by_blocks(lambda target, n: blockwise(target, Rounded(), n, k=k, block=size, seed=5), problem, law)


def test_blocks_are_kept_in_proportion_to_the_tilt() -> None:
    problem = case("random, grammar")
    law = law_by_blocks(problem, 2, 2, in_proportion)
    by_blocks(lambda target, n: blockwise(target, Rounded(), n, k=2, block=2, strength=1.7, seed=6), problem, law)


class Steps:
    """A judge of steps: of the tokens of the step and where it begins."""

    def step_scores(self, candidates: Sequence[Candidate], step_starts: Sequence[int]) -> list[float]:
        return [number(9, (start, *c.tokens[start:]), c.finished) for c, start in zip(candidates, step_starts)]


@pytest.mark.parametrize("sample", [False, True])
def test_grace_weighs_likelihood_and_judge(sample: bool) -> None:
    problem, beta = case("random, regex"), 0.6

    def pick(prefix: Tokens, drawn: Sequence[Tokens]) -> list[float]:
        likely = []
        for block in drawn:
            text, logs = prefix, []
            for token in block:
                following = blocks_after(problem.name, text, 1)
                logs.append(math.log(following[(token,)]))  # type: ignore[index]
                text = (*text, token)
            likely.append(math.exp(math.fsum(logs) / len(logs)))
        weights = [math.exp(number(9, (len(prefix), *block), block[-1] == END)) for block in drawn]
        scores = [(1 - beta) * p + beta * w / sum(weights) for p, w in zip(likely, weights)]
        return [s / sum(scores) for s in scores] if sample else [float(i == scores.index(max(scores))) for i in range(len(scores))]

    law = law_by_blocks(problem, 2, 2, pick)
    by_blocks(
        lambda target, n: grace(target, Steps(), n, k=2, beta=beta, block=2, sample=sample, seed=1), problem, law, 1200 if sample else 500
    )


def test_draws_know_the_models_own_probability() -> None:
    problem = case("prompt")
    found = blockwise(problem.target(), Rounded(), 20, k=2, block=2)
    for sample in found.samples:
        assert sample.log_prob == pytest.approx(math.log(problem.probability(sample.tokens)), abs=1e-9)
    assert torch.allclose(found.weights, torch.full((20,), 1 / 20, dtype=torch.float64))
