"""Clauses reduced by what the rest of their record says already.

An event that cannot happen is dropped, a clause with an event that must happen is met, and a clause of one event is a plain
requirement. This is unit propagation (Davis, Putnam 1960), and it keeps negations small: where the branches of a ``oneOf``
are told apart by a required member, nothing of the negations is left. Only certain answers are used, so it may
be done while normal forms are still being made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .normal import ArrayRecord, Clause, Event, Name, ObjectRecord, conjunction, of_clause
from .objects import ObjectPlan

if TYPE_CHECKING:
    from .algebra import Algebra

__all__ = ["simplified"]


def simplified(meaning: Algebra, record: ObjectRecord | ArrayRecord) -> ObjectRecord | ArrayRecord | None:
    """An equal record with fewer and smaller clauses; ``None`` if a clause cannot be met."""
    return _object(meaning, record) if isinstance(record, ObjectRecord) else _array(meaning, record)


def _object(meaning: Algebra, record: ObjectRecord) -> ObjectRecord | None:
    while True:
        plan = ObjectPlan(meaning, record)
        clauses: list[Clause] = []
        units = ObjectRecord()
        for clause in record.clauses:
            events: list[Event] = []
            met = False
            for event in clause:
                certain = _outcome(meaning, plan, event)
                met = met or certain is True
                if certain is None:
                    events.append(event)
            if met:
                continue
            if not events:
                return None
            unit = of_clause(events)
            if unit.clauses:
                clauses += unit.clauses
            else:
                units = units.both(unit)
        kept = replace(record, clauses=tuple(dict.fromkeys(clauses)))
        record = kept.both(units)
        if not record.clauses or record == kept:
            return record


def _outcome(meaning: Algebra, plan: ObjectPlan, event: Event) -> bool | None:
    """Whether an event happens in every object of the record or in none; ``None`` where it depends."""
    record = plan.record
    if event.kind == "fewer":
        low = max(record.least, len(record.required))
        return False if low >= event.lo else True if record.most is not None and record.most < event.lo else None
    if event.kind == "more":
        low = max(record.least, len(record.required))
        return True if low > event.lo else False if record.most is not None and record.most <= event.lo else None
    assert event.keys is not None
    if isinstance(event.keys, Name):
        name = event.keys.name
        goal = plan.goal(name)
        if event.kind == "absent":
            return False if name in record.required else True if meaning.never(goal) else None
        if meaning.never(conjunction(goal, event.goal)):
            return False
        return True if name in record.required and meaning.always(goal, event.goal) else None
    return None if plan.may_have(event) else False


def _array(meaning: Algebra, record: ArrayRecord) -> ArrayRecord | None:
    clauses: list[Clause] = []
    for clause in record.clauses:
        events = [event for event in clause if _possible(meaning, record, event)]
        if not events:
            return None
        clauses.append(tuple(events))
    return replace(record, clauses=tuple(dict.fromkeys(clauses)))


def _possible(meaning: Algebra, record: ArrayRecord, event: Event) -> bool:
    if event.kind == "fewer":
        return record.least < event.lo
    if event.kind == "more":
        return record.most is None or record.most > event.lo
    last = len(record.prefix) if event.hi is None else min(event.hi - 1, len(record.prefix))
    first = min(event.lo, len(record.prefix))
    if record.most is not None and event.lo >= record.most:
        return False
    return any(not meaning.never(conjunction(record.goal(i), event.goal)) for i in range(first, max(first, last) + 1))
