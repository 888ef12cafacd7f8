"""Which of some words a text has, as an automaton whose states are made by need.

Words are grouped: a group is found where any one of its members is. A state holds the groups that were found and the members under way,
so there are up to ``2^n`` sets of groups, of which a text visits ``n + 1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from .regex.charset import CharSet, fold_closure, scan
from .regex.leaves import Utf8, utf8_length
from .regex.search import bound

if TYPE_CHECKING:
    from .regex.expr import Pool

__all__ = ["State", "Words", "word_characters", "words_expr"]

Place = tuple[int, int]
Kind = bool | None
Characters = tuple[tuple[int, ...], ...]
"""Place by place, the code points that may stand there."""
_ASCII = (1 << 128) - 1
_ORDERED = 12  # words: up to so many the best order is found, for more it is estimated
_BEYOND = CharSet([(0x80, 0x10FFFF)])


@lru_cache(maxsize=1)
def word_characters() -> CharSet:
    r"""Letters, digits and underscores of any script: ``\w`` of Python's ``re``."""
    return scan(re.compile(r"\w+").finditer)


@lru_cache(maxsize=1)
def _ascii_words() -> int:
    return word_characters().ascii_mask


@lru_cache(maxsize=1 << 14)
def _is_word(point: int) -> bool:
    return point in word_characters()


class State(NamedTuple):
    """Of a text so far.

    Attributes:
        found: bit ``g`` for group ``g``.
        places: members under way: their number, and how many of their characters were read. All of them, where a whole word was read and
            the character after it will decide.
        word: whether the last character was one of a word (whole words only).
    """

    found: int = 0
    places: frozenset[Place] = frozenset()
    word: bool = False


class Moves(NamedTuple):
    """What may follow a state.

    Attributes:
        ascii: masks of characters of ASCII (bit ``c`` for character ``c``) and the state after them.
        points: the same of single characters beyond ASCII.
        used: those of them that are listed, also where they must not come; ascending.
        rest: the state after any other character beyond ASCII, by whether it is one of a word (``None``: whichever it is).
    """

    ascii: dict[State, int]
    points: dict[int, State]
    used: tuple[int, ...]
    rest: dict[Kind, State]


