"""Walks of the vocabulary's byte trie with a plain byte automaton (the walk with the parser is in :mod:`.masking`).

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

__all__ = ["table_walk", "table_walk_states"]

_TRIE = (
    types.Array(uint8, 1, "C", readonly=True),
    *[types.Array(int32, 1, "C", readonly=True)] * 4,
)
_I1, _I2 = int32[::1], int32[:, ::1]
_PAIR = types.UniTuple(int64, 2)


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
