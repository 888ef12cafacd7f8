"""Walks of the vocabulary's byte trie.

The trie is in preorder (see :class:`grammars.vocabulary.Vocabulary`): a subtree is the contiguous range
``node .. end[node]``. A walk carries an automaton state down each path and jumps over the subtree where
the state is dead, so its cost is the number of trie nodes that are *alive* or next to alive.

Automata are lazy. A walk that meets a state whose row is not made yet (``table[x, 0] < 0``) notes it in
``miss`` with the range still to be walked, goes on elsewhere, and the caller makes all missing rows in one
batch and calls again with those ranges. Marking is idempotent, so a walk may be repeated.
"""

from __future__ import annotations

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload"
import numpy as np
from numba import int32, int64, njit, types, uint8, uint32

__all__ = ["MISS_GOTO", "MISS_RESTRICT", "MISS_ROW", "MISS_WORK", "lookup", "table_walk", "table_walk_states", "walk"]

#: Kinds of entries in ``miss`` (column 0).
MISS_ROW, MISS_GOTO, MISS_RESTRICT, MISS_WORK = 0, 1, 2, 3

_TRIE = (
    types.Array(uint8, 1, "C", readonly=True),
    *[types.Array(int32, 1, "C", readonly=True)] * 4,
)
_I1, _I2 = int32[::1], int32[:, ::1]
_PAIR = types.UniTuple(int64, 2)

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(inline="always")
def _slot(key, size):
    return np.int64((np.uint64(key) * _MULTIPLIER) >> np.uint64(32)) & (size - 1)


@njit(inline="always")
def _find(keys, key):
    """Index of ``key`` in an open-addressing table (size a power of two, empty = -1), or -1."""
    size = keys.shape[0]
    i = _slot(key, size)
    while True:
        k = keys[i]
        if k == key:
            return i
        if k == -1:
            return -1
        i = (i + 1) & (size - 1)


@njit(int64(int64[::1], int64), cache=True, nogil=True)
def lookup(keys, key):
    """Where ``key`` is, or where it is to be inserted as ``-1 - index``. int64[2^k], int64 -> int64. O(1)."""
    size = keys.shape[0]
    i = _slot(key, size)
    while True:
        k = keys[i]
        if k == key:
            return i
        if k == -1:
            return -1 - i
        i = (i + 1) & (size - 1)


@njit(
    int64(_I2, int64, *_TRIE, _I2, _I2, _I1, int64[::1], _I1, _I1, int64[::1], _I1, _I1, uint32[::1], _I2, _I2, _I2),
    cache=True,
    nogil=True,
)
def walk(
    roots, n_roots, byte, depth, end, first, tokens, table, kept, accept, goto_keys, goto_values, goto_lists,
    restrict_keys, restrict_values, start_of, row, stack, work, miss
):  # fmt: skip
    """Marks in ``row`` the tokens that a parser thread may take (any-match lexing).

    Args:
        roots: int32[n, 4], each (first node, end node, parser state j, lexer state x): the state is that
            *before* the byte of the first node.
        byte, depth, end, first, tokens: the trie.
        table, kept, accept: the lexer: next state (0 dead), kept-slots id (0 all), accept id (0 none).
        goto_*: open-addressing table (j << 32 | accept id) -> offset in goto_lists, where a count and then the next parser states lie.
        restrict_*: (j << 32 | kept id) -> parser state.
        start_of: parser state -> lexer state at the start of its next lexeme.
        row: uint32[words], the mask; only set bits.
        stack: int32[max depth + 2, 2] scratch; work: int32[w, 4] scratch; miss: int32[m, 5] out: kind, range start, range end, j, x
            (for MISS_GOTO x is the accept id; for MISS_RESTRICT it is the lexer state before the byte).

    Returns:
        the number of entries in ``miss``, or -1 where it overflowed (resolve them all and repeat the call).

    Cost: about 10 ns a node met.
    """
    n_miss = 0
    limit = miss.shape[0] - 8
    n_work = 0
    r = 0
    while r < n_roots or n_work > 0:
        if n_work > 0:
            n_work -= 1
            i, stop, j, x = work[n_work, 0], work[n_work, 1], work[n_work, 2], work[n_work, 3]
        else:
            i, stop, j, x = roots[r, 0], roots[r, 1], roots[r, 2], roots[r, 3]
            r += 1
        if i >= stop:
            continue
        if table[x, 0] < 0:
            if n_miss >= limit:
                return -1
            miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2], miss[n_miss, 3], miss[n_miss, 4] = MISS_ROW, i, stop, j, x
            n_miss += 1
            continue
        top = depth[i] - 1
        stack[top, 0], stack[top, 1] = j, x
        while i < stop:
            d = depth[i] - 1
            j, x = stack[d, 0], stack[d, 1]
            b = byte[i]
            nx = table[x, b]
            if nx == 0:
                i = end[i]
                continue
            k = kept[x, b]
            if k != 0:
                at = _find(restrict_keys, (np.int64(j) << 32) | k)
                if at < 0:
                    if n_miss >= limit:
                        return -1
                    miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2], miss[n_miss, 3], miss[n_miss, 4] = MISS_RESTRICT, i, end[i], j, x
                    n_miss += 1
                    i = end[i]
                    continue
                j = restrict_values[at]
            for t in range(first[i], first[i + 1]):
                token = tokens[t]
                row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            after = end[i]
            if after == i + 1:
                i = after
                continue
            a = accept[nx]
            if a != 0:
                at = _find(goto_keys, (np.int64(j) << 32) | a)
                if at < 0:
                    if n_miss >= limit:
                        return -1
                    miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2], miss[n_miss, 3], miss[n_miss, 4] = MISS_GOTO, i + 1, after, j, a
                    n_miss += 1
                else:
                    base = goto_values[at]
                    for g in range(goto_lists[base]):
                        j2 = goto_lists[base + 1 + g]
                        if n_work < work.shape[0]:
                            work[n_work, 0], work[n_work, 1], work[n_work, 2], work[n_work, 3] = i + 1, after, j2, start_of[j2]
                            n_work += 1
                        else:
                            if n_miss >= limit:
                                return -1
                            miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2], miss[n_miss, 3], miss[n_miss, 4] = (
                                MISS_WORK,
                                i + 1,
                                after,
                                j2,
                                start_of[j2],
                            )
                            n_miss += 1
            if table[nx, 0] < 0:
                if n_miss >= limit:
                    return -1
                miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2], miss[n_miss, 3], miss[n_miss, 4] = MISS_ROW, i + 1, after, j, nx
                n_miss += 1
                i = after
                continue
            stack[d + 1, 0], stack[d + 1, 1] = j, nx
            i += 1
    return n_miss


