"""Segments: what one lexeme says of the whole vocabulary, and the trie of what may follow it within a token."""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import boolean, int64, types, uint8, uint32

from .entries import row
from .fields import (
    ASK,
    GROW,
    L_ACCEPT,
    L_COUNT,
    L_EXIT_UNITS,
    L_EXITS,
    L_EXPRS,
    L_LOOPS,
    L_MISS,
    L_NODES,
    L_ROOTS,
    L_ROWS,
    L_STACK,
    L_TABLE,
    L_TRIE_BELOW,
    L_TRIE_BYTE,
    L_TRIE_DEPTH,
    L_TRIE_END,
    L_TRIE_FIRST,
    L_TRIE_TOKENS,
    L_TUPLES,
    L_UNITS,
    N_EXITS,
    N_MISS,
    REACH,
    TRACK,
)  # fmt: skip
from .rows import CLASSES
from .texts import COUNT, NATIVE, least
from .views import COUNTS, I1, bytes_of, compiled, has_room, mat, vec, vec64

__all__ = ["follow"]


@compiled(int64(COUNTS, int64, int64, int64))
def _units(xc, x, body, before):
    """Repetitions of ``body`` used in lexer state ``x`` of one lexeme, or ``-1 - before`` where it is past the last of them."""
    nodes = mat(xc, L_NODES, 9)
    e = vec(xc, L_EXPRS)[mat(xc, L_TUPLES, 7)[x, 0]]
    while e >= NATIVE:
        if nodes[e - NATIVE, 0] == COUNT and nodes[e - NATIVE, 1] == body:
            return vec64(xc, L_COUNT)[REACH] + 1 - nodes[e - NATIVE, 3]
        e = nodes[e - NATIVE, 4]
    return -1 - before


@compiled(boolean(COUNTS, int64, int64, int64, int64, int64))
def _later(xc, start, stop, x, used, beside):
    """Puts a range of nodes and the states before it into ``miss``, where there is room."""
    miss, count = mat(xc, L_MISS, 5), vec64(xc, L_COUNT)
    n = count[N_MISS]
    if not has_room(count, L_MISS, miss.shape[0], n + 1):
        return False
    miss[n, 0], miss[n, 1], miss[n, 2], miss[n, 3], miss[n, 4] = start, stop, x, used, beside
    count[N_MISS] = n + 1
    return True


@compiled(int64(COUNTS, int64, int64))
def _beside(xc, z, byte):
    """The lexer state after ``byte`` in state ``z`` (0: dead); or a status."""
    if z == 0:
        return 0
    table = mat(xc, L_TABLE, 256)
    if vec(xc, L_ROWS)[z] == 0:
        status = row(xc, z)
        if status < 0:
            return status
    return table[vec(xc, L_ROWS)[z], byte]


