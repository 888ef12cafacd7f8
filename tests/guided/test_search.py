"""``guided.generate(..., search=...)`` and strategies as ``custom_generate``, on a tiny model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import guided
from grammars import ConstraintError, ModelError
from guided import Choice, GuidedLogitsProcessor, Model, Regex, SearchBudget, Trace
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
from tests import tiny

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n", "s"]}
WORDS = Choice(["red", "green", "blue", "yellow"])


# ---------------------------------------------------------------- guided.generate
def test_a_search_gives_a_result_with_alternatives(plain_model: Model) -> None:
    result = guided.generate(plain_model, "A colour:", WORDS, search=Beam(beams=4), max_tokens=8)
    report = result.search
    texts = [one.text for one in report.alternatives]
    assert len(texts) == 4 and set(texts) <= {"blue", "green", "red", "yellow"} and result.text == texts[0] == result.value
    scores = [one.score for one in report.alternatives]
    assert scores == sorted(scores, reverse=True) and report.score == scores[0]
    assert report.method == "beam search" and report.complete and report.forwards > 0
    best = report.alternatives[0]
    assert result.logprob == pytest.approx(best.logprob) and best.score == pytest.approx(best.logprob / len(best.tokens))
    assert result.finish_reason == "complete" and len(result.log_kept) == len(result.tokens) and all(kept <= 0 for kept in result.log_kept)


def test_numbers_are_those_of_the_model(plain_model: Model) -> None:
    result = guided.generate(plain_model, "A colour:", WORDS, search=Beam(), max_tokens=8, temperature=2.0)
    ids = plain_model.tokenizer("A colour:")["input_ids"]
    with torch.no_grad():
        logits = plain_model.model(torch.tensor([ids + result.tokens])).logits[0, len(ids) - 1 : -1].double()
    rows = logits.log_softmax(-1)
    assert result.logprobs == pytest.approx([float(row[token]) for row, token in zip(rows, result.tokens)], abs=1e-4)
    warm = (logits / 2).log_softmax(-1)
    assert result.search.alternatives[0].logprob == pytest.approx(sum(float(row[t]) for row, t in zip(warm, result.tokens)), abs=1e-4)
    automaton = WORDS.compile(plain_model.vocabulary)
    kept, state = [], automaton.start
    for row, token in zip(warm, result.tokens):
        bits = automaton.mask(state)
        allowed = [t for t in range(plain_model.vocabulary.size) if bits[t >> 5] >> (t & 31) & 1]
        kept.append(float(row[allowed].logsumexp(0)))
        state = automaton.advance(state, token)
    assert result.log_kept == pytest.approx(kept, abs=1e-4)


def test_schemas_prompts_and_types(plain_model: Model) -> None:
    results = guided.generate(plain_model, ["One", "Another"], SCHEMA, search=BestFirstBeam(beams=2), max_tokens=24)
    assert len(results) == 2
    for result in results:
        assert result.value == json.loads(result.text) and set(result.value) >= {"n", "s"} and len(result.tokens) <= 24


def test_free_text_is_cut(plain_model: Model) -> None:
    result = guided.generate(plain_model, "Once", search=Beam(beams=2), max_tokens=5)
    assert result.finish_reason == "length" and len(result.tokens) == 5 and result.value == result.text


def test_budget_trace_and_progress(plain_model: Model, tmp_path: Path) -> None:
    seen: list[Any] = []
    limit = SearchBudget(forwards=3)
    trace = Trace()
    options: dict[str, Any] = {"search": Beam(beams=2), "search_budget": limit, "max_tokens": 20, "progress": seen.append}
    result = guided.generate(plain_model, "One", SCHEMA, trace=trace, **options)
    assert not result.search.complete and json.loads(result.text) == result.value  # valid all the same
    assert seen and seen[-1].forwards >= 3
    assert result.search.trace is trace and trace.found and trace.method == "beam search"
    texts = {node.text for node in trace.nodes.values() if node.token is not None}
    assert any("{" in (text or "") for text in texts)
    guided.generate(plain_model, "One", SCHEMA, trace=tmp_path / "t.json", **options)
    assert json.loads((tmp_path / "t.json").read_text())["method"] == "beam search"
    free = guided.generate(plain_model, "One", None, search=Beam(beams=2), max_tokens=3, trace=tmp_path / "t.html")
    assert "Search tree: beam search" in (tmp_path / "t.html").read_text()
    words = [node.text for node in free.search.trace.nodes.values() if node.token is not None]
    assert words and all(text is not None for text in words)


def test_what_does_not_go_with_a_search_is_refused(plain_model: Model) -> None:
    for options in ({"top_k": 3}, {"top_p": 0.5}, {"warpers": []}, {"temperature": 0}):
        with pytest.raises(ValueError, match="search"):
            guided.generate(plain_model, "x", WORDS, search=Beam(), max_tokens=8, **options)
    with pytest.raises(ValueError, match="strategies"):
        guided.generate(plain_model, "x", WORDS, search="beam", max_tokens=8)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="search="):
        guided.generate(plain_model, "x", WORDS, search_budget=SearchBudget(forwards=3), max_tokens=8)
    with pytest.raises(ValueError, match="one prompt"):
        guided.generate(plain_model, ["x", "y"], WORDS, search=Beam(), trace=Trace(), max_tokens=8)


# ---------------------------------------------------------------- strategies as values
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
    with pytest.raises(ConstraintError, match="what tokens mean"):
        score_of(len, Setting(target))
    with pytest.raises(ConstraintError, match="a score is"):
        score_of(3, setting)


# ---------------------------------------------------------------- generate of transformers
@pytest.fixture(scope="module")
def network() -> Any:
    made = tiny.llama(60, seed=3, scale=4.0)
    made.generation_config.eos_token_id = 7
    made.generation_config.pad_token_id = 0
    return made


def _inputs(padded: bool) -> dict[str, torch.Tensor]:
    if padded:
        ids = torch.tensor([[0, 0, 5, 9, 11], [4, 8, 15, 16, 23]])
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}
    return {"input_ids": torch.tensor([[4, 8, 15]])}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_custom_generate_equals_the_beams_of_transformers(network: Any, padded: bool, penalty: float) -> None:
    options = {"max_new_tokens": 9, "num_return_sequences": 2, "return_dict_in_generate": True, "output_scores": True}
    options |= {"num_beams": 3} | ({"repetition_penalty": penalty} if penalty != 1 else {})
    theirs = network.generate(**_inputs(padded), **options)
    ours = network.generate(**_inputs(padded), **options, custom_generate=Beam(beams=3))
    assert ours.sequences.tolist() == theirs.sequences.tolist()
    assert ours.sequences_scores.tolist() == pytest.approx(theirs.sequences_scores.tolist(), abs=1e-5)
    assert len(ours.searches) == (2 if padded else 1)
    bare = network.generate(**_inputs(padded), **(options | {"return_dict_in_generate": False}), custom_generate=Beam(beams=3))
    assert bare.tolist() == ours.sequences.tolist()


def test_custom_generate_under_a_constraint(plain_model: Model) -> None:
    network, tokenizer = plain_model.model, plain_model.tokenizer
    inputs = tokenizer("A colour:", return_tensors="pt")
    processor = GuidedLogitsProcessor(tokenizer, [WORDS], max_new_tokens=8)
    trace = Trace()
    options = {"max_new_tokens": 8, "num_beams": 4, "num_return_sequences": 4, "logits_processor": [processor]}
    output = network.generate(**inputs, **options, custom_generate=Beam(beams=4), search_trace=trace)
    texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert len(texts) == 4 and set(texts) <= {"blue", "green", "red", "yellow"}
    assert texts == [a.text for a in guided.generate(plain_model, "A colour:", WORDS, search=Beam(), max_tokens=8).search.alternatives]
    assert any(node.blocked for node in trace.nodes.values())


def test_custom_generate_with_a_constraint_for_each_prompt(plain_model: Model) -> None:
    network, tokenizer = plain_model.model, plain_model.tokenizer
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
    inputs = tokenizer(["A colour of the sky:", "A number:"], return_tensors="pt", padding=True)
    processor = GuidedLogitsProcessor(tokenizer, [WORDS, Regex(r"\d{3}")], max_new_tokens=8)
    options = {"max_new_tokens": 8, "num_beams": 2, "num_return_sequences": 2, "logits_processor": [processor]}
    output = network.generate(**inputs, **options, custom_generate=Beam(beams=2))
    texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert all(text in ("red", "green", "blue", "yellow") for text in texts[:2])
    assert all(text.isdigit() and len(text) == 3 for text in texts[2:])


def test_custom_generate_takes_budgets_and_refuses_what_it_cannot_do(network: Any) -> None:
    options = {"max_new_tokens": 9, "return_dict_in_generate": True, "search_budget": SearchBudget(forwards=4)}
    found = network.generate(**_inputs(False), **options, custom_generate=Beam(beams=3))
    assert not found.searches[0].complete and found.sequences.shape[1] < 12
    with pytest.raises(ValueError, match="num_return_sequences"):
        network.generate(**_inputs(False), max_new_tokens=9, custom_generate=Beam(beams=2), num_beams=20, num_return_sequences=19)
    with pytest.raises(ModelError, match="stopping criterion"):
        network.generate(**_inputs(False), max_new_tokens=9, custom_generate=Beam(), stopping_criteria=[lambda ids, scores: False])


def test_strategies_are_public() -> None:
    assert guided.strategies.Beam is Beam and issubclass(Beam, Strategy)
