"""Arrays: which element may come next, and what must still come.

As for objects (:mod:`.objects`), but positions stand in for keys. A state is the number of elements (as far as it
matters), how many of them satisfy each counted schema (``contains``), which clauses are still open, and the values
that a later element must not have (``uniqueItems``), or that one must have (its negation). Elements whose values matter
are written inline (:mod:`.inline`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LimitError
from ..rules import Rule, State, Symbol
from .effort import bounded
from .inline import Done, Move, Place
from .normal import ANYTHING, NOTHING, ArrayRecord, Event, Goal, conjunction, opposites
from .values import Value

if TYPE_CHECKING:
    from .algebra import Algebra
    from .writer import Writer

__all__ = ["ArrayPlan", "ArrayRule", "Element", "Spot"]

Used = frozenset[Value]
_NONE: Used = frozenset()


class Spot(NamedTuple):
    """What matters of the elements written so far.

    Attributes:
        size: their number, as far as it matters.
        counts: how often each counted schema was met.
        open: bit set of the clauses that nothing satisfies yet.
        used: where elements are unique, the values used. Where two must be equal: nothing, then the value that
            must come again, ``None`` when it has come.
    """

    size: int
    counts: tuple[int, ...]
    open: int
    used: Used | None


class Element(NamedTuple):
    """One way to go on: what the next element must satisfy, and where that leads.

    ``banned``: the values it must not have, where its value is remembered; else ``None``.
    """

    goal: Goal
    after: Spot
    banned: Used | None


class Family(NamedTuple):
    """The goals of elements that have few values; values in the same goals form a class, and any is as good as another.

    Attributes:
        classes: the values.
        of: the class of each value.
        goals: the classes of each goal; goals with many values are missing.
    """

    classes: list[Used]
    of: dict[Value, int]
    goals: dict[Goal, tuple[int, ...]]


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
        self._elements: dict[Spot, list[Element]] = {}
        self._families: dict[int, Family] = {}
        self._seconds: dict[Spot, list[Goal]] = {}
        few = [event.lo + 1 for clause in self.clauses for event in clause]
        self.past = max([record.least, len(record.prefix), *few])
        self.room = max([record.least, *few]) + len(self.clauses) + sum(lo for _, lo, _ in record.counters)

    @property
    def start(self) -> Spot:
        return self._tidy(0, tuple(0 for _ in self.record.counters), (1 << len(self.clauses)) - 1, _NONE)

    def _tidy(self, index: int, counts: tuple[int, ...], still: int, used: Used | None) -> Spot:
        for i, clause in enumerate(self.clauses):
            if still >> i & 1 and any(e.kind == "more" and index > e.lo for e in clause):
                still &= ~(1 << i)
        return Spot(min(index, self.cap), counts, still, used)

    def elements(self, spot: Spot) -> list[Element]:
        """Every way to go on with one more element. (Whether one has a value that is not banned is not said.)"""
        found = self._elements.get(spot)
        if found is None:
            steps = ((goal, after) for goal, after in self._steps(spot) if self.meaning.alive(goal))
            if self.record.unique:
                found = list(self._unlike(spot, steps))
            elif self.record.repeats:
                found = list(self._alike(spot, steps))
            else:
                found = [Element(goal, after, None) for goal, after in steps if self.completable(after)]
            self._elements[spot] = found
        return found

    def soonest(self, spot: Spot) -> list[Element]:
        """Elements among which a shortest completion goes on: where the number of elements wants no more, those that settle something."""
        elements = self.elements(spot)
        if spot.size < self.past:
            return elements
        useful = [e for e in elements if e.after.open != spot.open or e.after.counts != spot.counts or self._pairs(e, spot)]
        return useful or elements

    def _pairs(self, element: Element, spot: Spot) -> bool:
        return self.record.repeats and (element.banned is not None or element.after.used != spot.used)

    def remembered(self, element: Element, value: Value) -> Spot:
        """Where an element whose value matters leads."""
        after = element.after
        if after.used is None or self._last(after):
            return after
        return after._replace(used=after.used | {value})

    def _last(self, spot: Spot) -> bool:
        return self.record.most is not None and spot.size >= self.record.most

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
            step = value, self._tidy(spot.size + 1, tuple(counts), still, spot.used)
            if value != NOTHING and step not in seen:
                seen.add(step)
                yield step

    # ------------------------------------------------------------ no two elements equal
    def _unlike(self, spot: Spot, steps: Iterator[tuple[Goal, Spot]]) -> Iterator[Element]:
        for goal, after in steps:
            if not self.completable(after):
                continue
            assert spot.used is not None
            banned = spot.used | self._fatal(after)
            if self._last(after):
                yield Element(goal, after._replace(used=_NONE), banned or None)
            else:
                yield Element(goal, after, banned)

    def _fatal(self, after: Spot) -> Used:
        """The values that others need to come after: with one of them used up the array could not be completed."""
        if self.final(after):
            return _NONE
        assert after.used is not None
        found: set[Value] = set()
        for values in self.family(len(after.used) + 1).classes:
            left = values - after.used
            if left and not self.completable(after._replace(used=after.used | {next(iter(left))})):
                found |= left
        return frozenset(found)

    def family(self, used: int) -> Family:
        """The goals that so many used values, and those that must still come, may exhaust."""
        if self.room + used < 2:
            return Family([], {}, {})
        most = 8
        while most < self.room + used:
            most *= 2
        family = self._families.get(most)
        if family is None:
            few, settled = self.meaning.settled(lambda: self._few(most))
            signatures: dict[Value, list[Goal]] = {}
            for goal, values in few.items():
                for value in values:
                    signatures.setdefault(value, []).append(goal)
            classes: dict[tuple[Goal, ...], set[Value]] = {}
            for value, goals in signatures.items():
                classes.setdefault(tuple(goals), set()).add(value)
            number = {goals: i for i, goals in enumerate(classes)}
            family = Family(
                [frozenset(values) for values in classes.values()],
                {value: number[tuple(goals)] for value, goals in signatures.items()},
                {goal: tuple(i for goals, i in number.items() if goal in goals) for goal in few},
            )
            if settled:
                self._families[most] = family
        return family

    def _few(self, most: int) -> dict[Goal, Used]:
        found = {goal: self.meaning.few(goal, most) for goal in dict.fromkeys(self.goals()) if goal != NOTHING}
        return {goal: values for goal, values in found.items() if values is not None}

    def _can_differ(self, spot: Spot) -> bool:
        """Whether elements can follow until the array may end; those with many values can always be told apart from the others."""
        assert spot.used is not None
        family = self.family(len(spot.used))
        counts = [0] * len(family.classes)
        for value in spot.used:
            if value in family.of:
                counts[family.of[value]] += 1
        first = spot._replace(used=_NONE)
        return self.meaning.settle(("differ", id(self), first, *counts), lambda: self._differ(first, family, tuple(counts)))

    def _differ(self, first: Spot, family: Family, counts: tuple[int, ...]) -> bool:
        seen, todo = {(first, counts)}, [(first, counts)]
        while todo:
            at, counts = todo.pop()
            if self.final(at):
                return True
            for goal, after in self._steps(at):
                if not self.meaning.alive(goal):
                    continue
                options = [counts]
                if goal in family.goals:
                    free = [i for i in family.goals[goal] if counts[i] < len(family.classes[i])]
                    options = [(*counts[:i], counts[i] + 1, *counts[i + 1 :]) for i in free]
                for state in ((after, option) for option in options):
                    if state not in seen:
                        seen.add(state)
                        todo.append(state)
            if len(seen) > self.meaning.limits.schema_size:
                raise LimitError("schema_size", self.meaning.limits.schema_size, "(states of an array)")
        return False

    # ------------------------------------------------------------ some two elements equal
    def _alike(self, spot: Spot, steps: Iterator[tuple[Goal, Spot]]) -> Iterator[Element]:
        """An element is one of the two, or none of them."""
        for goal, after in steps:
            yield from self._pair(spot, goal, after)
            if self.completable(after):
                yield Element(goal, after, None)

    def _pair(self, spot: Spot, goal: Goal, after: Spot) -> Iterator[Element]:
        if spot.used is None:
            return
        if not spot.used:
            for second in self.seconds(after):
                if self.meaning.alive(conjunction(goal, second)):
                    yield Element(conjunction(goal, second), after, _NONE)
            return
        again = conjunction(goal, *map(self.meaning.only, spot.used))
        done = after._replace(used=None)
        if self.meaning.alive(again) and self.completable(done):
            yield Element(again, done, None)

    def seconds(self, spot: Spot) -> list[Goal]:
        """What the second of two equal elements may have to satisfy, the first being written."""
        found = self._seconds.get(spot)
        if found is None:
            later, settled = self.meaning.settled(lambda: self._later(spot))
            if not settled:
                return later
            found = self._seconds[spot] = later
        return found

    def _later(self, spot: Spot) -> list[Goal]:
        goals: dict[Goal, None] = {}
        for at in self._reachable(spot):
            for goal, after in self._steps(at):
                if goal not in goals and self.completable(after._replace(used=None)):
                    goals[goal] = None
        return list(goals)

    def _reachable(self, spot: Spot) -> Iterator[Spot]:
        seen, todo = {spot}, [spot]
        while todo:
            at = todo.pop()
            yield at
            for goal, after in self._steps(at):
                if after not in seen and self.meaning.alive(goal):
                    seen.add(after)
                    todo.append(after)
            if len(seen) > self.meaning.limits.schema_size:
                raise LimitError("schema_size", self.meaning.limits.schema_size, "(states of an array)")

    def _can_repeat(self, spot: Spot) -> bool:
        assert spot.used is not None
        only = conjunction(*map(self.meaning.only, spot.used), ANYTHING)
        for at in self._reachable(spot):
            for goal, after in self._steps(at):
                wanted = [only] if spot.used else self.seconds(after)
                if spot.used and not self.completable(after._replace(used=None)):
                    continue
                if any(self.meaning.alive(conjunction(goal, second)) for second in wanted):
                    return True
        return False

    # ------------------------------------------------------------ all of it
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
        if self.record.repeats and spot.used is not None:
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
        if self.plain or self.final(spot):
            return True
        if self.record.unique:
            return self._can_differ(spot)
        if self.record.repeats and spot.used is not None:
            return self.meaning.settle(("repeat", id(self), spot), lambda: self._can_repeat(spot))
        return self.meaning.settle(("elements", id(self), spot), lambda: any(map(self.final, self._reachable(spot))))


def _met_at_end(event: Event, spot: Spot) -> bool:
    return event.kind == "fewer" and spot.size < event.lo


@dataclass(frozen=True)
class _Reader:
    """Where a lexeme of an element leads whose value is remembered."""

    rule: ArrayRule
    element: Element
    place: Place
    move: Move

    def __call__(self, lexeme: bytes) -> Hashable:
        after = self.rule.writer.inline.after(self.place, self.move, lexeme)
        if isinstance(after, Done):
            return "after", self.rule.plan.remembered(self.element, after.value)
        return "inside", self.element, after


class ArrayRule(Rule):
    """The texts of the arrays of one record, at one depth. States are made when generation reaches them."""

    def __init__(self, writer: Writer, plan: ArrayPlan, depth: int) -> None:
        self.writer, self.plan, self.depth = writer, plan, depth
        self.name = "array"
        self._known: dict[Spot, list[tuple[Symbol, Hashable]]] = {}

    @property
    def start(self) -> Hashable:
        return "start"

    @bounded
    def expand(self, key: Hashable) -> State:
        layout = self.writer.layout
        if key == "start":
            return State([(layout.opening("["), ("first", self.plan.start))])
        if key == "end":
            return State([], final=True)
        assert isinstance(key, tuple)
        kind, spot = key[0], key[1]
        if kind == "inside":
            return State(self._inside(key[1], key[2]), skip=layout.skip)
        if kind == "element":
            return State(self._values(spot), skip=layout.skip)
        edges: list[tuple[Symbol, Hashable]] = []
        first = kind == "first"
        before = layout.before_element(self.depth, first)
        if before is None:
            edges += self._values(spot)
        elif self._goes_on(spot):
            edges.append((before, ("element", spot)))
        if self.plan.final(spot):
            edges.append((layout.closing("]", self.depth, first), "end"))
        return State(edges, skip=layout.skip)

    @bounded
    def shortest(self, key: Hashable, state: State) -> Sequence[tuple[Symbol, Hashable]]:
        if not isinstance(key, tuple):
            return state.edges
        if key[0] == "inside":
            return self._inside(key[1], key[2], nearest=True)
        if key[0] != "element" and self.plan.final(key[1]):
            return state.edges[-1:]  # the closing bracket
        if key[0] == "element" or self.writer.layout.before_element(self.depth, key[0] == "first") is None:
            return self._soonest(key[1]) or state.edges
        return state.edges

    def _soonest(self, spot: Spot) -> list[tuple[Symbol, Hashable]]:
        found: list[tuple[Symbol, Hashable]] = []
        for element in self.plan.soonest(spot):
            if element.banned is None:
                found += [(symbol, ("after", element.after)) for symbol in self.writer.symbols(element.goal, self.depth + 1)]
            else:
                found += self._inside(element, self.writer.inline.start(element.goal, self.depth + 1), nearest=True)
        return found

    def _goes_on(self, spot: Spot) -> bool:
        """Whether an element may come: asked far more often than which."""
        inline, depth = self.writer.inline, self.depth + 1
        return any(
            bool(self.writer.symbols(goal, depth)) if banned is None else inline.alive(inline.start(goal, depth), banned)
            for goal, _, banned in self.plan.elements(spot)
        )

    def _values(self, spot: Spot) -> list[tuple[Symbol, Hashable]]:
        found = self._known.get(spot)
        if found is None:
            found = []
            for element in self.plan.elements(spot):
                if element.banned is None:
                    found += [(symbol, ("after", element.after)) for symbol in self.writer.symbols(element.goal, self.depth + 1)]
                else:
                    found += self._inside(element, self.writer.inline.start(element.goal, self.depth + 1))
            self._known[spot] = found
        return found

    def _inside(self, element: Element, place: Place, nearest: bool = False) -> list[tuple[Symbol, Hashable]]:
        """The next lexemes of an element whose value is remembered."""

        def reader(place: Place, move: Move) -> Callable[[bytes], Hashable]:
            return _Reader(self, element, place, move)

        inline = self.writer.inline
        return list((inline.nearest if nearest else inline.edges)(place, element.banned or _NONE, reader))
