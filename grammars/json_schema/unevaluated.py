"""``unevaluatedProperties`` and ``unevaluatedItems``: which members and elements the schemas in place have looked at.

What is evaluated depends on which subschemas a value fits, so a schema is split into :class:`Outcome` s: disjoint
enough that in each of them what is evaluated is known. (JSON Schema 2020-12 Core, sections 7.7 and 11.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..errors import LimitError
from .keywords import DRAFTS, REFERENCES
from .normal import ANYTHING, ArrayRecord, Goal, Normal, ObjectRecord, Rest
from .references import Node

if TYPE_CHECKING:
    from .meaning import Meaning

__all__ = ["Outcome", "outcomes", "unevaluated"]


@dataclass(frozen=True)
class Outcome:
    """Values for which the same things are evaluated.

    Attributes:
        normal: the values.
        names, patterns: the evaluated keys: single names, and languages.
        all_keys: whether all keys are.
        items: how many of the first elements are evaluated.
        all_items: whether all are.
        matching: elements that satisfy one of these goals are (``contains``).
    """

    normal: Normal
    names: frozenset[str] = frozenset()
    patterns: frozenset[int] = frozenset()
    all_keys: bool = False
    items: int = 0
    all_items: bool = False
    matching: frozenset[Goal] = frozenset()

    def evaluated(self) -> tuple[object, ...]:
        """Everything but the values."""
        return self.names, self.patterns, self.all_keys, self.items, self.all_items, self.matching


class _Splitter:
    """Splits one schema into outcomes."""

    def __init__(self, meaning: Meaning, node: Node) -> None:
        self.meaning, self.node, self.schema = meaning, node, node.schema
        self.found = [self._own()]

    def run(self) -> list[Outcome]:
        apply: dict[str, Callable[[], list[Outcome]]] = {
            **{name: partial(self._reference, name) for name in REFERENCES},
            "allOf": self._all_of,
            "anyOf": self._any_of,
            "oneOf": self._one_of,
            "if": self._if,
            "dependentSchemas": self._dependent_schemas,
        }
        for name in self.node.keywords:
            if name in apply:
                self.found = self._merged(apply[name]())
        self._unevaluated()
        return self.found

    # ------------------------------------------------------------ what the schema itself says
    def _own(self) -> Outcome:
        meaning, node = self.meaning, self.node
        normal = meaning.everything
        for part in meaning.parts(node, leave=_IN_PLACE):
            normal = meaning.both(normal, part)
        names = node.keywords
        written = self.schema["patternProperties"] if "patternProperties" in names else ()
        patterns = frozenset(meaning.scalars.pattern(p, node.at("patternProperties", p)) for p in written)
        items, all_items = 0, False
        first = self.schema.get("items")
        if isinstance(first, list) and "items" in names:
            items, all_items = len(first), "additionalItems" in names
        else:
            items = len(self.schema["prefixItems"]) if "prefixItems" in names else 0
            all_items = "items" in names
        matching: frozenset[Goal] = frozenset()
        if "contains" in names and DRAFTS.index(node.draft) >= 4:
            matching = frozenset({meaning.goal(node, self.schema["contains"], "contains")})
        own = frozenset(self.schema["properties"]) if "properties" in names else frozenset()
        return Outcome(normal, own, patterns, "additionalProperties" in names, items, all_items, matching)

    # ------------------------------------------------------------ applicators in place
    def _of(self, keyword: str, *path: str | int) -> list[Outcome]:
        return outcomes(self.meaning, self.meaning.node_at(self.node, keyword, *path))

    def _cross(self, left: Iterable[Outcome], right: Iterable[Outcome]) -> list[Outcome]:
        """Values that are in both."""
        right = list(right)
        found = []
        for a in left:
            for b in right:
                normal = self.meaning.both(a.normal, b.normal)
                if self.meaning.perhaps(normal):
                    keys = a.names | b.names, a.patterns | b.patterns, a.all_keys or b.all_keys
                    found.append(Outcome(normal, *keys, max(a.items, b.items), a.all_items or b.all_items, a.matching | b.matching))
        if len(found) > self.meaning.limits.schema_size:
            raise LimitError("schema_size", self.meaning.limits.schema_size, "(ways to evaluate members or elements)")
        return found

    def _without(self, found: list[Outcome], normal: Normal) -> list[Outcome]:
        kept = [replace(o, normal=self.meaning.subtract(o.normal, normal)) for o in found]
        return [o for o in kept if self.meaning.perhaps(o.normal)]

    def _merged(self, found: list[Outcome]) -> list[Outcome]:
        """Outcomes with the same things evaluated are one."""
        groups: dict[tuple[object, ...], list[Outcome]] = {}
        for outcome in found:
            groups.setdefault(outcome.evaluated(), []).append(outcome)
        return [replace(same[0], normal=self.meaning.either([o.normal for o in same])) for same in groups.values()]

    def _union(self, found: list[Outcome]) -> Normal:
        return self.meaning.either([o.normal for o in found]) if found else self.meaning.nothing

    def _reference(self, keyword: str) -> list[Outcome]:
        target = self.meaning.documents.target(self.node, self.schema[keyword], keyword)
        return self._cross(self.found, outcomes(self.meaning, target))

    def _all_of(self) -> list[Outcome]:
        found = self.found
        for i in range(len(self.schema["allOf"])):
            found = self._cross(found, self._of("allOf", i))
        return found

    def _any_of(self) -> list[Outcome]:
        """Every branch holds, or does not; not all do not."""
        some: list[Outcome] = []
        none = self.found
        for i in range(len(self.schema["anyOf"])):
            branch = self._of("anyOf", i)
            holds = self._union(branch)
            some = self._merged(self._cross(some, branch) + self._without(some, holds) + self._cross(none, branch))
            none = self._without(none, holds)
        return some

    def _one_of(self) -> list[Outcome]:
        one: list[Outcome] = []
        none = self.found
        for i in range(len(self.schema["oneOf"])):
            branch = self._of("oneOf", i)
            holds = self._union(branch)
            one = self._without(one, holds) + self._cross(none, branch)
            none = self._without(none, holds)
        return one

    def _if(self) -> list[Outcome]:
        condition = self._of("if")
        then = self._cross(condition, self._of("then")) if "then" in self.schema else condition
        other = self._of("else") if "else" in self.schema else [Outcome(self.meaning.everything)]
        other = self._without(other, self._union(condition))
        return self._cross(self.found, then) + self._cross(self.found, other)

    def _dependent_schemas(self) -> list[Outcome]:
        found = self.found
        for name in self.schema["dependentSchemas"]:
            has = replace(self.meaning.nothing, objects=(ObjectRecord(required=frozenset({name})),))
            present = self._cross([Outcome(has)], self._of("dependentSchemas", name))
            found = self._cross(found, present) + self._without(found, has)
        return found

    # ------------------------------------------------------------ the keywords themselves
    def _unevaluated(self) -> None:
        meaning, names = self.meaning, self.node.keywords
        if "unevaluatedProperties" in names:
            goal = meaning.goal(self.node, self.schema["unevaluatedProperties"], "unevaluatedProperties")
            self.found = [self._keys(outcome, goal) for outcome in self.found]
        if "unevaluatedItems" in names:
            goal = meaning.goal(self.node, self.schema["unevaluatedItems"], "unevaluatedItems")
            self.found = [self._elements(outcome, goal) for outcome in self.found]

    def _keys(self, outcome: Outcome, goal: Goal) -> Outcome:
        normal = outcome.normal
        if not outcome.all_keys and goal != ANYTHING:
            rest = ObjectRecord(others=((Rest(outcome.names, tuple(sorted(outcome.patterns))), goal),))
            normal = self.meaning.both(normal, replace(self.meaning.everything, objects=(rest,)))
        return replace(outcome, normal=normal, all_keys=True)

    def _elements(self, outcome: Outcome, goal: Goal) -> Outcome:
        normal = outcome.normal
        if not outcome.all_items and goal != ANYTHING:
            goal = self.meaning.any_goal([goal, *sorted(outcome.matching, key=sorted)])
            rest = ArrayRecord((ANYTHING,) * outcome.items, goal)
            normal = self.meaning.both(normal, replace(self.meaning.everything, arrays=(rest,)))
        return replace(outcome, normal=normal, all_items=True)


_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "if", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", *REFERENCES})


def outcomes(meaning: Meaning, node: Node) -> list[Outcome]:
    """The outcomes of a schema; together they hold exactly its values."""
    if isinstance(node.schema, bool):
        return [Outcome(meaning.everything)] if node.schema else []
    known = meaning.outcomes.get(node.number)
    if known is None:
        known = meaning.outcomes[node.number] = _Splitter(meaning, node).run()
    return known


def unevaluated(meaning: Meaning, node: Node) -> Normal:
    """The values of a schema with one of the two keywords."""
    found = [outcome.normal for outcome in outcomes(meaning, node)]
    return meaning.either(found) if found else meaning.nothing
