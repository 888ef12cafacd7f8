"""From the normal form to rules: equal goals share their symbols, equal records their rules."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ..rules import Rule, State, Symbol, Terminal
from ..strings import json_string
from .arrays import ArrayPlan, ArrayRule
from .normal import Goal
from .objects import ObjectPlan, ObjectRule

if TYPE_CHECKING:
    from .algebra import Algebra
    from .layout import Layout

__all__ = ["ValueRule", "Writer"]


class Writer:
    """Makes the rules of one schema in one layout.

    Args:
        meaning: its normal forms.
        layout: where blanks stand.
    """

    def __init__(self, meaning: Algebra, layout: Layout) -> None:
        self.meaning, self.layout = meaning, layout
        self._symbols: dict[tuple[Goal, int], tuple[Symbol, ...]] = {}
        self._rules: dict[tuple[int, int], Rule] = {}
        self._keys: dict[tuple[int, int, bool], Terminal] = {}

    def symbols(self, goal: Goal, depth: int) -> tuple[Symbol, ...]:
        """What a value of ``goal`` may be: one lexeme for all scalars, one rule a record. Empty for a goal without instance."""
        depth = depth if self.layout.deep else 0
        found = self._symbols.get((goal, depth))
        if found is None:
            found = self._symbols[goal, depth] = tuple(self._made(goal, depth))
        return found

    def _made(self, goal: Goal, depth: int) -> list[Symbol]:
        meaning = self.meaning
        normal = meaning.normal(goal)
        symbols: list[Symbol] = []
        expr = meaning.scalars.lexeme(normal.null, sorted(normal.booleans), normal.numbers, normal.texts)
        if not meaning.pool.is_empty(expr):
            symbols.append(Terminal(expr, name="value"))
        for array in normal.arrays:
            if meaning.alive_record(array):
                symbols.append(self._rule(meaning.array_plan(array), depth))
        for record in normal.objects:
            if meaning.alive_record(record):
                symbols.append(self._rule(meaning.object_plan(record), depth))
        return symbols

    def _rule(self, plan: ArrayPlan | ObjectPlan, depth: int) -> Rule:
        key = id(plan), depth
        rule = self._rules.get(key)
        if rule is None:
            rule = ObjectRule(self, plan, depth) if isinstance(plan, ObjectPlan) else ArrayRule(self, plan, depth)
            self._rules[key] = rule
        return rule

    def key(self, content: int, depth: int, first: bool, name: str | None) -> Terminal:
        """The lexeme of a member's key."""
        place = content, depth if self.layout.deep else 0, first or self.layout.free
        found = self._keys.get(place)
        if found is None:
            shown = "a key" if name is None else repr(name)
            found = self._keys[place] = self.layout.key(json_string(self.meaning.pool, content), depth, first, shown)
        return found


class ValueRule(Rule):
    """A whole text: one value of a goal, without blanks around it."""

    def __init__(self, writer: Writer, goal: Goal) -> None:
        self.writer, self.goal, self.name = writer, goal, "json"

    @property
    def start(self) -> Hashable:
        return "start"

    def expand(self, key: Hashable) -> State:
        if key == "end":
            return State([], final=True)
        return State([(symbol, "end") for symbol in self.writer.symbols(self.goal, 0)])
