"""Speculation by name: the same texts as without, on a tiny model with a real tokenizer; what is refused; transformers' generate."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MaxTimeCriteria, StopStringCriteria

import guided
from guided import GuidedLogitsProcessor, Model, Speculation
from guided.drafting import DRAFTS, opened, parts_of, rounds
from samplers.masked import Request
from samplers.sampling import Settings
from speculative.drafters import ModelDrafter, PromptLookup, StringDrafter
from speculative.pace import Adaptive, Always
from speculative.shapes.levels import Chain
from speculative.verifiers.greedy import Greedy
from speculative.verifiers.matching import Matching
from speculative.verifiers.rejection import Recursive

SCHEMA = {
    "type": "object",
    "properties": {"first_name": {"type": "string", "maxLength": 8}, "job": {"enum": ["student", "teacher"]}},
    "required": ["first_name", "job"],
    "additionalProperties": False,
}
PROMPTS = ["one two three one two three one two", "Ada is a teacher. Ada is"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("draft", DRAFTS)
def test_texts_are_those_of_plain_decoding(plain_model: Model, draft: str, temperature: float) -> None:
    for constraint in (None, SCHEMA):
        options: dict[str, Any] = {"max_tokens": 32, "temperature": temperature, "seed": 5}
        plain = guided.generate(plain_model, PROMPTS, constraint, **options)
        drafted = guided.generate(plain_model, PROMPTS, constraint, draft=draft, **options)
        assert [r.tokens for r in drafted] == [r.tokens for r in plain]
        assert [r.finish_reason for r in drafted] == [r.finish_reason for r in plain]
        for a, b in zip(plain, drafted):
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-3) and a.log_kept == pytest.approx(b.log_kept, abs=1e-3)


def test_fewer_forwards_where_the_constraint_leaves_no_choice(plain_model: Model) -> None:
    constraint = guided.JsonSchema(SCHEMA, whitespace="compact")
    automaton = constraint.compile(plain_model.vocabulary)
    request = Request([5, 6, 7], automaton, 48, 0)
    plain_model.language_model.clear()
    steps = list(rounds(plain_model, [request], "forced", Settings(0.0)))
    tokens = [step.token for round_ in steps for step in round_]
    accepted = sum(row.accepted for round_ in steps for row in round_.rows)
    assert accepted >= 5 and len(steps) == len(tokens) - accepted


def test_streams_with_a_draft(plain_model: Model) -> None:
    options: dict[str, Any] = {"max_tokens": 24, "temperature": 0.0, "seed": 0, "draft": "sam"}
    *parts, result = guided.stream(plain_model, PROMPTS[0], SCHEMA, **options)
    assert "".join(part.delta for part in parts) == result.text  # type: ignore[union-attr]
    assert isinstance(result, guided.Result)
    assert result.tokens == guided.generate(plain_model, PROMPTS[0], SCHEMA, **options).tokens


def test_top_k_top_p_and_warpers(plain_model: Model) -> None:
    from samplers.warpers import MinP

    for more in ({"top_k": 5}, {"top_p": 0.7}, {"warpers": [MinP(0.05)]}):
        options: dict[str, Any] = {"max_tokens": 30, "temperature": 0.8, "seed": 3, **more}
        plain = guided.generate(plain_model, PROMPTS[0], SCHEMA, **options)
        assert guided.generate(plain_model, PROMPTS[0], SCHEMA, draft="recycling", **options).tokens == plain.tokens


def test_a_model_drafts(plain_model: Model, model_folder: Path) -> None:
    options: dict[str, Any] = {"max_tokens": 24, "temperature": 0.0, "seed": 0}
    plain = guided.generate(plain_model, PROMPTS[0], SCHEMA, **options)
    small = copy.copy(plain_model)
    for draft in (plain_model, plain_model.language_model, small, str(model_folder), Speculation(plain_model, shape=Chain(3))):
        assert guided.generate(plain_model, PROMPTS[0], SCHEMA, draft=draft, **options).tokens == plain.tokens
    sampled = guided.generate(plain_model, PROMPTS[0], SCHEMA, draft=plain_model, max_tokens=24, seed=1)
    again = guided.generate(plain_model, PROMPTS[0], SCHEMA, draft=plain_model, max_tokens=24, seed=1)
    assert sampled.tokens == again.tokens and sampled.value["job"] in ("student", "teacher")


def test_what_goes_with_what(plain_model: Model) -> None:
    target, vocabulary = plain_model.language_model, plain_model.vocabulary
    greedy, drawn = (parts_of("auto", target, vocabulary, greedy) for greedy in (True, False))
    assert isinstance(greedy.verifier, Greedy) and isinstance(drawn.verifier, Matching)
    assert isinstance(greedy.pace, Adaptive) and isinstance(drawn.pace, Adaptive)
    model = parts_of(plain_model, target, vocabulary, False)
    assert isinstance(model.verifier, Recursive) and isinstance(model.pace, Always)
    assert isinstance(parts_of(plain_model, target, vocabulary, True).pace, Adaptive)
    assert isinstance(parts_of("lookahead", target, vocabulary, True).pace, Always)  # it learns from every node that it drafts
    own = Speculation(PromptLookup(), shape=Chain(2), verifier=Matching(), pace=Always(2, 2))
    parts = parts_of(own, target, vocabulary, True)
    assert (parts.drafter, parts.shape, parts.verifier, parts.pace) == (own.drafter, own.shape, own.verifier, own.pace)


def test_a_model_with_other_tokens_drafts_by_strings(plain_model: Model, chat_model: Model) -> None:
    from guided.drafting import _second

    assert isinstance(_second(chat_model, plain_model.vocabulary), ModelDrafter)
    other = copy.copy(chat_model)
    other.vocabulary = guided.Vocabulary([*chat_model.vocabulary.tokens[:-1], b"another"], eos_token_ids=[3])
    assert isinstance(_second(other, plain_model.vocabulary), StringDrafter)


def test_refusals(plain_model: Model) -> None:
    with pytest.raises(guided.ModelError, match="none of auto, lookup"):
        guided.generate(plain_model, "x", draft="autom")
    with pytest.raises(guided.ModelError, match="none of auto, lookup"):
        opened(Speculation("autom"))
    with pytest.raises(guided.ModelError, match="not int"):
        guided.generate(plain_model, "x", draft=3, max_tokens=2)
    with pytest.raises(ValueError, match="leave draft out"):
        guided.generate(plain_model, "x", draft="auto", search=guided.strategies.strategy("beam", {}))


# ---------------------------------------------------------------- transformers
@pytest.fixture(scope="module")
def batch(plain_model: Model) -> dict[str, torch.Tensor]:
    rows = [plain_model.tokenizer(text)["input_ids"] for text in PROMPTS]
    longest = max(map(len, rows))
    return {
        "input_ids": torch.tensor([[0] * (longest - len(row)) + row for row in rows]),
        "attention_mask": torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows]),
    }


def test_generate_of_transformers_greedy(plain_model: Model, batch: dict[str, torch.Tensor]) -> None:
    network = plain_model.model
    for constraint in (None, SCHEMA, [SCHEMA, None]):
        for more in ({}, {"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}):
            options: dict[str, Any] = {**batch, "max_new_tokens": 24, "do_sample": False, "pad_token_id": 0, **more}

            def processors(constraint: Any = constraint) -> list[Any]:
                return [GuidedLogitsProcessor(plain_model.tokenizer, constraint, max_new_tokens=24, vocabulary=plain_model.vocabulary)]

            plain = network.generate(**options, logits_processor=processors())
            drafted = network.generate(**options, logits_processor=processors(), custom_generate=Speculation("sam"))
            assert torch.equal(plain, drafted)


def test_generate_of_transformers_samples(plain_model: Model, batch: dict[str, torch.Tensor]) -> None:
    processor = GuidedLogitsProcessor(plain_model.tokenizer, SCHEMA, max_new_tokens=24, vocabulary=plain_model.vocabulary)
    options: dict[str, Any] = {**batch, "max_new_tokens": 24, "do_sample": True, "pad_token_id": 0, "num_return_sequences": 2}
    options |= {"temperature": 0.9, "top_k": 20, "top_p": 0.95, "logits_processor": [processor], "return_dict_in_generate": True}
    out = network_output(plain_model, options)
    again = network_output(plain_model, options)
    assert torch.equal(out.sequences, again.sequences) and out.sequences.shape[0] == 4
    start = batch["input_ids"].shape[1]
    automaton = processor.automaton(0)
    assert automaton is not None
    for row in out.sequences[:, start:].tolist():
        state = automaton.start
        for token in row:
            if state != automaton.DONE:
                state = automaton.advance(state, token)
        assert state == automaton.DONE
    assert len({tuple(row) for row in out.sequences.tolist()}) > 1
    assert out.forwards < 24 * 4 and sum(out.accepted) <= sum(out.drafted)


def network_output(model: Model, options: dict[str, Any]) -> Any:
    return model.model.generate(**options, custom_generate=Speculation("recycling"), draft_seed=7)


def test_generate_of_transformers_stops(plain_model: Model, batch: dict[str, torch.Tensor]) -> None:
    network, start = plain_model.model, batch["input_ids"].shape[1]
    options: dict[str, Any] = {**batch, "max_new_tokens": 24, "do_sample": False, "pad_token_id": 0}
    whole = network.generate(**options)[0, start:].tolist()
    piece = plain_model.tokenizer.decode(whole[4:6])
    stop = StopStringCriteria(plain_model.tokenizer, [piece])
    plain = network.generate(**options, stopping_criteria=[stop])
    drafted = network.generate(**options, stopping_criteria=[stop], custom_generate=Speculation("jacobi"))
    assert torch.equal(plain, drafted)
    assert network.generate(**options, stopping_criteria=[MaxTimeCriteria(0.0)], custom_generate=Speculation("sam")).shape[1] == start + 1


def test_generate_of_transformers_refuses(plain_model: Model, batch: dict[str, torch.Tensor]) -> None:
    with pytest.raises(guided.ModelError, match="leave num_beams"):
        plain_model.model.generate(**batch, max_new_tokens=4, num_beams=2, pad_token_id=0, custom_generate=Speculation())
    processors = [GuidedLogitsProcessor(None, None, vocabulary=plain_model.vocabulary) for _ in range(2)]
    with pytest.raises(guided.ModelError, match="one GuidedLogitsProcessor"):
        plain_model.model.generate(**batch, max_new_tokens=4, pad_token_id=0, logits_processor=processors, custom_generate=Speculation())
