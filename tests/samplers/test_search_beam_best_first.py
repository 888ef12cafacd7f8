"""Best-first beam search and beams with regularisers: equal to beam search and to exhaustive search, with the number of expansions."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from grammars import JsonSchema
from guided.evaluation.toys import case, names
from samplers.models import HFModel, TabularModel
from samplers.search.beam import beam_search
from samplers.search.best_first_beam import best_first_beam_search
from samplers.search.frontier import SearchBudget, SearchResult
from samplers.search.uid_beam import Regulariser, uid_beam_search
from samplers.target import Target
from tests import tiny

REGULARISERS: tuple[Regulariser, ...] = ("variance", "local", "max", "square", "greedy")


def texts(result: SearchResult) -> list[tuple[int, ...]]:
    return [found.tokens for found in result.found]


def target(seed: int, *, width: int = 6, depth: int = 7, concentration: float = 0.5) -> Target:
    return Target(TabularModel.random(width, depth, seed, concentration=concentration), (), max_tokens=depth + 1)


@pytest.mark.parametrize("finished", ["aside", "compete"])
def test_the_text_of_beam_search_with_fewer_expansions(finished: Any) -> None:
    """On sixty random models and four widths: always the same text, never more expansions, in all much fewer."""
    fewer = total = 0
    for seed in range(60):
        for beams in (1, 2, 4, 8):
            problem = target(seed)
            usual = beam_search(problem, beams=beams, length_penalty=0.0, early_stopping="never", finished=finished)
            quick = best_first_beam_search(problem, beams=beams, finished=finished)
            assert quick.best.tokens == usual.best.tokens and quick.best.score == pytest.approx(usual.best.score)
            assert quick.expansions <= usual.expansions
            fewer, total = fewer + quick.expansions, total + usual.expansions
    assert fewer < 0.6 * total


@pytest.mark.parametrize("finished", ["aside", "compete"])
def test_all_texts_of_the_beam(finished: Any) -> None:
    for seed in range(40):
        for beams in (2, 5):
            problem = target(seed)
            usual = beam_search(problem, beams=beams, length_penalty=0.0, early_stopping="never", finished=finished)
            quick = best_first_beam_search(problem, beams=beams, n=beams, finished=finished)
            assert texts(quick) == texts(usual)
            assert quick.expansions <= usual.expansions


@pytest.mark.parametrize("length_penalty", [-0.5, 0.5, 1.0])
def test_length_penalties(length_penalty: float) -> None:
    for seed in range(40):
        problem = target(seed)
        usual = beam_search(problem, beams=4, length_penalty=length_penalty, early_stopping="never")
        quick = best_first_beam_search(problem, beams=4, n=4, length_penalty=length_penalty, finished="aside")
        assert texts(quick) == texts(usual)
        assert [f.score for f in quick.found] == pytest.approx([f.score for f in usual.found])
        one = best_first_beam_search(problem, beams=4, length_penalty=length_penalty, finished="aside")
        assert one.best.tokens == usual.best.tokens and one.expansions <= quick.expansions


@pytest.mark.parametrize("name", names(reward=False))
def test_under_constraints(name: str) -> None:
    problem = case(name)
    for finished in ("aside", "compete"):
        usual = beam_search(problem.target(), beams=3, length_penalty=0.0, early_stopping="never", finished=finished, ending="exact")
        quick = best_first_beam_search(problem.target(), beams=3, n=3, finished=finished, ending="exact")
        assert texts(quick) == texts(usual)


@pytest.mark.parametrize("name", names(reward=False))
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_without_a_bound_it_is_exact(name: str, length_penalty: float) -> None:
    problem = case(name)
    scores = {text: math.log(mass) / len(text) ** length_penalty for text, mass in problem.masses.items()}
    best = sorted(scores.values(), reverse=True)[:5]
    found = best_first_beam_search(problem.target(), beams=None, n=5, length_penalty=length_penalty, ending="exact")
    assert [f.score for f in found.found] == pytest.approx(best)
    assert [scores[text] for text in texts(found)] == pytest.approx(best)  # texts of equal score are in any order
    assert len(set(texts(found))) == len(best)


def test_batches_change_calls_not_texts() -> None:
    model = HFModel(tiny.llama(40, seed=3, scale=6.0), eos_token_ids=[3, 17])
    calls = []
    for batch in (1, 4):
        model.clear()
        before = model.usage.copy()
        result = best_first_beam_search(Target(model, (5, 9), max_tokens=12), beams=6, n=6, finished="aside", batch=batch, ending="cut")
        calls.append((texts(result), model.usage.since(before).forwards))
    assert calls[0][0] == calls[1][0] and calls[1][1] < calls[0][1]


# ---------------------------------------------------------------- regularisers
def plain_score(surprisals: list[float], lowest: list[float], regulariser: str, weight: float) -> float:
    """The objective as the paper writes it."""
    n, mean = len(surprisals), sum(surprisals) / len(surprisals)
    values: dict[str, Callable[[], float]] = {
        "variance": lambda: sum((u - mean) ** 2 for u in surprisals) / n,
        "local": lambda: sum((u - v) ** 2 for u, v in zip(surprisals, [0.0, *surprisals])) / n,
        "max": lambda: max(surprisals),
        "square": lambda: sum(u**2 for u in surprisals),
        "greedy": lambda: sum((u - v) ** 2 for u, v in zip(surprisals, lowest)),
    }
    return -sum(surprisals) - weight * values[regulariser]()


def plain_scores(problem: Target, regulariser: str, weight: float) -> dict[tuple[int, ...], float]:
    model = problem.model
    assert isinstance(model, TabularModel)
    found = {}
    for text in model.enumerate(problem.max_tokens):
        rows = [-model.probabilities(text[:i]).log() for i in range(len(text))]
        surprisals = [float(row[token]) for row, token in zip(rows, text)]
        found[text] = plain_score(surprisals, [float(row.min()) for row in rows], regulariser, weight)
    return found


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_exact_search_finds_the_optimum_of_the_objective(regulariser: Regulariser) -> None:
    for seed in range(6):
        problem = target(seed, width=4, depth=5)
        scores = plain_scores(problem, regulariser, 0.7)
        found = uid_beam_search(problem, regulariser=regulariser, weight=0.7, search="exact", n=3)
        assert texts(found) == sorted(scores, key=lambda text: -scores[text])[:3]
        assert [f.score for f in found.found] == pytest.approx([scores[text] for text in texts(found)])
        assert found.expansions < len(scores)


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_wide_beams_find_it_too(regulariser: Regulariser) -> None:
    problem = target(1, width=4, depth=5)
    scores = plain_scores(problem, regulariser, 1.5)
    found = uid_beam_search(problem, regulariser=regulariser, weight=1.5, beams=3000, early_stopping="never")
    assert {f.tokens: f.score for f in found.found} == pytest.approx(scores)
    assert found.best.tokens == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("regulariser", ["max", "square", "greedy"])
def test_best_first_beams_with_regularisers(regulariser: Regulariser) -> None:
    for seed in range(20):
        problem = target(seed)
        usual = uid_beam_search(problem, regulariser=regulariser, beams=3, early_stopping="never")
        quick = uid_beam_search(problem, regulariser=regulariser, beams=3, n=3, search="best-first")
        assert texts(quick) == texts(usual) and quick.expansions <= usual.expansions


def test_a_weight_evens_texts_out() -> None:
    def unevenness(found: Any) -> float:
        path = found.node.path()
        surprisals = [a.logprob - b.logprob for a, b in itertools.pairwise(path)]
        return sum((u - sum(surprisals) / len(surprisals)) ** 2 for u in surprisals) / len(surprisals)

    lower = 0
    for seed in range(30):
        plain, even = (uid_beam_search(target(seed), regulariser="variance", weight=w, search="exact").best for w in (0.0, 5.0))
        assert unevenness(even) <= unevenness(plain) + 1e-12
        lower += unevenness(even) < unevenness(plain) - 1e-9
    assert lower >= 4
    zero = uid_beam_search(target(3), weight=0.0, beams=4)
    assert texts(zero) == texts(beam_search(target(3), beams=4, length_penalty=0.0))


# ---------------------------------------------------------------- schemas, budgets, refusals
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "maximum": 99}}, "required": ["ok", "n"]}


@pytest.mark.parametrize("forwards", [None, 3])
def test_schema(byte_vocab: Any, forwards: int | None) -> None:
    automaton = JsonSchema(SCHEMA).compile(byte_vocab)
    model = HFModel(tiny.llama(byte_vocab.logits_size, seed=2, scale=8.0), eos_token_ids=byte_vocab.eos_token_ids)
    problem = Target(model, (65,), automaton=automaton, max_tokens=30)
    budget = None if forwards is None else SearchBudget(forwards=forwards)
    for result in (
        best_first_beam_search(problem, beams=3, budget=budget),
        uid_beam_search(problem, beams=3, budget=budget),
        uid_beam_search(problem, beams=3, regulariser="max", search="best-first", budget=budget),
    ):
        assert result.complete == (forwards is None)
        assert result.best.finished and problem.contains(result.best.tokens)
        assert json.loads(byte_vocab.decode(result.best.tokens))["ok"] in (True, False)


def test_refusals() -> None:
    problem = target(0)
    for wrong in ({"beams": 2, "n": 3}, {"n": 0}, {"batch": 0}, {"beams": 0}, {"length_penalty": 1.0}, {"finished": "gone"}):
        with pytest.raises(ValueError):
            best_first_beam_search(problem, **wrong)  # type: ignore[arg-type]
    uid: tuple[dict[str, Any], ...] = (
        {"regulariser": "mean"},
        {"weight": -1.0},
        {"search": "worst-first"},
        {"search": "best-first", "regulariser": "variance"},
        {"search": "best-first", "n": 9},
    )
    for wrong in uid:
        with pytest.raises(ValueError):
            uid_beam_search(problem, **wrong)
    for search in (best_first_beam_search, uid_beam_search):
        with pytest.raises(ValueError, match="reward"):
            search(case("reward").target())
