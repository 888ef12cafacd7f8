"""JSON Schema: random schemas and instances against ``jsonschema``, and walks that must end in valid texts."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grammars.errors import ConstraintError, LimitError, SchemaError
from grammars.json_schema import JsonSchema
from grammars.vocabulary import Vocabulary
from tests.grammars.json_instances import POOL, accepts, recogniser
from tests.recogniser import Recogniser

NAMES = st.sampled_from(["a", "b", "ab", "c"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 5), st.sampled_from([0.5, 1.0, 2.5]), st.sampled_from(["", "a", "b", "ab", "ba", "abc"])
)
VALUES = st.recursive(SCALARS, lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(NAMES, v, max_size=3)), max_leaves=6)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One level of a schema: a few keywords, of any types, side by side."""
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(VALUES, max_size=3),
        "const": VALUES,
        "minimum": st.integers(-1, 3),
        "exclusiveMaximum": st.integers(0, 5),
        "multipleOf": st.sampled_from([1, 2, 0.5, 3]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["a", "^a", "b$", "^ab?$"]),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "c$"]), inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"enum": ["a", "b"]}, {"not": {"const": "a"}}, {"pattern": "b"}]),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
        "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
        "prefixItems": st.lists(inner, max_size=2),
        "items": inner,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minContains": st.integers(0, 2),
        "maxContains": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 3),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "oneOf": st.lists(inner, min_size=1, max_size=3),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "unevaluatedProperties": inner,
        "unevaluatedItems": inner,
    }
    names = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen}))


SCHEMAS = st.recursive(st.booleans(), grow, max_leaves=8)


def compiled(schema: Any, **options: Any) -> Recogniser | bool | None:
    """A recogniser, ``None`` for no instance, ``False`` if refused."""
    try:
        return recogniser(schema, **options)
    except (SchemaError, LimitError):
        return False


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=6))
def test_random_schemas(schema: Any, values: list[Any]) -> None:
    found = compiled(schema, order="any")
    if isinstance(found, bool):
        return
    validator = jsonschema.Draft202012Validator(schema)
    for value in values:
        assert accepts(found, value) == validator.is_valid(value), (schema, value)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=4))
def test_declared_order_only_rejects_orders(schema: Any, values: list[Any]) -> None:
    """What the default order accepts, any order accepts; a single member or an array of scalars has only one order."""
    found, free = compiled(schema), compiled(schema, order="any")
    if isinstance(found, bool) or isinstance(free, bool):
        assert found is free
        return
    for value in values:
        if accepts(found, value):
            assert accepts(free, value)
        elif accepts(free, value):
            assert "{" in json.dumps(value) and "," in json.dumps(value)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    longer = [b'{"', b'":', b',"', b'"a":', b'"b":1', b"]}"]
    return Vocabulary(tokens=[bytes([b]) for b in range(256)] + [b"</s>", *longer], eos_token_ids=[256], special_token_ids=[256])


class Inexact(Exception):
    """A number that a float does not hold, so that the oracle cannot judge it."""


def exact(text: str) -> int | float:
    """The number behind a JSON text with a fraction or an exponent."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise Inexact from None
    if abs(number.adjusted()) > 300:
        raise Inexact
    if number == number.to_integral_value():
        return int(number)
    if Decimal(repr(float(number))) != number:
        raise Inexact
    return float(number)


def walk(schema: Any, vocabulary: Vocabulary, rng: random.Random, order: str) -> bytes:
    """A random text under the masks, closed by the shortest completion."""
    automaton = JsonSchema(schema, order=order, max_blanks=1).compile(vocabulary)
    state, text, eos = automaton.start, b"", vocabulary.eos_token_ids[0]
    for _ in range(rng.randrange(40)):
        allowed = [t for t in range(vocabulary.size) if automaton.allows(state, t)]
        assert allowed, (schema, text)
        token = rng.choice(allowed)
        if token == eos:
            return text
        state, text = automaton.advance(state, token), text + vocabulary.tokens[token]
    for token in automaton.shortest_completion(state):
        if token != eos:
            state, text = automaton.advance(state, token), text + vocabulary.tokens[token]
    assert automaton.accepts(state), (schema, text)
    return text


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, seed=st.integers(0, 1 << 30), order=st.sampled_from(["schema", "any"]))
def test_walks_end_in_valid_texts(vocabulary: Vocabulary, schema: Any, seed: int, order: str) -> None:
    try:
        text = walk(schema, vocabulary, random.Random(seed), order)
    except (ConstraintError, LimitError):
        return
    try:
        value = json.loads(text, parse_float=exact)
    except Inexact:
        return
    jsonschema.Draft202012Validator(schema).validate(value)


def test_walks_over_one_pool_share_expressions() -> None:
    before = len(POOL)
    recogniser({"type": "object", "properties": {"shared": {"type": "integer"}}})
    middle = len(POOL)
    recogniser({"type": "object", "properties": {"shared": {"type": "integer"}}})
    assert len(POOL) == middle >= before
