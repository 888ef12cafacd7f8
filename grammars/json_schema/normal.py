"""The normal form of a schema: a union of records, one JSON type each, closed under *and*, *or* and *not*.

A :class:`Normal` says for every JSON type which values are in: null and the booleans as sets, numbers as unions of exact
number sets, strings as finite sets or regular languages (an expression of a :class:`~grammars.regex.expr.Pool` over every
spelling that JSON allows, so that complement and intersection of languages are complement and intersection of sets of
values), arrays and objects as tuples of records. Several records of a type are alternatives and may overlap.

The schemas of elements and members stay **lazy**: a :data:`Goal` is a conjunction of literals, each the
number of a schema node or its negation, which is only normalised when generation gets there. So recursion ends.

An *existential* requirement (what negation leaves: "some member is not an integer", "`a` is missing or there
are fewer than two members") is a :data:`Clause`: a disjunction of :class:`Event` s. A record holds any number of
clauses, and the automaton's states remember which are still open. A negated record is therefore one record with
one clause and not a product over its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Union

from .scalars import Numbers, Texts

__all__ = [
    "ANYTHING",
    "NOTHING",
    "ArrayRecord",
    "Clause",
    "Event",
    "Goal",
    "KeySet",
    "Lang",
    "Name",
    "Normal",
    "ObjectRecord",
    "Rest",
    "conjunction",
    "of_clause",
    "opposites",
]

Goal = frozenset[int]
"""Literals that must all hold: ``2 * node`` for a schema node, ``2 * node + 1`` for its negation. Node 0 is the schema ``true``."""

ANYTHING: Goal = frozenset()
NOTHING: Goal = frozenset({1})


def conjunction(*goals: Goal) -> Goal:
    """What holds when all of ``goals`` do; :data:`NOTHING` where they contradict each other on their face."""
    if len(goals) == 2:
        a, b = goals
        if not a or a == b:
            return b
        if not b:
            return a
    union = frozenset().union(*goals) - {0}
    if 1 in union or any(x ^ 1 in union for x in union):
        return NOTHING
    return union


def opposites(goal: Goal) -> list[Goal]:
    """Goals, one of which holds exactly where ``goal`` does not."""
    return [frozenset({x ^ 1}) - {0} for x in sorted(goal)]


@dataclass(frozen=True, slots=True)
class Name:
    """The set of keys that holds just this one."""

    name: str


@dataclass(frozen=True, slots=True)
class Lang:
    """The keys in a regular language (``expr``: of the text between the quotes)."""

    expr: int


@dataclass(frozen=True, slots=True)
class Rest:
    """The keys that are none of ``names`` and in none of the languages ``patterns``."""

    names: frozenset[str]
    patterns: tuple[int, ...]


KeySet = Union[Name, Lang, Rest]


@dataclass(frozen=True, slots=True)
class Event:
    """One way to satisfy a clause.

    ``has``: some member (key in ``keys``, value in ``goal``) or some element (index in ``[lo, hi)``, value in ``goal``);
    ``absent``: no member ``keys``; ``fewer``: less than ``lo`` members or elements; ``more``: more than ``lo``.
    """

    kind: str
    keys: KeySet | None = None
    goal: Goal = ANYTHING
    lo: int = 0
    hi: int | None = None


Clause = tuple[Event, ...]


def _merge_clauses(a: tuple[Clause, ...], b: tuple[Clause, ...]) -> tuple[Clause, ...]:
    return a if not b else b if not a else tuple(dict.fromkeys(a + b))


def _smaller(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


@dataclass(frozen=True)
class ObjectRecord:
    """Objects.

    Attributes:
        order: declared names in the order of their first appearance.
        names: what the values of single names must satisfy.
        others: what the values of the keys in a set must satisfy.
        required: names that must be there.
        least, most: bounds on the number of members.
        clauses: existential requirements, all of which must be met.
    """

    order: tuple[str, ...] = ()
    names: tuple[tuple[str, Goal], ...] = ()
    others: tuple[tuple[KeySet, Goal], ...] = ()
    required: frozenset[str] = frozenset()
    least: int = 0
    most: int | None = None
    clauses: tuple[Clause, ...] = ()

    def both(self, other: ObjectRecord) -> ObjectRecord:
        """Objects that are in both records; declared names keep the order of first appearance."""
        if self in (_ANY_OBJECT, other):
            return other
        if other == _ANY_OBJECT:
            return self
        names = dict(self.names)
        for name, goal in other.names:
            names[name] = conjunction(names[name], goal) if name in names else goal
        return ObjectRecord(
            tuple(dict.fromkeys(self.order + other.order)),
            tuple(names.items()),
            tuple(dict.fromkeys(self.others + other.others)),
            self.required | other.required,
            max(self.least, other.least),
            _smaller(self.most, other.most),
            _merge_clauses(self.clauses, other.clauses),
        )

    def opposite(self) -> list[ObjectRecord]:
        """Records whose union is every object that is not in this one."""
        events: list[Event] = [Event("absent", Name(name)) for name in sorted(self.required)]
        for name, goal in self.names:
            events += [Event("has", Name(name), g) for g in opposites(goal)]
        for keys, goal in self.others:
            events += [Event("has", keys, g) for g in opposites(goal)]
        if self.least > 0:
            events.append(Event("fewer", lo=self.least))
        if self.most is not None:
            events.append(Event("more", lo=self.most))
        records = [of_clause(events)] if events else []
        for clause in self.clauses:
            records.append(_conjoin([_unmet(event) for event in clause]))
        return records


_ANY_OBJECT = ObjectRecord()


def of_clause(events: Sequence[Event]) -> ObjectRecord:
    """The record of one clause; a single event that is a plain requirement becomes one."""
    if len(events) == 1:
        event = events[0]
        if event.kind == "absent":
            assert isinstance(event.keys, Name)
            return ObjectRecord(names=((event.keys.name, NOTHING),))
        if event.kind == "fewer":
            return ObjectRecord(most=event.lo - 1)
        if event.kind == "more":
            return ObjectRecord(least=event.lo + 1)
        if isinstance(event.keys, Name):
            return ObjectRecord(names=((event.keys.name, event.goal),), required=frozenset({event.keys.name}))
        if event.goal == ANYTHING and event.keys == Rest(frozenset(), ()):
            return ObjectRecord(least=1)
    return ObjectRecord(clauses=(tuple(events),))


def _unmet(event: Event) -> ObjectRecord:
    """Objects in which ``event`` does not happen."""
    if event.kind == "absent":
        assert isinstance(event.keys, Name)
        return ObjectRecord(required=frozenset({event.keys.name}))
    if event.kind == "fewer":
        return ObjectRecord(least=event.lo)
    if event.kind == "more":
        return ObjectRecord(most=event.lo)
    against = opposites(event.goal)
    goal = NOTHING if not against else against[0]
    assert len(against) <= 1, "events hold one literal"
    assert event.keys is not None
    if isinstance(event.keys, Name):
        return ObjectRecord(names=((event.keys.name, goal),))
    return ObjectRecord(others=((event.keys, goal),))


def _conjoin(records: Iterable[ObjectRecord]) -> ObjectRecord:
    result = _ANY_OBJECT
    for record in records:
        result = result.both(record)
    return result


@dataclass(frozen=True)
class ArrayRecord:
    """Arrays.

    Attributes:
        prefix: what the first elements must satisfy, one goal each.
        rest: what the elements after them must satisfy.
        least, most: bounds on the number of elements.
        counters: triples (goal, lo, hi): the number of elements that satisfy ``goal`` is in ``[lo, hi]`` (``hi`` ``None``: no bound).
        clauses: existential requirements, all of which must be met.
        unique: whether no two elements may be equal.
        repeats: whether some two elements must be equal.
    """

    prefix: tuple[Goal, ...] = ()
    rest: Goal = ANYTHING
    least: int = 0
    most: int | None = None
    counters: tuple[tuple[Goal, int, int | None], ...] = ()
    clauses: tuple[Clause, ...] = ()
    unique: bool = False
    repeats: bool = False

    def goal(self, index: int) -> Goal:
        """What the element at ``index`` must satisfy, clauses and counters apart."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def both(self, other: ArrayRecord) -> ArrayRecord:
        """Arrays that are in both records."""
        if self in (_ANY_ARRAY, other):
            return other
        if other == _ANY_ARRAY:
            return self
        size = max(len(self.prefix), len(other.prefix))
        return ArrayRecord(
            tuple(conjunction(self.goal(i), other.goal(i)) for i in range(size)),
            conjunction(self.rest, other.rest),
            max(self.least, other.least),
            _smaller(self.most, other.most),
            tuple(dict.fromkeys(self.counters + other.counters)),
            _merge_clauses(self.clauses, other.clauses),
            self.unique or other.unique,
            self.repeats or other.repeats,
        )

    def opposite(self) -> list[ArrayRecord]:
        """Records whose union is every array that is not in this one."""
        events: list[Event] = []
        for i, goal in enumerate(self.prefix):
            events += [Event("has", goal=g, lo=i, hi=i + 1) for g in opposites(goal)]
        events += [Event("has", goal=g, lo=len(self.prefix)) for g in opposites(self.rest)]
        if self.least > 0:
            events.append(Event("fewer", lo=self.least))
        if self.most is not None:
            events.append(Event("more", lo=self.most))
        records = [ArrayRecord(clauses=(tuple(events),))] if events else []
        if self.unique:
            records.append(ArrayRecord(repeats=True))
        if self.repeats:
            records.append(ArrayRecord(unique=True))
        for goal, lo, hi in self.counters:
            if lo > 0:
                records.append(ArrayRecord(counters=((goal, 0, lo - 1),)))
            if hi is not None:
                records.append(ArrayRecord(counters=((goal, hi + 1, None),)))
        for clause in self.clauses:
            record = _ANY_ARRAY
            for event in clause:
                record = record.both(_unmet_array(event))
            records.append(record)
        return records


_ANY_ARRAY = ArrayRecord()


def _unmet_array(event: Event) -> ArrayRecord:
    """Arrays in which ``event`` does not happen."""
    if event.kind == "fewer":
        return ArrayRecord(least=event.lo)
    if event.kind == "more":
        return ArrayRecord(most=event.lo)
    against = opposites(event.goal)
    goal = against[0] if against else NOTHING
    if event.hi is None:
        return ArrayRecord((ANYTHING,) * event.lo, goal)
    return ArrayRecord((ANYTHING,) * event.lo + (goal,) * (event.hi - event.lo))


@dataclass(frozen=True)
class Normal:
    """A set of JSON values.

    Attributes:
        null: whether null is in.
        booleans: which booleans are.
        numbers: a union of number sets, none empty.
        texts: a set of strings.
        arrays, objects: alternatives.
    """

    null: bool
    booleans: frozenset[bool]
    numbers: Numbers
    texts: Texts
    arrays: tuple[ArrayRecord, ...]
    objects: tuple[ObjectRecord, ...]
