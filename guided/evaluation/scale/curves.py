"""The curves: a schema and its instances as a function of one size. Everything is a function of that size alone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grammars.errors import GuidedError

__all__ = ["CURVES", "WARM_UP", "Curve", "Point", "curve_of"]

Options = Mapping[str, Mapping[str, Any]]
"""Options of an engine, by its name."""
ANY_ORDER: Options = {"guided": {"order": "any"}, "xgrammar": {"any_order": True}, "xgrammar-strict": {"any_order": True}}
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "islet", "juniper", "krill", "lotus", "maple", "nectar")


@dataclass(frozen=True)
class Point:
    """One piece of work.

    Attributes:
        schema: what is compiled.
        instances: valid ones, run one after the other; with ``rows`` side by side.
        options: of the engines, beside their own.
        tokens: size of the synthetic vocabulary to use, instead of the run's.
        rows: texts of one batch; ``None`` for one text after the other.
    """

    schema: Any
    instances: tuple[Any, ...]
    options: Options = field(default_factory=dict)
    tokens: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Curve:
    """What is made bigger.

    Attributes:
        axis: what ``sizes`` counts.
        make: the point of a size.
    """

    name: str
    axis: str
    sizes: tuple[int, ...]
    make: Callable[[int], Point]


# ---------------------------------------------------------------- schema size
def _definition(i: int, rng: random.Random) -> dict[str, Any]:
    """A type as Kubernetes' API defines them: a description longer than the rest, references to types defined before, maps and lists."""
    properties: dict[str, Any] = {
        "apiVersion": {"type": "string", "description": "The version of the schema of this representation of an object."},
        "kind": {"type": "string", "enum": [f"Kind{i}"]},
        "name": {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "phase": {"type": "string", "enum": ["Pending", "Running", "Succeeded", "Failed", "Unknown"]},
    }
    for k in range(rng.randrange(1, 5)):
        text = " ".join(rng.choice(_WORDS) for _ in range(18)) + "."
        if i and k % 2 == 0:
            target = {"$ref": f"#/definitions/io.example.api.v1.Kind{rng.randrange(max(0, i - 6), i)}"}
            properties[f"{rng.choice(_WORDS)}Ref"] = {"description": text, **target}
            properties[f"{rng.choice(_WORDS)}List"] = {"type": "array", "description": text, "items": target}
        else:
            properties[f"{rng.choice(_WORDS)}Seconds"] = {"type": "integer", "description": text}
    return {"type": "object", "description": "One of many.", "properties": properties, "required": ["kind", "name"]}


def _kubernetes(size: int) -> Point:
    """Definitions until the text has ``size`` bytes; the entry point is one of the first, so that what it reaches stays the same."""
    rng = random.Random(1)
    definitions: dict[str, Any] = {}
    entry = {"$ref": "#/definitions/io.example.api.v1.Kind0"}
    length = len(json.dumps({**entry, "definitions": {}}))
    while length < size:
        i = len(definitions)
        made = _definition(i, rng)
        definitions[f"io.example.api.v1.Kind{i}"] = made
        length += len(json.dumps(made)) + len(f'"io.example.api.v1.Kind{i}": , ')
        if i == 8:  # from here on it reaches eight more
            entry = {"$ref": "#/definitions/io.example.api.v1.Kind8"}
    kind = int(entry["$ref"].rpartition("Kind")[2])
    pod = {"apiVersion": "v1", "kind": f"Kind{kind}", "name": "web-frontend-7", "replicas": 12, "labels": {"app": "web", "tier": "front"}}
    return Point({**entry, "definitions": definitions}, (pod | {"phase": "Running"}, {"kind": f"Kind{kind}", "name": "a"}))


# ---------------------------------------------------------------- wide and deep
def _enum(size: int) -> Point:
    values = [f"{_WORDS[i * 5 % len(_WORDS)]}-{_WORDS[i // 14 % len(_WORDS)]}-{i * 7919 % 1000003}" for i in range(size)]
    schema = {"type": "object", "properties": {"pick": {"enum": values}}, "required": ["pick"], "additionalProperties": False}
    return Point(schema, tuple({"pick": values[i * (size - 1) // 7]} for i in range(8)))


_KINDS: tuple[tuple[dict[str, Any], Any], ...] = (
    ({"type": "string"}, "some text"),
    ({"type": "integer"}, 1234),
    ({"type": "boolean"}, True),
    ({"type": "array", "items": {"type": "number"}}, [1.5, 2]),
    ({"enum": ["low", "middle", "high"]}, "middle"),
)


def _properties(size: int, options: Options | None = None) -> Point:
    names = [f"{_WORDS[i % len(_WORDS)]}_{i:04}" for i in range(size)]
    schema = {
        "type": "object",
        "properties": {name: _KINDS[i % len(_KINDS)][0] for i, name in enumerate(names)},
        "required": names[::3],
        "additionalProperties": False,
    }
    full = {name: _KINDS[i % len(_KINDS)][1] for i, name in enumerate(names)}
    least = {name: full[name] for name in names[::3]}
    if options is None:
        return Point(schema, (full, least))
    rng = random.Random(size)
    return Point(schema, tuple({name: whole[name] for name in rng.sample(list(whole), len(whole))} for whole in (full, least)), options)


def _nested_schema(size: int) -> Point:
    schema: dict[str, Any] = {"type": "integer"}
    instance: Any = 7
    for _ in range(size):
        schema, instance = {"type": "array", "items": schema, "minItems": 1}, [instance]
    return Point(schema, (instance,))


def _nested_instance(size: int) -> Point:
    node = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
        "required": ["value"],
        "additionalProperties": False,
    }
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    instance: dict[str, Any] = {"value": size}
    for depth in reversed(range(size)):
        instance = {"value": depth, "next": instance}
    return Point(schema, (instance,))


# ---------------------------------------------------------------- long
def _text(size: int) -> str:
    rng = random.Random(size)
    words: list[str] = []
    length = 0
    while length < size:
        words.append(rng.choice(_WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


def _max_length(size: int) -> Point:
    return Point({"type": "string", "maxLength": size}, (_text(size),))


def _max_items(size: int) -> Point:
    return Point({"type": "array", "items": {"type": "integer"}, "maxItems": size}, ([i * 37 % 1000 for i in range(size)],))


# ---------------------------------------------------------------- an ordinary schema
_ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{6}$"},
        "placed": {"type": "string", "format": "date-time"},
        "status": {"enum": ["open", "paid", "shipped", "returned"]},
        "customer": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
            "required": ["name"],
            "additionalProperties": False,
        },
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"product": {"type": "string"}, "count": {"type": "integer", "minimum": 1}, "price": {"type": "number"}},
                "required": ["product", "count"],
                "additionalProperties": False,
            },
        },
        "note": {"type": "string", "maxLength": 200},
    },
    "required": ["id", "status", "lines"],
    "additionalProperties": False,
}


