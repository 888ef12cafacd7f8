"""Candidates for instances of a schema: likely to be valid, and now and then close to it. An oracle has to judge them."""

from __future__ import annotations

import random
from typing import Any

from grammars.errors import GuidedError
from grammars.regex.expr import Pool
from grammars.regex.lower import to_expr

__all__ = ["Instances", "mutated"]

_TEXTS = ("", "a", "ab", "foo", "é🙂", "1", "2024-02-29", "x" * 8)
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


class Instances:
    """Draws candidates for instances of ``schema``."""

    def __init__(self, schema: Any, rng: random.Random) -> None:
        self.schema, self.rng = schema, rng
        self._matches: dict[str, str] = {}

    def draw(self) -> Any:
        """A candidate."""
        return self._of(self.schema, 6)

    def _of(self, schema: Any, depth: int) -> Any:
        rng = self.rng
        if not isinstance(schema, dict):
            return rng.choice((None, 1, "a", [], {}))
        schema = self._flat(schema, depth)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"] and rng.random() < 0.95:
            return rng.choice(schema["enum"])
        kinds = schema.get("type", self._likely(schema))
        kind = rng.choice(kinds) if isinstance(kinds, list) and kinds else kinds
        if kind == "object":
            return self._object(schema, depth - 1)
        if kind == "array":
            return self._array(schema, depth - 1)
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return self._number(schema, kind == "integer")
        return rng.random() < 0.5 if kind == "boolean" else None

    def _likely(self, schema: dict[str, Any]) -> str:
        """A type that the keywords speak of."""
        names = " ".join(schema)
        found = [
            kind
            for kind, marks in (
                ("object", ("ropert", "required", "dependen")),
                ("array", ("tems", "ontains")),
                ("string", ("Length", "pattern", "format")),
                ("number", ("imum", "multipleOf")),
            )
            if any(mark in names for mark in marks)
        ]
        return self.rng.choice(found) if found and self.rng.random() < 0.9 else self.rng.choice(_TYPES)

    def _flat(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """The schema with references followed and one branch of each choice taken in, as far as that goes."""
        parts, made = [schema], {}  # type: list[Any], dict[str, Any]
        for part in parts:
            if not isinstance(part, dict) or len(parts) > 30 or depth < 0:
                continue
            for key, value in part.items():
                if isinstance(value, dict) and isinstance(made.get(key), dict):
                    made[key] = made[key] | value
                elif key == "required" and isinstance(value, list):
                    made[key] = [*made.get(key, ()), *value]
                elif key not in made or self.rng.random() < 0.5:
                    made[key] = value
            if isinstance(part.get("allOf"), list):
                parts += part["allOf"]
            for name in ("anyOf", "oneOf"):
                if isinstance(part.get(name), list) and part[name]:
                    parts.append(self.rng.choice(part[name]))
            if "if" in part:
                parts += [part["if"], part.get("then")] if self.rng.random() < 0.5 else [part.get("else")]
            for name, more in (part.get("dependentSchemas") or {}).items() if isinstance(part.get("dependentSchemas"), dict) else ():
                parts += [more] if name in (part.get("required") or ()) or self.rng.random() < 0.5 else []
            if isinstance(part.get("$ref"), str):
                parts.append(self._target(part["$ref"]))
        return made

    def _target(self, reference: str) -> Any:
        found = self.schema
        for token in reference.removeprefix("#").split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(token)] if isinstance(found, list) else found[token]
            except (KeyError, IndexError, ValueError, TypeError):
                return None
        return found if reference.startswith("#") else None

    def _count(self, schema: dict[str, Any], what: str, usual: int) -> int:
        least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
        low = int(least) if isinstance(least, int | float) and least < 50 else 0
        high = int(most) if isinstance(most, int | float) else low + usual
        return self.rng.randint(low, max(low, min(high, low + usual)))

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        rng = self.rng
        declared = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
        required = [n for n in schema.get("required", ()) if isinstance(n, str)] if isinstance(schema.get("required"), list) else []
        share = rng.choice((0.0, 0.3, 0.7, 1.0)) if depth > 0 else 0.0
        names = [name for name in declared or {} if name in required or rng.random() < share]
        names += [name for name in required if name not in names]
        for pattern in schema.get("patternProperties") or ():
            if rng.random() < 0.4:
                names.append(self._match(pattern))
        if schema.get("additionalProperties") is not False or rng.random() < 0.1:
            names += rng.sample(("a", "b", "c", "zz"), rng.choice((0, 0, 0, 1, 2)))
        for name in list(names):
            needs = schema.get("dependentRequired", schema.get("dependencies"))
            more = needs.get(name) if isinstance(needs, dict) else None
            names += more if isinstance(more, list) else []
        while len(names) < min(5, int(schema.get("minProperties", 0) or 0)):
            names.append(f"{rng.choice('abcxyz')}{len(names)}")
        return {name: self._member(schema, declared or {}, name, depth) for name in dict.fromkeys(names)}

    def _member(self, schema: dict[str, Any], declared: dict[str, Any], name: str, depth: int) -> Any:
        if name in declared:
            return self._of(declared[name], depth)
        patterns = schema.get("patternProperties")
        for part in patterns.values() if isinstance(patterns, dict) and self.rng.random() < 0.6 else ():
            return self._of(part, depth)
        return self._of(schema.get("additionalProperties", schema.get("unevaluatedProperties", True)), depth)

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        if depth < 0:
            return []
        items = schema.get("items", schema.get("unevaluatedItems", True))
        first = schema.get("prefixItems") or (items if isinstance(items, list) else [])
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        values = [self._of(first[i] if i < len(first) else rest, depth) for i in range(self._count(schema, "Items", 3))]
        if "contains" in schema and self.rng.random() < 0.8:
            for _ in range(max(1, int(schema.get("minContains", 1)))):
                values.insert(self.rng.randint(min(len(values), len(first)), len(values)), self._of(schema["contains"], depth))
        return values

    def _string(self, schema: dict[str, Any]) -> str:
        if isinstance(schema.get("pattern"), str):
            return self._match(schema["pattern"])
        size = self._count(schema, "Length", 4)
        text = self.rng.choice(_TEXTS)
        return (text + "abcdefgh" * (1 + size // 8))[:size] if "minLength" in schema or "maxLength" in schema else text

    def _match(self, pattern: str) -> str:
        """A shortest match."""
        if pattern not in self._matches:
            text: bytes | None = None
            try:
                pool = Pool()
                text = pool.shortest(to_expr(pattern, pool, dialect="ecma", search=True))
            except GuidedError:
                pass
            self._matches[pattern] = (text or b"a").decode("utf-8", "replace")
        return self._matches[pattern]

    def _number(self, schema: dict[str, Any], integer: bool) -> int | float:
        rng = self.rng
        bounds = [schema[k] for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if _plain(schema.get(k))]
        step: Any = schema.get("multipleOf")
        base: Any = rng.choice([*bounds, *bounds, 0, 7]) + rng.choice((-1, 0, 0, 1, 0.5))
        if _plain(step) and step > 0:
            base = step * round(base / step)
        return int(base) if integer and abs(base) < 1e15 else base


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def mutated(value: Any, rng: random.Random) -> Any:
    """``value`` with one change somewhere: a part dropped, added, repeated, replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.7:
        key = rng.choice(list(value))
        roll = rng.random()
        if roll < 0.3:
            return {k: v for k, v in value.items() if k != key}
        if roll < 0.45:
            return {**value, rng.choice(("a", "b", "zz", key + "x")): value[key]}
        return {**value, key: mutated(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        roll = rng.random()
        if roll < 0.3:
            return value[:at] + value[at + 1 :]
        if roll < 0.5:
            return [*value, value[at]]
        return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
    if _plain(value) and rng.random() < 0.6:
        return value + rng.choice((-1, 1, 0.5))
    if isinstance(value, str) and rng.random() < 0.5:
        return rng.choice((value + "a", value[1:], value[:1] * 3))
    return rng.choice((None, True, False, 0, 1, -1, 2.5, "", "a", "foo", [], [1, 1], {}, {"a": 1}))
