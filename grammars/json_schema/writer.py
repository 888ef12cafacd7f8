"""From the normal form to rules: equal goals share their symbols, equal records their rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from ..rules import Rule, State, Symbol, Terminal
from .arrays import ArrayPlan, ArrayRule
from .effort import bounded
from .inline import Inline, KeyPart
from .normal import Goal
from .objects import ObjectPlan, ObjectRule
from .plain_objects import PlainObjectRule
from .scalars import Part

if TYPE_CHECKING:
    from .algebra import Algebra
    from .layout import Layout
    from .values import Value

__all__ = ["ValueRule", "Writer"]


class Writer:
    """Makes the rules of one schema in one layout.

    Args:
        meaning: its normal forms.
        layout: where blanks stand.
        strict: whether no key is ever repeated, so that a value is known from its lexemes as they come.

    Attributes:
        parts: what the lexemes of scalars and keys were made of.
    """

    def __init__(self, meaning: Algebra, layout: Layout, strict: bool = False) -> None:
        self.meaning, self.layout, self.strict = meaning, layout, strict
        self.parts: dict[Terminal, Part | KeyPart] = {}
        self._symbols: dict[tuple[Goal, int], tuple[Symbol, ...]] = {}
        self._rules: dict[tuple[int, int], Rule] = {}
        self._keys: dict[tuple[int, int, bool], Terminal] = {}
        self._values: dict[tuple[Goal, int], ValueRule] = {}

    @cached_property
    def inline(self) -> Inline:
        """Runs the rules of values that are remembered."""
        return Inline(self if self.strict else Writer(self.meaning, self.layout, True))

    def release(self) -> None:
        """Forgets all rules; see :meth:`~grammars.rules.Rule.release`."""
        for known in (self._symbols, self._rules, self._values):
            known.clear()
        inline = self.__dict__.pop("inline", None)
        if inline is not None and inline.writer is not self:
            inline.writer.release()
        self.meaning.release()

    def symbols(self, goal: Goal, depth: int) -> tuple[Symbol, ...]:
        """What a value of ``goal`` may be: one lexeme for all scalars, one rule a record. Empty for a goal without instance."""
        depth = depth if self.layout.deep else 0
        found = self._symbols.get((goal, depth))
        if found is None:
            found = self._symbols[goal, depth] = tuple(self._made(goal, depth))
        return found

    def value(self, goal: Goal, depth: int) -> ValueRule:
        """The rule of the values of ``goal``."""
        depth = depth if self.layout.deep else 0
        found = self._values.get((goal, depth))
        if found is None:
            found = self._values[goal, depth] = ValueRule(self, goal, depth)
        return found

    def _made(self, goal: Goal, depth: int) -> list[Symbol]:
        meaning = self.meaning
        normal = meaning.normal(goal)
        symbols: list[Symbol] = []
        terminal = self.scalar(Part(normal.null, normal.booleans, normal.numbers, normal.texts))
        if terminal is not None:
            symbols.append(terminal)
        for array in normal.arrays:
            if meaning.alive_record(array):
                symbols.append(self._rule(meaning.array_plan(array), depth))
        for record in normal.objects:
            if meaning.alive_record(record):
                symbols.append(self._rule(meaning.object_plan(record, self.strict), depth))
        return symbols

    def scalar(self, part: Part, gone: Iterable[Value] = ()) -> Terminal | None:
        """The lexeme of the scalars of a part, without some; ``None`` where none is left."""
        scalars = self.meaning.scalars
        kept = scalars.part_without(part, gone)
        if scalars.part_is_empty(kept):
            return None
        terminal = Terminal(scalars.spelled(kept), name="value")
        self.parts.setdefault(terminal, kept)
        return terminal

    def _rule(self, plan: ArrayPlan | ObjectPlan, depth: int) -> Rule:
        key = id(plan), depth
        rule = self._rules.get(key)
        if rule is None:
            if isinstance(plan, ArrayPlan):
                rule = ArrayRule(self, plan, depth)
            else:
                rule = (PlainObjectRule if plan.is_plain else ObjectRule)(self, plan, depth)
            self._rules[key] = rule
        return rule

    def key(self, content: int, depth: int, first: bool, name: str | None) -> Terminal:
        """The lexeme of a member's key."""
        depth, first = depth if self.layout.deep else 0, first or self.layout.free
        place = content, depth, first
        found = self._keys.get(place)
        if found is None:
            shown = "a key" if name is None else repr(name)
            found = self._keys[place] = self.layout.key(content, depth, first, shown)
            self.parts[found] = KeyPart(content, depth, first, name)
        return found


class ValueRule(Rule):
    """One value of a goal, without blanks around it; at depth 0, a whole text."""

    def __init__(self, writer: Writer, goal: Goal, depth: int = 0) -> None:
        self.writer, self.goal, self.depth, self.name = writer, goal, depth, "json"

    @property
    def start(self) -> Hashable:
        return "start"

    def release(self) -> None:
        self.writer.release()

    @bounded
    def expand(self, key: Hashable) -> State:
        if key == "end":
            return State([], final=True)
        return State([(symbol, "end") for symbol in self.writer.symbols(self.goal, self.depth)])
