"""JSON Schema: values and keys that are remembered (``uniqueItems``, counts of undeclared members), against ``jsonschema``."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grammars.errors import ConstraintError, LimitError
from grammars.json_schema import JsonSchema, values
from grammars.regex.expr import Pool
from grammars.vocabulary import Vocabulary
from tests.grammars.json_instances import accepts, recogniser
from tests.grammars.test_json_schema_properties import Inexact, exact, walk

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2, 1.5, "", "a", "b", "ab"])
VALUES = st.recursive(SCALARS, lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(NAMES, v, max_size=2)), max_leaves=5)
FINITE: list[Any] = [
    {"type": "boolean"},
    {"enum": [1, 2]},
    {"enum": ["a", "b", None]},
    {"const": {"a": [1]}},
    {"type": "integer", "minimum": 0, "maximum": 2},
    {"type": "string", "maxLength": 1, "pattern": "^[ab]*$"},
]
LEAVES = st.sampled_from([True, {"type": "string"}, {"type": "integer"}, {"not": {"type": "string"}}, *FINITE])


def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Arrays and objects in which something must be remembered."""
    counts = st.integers(0, 3)
    names = st.lists(NAMES, min_size=1, max_size=2, unique=True)
    patterns = st.sampled_from(["^[ab]$", "^a", "^b?$"])
    array = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "uniqueItems": st.just(True),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": counts,
            "maxItems": counts,
            "contains": inner,
            "not": st.just({"uniqueItems": True}),
        },
    )
    members = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(NAMES, inner, min_size=1, max_size=2),
            "required": names,
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(patterns, inner, min_size=1, max_size=1),
            "minProperties": counts,
            "maxProperties": counts,
            "not": inner.map(lambda schema: {"additionalProperties": schema}),
        },
    )
    unique = inner.map(lambda schema: {"type": "array", "items": schema, "uniqueItems": True})
    return st.one_of(unique, array, members)


SCHEMAS = st.recursive(LEAVES, grow, max_leaves=4)


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, elements=st.lists(VALUES, min_size=1, max_size=4), data=st.data())
def test_against_a_validator(schema: Any, elements: list[Any], data: st.DataObject) -> None:
    """Arrays with elements that come again, and these elements themselves."""
    try:
        found = recogniser(schema, order="any")
    except LimitError:
        return
    validator = jsonschema.Draft202012Validator(schema)
    again = [*elements, data.draw(st.sampled_from(elements))]
    for value in [elements, again, *elements, dict(zip("abc", again, strict=False))]:
        assert accepts(found, value) == validator.is_valid(value), (schema, value)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    longer = [b'{"', b'":', b',"', b'"a":', b"]}", b"[[", b"],[", b"1,2", b'a"', b"1,1", b"[]"]
    return Vocabulary(tokens=[*(bytes([b]) for b in range(256)), b"</s>", *longer], eos_token_ids=[256], special_token_ids=[256])


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, seed=st.integers(0, 1 << 30), order=st.sampled_from(["schema", "any"]))
def test_walks_end_in_valid_texts(vocabulary: Vocabulary, schema: Any, seed: int, order: str) -> None:
    try:
        text = walk({"type": "array", "items": schema, "uniqueItems": True}, vocabulary, random.Random(seed), order)
        value = json.loads(text, parse_float=exact)
    except (ConstraintError, LimitError, Inexact):
        return
    jsonschema.Draft202012Validator({"items": schema, "uniqueItems": True}).validate(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 1}, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"enum": [1, 2]}, {"const": 1}], "uniqueItems": True, "minItems": 2},
        {"type": "array", "items": {"enum": [1, 2, "a"]}, "not": {"uniqueItems": True}, "maxItems": 3},
        {"type": "object", "patternProperties": {"^[ab]$": {"enum": [1, 2]}}, "additionalProperties": False, "minProperties": 2},
        {"type": "array", "items": {"type": "object", "additionalProperties": {"const": 1}, "maxProperties": 1}, "uniqueItems": True},
    ],
)
def test_masks_are_what_completions_say(schema: Any) -> None:
    """Along random walks a token is allowed exactly if the automaton can go on to a valid text with it."""
    longer = [b"[[", b"],[", b"1,", b"]]", b'{"a', b'":1', b"},{", b"true", b"false", b"2,1"]
    vocabulary = Vocabulary(tokens=[*(bytes([b]) for b in range(128)), *longer, b"</s>"], eos_token_ids=[138], special_token_ids=[138])
    tokens = vocabulary.tokens[:138]
    automaton = JsonSchema(schema, whitespace="compact", escapes="minimal").compile(vocabulary)
    validator, rng = jsonschema.Draft202012Validator(schema), random.Random(1)
    for _ in range(8):
        state, text = automaton.start, b""
        for _ in range(12):
            allowed = [t for t in range(len(tokens)) if automaton.allows(state, t)]
            for t, token in enumerate(tokens):
                after = automaton.advance_bytes(state, token)
                assert (after != automaton.DEAD) == (t in allowed), (text, token)
                if t in allowed:
                    rest = b"".join(vocabulary.tokens[c] for c in automaton.shortest_completion(after) if c != len(tokens))
                    assert validator.is_valid(json.loads(text + token + rest)), text + token + rest
            if not allowed:
                break
            t = rng.choice(allowed)
            state, text = automaton.advance(state, t), text + tokens[t]


