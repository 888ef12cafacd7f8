"""Guides where they are used: ``guided.generate``, ``guided.stream``, and ``generate`` of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import torch
from transformers import LlamaForSequenceClassification

import guided
from guided import GuidedLogitsProcessor, Model, Regex, load
from samplers.guides import ARGS, RAD, ControlledDecoding, DExperts, Fudge, GeDi, GenARM, Nado, Tilt, blockwise, guided_decode
from samplers.models import HFModel
from samplers.scores import Cached, Classifier, Function, Lexicon
from samplers.target import Target
from samplers.warpers import CONSTRAINT, Temperature, TopP
from tests import tiny, tokenizers

WORD = {"type": "string", "pattern": "^[a-d]{1,4}$"}
SCHEMA = {
    "type": "object",
    "properties": {"word": WORD, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["word", "n"],
    "additionalProperties": False,
}
PROMPTS = ["hello", "what a long prompt this one is, compared", "a b"]
Make = Callable[["Setting"], Any]


class Setting:
    """A tiny model, a second one over the same vocabulary, and a classifier of the same family."""

    def __init__(self) -> None:
        tokenizer = tokenizers.gpt2()
        width = len(tokenizer) + 13
        network = tiny.llama(width, seed=1, scale=6.0, positions=512)
        network.generation_config.eos_token_id = tokenizer.eos_token_id
        self.model: Model = load((network, tokenizer))
        self.other = HFModel(tiny.llama(width, seed=2, scale=6.0, positions=512))
        torch.manual_seed(3)
        config = network.config.__class__(**{**network.config.to_dict(), "num_labels": 2, "pad_token_id": 0})
        self.classifier = LlamaForSequenceClassification(config)

    def lexicon(self) -> Lexicon:
        return Lexicon({"dd": 4.0, "a": -2.0}, self.model.vocabulary)


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting()


def by_classifier(setting: Setting) -> Any:
    return Fudge(Classifier(setting.classifier, label=1), 3.0, top_k=4)


def short(setting: Setting) -> Any:
    return ControlledDecoding(Function(lambda text: -0.2 * len(text), texts=setting.model.vocabulary), top_k=30)


GUIDES: dict[str, Make] = {
    "ARGS": lambda s: ARGS(s.lexicon(), 1.0, 8),
    "ARGS-greedy": lambda s: ARGS(Cached(s.lexicon()), 1.0, 8, greedy=True),
    "RAD": lambda s: RAD(s.lexicon(), 2.0),
    "controlled": short,
    "FUDGE": by_classifier,
    "NADO": lambda s: Nado(Classifier(s.classifier, label=0), top_k=3),
    "GeDi": lambda s: GeDi(s.other, s.other, 5.0, desired_code=[7, 8], undesired_code=[9]),
    "DExperts": lambda s: DExperts(s.other, None, 0.5),
    "GenARM": lambda s: [GenARM(s.other, 2.0), RAD(s.lexicon(), 1.0)],
}


@pytest.mark.parametrize("name", GUIDES)
def test_objects_are_valid_and_complete(setting: Setting, name: str) -> None:
    options: dict[str, Any] = {"max_tokens": 24, "seed": 1}
    results = guided.generate(setting.model, PROMPTS, SCHEMA, guide=GUIDES[name](setting), **options)
    for result in results:
        jsonschema.validate(result.value, SCHEMA)
        assert result.finish_reason == "complete"
    plain = guided.generate(setting.model, PROMPTS, SCHEMA, **options)
    assert [r.tokens for r in results] != [r.tokens for r in plain], "the guide does something"
    for prompt, result in zip(PROMPTS, results):
        alone = guided.generate(setting.model, prompt, SCHEMA, guide=GUIDES[name](setting), **(options | {"seed": result.seed}))
        assert alone.tokens == result.tokens, "a row does not depend on the batch"


def test_a_guide_among_the_warpers_is_the_same(setting: Setting) -> None:
    options: dict[str, Any] = {"max_tokens": 24, "seed": 5}
    for warpers in ([TopP(0.9)], [Temperature(0.8), CONSTRAINT, TopP(0.9)]):
        guide = guided.generate(setting.model, PROMPTS, SCHEMA, warpers=warpers, guide=short(setting), **options)
        among = guided.generate(setting.model, PROMPTS, SCHEMA, warpers=[*warpers, short(setting)], **options)
        assert [r.tokens for r in guide] == [r.tokens for r in among]


def test_stream_and_generate_agree(setting: Setting) -> None:
    *_, streamed = guided.stream(setting.model, "hello", SCHEMA, seed=3, max_tokens=24, guide=RAD(setting.lexicon(), 2.0))
    made = guided.generate(setting.model, "hello", SCHEMA, seed=3, max_tokens=24, guide=RAD(setting.lexicon(), 2.0))
    assert isinstance(streamed, guided.Result)
    assert streamed.tokens == made.tokens and streamed.value == made.value


def test_the_value_is_told_where_a_text_ends(setting: Setting) -> None:
    """A reward for ending makes the shortest text of the language, and one against it the longest."""

    def text(sign: float) -> str:
        ended = Function(lambda candidate: 40.0 * sign * candidate.finished, on="candidate")
        return guided.generate(setting.model, "hello", Regex("[ab]{2,6}"), seed=0, guide=Tilt(ended)).text

    assert (len(text(1.0)), len(text(-1.0))) == (2, 6)


def test_the_loop_over_targets_gives_the_same_text(setting: Setting) -> None:
    model = setting.model
    constraint = Regex("[a-d ]{4,12}[.]")
    for name in ("ARGS", "GeDi", "DExperts"):
        made = guided.generate(model, "hello there", constraint, max_tokens=14, temperature=0, guide=GUIDES[name](setting))
        prompt = tuple(model.tokenizer("hello there")["input_ids"])
        target = Target(HFModel(model.model), prompt, constraint.compile(model.vocabulary), 14)
        (sample,) = guided_decode(target, GUIDES[name](setting), temperature=0).samples
        assert list(sample.tokens) == made.tokens, name


def test_in_generate_of_hugging_face(setting: Setting) -> None:
    """Behind the constraint's processor; greedy texts agree with ``guided.generate``, and beams, which swap rows, run."""
    model = setting.model
    ids = torch.tensor([model.tokenizer("hello there")["input_ids"]])
    for name in ("ARGS", "ARGS-greedy", "FUDGE", "GeDi", "DExperts"):
        ends = model.vocabulary.eos_token_ids
        processors = [GuidedLogitsProcessor(model.tokenizer, SCHEMA, max_new_tokens=24), GUIDES[name](setting).ending(ends)]
        out = model.model.generate(ids, do_sample=False, max_new_tokens=24, logits_processor=processors, pad_token_id=0)
        ours = guided.generate(model, "hello there", SCHEMA, max_tokens=24, temperature=0, guide=GUIDES[name](setting), instruct=False)
        assert out[0, ids.shape[1] :].tolist() == ours.tokens, name
    processors = [GuidedLogitsProcessor(model.tokenizer, SCHEMA, max_new_tokens=24), GUIDES["GeDi"](setting)]
    beams = model.model.generate(ids, num_beams=3, do_sample=False, max_new_tokens=24, logits_processor=processors, pad_token_id=0)
    text = model.vocabulary.decode(beams[0, ids.shape[1] :].tolist()).decode()
    jsonschema.validate(guided.partial_json(text), SCHEMA)


def test_blocks_on_a_network(setting: Setting) -> None:
    model = setting.model
    automaton = Regex("([a-d]{1,4} ){2,4}[.]").compile(model.vocabulary)
    target = Target(model.language_model, tuple(model.tokenizer("hello")["input_ids"]), automaton, 24)
    found = blockwise(target, setting.lexicon(), 2, k=3, block="word", seed=0)
    assert all(sample.finished for sample in found.samples)
    assert found.forwards < found.details["tokens"] + 2, "blocks of one text share their prefix"


def test_a_search_takes_no_guide(setting: Setting) -> None:
    from guided.strategies import Beam

    with pytest.raises(ValueError, match="leave guide out"):
        guided.generate(setting.model, "hello", SCHEMA, guide=short(setting), search=Beam(beams=2))
    with pytest.raises(ValueError, match="a guide is one of"):
        guided.generate(setting.model, "hello", SCHEMA, guide=[len])  # type: ignore[list-item]
