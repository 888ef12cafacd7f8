"""The lexer: lexemes of one parser state run in parallel as one lazily determinised byte automaton.

A *lexer state* is an interned tuple of expressions (:mod:`grammars.regex.expr`), one for each lexeme that
is still possible, in slot order. States are content-addressed: they know nothing of a grammar, so all JSON
strings of all schemas share the same states, rows and token masks. One :class:`Lexer` serves all
automata of a vocabulary.

Tables, indexed by state:

- ``table`` int32[n, 256]: next state, 0 dead, -1 (whole row) not made yet;
- ``kept`` int32[n, 256]: 0 where every slot survives the byte, else the id of the tuple of surviving slots;
- ``accept`` int32[n]: 0, or the id of the tuple of slots whose lexeme may end here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .kernels.walk import table_walk
from .regex.expr import Pool

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

__all__ = ["WIDE", "Lexer", "Segment"]

#: A state is *wide* when at least this many bytes keep it alive: its token mask is worth keeping.
WIDE = 48

_SEGMENT_BYTES = 64 << 20
_MAX_STATES = 60_000  # 2 KB of tables each
_MAX_EXPRESSIONS = 2_000_000


def grown(array: NDArray[Any], size: int, fill: int = -1) -> NDArray[Any]:
    """``array`` with room for ``size`` rows (doubling), new rows filled with ``fill``."""
    if size <= len(array):
        return array
    new = np.full((max(size, 2 * len(array)), *array.shape[1:]), fill, dtype=array.dtype)
    new[: len(array)] = array
    return new


class Interned:
    """Tuples of small integers <-> ids, from 1 on; id 0 is reserved."""

    def __init__(self) -> None:
        self.values: list[tuple[int, ...]] = [()]
        self.ids: dict[tuple[int, ...], int] = {}

    def __call__(self, value: tuple[int, ...]) -> int:
        found = self.ids.get(value)
        if found is None:
            found = self.ids[value] = len(self.values)
            self.values.append(value)
        return found


class Segment:
    """What a lexer state says of the whole vocabulary, without a parser.

    Attributes:
        row: uint32[words], tokens that stay inside the lexeme (their last byte may complete it).
        exits: int32[n, 2] ranges of trie nodes below a node where the lexeme may end inside a token.
    """

    __slots__ = ("exits", "row")

    def __init__(self, row: NDArray[np.uint32], exits: NDArray[np.int32]) -> None:
        self.row, self.exits = row, exits


class Lexer:
    """All lexer states of a vocabulary; see the module's docstring."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.pool = Pool(vocabulary.writable, vocabulary.writable_bytes)
        self.lock = threading.RLock()
        self.table = np.full((256, 256), -1, np.int32)
        self.kept = np.zeros((256, 256), np.int32)
        self.accept = np.zeros(256, np.int32)
        self.accepts = Interned()
        self.keeps = Interned()
        self.exprs: list[tuple[int, ...]] = [()]
        self.table[0] = 0
        self._ids: dict[tuple[int, ...], int] = {}
        self._live = [0]
        self._splits: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._byte_index: dict[int, NDArray[np.intp]] = {}
        self._segments: OrderedDict[int, Segment] = OrderedDict()
        self._segment_bytes = 0
        self._view()

    def __len__(self) -> int:
        return len(self.exprs)

    @property
    def full(self) -> bool:
        """Whether it is time for a fresh lexer; automata that use this one keep it until they are renewed."""
        return len(self.exprs) > _MAX_STATES or len(self.pool) > _MAX_EXPRESSIONS

    def _view(self) -> None:
        self.table_view = self.table.reshape(-1).data
        self.kept_view = self.kept.reshape(-1).data
        self.accept_view = self.accept.data

    # ------------------------------------------------------------ states
    def state(self, exprs: tuple[int, ...], start: bool = False) -> int:
        """The state of these (non-empty) expressions. ``start`` makes it distinct from the same state met in the middle of a lexeme."""
        key = (-1, *exprs) if start else exprs
        found = self._ids.get(key)
        if found is not None:
            return found
        x = len(self.exprs)
        if x >= len(self.table):
            self.table = grown(self.table, x + 1)
            self.kept = grown(self.kept, x + 1, 0)
            self.accept = grown(self.accept, x + 1, 0)
            self._view()
        nullable = self.pool.nullable
        ends = tuple(i for i, e in enumerate(exprs) if nullable(e))
        self.accept[x] = self.accepts(ends) if ends else 0
        self._ids[key] = x
        self.exprs.append(exprs)
        self._live.append(-1)
        return x

    def row(self, x: int) -> None:
        """Makes the row of state ``x`` where it is missing."""
        if self._live[x] >= 0:
            return
        with self.lock:
            if self._live[x] >= 0:
                return
            exprs = self.exprs[x]
            moves = self._single(exprs[0]) if len(exprs) == 1 else self._parallel(exprs)
            table, kept = np.zeros(256, np.int32), np.zeros(256, np.int32)
            live = 0
            for mask, target, keep in moves:
                index = self._bytes(mask)
                table[index] = target
                if keep:
                    kept[index] = keep
                live += len(index)
            self.kept[x] = kept
            self.table[x] = table
            self._live[x] = live

    def _single(self, expr: int) -> list[tuple[int, int, int]]:
        return [(mask, self.state((target,)), 0) for mask, target in self.pool.transitions(expr)]

    def _parallel(self, exprs: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """(bytes, next state, kept id) of several lexemes at once: refines their byte classes to a common partition."""
        parts: dict[int, list[tuple[int, int]]] = {}
        union = 0
        for i, expr in enumerate(exprs):
            for mask, target in self.pool.transitions(expr):
                same = parts.get(mask)
                if same is not None:
                    same.append((i, target))
                    continue
                if mask & union:
                    for other in [m for m in parts if m & mask]:
                        common = other & mask
                        if common != other:
                            moves = parts.pop(other)
                            parts[other & ~mask] = moves
                            parts[common] = [*moves, (i, target)]
                        else:
                            parts[other].append((i, target))
                        mask &= ~common
                if mask:
                    parts[mask] = [(i, target)]
                    union |= mask
        count = len(exprs)
        result = []
        for mask, moves in parts.items():
            keep = 0 if len(moves) == count else self.keeps(tuple(i for i, _ in moves))
            result.append((mask, self.state(tuple(t for _, t in moves)), keep))
        return result

    def _bytes(self, mask: int) -> NDArray[np.intp]:
        index = self._byte_index.get(mask)
        if index is None:
            bits = np.frombuffer(mask.to_bytes(32, "little"), np.uint8)
            index = self._byte_index[mask] = np.nonzero(np.unpackbits(bits, bitorder="little"))[0]
        return index

    def wide(self, x: int) -> bool:
        """Whether many bytes keep ``x`` alive (a string's inside, say); makes the row."""
        self.row(x)
        return self._live[x] >= WIDE

    def split(self, x: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Slots of ``x`` whose expression alone is wide, and the others."""
        found = self._splits.get(x)
        if found is None:
            exprs = self.exprs[x]
            wide = tuple(i for i, e in enumerate(exprs) if self.wide(self.state((e,))))
            found = self._splits[x] = (wide, tuple(i for i in range(len(exprs)) if i not in wide))
        return found

    # ------------------------------------------------------------ segments
    def segment(self, expr: int) -> Segment:
        """The tokens that stay inside the lexeme ``expr``, and where others leave it; kept for all grammars.

        Counts too big to matter within a token are saturated first, so that ``.{0,5000}`` has a
        handful of segments, not 5,000.
        """
        vocabulary = self.vocabulary
        x = self.state((self.pool.saturate(expr, vocabulary.max_token_bytes),))
        with self.lock:
            found = self._segments.get(x)
            if found is None:
                found = self._segments[x] = self._make_segment(x)
                self._segment_bytes += found.row.nbytes + found.exits.nbytes
                while self._segment_bytes > _SEGMENT_BYTES and len(self._segments) > 1:
                    _, old = self._segments.popitem(last=False)
                    self._segment_bytes -= old.row.nbytes + old.exits.nbytes
            else:
                self._segments.move_to_end(x)
            return found

    def _make_segment(self, x: int) -> Segment:
        v = self.vocabulary
        nodes = len(v.trie_byte)
        row = np.zeros(v.words, np.uint32)
        exits = np.empty(nodes, np.int32)
        stack, miss = np.empty(v.max_token_bytes + 2, np.int32), np.empty((4096, 3), np.int32)
        first = np.array([[1, nodes, x]], np.int32)
        roots, count = first, 0
        self.row(x)
        while len(roots):
            missing, count = table_walk(roots, len(roots), *v.trie_arrays, self.table, self.accept, row, exits, count, stack, miss)
            for state in {int(s) for s in miss[: missing if missing >= 0 else len(miss) - 4, 2]}:
                self.row(state)
            if missing < 0:
                roots, count = first, 0
            else:
                roots = miss[:missing].copy()
        nodes_out = np.sort(exits[:count])
        ranges = np.empty((count, 2), np.int32)
        ranges[:, 0], ranges[:, 1] = nodes_out + 1, v.trie_end[nodes_out]
        row.setflags(write=False)
        return Segment(row, ranges)

    def mergeable_from(self, data: bytes) -> int:
        """The first offset in ``data`` from which some longer token could swallow the rest of it together with what follows."""
        ends = self.vocabulary.trie_end
        for start in range(max(0, len(data) - self.vocabulary.max_token_bytes), len(data)):
            node = self._find(data[start:])
            if node >= 0 and ends[node] > node + 1:
                return start
        return len(data)

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

    def restricted(self, slots: Sequence[int], keep: int) -> tuple[int, ...]:
        """``slots`` narrowed to the tuple of positions behind a kept id."""
        return tuple(slots[i] for i in self.keeps.values[keep])