@compiled(int64(COUNTS, int64, int64, int64, int64, int64, int64, uint32[::1]))
def _range(xc, i, stop, x, body, used, beside, bits):
    """Marks the tokens at nodes ``i`` to ``stop`` that keep the one lexeme of ``x`` alive; what cannot be walked yet goes into ``miss``.

    ``body``: what is repeated if repetitions are counted, else 0; ``used``: how often so far, as :func:`_units` says; ``beside``: where
    repetitions of something are counted beside the lexeme, the state of these, 0 past the last of them.
    """
    byte, depth, end, below = bytes_of(xc, L_TRIE_BYTE), vec(xc, L_TRIE_DEPTH), vec(xc, L_TRIE_END), vec64(xc, L_TRIE_BELOW)
    first, tokens, loops = vec(xc, L_TRIE_FIRST), vec(xc, L_TRIE_TOKENS), vec64(xc, L_LOOPS)
    stack, exits, count = mat(xc, L_STACK, 3), vec(xc, L_EXITS), vec64(xc, L_COUNT)
    table, accept, units, exit_units = mat(xc, L_TABLE, 256), vec(xc, L_ACCEPT), mat(xc, L_UNITS, 4), vec(xc, L_EXIT_UNITS)
    tuples, exprs, rows = mat(xc, L_TUPLES, 7), vec(xc, L_EXPRS), vec(xc, L_ROWS)
    n, needed, counts, z = count[N_EXITS], 0, body or count[TRACK], 0
    if i < stop:
        stack[depth[i] - 1, 0], stack[depth[i] - 1, 1], stack[depth[i] - 1, 2] = beside, x, used
    while i < stop:
        d = depth[i]
        s = table[rows[stack[d - 1, 1]], byte[i]]
        after = end[i]
        if s == 0:
            i = after
            continue
        if counts:
            used = stack[d - 1, 2]
            if body:
                used = _units(xc, s, body, used if used >= 0 else -1 - used)
            else:
                z = _beside(xc, stack[d - 1, 0], byte[i])
                needed = least(xc, exprs[tuples[s, 0]]) if z > 0 else z
                if needed == GROW:
                    return GROW
                if needed < 0:
                    if not _later(xc, i, after, stack[d - 1, 1], used, stack[d - 1, 0]):
                        return GROW
                    i = after
                    continue
                if z == 0:
                    used = used if used < 0 else -1 - used
                elif accept[stack[d - 1, 0]] != 0:
                    used += 1
            for t in range(first[i], first[i + 1]):
                units[tokens[t], 0], units[tokens[t], 1] = used if used >= 0 else -1 - used, used < 0
                units[tokens[t], 2], units[tokens[t], 3] = needed, z > 0 and accept[z] == 0
        for t in range(first[i], first[i + 1]):
            bits[tokens[t] >> 5] |= np.uint32(1) << np.uint32(tokens[t] & 31)
        if after == i + 1:
            i = after
            continue
        if accept[s] != 0:
            exits[n] = i
            if counts:
                exit_units[n] = used if used >= 0 else -1 - used
            n += 1
        elif not counts and not below[i] & ~loops[s] and rows[s] != 0:  # all that is below stays in this state
            for t in range(first[i + 1], first[after]):
                bits[tokens[t] >> 5] |= np.uint32(1) << np.uint32(tokens[t] & 31)
            i = after
            continue
        if rows[s] == 0:
            status = row(xc, s)
            if status == GROW:
                return GROW
            if status < 0:
                if not _later(xc, i + 1, after, s, used, z):
                    return GROW
                i = after
                continue
        stack[d, 0], stack[d, 1], stack[d, 2] = z, s, used
        i += 1
    count[N_EXITS] = n
    return 0


@compiled(int64(COUNTS, int64, int64, int64, uint32[::1]))
def segment(xc, x, resume, body, bits):
    """Marks in ``bits`` the tokens that stay inside the one lexeme of ``x``; lists in ``exits`` the inner nodes where it may end.

    With ``body``, an expression that the lexeme repeats, up to ``REACH + 1`` times: ``units`` and ``exit_units`` say how often it is used.
    With ``TRACK``, the lexer state of repetitions of something that is prefix-free and begins otherwise than what follows them in the
    lexeme: how often that is used; how many bytes complete the lexeme at least, 0 past them; whether one has begun.

    Returns 0 or a status: after ASK go on with ``resume``, after GROW begin anew.
    """
    count, miss = vec64(xc, L_COUNT), mat(xc, L_MISS, 5)
    n = 1
    roots = mat(xc, L_ROOTS, 6)
    if resume:
        n = count[N_MISS]
        if not has_room(count, L_ROOTS, roots.shape[0], n):
            return GROW
        for i in range(n):
            roots[i, 0], roots[i, 1], roots[i, 2], roots[i, 3], roots[i, 4] = miss[i, 0], miss[i, 1], miss[i, 2], miss[i, 3], miss[i, 4]
    else:
        count[N_EXITS] = 0
        roots[0, 0], roots[0, 1], roots[0, 2], roots[0, 3], roots[0, 4] = 1, bytes_of(xc, L_TRIE_BYTE).shape[0], x, 0, count[TRACK]
    count[N_MISS] = 0
    for i in range(n):
        status = row(xc, roots[i, 2])
        if status == GROW:
            return GROW
        if status < 0:
            if not _later(xc, roots[i, 0], roots[i, 1], roots[i, 2], roots[i, 3], roots[i, 4]):
                return GROW
        elif _range(xc, roots[i, 0], roots[i, 1], roots[i, 2], body, roots[i, 3], roots[i, 4], bits) < 0:
            return GROW
    return ASK if count[N_MISS] else 0


