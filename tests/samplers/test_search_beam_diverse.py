"""Diverse beam search: equal to a plain version; limits in which it is beam search; what it is for."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from typing import Any

import pytest

from grammars import JsonSchema
from guided.evaluation.toys import case, names
from samplers.models import HFModel, TabularModel
from samplers.search.beam import beam_search
from samplers.search.diverse_beam import diverse_beam_search
from samplers.search.frontier import SearchBudget
from samplers.target import Target
from tests import tiny

WIDTH, DEPTH = 6, 6


def target(seed: int) -> Target:
    return Target(TabularModel.random(WIDTH, DEPTH, seed, concentration=0.6), (), max_tokens=DEPTH + 1)


Prefix = tuple[tuple[int, ...], float, float]


def plain(problem: Target, k: int, groups: int, diversity: float, kind: str) -> list[tuple[tuple[int, ...], float]]:
    """The algorithm with lists, ``early_stopping=True``: prefixes are (tokens, penalised score, log-probability)."""
    model, end = problem.model, WIDTH - 1
    beams: list[list[Prefix]] = [[((), 0.0, 0.0)] for _ in range(groups)]
    pools: list[list[Prefix]] = [[] for _ in range(groups)]
    while any(beams):
        before: list[tuple[int, ...]] = []
        for g in range(groups):
            children = []
            for tokens, score, logprob in beams[g]:
                for token, p in enumerate(model.probabilities(tokens).tolist()):
                    grams = [t[i : i + 2] for t in before for i in range(len(t) - 1)] if kind == "ngram" else [t[-1:] for t in before]
                    penalty = Counter(grams)[(*tokens, token)[-2:] if kind == "ngram" else (token,)]
                    if kind == "ngram" and not tokens:
                        penalty = 0
                    if p > 0:
                        children.append(((*tokens, token), score + math.log(p) - diversity * penalty, logprob + math.log(p)))
            children = sorted(children, key=lambda child: -child[1])[: 2 * k]
            ended = [child for child in children[:k] if child[0][-1] == end]
            running = [child for child in children if child[0][-1] != end][:k]
            before += [child[0] for child in running + ended]
            pools[g] = sorted(pools[g] + ended, key=lambda text: -text[2] / len(text[0]))[:k]
            beams[g] = [] if len(pools[g]) == k else running
    return sorted({(tokens, logprob / len(tokens)) for pool in pools for tokens, _, logprob in pool}, key=lambda text: -text[1])


@pytest.mark.parametrize("kind", ["hamming", "ngram"])
@pytest.mark.parametrize(("groups", "k"), [(1, 3), (3, 1), (2, 3)])
def test_equals_a_plain_version(kind: Any, groups: int, k: int) -> None:
    for seed, diversity in itertools.product(range(8), (0.3, 2.0)):
        result = diverse_beam_search(
            target(seed), beams=k * groups, groups=groups, diversity=diversity, dissimilarity=kind, early_stopping=True
        )
        expected = plain(target(seed), k, groups, diversity, kind)
        assert [f.tokens for f in result.found] == [tokens for tokens, _ in expected]
        assert [f.score for f in result.found] == pytest.approx([score for _, score in expected])


def test_one_group_or_no_diversity_is_beam_search() -> None:
    for seed in range(10):
        usual = [f.tokens for f in beam_search(target(seed), beams=3).found]
        assert [f.tokens for f in diverse_beam_search(target(seed), beams=3, groups=1).found] == usual
        assert [f.tokens for f in diverse_beam_search(target(seed), beams=6, groups=2, diversity=0.0).found] == usual


def test_groups_differ() -> None:
    """A large weight makes every group begin with another token; texts are more different than those of beam search."""
    kinds = {"beam": 0, "diverse": 0}
    for seed in range(20):
        usual = beam_search(target(seed), beams=5)
        diverse = diverse_beam_search(target(seed), beams=5, groups=5, diversity=100.0)
        assert len({f.tokens[0] for f in diverse.found}) == 5
        kinds["beam"] += len({f.tokens[0] for f in usual.found})
        kinds["diverse"] += len({f.tokens[0] for f in diverse.found})
        assert diverse.best.score <= usual.best.score + 1e-9
    assert kinds["diverse"] > 1.5 * kinds["beam"]


@pytest.mark.parametrize("name", [name for name in names(reward=False, free=False) if name not in ("checker", "holes")])
def test_under_constraints(name: str) -> None:
    problem = case(name)
    result = diverse_beam_search(problem.target(), beams=4, groups=4, diversity=1.0)
    assert result.found and all(problem.target().contains(f.tokens) for f in result.found)
    assert len({f.tokens for f in result.found}) == len(result.found)


@pytest.mark.parametrize("forwards", [None, 4])
def test_schema(byte_vocab: Any, forwards: int | None) -> None:
    automaton = JsonSchema({"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 4}).compile(byte_vocab)
    model = HFModel(tiny.llama(byte_vocab.logits_size, seed=2, scale=8.0), eos_token_ids=byte_vocab.eos_token_ids)
    problem = Target(model, (65,), automaton=automaton, max_tokens=30)
    budget = None if forwards is None else SearchBudget(forwards=forwards)
    result = diverse_beam_search(problem, beams=6, groups=3, budget=budget)
    assert result.complete == (forwards is None) and result.best.finished
    for found in result.found:
        if found.finished:
            assert set(json.loads(byte_vocab.decode(found.tokens))) <= {"red", "green", "blue"}


def test_refusals() -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"beams": 5, "groups": 2},
        {"groups": 0},
        {"diversity": -1.0},
        {"dissimilarity": "cosine"},
        {"dissimilarity": "ngram", "n": 0},
    )
    for arguments in wrong:
        with pytest.raises(ValueError):
            diverse_beam_search(target(0), **arguments)
    with pytest.raises(ValueError, match="reward"):
        diverse_beam_search(case("reward").target())