@dataclass(frozen=True)
class Words:
    """The automaton. Equal content is the same automaton.

    Attributes:
        groups: of each group its members.
        whole: whether a word counts only where no word character stands before or after it.
        fold: whether case is ignored (simple case folding).
        wanted: whether every group must be found; otherwise none may be.
    """

    groups: tuple[tuple[str, ...], ...]
    whole: bool
    fold: bool
    wanted: bool
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.groups, self.whole, self.fold, self.wanted)))

    def __hash__(self) -> int:
        return self._hash

    # ------------------------------------------------------------ members
    @cached_property
    def members(self) -> list[tuple[int, Characters]]:
        """Each member's group and, place by place, the code points that may stand there."""
        closure = {c: CharSet.of(c) for group in self.groups for word in group for c in word}
        points = {c: tuple((fold_closure(chars) if self.fold else chars).points()) for c, chars in closure.items()}
        return [(g, tuple(points[c] for c in word)) for g, group in enumerate(self.groups) for word in group]

    def places(self, group: int) -> list[Characters]:
        """Of each member of a group, place by place, the code points that may stand there."""
        return [places for g, places in self.members if g == group]

    @cached_property
    def _sizes(self) -> list[list[int]]:
        """Fewest bytes from each place of each member to its end."""
        found = []
        for _, places in self.members:
            sizes = [0]
            for points in reversed(places):
                sizes.append(sizes[-1] + utf8_length(points[0]))
            found.append(sizes[::-1])
        return found

    @cached_property
    def _shortest(self) -> list[int]:
        """Fewest bytes of a member of each group."""
        sizes: list[list[int]] = [[] for _ in self.groups]
        for (group, _), left in zip(self.members, self._sizes):
            sizes[group].append(left[0])
        return [min(group) for group in sizes]

    @cached_property
    def _apart(self) -> bool:
        """Whether no part of a text can count for two groups: every member is one word, and no word is a member of two groups."""
        seen: dict[Characters, int] = {}
        return self.whole and all(
            seen.setdefault(places, g) == g and all(_is_word(point) for points in places for point in points) for g, places in self.members
        )

    @cached_property
    def _all(self) -> int:
        return (1 << len(self.groups)) - 1

    # ------------------------------------------------------------ states
    def _ended(self, state: State) -> int:
        """Groups of which a whole word was read, if none of a word follows it."""
        ended = 0
        if self.whole:
            for member, read in state.places:
                group, places = self.members[member]
                if read == len(places):
                    ended |= 1 << group
        return ended

    def accepts(self, state: State) -> bool:
        """Whether the text may end."""
        ended = self._ended(state)
        return (state.found | ended) == self._all if self.wanted else not ended

    def settled(self, state: State) -> bool:
        """Whether any text may follow."""
        return self.wanted and state.found == self._all

    def least(self, state: State) -> int:
        """A lower bound of the bytes to come; exact for groups of single words that have none in common."""
        if not self.wanted:
            return int(not self.accepts(state))
        ended = self._ended(state)
        left = [g for g in range(len(self.groups)) if not (state.found | ended) >> g & 1]
        if not left:
            return 0
        begun: dict[int, int] = {}
        for member, read in state.places:
            group = self.members[member][0]
            begun[group] = min(begun.get(group, self._shortest[group]), self._sizes[member][read])
        if not self._apart:
            return self._overlapping(left, begun, int(state.word))
        # the word under way is left, with a character between, or finished as one that is wanted: then it is not the one that it is now
        again = sum(self._shortest[g] + 1 for g in range(len(self.groups)) if (ended & ~state.found) >> g & 1)
        first = [int(state.word), *(begun[g] - self._shortest[g] + again for g in left if g in begun)]
        return sum(self._shortest[g] for g in left) + len(left) - 1 + min(first)

    def _overlapping(self, left: list[int], begun: dict[int, int], word: int) -> int:
        """A lower bound where words may overlap: one is found first, and then each as soon as what overlaps allows."""
        alone = [g for g in left if g not in self._within] or left[:1]
        first = {g: min(begun.get(g, self._shortest[g] + word), self._shortest[g] + word) for g in alone}
        if len(alone) > _ORDERED:
            after = {g: min(self._steps_between[h][g] for h in range(len(self.groups)) if h != g) for g in alone}
            return sum(after.values()) + min(first[g] - after[g] for g in alone)
        every = sum(1 << g for g in alone)
        return min(first[g] + self._rest(every & ~(1 << g), g) for g in alone)

    def _rest(self, left: int, last: int) -> int:
        """Fewest bytes to find the groups ``left`` (bits) when ``last`` was found just now, in the best order."""
        if not left:
            return 0
        found = self._rests.get((left, last))
        if found is None:
            steps = self._steps_between[last]
            ways = (steps[g] + self._rest(left & ~(1 << g), g) for g in range(len(self.groups)) if left >> g & 1)
            found = self._rests[left, last] = min(ways)
        return found

    @cached_property
    def _rests(self) -> dict[tuple[int, int], int]:
        return {}

    @cached_property
    def _steps_between(self) -> list[list[int]]:
        """``[g][h]``: fewest bytes from the end of a member of ``g`` to the end of one of ``h`` that begins later."""
        count = len(self.groups)
        found = [[self._shortest[h] + int(self.whole) for h in range(count)] for _ in range(count)]
        for g, a in self.members:
            for (h, b), sizes in zip(self.members, self._sizes):
                found[g][h] = min([found[g][h], *(sizes[min(len(a) - at, len(b))] for at in range(1, len(a)) if self._fits(a, b, at))])
        return found

    @cached_property
    def _within(self) -> frozenset[int]:
        """Groups with a member that another group's (not one of these) may contain or begin with, so that it may come at no cost."""
        found: set[int] = set()
        for g, b in self.members:
            for h, a in self.members:
                if g != h and h not in found and len(a) >= len(b) and any(self._fits(a, b, at) for at in range(len(a) - len(b) + 1)):
                    found.add(g)
        return frozenset(found)

    def _fits(self, a: Characters, b: Characters, at: int) -> bool:
        """Whether ``b`` may begin at place ``at`` of ``a``, both being found."""
        if not all(set(x) & set(y) for x, y in zip(a[at:], b)):
            return False
        if not self.whole:
            return True
        longer = b[len(a) - at :] or a[at + len(b) :]  # what stands behind the one that ends first
        return (at == 0 or not all(map(_is_word, a[at - 1]))) and (not longer or not all(map(_is_word, longer[0])))

    def moves(self, state: State) -> Moves:
        """What may follow."""
        here: dict[int, list[Place]] = {}
        for member, read in self._steps(state):
            for point in self.members[member][1][read]:
                here.setdefault(point, []).append((member, read + 1))
        moves = Moves({}, {}, tuple(sorted(point for point in here if point > 0x7F)), {})
        used = 0
        for point, places in here.items():
            after = self._after(state, places, self.whole and _is_word(point))
            used |= (1 << point) & _ASCII
            if after is None:
                continue
            if point > 0x7F:
                moves.points[point] = after
            else:
                moves.ascii[after] = moves.ascii.get(after, 0) | 1 << point
        kinds: tuple[Kind, ...] = (True, False) if self.whole else (None,)
        for kind in kinds:
            after = self._after(state, (), bool(kind))
            if after is not None:
                mask = _ASCII if kind is None else _ascii_words() if kind else _ASCII ^ _ascii_words()
                moves.ascii[after] = moves.ascii.get(after, 0) | mask & ~used
                moves.rest[kind] = after
        return moves

    def _steps(self, state: State) -> Iterator[Place]:
        """Members that the next character may go on with, or begin."""
        for member, read in state.places:
            if read < len(self.members[member][1]):
                yield member, read
        if not (self.whole and state.word):
            for member, (group, _) in enumerate(self.members):
                if not state.found >> group & 1:
                    yield member, 0

    def _after(self, state: State, places: Iterable[Place], word: bool) -> State | None:
        """The state after a character with which these members are under way; ``None`` where it must not come."""
        found = state.found | (0 if word else self._ended(state))
        if not self.whole:
            for member, read in places:
                group, whole = self.members[member]
                if read == len(whole):
                    found |= 1 << group
        if found and not self.wanted:
            return None
        return State(found, frozenset(p for p in places if not found >> self.members[p[0]][0] & 1), self.whole and word)


