"""JSON Schema: what each keyword means, table by table; layouts, orders, sources, refusals."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Literal, TypedDict

import pydantic
import pytest
import referencing

from grammars.errors import ConstraintError, LimitError, SchemaError
from grammars.json_schema import AnyJson, JsonSchema, Whitespace
from grammars.limits import Limits
from grammars.regex.expr import Pool
from tests.grammars.json_instances import accepts, recogniser
from tests.recogniser import Recogniser

CLOSED: dict[str, Any] = {"additionalProperties": False}
AB = {"a": {"type": "integer"}, "b": {"type": "string"}}

# (schema, accepted, rejected)
TABLE: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "true": (True, [None, 1, "x", [], {"a": {}}], []),
    "type": ({"type": "integer"}, [1, 1.0, 10, b"1e3", b"-0"], [1.5, "1", None, b"1e-1", b"01"]),
    "type list": ({"type": ["null", "string"]}, [None, "x"], [1, [], {}]),
    "bounds": ({"type": "number", "minimum": 1, "exclusiveMaximum": 2}, [1, 1.5, b"1.999", b"15e-1"], [2, 0.999, b"2.0"]),
    "multipleOf": ({"multipleOf": 0.1}, [1, 0.3, "x", b"3e-1"], [0.25]),
    "lengths": (
        {"type": "string", "minLength": 2, "maxLength": 3},
        ["ab", "äöü", b'"\\u0041b"', b'"\\ud83d\\ude00a"'],
        ["a", "abcd", b'"\\u0041"'],
    ),
    "pattern is a search": ({"pattern": "b+"}, ["abc", b'"\\u0062"', 1], ["acd"]),
    "pattern anchored": ({"type": "string", "pattern": "^[a-c]$"}, ["a"], ["ab", ""]),
    "format": ({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "x"]),
    "enum": (
        {"enum": [1, "a", None, [1, {"x": 2}], {"k": True}]},
        [1, 1.0, "a", None, [1, {"x": 2}], {"k": True}],
        [True, 2, [1], {"k": 1}],
    ),
    "const zero is not false": ({"const": 0}, [0, 0.0, b"-0"], [False]),
    "required order": ({"properties": AB, "required": ["b"]}, [{"a": 1, "b": ""}, {"b": "x"}, {"z": 1, "b": ""}], [{"a": 1}, {}]),
    "additional schema": ({"properties": AB, "additionalProperties": {"type": "null"}}, [{"a": 1, "x": None}], [{"a": 1, "x": 1}]),
    "closed": ({"type": "object", "properties": AB, **CLOSED}, [{}, {"a": 1}, {"a": 1, "b": ""}], [{"c": 1}, {"a": "x"}]),
    "declared names are not undeclared": ({"properties": {"a": False}}, [{"b": 1}], [{"a": 1}, b'{"\\u0061": 1}']),
    "patternProperties": (
        {"patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}}, "additionalProperties": {"type": "null"}},
        [{"x": 1}, {"xy": 5}, {"y": "any"}, {"z": None}],
        [{"x": "s"}, {"xy": 4}, {"z": 1}],
    ),
    "pattern over a declared name": (
        {"properties": {"x1": {"minimum": 3}}, "patternProperties": {"^x": {"maximum": 5}}},
        [{"x1": 4}],
        [{"x1": 2}, {"x1": 6}],
    ),
    "required but undeclared": (
        {"required": ["q"], "additionalProperties": {"type": "integer"}},
        [{"q": 1}, {"z": 1, "q": 2}],
        [{"z": 1}, {"q": "x"}],
    ),
    "counts": ({"type": "object", "minProperties": 1, "maxProperties": 2}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": 1, "b": 2, "c": 3}]),
    "minProperties of declared": ({"properties": AB, "minProperties": 2, **CLOSED}, [{"a": 1, "b": ""}], [{"a": 1}, {"b": ""}]),
    "propertyNames": ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}, {}], [{"abc": 1}]),
    "propertyNames enum": ({"propertyNames": {"enum": ["a"]}}, [{"a": 1}, {}], [{"b": 1}]),
    "items": ({"items": {"type": "integer"}}, [[], [1, 2], "x"], [["x"], [1, None]]),
    "prefixItems": ({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}, [[], [1], [1, "a"]], [["a"], [1, "a", 2]]),
    "minItems": ({"type": "array", "minItems": 2, "maxItems": 3}, [[1, 2], [1, 2, 3]], [[1], [1, 2, 3, 4]]),
    "minItems past a closed prefix": ({"type": ["array", "null"], "prefixItems": [True], "items": False, "minItems": 2}, [None], [[], [1]]),
    "contains": ({"contains": {"const": 1}, "maxContains": 2, "minContains": 1}, [[1], [0, 1, 1]], [[], [0], [1, 1, 1]]),
    "contains within maxItems": ({"type": "array", "contains": {"const": 1}, "maxItems": 2}, [[0, 1], [1, 0]], [[0, 0], [0, 0, 1]]),
    "allOf merges": ({"allOf": [{"minimum": 2}, {"type": "integer"}], "maximum": 4}, [2, 4], [1, 5, 2.5]),
    "allOf of objects": (
        {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"minimum": 3}}, "required": ["a"]}]},
        [{"a": 3}],
        [{"a": 2}, {}, {"a": "x"}],
    ),
    "anyOf": ({"anyOf": [{"type": "integer"}, {"minLength": 2}]}, [1, "ab", None, []], ["a"]),
    "anyOf overlapping objects": (
        {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{}, {"c": 1}],
    ),
    "oneOf": ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, "x"], [2, 3, 1.5]),
    "oneOf objects": (
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 2}, {"a": 1, "c": 1}],
        [{}, {"a": 1, "b": 2}],
    ),
    "oneOf told apart by a member": (
        {
            "oneOf": [{"properties": {"t": {"const": "x"}, "v": {"type": "integer"}}}, {"properties": {"t": {"const": "y"}}}],
            "required": ["t"],
        },
        [{"t": "x", "v": 1}, {"t": "y", "v": "any"}],
        [{"t": "x", "v": "s"}, {"t": "z"}, {"v": 1}],
    ),
    "not": ({"not": {"type": ["integer", "string"], "maximum": 3}}, [4, 2.5, None, {}, []], [3, "x"]),
    "not object": (
        {"not": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        [1, {}, {"a": 1}, {"b": 1, "a": None}],
        [{"a": "x"}, {"b": 1, "a": ""}],
    ),
    "not array": ({"type": "array", "not": {"items": {"type": "integer"}}}, [["x"], [1, "x"], ["x", 1]], [[], [1], [1, 2]]),
    "not length": ({"type": "array", "not": {"minItems": 2}}, [[], [1]], [[1, 2]]),
    "not closed": ({"type": "object", "not": {"properties": {"a": True}, **CLOSED}}, [{"b": 1}, {"a": 1, "b": 1}], [{}, {"a": 1}]),
    "if then else": (
        {"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["t"]}, "else": {"required": ["e"]}},
        [{"k": 1, "t": 0}, {"k": 2, "e": 0}, {"e": 1}, 5],
        [{"k": 1}, {"k": 1, "e": 0}, {"k": 2, "t": 0}, {}],
    ),
    "dependentRequired": (
        {"dependentRequired": {"a": ["b", "c"]}},
        [{}, {"b": 1}, {"a": 1, "b": 1, "c": 1}, 3],
        [{"a": 1}, {"a": 1, "b": 1}],
    ),
    "dependentSchemas": ({"dependentSchemas": {"a": {"maxProperties": 1}}}, [{"a": 1}, {"b": 1, "c": 1}], [{"a": 1, "b": 1}]),
    "recursion": (
        {
            "$ref": "#/$defs/n",
            "$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "n": {"$ref": "#/$defs/n"}}, **CLOSED}},
        },
        [{}, {"v": 1, "n": {"v": 2, "n": {}}}],
        [{"n": {"v": "x"}}, {"n": 1}],
    ),
    "a reference beside siblings": ({"$ref": "#/$defs/i", "minimum": 3, "$defs": {"i": {"type": "integer"}}}, [3], [2, 3.5]),
    "anchors": ({"$ref": "#i", "$defs": {"x": {"$anchor": "i", "type": "integer"}}}, [3], ["x"]),
    "an optional member without instance": (
        {"properties": {"a": {"minimum": 2, "maximum": 1, "type": "number"}}, "type": "object"},
        [{}],
        [{"a": 1}],
    ),
    "a branch without instance": (
        {"anyOf": [{"type": "object", "required": ["a"], "properties": {"a": False}}, {"type": "null"}]},
        [None],
        [{}, {"a": 1}],
    ),
    "counts that contradict each other": (
        {"oneOf": [{"additionalProperties": False}, {"maxProperties": 0}]},
        [],
        [{}, {"a": 1}, None],
    ),
    "infinite descent": (
        {
            "anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}],
            "$defs": {"n": {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/n"}}}},
        },
        [None],
        [{"n": {}}, {"n": None}],
    ),
}


UNIQUE: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "unique values of an enumeration": (
        {"type": "array", "items": {"enum": ["a", "b", 1, None]}, "uniqueItems": True},
        [[], ["a", 1], [None, "b", "a", 1]],
        [["a", "a"], [1, "a", 1.0], [None, None]],
    ),
    "more unique values than there are": (
        {"anyOf": [{"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3}, {"type": "null"}]},
        [None],
        [[], [True, False], [True, False, True]],
    ),
    "not unique": (
        {"type": "array", "items": {"type": "boolean"}, "not": {"uniqueItems": True}, "maxItems": 3},
        [[True, True], [False, True, False]],
        [[], [True], [True, False]],
    ),
}
UNIQUE |= {
    "unique scalars": (
        {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}, "uniqueItems": True},
        [[], ["a", "b", ""], [1, 1.5, "1"], [0, False, None, "", True], b'["a","\\u0062"]', b"[1e400, 1e401, 10e398]"],
        [["a", "a"], b'["a","\\u0061"]', b"[1, 2, 10e-1]", [0, 1, 0.0], b"[0, -0]", b"[1e999999, 10e999998]", [None, None]],
    ),
    "unique anything": (
        {"type": "array", "uniqueItems": True},
        [[[], {}, [[]], [{}]], [[1], [True]], [{"a": 1, "b": 2}, {"a": 2, "b": 1}], [[1, 2], [2, 1]], [{"a": [0]}, {"a": [False]}]],
        [[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], [[], 1, []], [[{"x": {}}], 2, [{"x": {}}]], b'[{"a":1}, {"\\u0061": 10e-1}]'],
    ),
    "unique arrays of unique arrays": (
        {"type": "array", "uniqueItems": True, "items": {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}},
        [[], [[]], [[], [1], [2], [1, 2], [2, 1]]],
        [[[1], [1]], [[1, 1]], [[1, 2], [2], [1, 2]]],
    ),
    "a unique tuple": (
        {
            "type": "array",
            "prefixItems": [{"enum": [1, 2]}, {"enum": [1, 2]}, {"const": 3}],
            "items": {"enum": [1, 2, 3, 4]},
            "uniqueItems": True,
        },
        [[], [1], [2, 1], [1, 2, 3, 4]],
        [[1, 1], [1, 2, 3, 4, 4], [1, 2, 3, 3]],
    ),
    "what a later element needs is left to it": (
        {"type": "array", "prefixItems": [{"enum": [1, 2]}, {"const": 1}], "uniqueItems": True, "minItems": 2},
        [[2, 1], [2, 1, 0]],
        [[1, 1], [1, 2], [1]],
    ),
    "no value is left": (
        {"anyOf": [{"type": "array", "prefixItems": [{"const": 1}, {"const": 1.0}], "uniqueItems": True, "minItems": 2}, {"const": 0}]},
        [0],
        [[1, 1], [1]],
    ),
    "more unique composites than there are": (
        {
            "anyOf": [
                {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 1},
                    "uniqueItems": True,
                    "minItems": 4,
                },
                {"type": "null"},
            ]
        },
        [None],
        [[[], [True], [False]]],
    ),
    "unique and contains": (
        {"type": "array", "items": {"enum": [1, 2, 3]}, "contains": {"maximum": 2}, "minContains": 2, "uniqueItems": True},
        [[1, 2], [3, 2, 1], [1, 3, 2]],
        [[1], [1, 3], [1, 1], [3]],
    ),
    "some two equal": (
        {"type": "array", "not": {"uniqueItems": True}},
        [[1, 1.0], [[], {}, []], [{"a": 1, "b": 2}, 3, {"b": 2, "a": 1}], ["x", 1, "y", "y"], b'["a", "\\u0061"]'],
        [[], [1], [1, True], [[1], [2]], ["a", "b", "c"]],
    ),
    "some two equal of a tuple": (
        {"type": "array", "prefixItems": [{"type": "string"}, {"enum": ["a", 1]}], "items": False, "not": {"uniqueItems": True}},
        [["a", "a"]],
        [["a", 1], ["b", "b"], ["b", "a"], ["a"]],
    ),
}
COUNTED: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "undeclared members are counted once": (
        {"type": "object", "minProperties": 2, "properties": {"z": True}},
        [{"a": 1, "b": 1}, {"z": 1, "b": 1}],
        [{"a": 1}, b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', {"z": 1}],
    ),
    "no more keys than there are": (
        {
            "type": ["object", "null"],
            "patternProperties": {"^[ab]$": {"type": "integer"}},
            "additionalProperties": False,
            "minProperties": 2,
            "required": [],
        },
        [None, {"a": 1, "b": 2}],
        [{"a": 1}, b'{"a":1,"a":1}', {"a": 1, "c": 1}],
    ),
    "fewer keys than are asked for": (
        {"type": ["object", "null"], "patternProperties": {"^[ab]$": True}, "additionalProperties": False, "minProperties": 3},
        [None],
        [{"a": 1, "b": 2}, b'{"a":1,"b":1,"a":1}'],
    ),
    "some member is no integer": (
        {"type": "object", "not": {"additionalProperties": {"type": "integer"}}},
        [{"a": "x"}, {"a": 1, "b": "x"}, {"b": "x", "a": 1}],
        [{}, {"a": 1}, b'{"a":"x","a":1}'],
    ),
    "one member for two negations": (
        {
            "type": "object",
            "maxProperties": 1,
            "allOf": [{"not": {"additionalProperties": {"type": "integer"}}}, {"not": {"additionalProperties": {"minLength": 2}}}],
        },
        [{"a": "x"}, {"k": ""}],
        [{"a": 1}, {"a": "xx"}, {}],
    ),
}
EVALUATED: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "properties in branches": (
        {
            "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": True}}],
            "unevaluatedProperties": False,
        },
        [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{"a": "x"}, {"c": 1}, {"a": 1, "c": 1}],
    ),
    "properties after if": (
        {
            "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
            "then": {"properties": {"t": True}},
            "unevaluatedProperties": {"type": "null"},
        },
        [{"k": 1, "t": 5}, {"k": None}, {"k": 1, "z": None}],
        [{"k": 2}, {"k": 1, "z": 1}, {"t": 5}],
    ),
    "items and contains": (
        {"prefixItems": [{"type": "integer"}], "contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}},
        [[1, "a"], [1, "a", None], [1, None, "b"]],
        [[1, 2, "a"], [1]],
    ),
    "dynamic references": (
        {
            "$id": "http://example.com/strict",
            "$dynamicAnchor": "node",
            "$ref": "tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$dynamicAnchor": "node",
                    "type": "object",
                    "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
                }
            },
        },
        [{"data": 1, "children": [{"data": 2, "children": []}]}],
        [{"children": [{"dat": 1}]}, {"dat": 1}],
    ),
}
TABLE |= EVALUATED | UNIQUE | COUNTED


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", TABLE)
def test_table(name: str, order: str) -> None:
    schema, good, bad = TABLE[name]
    found = recogniser(schema, order=order)
    for value in good:
        assert accepts(found, value), value
    for value in bad:
        assert not accepts(found, value), value


@pytest.mark.parametrize(
    "draft, schema, good, bad",
    [
        ("4", {"minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        ("4", {"type": "integer"}, [1, b"10"], [b"1.0", b"1e1"]),
        ("4", {"const": 1}, [1, 2], []),
        ("6", {"exclusiveMinimum": 1}, [2], [1]),
        ("7", {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}, [[1], [1, "a"]], [["a"], [1, 2]]),
        ("7", {"$ref": "#/definitions/i", "minimum": 5, "definitions": {"i": {"type": "integer"}}}, [1], ["x"]),
        ("7", {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{"a": 1, "b": 1}, {}], [{"a": 1}, {"c": 1}]),
        ("2020-12", {"dependencies": {"a": ["b"]}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
        ("2019-09", {"items": [{"type": "integer"}]}, [[1, "x"]], [["x"]]),
    ],
)
def test_drafts(draft: str, schema: Any, good: list[Any], bad: list[Any]) -> None:
    found = recogniser(schema, draft=draft)
    assert all(accepts(found, v) for v in good)
    assert not any(accepts(found, v) for v in bad)


def test_the_schema_says_its_draft() -> None:
    assert JsonSchema({"$schema": "http://json-schema.org/draft-04/schema#"}).draft == "4"
    assert JsonSchema({"exclusiveMinimum": True, "minimum": 1}).draft == "4"
    assert JsonSchema({"items": [{}]}).draft == "7"
    assert JsonSchema({}).draft == "2020-12"


# ---------------------------------------------------------------- order
def test_declared_order() -> None:
    schema = {"properties": {"a": True, "b": True, "c": True}, "required": ["b"]}
    kept, free = recogniser(schema), recogniser(schema, order="any")
    for keys, in_order in [("abc", True), ("bc", True), ("ba", False), ("cab", False), ("xaybz", True), ("b", True)]:
        value = dict.fromkeys(keys, 0)
        assert accepts(kept, value) == in_order
        assert accepts(free, value)
    for twice in (b'{"a":1,"a":1,"b":1}', b'{"b":1,"a":1,"b":1}'):
        assert not accepts(kept, twice)
        assert not accepts(free, twice)


def test_merged_order_is_that_of_first_appearance() -> None:
    schema = {"allOf": [{"properties": {"b": True, "a": True}}], "properties": {"c": True, "a": True}}
    assert accepts(recogniser(schema), {"b": 0, "a": 0, "c": 0})
    assert not accepts(recogniser(schema), {"a": 0, "b": 0})


# ---------------------------------------------------------------- layout
VALUE = {"a": [1, [], {}, {"b": None}], "c": "x"}


def test_compact() -> None:
    found = recogniser({}, whitespace="compact")
    assert accepts(found, json.dumps(VALUE, separators=(",", ":")).encode())
    assert not accepts(found, json.dumps(VALUE).encode())


@pytest.mark.parametrize("indent", [0, 2, 3])
def test_indent_is_that_of_json_dumps(indent: int) -> None:
    found = recogniser({}, whitespace=f"indent={indent}")
    assert accepts(found, json.dumps(VALUE, indent=indent).encode())
    assert not accepts(found, json.dumps(VALUE, indent=indent + 1).encode())
    assert not accepts(found, json.dumps(VALUE).encode())


def test_flexible_bounds_runs() -> None:
    found = recogniser({}, max_blanks=3)
    assert accepts(found, b'{ "a"\n\t : [1 ,   2 ]\r\n }')
    assert not accepts(found, b"[    1]")
    assert not accepts(found, b" 1")
    assert not accepts(found, b"1 ")
    assert accepts(recogniser({}), json.dumps(VALUE, indent=4).encode())
    assert Whitespace.of("flexible", 0) == Whitespace("compact")


def test_any_json() -> None:
    found = Recogniser(AnyJson().build(pool := Pool()), pool)
    for text in (b"null", b"-1.5e3", b'"\\n"', b'{"a": [true, {}]}'):
        assert found.accepts(text)
    for text in (b"", b"nul", b"[1,]", b"{a:1}", b"{'a':1}", b"[1 2]", b'"\n"'):
        assert not found.accepts(text)


def test_minimal_escapes() -> None:
    found = recogniser({"type": "object", "properties": {"k": {"type": "string"}}, **CLOSED}, escapes="minimal")
    assert accepts(found, b'{"k": "a\\n\\"/"}')
    assert not accepts(found, b'{"k": "\\u0061"}')
    assert not accepts(found, b'{"\\u006b": ""}')


# ---------------------------------------------------------------- sources
class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)
    friends: list[Person] = []


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Movie(TypedDict):
    title: str
    year: int


def lookup(city: str, days: int = 1, *, units: Literal["c", "f"]) -> str:
    return city + str(days) + units


@pytest.mark.parametrize(
    "source, good, bad",
    [
        (Person, {"name": "A", "age": 3, "friends": [{"name": "B", "age": 1}]}, {"name": "A", "age": -1}),
        (Point, {"x": 1, "y": 2.5}, {"y": 1}),
        (Movie, {"title": "x", "year": 1}, {"title": "x"}),
        (list[Movie], [{"title": "x", "year": 1}], [{"title": 1}]),
        (list[int], [1, 2], ["x"]),
        (Literal["a", 1], "a", "b"),
        (Colour, "red", "green"),
        (dict[str, bool], {"a": True}, {"a": 1}),
        (int | None, None, "x"),
        (lookup, {"city": "x", "days": 2, "units": "c"}, {"city": "x"}),
        (lookup, {"city": "x", "units": "f"}, {"city": "x", "units": "k"}),
        ('{"type": "integer"}', 1, "x"),
    ],
)
def test_sources(source: Any, good: Any, bad: Any) -> None:
    found = recogniser(source)
    assert accepts(found, good)
    assert not accepts(found, bad)


@pytest.mark.parametrize("source", ["{", "[1]", "NaN", {"a": object()}, object(), {"enum": [float("nan")]}])
def test_bad_sources(source: Any) -> None:
    with pytest.raises(SchemaError):
        recogniser(source)


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "schema, pointer, keyword",
    [
        ({"minimum": "x"}, "/minimum", "minimum"),
        ({"properties": {"a/b": {"minLength": -1}}}, "/properties/a~1b/minLength", "minLength"),
        ({"type": "int"}, "/type", "type"),
        ({"items": 3}, "/items", "items"),
        ({"anyOf": []}, "/anyOf", "anyOf"),
        ({"required": "a"}, "/required", "required"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern", "pattern"),
        ({"patternProperties": {"(?<=a)b": True}}, "/patternProperties/(?<=a)b", "pattern"),
        ({"$ref": "#/nowhere"}, "/$ref", "$ref"),
        ({"$ref": "http://example.com/x.json"}, "/$ref", "$ref"),
        ({"anyOf": [{"$ref": "#/$defs/a"}, True], "$defs": {"a": {"$ref": "#/$defs/a"}}}, "/$defs/a/$ref", "$ref"),
        ({"items": {"uniqueItems": 3}}, "/items/uniqueItems", "uniqueItems"),
    ],
)
def test_refusals_name_the_place(schema: Any, pointer: str, keyword: str) -> None:
    with pytest.raises(SchemaError) as caught:
        recogniser(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)


def test_what_is_not_reached_is_not_refused() -> None:
    assert accepts(recogniser({"$defs": {"x": {"pattern": "("}}, "type": "null"}), None)


def test_no_instance() -> None:
    with pytest.raises(ConstraintError, match="no instance"):
        JsonSchema({"type": "integer", "minimum": 2, "maximum": 1}).build(Pool())


def test_options_are_checked() -> None:
    for options in ({"draft": "5"}, {"format": "x"}, {"order": "x"}, {"whitespace": "tabs"}, {"escapes": "x"}):
        with pytest.raises(ConstraintError):
            JsonSchema({}, **options)  # type: ignore[arg-type]


def test_limits_are_named() -> None:
    schema = {"properties": {str(i): {"type": "array"} for i in range(50)}}
    with pytest.raises(LimitError, match="schema_size"):
        JsonSchema(schema, limits=Limits(schema_size=20)).build(Pool())


def test_report() -> None:
    schema = {"type": ["string", "object"], "format": "fancy", "properties": {"a": {"uniqueItems": True}}, "title": "t"}
    found = {(f.pointer, f.status) for f in JsonSchema(schema).report()}
    assert ("/type", "masked") in found
    assert ("/format", "annotation") in found
    assert ("/properties/a/uniqueItems", "masked") in found
    assert not any(pointer == "/title" for pointer, _ in found)


# ---------------------------------------------------------------- references
def test_registry() -> None:
    remote = referencing.Resource.from_contents(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"i": {"type": "integer"}}}
    )
    registry: referencing.Registry[Any] = referencing.Registry().with_resource("http://example.com/d.json", remote)
    found = recogniser({"$id": "http://example.com/root.json", "$ref": "d.json#/$defs/i"}, registry=registry)
    assert accepts(found, 1)
    assert not accepts(found, "x")


def test_metaschema_is_known() -> None:
    found = recogniser({"$ref": "http://json-schema.org/draft-07/schema#/definitions/simpleTypes"}, draft="7")
    assert accepts(found, "integer")
    assert not accepts(found, "int")
