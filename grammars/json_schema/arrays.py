"""Arrays: which element may come next, and what must still come.

As for objects (:mod:`.objects`), but positions stand in for keys. A state is the number of elements (as far as it
matters), how many of them satisfy each counted schema (``contains``) and which clauses are still open.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LimitError, SchemaError
from ..rules import Rule, State, Symbol
from .normal import ANYTHING, NOTHING, ArrayRecord, Event, Goal, conjunction, opposites

if TYPE_CHECKING:
    from .algebra import Algebra
    from .writer import Writer

__all__ = ["ArrayPlan", "ArrayRule", "Spot"]


class Spot(NamedTuple):
    """What matters of the elements written so far.

    Attributes:
        size: their number, as far as it matters.
        counts: how often each counted schema was met.
        open: bit set of the clauses that nothing satisfies yet.
        used: bit set of the values used, where elements are compared; -1 once two were equal that had to be.
    """

    size: int
    counts: tuple[int, ...]
    open: int
    used: int


class ArrayPlan:
    """What is worked out about one record, once.

    Args:
        meaning: the schema's normal forms.
        record: the arrays.
    """

    def __init__(self, meaning: Algebra, record: ArrayRecord) -> None:
        self.meaning, self.record = meaning, record
        self.clauses = record.clauses
        bounds = [len(record.prefix), record.least, record.most or 0]
        for clause in self.clauses:
            for event in clause:
                bounds.append(event.lo + 1)
                bounds.append(event.hi or 0)
        self.cap = max(bounds)
        self.plain = not self.clauses and not record.counters and not record.unique and not record.repeats
        self._elements: dict[Spot, list[tuple[Goal, Spot]]] = {}

    @property
    def start(self) -> Spot:
        return self._tidy(0, tuple(0 for _ in self.record.counters), (1 << len(self.clauses)) - 1, 0)

    @cached_property
    def values(self) -> list[Goal] | None:
        """The values that elements may have, where they are compared; ``None`` where these are not finitely many scalars."""
        found: dict[Goal, None] = {}
        last = len(self.record.prefix) if self.record.most is None else min(self.record.most - 1, len(self.record.prefix))
        for index in range(last + 1):
            some = self.meaning.constants(self.record.goal(index))
            if some is None:
                return None
            found.update(dict.fromkeys(some))
        return list(found)

    def _compared(self, goal: Goal, used: int) -> Iterator[tuple[Goal, int]]:
        """``goal`` narrowed to each value that may come, and the values used then."""
        if not (self.record.unique or self.record.repeats) or self.values is None:
            yield goal, used
            return
        for i, value in enumerate(self.values):
            bit = 1 << i
            narrow = conjunction(goal, value)
            if narrow == NOTHING or (self.record.unique and used & bit) or not self.meaning.alive(narrow):
                continue
            yield narrow, -1 if self.record.repeats and used & bit else used | bit

    def refuse_if_infinite(self, pointer: str) -> None:
        """Elements are compared only where they have finitely many values.

        Raises:
            SchemaError: naming the keyword.
        """
        if (self.record.unique or self.record.repeats) and self.values is None:
            message = "'uniqueItems' is supported only where elements have finitely many scalar values: others are not remembered"
            raise SchemaError(message, pointer, "uniqueItems")

    def _tidy(self, index: int, counts: tuple[int, ...], still: int, used: int) -> Spot:
        for i, clause in enumerate(self.clauses):
            if still >> i & 1 and any(e.kind == "more" and index > e.lo for e in clause):
                still &= ~(1 << i)
        return Spot(min(index, self.cap), counts, still, used)

    def elements(self, spot: Spot) -> list[tuple[Goal, Spot]]:
        """Every way to go on with one more element: what it must satisfy, and where that leads."""
        found = self._elements.get(spot)
        if found is None:
            found = [step for step in self._steps(spot) if self.meaning.alive(step[0]) and self.completable(step[1])]
            self._elements[spot] = found
        return found

    def _steps(self, spot: Spot) -> Iterator[tuple[Goal, Spot]]:
        record = self.record
        if record.most is not None and spot.size >= record.most:
            return
        goal = record.goal(spot.size)
        if goal == NOTHING:
            return
        choices: list[list[tuple[Goal, int, int]]] = []  # (what holds, which counter goes up or -1, which clauses close)
        for i, (counted, lo, hi) in enumerate(record.counters):
            ways: list[tuple[Goal, int, int]] = []
            if spot.counts[i] < (lo if hi is None else hi):
                ways.append((counted, i, 0))
            ways += [(ANYTHING, -1, 0)] if hi is None else [(g, -1, 0) for g in opposites(counted)]
            choices.append(ways)
        for i, clause in enumerate(self.clauses):
            if spot.open >> i & 1:
                events = [e for e in clause if e.kind == "has" and e.lo <= spot.size and (e.hi is None or spot.size < e.hi)]
                choices.append([(ANYTHING, -1, 0), *((e.goal, -1, 1 << i) for e in events)])
        seen = set()
        for choice in product(*choices):
            value = conjunction(goal, *(g for g, _, _ in choice))
            counts, still = list(spot.counts), spot.open
            for _, counter, closed in choice:
                if counter >= 0:
                    counts[counter] += 1
                still &= ~closed
            for narrow, used in self._compared(value, spot.used):
                step = narrow, self._tidy(spot.size + 1, tuple(counts), still, used)
                if narrow != NOTHING and step not in seen:
                    seen.add(step)
                    yield step

    def goals(self) -> Iterator[Goal]:
        """What elements may have to satisfy, in any state."""
        record = self.record
        for index in range(len(record.prefix) + 1):
            choices: list[list[Goal]] = [[ANYTHING, counted, *opposites(counted)] for counted, _, _ in record.counters]
            choices += [[ANYTHING, *(e.goal for e in clause if e.kind == "has")] for clause in self.clauses]
            for choice in product(*choices):
                yield conjunction(record.goal(index), *choice, ANYTHING)

    def final(self, spot: Spot) -> bool:
        """Whether the array may end here."""
        if self.record.repeats and spot.used != -1 and self.values is not None:
            return False
        if spot.size < self.record.least or any(n < lo for n, (_, lo, _) in zip(spot.counts, self.record.counters, strict=True)):
            return False
        return all(any(_met_at_end(e, spot) for e in clause) for i, clause in enumerate(self.clauses) if spot.open >> i & 1)

    @property
    def alive(self) -> bool:
        """Whether there is such an array at all."""
        return self.meaning.settle(("array", id(self)), self._alive)

    def needed(self) -> list[Goal]:
        """What must have an instance for there to be such an array."""
        return [self.record.goal(i) for i in range(min(self.record.least, len(self.record.prefix) + 1))]

    def _alive(self) -> bool:
        if self.record.most is not None and self.record.least > self.record.most:
            return False
        if self.record.unique and self.record.repeats:
            return False
        if not all(map(self.meaning.alive, self.needed())):
            return False
        return self.completable(self.start)

    def completable(self, spot: Spot) -> bool:
        """Whether the array can be completed from here."""
        return self.plain or self.meaning.settle(("elements", id(self), spot), lambda: self._reaches_end(spot))

    def _reaches_end(self, spot: Spot) -> bool:
        seen, todo = {spot}, [spot]
        while todo:
            at = todo.pop()
            if self.final(at):
                return True
            for goal, after in self._steps(at):
                if after not in seen and self.meaning.alive(goal):
                    seen.add(after)
                    todo.append(after)
            if len(seen) > self.meaning.limits.schema_size:
                raise LimitError("schema_size", self.meaning.limits.schema_size, "(states of an array)")
        return False


def _met_at_end(event: Event, spot: Spot) -> bool:
    return event.kind == "fewer" and spot.size < event.lo


class ArrayRule(Rule):
    """The texts of the arrays of one record, at one depth. States are made when generation reaches them."""

    def __init__(self, writer: Writer, plan: ArrayPlan, depth: int) -> None:
        self.writer, self.plan, self.depth = writer, plan, depth
        self.name = "array"

    @property
    def start(self) -> Hashable:
        return "start"

    def expand(self, key: Hashable) -> State:
        layout = self.writer.layout
        if key == "start":
            return State([(layout.opening("["), ("first", self.plan.start))])
        if key == "end":
            return State([], final=True)
        assert isinstance(key, tuple)
        kind, spot = key[0], key[1]
        if kind == "element":
            return State(list(self._values(spot)), skip=layout.skip)
        edges: list[tuple[Symbol, Hashable]] = []
        first = kind == "first"
        before = layout.before_element(self.depth, first)
        if before is None:
            edges += self._values(spot)
        elif self.plan.elements(spot):
            edges.append((before, ("element", spot)))
        if self.plan.final(spot):
            edges.append((layout.closing("]", self.depth, first), "end"))
        return State(edges, skip=layout.skip)

    def shortest(self, key: Hashable, state: State) -> Sequence[tuple[Symbol, Hashable]]:
        if isinstance(key, tuple) and key[0] != "element" and self.plan.final(key[1]):
            return state.edges[-1:]  # the closing bracket
        return state.edges

    def _values(self, spot: Spot) -> Iterator[tuple[Symbol, Hashable]]:
        for goal, after in self.plan.elements(spot):
            for symbol in self.writer.symbols(goal, self.depth + 1):
                yield symbol, ("after", after)
