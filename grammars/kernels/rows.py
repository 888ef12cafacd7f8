"""Lexer states and their rows: interning, and the transitions of several lexemes at once.

A lexer state is a tuple of expressions; its row says for each byte the next state (0: none) and which of the lexemes survive. A row is
made when it is first needed, by refining the byte classes of the expressions' moves to a common partition.
"""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import boolean, int64, types

from .fields import (
    ASK,
    GROW,
    L_ACCEPT,
    L_ACCEPT_HASH,
    L_ACCEPTS,
    L_COUNT,
    L_EXPRS,
    L_INDICES,
    L_KEEP_HASH,
    L_KEEPS,
    L_KEPT,
    L_LINKS,
    L_LOOPS,
    L_MASKS,
    L_NODE_HASH,
    L_NODES,
    L_PART_MASKS,
    L_PARTS,
    L_PICKED,
    L_ROWS,
    L_TABLE,
    L_TARGETS,
    L_TUPLE_HASH,
    L_TUPLES,
    L_WALK_HASH,
    L_WALKS,
    N_ACCEPTS,
    N_EXPRS,
    N_INDICES,
    N_KEEPS,
    N_NODES,
    N_ROWS,
    N_TUPLES,
    N_WALKS,
)  # fmt: skip
from .memory import HALF
from .texts import first_move, moves, n_moves, nullable
from .views import COUNTS, I1, compiled, has_room, hash_place, mask_rows, mat, mix, vec, vec64

__all__ = ["WIDE"]


def _classes() -> np.ndarray:
    """Byte -> class, at most 63 of them: lower-case letters, capitals, digits, parts of UTF-8, controls; any other byte alone."""
    found = np.zeros(256, np.int64)
    alone = 8
    for byte in range(256):
        if 0x61 <= byte <= 0x7A or 0x41 <= byte <= 0x5A:
            found[byte] = 1 if byte >= 0x61 else 2
        elif 0x30 <= byte <= 0x39:
            found[byte] = 3
        elif byte >= 0x80:
            found[byte] = 4 if byte < 0xC0 else 5 if byte < 0xE0 else 6 if byte < 0xF0 else 7
        elif byte >= 0x20 or byte in (9, 10, 13):
            found[byte] = alone
            alone += 1
    return found


CLASSES = _classes()

#: A state is *wide* when at least this many bytes keep it alive: its token mask is worth keeping.
WIDE = 48


# ---------------------------------------------------------------- interning
@compiled(int64(COUNTS, boolean, I1, int64))
def positions(xc, keeps, values, n):
    """The id of ``n`` ascending positions among the kept (or the accept) ids, made where it is new; or GROW."""
    hash_field, field, counter = (L_KEEP_HASH, L_KEEPS, N_KEEPS) if keeps else (L_ACCEPT_HASH, L_ACCEPTS, N_ACCEPTS)
    hashes, lists, indices, count = vec(xc, hash_field), mat(xc, field, 2), vec(xc, L_INDICES), vec64(xc, L_COUNT)
    h = np.uint64(n)
    for i in range(n):
        h = mix(h, values[i])
    size = hashes.shape[0]
    at = hash_place(h, size)
    while True:
        k = hashes[at]
        if k < 0:
            break
        if lists[k, 1] == n:
            first = lists[k, 0]
            same = True
            for i in range(n):
                if indices[first + i] != values[i]:
                    same = False
                    break
            if same:
                return k
        at = (at + 1) & (size - 1)
    k, first = count[counter], count[N_INDICES]
    if 2 * k >= size:
        count[HALF + hash_field] = 2 * size
        return GROW
    if not (has_room(count, field, lists.shape[0], k + 1) and has_room(count, L_INDICES, indices.shape[0], first + n)):
        return GROW
    for i in range(n):
        indices[first + i] = values[i]
    lists[k, 0], lists[k, 1] = first, n
    hashes[at] = k
    count[counter], count[N_INDICES] = k + 1, first + n
    return k


