"""``guided.generate(..., search=...)`` and strategies as ``custom_generate``, on a tiny model."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import guided
from grammars import ModelError
from guided import Choice, GuidedLogitsProcessor, Model, Regex, SearchBudget, Trace
from guided.strategies import (
    Beam,
    BestFirstBeam,
    Setting,
    Strategy,
)
from samplers.search.frontier import SearchResult
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


class _Slow(Beam):
    """Notes what it may spend."""

    def run(self, setting: Setting) -> SearchResult:
        assert setting.budget is not None and setting.budget.seconds is not None
        SECONDS.append(setting.budget.seconds)
        time.sleep(0.2)
        return super().run(setting)


SECONDS: list[float] = []


def test_prompts_of_a_batch_share_the_time(network: Any) -> None:
    SECONDS.clear()
    network.generate(**_inputs(True), max_new_tokens=3, max_time=60.0, custom_generate=_Slow(beams=2))
    assert len(SECONDS) == 2 and 0 < SECONDS[0] <= 60 and SECONDS[1] <= SECONDS[0] - 0.2


def test_a_trace_is_of_one_prompt(network: Any) -> None:
    with pytest.raises(ValueError, match="one prompt"):
        network.generate(**_inputs(True), max_new_tokens=3, custom_generate=Beam(beams=2), search_trace=Trace())
