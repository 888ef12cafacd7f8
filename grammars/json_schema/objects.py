"""Objects: which member may come next, and what must still come.

An :class:`ObjectPlan` works out one :class:`~.normal.ObjectRecord`: every key is either one of the names that the record
mentions or in a *cell*, a set of keys that all of the record's conditions treat alike. A state (:class:`Where`) is how far the
declared order has got, which other names were used, how many members there are and which clauses are still open. No
state is entered from which the object cannot be completed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LimitError
from ..rules import Capture, Rule, State, Symbol, Terminal
from .completable import STEPS, Completion, Promise
from .effort import RECORD, bounded
from .normal import ANYTHING, NOTHING, Event, Goal, KeySet, Lang, Name, ObjectRecord, Rest, conjunction
from .values import key_of

if TYPE_CHECKING:
    from .algebra import Algebra
    from .writer import Writer

__all__ = ["Cell", "Member", "ObjectPlan", "ObjectRule", "Where"]


_MEMBERS = 64


class Where(NamedTuple):
    """What matters of the members written so far.

    Attributes:
        position: index in the declared order of the next name that may come.
        seen: bit set of the tracked names that are there.
        size: number of members, as far as it matters.
        open: bit set of the clauses that nothing written so far satisfies.
        keys: where keys of cells are remembered, those used: the cell's number and the key (``None``: the one being written).
    """

    position: int
    seen: int
    size: int
    open: int
    keys: frozenset[tuple[int, str | None]] = frozenset()


class Cell(NamedTuple):
    """Keys without a name of their own: their language, what their values must satisfy, and the patterns they are in."""

    expr: int
    goal: Goal
    patterns: frozenset[int]
    number: int


class Member(NamedTuple):
    """One way to go on: a key (a name, or any out of an expression), what its value must satisfy, and where that leads.

    ``cell``: the number of the cell whose keys are remembered, if so.
    """

    name: str | None
    expr: int
    goal: Goal
    after: Where
    cell: int | None = None


class ObjectPlan:
    """What is worked out about one record, once.

    Args:
        meaning: the schema's normal forms.
        record: the objects.
        strict: whether no key may be repeated, also where that would do no harm.
    """

    def __init__(self, meaning: Algebra, record: ObjectRecord, strict: bool = False) -> None:
        self.meaning, self.record, self.strict = meaning, record, strict
        self.pool, self.scalars = meaning.pool, meaning.scalars
        self.order = record.order if meaning.keep_order else ()
        self.place = {name: i for i, name in enumerate(self.order)}
        self.last = max((i for i, name in enumerate(self.order) if name in record.required), default=-1)
        self.named = dict(record.names)
        self.clauses = record.clauses
        self.loose = [name for name in self._mentioned() if name not in self.place]
        absent = {event.keys.name for clause in self.clauses for event in clause if event.kind == "absent" and isinstance(event.keys, Name)}
        self.bit = {name: 1 << i for i, name in enumerate(dict.fromkeys([*self.loose, *sorted(absent)]))}
        events = [event for clause in self.clauses for event in clause]
        bounds = [record.least, *(e.lo + 1 for e in events if e.kind == "more"), *(e.lo for e in events if e.kind == "fewer")]
        self.cap = max(bounds + ([record.most + 1] if record.most is not None else []))
        self.plain = not self.clauses and record.most is None and record.least <= len(record.required)
        self.promises: deque[Promise] = deque(maxlen=16)
        self._goals: dict[str, Goal] = {}
        self._events: dict[str | Cell, list[tuple[int, list[Goal]]]] = {}
        self._members: dict[Where, list[Member]] = {}

    @property
    def is_plain(self) -> bool:
        """Whether all that matters of the members written so far is how far the declared order has got."""
        return self.plain and not self.bit and self.remembers is None

    def _mentioned(self) -> dict[str, None]:
        """Every name that a condition of the record mentions."""
        record = self.record
        names = dict.fromkeys([*record.order, *(name for name, _ in record.names), *sorted(record.required)])
        keys = [k for k, _ in record.others] + [e.keys for clause in record.clauses for e in clause if e.keys is not None]
        for keyset in keys:
            if isinstance(keyset, Name):
                names[keyset.name] = None
            elif isinstance(keyset, Rest):
                names.update(dict.fromkeys(sorted(keyset.names)))
        return names

    # ------------------------------------------------------------ keys
    def holds(self, keys: KeySet, name: str) -> bool:
        """Whether the key ``name`` is in ``keys``."""
        if isinstance(keys, Name):
            return keys.name == name
        if isinstance(keys, Lang):
            return self.scalars.contains(keys.expr, name)
        return name not in keys.names and not any(self.scalars.contains(expr, name) for expr in keys.patterns)

    @staticmethod
    def holds_cell(keys: KeySet, patterns: frozenset[int]) -> bool:
        """Whether the keys of a cell are in ``keys`` (they all are, or none is)."""
        if isinstance(keys, Name):
            return False
        if isinstance(keys, Lang):
            return keys.expr in patterns
        return patterns.isdisjoint(keys.patterns)

    def goal(self, name: str) -> Goal:
        """What the value of the member ``name`` must satisfy."""
        found = self._goals.get(name)
        if found is None:
            found = self.named.get(name, ANYTHING)
            for keys, goal in self.record.others:
                if self.holds(keys, name):
                    found = conjunction(found, goal)
            if not self.scalars.name(name):
                found = NOTHING
            self._goals[name] = found
        return found

    @cached_property
    def cells(self) -> list[Cell]:
        """The keys that are no mentioned name, by what they must satisfy; those that must not occur are left out."""
        record, pool = self.record, self.pool
        keys = [k for k, _ in record.others] + [e.keys for clause in record.clauses for e in clause if e.keys is not None]
        atoms: dict[int, None] = {}
        for keyset in keys:
            atoms.update(dict.fromkeys([keyset.expr] if isinstance(keyset, Lang) else keyset.patterns if isinstance(keyset, Rest) else ()))
        if not atoms and self._cell_goal(frozenset()) == NOTHING:
            return []
        parts: list[tuple[int, frozenset[int]]] = [(self.scalars.names_except(tuple(self._mentioned())), frozenset())]
        for atom in atoms:
            split = [(pool.both(expr, atom), inside | {atom}) for expr, inside in parts]
            split += [(pool.minus(expr, atom), inside) for expr, inside in parts]
            parts = [(expr, inside) for expr, inside in split if not pool.is_empty(expr)]
            if len(parts) > self.meaning.limits.schema_size:
                raise LimitError("schema_size", self.meaning.limits.schema_size, "(overlaps of key patterns)")
        goals = ((expr, self._cell_goal(inside), inside) for expr, inside in parts)
        kept = [part for part in goals if part[1] != NOTHING]
        return [Cell(expr, goal, inside, i) for i, (expr, goal, inside) in enumerate(kept)]

    def _cell_goal(self, inside: frozenset[int]) -> Goal:
        return conjunction(*(goal for keys, goal in self.record.others if self.holds_cell(keys, inside)), ANYTHING)

    def _events_of(self, key: str | Cell, goal: Goal) -> list[tuple[int, list[Goal]]]:
        """Clauses that a member with this key (and ``goal``) may satisfy: a clause's bit and what the value must satisfy for it.

        Without a choice (one goal, :data:`ANYTHING`) where the member satisfies the clause whatever its value is.
        """
        found = self._events.get(key)
        if found is None:
            found = []
            for i, clause in enumerate(self.clauses):
                goals = [e.goal for e in clause if e.kind == "has" and e.keys is not None and self._in(e.keys, key)]
                if any(self.meaning.implies(goal, g) for g in goals):
                    goals = [ANYTHING]
                goals = [g for g in goals if self.meaning.alive(conjunction(goal, g))]
                if goals:
                    found.append((1 << i, goals))
            self._events[key] = found
        return found

    def _in(self, keys: KeySet, key: str | Cell) -> bool:
        return self.holds(keys, key) if isinstance(key, str) else self.holds_cell(keys, key.patterns)

    # ------------------------------------------------------------ states
    @property
    def start(self) -> Where:
        return self._tidy(Where(0, 0, 0, (1 << len(self.clauses)) - 1))

    def _tidy(self, where: Where) -> Where:
        """Closes the clauses that are satisfied for good, and forgets what no longer matters."""
        if not where.open:
            return where
        still = where.open
        for i, clause in enumerate(self.clauses):
            if still >> i & 1 and any(self._settled(event, where) for event in clause):
                still &= ~(1 << i)
        return where._replace(open=still)

    def _settled(self, event: Event, where: Where) -> bool:
        if event.kind == "more":
            return where.size > event.lo
        if event.kind == "absent":
            assert isinstance(event.keys, Name)
            name = event.keys.name
            gone = name in self.place and self.place[name] < where.position and not where.seen & self.bit[name]
            return gone or self.goal(name) == NOTHING
        return False

    def _after(self, where: Where, key: str | Cell, met: int) -> Where:
        position, seen, keys = where.position, where.seen, where.keys
        size = min(where.size + 1, self.cap)
        if isinstance(key, str):
            position = self.place.get(key, position - 1) + 1
            seen |= self.bit.get(key, 0)
        elif self.remembers is not None:
            keys |= {(key.number, None)}
        if self.remembers is not None and size >= self.remembers:
            keys = frozenset()
        return self._tidy(Where(position, seen, size, where.open & ~met, keys))

    def available(self, where: Where) -> Iterator[str]:
        """The names that may still come, required or not."""
        yield from self.order[where.position :]
        for name in self.loose:
            if not where.seen & self.bit[name]:
                yield name

    def _next_names(self, where: Where) -> Iterator[str]:
        """The names that may come next: no required name of the declared order is passed over."""
        for name in self.order[where.position :]:
            yield name
            if name in self.record.required:
                break
        for name in self.loose:
            if not where.seen & self.bit[name]:
                yield name

    def members(self, where: Where) -> list[Member]:
        """Every way to go on with one more member."""
        found = self._members.get(where)
        if found is None:
            found = []
            if self.record.most is None or where.size < self.record.most:
                for name in self._next_names(where):
                    goal = self.goal(name)
                    if goal != NOTHING:
                        found += self._variants(where, name, self.scalars.name(name), goal)
                for cell in self.cells:
                    used = frozenset(key for number, key in where.keys if number == cell.number and key is not None)
                    expr = self.scalars.key_without(cell.expr, used)
                    if expr != self.pool.EMPTY:
                        found += self._variants(where, cell, expr, cell.goal)
            if len(self._members) >= _MEMBERS:  # they are asked for again soon or never, and each may be long
                self._members.clear()
            self._members[where] = found
        return found

    def _variants(self, where: Where, key: str | Cell, expr: int, goal: Goal) -> Iterator[Member]:
        """The member's value may, or may not, satisfy each open clause that it is relevant to."""
        name = key if isinstance(key, str) else None
        if not where.open:
            self.pool.charge(1)
            after = self._after(where, key, 0)
            if self.meaning.alive(goal) and self.completable(after):
                written = isinstance(key, Cell) and after.keys and (key.number, None) in after.keys
                yield Member(name, expr, goal, after, key.number if written and isinstance(key, Cell) else None)
            return
        events = self._events_of(key, goal)
        sure = 0
        doubtful: list[list[tuple[int, Goal]]] = []
        for bit, goals in events:
            if where.open & bit and goals == [ANYTHING]:
                sure |= bit
            elif where.open & bit:
                doubtful.append([(0, ANYTHING), *((bit, g) for g in goals)])
        seen: set[tuple[Goal, Where]] = set()
        for choice in product(*doubtful):
            self.pool.charge(RECORD + len(choice) + len(self.clauses))
            value = conjunction(goal, *(g for _, g in choice))
            met = sure
            for bit, _ in choice:
                met |= bit
            after = self._after(where, key, met)
            if (value, after) not in seen and self.meaning.alive(value) and self.completable(after):
                seen.add((value, after))
                written = isinstance(key, Cell) and (key.number, None) in after.keys
                yield Member(name, expr, value, after, key.number if written and isinstance(key, Cell) else None)

    def soonest(self, where: Where) -> list[Member]:
        """Members among which a shortest completion goes on: one required one, what an open clause wants, what a count wants.

        The order in which members are written costs nothing, so one order of the required ones stands for all.
        """
        missing = [name for name in self.available(where) if name in self.record.required]
        short = where.size + len(missing) < self.record.least
        for i, clause in enumerate(self.clauses):
            short = short or bool(where.open >> i & 1 and any(e.kind == "more" for e in clause))
        if short:
            return self.members(where)
        first = missing[0] if missing else None
        return [m for m in self.members(where) if m.after.open != where.open or (first is not None and m.name == first)]

    def final(self, where: Where) -> bool:
        """Whether the object may end here."""
        required = self.record.required
        if where.size < self.record.least:
            return False
        if where.position <= self.last:
            return False
        if any(name in required and not where.seen & self.bit[name] for name in self.loose):
            return False
        return all(any(self._met_at_end(e, where) for e in clause) for i, clause in enumerate(self.clauses) if where.open >> i & 1)

    def _met_at_end(self, event: Event, where: Where) -> bool:
        if event.kind == "absent":
            assert isinstance(event.keys, Name)
            return not where.seen & self.bit[event.keys.name]
        if event.kind == "fewer":
            return where.size < event.lo
        return event.kind == "more" and where.size > event.lo

    # ------------------------------------------------------------ look-ahead
    @property
    def alive(self) -> bool:
        """Whether there is such an object at all."""
        return self.meaning.settle(("object", id(self)), self._alive)

    def needed(self) -> list[Goal]:
        """What must have an instance for there to be such an object."""
        return [self.goal(name) for name in sorted(self.record.required)]

    def _alive(self) -> bool:
        self.pool.charge(RECORD + len(self.named) + len(self.clauses))
        if not all(map(self.meaning.alive, self.needed())):
            return False
        return self.completable(self.start)

    def completable(self, where: Where) -> bool:
        """Whether the object can be completed from here (its required members' schemas being satisfiable)."""
        if self.plain or self._simply(where):
            return True
        place = where if not where.keys else (where._replace(keys=frozenset()), *self._counts(where))
        return self.meaning.settle(("members", id(self), place), lambda: Completion(self, where).possible())

    def _simply(self, where: Where) -> bool:
        """Whether nothing but the required members need be added. (If not, they may still do, with other values.)"""
        required, record = self.record.required, self.record
        missing = {name for name in self.available(where) if name in required}
        size = where.size + len(missing)
        if size < record.least or (record.most is not None and size > record.most):
            return False
        for i, clause in enumerate(self.clauses):
            if where.open >> i & 1 and not any(
                e.keys.name not in missing and not where.seen & self.bit[e.keys.name]
                if e.kind == "absent" and isinstance(e.keys, Name)
                else (e.kind == "fewer" and size < e.lo) or (e.kind == "more" and size > e.lo)
                for e in clause
            ):
                return False
        return True

    def _counts(self, where: Where) -> list[int]:
        counts = [0] * len(self.cells)
        for number, _ in where.keys:
            counts[number] += 1
        return counts

    def unused(self, where: Where, cell: Cell, wanted: int) -> int:
        """How many keys of a cell are not used yet, at most ``wanted``."""
        used = sum(number == cell.number for number, _ in where.keys)
        texts = self.scalars.few_texts(self.scalars.key_texts(cell.expr), used + wanted)
        return wanted if texts is None else len(texts) - used

    def may_have(self, event: Event) -> bool:
        """Whether a ``has`` event may happen in some object of the record, as far as that can be told now."""
        assert event.keys is not None
        never = self.meaning.never
        if any(self.holds(event.keys, n) and not never(conjunction(self.goal(n), event.goal)) for n in self._mentioned()):
            return True
        return any(self.holds_cell(event.keys, c.patterns) and not never(conjunction(c.goal, event.goal)) for c in self.cells)

    def _doubtful(self, goal: Goal, event: Goal) -> bool:
        """Whether a value of ``goal`` may, and may not, satisfy ``event``."""
        return self.meaning.alive(conjunction(goal, event)) and not self.meaning.implies(goal, event)

    def goals(self) -> Iterator[Goal]:
        """What the values of members may have to satisfy, in any state."""
        for name in self._mentioned():
            yield from _combinations(self.goal(name), self._events_of(name, self.goal(name)))
        for cell in self.cells:
            yield from _combinations(cell.goal, self._events_of(cell, cell.goal))

    # ------------------------------------------------------------ repeated keys
    @cached_property
    def remembers(self) -> float | None:
        """Up to how many members the keys of cells are remembered, so that none is repeated; ``None`` if they are not.

        A repeated key is one member. That matters where members are counted, and where one of a certain value was asked for.
        """
        if self.strict:
            return math.inf
        cells = [cell for cell in self.cells if self.meaning.alive(cell.goal)] if self.clauses or self.record.least > 1 else []
        if not cells:
            return None
        wanted = [(e.keys, e.goal) for clause in self.clauses for e in clause if e.kind == "has" and e.keys is not None]
        if any(self.holds_cell(keys, c.patterns) and self._doubtful(c.goal, goal) for keys, goal in wanted for c in cells):
            return math.inf
        needed = max([self.record.least, *(e.lo + 1 for clause in self.clauses for e in clause if e.kind == "more")])
        return needed if needed - len(self.record.required) > 1 else None


