"""Warpers where they are used: ``guided.generate``, ``guided.stream``, and ``generate`` of Hugging Face."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
import torch
from transformers.generation import logits_process as hf

import guided
from guided import Model, Regex, load
from samplers.models import HFModel
from samplers.warpers import (
    CONSTRAINT,
    CautiousNextToken,
    ClassifierFreeGuidance,
    ContrastiveSearch,
    FrustratinglySimple,
    MinP,
    Mirostat,
    Momentum,
    NoRepeatNGram,
    Pipeline,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
)
from tests import tiny, tokenizers

NUMBER = {"type": "integer", "minimum": 0, "maximum": 999}
SCHEMA = {"type": "object", "properties": {"n": NUMBER}, "required": ["n"], "additionalProperties": False}
PROMPTS = ["hello", "what a long prompt this one is, compared", "a b"]


@pytest.fixture(scope="module")
def model() -> Model:
    tokenizer = tokenizers.gpt2()
    network = tiny.llama(len(tokenizer) + 13, seed=1, scale=6.0, positions=512)
    network.generation_config.eos_token_id = tokenizer.eos_token_id
    return load((network, tokenizer))


def texts(model: Model, constraint: Any = None, **options: Any) -> list[list[int]]:
    options = {"max_tokens": 10, "seed": 4} | options
    return [result.tokens for result in guided.generate(model, PROMPTS, constraint, **options)]


def test_the_arguments_of_generate_are_warpers_too(model: Model) -> None:
    for constraint in (None, SCHEMA):
        assert texts(model, constraint, warpers=[Temperature(0.7)]) == texts(model, constraint, temperature=0.7)
        assert texts(model, constraint, warpers=[TopP(0.6)]) == texts(model, constraint, top_p=0.6)
        assert texts(model, constraint, warpers=[Temperature(2), TopK(3)]) == texts(model, constraint, temperature=2, top_k=3)
        assert texts(model, constraint, warpers=[Temperature(0)]) == texts(model, constraint, temperature=0)
        assert texts(model, constraint, warpers=[]) == texts(model, constraint)
    assert texts(model, warpers=[TopP(0.1)]) != texts(model)


@pytest.mark.parametrize("place", ["first", "last", "between"])
def test_texts_stay_in_the_language(model: Model, place: str) -> None:
    parts = {
        "first": [CONSTRAINT, MinP(0.2), TopK(2)],
        "last": [MinP(0.2), TopK(2), CONSTRAINT],
        "between": [MinP(0.2), CONSTRAINT, TopK(2)],
    }
    pipeline = Pipeline([RepetitionPenalty(1.2), *parts[place]] if place != "first" else parts[place])
    for result in guided.generate(model, PROMPTS, SCHEMA, max_tokens=20, seed=1, warpers=pipeline):
        jsonschema.validate(result.value, SCHEMA)
        assert result.finish_reason == "complete"


def test_rows_do_not_depend_on_the_batch(model: Model) -> None:
    """State that follows the text, on prompts of different lengths."""
    warpers = [RepetitionPenalty(1.5, window=6), Mirostat(2.0, rate=0.5)]
    together = guided.generate(model, PROMPTS, Regex("[a-z ]{5,30}"), max_tokens=14, seed=2, warpers=warpers)
    for prompt, result in zip(PROMPTS, together):
        alone = guided.generate(model, prompt, Regex("[a-z ]{5,30}"), max_tokens=14, seed=result.seed, warpers=warpers)
        assert alone.tokens == result.tokens


def test_stream_and_generate_agree(model: Model) -> None:
    warpers = [Mirostat(2.0), MinP(0.05)]
    *_, streamed = guided.stream(model, "hello", SCHEMA, seed=3, max_tokens=20, warpers=warpers)
    assert streamed.tokens == guided.generate(model, "hello", SCHEMA, seed=3, max_tokens=20, warpers=warpers).tokens


def test_greedy_as_in_transformers(model: Model) -> None:
    ours = guided.generate(model, "hello there", max_tokens=12, temperature=0, warpers=[RepetitionPenalty(1.3), NoRepeatNGram(2)])
    ids = torch.tensor([model.tokenizer("hello there")["input_ids"]])
    processors = [hf.RepetitionPenaltyLogitsProcessor(1.3), hf.NoRepeatNGramLogitsProcessor(2)]
    theirs = model.model.generate(ids, do_sample=False, max_new_tokens=12, logits_processor=processors, pad_token_id=0)
    assert ours.tokens == theirs[0, ids.shape[1] :].tolist()
    foreign = guided.generate(model, "hello there", max_tokens=12, temperature=0, warpers=processors)
    assert foreign.tokens == ours.tokens, "a logits processor of Hugging Face works as a warper"


def test_cautious_within_a_constraint(model: Model) -> None:
    constraint = Regex("([a-c]{1,4}[.]){2,3}")
    compiled = constraint.compile(model.vocabulary)
    stops = [model.vocabulary.tokens.index(b".")]
    reader = HFModel(model.model, eos_token_ids=model.vocabulary.eos_token_ids)
    found = set()
    for seed in range(3):
        warper = CautiousNextToken(reader, stops, trials=4, longest=8, automaton=compiled)
        result = guided.generate(model, "hello", compiled, max_tokens=24, seed=seed, warpers=[warper])
        assert re.fullmatch("([a-c]{1,4}[.]){2,3}", result.text)
        found.add(result.text)
    assert len(found) > 1


def test_in_generate_of_hugging_face(model: Model) -> None:
    """Greedy texts agree with ``guided.generate``; beams, which swap rows, run."""
    network = model.model
    ids = torch.tensor([model.tokenizer("hello there")["input_ids"]])
    makers = {
        "momentum": lambda: Momentum(),
        "fsd-d": lambda: FrustratinglySimple(),
        "contrastive search": lambda: ContrastiveSearch(HFModel(network), k=3),
        "guidance": lambda: ClassifierFreeGuidance(HFModel(network), 1.5),
    }
    for name, make in makers.items():
        out = network.generate(ids, do_sample=False, max_new_tokens=8, logits_processor=[make()], pad_token_id=0)
        ours = guided.generate(model, "hello there", max_tokens=8, temperature=0, warpers=[make()])
        assert out[0, ids.shape[1] :].tolist() == ours.tokens, name
    beams = network.generate(
        ids, num_beams=3, do_sample=True, max_new_tokens=6, logits_processor=[Mirostat(2.0)], pad_token_id=0, num_return_sequences=2
    )
    assert beams.shape[0] == 2