@compiled(int64(COUNTS, I1, int64, boolean))
def state(xc, exprs, n, begins):
    """The lexer state of ``n`` expressions, made (without its row) where it is new; or GROW.

    At a lexeme's start (``begins``) it is distinct from the same expressions met inside of one, and accepts nothing.
    """
    hashes, tuples, known, count = vec(xc, L_TUPLE_HASH), mat(xc, L_TUPLES, 7), vec(xc, L_EXPRS), vec64(xc, L_COUNT)
    start = 1 if begins else 0
    h = mix(np.uint64(n), start)
    for i in range(n):
        h = mix(h, exprs[i])
    size = hashes.shape[0]
    at = hash_place(h, size)
    while True:
        s = hashes[at]
        if s < 0:
            break
        if tuples[s, 1] == n and tuples[s, 2] == start:
            first = tuples[s, 0]
            same = True
            for i in range(n):
                if known[first + i] != exprs[i]:
                    same = False
                    break
            if same:
                return s
        at = (at + 1) & (size - 1)
    s, first = count[N_TUPLES], count[N_EXPRS]
    if 2 * s >= size:
        count[HALF + L_TUPLE_HASH] = 2 * size
        return GROW
    accept, picked, rows = vec(xc, L_ACCEPT), vec(xc, L_PICKED), vec(xc, L_ROWS)
    if not (
        has_room(count, L_TUPLES, tuples.shape[0], s + 1)
        and has_room(count, L_LOOPS, vec64(xc, L_LOOPS).shape[0], s + 1)
        and has_room(count, L_EXPRS, known.shape[0], first + n)
        and has_room(count, L_ROWS, rows.shape[0], s + 1)
        and has_room(count, L_ACCEPT, accept.shape[0], s + 1)
        and has_room(count, L_PICKED, picked.shape[0], n)
    ):
        return GROW
    ends = 0
    if not begins:
        size = 0
        for i in range(n):
            if nullable(xc, exprs[i]):
                picked[size] = i
                size += 1
        if size:
            ends = positions(xc, False, picked, size)
            if ends < 0:
                return GROW
    for i in range(n):
        known[first + i] = exprs[i]
    tuples[s, 0], tuples[s, 1], tuples[s, 2], tuples[s, 3] = first, n, start, -1
    tuples[s, 4], tuples[s, 5], tuples[s, 6] = -1, 0, 0
    accept[s], rows[s] = ends, 0
    hashes[at] = s
    count[N_TUPLES], count[N_EXPRS] = s + 1, first + n
    return s


