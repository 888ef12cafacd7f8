"""The lexer: lexemes of one parser state run in parallel as one lazily determinised byte automaton.

A *lexer state* is an interned tuple of expressions (:mod:`grammars.regex.expr`), one for each lexeme that
is still possible, in slot order. States are content-addressed: they know nothing of a grammar, so all JSON
strings of all schemas share the same states, rows and token masks. One :class:`Lexer` serves all
automata of a vocabulary.

States at the start of a lexeme are made by the parser's kernels and distinct from those inside of one, which are
made here. The owner of a lexer serialises access to it (:attr:`Lexer.lock`).

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

from .kernels import earley
from .kernels.earley import LEXER, N_INDICES, N_TUPLES
from .kernels.memory import Tables
from .kernels.walk import table_walk
from .regex.bases import difference
from .regex.expr import Pool

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

__all__ = ["WIDE", "Lexer", "Segment"]

#: A state is *wide* when at least this many bytes keep it alive: its token mask is worth keeping.
WIDE = 48

_SEGMENT_BYTES = 64 << 20
_MENDED = 64  # bytes up to which a row is copied from a base and mended
NO_ITEMS = np.empty((0, 2), np.int32)
#: The last arguments of :func:`grammars.kernels.earley.run` where an operation needs none.
NOTHING = (np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.int32))
TRIE = ("trie_byte", "trie_depth", "trie_end", "trie_first", "trie_tokens")
_NO_PARSER = np.empty(0, np.int64)
_MAX_STATES = 60_000  # 2 KB of tables each
_MAX_EXPRESSIONS = 2_000_000


class Interned:
    """Tuples of small integers <-> ids, from 1 on (id 0 is reserved), with a copy laid out for the kernels."""

    def __init__(self, tables: Tables, field: str) -> None:
        self.values: list[tuple[int, ...]] = [()]
        self.ids: dict[tuple[int, ...], int] = {}
        self._tables, self._field = tables, field

    def __call__(self, value: tuple[int, ...]) -> int:
        found = self.ids.get(value)
        if found is None:
            found = self.ids[value] = len(self.values)
            self.values.append(value)
            count = self._tables.count
            first = int(count[N_INDICES])
            self._tables.reserve(self._field, found + 1)[found] = first, len(value)
            self._tables.reserve("indices", first + len(value))[first : first + len(value)] = value
            count[N_INDICES] = first + len(value)
        return found


class Segment:
    """What a lexer state says of the whole vocabulary, without a parser.

    Attributes:
        row: uint32[words], tokens that stay inside the lexeme (their last byte may complete it).
        exits: int32[n] trie nodes where the lexeme may end inside a token, ascending.
        ends: int32[n] the ends of their subtrees.
    """

    __slots__ = ("ends", "exits", "row")

    def __init__(self, row: NDArray[np.uint32], exits: NDArray[np.int32], ends: NDArray[np.int32]) -> None:
        self.row, self.exits, self.ends = row, exits, ends


class Lexer:
    """All lexer states of a vocabulary; see the module's docstring."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.pool = Pool(vocabulary.writable, vocabulary.writable_bytes)
        self.lock = threading.RLock()
        self.tables = Tables(LEXER, {"tuple_hash": self._rehash, "seen": self._forget})
        for name, array in zip(TRIE, vocabulary.trie_arrays, strict=True):
            self.tables.place(name, array)
        self.tables.reserve("stack", vocabulary.max_token_bytes + 2)
        self.accepts = Interned(self.tables, "accepts")
        self.keeps = Interned(self.tables, "keeps")
        self.tables.table[0] = 0
        self.tables.count[N_TUPLES] = 1
        self._ids: dict[tuple[int, ...], int] = {}
        self._exprs: dict[int, tuple[int, ...]] = {}
        self._widths: dict[int, int] = {}
        self._splits: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._bases: dict[int, tuple[int, int]] = {}
        self._byte_index: dict[int, NDArray[np.intp]] = {}
        self._segments: OrderedDict[int, Segment] = OrderedDict()
        self._segment_bytes = 0
        self._parents: NDArray[np.int32] | None = None
        self._view()

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
        earley.run(_NO_PARSER, self.tables.context, earley.REHASH_LEXER, 0, 0, NO_ITEMS, *NOTHING)

    def _forget(self, field: int, old: NDArray[Any]) -> None:
        """Scratch: nothing to keep."""

    def grow(self) -> None:
        """Makes the room that kernels asked for."""
        if self.tables.grow():
            self._view()

    # ------------------------------------------------------------ states
    def state(self, exprs: tuple[int, ...]) -> int:
        """The state of these (non-empty) expressions inside of a lexeme."""
        x = self._ids.get(exprs)
        if x is None:
            count = self.tables.count
            x = self._ids[exprs] = int(count[N_TUPLES])
            if x >= len(self.table):
                for name in ("table", "kept", "accept", "tuples"):
                    self.tables.reserve(name, x + 1)
                self._view()
            count[N_TUPLES] = x + 1
            self._exprs[x] = exprs
            nullable = self.pool.nullable
            if len(exprs) == 1:
                ends: tuple[int, ...] = (0,) if nullable(exprs[0]) else ()
            else:
                ends = tuple([i for i, e in enumerate(exprs) if nullable(e)])
            if ends:
                self.accept_view[x] = self.accepts(ends)
        return x

    def exprs(self, x: int) -> tuple[int, ...]:
        """The expressions of state ``x``."""
        found = self._exprs.get(x)
        if found is None:
            first, n, _ = self.tables.tuples[x].tolist()
            found = self._exprs[x] = tuple(self.tables.exprs[first : first + n].tolist())
        return found

    def row(self, x: int) -> None:
        """Makes the row of state ``x`` where it is missing."""
        if self.table_view[x << 8] >= 0:
            return
        exprs = self.exprs(x)
        if self._mend(x, exprs):
            return
        moves = self._single(exprs[0]) if len(exprs) == 1 else self._parallel(exprs)
        self.table[x] = 0
        self._write(x, moves)

    def _write(self, x: int, moves: list[tuple[int, int, int]]) -> None:
        base = x << 8
        table, kept = self.table_view, self.kept_view
        for mask, target, keep in moves:
            if not mask & (mask - 1):
                at = base + mask.bit_length() - 1
                table[at] = target
                kept[at] = keep
                continue
            index = self._bytes(mask)
            self.table[x, index] = target
            self.kept[x, index] = keep

    def _mend(self, x: int, exprs: tuple[int, ...]) -> bool:
        """Makes the row of ``x`` out of that of a base, where one of the expressions has one (any string but some, say) and
        the others have few moves; whether it did."""
        found, i = next(((d, i) for i, e in enumerate(exprs) if (d := difference(self.pool, e)) is not None), (None, 0))
        if found is None:
            return False
        lists = [found.moves if n == i else self.pool.transitions(e) for n, e in enumerate(exprs)]
        changed = found.bytes
        for moves in lists:
            for mask, _ in moves:
                changed |= mask
        if changed.bit_count() > _MENDED:
            return False
        base = self.state((found.base,))
        self.row(base)
        for byte in self._bytes(changed & ~found.bytes).tolist():
            target = self.table_view[base << 8 | byte]
            if target:
                lists[i] = [*lists[i], (1 << byte, self.exprs(target)[0])]
        mended = self._refine(lists)
        self.table[x] = self.table[base]
        if len(exprs) > 1:
            self.kept[x] = np.where(self.table[base] > 0, self.keeps((i,)), 0)
        self._write(x, [(changed, 0, 0), *mended])
        return True

    def _single(self, expr: int) -> list[tuple[int, int, int]]:
        return [(mask, self.state((target,)), 0) for mask, target in self.pool.transitions(expr)]

    def _parallel(self, exprs: tuple[int, ...]) -> list[tuple[int, int, int]]:
        return self._refine([self.pool.transitions(e) for e in exprs])

    def _refine(self, lists: Sequence[Sequence[tuple[int, int]]]) -> list[tuple[int, int, int]]:
        """(bytes, next state, kept id) of several lexemes at once: refines their byte classes to a common partition."""
        parts: dict[int, list[tuple[int, int]]] = {}
        union = 0
        for i, moves in enumerate(lists):
            for mask, target in moves:
                same = parts.get(mask)
                if same is not None:
                    same.append((i, target))
                    continue
                if mask & union:
                    for other in [m for m in parts if m & mask]:
                        common = other & mask
                        if common != other:
                            before = parts.pop(other)
                            parts[other & ~mask] = before
                            parts[common] = [*before, (i, target)]
                        else:
                            parts[other].append((i, target))
                        mask &= ~common
                if mask:
                    parts[mask] = [(i, target)]
                    union |= mask
        count = len(lists)
        result = []
        for mask, together in parts.items():
            keep = 0 if len(together) == count else self.keeps(tuple([i for i, _ in together]))
            result.append((mask, self.state(tuple([t for _, t in together])), keep))
        return result

    def _bytes(self, mask: int) -> NDArray[np.intp]:
        index = self._byte_index.get(mask)
        if index is None:
            bits = np.frombuffer(mask.to_bytes(32, "little"), np.uint8)
            index = self._byte_index[mask] = np.nonzero(np.unpackbits(bits, bitorder="little"))[0]
        return index

    def wide(self, x: int) -> bool:
        """Whether many bytes keep ``x`` alive (a string's inside, say); makes the row."""
        live = self._widths.get(x)
        if live is None:
            self.row(x)
            live = self._widths[x] = int(np.count_nonzero(self.table[x]))
        return live >= WIDE

    def split(self, x: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Slots of ``x`` whose expression alone is wide, and the others."""
        found = self._splits.get(x)
        if found is None:
            exprs = self.exprs(x)
            wide = tuple(i for i, e in enumerate(exprs) if self.wide(self.state((e,))))
            found = self._splits[x] = (wide, tuple(i for i in range(len(exprs)) if i not in wide))
        return found

    def base(self, x: int) -> tuple[int, int]:
        """A state with one lexeme to which most bytes lead from the wide state ``x`` and which keeps to itself; and the kept id on the way.

        All but a few tokens then do alike in both: the inside of a string with some contents excluded, a key that is
        one of many or any other. (0, 0) where there is none.
        """
        found = self._bases.get(x)
        if found is None:
            found = self._bases[x] = self._find_base(x)
        return found

    def _find_base(self, x: int) -> tuple[int, int]:
        row = self.table[x]
        values, counts = np.unique(row[row > 0], return_counts=True)
        most = int(counts.argmax())
        y = int(values[most])
        if y == x or counts[most] < WIDE or len(self.exprs(y)) > 1 or not self.wide(y) or np.count_nonzero(self.table[y] == y) < WIDE:
            return 0, 0
        return y, int(self.kept[x, int(np.nonzero(self.table[x] == y)[0][0])])

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
        row.setflags(write=False)
        return Segment(row, nodes_out, v.trie_end[nodes_out])

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
