"""Look-ahead in objects: whether what a state leaves open can still be met, all of it together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import LimitError
from .effort import RECORD
from .normal import Clause, Event, Goal, Name, conjunction

if TYPE_CHECKING:
    from .objects import Cell, ObjectPlan, Where

__all__ = ["STEPS", "Completion", "Promise"]

STEPS = 20_000


@dataclass(frozen=True)
class Promise:
    """What the members still to come are bound to.

    Attributes:
        goals: names that will be written, and what their values will satisfy.
        extra: further members without a name of their own: the cell of the key, and what the value will satisfy.
        absent: names that will not be written.
        least, most: bounds on the number of members in all.
    """

    goals: dict[str, Goal]
    extra: tuple[tuple[int, Goal], ...]
    absent: frozenset[str]
    least: int
    most: int | None


class Completion:
    """Search for a way to complete an object: an event for every open clause such that all fit together.

    The clause with the fewest possible events is decided first (as in Davis, Logemann, Loveland 1962), so that contradictions show early.
    """

    def __init__(self, plan: ObjectPlan, where: Where) -> None:
        self.plan, self.where, self.steps = plan, where, 0
        self.names = dict.fromkeys(plan.available(where))
        plan.pool.charge(RECORD + len(self.names))
        self.needed = [name for name in self.names if name in plan.record.required]
        self.open: list[Clause] = [clause for i, clause in enumerate(plan.clauses) if where.open >> i & 1]

    def possible(self) -> bool:
        """Whether there is a way; one that was found for another state is tried first."""
        for promise in self.plan.promises:
            if self._keeps(promise):
                return True
        record = self.plan.record
        goals = {name: self.plan.goal(name) for name in self.needed}
        found = self._choose(self.open, Promise(goals, (), frozenset(), record.least, record.most))
        if found is not None:
            self.plan.promises.appendleft(found)
        return found is not None

    def _keeps(self, promise: Promise) -> bool:
        """Whether a promise made elsewhere can be kept from here, and is enough."""
        plan, goals = self.plan, promise.goals
        if any(name not in goals for name in self.needed) or any(name not in self.names for name in goals):
            return False
        if any(self.where.seen & plan.bit[name] for name in promise.absent) or not self._fits(promise):
            return False
        cells = [number for number, _ in promise.extra]
        if any(plan.unused(self.where, plan.cells[n], cells.count(n)) < cells.count(n) for n in set(cells)):
            return False
        return all(any(self._outcome(event, promise) is True for event in clause) for clause in self.open) and self._enough(promise)

    def _fits(self, promise: Promise) -> bool:
        return promise.most is None or max(self._size(promise), promise.least) <= promise.most

    def _choose(self, clauses: Sequence[Clause], promise: Promise) -> Promise | None:
        self.steps += 1
        self.plan.pool.charge(RECORD + len(clauses) + len(promise.goals))
        if self.steps > STEPS:
            raise LimitError("schema_size", self.plan.meaning.limits.schema_size, "(ways to satisfy the negations in an object)")
        if not self._fits(promise):
            return None
        pending: list[tuple[Clause, list[Event]]] = []
        for clause in clauses:
            outcomes = [(event, self._outcome(event, promise)) for event in clause]
            if any(outcome is True for _, outcome in outcomes):
                continue
            viable = [event for event, outcome in outcomes if outcome is None]
            if not viable:
                return None
            pending.append((clause, viable))
        if not pending:
            return promise if self._enough(promise) else None
        pending.sort(key=lambda p: len(p[1]))
        rest = [clause for clause, _ in pending[1:]]
        ways = (self._choose(rest, after) for event in pending[0][1] for after in self._make(event, promise))
        return next((way for way in ways if way is not None), None)

    def _size(self, promise: Promise) -> int:
        return self.where.size + len(promise.goals) + len(promise.extra)

    def _outcome(self, event: Event, promise: Promise) -> bool | None:
        """Whether the event will happen, cannot happen any more, or (``None``) may."""
        if event.kind == "fewer":
            if promise.most is not None and promise.most < event.lo:
                return True
            return False if max(self._size(promise), promise.least) >= event.lo else None
        if event.kind == "more":
            if promise.least > event.lo:
                return True
            return False if promise.most is not None and promise.most <= event.lo else None
        if not isinstance(event.keys, Name):
            return None
        name = event.keys.name
        if event.kind == "absent":
            if name in promise.absent:
                return True
            return False if name in promise.goals or self.where.seen & self.plan.bit[name] else None
        if name in promise.absent or name not in self.names:
            return False
        if name in promise.goals and event.goal <= promise.goals[name]:
            return True
        return None if self.plan.meaning.alive(self._with(name, event.goal, promise)) else False

    def _with(self, name: str, goal: Goal, promise: Promise) -> Goal:
        return conjunction(promise.goals.get(name, self.plan.goal(name)), goal)

    def _make(self, event: Event, promise: Promise) -> Iterator[Promise]:
        """Ways to make an event happen."""
        if event.kind == "fewer":
            yield replace(promise, most=event.lo - 1 if promise.most is None else min(promise.most, event.lo - 1))
            return
        if event.kind == "more":
            yield replace(promise, least=max(promise.least, event.lo + 1))
            return
        plan, alive = self.plan, self.plan.meaning.alive
        assert event.keys is not None
        if event.kind == "absent":
            assert isinstance(event.keys, Name)
            yield replace(promise, absent=promise.absent | {event.keys.name})
            return
        for name in [event.keys.name] if isinstance(event.keys, Name) else [n for n in self.names if plan.holds(event.keys, n)]:
            if name in self.names and name not in promise.absent:
                goal = self._with(name, event.goal, promise)
                if alive(goal):
                    yield replace(promise, goals={**promise.goals, name: goal})
        for cell in plan.cells:
            if plan.holds_cell(event.keys, cell.patterns):
                yield from self._make_extra(cell, event.goal, promise)

    def _make_extra(self, cell: Cell, wanted: Goal, promise: Promise) -> Iterator[Promise]:
        """A member of the cell with a value of ``wanted``: one that is promised already, or one more if a key is left."""
        alive = self.plan.meaning.alive
        mine = [i for i, (number, _) in enumerate(promise.extra) if number == cell.number]
        for i in mine:
            goal = conjunction(promise.extra[i][1], wanted)
            if goal == promise.extra[i][1]:
                yield promise
            elif alive(goal):
                yield replace(promise, extra=(*promise.extra[:i], (cell.number, goal), *promise.extra[i + 1 :]))
        goal = conjunction(cell.goal, wanted)
        if alive(goal) and self.plan.unused(self.where, cell, len(mine) + 1) > len(mine):
            yield replace(promise, extra=(*promise.extra, (cell.number, goal)))

    def _enough(self, promise: Promise) -> bool:
        """Whether there are keys for the least number of members."""
        alive, plan = self.plan.meaning.alive, self.plan
        missing = promise.least - self._size(promise)
        for name in self.names:
            if missing > 0 and name not in promise.goals and name not in promise.absent and alive(plan.goal(name)):
                missing -= 1
        for cell in plan.cells:
            if missing > 0 and alive(cell.goal):
                mine = sum(number == cell.number for number, _ in promise.extra)
                missing -= plan.unused(self.where, cell, mine + missing) - mine
        return missing <= 0
