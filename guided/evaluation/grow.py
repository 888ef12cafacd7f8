"""Random schemas: grown from nothing, or real ones with keywords dropped, copied, perturbed and combined."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from .oracle import Unknown, python_pattern
from .places import places, replaced, subschema

__all__ = ["Grower", "usable"]

_NAMES = ("a", "b", "c", "foo", "é", "a/b")
_WORDS = ("", "a", "ab", "foo", "é", "🙂", 'q"\\', "1")
_PATTERNS = ("^a", "b$", "^[ab]{1,3}$", "a|foo", "^\\d+$", "\\S", "^(?=.*b)a", "^.{2,4}$", "^(?!foo)")
_FORMATS = ("date", "time", "date-time", "ipv4", "uuid", "email", "uri", "json-pointer", "unheard-of")
_NUMBERS = (-3, -1, 0, 1, 2, 3, 10, 0.5, 2.5, -0.1, 1e3)
_DIALECTS = {"4": "http://json-schema.org/draft-04/schema#", "7": "http://json-schema.org/draft-07/schema#"}
_SIZE = 4000
"""Characters of the JSON text that a schema may have, roughly."""


class Grower:
    """Makes schemas from a random source.

    Args:
        rng: the source.
        seeds: real schemas to start from; without any all schemas are grown from nothing.

    Attributes:
        origin: the index of the seed that the last schema came from, if any.
    """

    def __init__(self, rng: random.Random, seeds: Sequence[Any] = ()) -> None:
        self.rng, self.seeds = rng, seeds
        self.draft = rng.choice(("2020-12", "2020-12", "7", "4")) if not seeds else "2020-12"
        self._local: list[str] = []
        self.origin: int | None = None

    def schema(self) -> Any:
        """A schema; its keywords are well-formed, but it may contradict itself."""
        rng = self.rng
        if self.seeds and rng.random() < 0.6:
            self.origin = rng.randrange(len(self.seeds))
            made = copy.deepcopy(self.seeds[self.origin])
            self.draft = _draft(made.get("$schema") if isinstance(made, dict) else None)
            for _ in range(rng.choice((1, 1, 2, 3, 4))):
                made = self.mutated(made)
                if len(json.dumps(made)) > _SIZE:
                    break
            return made
        self.draft = rng.choice(("2020-12", "2020-12", "7", "4"))
        self._local = [] if rng.random() < 0.6 else ["#", "#/definitions/x"]
        made = self.fresh(3)
        if isinstance(made, dict):
            if self._local:
                made["definitions"] = {"x": self.fresh(2)}
            if self.draft in _DIALECTS:
                made = {"$schema": _DIALECTS[self.draft], **made}
        return made

    # ------------------------------------------------------------ from nothing
    def fresh(self, depth: int) -> Any:
        """A schema of at most ``depth`` levels."""
        rng = self.rng
        if self.draft != "4" and rng.random() < 0.04:
            return rng.random() < 0.7
        if self._local and rng.random() < 0.12:
            return {"$ref": rng.choice(self._local)}
        kinds: list[Callable[[int], dict[str, Any]]] = [self._number, self._string, self._values]
        if depth > 0:
            kinds += [self._array, self._array, self._object, self._object, self._object, self._combination, self._combination]
        made = rng.choice(kinds)(depth)
        if rng.random() < 0.2:
            made |= rng.choice(kinds)(depth)
        return made

    def _some(self, ways: dict[str, Callable[[], Any]], most: int = 3) -> dict[str, Any]:
        chosen = self.rng.sample(list(ways), self.rng.randint(0, min(most, len(ways))))
        return {name: ways[name]() for name in chosen}

    def _number(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        ways: dict[str, Callable[[], Any]] = {
            "minimum": lambda: rng.choice(_NUMBERS),
            "maximum": lambda: rng.choice(_NUMBERS),
            "multipleOf": lambda: rng.choice((1, 2, 3, 0.5, 0.1, 1.5)),
        }
        if self.draft != "4":
            ways |= {"exclusiveMinimum": lambda: rng.choice(_NUMBERS), "exclusiveMaximum": lambda: rng.choice(_NUMBERS)}
        return self._typed(rng.choice(("integer", "number"))) | self._some(ways)

    def _typed(self, name: str) -> dict[str, Any]:
        roll = self.rng.random()
        return {"type": name} if roll < 0.8 else {"type": [name, "null"]} if roll < 0.9 else {}

    def _string(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        ways: dict[str, Callable[[], Any]] = {
            "minLength": lambda: rng.randint(0, 3),
            "maxLength": lambda: rng.randint(0, 5),
            "pattern": lambda: rng.choice(_PATTERNS),
            "format": lambda: rng.choice(_FORMATS),
        }
        return self._typed("string") | self._some(ways, 2)

    def value(self, depth: int = 1) -> Any:
        """A JSON value."""
        rng = self.rng
        kinds: list[Callable[[], Any]] = [lambda: rng.choice(_NUMBERS), lambda: rng.choice(_WORDS), lambda: rng.choice((True, False, None))]
        if depth > 0:
            kinds.append(lambda: [self.value(depth - 1) for _ in range(rng.randint(0, 2))])
            kinds.append(lambda: {name: self.value(depth - 1) for name in rng.sample(_NAMES, rng.randint(0, 2))})
        return rng.choice(kinds)()

    def _values(self, depth: int) -> dict[str, Any]:
        if self.draft != "4" and self.rng.random() < 0.4:
            return {"const": self.value()}
        values = [self.value() for _ in range(self.rng.randint(1, 4))]
        return {"enum": list({json.dumps(v): v for v in values}.values())}

    def _array(self, depth: int) -> dict[str, Any]:
        rng, draft = self.rng, self.draft
        ways: dict[str, Callable[[], Any]] = {
            "items": lambda: self.fresh(depth - 1),
            "minItems": lambda: rng.randint(0, 3),
            "maxItems": lambda: rng.randint(0, 4),
            "uniqueItems": lambda: True,
        }
        if draft == "2020-12":
            ways["prefixItems"] = lambda: [self.fresh(depth - 1) for _ in range(rng.randint(1, 3))]
            ways["minContains"] = lambda: rng.randint(0, 2)
            ways["maxContains"] = lambda: rng.randint(0, 3)
            ways["unevaluatedItems"] = lambda: self.fresh(depth - 1)
        elif rng.random() < 0.4:
            ways["items"] = lambda: [self.fresh(depth - 1) for _ in range(rng.randint(1, 3))]
            ways["additionalItems"] = lambda: self.fresh(depth - 1) if rng.random() < 0.7 else False
        if draft != "4":
            ways["contains"] = lambda: self.fresh(depth - 1)
        return self._typed("array") | self._some(ways)

    def _object(self, depth: int) -> dict[str, Any]:
        rng, draft = self.rng, self.draft

        def names(least: int = 1) -> list[str]:
            return rng.sample(_NAMES, rng.randint(least, 3))

        def deep() -> Any:
            return self.fresh(depth - 1)

        def more() -> Any:
            return deep() if rng.random() < 0.5 else False

        def patterns() -> dict[str, Any]:
            return {p: deep() for p in rng.sample(_PATTERNS, rng.randint(1, 2))}

        ways: dict[str, Callable[[], Any]] = {
            "properties": lambda: {name: deep() for name in names()},
            "required": names,
            "additionalProperties": more,
            "patternProperties": patterns,
            "minProperties": lambda: rng.randint(0, 3),
            "maxProperties": lambda: rng.randint(0, 4),
        }
        if draft != "4":
            ways["propertyNames"] = lambda: self._string(0) if rng.random() < 0.7 else {"enum": names()}
        if draft == "2020-12":
            ways["dependentRequired"] = lambda: {name: names() for name in names()}
            ways["dependentSchemas"] = lambda: {name: deep() for name in names()[:1]}
            ways["unevaluatedProperties"] = more
        else:
            ways["dependencies"] = lambda: {name: names() if rng.random() < 0.5 else deep() for name in names()[:2]}
        made = self._typed("object")
        if rng.random() < 0.7:
            made["properties"] = ways["properties"]()
        return made | self._some(ways, 4)

    def _combination(self, depth: int) -> dict[str, Any]:
        rng = self.rng

        def several() -> list[Any]:
            return [self.fresh(depth - 1) for _ in range(rng.randint(1, 3))]

        ways: dict[str, Callable[[], Any]] = dict.fromkeys(("allOf", "anyOf", "oneOf"), several)
        ways["not"] = lambda: self.fresh(depth - 1)
        name = rng.choice([*ways, *(["if"] if self.draft != "4" else [])])
        if name != "if":
            return {name: ways[name]()}
        made = {"if": self.fresh(depth - 1)}
        for branch in rng.sample(("then", "else"), rng.randint(1, 2)):
            made[branch] = self.fresh(depth - 1)
        return made

    # ------------------------------------------------------------ from real ones
    def mutated(self, schema: Any) -> Any:
        """``schema`` with one change somewhere."""
        rng = self.rng
        path = rng.choice(places(schema))
        part = subschema(schema, path)
        change = rng.choice((self._drop, self._drop, self._perturb, self._perturb, self._copy, self._combine, self._add, self._add))
        return replaced(schema, path, change(schema, part))

    def _drop(self, schema: Any, part: Any) -> Any:
        if not isinstance(part, dict) or not part:
            return self.fresh(1)
        gone = self.rng.choice([k for k in part if k not in ("$defs", "definitions", "$schema", "$id", "id")] or [None])
        return {k: v for k, v in part.items() if k != gone}

    def _perturb(self, schema: Any, part: Any) -> Any:
        """One number, name or flag of ``part`` changed."""
        if not isinstance(part, dict):
            return not part
        made, rng = dict(part), self.rng
        able = [k for k, v in part.items() if isinstance(v, int | float) or k in ("required", "enum", "type", "properties")]
        if not able:
            return self._add(schema, part)
        key = rng.choice(able)
        value = made[key]
        if isinstance(value, bool):
            made[key] = not value
        elif isinstance(value, int | float):
            count = key.startswith(("min", "max")) and key[3:4].isupper()
            changed = value + rng.choice((-1, 1, 2) if count else (-1, 1, 0.5))
            made[key] = max(0, changed) if count else changed if changed > 0 or key != "multipleOf" else value
        elif isinstance(value, list) and len(value) > 1:
            made[key] = [item for i, item in enumerate(value) if i != rng.randrange(len(value))] or value
        elif isinstance(value, dict) and value and key == "properties":
            made[key] = {k: v for k, v in value.items() if k != rng.choice(list(value))}
        return made

    def _other(self, schema: Any) -> Any:
        """Some schema that fits in anywhere: of the same document, of another one, or a fresh one."""
        roll = self.rng.random()
        if roll < 0.4:
            return self.fresh(2)
        source = schema if roll < 0.8 or not self.seeds else self.rng.choice(self.seeds)
        found = subschema(source, self.rng.choice(places(source)))
        foreign = source is not schema and "$ref" in json.dumps(found)
        return self.fresh(1) if foreign or len(json.dumps(found)) > _SIZE // 4 else copy.deepcopy(found)

    def _copy(self, schema: Any, part: Any) -> Any:
        """A keyword of another schema in addition."""
        other = self._other(schema)
        if not isinstance(part, dict) or not isinstance(other, dict):
            return other
        names = [k for k in other if not k.startswith("$")]
        return {**part, **{k: other[k] for k in self.rng.sample(names, min(len(names), 2))}}

    def _combine(self, schema: Any, part: Any) -> Any:
        """``part`` within an ``allOf``, ``anyOf``, ``oneOf``, ``if`` or ``not`` with another schema."""
        rng, other = self.rng, self._other(schema)
        name = rng.choice(("allOf", "anyOf", "oneOf", "if", "not", "else"))
        if isinstance(part, dict) and not part.keys().isdisjoint(("$schema", "$id", "id", "$defs", "definitions")):
            return part if name in part else {**part, name: other if name in ("if", "not", "else") else [other, self.fresh(1)]}
        if name == "if":
            return {"if": other, "then": part, "else": self.fresh(1)}
        if name == "else":
            return {"if": self.fresh(1), "then": other, "else": part}
        if name == "not":
            return {"allOf": [part, {"not": other}]}
        return {name: [part, other]}

    def _add(self, schema: Any, part: Any) -> Any:
        """Keywords of a fresh schema in addition."""
        other = self.fresh(1)
        return {**other, **part} if isinstance(part, dict) and isinstance(other, dict) else other


def _draft(uri: Any) -> str:
    """Which of the drafts that schemas are grown in is nearest to the one named."""
    text = str(uri)
    return "4" if "draft-04" in text or "draft-03" in text else "7" if "draft-0" in text else "2020-12"


def usable(schema: Any, most: int = _SIZE) -> bool:
    """Whether a real schema is one to start from: small, of the library's drafts, and with patterns that the oracle can read."""
    if not isinstance(schema, dict) or len(json.dumps(schema)) > most:
        return False
    for path in places(schema):
        part = subschema(schema, path)
        if isinstance(part, dict):
            patterns = [part.get("pattern"), *(part.get("patternProperties") or {})] if isinstance(part.get("pattern", ""), str) else [1]
            try:
                for pattern in patterns:
                    if pattern is not None:
                        python_pattern(pattern)
            except (Unknown, TypeError):
                return False
    return True