# ---------------------------------------------------------------- bytes
Classes = tuple[Utf8 | None, ...]
"""For each class of characters the rest of one of them, ``None`` where it can be none."""


_COMPLETE = Utf8(())  # nothing is left of the character


class _Speller:
    """Characters beyond ASCII, byte by byte, told apart by class: what classes a byte leaves is found once for all states of a pool."""

    def __init__(self, pool: Pool) -> None:
        self.writable, self.writable_bytes = pool.writable, pool.writable_bytes
        self._classes: dict[tuple[tuple[int, ...], tuple[Kind, ...]], Classes] = {}
        self._splits: dict[Classes, list[tuple[int, Classes]]] = {}

    def classes(self, used: tuple[int, ...], kinds: tuple[Kind, ...]) -> Classes:
        """Each of the characters ``used``, then the others by kind."""
        found = self._classes.get((used, kinds))
        if found is None:
            others = _BEYOND - CharSet.of(used)
            sets = [CharSet.of([point]) for point in used]
            sets += [others if kind is None else others & word_characters() if kind else others - word_characters() for kind in kinds]
            found = self._classes[used, kinds] = tuple(map(self._utf8, sets))
        return found

    def _utf8(self, chars: CharSet) -> Utf8 | None:
        leaf = Utf8.of(chars if self.writable is None else chars & self.writable)
        return leaf if leaf.ranges else None

    def split(self, classes: Classes) -> list[tuple[int, Classes]]:
        """Byte masks and what is left of each class after them."""
        found = self._splits.get(classes)
        if found is None:
            parts: list[tuple[int, Classes]] = [(self.writable_bytes, ())]
            for leaf in classes:
                moves: list[tuple[int, Utf8 | None]] = [] if leaf is None else [(m, t or _COMPLETE) for m, t in _utf8_moves(leaf)]
                seen = sum(mask for mask, _ in moves)
                parts = [(m & mask, (*tails, tail)) for m, tails in parts for mask, tail in [*moves, (~seen, None)] if m & mask]
            merged: dict[Classes, int] = {}
            for mask, tails in parts:
                if any(tail is not None for tail in tails):
                    merged[tails] = merged.get(tails, 0) | mask
            found = self._splits[classes] = [(mask, tails) for tails, mask in merged.items()]
        return found

    def moves(self, pool: Pool, classes: Classes, targets: tuple[int, ...]) -> list[tuple[int, int]]:
        """Byte masks and expressions after them, where class ``i`` leads to the expression ``targets[i]`` (0: nowhere)."""
        merged: dict[int, int] = {}
        for mask, tails in self.split(classes):
            target = self._behind(pool, tails, targets)
            if target:
                merged[target] = merged.get(target, 0) | mask
        return [(mask, target) for target, mask in merged.items()]

    def _behind(self, pool: Pool, tails: Classes, targets: tuple[int, ...]) -> int:
        alive = [(tail, target) for tail, target in zip(tails, targets) if tail is not None and target]
        if len(alive) > 1:
            return pool.leaf(_Within(tuple(tail for tail, _ in alive), tuple(target for _, target in alive), pool))
        for tail, target in alive:
            return target if tail is _COMPLETE else pool.cat(pool.leaf(tail), target)
        return 0


