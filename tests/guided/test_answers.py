"""``guided.choose``, ``guided.field_probabilities`` and ``guided choose``."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import guided
from guided import ConstraintError, Model
from guided.fields import _allowed, _places, _spelt
from guided.inputs import target_of
from guided.prompts import prompt_ids
from samplers.options import After, measure

OPTIONS = ["yes", "no", "yes sir"]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "color": {"enum": ["red", "green", 1, 12, None]},
        "ok": {"type": "boolean"},
        "name": {"type": "string", "maxLength": 5},
        "in": {"type": "array", "items": {"const": "a/b"}, "maxItems": 2},
    },
    "required": ["color", "ok", "name"],
    "additionalProperties": False,
}


def logprob(model: Model, prompt: str, tokens: list[int]) -> float:
    """Of the tokens after the prompt, by one plain forward."""
    ids = prompt_ids(model, prompt, target_of(None), chat=True, instruct=False)
    with torch.inference_mode():
        rows = model.model(torch.tensor([ids + tokens])).logits[0].double().log_softmax(-1)
    return sum(float(rows[len(ids) - 1 + i, token]) for i, token in enumerate(tokens))


# ---------------------------------------------------------------- choose
def test_the_tokenizers_own_segmentation_is_scored_as_by_a_plain_forward(chat_model: Model) -> None:
    found = guided.choose(chat_model, "hello", OPTIONS)
    (end,) = chat_model.vocabulary.eos_token_ids
    for option in found:
        assert option.canonical_logprob == pytest.approx(logprob(chat_model, "hello", [*option.tokens, end]), abs=1e-3)
        assert option.canonical_logprob <= option.logprob < 0 and option.missed <= 1e-3 * option.probability
    assert sum(option.share for option in found) == pytest.approx(1)
    assert found.mass == pytest.approx(sum(math.exp(o.logprob) for o in found.options))
    assert found.best is found.ranked[0] and found["no"].text == "no" and [o.text for o in found] == OPTIONS
    with pytest.raises(KeyError):
        found["maybe"]


def test_events_differ(chat_model: Model) -> None:
    complete = guided.choose(chat_model, "hello", ["yes", "no"])
    prefix = guided.choose(chat_model, "hello", ["yes", "no"], event="prefix")
    word = guided.choose(chat_model, "hello", ["yes", "no"], event="word")
    line = guided.choose(chat_model, "hello", ["yes", "no"], terminator="\n")
    for option in ("yes", "no"):
        assert complete[option].logprob < word[option].logprob < prefix[option].logprob
        assert line[option].logprob < word[option].logprob
    assert len({complete.event, prefix.event, word.event, line.event}) == 4


def test_scores(chat_model: Model) -> None:
    plain, other = (guided.choose(chat_model, prompt, OPTIONS) for prompt in ("hello", "bye"))
    tokens, size, pmi = (
        guided.choose(chat_model, "hello", OPTIONS, bias=bias, unconditional="bye") for bias in ("per_token", "per_byte", "pmi")
    )
    for text in OPTIONS:
        total = plain[text].logprob
        assert plain[text].score == total == pytest.approx(pmi[text].logprob)
        assert tokens[text].score == pytest.approx(total / (len(plain[text].tokens) + 1))
        assert size[text].score == pytest.approx(total / len(text))
        assert pmi[text].score == pytest.approx(total - other[text].logprob, abs=1e-6)
        assert tokens[text].share == pytest.approx(plain[text].share)


def test_several_prompts(chat_model: Model) -> None:
    one, two = guided.choose(chat_model, ["hello", "bye"], ["yes", "no"])
    assert one["yes"].logprob == pytest.approx(guided.choose(chat_model, "hello", ["yes", "no"])["yes"].logprob)
    assert one["yes"].logprob != pytest.approx(two["yes"].logprob)


@pytest.mark.parametrize(
    ("options", "extra", "message"),
    [
        (["a", "ab"], {"event": "prefix"}, "begins with 'ab'"),
        (["a", "a\nb"], {"terminator": "\n"}, "no alternatives"),
        (["New", "New York"], {"event": "word"}, "no alternatives"),
        ([], {}, "at least one"),
        ("yes", {}, "list of texts"),
        (["a", "a"], {}, "twice"),
        (["", "a"], {"event": "prefix"}, "empty"),
        (["\ud800"], {}, "surrogate"),
    ],
)
def test_options_that_are_no_alternatives(chat_model: Model, options: Any, extra: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        guided.choose(chat_model, "x", options, **extra)


@pytest.mark.parametrize("extra", [{"event": "word", "terminator": "."}, {"event": "?"}, {"bias": "?"}, {"tolerance": -1.0}])
def test_arguments_out_of_range(chat_model: Model, extra: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        guided.choose(chat_model, "x", ["a", "b"], **extra)


# ---------------------------------------------------------------- fields
def test_places_of_a_text() -> None:
    text = ' {"a/b" : [1, {"c~": "x\\"]"}, []], "d":{ }, "": -1.5e3 }'
    found = _places(text)
    assert {pointer: json.loads(text[start:end]) for pointer, (start, end) in found.items()} == {
        "": json.loads(text),
        "/a~1b": [1, {"c~": 'x"]'}, []],
        "/a~1b/0": 1,
        "/a~1b/1": {"c~": 'x"]'},
        "/a~1b/1/c~0": 'x"]',
        "/a~1b/2": [],
        "/d": {},
        "/": -1500.0,
    }


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        ({"enum": ["red", 'r"x', 1, 12, 0.5, -3, None]}, ["red", 'r"x', 1, 12, 0.5, -3, None]),
        ({"type": "boolean"}, [False, True]),
        ({"anyOf": [{"const": "a"}, {"type": "null"}]}, ["a", None]),
        ({"$ref": "#/$defs/c", "$defs": {"c": {"enum": ["x", "y"]}}, "not": {"const": "y"}}, ["x"]),
        ({"type": "string", "examples": ["a"]}, None),
        ({"anyOf": [{"type": "string"}, {"enum": ["a"]}]}, None),
        ({"type": "integer", "not": {"enum": [1, 2]}}, None),
        ({"enum": [[1], "a"]}, None),
    ],
)
def test_values_that_a_schema_allows(byte_vocab: Any, schema: dict[str, Any], allowed: list[Any] | None) -> None:
    automaton = guided.JsonSchema(schema).compile(byte_vocab)
    spelt = _spelt(schema)
    found = _allowed(automaton, automaton.start, spelt)
    assert (None if found is None else [spelt[text] for text in found]) == allowed


def test_fields_of_a_generated_object(chat_model: Model) -> None:
    result = guided.generate(chat_model, "hello", SCHEMA, seed=3, max_tokens=80)
    found = guided.field_probabilities(chat_model, "hello", result, SCHEMA)
    assert set(found) == {"/color", "/ok"}
    assert found["/ok"].value is result.value["ok"] and [v.value for v in found["/ok"].values] == [False, True]
    assert [v.value for v in found["/color"].values] == ["red", "green", 1, 12, None]
    for field in found.values():
        assert sum(v.share for v in field.values) == pytest.approx(1) and 0 < field.mass < 1
        assert field.share == pytest.approx(next(v.probability for v in field.values if v.value == field.value) / field.mass)


def test_a_fields_probabilities_are_those_of_its_texts(chat_model: Model) -> None:
    value = {"color": 12, "ok": True, "name": "x", "in": ["a/b"]}
    found = guided.field_probabilities(chat_model, "hello", value, SCHEMA, ["/ok", "/in/0"], tolerance=0)
    assert list(found) == ["/ok", "/in/0"] and found["/in/0"].share == 1
    ids = prompt_ids(chat_model, "hello", target_of(SCHEMA), chat=True, instruct=True)
    before = json.dumps(value).split("true")[0].encode()
    tokens, taken = chat_model.vocabulary.encode(json.dumps(value).encode()), []
    while len(chat_model.vocabulary.decode([*taken, tokens[len(taken)]])) <= len(before):
        taken.append(tokens[len(taken)])
    tail = before[len(chat_model.vocabulary.decode(taken)) :]
    network = chat_model.language_model
    event = After(bytes=frozenset(b",]} \t\r\n"))
    texts = [tail + b"false", tail + b"true"]
    direct = measure(network, chat_model.vocabulary, network.context(ids + taken), texts, event, tolerance=0)
    ratio = direct[1].logprob - direct[0].logprob
    assert found["/ok"].values[1].logprob - found["/ok"].values[0].logprob == pytest.approx(ratio, abs=1e-6)
    hasty = guided.field_probabilities(chat_model, "hello", value, SCHEMA, "/ok", max_contexts=0)["/ok"].values
    for exact, bounds in zip(found["/ok"].values, hasty):
        assert bounds.probability <= exact.probability * (1 + 1e-6) and bounds.missed > 0
        assert exact.probability <= (bounds.probability + bounds.missed) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("value", "constraint", "pointers", "message"),
    [
        ({"color": 12, "ok": True, "name": "x"}, SCHEMA, "/name", "not listed"),
        ({"color": 12, "ok": True, "name": "x"}, SCHEMA, "/nowhere", "nothing at"),
        ({"color": 3, "ok": True, "name": "x"}, SCHEMA, None, "does not fit"),
        ("yes", ["yes", "no"], None, "JSON schema"),
    ],
)
def test_fields_that_there_are_not(chat_model: Model, value: Any, constraint: Any, pointers: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        guided.field_probabilities(chat_model, "hello", value, constraint, pointers)


# ---------------------------------------------------------------- command line
def test_the_command(model_folder: Any) -> None:
    from guided.cli import app

    command = ["choose", "hello", "--model", str(model_folder), "-o", "yes", "-o", "no"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert {row["text"] for row in report["options"]} == {"yes", "no"}
    assert sum(row["share"] for row in report["options"]) == pytest.approx(1)
    shown = CliRunner().invoke(app, [*command, "--bias", "per_byte"])
    assert shown.exit_code == 0 and "'yes'" in shown.stdout and "per_byte" in shown.stdout
    refused = CliRunner().invoke(app, [*command, "-o", "not", "--event", "prefix"])
    assert refused.exit_code == 2 and "no alternatives" in refused.output