def _order(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    lines = [
        {"product": f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}", "count": rng.randrange(1, 99), "price": rng.randrange(1, 9999) / 100}
        for _ in range(rng.randrange(1, 5))
    ]
    return {
        "id": f"{rng.choice('ABCD')}{rng.choice('XYZ')}-{rng.randrange(10**6):06}",
        "placed": f"20{rng.randrange(10, 30)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}T10:{rng.randrange(10, 60)}:00Z",
        "status": rng.choice(("open", "paid", "shipped", "returned")),
        "customer": {"name": f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}", "age": rng.randrange(18, 99)},
        "lines": lines,
        "note": _text(rng.randrange(20, 120)),
    }


def _vocabulary(size: int) -> Point:
    return Point(_ORDER, tuple(_order(i) for i in range(8)), tokens=size)


def _batch(size: int) -> Point:
    return Point(_ORDER, tuple(_order(i) for i in range(size)), rows=size)


_KILO = 1024
CURVES = (
    Curve("schema-size", "bytes of the schema", tuple(_KILO * k for k in (1, 4, 16, 64, 256, 1024, 4096)), _kubernetes),
    Curve("enum", "strings in an enum", (10, 100, 1_000, 10_000, 100_000), _enum),
    Curve("properties", "properties, in schema order", (10, 30, 100, 300, 1_000), _properties),
    Curve("properties-any-order", "properties, in any order", (10, 30, 100, 300, 1_000), lambda size: _properties(size, ANY_ORDER)),
    Curve("nested-schema", "arrays within arrays, in the schema", (5, 20, 50, 100, 200, 490), _nested_schema),
    Curve("nested-instance", "objects within objects, of a recursive schema", (5, 20, 50, 100, 200, 500), _nested_instance),
    Curve("max-length", "maxLength, and characters of the string", (10, 100, 1_000, 10_000, 100_000), _max_length),
    Curve("max-items", "maxItems, and elements of the array", (10, 100, 1_000, 10_000, 100_000), _max_items),
    Curve("vocabulary", "tokens of the vocabulary", tuple(_KILO * k for k in (32, 48, 64, 96, 128, 192, 256)), _vocabulary),
    Curve("batch", "texts side by side", (1, 2, 4, 8, 16, 32, 64, 128, 256), _batch),
)
"""All curves, by size. The deepest schema is just within the default of ``Limits.nesting``."""


def curve_of(name: str) -> Curve:
    """The curve of that name.

    Raises:
        GuidedError: there is none.
    """
    for curve in CURVES:
        if curve.name == name:
            return curve
    raise GuidedError(f"no curve {name!r}; there are {', '.join(curve.name for curve in CURVES)}")


WARM_UP = _kubernetes(2 * _KILO)
"""An ordinary schema that is on no curve: with it a process is warm."""