@pytest.mark.parametrize("value", [{"a": 1, "b": [1, {"c": None}]}, [[], {}, "é😀", True, 1e300, 0.001]])
def test_unique_holds_whatever_the_spelling(value: Any) -> None:
    found = recogniser({"type": "array", "uniqueItems": True}, order="any")
    plain, escaped = json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1)
    assert accepts(found, f"[{plain}]".encode())
    assert not accepts(found, f"[{plain}, {escaped}]".encode())


@pytest.mark.parametrize(
    "spelled, same",
    [
        ("1.0", "1"),
        ("10e-1", "1"),
        ("-0.0", "0"),
        ("1200", "12e2"),
        ("0.0012", "12E-4"),
        ("1e999999", "10e999998"),
        ("1" + "0" * 5000, "1e5000"),
    ],
)
def test_numbers_are_compared_by_value(spelled: str, same: str) -> None:
    assert values.number(spelled) == values.number(same)
    assert values.number(spelled) != values.number(same + "1") or same == "0"
    assert not accepts(recogniser({"type": "array", "uniqueItems": True}), f"[{spelled},{same}]".encode())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    digits=st.from_regex(r"[1-9][0-9]{0,3}", fullmatch=True),
    exponent=st.integers(-4, 4),
    text=st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,4})?(e[+-]?[0-9]{1,2})?", fullmatch=True),
)
def test_spellings_of_one_number(digits: str, exponent: int, text: str) -> None:
    pool = Pool()
    number = values.number(f"{digits}e{exponent}")
    expr = pool.leaf(values.Spellings(number.digits, number.exponent))
    spelled = [
        f"{digits}e{exponent}",
        f"{digits}.0E{exponent:+d}",
        f"0.000{digits}e{exponent + 3 + len(digits)}",
        f"{digits}00e{exponent - 2}",
    ]
    assert all(pool.matches(expr, s.encode()) for s in spelled)
    well_formed = text[0] != "0" or len(text) == 1 or text[1] in ".e"
    assert pool.matches(expr, text.encode()) == (well_formed and values.number(text) == number)
    assert values.fraction(number) == Fraction(f"{digits}e{exponent}")
    assert values.of_fraction(Fraction(f"{digits}e{exponent}")) == number


@pytest.mark.parametrize("prefix", ["", "[", "[{},", '[{"a":[', '[{"a":[{},{"a":['])
def test_shortest_completions_of_recursive_unique_values(vocabulary: Vocabulary, prefix: str) -> None:
    """The second element must differ from the first, and the way to differ that comes first leads into the schema itself."""
    element = {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": {"type": "string"}}
    automaton = JsonSchema({"type": "array", "items": element, "uniqueItems": True, "minItems": 2}).compile(vocabulary)
    state = automaton.advance_bytes(automaton.start, prefix.encode())
    rest = vocabulary.decode(automaton.shortest_completion(state))
    assert automaton.accepts(automaton.advance_bytes(state, rest))
    assert len(rest) < 40