def _combinations(goal: Goal, events: list[tuple[int, list[Goal]]]) -> Iterator[Goal]:
    """``goal`` with every choice of events."""
    doubtful = [[ANYTHING, *goals] for _, goals in events if goals != [ANYTHING]]
    if math.prod(map(len, doubtful)) > STEPS:
        raise LimitError("schema_size", STEPS, "(negated schemas that bear on one member)")
    for choice in product(*doubtful):
        yield conjunction(goal, *choice, ANYTHING)


@dataclass(frozen=True)
class _Key:
    """Where the lexeme of a key leads that is remembered."""

    cell: int
    after: Where
    goal: Goal

    def __call__(self, lexeme: bytes) -> Hashable:
        keys = self.after.keys - {(self.cell, None)} | {(self.cell, key_of(lexeme))}
        return "value", self.after._replace(keys=keys), self.goal


class ObjectRule(Rule):
    """The texts of the objects of one record, at one depth. States are made when generation reaches them."""

    def __init__(self, writer: Writer, plan: ObjectPlan, depth: int) -> None:
        self.writer, self.plan, self.depth = writer, plan, depth
        self.name = "object"

    @property
    def start(self) -> Hashable:
        return "start"

    @bounded
    def expand(self, key: Hashable) -> State:
        layout = self.writer.layout
        if key == "start":
            return State([(layout.opening("{"), ("members", self.plan.start, True))])
        if key == "end":
            return State([], final=True)
        assert isinstance(key, tuple)
        kind, where = key[0], key[1]
        if kind == "value":
            symbols = self.writer.symbols(key[2], self.depth + 1)
            return State([(symbol, ("members", where, False)) for symbol in symbols], skip=layout.skip)
        edges: list[tuple[Symbol, Hashable]] = []
        if kind == "key":
            edges += self._keys(self.plan.members(where), False)
        elif key[2] or not layout.free:
            edges += self._keys(self.plan.members(where), key[2])
        elif self.plan.members(where):
            edges.append((layout.comma, ("key", where)))
        if kind == "members" and self.plan.final(where):
            edges.append((layout.closing("}", self.depth, key[2]), "end"))
        return State(edges, skip=layout.skip)

    @bounded
    def shortest(self, key: Hashable, state: State) -> Sequence[tuple[Symbol, Hashable]]:
        if not isinstance(key, tuple) or key[0] == "value":
            return state.edges
        where, first = key[1], key[0] == "members" and key[2]
        if key[0] == "members" and self.plan.final(where):
            return state.edges[-1:]  # the closing brace
        if key[0] == "members" and not first and self.writer.layout.free:
            return state.edges
        return list(self._keys(self.plan.soonest(where), first))

    def _keys(self, members: Sequence[Member], first: bool) -> Iterator[tuple[Terminal, Hashable]]:
        for member in members:
            lexeme = self.writer.key(member.expr, self.depth, first, member.name)
            if member.cell is None:
                yield lexeme, ("value", member.after, member.goal)
            else:
                yield lexeme, Capture(_Key(member.cell, member.after, member.goal))