@compiled(types.void(COUNTS))
def classes_below(xc):
    """Fills ``trie_below``: the byte classes of all nodes below each node of the vocabulary's trie."""
    byte, depth, below = bytes_of(xc, L_TRIE_BYTE), vec(xc, L_TRIE_DEPTH), vec64(xc, L_TRIE_BELOW)
    gathered = np.zeros(vec(xc, L_STACK).shape[0] + 2, np.int64)
    for i in range(byte.shape[0] - 1, -1, -1):
        d = depth[i]
        below[i] = gathered[d + 1]
        gathered[d + 1] = 0
        gathered[d] |= below[i] | np.int64(1) << CLASSES[byte[i]]


@compiled(types.void(I1, int64, int64, uint8[::1], I1))
def _sort(nodes, start, stop, byte, spare):
    """Sorts the nodes at ``start`` to ``stop`` by their bytes."""
    places = np.zeros(257, np.int64)
    for i in range(start, stop):
        places[byte[nodes[i]] + 1] += 1
        spare[i - start] = nodes[i]
    for k in range(256):
        places[k + 1] += places[k]
    for i in range(stop - start):
        k = byte[spare[i]]
        nodes[start + places[k]] = spare[i]
        places[k] += 1


@compiled(int64(I1, int64, int64, I1, int64))
def _children(nodes, start, stop, end, at):
    """Appends the children of the nodes at ``start`` to ``stop`` from ``at`` on; where they end."""
    for k in range(start, stop):
        child, last = nodes[k] + 1, end[nodes[k]]
        while child < last:
            nodes[at] = child
            at += 1
            child = end[child]
    return at


@compiled(int64(COUNTS, I1, int64, int64, uint8[::1], I1, I1, I1, I1))
def follow(xc, nodes, n, deepest, out_byte, out_depth, out_end, out_first, out_tokens):
    """Merges the subtrees below the first ``n`` of ``nodes`` (scratch: room for all their nodes besides) into one trie in preorder.

    ``out_*``: the new trie's arrays, as the vocabulary's, with room for all. Returns the number of its nodes.
    """
    byte, end = bytes_of(xc, L_TRIE_BYTE), vec(xc, L_TRIE_END)
    first, tokens = vec(xc, L_TRIE_FIRST), vec(xc, L_TRIE_TOKENS)
    begin, stop, made = np.zeros(deepest + 2, np.int64), np.zeros(deepest + 2, np.int64), np.zeros(deepest + 2, np.int64)
    spare = np.empty(nodes.shape[0], np.int32)
    size, size_tokens, depth = 1, 0, 1
    out_byte[0], out_depth[0], out_first[0], out_first[1] = 0, 0, 0, 0
    begin[1], stop[1] = n, _children(nodes, 0, n, end, n)
    _sort(nodes, begin[1], stop[1], byte, spare)
    while depth > 0:
        a = begin[depth]
        if a == stop[depth]:
            depth -= 1
            out_end[made[depth]] = size
            continue
        last = a + 1
        while last < stop[depth] and byte[nodes[last]] == byte[nodes[a]]:
            last += 1
        begin[depth], made[depth] = last, size
        out_byte[size], out_depth[size] = byte[nodes[a]], depth
        for k in range(a, last):
            for t in range(first[nodes[k]], first[nodes[k] + 1]):
                out_tokens[size_tokens] = tokens[t]
                size_tokens += 1
        size += 1
        out_first[size] = size_tokens
        depth += 1
        begin[depth], stop[depth] = stop[depth - 1], _children(nodes, a, last, end, stop[depth - 1])
        if stop[depth] - begin[depth] > 1:
            _sort(nodes, begin[depth], stop[depth], byte, spare)
    return size
