"""The law of local masking, against enumeration: every token sequence of a small language, with its exact probability."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch

from grammars import Automaton, Gbnf, Vocabulary
from samplers.budget import Budget
from samplers.masked import Request, decode
from samplers.sampling import Settings
from tests import tiny

SAMPLES = 6_000
TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"", b"<pad>"]
END = 6
Sequence = tuple[int, ...]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, eos_token_ids=[END], special_token_ids=[7])


@pytest.fixture(scope="module")
def automaton(vocabulary: Vocabulary) -> Automaton:
    return Gbnf('root ::= "a" ("b" | "bc" "a"? | "bb"){0,2}').compile(vocabulary)


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny.llama(8, seed=4, scale=4.0)


def law(model: Any, automaton: Automaton, settings: Settings, budget: int | None = None) -> dict[Sequence, tuple[float, float]]:
    """Sequence -> (probability under local masking, log-probability under the model at this temperature)."""
    found: dict[Sequence, tuple[float, float]] = {}
    needs = Budget(automaton)
    todo: list[tuple[Sequence, int, float, float]] = [((), automaton.start, 0.0, 0.0)]
    while todo:
        ids, state, masked, free = todo.pop()
        with torch.inference_mode():
            scores = model(torch.tensor([[3, *ids]])).logits[0, -1].double() / settings.temperature
        after = {t: automaton.advance(state, t) for t in range(len(TOKENS)) if automaton.allows(state, t)}
        if budget is not None:
            left = budget - len(ids) - 1
            after = {t: s for t, s in after.items() if t == END or needs.need(s) <= left}
        kept = sorted(after, key=lambda t: -scores[t].item())[: settings.top_k]
        total = scores[kept].logsumexp(0).item()
        everything = scores.logsumexp(0).item()
        for token in kept:
            p, q = masked + scores[token].item() - total, free + scores[token].item() - everything
            if token == END:
                found[(*ids, token)] = (math.exp(p), q)
            else:
                todo.append(((*ids, token), after[token], p, q))
    return found


def samples(model: Any, automaton: Automaton, settings: Settings, most: int, budget: Budget | None) -> list[tuple[Sequence, float]]:
    """Sampled sequences with the logarithm of their importance weight."""
    requests = [Request([3], automaton, most, seed, budget) for seed in range(SAMPLES)]
    ids: list[list[int]] = [[] for _ in requests]
    weights = [0.0] * SAMPLES
    for steps in decode(model, requests, [END], settings):
        for step in steps:
            ids[step.row].append(step.token)
            weights[step.row] += step.log_kept
    return [(tuple(row), weight) for row, weight in zip(ids, weights)]


def chi_square(counts: Counter[Sequence], expected: dict[Sequence, float]) -> tuple[float, float]:
    """Statistic (rare sequences put together) and the value that it exceeds once in about a million times (Wilson, Hilferty 1931)."""
    rare = {s for s, p in expected.items() if p * SAMPLES < 5}
    cells = [(counts[s], p * SAMPLES) for s, p in expected.items() if s not in rare]
    if rare:
        cells.append((sum(counts[s] for s in rare), sum(expected[s] for s in rare) * SAMPLES))
    degrees = len(cells) - 1
    statistic = sum((seen - e) ** 2 / max(e, 1e-9) for seen, e in cells)
    return statistic, degrees * (1 - 2 / (9 * degrees) + 4.75 * math.sqrt(2 / (9 * degrees))) ** 3


@pytest.mark.parametrize(
    ("settings", "budget"),
    [(Settings(), None), (Settings(temperature=2.0), None), (Settings(top_k=2), None), (Settings(), 4)],
    ids=["plain", "temperature 2", "top-k 2", "budget of 4"],
)
def test_samples_follow_the_declared_law(model: Any, automaton: Automaton, settings: Settings, budget: int | None) -> None:
    expected = {s: p for s, (p, _) in law(model, automaton, settings, budget).items()}
    assert sum(expected.values()) == pytest.approx(1) and len(expected) > 10
    drawn = samples(model, automaton, settings, budget or 32, Budget(automaton) if budget else None)
    counts = Counter(s for s, _ in drawn)
    assert set(counts) <= set(expected)
    statistic, bound = chi_square(counts, expected)
    assert statistic < bound
    wrong, _ = chi_square(counts, dict(zip(expected, list(expected.values())[1:] + list(expected.values())[:1])))
    assert wrong > bound, "the test can tell another law from this one"


def test_the_mask_is_not_the_conditional_and_the_weights_say_by_how_much(model: Any, automaton: Automaton) -> None:
    exact = law(model, automaton, Settings())
    inside = sum(math.exp(q) for _, q in exact.values())
    conditional = {s: math.exp(q) / inside for s, (_, q) in exact.items()}
    distance = sum(abs(p - conditional[s]) for s, (p, _) in exact.items()) / 2
    assert distance > 0.05, "local masking distorts here"
    drawn = samples(model, automaton, Settings(), 32, None)
    for sequence, weight in drawn[:500]:
        masked, free = exact[sequence]
        assert math.log(masked) + weight == pytest.approx(free, abs=1e-3)
    assert sum(math.exp(weight) for _, weight in drawn) / SAMPLES == pytest.approx(inside, rel=0.1)
    weights: Counter[Sequence] = Counter()
    for sequence, weight in drawn:
        weights[sequence] += math.exp(weight)  # type: ignore[assignment]
    total = sum(weights.values())
    corrected = sum(abs(weights[s] / total - conditional[s]) for s in exact) / 2
    assert corrected < distance / 2
