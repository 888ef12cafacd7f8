"""``guided.load``, ``generate`` and ``stream``."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from pydantic import BaseModel, Field, field_validator

import guided
from guided import Choice, ConstraintError, JsonSchema, Model, ModelError, Partial, Regex, Result
from guided.inputs import target_of
from guided.prompts import instruction, prompt_ids


class Pet(BaseModel):
    name: str = Field(max_length=8)
    legs: int = Field(ge=0, le=9)


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("seed", range(3))
def test_values_fit_the_schema(chat_model: Model, seed: int) -> None:
    result = guided.generate(chat_model, "hello", SCHEMA, seed=seed, max_tokens=60)
    assert isinstance(result, Result) and result.finish_reason == "complete" and result.seed == seed
    jsonschema.validate(result.value, SCHEMA)
    assert json.loads(result.text) == result.value
    assert len(result.tokens) == len(result.logprobs) == len(result.log_kept) <= 60
    assert result.tokens[-1] in chat_model.vocabulary.eos_token_ids
    assert chat_model.vocabulary.decode(result.tokens) == result.text.encode()
    assert result.logprob == pytest.approx(math.fsum(result.logprobs)) and result.logprob < 0
    assert all(0 <= mass <= 1 for mass in result.removed_mass) and max(result.removed_mass) > 0.5
    assert 0 <= result.timings.compile <= result.timings.first <= result.timings.total


def test_typed_results(chat_model: Model) -> None:
    value = guided.generate(chat_model, "a pet", Pet, seed=1, max_tokens=50).value
    assert isinstance(value, Pet) and 0 <= value.legs <= 9
    assert guided.generate(chat_model, "x", ["yes", "no"], seed=1).value in ("yes", "no")
    answer = guided.generate(chat_model, "x", "Answer: " + Choice(["yes", "no"]), seed=1).value
    assert answer in ("Answer: yes", "Answer: no")


def test_same_seed_same_text(chat_model: Model) -> None:
    def run(seed: int | None, prompts: list[str]) -> list[str]:
        return [result.text for result in guided.generate(chat_model, prompts, SCHEMA, seed=seed, max_tokens=40)]

    assert run(5, ["a", "b", "c"]) == run(5, ["a", "b", "c"])
    assert run(5, ["a"])[0] == guided.generate(chat_model, "a", SCHEMA, seed=5, max_tokens=40).text
    assert len(set(run(5, ["a"] * 6))) > 1, "the rows of a batch draw for themselves"
    drawn = guided.generate(chat_model, "a", SCHEMA, max_tokens=40)
    assert guided.generate(chat_model, "a", SCHEMA, seed=drawn.seed, max_tokens=40).text == drawn.text


def test_a_batch_is_cut_as_asked(chat_model: Model) -> None:
    prompts = [f"prompt {'x' * i}" for i in range(5)]
    whole = guided.generate(chat_model, prompts, SCHEMA, seed=3, max_tokens=30)
    parts = guided.generate(chat_model, prompts, SCHEMA, seed=3, max_tokens=30, batch_size=2)
    assert [r.text for r in whole] == [r.text for r in parts]
    assert guided.generate(chat_model, [], SCHEMA) == []


def test_free_text(plain_model: Model) -> None:
    result = guided.generate(plain_model, "the", seed=0, max_tokens=6)
    assert result.value == result.text and len(result.tokens) <= 6 and set(result.log_kept) == {0.0}


def test_the_number_of_tokens(chat_model: Model) -> None:
    least = len(chat_model.compile(SCHEMA, target_of(SCHEMA)).automaton.shortest_completion(2)) + 1  # type: ignore[union-attr]
    with pytest.raises(ConstraintError, match="allow at least"):
        guided.generate(chat_model, "x", SCHEMA, max_tokens=4)
    for most in (least, least + 1, least + 7):
        for seed in range(3):
            result = guided.generate(chat_model, "x", SCHEMA, max_tokens=most, seed=seed, temperature=3.0)
            assert result.finish_reason == "complete" and len(result.tokens) <= most
            jsonschema.validate(result.value, SCHEMA)
    cut = guided.generate(chat_model, "x", SCHEMA, max_tokens=4, seed=0, budget=False)
    assert cut.finish_reason == "length" and cut.value is None and len(cut.tokens) == 4


def test_stream_grows_to_what_generate_gives(chat_model: Model) -> None:
    pieces = list(guided.stream(chat_model, "hello", SCHEMA, seed=2, max_tokens=60))
    *parts, last = pieces
    assert isinstance(last, Result) and all(isinstance(part, Partial) for part in parts)
    assert last.text == guided.generate(chat_model, "hello", SCHEMA, seed=2, max_tokens=60).text
    assert "".join(part.delta for part in parts if isinstance(part, Partial)) == last.text == parts[-1].text
    assert parts[-1].value == last.value
    names = [part.value["name"] for part in parts if isinstance(part.value, dict) and "name" in part.value]
    assert all(after.startswith(before) for before, after in pairwise(names))


def test_stream_gives_whole_characters(chat_model: Model) -> None:
    for part in guided.stream(chat_model, "x", Regex("[é日🙂]{6}"), seed=0):
        assert "\ufffd" not in part.text
        assert len(part.text) <= 6


def test_stream_says_what_is_wrong_at_once(chat_model: Model) -> None:
    with pytest.raises(ConstraintError):
        guided.stream(chat_model, "x", SCHEMA, max_tokens=2)
    with pytest.raises(ValueError, match="one prompt"):
        guided.stream(chat_model, ["x", "y"], SCHEMA)  # type: ignore[list-item]


def test_prompts(chat_model: Model, plain_model: Model) -> None:
    def shown(model: Model, prompt: Any, constraint: Any = None, chat: bool = True, instruct: bool = True) -> str:
        return str(model.tokenizer.decode(prompt_ids(model, prompt, target_of(constraint), chat=chat, instruct=instruct)))

    schema = {"type": "integer"}
    note = instruction(target_of(schema))
    assert note is not None and '{"type":"integer"}' in note
    assert shown(chat_model, "hi") == "<user>hi</user><assistant>"
    assert shown(chat_model, "hi", chat=False) == "hi" == shown(plain_model, "hi")
    assert shown(chat_model, "hi", schema) == f"<user>hi\n\n{note}</user><assistant>"
    assert shown(chat_model, "hi", schema, instruct=False) == "<user>hi</user><assistant>"
    assert shown(chat_model, "hi", Choice(["a"])) == "<user>hi</user><assistant>"
    talk = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    assert shown(chat_model, talk, schema) == f"<system>be kind</system><user>hi\n\n{note}</user><assistant>"
    assert talk[1]["content"] == "hi", "the caller's messages are not changed"
    assert len(prompt_ids(plain_model, "", target_of(None), chat=True, instruct=True)) == 1
    with pytest.raises(ModelError, match="no chat template"):
        guided.generate(plain_model, talk, schema)
    long = {"enum": ["x" * 9_000]}
    assert instruction(target_of(long)) == "Answer with JSON only."


def test_a_template_that_refuses_messages(chat_model: Model) -> None:
    tokenizer = chat_model.tokenizer
    before = tokenizer.chat_template
    tokenizer.chat_template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + before
    try:
        with pytest.raises(ModelError, match="no system role"):
            guided.generate(chat_model, [{"role": "system", "content": "x"}], {"type": "integer"}, instruct=False)
    finally:
        tokenizer.chat_template = before


def test_a_prompt_that_fills_the_context(plain_model: Model) -> None:
    with pytest.raises(ModelError, match="shorten the prompt"):
        guided.generate(plain_model, "the " * 5_000, SCHEMA)


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_k": 0}, {"max_tokens": 0}, {"batch_size": 0}])
def test_parameters_out_of_range(chat_model: Model, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        guided.generate(chat_model, "x", SCHEMA, **wrong)


def test_a_type_that_refuses_what_its_schema_allows(chat_model: Model) -> None:
    class Never(BaseModel):
        flag: bool

        @field_validator("flag")
        @classmethod
        def refuse(cls, value: bool) -> bool:
            raise ValueError("never")

    with pytest.raises(ValueError, match="never"):
        guided.generate(chat_model, "x", Never, seed=0)


def test_loading(model_folder: Path, chat_model: Model) -> None:
    model = guided.load(str(model_folder), dtype="bfloat16")
    assert model.model.dtype == torch.bfloat16 and str(model_folder) in repr(model)
    result = guided.generate(model, "hello", SCHEMA, seed=0, max_tokens=40)
    jsonschema.validate(result.value, SCHEMA)
    again = guided.generate((chat_model.model, chat_model.tokenizer), "hello", SCHEMA, seed=0, max_tokens=40)
    assert again.text == guided.generate(chat_model, "hello", SCHEMA, seed=0, max_tokens=40).text
    with pytest.raises(ModelError, match="cannot be loaded"):
        guided.load(str(model_folder / "nothing"))
    with pytest.raises(ModelError, match="floating point"):
        guided.load(str(model_folder), dtype="int8")


def test_a_schema_is_compiled_once(chat_model: Model) -> None:
    first = chat_model.compile(SCHEMA, target_of(SCHEMA))
    assert chat_model.compile(dict(SCHEMA), target_of(dict(SCHEMA))) is first
    assert chat_model.compile({"type": "null"}, target_of({"type": "null"})) is not first
    compact = JsonSchema(SCHEMA, whitespace="compact")
    assert chat_model.compile(compact, target_of(compact)) is not first
    assert chat_model.compile(compact, target_of(compact)) is chat_model.compile(compact, target_of(compact))


def test_several_end_tokens(chat_model: Model) -> None:
    network, tokenizer = chat_model.model, chat_model.tokenizer
    before = network.generation_config.eos_token_id
    other = next(i for i in range(len(tokenizer)) if chat_model.vocabulary.tokens[i] == b"!")
    try:
        network.generation_config.eos_token_id = [before, other]
        model = guided.load((network, tokenizer))
    finally:
        network.generation_config.eos_token_id = before
    assert model.vocabulary.eos_token_ids == sorted([before, other])
    ends = {guided.generate(model, "x", ["ab"], seed=seed, temperature=20.0).tokens[-1] for seed in range(20)}
    assert ends == {before, other}


def test_public_names() -> None:
    for name in guided.__all__:
        assert getattr(guided, name) is not None
    assert set(guided.__all__) <= set(dir(guided))
    with pytest.raises(AttributeError):
        guided.nothing_of_this_name
