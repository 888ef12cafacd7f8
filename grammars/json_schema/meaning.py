"""From schema nodes to the normal form: what every keyword means, and which goals have an instance at all.

Every assertion of a schema is an operation on :class:`~.normal.Normal` values, in the order written; none is matched
"first" and none is dropped. References inside records stay lazy, so only what generation reaches is
normalised. Emptiness is the least fixpoint (a schema that requires itself for ever has no instance).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from ..errors import ConstraintError, LimitError, SchemaError
from ..limits import Limits
from .algebra import Algebra, Unsettled
from .keywords import REFERENCES
from .normal import (
    ANYTHING,
    NOTHING,
    ArrayRecord,
    Clause,
    Event,
    Goal,
    KeySet,
    Lang,
    Name,
    Normal,
    ObjectRecord,
    Rest,
)
from .references import Documents, Node
from .scalars import (
    NUMBER_KEYWORDS,
    STRING_KEYWORDS,
    Scalars,
    Texts,
    all_numbers,
    number_set,
    points,
)
from .unevaluated import Outcome, unevaluated
from .values import MODERATE, Digits, Value

__all__ = ["Meaning"]

_OBJECT_KEYWORDS = frozenset(
    {
        "additionalProperties",
        "dependentRequired",
        "maxProperties",
        "minProperties",
        "patternProperties",
        "properties",
        "propertyNames",
        "required",
    }
)
_ARRAY_KEYWORDS = frozenset(
    {"additionalItems", "contains", "items", "maxContains", "maxItems", "minContains", "minItems", "prefixItems", "uniqueItems"}
)
_SIMPLE = frozenset({"type", "format", "pattern", "minLength", "maxLength", "minimum", "maximum"})
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})


class Meaning(Algebra):
    """The normal forms of one schema's nodes and goals, each made once.

    Args:
        documents: the nodes.
        scalars: the languages of numbers and strings.
        keep_order: whether declared members keep their order.
        limits: ``schema_size`` bounds the records of one normal form and the goals in all.
    """

    def __init__(self, documents: Documents, scalars: Scalars, limits: Limits, keep_order: bool = True) -> None:
        super().__init__(scalars, limits, keep_order)
        self.documents = documents
        self._goals: dict[Goal, Normal] = {}
        self._goal_of: dict[int, Goal] = {}
        self._simple: dict[tuple[str, object], Goal] = {}
        self._literals: dict[int, Normal] = {}
        self._making: dict[int, None] = {}
        self._unions: dict[int, tuple[Goal, ...]] = {}
        self._unordered: set[int] = set()
        self.outcomes: dict[int, list[Outcome]] = {}
        self._makers: dict[str, Callable[[Node, dict[str, Any]], Normal]] = {
            "enum": lambda node, schema: self._values(schema["enum"], node.at("enum")),
            "const": lambda node, schema: self._values([schema["const"]], node.at("const"), node.number not in self._unordered),
            "allOf": self._all_of,
            "anyOf": self._any_of,
            "oneOf": self._one_of,
            "not": lambda node, schema: self.negate(self._child(node, "not")),
            "if": self._if,
            "dependentSchemas": self._dependent_schemas,
            "dependencies": self._dependencies,
        }
        for name in REFERENCES:
            self._makers[name] = partial(self._reference, name)

    def release(self) -> None:
        super().release()
        self._makers.clear()

    # ------------------------------------------------------------ goals
    def normal(self, goal: Goal) -> Normal:
        """The normal form of a goal."""
        found = self._goals.get(goal)
        if found is None:
            found = self.everything
            for literal in sorted(goal):
                found = self.both(found, self._literal(literal))
            if len(self._goals) >= self.limits.schema_size:
                raise LimitError("schema_size", self.limits.schema_size, "(goals of the schema's normal form)")
            self._goals[goal] = found
        return found

    def goal(self, node: Node, schema: Any, *path: str | int) -> Goal:
        """The goal of a subschema of ``node``."""
        return self.goal_of(self.documents.child(node, schema, *path))

    def goal_of(self, node: Node) -> Goal:
        """The goal of one schema; that of the first one like it, where only a few keywords of scalars say what it means."""
        found = self._goal_of.get(node.number)
        if found is None:
            if isinstance(node.schema, bool):
                found = ANYTHING if node.schema else NOTHING
            else:
                found = frozenset({2 * node.number})
                keywords = node.keywords
                if keywords and _SIMPLE.issuperset(keywords):
                    said = tuple((k, tuple(v) if isinstance(v, list) else v) for k in keywords for v in (node.schema[k],))
                    found = self._simple.setdefault((node.draft, said), found)
            self._goal_of[node.number] = found
        return found

    def _literal(self, literal: int) -> Normal:
        found = self._literals.get(literal)
        if found is None:
            if literal & 1:
                found = self.negate(self._literal(literal ^ 1))
            else:
                found = self._node(self.documents.nodes[literal >> 1])
            self._literals[literal] = found
        return found

    def pointer(self, goal: Goal, keywords: Sequence[str]) -> str:
        nodes = [self.documents.nodes[literal >> 1] for literal in sorted(goal)]
        for node in nodes:
            for keyword in keywords:
                if isinstance(node.schema, dict) and keyword in node.schema:
                    return node.at(keyword)
        return nodes[0].pointer if nodes else ""

    def only(self, value: Value) -> Goal:
        """The goal of one value."""
        return self._constant(_plain(value), "", ordered=False)

    def any_goal(self, goals: Sequence[Goal]) -> Goal:
        """A goal for what satisfies at least one of ``goals``."""
        distinct = tuple(dict.fromkeys(goal for goal in goals if goal != NOTHING))
        if ANYTHING in distinct or len(distinct) < 2:
            return ANYTHING if ANYTHING in distinct else distinct[0] if distinct else NOTHING
        number = self.documents.union(distinct).number
        self._unions[number] = distinct
        return frozenset({2 * number})

    def node_at(self, node: Node, keyword: str, *path: str | int) -> Node:
        """A subschema of ``node``."""
        schema = node.schema[keyword]
        for token in path:
            schema = schema[token]
        return self.documents.child(node, schema, keyword, *path)

    def _child(self, node: Node, keyword: str, *path: str | int) -> Normal:
        return self._literal(2 * self.node_at(node, keyword, *path).number)

    # ------------------------------------------------------------ nodes
    def _node(self, node: Node) -> Normal:
        if isinstance(node.schema, bool):
            return self.everything if node.schema else self.nothing
        if node.number in self._making:
            raise Unsettled(node.pointer)
        self._making[node.number] = None
        try:
            if node.number in self._unions:
                return self.either([self.normal(goal) for goal in self._unions[node.number]])
            if not _UNEVALUATED.isdisjoint(node.keywords):
                return unevaluated(self, node)
            result = self.everything
            for part in self.parts(node):
                result = self.both(result, part)
            return result
        finally:
            del self._making[node.number]

    def parts(self, node: Node, leave: frozenset[str] = frozenset()) -> Iterator[Normal]:
        """What the keywords of a schema say, in the order written, but for those to ``leave`` out."""
        keywords, schema = node.keywords, node.schema
        plain = self.everything
        if "type" in keywords:
            plain = self._of_types(node, schema["type"])
        numeric = {k: schema[k] for k in keywords if k in NUMBER_KEYWORDS}
        if numeric and plain.numbers:
            try:
                bounds = number_set(numeric, node.draft)
            except ConstraintError as e:
                raise SchemaError(str(e), node.at(next(iter(numeric))), next(iter(numeric))) from None
            plain = replace(plain, numbers=tuple(s for s in (part.intersect(bounds) for part in plain.numbers) if not s.is_empty()))
        texts = {k: schema[k] for k in keywords if k in STRING_KEYWORDS}
        if texts and plain.texts != self.scalars.no_texts:
            plain = replace(plain, texts=self.scalars.text(texts, node.draft, node.pointer))
        if plain.arrays and not _ARRAY_KEYWORDS.isdisjoint(keywords):
            plain = replace(plain, arrays=(self._array(node, keywords),))
        yield plain
        own = bool(plain.objects) and not _OBJECT_KEYWORDS.isdisjoint(keywords)
        for name in keywords:
            if own and name in _OBJECT_KEYWORDS and (name == "properties" or "properties" not in keywords):
                own = False
                yield replace(self.everything, objects=(self._object(node, keywords),))
            maker = self._makers.get(name)
            if maker is not None and name not in leave:
                yield maker(node, schema)

    def _of_types(self, node: Node, names: str | list[str]) -> Normal:
        names = [names] if isinstance(names, str) else names
        full, empty = self.everything, self.nothing
        numbers = all_numbers(integer="number" not in names) if "number" in names or "integer" in names else ()
        return Normal(
            "null" in names,
            full.booleans if "boolean" in names else empty.booleans,
            numbers,
            full.texts if "string" in names else empty.texts,
            full.arrays if "array" in names else (),
            full.objects if "object" in names else (),
        )

    def _reference(self, keyword: str, node: Node, schema: dict[str, Any]) -> Normal:
        return self._literal(2 * self.documents.target(node, schema[keyword], keyword).number)

    def _all_of(self, node: Node, schema: dict[str, Any]) -> Normal:
        result = self.everything
        for i in range(len(schema["allOf"])):
            result = self.both(result, self._child(node, "allOf", i))
        return result

    def _any_of(self, node: Node, schema: dict[str, Any]) -> Normal:
        return self.either([self._child(node, "anyOf", i) for i in range(len(schema["anyOf"]))])

    def _one_of(self, node: Node, schema: dict[str, Any]) -> Normal:
        """Each branch without what it shares with others; branches that cannot meet cost nothing."""
        branches = [self._child(node, "oneOf", i) for i in range(len(schema["oneOf"]))]
        # A sibling type often tells branches apart that overlap otherwise.
        frame = self._of_types(node, schema["type"]) if "type" in schema else self.everything
        branches = [self.both(frame, branch) for branch in branches]
        parts = []
        rivals: list[list[int]] = [[] for _ in branches]
        for i, a in enumerate(branches):
            for j in range(i):
                if self._overlap(a, branches[j]):
                    rivals[i].append(j)
                    rivals[j].append(i)
        for i, part in enumerate(branches):
            for j in rivals[i]:
                part = self.subtract(part, branches[j])
            parts.append(part)
        return self.either(parts)

    def _if(self, node: Node, schema: dict[str, Any]) -> Normal:
        if "then" not in schema and "else" not in schema:
            return self.everything
        condition = self._child(node, "if")
        then = self.both(condition, self._child(node, "then")) if "then" in schema else condition
        other = self.subtract(self._child(node, "else") if "else" in schema else self.everything, condition)
        return self.either([then, other])

    def _dependent_schemas(self, node: Node, schema: dict[str, Any]) -> Normal:
        result = self.everything
        for name in schema["dependentSchemas"]:
            result = self.both(result, self._depends(name, self._child(node, "dependentSchemas", name)))
        return result

    def _dependencies(self, node: Node, schema: dict[str, Any]) -> Normal:
        result = self.everything
        for name, value in schema["dependencies"].items():
            if isinstance(value, list):
                part = replace(self.everything, objects=(ObjectRecord(clauses=_needs(name, value)),))
            else:
                part = self._depends(name, self._child(node, "dependencies", name))
            result = self.both(result, part)
        return result

    def _depends(self, name: str, then: Normal) -> Normal:
        """What is no object with a member ``name``, or satisfies ``then``."""
        if then is self.everything:
            return then
        absent = ObjectRecord(names=((name, NOTHING),))
        present = ObjectRecord(required=frozenset({name}))
        return replace(self.everything, objects=self._sum([absent, *(present.both(record) for record in then.objects)], ObjectRecord()))

    # ------------------------------------------------------------ arrays and objects
    def _array(self, node: Node, keywords: Iterable[str]) -> ArrayRecord:
        schema = {k: node.schema[k] for k in keywords if k in _ARRAY_KEYWORDS}
        prefix: list[Goal] = []
        rest = ANYTHING
        items = schema.get("items")
        if isinstance(items, list):
            prefix = [self.goal(node, s, "items", i) for i, s in enumerate(items)]
            if "additionalItems" in schema:
                rest = self.goal(node, schema["additionalItems"], "additionalItems")
        else:
            prefix = [self.goal(node, s, "prefixItems", i) for i, s in enumerate(schema.get("prefixItems", ()))]
            if items is not None:
                rest = self.goal(node, items, "items")
        most = int(schema["maxItems"]) if "maxItems" in schema else None
        record = ArrayRecord(tuple(prefix), rest, int(schema.get("minItems", 0)), most)
        if schema.get("uniqueItems") and (most is None or most > 1):
            record = record.both(ArrayRecord(unique=True))
        if "contains" not in schema:
            return record
        lo, hi = int(schema.get("minContains", 1)), schema.get("maxContains")
        counted = self.goal(node, schema["contains"], "contains")
        hi = None if hi is None else int(hi)
        if counted == ANYTHING:
            return record.both(ArrayRecord(least=lo, most=hi))
        return record.both(ArrayRecord(counters=((counted, lo, hi),))) if lo > 0 or hi is not None else record

    def _object(self, node: Node, keywords: Iterable[str]) -> ObjectRecord:
        schema = {k: node.schema[k] for k in keywords if k in _OBJECT_KEYWORDS}
        properties: dict[str, Any] = schema.get("properties", {})
        names = {name: self.goal(node, s, "properties", name) for name, s in properties.items()}
        others: list[tuple[KeySet, Goal]] = []
        patterns: list[int] = []
        for pattern, s in schema.get("patternProperties", {}).items():
            expr = self.scalars.pattern(pattern, node.at("patternProperties", pattern))
            patterns.append(expr)
            others.append((Lang(expr), self.goal(node, s, "patternProperties", pattern)))
        if "additionalProperties" in schema:
            keys = Rest(frozenset(properties), tuple(dict.fromkeys(patterns)))
            others.append((keys, self.goal(node, schema["additionalProperties"], "additionalProperties")))
        if "propertyNames" in schema:
            allowed = self._child(node, "propertyNames").texts
            banned = self.scalars.without(allowed)
            if banned.only is not None:
                names.update(dict.fromkeys(sorted(banned.only), NOTHING))
            elif allowed.only is not None:
                others.append((Rest(allowed.only, ()), NOTHING))
            else:
                others.append((Lang(self.scalars.expression(banned)), NOTHING))
        clauses: tuple[Clause, ...] = ()
        for name, needed in schema.get("dependentRequired", {}).items():
            clauses += _needs(name, needed)
        most = schema.get("maxProperties")
        return ObjectRecord(
            tuple(properties),
            tuple((n, g) for n, g in names.items() if g != ANYTHING),
            tuple((k, g) for k, g in others if g != ANYTHING),
            frozenset(schema.get("required", ())),
            int(schema.get("minProperties", 0)),
            None if most is None else int(most),
            tuple(dict.fromkeys(clauses)),
        )

    def _values(self, values: list[Any], pointer: str, ordered: bool = True) -> Normal:
        """Exactly the given values; members are declared in their order, if that counts."""
        arrays, objects = [], []
        numbers = [v for v in values if isinstance(v, (int, float, Decimal)) and not isinstance(v, bool)]
        for value in values:
            if isinstance(value, list):
                goals = tuple(self._constant(v, pointer, ordered) for v in value)
                arrays.append(ArrayRecord(goals, NOTHING, len(goals), len(goals)))
            elif isinstance(value, dict):
                members = tuple((k, self._constant(v, pointer, ordered)) for k, v in value.items())
                closed = ((Rest(frozenset(value), ()), NOTHING),)
                objects.append(ObjectRecord(tuple(value) if ordered else (), members, closed, frozenset(value)))
        return Normal(
            any(v is None for v in values),
            frozenset(v for v in values if isinstance(v, bool)),
            points(numbers),
            Texts(only=frozenset(v for v in values if isinstance(v, str))),
            tuple(dict.fromkeys(arrays)),
            tuple(dict.fromkeys(objects)),
        )

    def _constant(self, value: Any, pointer: str, ordered: bool = True) -> Goal:
        number = self.documents.constant(value, pointer, ordered).number
        if not ordered:
            self._unordered.add(number)
        return frozenset({2 * number})


def _plain(value: Value) -> Any:
    """A remembered value as JSON data; numbers exactly."""
    if isinstance(value, Digits):
        exactly = Decimal(f"{value.digits}e{value.exponent}")
        return int(exactly) if 0 <= value.exponent <= MODERATE else exactly
    if not isinstance(value, tuple):
        return value
    kind, parts = value
    assert isinstance(parts, (tuple, frozenset))
    if kind == "[":
        return [_plain(part) for part in parts]
    return {name: _plain(part) for name, part in sorted(parts, key=lambda member: member[0])}


def _needs(name: str, needed: Iterable[str]) -> tuple[Clause, ...]:
    """``name`` is absent, or all of ``needed`` are there."""
    return tuple((Event("absent", Name(name)), Event("has", Name(other))) for other in needed if other != name)