# ---------------------------------------------------------------- rows
@compiled(int64(COUNTS, int64))
def _refine(xc, x):
    """Notes in ``parts`` the byte classes of state ``x``, with the moves of each in ``links``; their number, or GROW."""
    exprs, tuples, count = vec(xc, L_EXPRS), mat(xc, L_TUPLES, 7), vec64(xc, L_COUNT)
    masks, targets = mask_rows(xc, L_MASKS), vec(xc, L_TARGETS)
    parts, part_masks, links = mat(xc, L_PARTS, 4), mask_rows(xc, L_PART_MASKS), mat(xc, L_LINKS, 3)
    n_parts = n_links = 0
    left = np.zeros(4, np.uint64)
    first, n = tuples[x, 0], tuples[x, 1]
    for i in range(n):
        e = exprs[first + i]
        begin = first_move(xc, e)
        before = n_parts
        for k in range(begin, begin + n_moves(xc, e)):
            if n_links + n_parts + 4 > links.shape[0]:
                count[HALF + L_LINKS] = 2 * links.shape[0]
                return GROW
            for q in range(4):
                left[q] = masks[k, q]
            # the moves of one expression are disjoint: only what was there before it can meet them
            for p in range(before):
                c0, c1 = part_masks[p, 0] & left[0], part_masks[p, 1] & left[1]
                c2, c3 = part_masks[p, 2] & left[2], part_masks[p, 3] & left[3]
                if not c0 | c1 | c2 | c3:
                    continue
                to = p
                if c0 != part_masks[p, 0] or c1 != part_masks[p, 1] or c2 != part_masks[p, 2] or c3 != part_masks[p, 3]:
                    to = n_parts
                    n_parts += 1
                    part_masks[p, 0] &= ~c0
                    part_masks[p, 1] &= ~c1
                    part_masks[p, 2] &= ~c2
                    part_masks[p, 3] &= ~c3
                    part_masks[to, 0], part_masks[to, 1], part_masks[to, 2], part_masks[to, 3] = c0, c1, c2, c3
                    parts[to, 0], parts[to, 1] = parts[p, 0], parts[p, 1]
                links[n_links, 0], links[n_links, 1], links[n_links, 2] = i, targets[k], parts[to, 0]
                parts[to, 0], parts[to, 1] = n_links, parts[to, 1] + 1
                n_links += 1
                left[0] &= ~c0
                left[1] &= ~c1
                left[2] &= ~c2
                left[3] &= ~c3
            if left[0] | left[1] | left[2] | left[3]:
                links[n_links, 0], links[n_links, 1], links[n_links, 2] = i, targets[k], -1
                for q in range(4):
                    part_masks[n_parts, q] = left[q]
                parts[n_parts, 0], parts[n_parts, 1] = n_links, 1
                n_links += 1
                n_parts += 1
    return n_parts


@compiled(int64(COUNTS, int64))
def row(xc, x):
    """Makes the row of state ``x`` where it is missing; 0 or a status.

    Cost: about a microsecond and 0.1 a move, where all the expressions' moves are known.
    """
    table, tuples, rows = mat(xc, L_TABLE, 256), mat(xc, L_TUPLES, 7), vec(xc, L_ROWS)
    if rows[x] != 0:
        return 0
    exprs, kept, count = vec(xc, L_EXPRS), mat(xc, L_KEPT, 256), vec64(xc, L_COUNT)
    first, n = tuples[x, 0], tuples[x, 1]
    missing = False
    for i in range(first, first + n):
        status = moves(xc, exprs[i])
        if status == GROW:
            return GROW
        missing = missing or status < 0
    if missing:
        return ASK
    n_parts = _refine(xc, x)
    if n_parts < 0:
        return GROW
    parts, part_masks, links = mat(xc, L_PARTS, 4), mask_rows(xc, L_PART_MASKS), mat(xc, L_LINKS, 3)
    picked = np.empty(2 * n, np.int32)
    for p in range(n_parts):
        size = parts[p, 1]
        link = parts[p, 0]
        for i in range(size - 1, -1, -1):
            picked[n + i], picked[i] = links[link, 0], links[link, 1]
            link = links[link, 2]
        to = state(xc, picked, size, False)
        if to < 0:
            return GROW
        keep = 0
        if size < n:
            keep = positions(xc, True, picked[n:], size)
            if keep < 0:
                return GROW
        parts[p, 2], parts[p, 3] = to, keep
    r = count[N_ROWS]
    if not (has_room(count, L_TABLE, table.shape[0], r + 1) and has_room(count, L_KEPT, kept.shape[0], r + 1)):
        return GROW
    live = 0
    for p in range(n_parts):
        to, keep = parts[p, 2], parts[p, 3]
        for q in range(4):
            left = part_masks[p, q]
            byte = 64 * q
            while left:
                if not left & np.uint64(0xFF):
                    left >>= np.uint64(8)
                    byte += 8
                    continue
                if left & np.uint64(1):
                    table[r, byte] = to
                    if keep:  # untouched memory is zero, and costs nothing
                        kept[r, byte] = keep
                    live += 1
                left >>= np.uint64(1)
                byte += 1
    tuples[x, 3] = live
    away = np.int64(0)
    for byte in range(256):
        if table[r, byte] != x:
            away |= np.int64(1) << CLASSES[byte]
    vec64(xc, L_LOOPS)[x] = ~away
    rows[x], count[N_ROWS] = r, r + 1
    return 0


