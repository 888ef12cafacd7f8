"""The lexer: lexemes of one parser state run in parallel as one lazily determinised byte automaton.

A *lexer state* is an interned tuple of expressions (:mod:`grammars.regex.expr`, as :mod:`grammars.mirror` shows them to the
kernels), one for each lexeme that is still possible, in slot order. States are content-addressed: they know nothing of a grammar, so all
JSON strings of all schemas share the same states, rows and token masks. One :class:`Lexer` serves all automata of a vocabulary.

States at the start of a lexeme are distinct from those inside of one, and accept nothing. The owner of a lexer serialises access to
it (:attr:`Lexer.lock`).

Tables, indexed by state (the work is done by :mod:`.kernels.rows`):

- ``rows`` int32[n]: the number of the state's row, 0 where it is not made yet;
- ``accept`` int32[n]: 0, or the id of the tuple of slots whose lexeme may end here;

and by row (most states are never asked for theirs):

- ``table`` int32[rows, 256]: next state, 0 dead;
- ``kept`` int32[rows, 256]: 0 where every slot survives the byte, else the id of the tuple of surviving slots.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .kernels import earley
from .kernels.entries import ADDRESSES
from .kernels.fields import (
    LEXER,
    N_ACCEPTS,
    N_ASKED_EXPRS,
    N_KEEPS,
    N_ROWS,
    N_TUPLES,
    N_WALKS,
    REACH,
    SEGMENT,
    WANTED,
)
from .kernels.masking import FIRST
from .kernels.memory import Tables
from .kernels.texts import NATIVE
from .mirror import NO_ITEMS, NO_PARSER, NOTHING, Mirror
from .regex.expr import Pool
from .segments import Segments

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

__all__ = ["Lexer"]

TRIE = ("trie_byte", "trie_depth", "trie_end", "trie_first", "trie_tokens")
_MAX_ROWS = 80_000  # 2 KB each
_MAX_STATES = 400_000  # 0.1 to 0.4 KB each
_MAX_EXPRESSIONS = 400_000  # about 1 KB each
_HASHES = ("tuple_hash", "accept_hash", "keep_hash", "node_hash", "walk_hash")


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
            tables.place(name, np.zeros((_MAX_ROWS + (_MAX_ROWS >> 2), 256), np.int32))
        tables.reserve("stack", vocabulary.max_token_bytes + 2)
        tables.reserve("own", 2 * vocabulary.words)
        tables.reserve("exits", len(vocabulary.trie_byte))
        tables.reserve("trie_below", len(vocabulary.trie_byte))
        earley.run(NO_PARSER, tables.context, earley.CLASSES_BELOW, 0, 0, NO_ITEMS, *NOTHING)
        count = tables.count
        count[N_TUPLES] = count[N_ACCEPTS] = count[N_KEEPS] = count[N_WALKS] = count[N_ROWS] = 1
        count[REACH] = vocabulary.max_token_bytes
        self.mirror = Mirror(self.pool, tables, self.grow)
        self.segments = Segments(self)
        self._scale = 1
        self.remainders: dict[int, float] = {}  # of expressions: see :func:`.regex.remainder.remainder`
        self._parents: NDArray[np.int32] | None = None
        self._view()
        assert self.accepts((0,)) == FIRST

    def __len__(self) -> int:
        return int(self.tables.count[N_TUPLES])

    @property
    def full(self) -> bool:
        """Whether it is time for a fresh lexer; automata that use this one keep it until they are renewed."""
        rows, scale = int(self.tables.count[N_ROWS]), self._scale
        return rows > _MAX_ROWS * scale or len(self) > _MAX_STATES * scale or len(self.pool) > _MAX_EXPRESSIONS * scale

    def stretch(self) -> None:
        """Lets it hold twice as much: for a text that needs more than all of it."""
        self._scale *= 2

    def _view(self) -> None:
        tables = self.tables
        self.table, self.kept, self.accept = tables.table, tables.kept, tables.accept
        self.table_view = self.table.reshape(-1).data
        self.kept_view = self.kept.reshape(-1).data
        self.accept_view = self.accept.data
        self.rows_view = tables.rows.data

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
            self.segments.asked(int(count[WANTED]))
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

    def row(self, x: int) -> int:
        """The number of the row of state ``x``, which is made where it is missing."""
        found: int = self.rows_view[x]
        while not found:
            status: int = earley.run(NO_PARSER, self.tables.context, earley.ROW, x, 0, NO_ITEMS, *NOTHING)
            if status < 0:
                self.resolve(status)
            found = self.rows_view[x]
        return found

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