@njit(_PAIR(_I2, int64, *_TRIE, _I2, _I1, uint32[::1], _I1, int64, _I1, _I2), cache=True, nogil=True)
def table_walk(
    roots, n_roots, byte, depth, end, first, tokens, table, accept, row, exits, n_exits, stack, miss
):  # fmt: skip
    """Marks the tokens that keep one lazy byte automaton alive, and lists the nodes where it accepts.

    Args:
        roots: int32[n, 3]: first node, end node, state before the byte of the first node.
        table: int32[states, 256], 0 dead, negative in column 0: row not made yet. accept: int32[states], nonzero where it accepts.
        row: uint32[words] out. exits: int32[.] out, inner nodes where the automaton accepts, from index ``n_exits`` on
            (pass a size of at least the number of trie nodes, or 0 for none wanted).
        stack: int32[max depth + 2] scratch. miss: int32[m, 3] out: range start, range end, state.

    Returns:
        (entries in miss or -1 where it overflowed, entries in exits). After an overflow begin anew.
    """
    n_miss = 0
    limit = miss.shape[0] - 4
    want = exits.shape[0] > 0
    for r in range(n_roots):
        i, stop, x = roots[r, 0], roots[r, 1], roots[r, 2]
        if i >= stop:
            continue
        if table[x, 0] < 0:
            if n_miss >= limit:
                return -1, n_exits
            miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2] = i, stop, x
            n_miss += 1
            continue
        stack[depth[i] - 1] = x
        while i < stop:
            d = depth[i]
            nx = table[stack[d - 1], byte[i]]
            after = end[i]
            if nx == 0:
                i = after
                continue
            for t in range(first[i], first[i + 1]):
                token = tokens[t]
                row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            if after == i + 1:
                i = after
                continue
            if want and accept[nx] != 0:
                exits[n_exits] = i
                n_exits += 1
            if table[nx, 0] < 0:
                if n_miss >= limit:
                    return -1, n_exits
                miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2] = i + 1, after, nx
                n_miss += 1
                i = after
                continue
            stack[d] = nx
            i += 1
    return n_miss, n_exits


@njit(_PAIR(_I2, int64, *_TRIE, _I2, _I1, _I1, int64, _I1, _I2), cache=True, nogil=True)
def table_walk_states(
    roots, n_roots, byte, depth, end, first, tokens, table, out_tokens, out_states, n_out, stack, miss
):  # fmt: skip
    """Like :func:`table_walk`, but lists every allowed token with the state it leads to.

    ``out_tokens``, ``out_states``: int32[>= number of tokens in the trie], filled from ``n_out`` on.
    Returns (entries in miss or -1, entries out).
    """
    n_miss = 0
    limit = miss.shape[0] - 4
    for r in range(n_roots):
        i, stop, x = roots[r, 0], roots[r, 1], roots[r, 2]
        if i >= stop:
            continue
        if table[x, 0] < 0:
            if n_miss >= limit:
                return -1, n_out
            miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2] = i, stop, x
            n_miss += 1
            continue
        stack[depth[i] - 1] = x
        while i < stop:
            d = depth[i]
            nx = table[stack[d - 1], byte[i]]
            after = end[i]
            if nx == 0:
                i = after
                continue
            for t in range(first[i], first[i + 1]):
                out_tokens[n_out] = tokens[t]
                out_states[n_out] = nx
                n_out += 1
            if after == i + 1:
                i = after
                continue
            if table[nx, 0] < 0:
                if n_miss >= limit:
                    return -1, n_out
                miss[n_miss, 0], miss[n_miss, 1], miss[n_miss, 2] = i + 1, after, nx
                n_miss += 1
                i = after
                continue
            stack[d] = nx
            i += 1
    return n_miss, n_out
