"""Values that are written inside of their caller's states, so that what they say is known when they end.

A rule that is called gives nothing back. Where a value must be remembered (``uniqueItems``), its rules are therefore run *inline*: a
:class:`Place` is a stack of (rule, key) frames with the value written so far, and every lexeme is captured. Values that must
not come are told apart before they are complete: an edge is narrowed, or left out, where all that could still come of it is
one of them (:meth:`Inline.alive`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ..completion import Costs
from ..errors import LimitError
from ..rules import Capture, Rule, State, Terminal
from . import values
from .scalars import Part
from .values import Build, Value

if TYPE_CHECKING:
    from .normal import Goal
    from .writer import Writer

__all__ = ["Done", "Inline", "KeyPart", "Move", "Place"]

Frames = tuple[tuple[Rule, Hashable], ...]
Values = frozenset[Value]
Aims = tuple[list[Value], list[Value]]
Reader = Callable[["Place", "Move"], Callable[[bytes], Hashable]]


class KeyPart(NamedTuple):
    """What the lexeme of a key was made of."""

    content: int
    depth: int
    first: bool
    name: str | None


class Place(NamedTuple):
    """Where an inlined value stands: rules within rules, outermost first, and what is written."""

    frames: Frames
    build: Build


class Done(NamedTuple):
    """An inlined value that is complete."""

    value: Value


class Move(NamedTuple):
    """One lexeme further: it leads to ``to``, a key or a capture of ``rule``, upon the frames ``below``."""

    terminal: Terminal
    below: Frames
    rule: Rule
    to: Hashable


_STEP = 16  # work of following one lexeme, in expressions
_LEVELS = 2  # of nesting down to which the nearest of the edges is singled out


class Inline:
    """Runs the rules of one writer. These never call themselves without a lexeme, and have no edges where they end."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.scalars, self.limits = writer.meaning.scalars, writer.meaning.limits
        self._levels = 0
        self._states: dict[tuple[Rule, Hashable], State] = {}
        self._alive: dict[tuple[Place, Values], bool] = {}
        self._narrow: dict[tuple[Terminal, Values], Terminal | None] = {}
        self._shortest: dict[Terminal, bytes] = {}
        self.costs = Costs(self.state, writer.meaning.pool)

    def start(self, goal: Goal, depth: int) -> Place:
        """In front of a value of ``goal``."""
        rule = self.writer.value(goal, depth)
        return Place(((rule, rule.start),), ())

    def state(self, rule: Rule, key: Hashable) -> State:
        found = self._states.get((rule, key))
        if found is None:
            found = self._states[rule, key] = rule.expand(key)
        return found

    def moves(self, frames: Frames, nearest: bool = False) -> Iterator[Move]:
        """What may come next; ``nearest``: only what a shortest completion may begin with."""
        todo = [frames]
        while todo:
            *below, (rule, key) = todo.pop()
            state = self.state(rule, key)
            for symbol, to in rule.shortest(key, state) if nearest else state.edges:
                if isinstance(symbol, Terminal):
                    yield Move(symbol, tuple(below), rule, to)
                else:
                    todo.append((*below, (rule, to), (symbol, symbol.start)))

    def after(self, place: Place, move: Move, lexeme: bytes) -> Place | Done:
        """Where a lexeme leads."""
        self.writer.meaning.pool.charge(_STEP)
        build, done = values.feed(place.build, lexeme)
        key = move.to.function(lexeme) if isinstance(move.to, Capture) else move.to
        frames = (*move.below, (move.rule, key))
        while frames and self.state(*frames[-1]).final:
            frames = frames[:-1]
        if not frames:
            assert done is not None
            return Done(done[0])
        return Place(frames, build)

    # ------------------------------------------------------------ values that must not come
    def edges(self, place: Place, banned: Values, reader: Reader) -> list[tuple[Terminal, Capture]]:
        """The lexemes that lead to a value outside of ``banned``; ``reader`` makes what says where a move leads."""
        aims = values.aims(place.build, banned)
        found = ((move, self._narrowed(place, move, aims, banned)) for move in self.moves(place.frames))
        return [(terminal, Capture(reader(place, move))) for move, terminal in found if terminal is not None]

    def nearest(self, place: Place, banned: Values, reader: Reader) -> list[tuple[Terminal, Capture]]:
        """The one of the :meth:`edges` that leads to the end soonest; values that are banned may cost a detour.

        The cost of a move may depend on the nearest edges of values inside of it, and these on ever deeper ones where a schema is
        recursive: a few levels down it is all of the edges, and the search that asks finds the best of them.
        """
        if self._levels >= _LEVELS:
            return self.edges(place, banned, reader)
        aims = values.aims(place.build, banned)
        self._levels += 1
        try:
            for near in (True, False):
                for move in sorted(self.moves(place.frames, near), key=self._cost):
                    terminal = self._narrowed(place, move, aims, banned)
                    if terminal is not None:
                        return [(terminal, Capture(reader(place, move)))]
        finally:
            self._levels -= 1
        return []

    def _cost(self, move: Move) -> float:
        lexeme = self._bytes(move.terminal)
        key = move.to.function(lexeme) if isinstance(move.to, Capture) else move.to
        return len(lexeme) + sum(self.costs.way(*frame)[0] for frame in ((move.rule, key), *move.below))

    def _narrowed(self, place: Place, move: Move, aims: Aims, banned: Values) -> Terminal | None:
        """A move's terminal without what can only become banned values."""
        if not aims[0]:
            return move.terminal
        part = self.writer.parts.get(move.terminal)
        if not place.build and isinstance(part, Part):  # a scalar by itself: it is complete
            key = move.terminal, banned
            if key not in self._narrow:
                self._narrow[key] = self.writer.scalar(part, [v for v in aims[1] if values.is_scalar(v) and self.scalars.part_has(part, v)])
            return self._narrow[key]
        dead = []
        for candidate, lexeme in self._candidates(move.terminal, place, aims):
            after = self.after(place, move, lexeme)
            if after.value in banned if isinstance(after, Done) else not self.alive(after, banned):
                dead.append(candidate)
        return self._without(move.terminal, dead) if dead else move.terminal

    def _candidates(self, terminal: Terminal, place: Place, aims: Aims) -> Iterator[tuple[Value, bytes]]:
        """The keys or scalars with which the value may still become one of those aimed at, or the one bracket of a terminal."""
        here, following = aims
        part = self.writer.parts.get(terminal)
        if isinstance(part, Part):
            for value in dict.fromkeys(v for v in following if values.is_scalar(v)):
                if self.scalars.part_has(part, value):
                    yield value, values.text(value).encode()
        elif isinstance(part, KeyPart):
            written = place.build[-1]
            names = dict.fromkeys(k for value in here if isinstance(value, tuple) and isinstance(value[1], frozenset) for k, _ in value[1])
            for name in names:
                if not written.has(name) and self.scalars.contains(part.content, name):
                    yield name, f"{json.dumps(name)}:".encode()
        else:
            yield None, self._bytes(terminal)

    def _bytes(self, terminal: Terminal) -> bytes:
        found = self._shortest.get(terminal)
        if found is None:
            shortest = self.writer.meaning.pool.shortest(terminal.expr)
            assert shortest is not None
            found = self._shortest[terminal] = shortest
        return found

    def _without(self, terminal: Terminal, gone: list[Value]) -> Terminal | None:
        """What is left of a terminal."""
        part = self.writer.parts.get(terminal)
        if isinstance(part, Part):
            return self.writer.scalar(part, gone)
        if isinstance(part, KeyPart):
            content = self.scalars.key_without(part.content, frozenset(name for name in gone if isinstance(name, str)))
            return None if content == self.writer.meaning.pool.EMPTY else self.writer.key(content, part.depth, part.first, part.name)
        return None

    def alive(self, place: Place, banned: Values) -> bool:
        """Whether some completion is outside of ``banned``.

        Only places from which a banned value can still come are searched, so the search is finite; a lexeme that no banned
        value has there leads out, because from every place some completion exists.

        Raises:
            LimitError: the search does not end within the limits.
        """
        seen, todo, found = {place}, [place], False
        while todo and not found:
            at = todo.pop()
            known = self._alive.get((at, banned))
            if known is not None:
                found = known
                continue
            for after in self._kept(at, banned):
                if after is None or (isinstance(after, Done) and after.value not in banned):
                    found = True
                    break
                if isinstance(after, Place) and after not in seen:
                    seen.add(after)
                    todo.append(after)
            if len(seen) > self.limits.fuel:
                raise LimitError("fuel", self.limits.fuel, "(looking for an element that is not among those used)")
        if found:
            self._alive[place, banned] = True
        else:
            self._alive.update(((at, banned), False) for at in seen)
        return found

    def _kept(self, place: Place, banned: Values) -> Iterator[Place | Done | None]:
        """Where lexemes that banned values have lead to; ``None`` if there is another."""
        aims = values.aims(place.build, banned)
        if not aims[0]:
            yield None
            return
        for move in self.moves(place.frames):
            part = self.writer.parts.get(move.terminal)
            if not place.build and isinstance(
                part, Part
            ):  # nothing but the value itself may be banned, and no lexeme need be made to say so
                if not self.scalars.part_is_empty(self.scalars.part_without(part, filter(values.is_scalar, aims[1]))):
                    yield None
                    return
                continue
            candidates = list(self._candidates(move.terminal, place, aims))
            if move.terminal in self.writer.parts and self._without(move.terminal, [c for c, _ in candidates]) is not None:
                yield None
                return
            for _, lexeme in candidates:
                yield self.after(place, move, lexeme)

    # ------------------------------------------------------------ counting
    def few(self, goal: Goal, most: int) -> Values | None:
        """The values of ``goal``, or ``None`` if there are more than ``most``.

        Values near to a shortest one are looked at first: each choice and each level costs one. Texts of more lexemes are looked
        at when there are no others.
        """
        found: set[Value] = set()
        longest, more = 16, True
        while more:
            longest, more = 4 * longest, False
            serial = count()
            heap: list[tuple[int, int, int, Place | Done]] = [(0, 0, 0, self.start(goal, 0))]
            seen: set[Place | Done] = set()
            while heap:
                cost, _, length, place = heappop(heap)
                if isinstance(place, Done):
                    found.add(place.value)
                    if len(found) > most:
                        return None
                    continue
                if length == longest:
                    more = True
                    continue
                choices = self._choices(place, most)
                if choices is None:
                    return None
                for i, after in enumerate(choices):
                    if after not in seen:
                        seen.add(after)
                        deeper = max(0, len(after.frames) - len(place.frames)) if isinstance(after, Place) else 0
                        heappush(heap, (cost + (i > 0) + deeper, -next(serial), length + 1, after))
                if len(seen) > self.limits.fuel:
                    raise LimitError("fuel", self.limits.fuel, "(counting the values that elements may have)")
        return frozenset(found)

    def _choices(self, place: Place, most: int) -> list[Place | Done] | None:
        """Where the next lexemes lead, nearest first; ``None`` if there are more than ``most``.

        Each lexeme can be completed (the contract of rules), so there are as many values then.
        """
        choices: list[Place | Done] = []
        for move in dict.fromkeys([*self.moves(place.frames, True), *self.moves(place.frames)]):
            lexemes = self._some(move.terminal, most)
            if lexemes is None:
                return None
            choices += [self.after(place, move, lexeme) for lexeme in lexemes]
        return choices

    def _some(self, terminal: Terminal, most: int) -> list[bytes] | None:
        part = self.writer.parts.get(terminal)
        if isinstance(part, Part):
            scalars = self.scalars.few(part, most)
            return None if scalars is None else [values.text(value).encode() for value in sorted(scalars, key=repr)]
        if isinstance(part, KeyPart):
            names = self.scalars.few_texts(self.scalars.key_texts(part.content), most)
            return None if names is None else [f"{json.dumps(name)}:".encode() for name in sorted(names)]
        return [self._bytes(terminal)]