_SPELLERS: WeakKeyDictionary[Pool, _Speller] = WeakKeyDictionary()


def _speller(pool: Pool) -> _Speller:
    found = _SPELLERS.get(pool)
    if found is None:
        found = _SPELLERS[pool] = _Speller(pool)
    return found


def _utf8_moves(leaf: Utf8) -> list[tuple[int, Utf8 | None]]:
    moves = []
    for mask, tail in leaf.transitions():
        assert tail is None or isinstance(tail, Utf8)
        moves.append((mask, tail))
    return moves


@dataclass(frozen=True)
class _Within:
    """Inside of a character that may yet be of several classes."""

    classes: Classes
    targets: tuple[int, ...]
    pool: Pool = field(compare=False, repr=False)
    nullable = False

    @property
    def min_length(self) -> int:
        return min(leaf.min_length + bound(self.pool, target) for leaf, target in zip(self.classes, self.targets) if leaf is not None)

    def transitions(self) -> list[tuple[int, int]]:
        return _speller(self.pool).moves(self.pool, self.classes, self.targets)


@dataclass(frozen=True)
class _At:
    """A state as a leaf of an expression pool."""

    words: Words
    state: State
    pool: Pool = field(compare=False, repr=False)

    @property
    def nullable(self) -> bool:
        return self.words.accepts(self.state)

    @property
    def min_length(self) -> int:
        return self.words.least(self.state)

    def transitions(self) -> list[tuple[int, int]]:
        pool, moves, speller = self.pool, self.words.moves(self.state), _speller(self.pool)
        merged: dict[int, int] = {}
        for state, mask in moves.ascii.items():
            mask &= pool.writable_bytes
            if mask:
                target = _expr(pool, self.words, state)
                merged[target] = merged.get(target, 0) | mask
        after = [*map(moves.points.get, moves.used), *moves.rest.values()]
        targets = tuple(0 if state is None else _expr(pool, self.words, state) for state in after)
        for mask, target in speller.moves(pool, speller.classes(moves.used, tuple(moves.rest)), targets):
            merged[target] = merged.get(target, 0) | mask
        return [(mask, target) for target, mask in merged.items()]


def _expr(pool: Pool, words: Words, state: State) -> int:
    return pool.any_text() if words.settled(state) else pool.leaf(_At(words, state, pool))


def words_expr(pool: Pool, words: Words) -> int:
    """The texts that have a word of every group, or none of any.

    Every member must be one that can be written; for whole words there must be a character that is none of a word, or (where words are not
    wanted) one that is.
    """
    return _expr(pool, words, State())
