"""The strategies of :mod:`guided.strategies`: their fields, what they take as scores, and what they find on a tiny model."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

import guided
from grammars import ConstraintError
from guided import Choice, Model, SearchBudget, Trace
from guided.strategies import (
    STRATEGIES,
    AdaptiveConsistency,
    Args,
    AStar,
    AStarSteps,
    Beam,
    BestFirstBeam,
    BestOfN,
    Blockwise,
    BranchAndBound,
    Controlled,
    Cot,
    Grace,
    Guide,
    Mbr,
    Mcts,
    OfValue,
    Phi,
    Rad,
    Rebase,
    SelfConsistency,
    Setting,
    Smc,
    SpeculativeRejection,
    Strategy,
    WeakToStrong,
    score_of,
)
from guided.strategies.steps import rule_of
from samplers.models import TabularModel
from samplers.target import Target

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n", "s"]}
WORDS = Choice(["red", "green", "blue", "yellow"])


@pytest.mark.parametrize("name", STRATEGIES)
def test_fields_are_the_arguments_of_the_function(name: str) -> None:
    import inspect

    kind = STRATEGIES[name]
    known = inspect.signature(kind.implementation()).parameters
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        assert each.name in known or each.name in kind.own, f"{kind.__name__}.{each.name}"
        default = known[each.name].default if each.name in known else inspect.Parameter.empty
        if each.name not in kind.own and default is not inspect.Parameter.empty and each.default is not dataclasses.MISSING:
            assert default == each.default, f"{kind.__name__}.{each.name}"


def _vowels(text: str) -> float:
    return float(sum(letter in "aeiou" for letter in text))


@pytest.mark.parametrize(
    "strategy",
    [Args(_vowels, weight=3.0, n=2), Rad(_vowels, n=2), Controlled(_vowels, top_k=8), Blockwise(_vowels, k=2, block=3, n=2)],
    ids=lambda strategy: type(strategy).__name__,
)
def test_guides_as_strategies(plain_model: Model, strategy: Strategy) -> None:
    result = guided.generate(plain_model, "One", SCHEMA, search=strategy, max_tokens=24, seed=5)
    report = result.search
    assert result.value == json.loads(result.text) and report.score == _vowels(result.text)
    assert [one.score for one in report.alternatives] == sorted((one.score for one in report.alternatives), reverse=True)
    assert len(report.alternatives) == strategy.n and report.forwards > 0  # type: ignore[attr-defined]
    again = guided.generate(plain_model, "One", SCHEMA, search=strategy, max_tokens=24, seed=5)
    assert again.tokens == result.tokens
    cut = guided.generate(plain_model, "One", SCHEMA, search=strategy, max_tokens=24, seed=5, search_budget=SearchBudget(forwards=3))
    assert not cut.search.complete and cut.value == json.loads(cut.text) and len(cut.tokens) <= 24
    trace = Trace()
    assert guided.generate(plain_model, "One", SCHEMA, search=strategy, max_tokens=24, seed=5, trace=trace).tokens == result.tokens
    path, number = [], trace.found[0]
    while trace.nodes[number].parent is not None:
        path.append(trace.nodes[number].token)
        number = trace.nodes[number].parent
    assert path[::-1] == result.tokens


@pytest.mark.parametrize(
    "strategy",
    [
        BestOfN(_vowels, n=4),
        SpeculativeRejection(_vowels, n=6),
        Mbr(n=4, utility="token_f1"),
        SelfConsistency("/n", n=4),
        SelfConsistency("[0-9]", n=4, weights=_vowels),
        AdaptiveConsistency("", n=4),
        Cot("/n", k=3),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_whole_texts(plain_model: Model, strategy: Strategy) -> None:
    result = guided.generate(plain_model, "One", SCHEMA, search=strategy, max_tokens=24, seed=5)
    assert result.value == json.loads(result.text)
    assert all(one.value == json.loads(one.text) for one in result.search.alternatives)
    if isinstance(strategy, BestOfN | SpeculativeRejection):
        assert result.search.score == _vowels(result.text)


@pytest.mark.parametrize("kind", [AStar, BranchAndBound])
def test_exact_searches_with_a_reward(plain_model: Model, kind: Any) -> None:
    plain = guided.generate(plain_model, "A colour:", WORDS, search=kind(n=60), max_tokens=8)
    scores = {tuple(one.tokens): one.logprob + 50 * _vowels(one.text) for one in plain.search.alternatives}
    strategy = kind(reward=lambda text: 50 * _vowels(text), reward_bound=150.0)
    best = guided.generate(plain_model, "A colour:", WORDS, search=strategy, max_tokens=8)
    assert tuple(best.tokens) == max(scores, key=lambda tokens: scores[tokens])
    assert best.search.score == pytest.approx(max(scores.values()), abs=1e-4)


def test_utilities_and_answers(plain_model: Model) -> None:
    with pytest.raises(ConstraintError, match="no utility 'charm'"):
        guided.generate(plain_model, "x", WORDS, search=Mbr(utility="charm"), max_tokens=8)
    shorter = Mbr(n=8, utility=lambda candidate, reference: -float(len(candidate)))
    result = guided.generate(plain_model, "x", WORDS, search=shorter, max_tokens=8)
    assert len(result.text) == min(len(one.text) for one in result.search.alternatives)


@pytest.mark.parametrize(
    "strategy",
    [
        AStarSteps(_vowels, rule="field", k=2, max_step_tokens=8),
        Rebase(_vowels, rule=6, n=3),
        Phi(rule=6, beams=2, k=2),
        Mcts(reward=_vowels, simulations=4, width=3),
        Mcts(value=_vowels, reward=_vowels, simulations=12, width=3),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_steps(plain_model: Model, strategy: Strategy) -> None:
    result = guided.generate(plain_model, "One", SCHEMA, search=strategy, max_tokens=24, seed=5)
    assert result.value == json.loads(result.text)
    assert all(one.value == json.loads(one.text) for one in result.search.alternatives if one.finish_reason == "complete")


def test_weak_to_strong_takes_loaded_models(plain_model: Model) -> None:
    strategy = WeakToStrong(plain_model, plain_model, beams=2, k=2, rule=2)
    result = guided.generate(plain_model, "One", WORDS, search=strategy, max_tokens=8)
    assert result.search.score == pytest.approx(0.0, abs=1e-4)  # a model beside itself


def test_rules_of_steps(plain_model: Model) -> None:
    from samplers.search.steps import Delimiter, Field, Sentence, Tokens

    target = Target(TabularModel(3, 2, lambda prefix: [0.3, 0.3, 0.4]), (), None, 4)
    vocabulary = plain_model.vocabulary
    setting = Setting(target, texts=vocabulary)
    assert rule_of(3, setting) == Tokens(3) and rule_of("sentence", setting) == Sentence(vocabulary)
    assert rule_of("field", setting) == Field(vocabulary) and rule_of("line", setting) == Delimiter(b"\n", vocabulary)
    assert rule_of("; ", setting) == Delimiter(b"; ", vocabulary) and rule_of(None, setting) == Delimiter(b"\n", vocabulary)
    assert rule_of(Tokens(2), setting) == Tokens(2)
    with pytest.raises(ConstraintError, match="rule of steps"):
        rule_of(2.5, setting)
    with pytest.raises(ConstraintError, match="what tokens mean"):
        rule_of(None, Setting(target))


def test_particles_as_a_strategy(plain_model: Model) -> None:
    result = guided.generate(plain_model, "One", WORDS, search=Smc(_vowels, n=6, scale=20.0), max_tokens=8, seed=5)
    report = result.search
    assert report.score == _vowels(result.text) == max(one.score for one in report.alternatives)
    assert {one.text for one in report.alternatives} <= {"red", "green", "blue", "yellow"} and report.forwards > 0
    with pytest.raises(ValueError, match="no search budget"):
        guided.generate(plain_model, "One", WORDS, search=Smc(_vowels), max_tokens=8, search_budget=SearchBudget(forwards=3))


def test_a_guide_and_a_step_scorer_as_strategies(plain_model: Model) -> None:
    from samplers.guides import ARGS
    from samplers.scores import Function

    guide = ARGS(Function(_vowels, texts=plain_model.vocabulary), greedy=True)
    result = guided.generate(plain_model, "One", WORDS, search=Guide(guide, reward=len), max_tokens=8)
    assert result.search.score == len(result.text)

    class Shorter:
        def step_scores(self, candidates: Any, step_starts: Any) -> list[float]:
            return [-float(len(candidate)) for candidate in candidates]

    result = guided.generate(plain_model, "One", WORDS, search=Grace(Shorter(), k=3, block="token"), max_tokens=8, seed=1)
    assert result.finish_reason == "complete" and result.search.score == pytest.approx(result.search.alternatives[0].logprob)


def test_fields_are_checked() -> None:
    for options in ({"beams": 0}, {"beams": 2.5}, {"beams": None}, {"beams": True}, {"length_penalty": float("inf")}, {"patience": "much"}):
        with pytest.raises(ValueError, match=f"Beam: {next(iter(options))} must be"):
            Beam(**options)  # type: ignore[arg-type]
    assert BestFirstBeam(beams=None).beams is None
    assert Beam(length_penalty=0) == Beam(length_penalty=0.0) and hash(Beam()) == hash(Beam())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Beam().beams = 3  # type: ignore[misc]


def test_scores_of_texts_and_values(plain_model: Model) -> None:
    from samplers.scores.protocol import Candidate

    target = Target(TabularModel(3, 2, lambda prefix: [0.3, 0.3, 0.4]), (), None, 4)
    setting = Setting(target, texts=plain_model.vocabulary, parse=json.loads)
    spelt = plain_model.vocabulary.encode(b'{"n": 41}')
    candidate = Candidate.of((1,), spelt)
    assert score_of(len, setting).rewards([candidate]) == [9.0]
    assert score_of(OfValue(lambda value: value["n"] + 1), setting).rewards([candidate]) == [42.0]
    assert score_of(OfValue(lambda value: 1.0, otherwise=-3.0), setting).rewards([Candidate.of((1,), spelt[:-1])]) == [-3.0]
    made = score_of(len, setting)
    assert score_of(made, setting) is made
    assert score_of({"n": 2.5}, setting).rewards([candidate]) == [2.5]
    for given in (len, {"n": 1.0}):
        with pytest.raises(ConstraintError, match="what tokens mean"):
            score_of(given, Setting(target))
    with pytest.raises(ConstraintError, match="a score is"):
        score_of(3, setting)
