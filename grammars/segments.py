"""What a lexer state of one lexeme says of the whole vocabulary: the tokens that stay inside, and where others leave it.

A segment is found by walking the vocabulary's trie (:mod:`.kernels.segments`), once, and kept for all grammars. Lexemes that count have
as many states as there are counts; their segments are made without walks where that is possible:

- a counted repetition, out of how often each token repeats its body (:class:`Repetitions`);
- a pattern within a length, out of the length that each token asks for (:class:`Lengths`);
- a count somewhere within a pattern (``(\\w+ ){0,99}``) lies between two that many states share: ``{0,12}`` and no bound at all. Where
  these two have the same segment, so has everything between.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import earley
from .kernels.fields import GROW, N_EXITS, TRACK
from .mirror import NO_ITEMS, NO_PARSER, NOTHING
from .regex.saturate import between

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lexer import Lexer

__all__ = ["Segment", "Segments"]

_BYTES = 64 << 20  # of all segments
_TABLES = 32  # of repetitions and of lengths that are kept, half a megabyte each for 130,000 tokens
_NEVER = 1 << 14  # a length that no token asks for
_FEW = 12  # counts above it are looked at as if there were no bound

Trie = tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]


class Segment:
    """What a lexer state says of the whole vocabulary, without a parser.

    Attributes:
        row: uint32[words], tokens that stay inside the lexeme (their last byte may complete it).
        exits: int32[n] trie nodes where the lexeme may end inside a token, ascending.
        ends: int32[n] the ends of their subtrees.
        shape: 2 with exits below exits, 1 with tokens that stay inside below exits, 0 with neither.
        following: these subtrees merged into one trie: bytes, depths, ends, firsts, tokens (as those of the vocabulary); ``None`` where
            nobody has asked yet.
        addresses: of all of it, for the kernels.
    """

    __slots__ = ("ends", "exits", "following", "row", "shape")

    def __init__(self, row: NDArray[np.uint32], exits: NDArray[np.int32], ends: NDArray[np.int32], shape: int) -> None:
        row.setflags(write=False)
        self.row, self.exits, self.ends, self.shape = row, exits, ends, shape
        self.following: Trie | None = None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.row, self.exits, self.ends, *(self.following or ())))

    @property
    def addresses(self) -> list[int]:
        own = [array.ctypes.data for array in (self.row, self.exits, self.ends)]
        if self.following is None:
            return [*own, len(self.exits), self.shape, *[0] * 7]
        behind = [array.ctypes.data for array in self.following]
        return [*own, len(self.exits), self.shape, *behind, len(self.following[0]), len(self.following[4])]


class Repetitions(NamedTuple):
    """How often the tokens that stay inside of a counted repetition (and what follows it) repeat its body.

    Attributes:
        used: int16[32 * words], by token; more than any token has bytes for the others.
        past: bool[32 * words], whether the token goes on behind the last repetition.
        exits: int32[n] trie nodes where the lexeme may end inside a token, ascending; exit_used: int32[n], likewise.
    """

    used: NDArray[np.int16]
    past: NDArray[np.bool_]
    exits: NDArray[np.int32]
    exit_used: NDArray[np.int32]


@dataclass(slots=True)
class Lengths:
    """Of a lexeme of a bounded length (a repetition of characters, say) within a pattern: what tokens ask of the bound.

    Attributes:
        sure: int16[32 * words], by token: the least bound for which it is known to stay inside of the lexeme.
        least: int16[32 * words]: no smaller bound will do (more than any for tokens that no bound lets in).
        exits: int32[n] trie nodes where the lexeme may end inside a token, ascending; exit_used: int32[n], the least bound for them.
        reach: no token or exit asks for more.
        numbers: of the segments that were made, by bound.
    """

    sure: NDArray[np.int16]
    least: NDArray[np.int16]
    exits: NDArray[np.int32]
    exit_used: NDArray[np.int32]
    reach: int = 0
    numbers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        asked = self.sure[self.sure < _NEVER]
        self.reach = max(int(asked.max(initial=0)), int(self.exit_used.max(initial=0)))

    def same(self, other: Lengths) -> bool:
        """Whether the two say the same."""
        names = ("sure", "least", "exits", "exit_used")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)


class Segments:
    """The segments of one lexer."""

    def __init__(self, lexer: Lexer) -> None:
        self.lexer, self.vocabulary = lexer, lexer.vocabulary
        self.kept: OrderedDict[int, Segment] = OrderedDict()
        self._bytes = self._count = 0
        self._repetitions: OrderedDict[tuple[int, int], Repetitions] = OrderedDict()
        self._lengths: OrderedDict[tuple[int, int, int], Lengths] = OrderedDict()
        self._between: dict[int, tuple[int, int]] = {}
        self._same: dict[tuple[int, int, int, int], bool] = {}
        self._met: set[tuple[int, int, int, int]] = set()

    def want(self, x: int) -> None:
        """Makes the segment of state ``x``, of one lexeme."""
        tables, mirror = self.lexer.tables, self.lexer.mirror
        e = int(tables.exprs[tables.tuples[x, 0]])
        number = self._within(e) if mirror.is_pair(e) else 0
        if not number:
            y = x if mirror.is_pair(e) else self._shared(x)
            number = int(tables.tuples[y, 6]) or self._add(self._make(y))
            tables.tuples[y, 6] = number
        tables.tuples[x, 6] = number

    def asked(self, wanted: int) -> None:
        """Answers a kernel: makes the segment of a state, or what follows the segment ``-wanted``."""
        if wanted > 0:
            self.want(wanted)
            return
        made = self.kept[-wanted]
        self._bytes -= made.nbytes
        made.following = self._following(made.exits, made.ends)
        self._bytes += made.nbytes
        self.lexer.tables.segments[-wanted] = made.addresses

    def get(self, x: int) -> Segment:
        """The segment of state ``x`` (of one lexeme)."""
        if not self.lexer.tables.tuples[x, 6]:
            self.want(x)
        return self.kept[int(self.lexer.tables.tuples[x, 6])]

    def trim(self) -> None:
        """Drops the oldest segments beyond ``_BYTES``; not while a mask is being made, which may need more of them at once."""
        while self._bytes > _BYTES and len(self.kept) > 1:
            old, gone = self.kept.popitem(last=False)
            self._bytes -= gone.nbytes
            known = self.lexer.tables.tuples[: len(self.lexer), 6]
            known[known == old] = 0

    def _add(self, made: Segment) -> int:
        self._count = number = self._count + 1
        self.kept[number] = made
        self._bytes += made.nbytes
        self.lexer.tables.reserve("segments", number + 1)[number] = made.addresses
        self.lexer.tables.reserve("drops", len(made.exits))
        return number

    # ------------------------------------------------------------ one for many states
    def _shared(self, x: int) -> int:
        """A state with the segment of ``x`` that stands for many.

        Counts too big to matter within a token are saturated, so that ``.{0,5000}`` has a handful of segments, not 5,000.
        """
        lexer, pool = self.lexer, self.lexer.pool
        cut = pool.saturate(lexer.exprs(x)[0], self.vocabulary.max_token_bytes)
        native = lexer.mirror.native(cut)
        if lexer.mirror.repetition(native) is None:
            low, high = between(pool, cut, _FEW, self._between)
            if low != high and self._alike(low, high):
                native = lexer.mirror.native(high)
        return lexer.state((native,))

    def _alike(self, low: int, high: int) -> bool:
        """Whether two expressions, the first a part of the second, have the same segment; ``False`` when they are first met."""

        def compare() -> bool:
            a, b = (self.get(self.lexer.state((e,))) for e in (low, high))
            return np.array_equal(a.row, b.row) and np.array_equal(a.exits, b.exits)

        return self._known((low, high, 0, 0), compare)

    def _known(self, key: tuple[int, int, int, int], compare: Callable[[], bool]) -> bool:
        """What ``compare`` says, asked once and not on the first call, since comparing takes longer than making what is asked for.

        ``key``: the smaller expression, the larger one, and what they are compared for.
        """
        found = self._same.get(key)
        if found is None:
            if key not in self._met:
                self._met.add(key)
                return False
            found = self._same[key] = not self.lexer.pool.is_empty(key[0]) and compare()
        return found

    # ------------------------------------------------------------ walks
    def _make(self, x: int) -> Segment:
        counted = self._counted(x)
        if counted is not None:
            return counted
        row, exits = self._walk(x, 0)
        exits.sort()
        return self._segment(row, exits)

    def _selected(self, tokens: NDArray[np.bool_], exits: NDArray[np.int32]) -> Segment:
        return self._segment(np.packbits(tokens, bitorder="little").view(np.uint32), exits)

    def _segment(self, row: NDArray[np.uint32], exits: NDArray[np.int32]) -> Segment:
        v = self.vocabulary
        ends = v.trie_end[exits]
        if (exits[1:] < ends[:-1]).any():
            return Segment(row, exits, ends, 2)
        first = v.trie_first[exits + 1]
        lengths = v.trie_first[ends] - first
        # the places of the tokens behind each exit, one range after the other
        behind = v.trie_tokens[np.arange(lengths.sum()) + np.repeat(first - lengths.cumsum() + lengths, lengths)]
        return Segment(row, exits, ends, int((row[behind >> 5] >> (behind & 31).astype(np.uint32) & np.uint32(1)).any()))

    def _walk(self, x: int, body: int) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
        """Tokens inside of the lexeme, and its exits (in any order); see :func:`grammars.kernels.segments.segment`."""
        tables = self.lexer.tables
        status, resume = GROW, 0
        while status < 0:
            if status == GROW:
                row, resume = np.zeros(self.vocabulary.words, np.uint32), 0
            status = earley.run(NO_PARSER, tables.context, earley.SEGMENT_OF, x, resume | body << 1, NO_ITEMS, row, *NOTHING[1:])
            if status < 0:
                self.lexer.resolve(status)
                resume = 1
        return row, tables.exits[: int(tables.count[N_EXITS])].copy()

    def _units(self, x: int, body: int, beside: int, none: int) -> tuple[NDArray[np.int32], ...]:
        """What a walk that counts tells: the four columns of ``units`` by token, ``none`` for those that are not inside; exits, theirs.

        Counted is ``body`` in the lexeme, or the repetitions of lexer state ``beside``.
        """
        tables = self.lexer.tables
        tables.reserve("units", 32 * self.vocabulary.words)
        tables.reserve("exit_units", len(self.vocabulary.trie_byte))
        tables.units[:] = none, 0, 0, 0
        tables.count[TRACK] = beside
        try:
            _, exits = self._walk(x, body)
        finally:
            tables.count[TRACK] = 0
        order = np.argsort(exits)
        columns = tables.units[: 32 * self.vocabulary.words].T.copy()
        return *columns, exits[order], tables.exit_units[: len(exits)][order]

    def _following(self, exits: NDArray[np.int32], ends: NDArray[np.int32]) -> Trie:
        """The trie of what follows the exits within tokens."""
        v = self.vocabulary
        nodes = int((ends - exits - 1).sum()) + 1
        tokens = int((v.trie_first[ends] - v.trie_first[exits + 1]).sum())
        work = np.empty(len(exits) + nodes, np.int32)
        work[: len(exits)] = exits
        trie = (
            np.empty(nodes, np.uint8), np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes + 1, np.int32),
            np.empty(tokens, np.int32),
        )  # fmt: skip
        size = earley.following(self.lexer.tables.context, work, len(exits), v.max_token_bytes, *trie)
        return trie[0][:size].copy(), trie[1][:size].copy(), trie[2][:size].copy(), trie[3][: size + 1].copy(), trie[4]

    # ------------------------------------------------------------ counted repetitions
    def _counted(self, x: int) -> Segment | None:
        """The segment of a counted repetition, out of how often each token repeats; ``None`` where that cannot be told so."""
        tables = self.lexer.tables
        found = self.lexer.mirror.repetition(int(tables.exprs[tables.tuples[x, 0]]))
        if found is None:
            return None
        body, lo, hi, rest = found
        reach = self.vocabulary.max_token_bytes + 1
        hi = reach if hi < 0 else min(hi, reach)
        units = _kept(self._repetitions, (body, rest), lambda: self._repeat(body, rest, reach))
        tokens = (units.used <= hi) & ((units.used >= lo) | ~units.past)
        return self._selected(tokens, units.exits[(units.exit_used >= lo) & (units.exit_used <= hi)])

    def _repeat(self, body: int, rest: int, reach: int) -> Repetitions:
        """How often each token repeats ``body`` before ``rest``."""
        x = self.lexer.state((self.lexer.mirror.counted(body, reach, rest),))
        used, past, _, _, exits, exit_used = self._units(x, body, 0, reach + 1)
        return Repetitions(used.astype(np.int16), past.astype(bool), exits, exit_used)

    # ------------------------------------------------------------ patterns within a length
    def _within(self, e: int) -> int:
        """The number of the segment of a pattern within a length, out of what tokens ask of it; 0 where that cannot be told so."""
        found = self.lexer.mirror.bounded(e)
        if found is None:
            return 0
        body, most, pattern, rest = found
        lengths = self._lengths_of(body, pattern, rest)
        most = min(most, lengths.reach)
        number = lengths.numbers.get(most, 0)
        if number not in self.kept:
            tokens = lengths.sure <= most
            if ((lengths.least <= most) & ~tokens).any():
                return 0
            number = lengths.numbers[most] = self._add(self._selected(tokens, lengths.exits[lengths.exit_used <= most]))
        return number

    def _lengths_of(self, body: int, pattern: int, rest: int) -> Lengths:
        mirror = self.lexer.mirror
        low, high = between(self.lexer.pool, mirror.expr(pattern), _FEW, self._between)

        def measured(pattern: int) -> Lengths:
            return _kept(self._lengths, (body, pattern, rest), lambda: self._measure(body, pattern, rest))

        def compare() -> bool:
            return measured(mirror.native(low)).same(measured(mirror.native(high)))

        shared = low != high and self._known((low, high, body, rest), compare)
        return measured(mirror.native(high) if shared else pattern)

    def _measure(self, body: int, pattern: int, rest: int) -> Lengths:
        """What each token asks of the bound on the number of ``body`` in ``pattern``, which ``rest`` follows.

        A token may end where as many bytes as complete the pattern still fit as characters. They may be fewer characters than bytes, but
        not none, unless one has begun.
        """
        lexer, pool, mirror = self.lexer, self.lexer.pool, self.lexer.mirror
        characters = lexer.state((mirror.native(pool.star(body)),))
        used, past, needed, begun, exits, exit_used = self._units(lexer.state((mirror.chain(pattern, rest),)), 0, characters, _NEVER)
        needed = np.where(past, 0, np.maximum(needed - pool.min_length(mirror.expr(rest)), 0))
        sure = np.minimum(used + needed, _NEVER).astype(np.int16)
        least = np.minimum(used + ((needed > 0) & (begun == 0)), _NEVER).astype(np.int16)
        return Lengths(sure, least, exits, exit_used)


def _kept(store: OrderedDict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """What ``store`` has for ``key``, made where it is missing; the least recently used are dropped."""
    found = store.get(key)
    if found is None:
        found = store[key] = make()
        if len(store) > _TABLES:
            store.popitem(last=False)
    else:
        store.move_to_end(key)
    return found