@compiled(int64(COUNTS, int64))
def base(xc, x):
    """Finds a state with one lexeme to which most bytes lead from the wide state ``x`` and which keeps to itself; 0 or a status.

    All but a few tokens then do alike in both: the inside of a string with some contents excluded, a key that is one of many or
    any other. It is noted in ``tuples`` (0: there is none), with the kept id on the way. The row of ``x`` must be there.
    """
    table, kept, tuples, rows = mat(xc, L_TABLE, 256), mat(xc, L_KEPT, 256), mat(xc, L_TUPLES, 7), vec(xc, L_ROWS)
    if tuples[x, 4] >= 0:
        return 0
    most, found, r = 0, 0, rows[x]
    for byte in range(256):
        y = table[r, byte]
        if y in (0, x, found) or tuples[y, 1] > 1:
            continue
        same = 0
        for other in range(byte, 256):
            same += table[r, other] == y
        if same > most:
            most, found = same, y
        if most >= 255 - byte:
            break
    if most >= WIDE:
        status = row(xc, found)
        if status < 0:
            return status
        same = 0
        for byte in range(256):
            same += table[rows[found], byte] == found
        if same < WIDE:
            found = 0
    else:
        found = 0
    keep = 0
    if found:
        for byte in range(256):
            if table[r, byte] == found:
                keep = kept[r, byte]
                break
    tuples[x, 4], tuples[x, 5] = found, keep
    return 0


# ---------------------------------------------------------------- hash tables made anew
@compiled(types.void(COUNTS, int64))
def rehash(xc, field):
    """Fills an emptied hash table of the lexer (``field``: its index) anew."""
    hashes, count = vec(xc, field), vec64(xc, L_COUNT)
    size = hashes.shape[0]
    tuples, exprs, nodes, walks = mat(xc, L_TUPLES, 7), vec(xc, L_EXPRS), mat(xc, L_NODES, 9), mat(xc, L_WALKS, 6)
    lists, indices = mat(xc, L_KEEPS if field == L_KEEP_HASH else L_ACCEPTS, 2), vec(xc, L_INDICES)
    if field == L_TUPLE_HASH:
        begin, end = 1, count[N_TUPLES]
    elif field == L_NODE_HASH:
        begin, end = 0, count[N_NODES]
    elif field == L_WALK_HASH:
        begin, end = 1, count[N_WALKS]
    else:
        begin, end = 1, count[N_KEEPS if field == L_KEEP_HASH else N_ACCEPTS]
    for n in range(begin, end):
        if field == L_TUPLE_HASH:
            h = mix(np.uint64(tuples[n, 1]), tuples[n, 2])
            for i in range(tuples[n, 0], tuples[n, 0] + tuples[n, 1]):
                h = mix(h, exprs[i])
        elif field == L_NODE_HASH:
            h = mix(mix(mix(mix(np.uint64(nodes[n, 0]), nodes[n, 1]), nodes[n, 2]), nodes[n, 3]), nodes[n, 4])
        elif field == L_WALK_HASH:
            h = mix(mix(mix(np.uint64(walks[n, 0] + (1 << 30)), walks[n, 1]), walks[n, 2]), walks[n, 3])
            h = mix(mix(h, walks[n, 4]), walks[n, 5])
        else:
            h = np.uint64(lists[n, 1])
            for i in range(lists[n, 0], lists[n, 0] + lists[n, 1]):
                h = mix(h, indices[i])
        at = hash_place(h, size)
        while hashes[at] >= 0:
            at = (at + 1) & (size - 1)
        hashes[at] = n
