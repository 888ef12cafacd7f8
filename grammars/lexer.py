"""The lexer: lexemes of one parser state run in parallel as one lazily determinised byte automaton.

A *lexer state* is an interned tuple of expressions (:mod:`grammars.regex.expr`, as :mod:`grammars.mirror` shows them to the
kernels), one for each lexeme that is still possible, in slot order. States are content-addressed: they know nothing of a grammar, so all
JSON strings of all schemas share the same states, rows and token masks. One :class:`Lexer` serves all automata of a vocabulary.

States at the start of a lexeme are distinct from those inside of one, and accept nothing. The owner of a lexer serialises access to
it (:attr:`Lexer.lock`).

Tables, indexed by state (the work is done by :mod:`.kernels.rows`):

- ``table`` int32[n, 256]: next state, 0 dead, -1 (in column 0) where the row is not made yet;
- ``kept`` int32[n, 256]: 0 where every slot survives the byte, else the id of the tuple of surviving slots;
- ``accept`` int32[n]: 0, or the id of the tuple of slots whose lexeme may end here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import earley
from .kernels.entries import ADDRESSES
from .kernels.fields import (
    GROW,
    LEXER,
    N_ACCEPTS,
    N_ASKED_EXPRS,
    N_EXITS,
    N_KEEPS,
    N_TUPLES,
    N_WALKS,
    NEEDED,
    REACH,
    SEGMENT,
    TRACK,
    WANTED,
)  # fmt: skip
from .kernels.masking import FIRST
from .kernels.memory import Tables
from .kernels.texts import NATIVE
from .mirror import NO_ITEMS, NO_PARSER, NOTHING, Mirror
from .regex.expr import Pool

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

__all__ = ["Lexer", "Segment"]

_SEGMENT_BYTES = 64 << 20
TRIE = ("trie_byte", "trie_depth", "trie_end", "trie_first", "trie_tokens")
_MAX_STATES = 80_000  # 2 KB of tables each
_MAX_EXPRESSIONS = 400_000  # about 1 KB each
_HASHES = ("tuple_hash", "accept_hash", "keep_hash", "node_hash", "walk_hash")


Trie = tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]


class Segment:
    """What a lexer state says of the whole vocabulary, without a parser.

    Attributes:
        row: uint32[words], tokens that stay inside the lexeme (their last byte may complete it).
        exits: int32[n] trie nodes where the lexeme may end inside a token, ascending.
        ends: int32[n] the ends of their subtrees.
        following: these subtrees merged into one trie: bytes, depths, ends, firsts, tokens (as those of the vocabulary).
        addresses: of all of it, for the kernels.
    """

    __slots__ = ("addresses", "ends", "exits", "following", "nbytes", "row")

    def __init__(self, row: NDArray[np.uint32], exits: NDArray[np.int32], ends: NDArray[np.int32], following: Trie) -> None:
        row.setflags(write=False)
        self.row, self.exits, self.ends, self.following = row, exits, ends, following
        arrays = (row, exits, ends, *following)
        self.nbytes = sum(array.nbytes for array in arrays)
        place = [array.ctypes.data for array in arrays]
        # 2: exits below exits; 1: tokens that stay inside below exits; 0: neither
        behind = following[4]
        inside = bool((row[behind >> 5] >> (behind & 31).astype(np.uint32) & np.uint32(1)).any())
        shape = 2 if (exits[1:] < ends[:-1]).any() else int(inside)
        self.addresses = [*place[:3], len(exits), shape, *place[3:], len(following[0]), len(behind)]


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


class Lexer:
    """All lexer states of a vocabulary; see the module's docstring."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.pool = Pool(vocabulary.writable, vocabulary.writable_bytes)
        self.lock = threading.RLock()
        tables = self.tables = Tables(LEXER, dict.fromkeys(_HASHES, self._rehash) | {"seen": self._forget})
        at = 2 * tables.index["entries"]
        tables.context[at : at + 4] = ADDRESSES
        for name, array in zip(TRIE, vocabulary.trie_arrays, strict=True):
            tables.place(name, array)
        # Zeroed pages cost memory only when they are written: the wide tables have their full size at once and are never copied.
        for name in ("table", "kept"):
            tables.place(name, np.zeros((_MAX_STATES + (_MAX_STATES >> 2), 256), np.int32))
        tables.reserve("stack", vocabulary.max_token_bytes + 2)
        tables.reserve("own", 2 * vocabulary.words)
        tables.reserve("exits", len(vocabulary.trie_byte))
        tables.reserve("trie_below", len(vocabulary.trie_byte))
        earley.run(NO_PARSER, tables.context, earley.CLASSES_BELOW, 0, 0, NO_ITEMS, *NOTHING)
        count = tables.count
        count[N_TUPLES] = count[N_ACCEPTS] = count[N_KEEPS] = count[N_WALKS] = 1
        count[REACH] = vocabulary.max_token_bytes
        self.mirror = Mirror(self.pool, tables, self.grow)
        self._segments: OrderedDict[int, Segment] = OrderedDict()
        self._segment_bytes = self._segment_count = 0
        self._needed: dict[int, int] = {}
        self._repetitions: dict[tuple[int, int], Repetitions] = {}
        self._parents: NDArray[np.int32] | None = None
        self._view()
        assert self.accepts((0,)) == FIRST

    def __len__(self) -> int:
        return int(self.tables.count[N_TUPLES])

    @property
    def full(self) -> bool:
        """Whether it is time for a fresh lexer; automata that use this one keep it until they are renewed."""
        return len(self) > _MAX_STATES or len(self.pool) > _MAX_EXPRESSIONS

    def _view(self) -> None:
        tables = self.tables
        self.table, self.kept, self.accept = tables.table, tables.kept, tables.accept
        self.table_view = self.table.reshape(-1).data
        self.kept_view = self.kept.reshape(-1).data
        self.accept_view = self.accept.data

    def _rehash(self, field: int, old: NDArray[Any]) -> None:
        earley.run(NO_PARSER, self.tables.context, earley.REHASH_LEXER, field, 0, NO_ITEMS, *NOTHING)

    def _forget(self, field: int, old: NDArray[Any]) -> None:
        """Scratch: nothing to keep."""

    def grow(self) -> None:
        """Makes the room that kernels asked for."""
        if self.tables.grow():
            self._view()

    # ------------------------------------------------------------ kernels' wishes
    def resolve(self, status: int) -> None:
        """Answers what kernels asked of the lexer: moves of expressions, a segment, room."""
        count = self.tables.count
        asked = int(count[N_ASKED_EXPRS])
        if asked:
            count[N_ASKED_EXPRS] = 0
            for e in self.tables.asked_exprs[:asked].tolist():
                self.mirror.answer(e)
        if status == SEGMENT:
            self._want(int(count[WANTED]))
        self.grow()

    # ------------------------------------------------------------ states
    def _made(self, operation: int, values: tuple[int, ...], flag: int = 0) -> int:
        """The number of a tuple, which the kernel finds in ``picked``: scratch, so that it is written for each attempt."""
        n = len(values)
        while True:
            self.tables.reserve("picked", n)[:n] = values
            status: int = earley.run(NO_PARSER, self.tables.context, operation, n, flag, NO_ITEMS, *NOTHING)
            if status >= 0:
                return status
            self.resolve(status)

    def state(self, exprs: tuple[int, ...]) -> int:
        """The state of these (non-empty) expressions inside of a lexeme."""
        return self._made(earley.STATE, tuple([self.mirror.native(e) if e < NATIVE else e for e in exprs]))

    def accepts(self, positions: tuple[int, ...]) -> int:
        """The accept id of some positions."""
        return self._made(earley.POSITIONS, positions, 0)

    def keeps(self, positions: tuple[int, ...]) -> int:
        """The kept id of some positions."""
        return self._made(earley.POSITIONS, positions, 1)

    def accepted(self, accept: int) -> list[int]:
        """The positions behind an accept id."""
        return self._positions(self.tables.accepts, accept)

    def surviving(self, keep: int) -> list[int]:
        """The positions behind a kept id (not 0)."""
        return self._positions(self.tables.keeps, keep)

    def _positions(self, lists: NDArray[np.int32], number: int) -> list[int]:
        first, n = lists[number].tolist()
        found: list[int] = self.tables.indices[first : first + n].tolist()
        return found

    def exprs(self, x: int) -> tuple[int, ...]:
        """The pool's expressions of state ``x``."""
        first, n = self.tables.tuples[x, :2].tolist()
        return tuple([self.mirror.expr(e) for e in self.tables.exprs[first : first + n].tolist()])

    def row(self, x: int) -> None:
        """Makes the row of state ``x`` where it is missing."""
        while self.table_view[x << 8] < 0:
            status: int = earley.run(NO_PARSER, self.tables.context, earley.ROW, x, 0, NO_ITEMS, *NOTHING)
            if status < 0:
                self.resolve(status)

    # ------------------------------------------------------------ segments
    def _want(self, x: int) -> None:
        """Makes the segment of state ``x``, of one lexeme.

        Counts too big to matter within a token are saturated first, so that ``.{0,5000}`` has a handful of segments, not 5,000.
        """
        tables = self.tables
        e = int(tables.exprs[tables.tuples[x, 0]])
        if self.mirror.is_pair(e):
            y = self._loose(x, e)
        else:
            cut = self.pool.saturate(self.exprs(x)[0], self.vocabulary.max_token_bytes)
            y = self.state((self.mirror.native(cut),))
        number = int(tables.tuples[y, 6])
        if not number:
            self._segment_count = number = self._segment_count + 1
            made = self._segments[number] = self._make_segment(y)
            tables.reserve("segments", number + 1)[number] = made.addresses
            tables.reserve("drops", len(made.exits))
            self._segment_bytes += made.nbytes
        tables.tuples[[x, y], 6] = number

    def _loose(self, x: int, pair: int) -> int:
        """The state without its bound, if ``x`` is that of a pair whose bound is so far off that no token can meet it; else ``x``."""
        found = self.mirror.unbounded(pair)
        reach = self.vocabulary.max_token_bytes
        if found is None or found[1] < reach:
            return x
        lexeme, most, behind = found
        y = self.state((lexeme,))
        needed = self._needed.get(y)
        if needed is None:
            self.tables.count[TRACK] = 1
            try:
                self._walk(y, 0)
            finally:
                self.tables.count[TRACK] = 0
            needed = self._needed[y] = int(self.tables.count[NEEDED])
        # after a token of ``reach`` characters at most, a text is completed by ``needed`` more
        if most < reach + needed - behind:
            return x
        if not self.tables.tuples[y, 6]:
            self._want(y)
        return y

    def trim(self) -> None:
        """Drops the oldest segments beyond ``_SEGMENT_BYTES``; not while a mask is being made, which may need more of them at once."""
        while self._segment_bytes > _SEGMENT_BYTES and len(self._segments) > 1:
            old, gone = self._segments.popitem(last=False)
            self._segment_bytes -= gone.nbytes
            known = self.tables.tuples[: len(self), 6]
            known[known == old] = 0

    def segment(self, x: int) -> Segment:
        """The tokens that stay inside the lexeme of state ``x`` (of one lexeme), and where others leave it; kept for all grammars."""
        with self.lock:
            if not self.tables.tuples[x, 6]:
                self.trim()
                self._want(x)
            return self._segments[int(self.tables.tuples[x, 6])]

    def _make_segment(self, x: int) -> Segment:
        counted = self._counted(x)
        if counted is not None:
            return counted
        row, exits = self._walk(x, 0)
        exits.sort()
        ends = self.vocabulary.trie_end[exits]
        return Segment(row, exits, ends, self._following(exits, ends))

    def _walk(self, x: int, body: int) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
        """Tokens inside of the lexeme, and its exits (in any order); see :func:`grammars.kernels.segments.segment`."""
        tables = self.tables
        status, resume = GROW, 0
        while status < 0:
            if status == GROW:
                row, resume = np.zeros(self.vocabulary.words, np.uint32), 0
            status = earley.run(NO_PARSER, tables.context, earley.SEGMENT_OF, x, resume | body << 1, NO_ITEMS, row, *NOTHING[1:])
            if status < 0:
                self.resolve(status)
                resume = 1
        return row, tables.exits[: int(tables.count[N_EXITS])].copy()

    def _counted(self, x: int) -> Segment | None:
        """The segment of a counted repetition, out of how often each token repeats; ``None`` where that cannot be told so."""
        tables = self.tables
        found = self.mirror.repetition(int(tables.exprs[tables.tuples[x, 0]]))
        if found is None:
            return None
        body, lo, hi, rest = found
        reach = self.vocabulary.max_token_bytes + 1
        hi = reach if hi < 0 else min(hi, reach)
        units = self._repetitions.get((body, rest))
        if units is None:
            units = self._repetitions[body, rest] = self._repeat(body, rest, reach)
        tokens = (units.used <= hi) & ((units.used >= lo) | ~units.past)
        row = np.packbits(tokens, bitorder="little").view(np.uint32)
        exits = units.exits[(units.exit_used >= lo) & (units.exit_used <= hi)]
        ends = self.vocabulary.trie_end[exits]
        return Segment(row, exits, ends, self._following(exits, ends))

    def _repeat(self, body: int, rest: int, reach: int) -> Repetitions:
        """How often each token repeats ``body`` before ``rest``."""
        vocabulary, tables = self.vocabulary, self.tables
        tables.reserve("units", 32 * vocabulary.words)
        tables.reserve("exit_units", len(vocabulary.trie_byte))
        tables.units[:, 0] = reach + 1
        x = self.state((self.mirror.counted(body, reach, rest),))
        _, exits = self._walk(x, body)
        order = np.argsort(exits)
        used, past = tables.units[:, 0].astype(np.int16), tables.units[:, 1].astype(bool)
        return Repetitions(used, past, exits[order], tables.exit_units[: len(exits)][order])

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
        size = earley.following(self.tables.context, work, len(exits), v.max_token_bytes, *trie)
        return trie[0][:size].copy(), trie[1][:size].copy(), trie[2][:size].copy(), trie[3][: size + 1].copy(), trie[4]

    def mergeable_from(self, data: bytes) -> int:
        """The first offset in ``data`` from which some longer token could swallow the rest of it together with what follows."""
        ends = self.vocabulary.trie_end
        for start in range(max(0, len(data) - self.vocabulary.max_token_bytes), len(data)):
            node = self._find(data[start:])
            if node >= 0 and ends[node] > node + 1:
                return start
        return len(data)

    def path(self, node: int) -> bytes:
        """The bytes from the trie's root to ``node``."""
        if self._parents is None:
            depth = self.vocabulary.trie_depth
            parents = self._parents = np.zeros(len(depth), np.int32)
            above = np.zeros(1, np.intp)
            for level in range(1, int(depth.max()) + 1):
                nodes = np.flatnonzero(depth == level)
                parents[nodes] = above[np.searchsorted(above, nodes) - 1]
                above = nodes
        out = bytearray()
        while node:
            out.append(self.vocabulary.trie_byte[node])
            node = int(self._parents[node])
        return bytes(reversed(out))

    def _find(self, data: bytes) -> int:
        """The trie node of ``data``, or -1."""
        v = self.vocabulary
        node = 0
        for byte in data:
            child, stop = node + 1, int(v.trie_end[node])
            while child < stop and v.trie_byte[child] != byte:
                child = int(v.trie_end[child])
            if child >= stop:
                return -1
            node = child
        return node
