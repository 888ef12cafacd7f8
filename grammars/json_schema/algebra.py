"""Operations on normal forms, and which goals have an instance at all.

Emptiness is decided as the least fixpoint (a schema that requires itself for ever has no instance), and records without instance
vanish from products, so that no branch without instance is ever entered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import LimitError
from ..limits import Limits
from .effort import RECORD
from .normal import NOTHING, ArrayRecord, Goal, Normal, ObjectRecord, conjunction, opposites
from .scalars import Part, Scalars, all_numbers, both_numbers, either_numbers, other_numbers

if TYPE_CHECKING:
    from .arrays import ArrayPlan
    from .objects import ObjectPlan
    from .values import Value
    from .writer import Writer

__all__ = ["Algebra", "Unsettled"]

_T = TypeVar("_T")
_DEEP = 20  # open questions from which on nested ones are answered in advance


class Unsettled(Exception):
    """A schema's normal form was asked for while it is being made."""


class Algebra:
    """Union, intersection, complement and emptiness of normal forms.

    Args:
        scalars: the languages of numbers and strings.
        limits: ``schema_size`` bounds the records of one normal form.
        keep_order: whether declared members keep their order.
    """

    def __init__(self, scalars: Scalars, limits: Limits, keep_order: bool) -> None:
        self.scalars, self.limits, self.keep_order = scalars, limits, keep_order
        self.pool = scalars.pool
        both = frozenset({False, True})
        self.everything = Normal(True, both, all_numbers(), scalars.all_texts, (ArrayRecord(),), (ObjectRecord(),))
        self.nothing = Normal(False, frozenset(), (), scalars.no_texts, (), ())
        self._alive: dict[Hashable, bool] = {}
        self._simple: dict[Any, Any] = {}
        self._open: dict[Hashable, int] = {}
        self._lowest = math.inf
        self._warming = False
        self._object_plans: dict[tuple[ObjectRecord, bool], ObjectPlan] = {}
        self._array_plans: dict[ArrayRecord, ArrayPlan] = {}
        self._counted: dict[Goal, tuple[int, frozenset[Value] | None]] = {}
        self._counting: set[Goal] = set()
        self._probe: Writer | None = None
        self._put_away: list[object] = []

    def normal(self, goal: Goal) -> Normal:
        """The normal form of a goal."""
        raise NotImplementedError

    def only(self, value: Value) -> Goal:
        """The goal of one value."""
        raise NotImplementedError

    def pointer(self, goal: Goal, keywords: Sequence[str]) -> str:
        """Where a goal, or best one of ``keywords`` in it, stands in the schema, for messages."""
        raise NotImplementedError

    # ------------------------------------------------------------ operations
    def both(self, a: Normal, b: Normal) -> Normal:
        """Intersection."""
        if a is self.everything or a is b:
            return b
        if b is self.everything:
            return a
        pairs = len(a.numbers) * len(b.numbers) + len(a.arrays) * len(b.arrays) + len(a.objects) * len(b.objects)
        self.pool.charge(RECORD * pairs)
        return Normal(
            a.null and b.null,
            a.booleans & b.booleans,
            both_numbers(a.numbers, b.numbers),
            self.scalars.both(a.texts, b.texts),
            self._product(a.arrays, b.arrays),
            self._product(a.objects, b.objects),
        )

    def either(self, parts: Sequence[Normal]) -> Normal:
        """Union."""
        if len(parts) == 1:
            return parts[0]
        if any(p is self.everything for p in parts):
            return self.everything
        return Normal(
            any(p.null for p in parts),
            frozenset[bool]().union(*(p.booleans for p in parts)),
            either_numbers(p.numbers for p in parts),
            self.scalars.either([p.texts for p in parts]),
            self._sum([r for p in parts for r in p.arrays], ArrayRecord()),
            self._sum([r for p in parts for r in p.objects], ObjectRecord()),
        )

    def negate(self, a: Normal) -> Normal:
        """Complement."""
        return self.subtract(self.everything, a)

    def subtract(self, a: Normal, b: Normal) -> Normal:
        """What is in ``a`` and not in ``b``; records of ``b`` that a record of ``a`` does not meet cost nothing."""
        if b is self.everything:
            return self.nothing
        return Normal(
            a.null and not b.null,
            a.booleans - b.booleans,
            both_numbers(a.numbers, other_numbers(b.numbers)),
            self.scalars.both(a.texts, self.scalars.without(b.texts)),
            self._difference(a.arrays, b.arrays),
            self._difference(a.objects, b.objects),
        )

    def _difference(self, records: Sequence[Any], removed: Sequence[Any]) -> tuple[Any, ...]:
        for other in removed:
            self.pool.charge(RECORD * (1 + len(records)))
            outside = other.opposite()
            kept: dict[Any, None] = {}
            for record in records:
                meeting = self._simplified(record.both(other))
                if meeting is None or not self._perhaps(partial(self.alive_record, meeting)):
                    kept[record] = None
                else:
                    kept.update(dict.fromkeys(self._product([record], outside)))
            records = self._bounded(list(kept))
        return tuple(records)

    def _product(self, a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
        found = dict.fromkeys(self._simplified(x.both(y)) for x in a for y in b)
        found.pop(None, None)
        if len(found) > 1:  # what is empty may multiply, so it goes at once where that can be told
            return tuple(self._bounded([record for record in found if self._perhaps(partial(self.alive_record, record))]))
        return tuple(found)

    def _simplified(self, record: Any) -> Any:
        """The record with what its clauses leave open reduced; ``None`` where a clause cannot be met."""
        from .simplify import simplified

        if not record.clauses:
            return record
        if record not in self._simple:
            self._simple[record] = simplified(self, record)
        return self._simple[record]

    def never(self, goal: Goal) -> bool:
        """Whether ``goal`` certainly has no instance, as far as that can be told now."""
        return goal == NOTHING or (bool(goal) and not self._perhaps(partial(self.alive, goal)))

    def always(self, goal: Goal, other: Goal) -> bool:
        """Whether every value of ``goal`` certainly satisfies ``other``, as far as that can be told now."""
        return other <= goal or all(self.never(conjunction(goal, g)) for g in opposites(other - goal))

    def _sum(self, records: Sequence[Any], full: Any) -> tuple[Any, ...]:
        found = dict.fromkeys(records)
        return (full,) if full in found else tuple(self._bounded(list(found)))

    def _bounded(self, records: list[Any]) -> list[Any]:
        self.pool.charge(RECORD * len(records))
        if len(records) > self.limits.schema_size:
            raise LimitError("schema_size", self.limits.schema_size, "(alternatives of one type in a schema's normal form)")
        return records

    def _perhaps(self, question: Callable[[], bool]) -> bool:
        """Whether something has an instance, as far as that can be told now.

        The answer decides what goes into a normal form for good, so where it depends on what is being made or asked, it is yes.
        """
        outer, self._lowest = self._lowest, math.inf
        try:
            return question() or self._lowest < math.inf
        except Unsettled:
            return True
        finally:
            self._lowest = outer

    def perhaps(self, normal: Normal) -> bool:
        """Whether a set may have a member, as far as that can be told now."""
        return self._perhaps(lambda: self._alive_normal(normal))

    def _overlap(self, a: Normal, b: Normal) -> bool:
        """Whether two sets may have a value in common."""
        return self.perhaps(self.both(a, b))

    # ------------------------------------------------------------ in advance
    def explore(self, goal: Goal, risky: set[int]) -> None:
        """Makes every record that ``goal`` reaches through negations, so that limits are met now and not while a text is written.

        Args:
            goal: of the whole schema.
            risky: numbers of the schemas that lead to negations.

        Raises:
            LimitError: a normal form is too big.
        """
        seen, todo = {goal}, [goal]
        while todo:
            at = todo.pop()
            if not self.alive(at):
                continue
            normal = self.normal(at)
            found: list[Goal] = []
            for array in normal.arrays:
                if self.alive_record(array):
                    found += self.array_plan(array).goals()
            for record in normal.objects:
                if self.alive_record(record):
                    found += self.object_plan(record).goals()
            for new in found:
                if new not in seen:
                    seen.add(new)
                    if any(literal & 1 or literal >> 1 in risky for literal in new):
                        todo.append(new)

    # ------------------------------------------------------------ counting
    def few(self, goal: Goal, most: int) -> frozenset[Value] | None:
        """The values of ``goal``, or ``None`` if there are more than ``most``."""
        normal = self.normal(goal)
        scalars = self.scalars.few(Part(normal.null, normal.booleans, normal.numbers, normal.texts), most)
        if scalars is None or not (any(map(self.alive_record, normal.arrays)) or any(map(self.alive_record, normal.objects))):
            return scalars
        known = self._counted.get(goal)
        if known is not None and (known[1] is not None or known[0] >= most):
            return known[1] if known[1] is None or len(known[1]) <= most else None
        if goal in self._counting:  # its values can hold each other
            return None
        self._counting.add(goal)
        try:
            found, settled = self.settled(lambda: self._count(goal, most))
        finally:
            self._counting.remove(goal)
        if settled:
            self._counted[goal] = most, found
        return found

    def _count(self, goal: Goal, most: int) -> frozenset[Value] | None:
        """Counts by rules, which are put away if answers they rest on may yet change."""
        from .layout import Layout, Whitespace
        from .writer import Writer

        if self._probe is not None and not self._open:
            return self._probe.inline.few(goal, most)
        plans = self._object_plans, self._array_plans
        probe = Writer(self, Layout(self.pool, Whitespace("compact")), strict=True)
        if not self._open:
            self._probe = probe
        else:
            self._object_plans, self._array_plans = {}, {}
            self._put_away += [probe, self._object_plans, self._array_plans]
        try:
            return probe.inline.few(goal, most)
        finally:
            self._object_plans, self._array_plans = plans

    def settled(self, answer: Callable[[], _T]) -> tuple[_T, bool]:
        """An answer, and whether it stands for good: none of the open questions bears on it."""
        outer, self._lowest = self._lowest, math.inf
        try:
            result = answer()
            return result, self._lowest == math.inf
        finally:
            self._lowest = min(outer, self._lowest)

    def release(self) -> None:
        """Forgets what was worked out about records, whose plans point back here."""
        self._object_plans.clear()
        self._array_plans.clear()

    # ------------------------------------------------------------ emptiness
    def alive(self, goal: Goal) -> bool:
        """Whether some value satisfies ``goal``."""
        if not goal:
            return True
        if 1 in goal:
            return False
        if len(self._open) > _DEEP and ("goal", goal) not in self._alive and not self._warming:
            self._warm(goal)
        return self.settle(("goal", goal), lambda: self._alive_normal(self.normal(goal)), fixpoint=True)

    def _warm(self, goal: Goal) -> None:
        """Settles what a goal surely depends on, innermost first, so that nesting does not become recursion."""
        self._warming = True
        try:
            order, seen, todo = [goal], {goal}, [goal]
            while todo:
                normal = self.normal(todo.pop())
                needed = [goal for array in normal.arrays for goal in self.array_plan(array).needed()]
                needed += [goal for record in normal.objects for goal in self.object_plan(record).needed()]
                new = [goal for goal in dict.fromkeys(needed) if goal and goal not in seen]
                seen.update(new)
                order += new
                todo += new
            for at in reversed(order[1:]):
                self.alive(at)
        finally:
            self._warming = False

    def implies(self, goal: Goal, other: Goal) -> bool:
        """Whether every value of ``goal`` satisfies ``other``."""
        return other <= goal or not any(self.alive(conjunction(goal, g)) for g in opposites(other - goal))

    def alive_record(self, record: ArrayRecord | ObjectRecord) -> bool:
        """Whether some array or object is in ``record``."""
        if isinstance(record, ArrayRecord):
            return self.array_plan(record).alive
        return self.object_plan(record).alive

    def settle(self, key: Hashable, answer: Callable[[], bool], fixpoint: bool = False) -> bool:
        """Memo of monotone questions about emptiness that may depend on themselves.

        A question that is asked again while it is open is answered no (the least fixpoint); a no that rests on such an
        answer to a question further out is not remembered.
        """
        known = self._alive.get(key)
        if known is not None:
            return known
        if fixpoint and key in self._open:
            self._lowest = min(self._lowest, self._open[key])
            return False
        depth, outer = len(self._open), self._lowest
        self._lowest = math.inf
        try:
            if fixpoint:
                self._open[key] = depth
            result = answer()
            if result or self._lowest >= depth:
                self._alive[key] = result
                self._lowest = math.inf
            return result
        finally:
            if fixpoint:
                self._open.pop(key, None)
            self._lowest = min(outer, self._lowest)

    def _alive_normal(self, normal: Normal) -> bool:
        if normal.null or normal.booleans:
            return True
        if normal.numbers or not self.scalars.is_empty(normal.texts):
            return True
        return any(map(self.alive_record, normal.arrays)) or any(map(self.alive_record, normal.objects))

    def object_plan(self, record: ObjectRecord, strict: bool = False) -> ObjectPlan:
        """What is worked out about a record once; ``strict``: where no key is repeated."""
        from .objects import ObjectPlan

        plan = self._object_plans.get((record, strict))
        if plan is None:
            plan = self._object_plans[record, strict] = ObjectPlan(self, record, strict)
        return plan

    def array_plan(self, record: ArrayRecord) -> ArrayPlan:
        """What is worked out about a record once."""
        from .arrays import ArrayPlan

        plan = self._array_plans.get(record)
        if plan is None:
            plan = self._array_plans[record] = ArrayPlan(self, record)
        return plan
