"""Earley's closure of a kernel over flat tables: interning of returns, kernels and parser states, prediction, slots.

What the tables mean is told in :mod:`grammars.parser`.
"""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import boolean, int64, types

from .fields import (
    ASK,
    CAPTURE,
    CLOSED,
    COMPLETE,
    EXPANDED,
    FINAL,
    GROW,
    L_ASKED,
    L_CALLS,
    L_COUNT,
    L_MARKS,
    L_SEEN,
    L_SET_A,
    L_SET_B,
    LAST,
    LIMIT,
    MARK,
    N_ASKED,
    N_FOLLOWS,
    N_ITEMS,
    N_KERNELS,
    N_PARSERS,
    N_POSITIONS,
    N_RETURNS,
    N_SKIP_SLOTS,
    N_SLOT_ITEMS,
    N_SLOTS,
    N_WAITING,
    P_COUNT,
    P_EDGES,
    P_FOLLOWS,
    P_ITEMS,
    P_KERNEL_HASH,
    P_KERNELS,
    P_PARSER_HASH,
    P_PARSERS,
    P_POSITIONS,
    P_RETURN_HASH,
    P_RETURNS,
    P_RULES,
    P_SKIP_SLOTS,
    P_SKIP_TERMINALS,
    P_SKIPS,
    P_SLOT_ITEMS,
    P_SLOTS,
    P_STATES,
    P_TERMINALS,
    P_WAITING,
    STAMP,
    TOO_MANY,
)  # fmt: skip
from .memory import HALF
from .rows import state
from .views import COUNTS, I1, I2, compiled, find, has_room, hash_place, mat, mat64, mix, vec, vec64


# ---------------------------------------------------------------- interning
@compiled(int64(COUNTS, int64, int64))
def intern_return(pc, kernel, rule):
    """The return address (kernel, rule), made where it is new; or GROW."""
    p_return_hash = vec(pc, P_RETURN_HASH)
    p_returns = mat(pc, P_RETURNS, 3)
    p_count = vec64(pc, P_COUNT)
    size = p_return_hash.shape[0]
    i = hash_place(mix(np.uint64(kernel), rule), size)
    while True:
        r = p_return_hash[i]
        if r < 0:
            break
        if p_returns[r, 0] == kernel and p_returns[r, 1] == rule:
            return r
        i = (i + 1) & (size - 1)
    r = p_count[N_RETURNS]
    if 2 * r >= size:
        p_count[HALF + P_RETURN_HASH] = 2 * size
        return GROW
    if not has_room(p_count, P_RETURNS, p_returns.shape[0], r + 1):
        return GROW
    p_returns[r, 0], p_returns[r, 1], p_returns[r, 2] = kernel, rule, -1
    p_return_hash[i] = r
    p_count[N_RETURNS] = r + 1
    return r


@compiled(int64(COUNTS, I2, int64))
def intern_kernel(pc, items, n):
    """The kernel of ``n`` sorted distinct items, made where it is new; or GROW."""
    p_kernel_hash = vec(pc, P_KERNEL_HASH)
    p_kernels = mat(pc, P_KERNELS, 6)
    p_items = mat(pc, P_ITEMS, 2)
    p_count = vec64(pc, P_COUNT)
    h = np.uint64(n)
    for i in range(n):
        h = mix(mix(h, items[i, 0]), items[i, 1])
    size = p_kernel_hash.shape[0]
    at = hash_place(h, size)
    while True:
        k = p_kernel_hash[at]
        if k < 0:
            break
        if p_kernels[k, 1] == n:
            first = p_kernels[k, 0]
            same = True
            for i in range(n):
                if p_items[first + i, 0] != items[i, 0] or p_items[first + i, 1] != items[i, 1]:
                    same = False
                    break
            if same:
                return k
        at = (at + 1) & (size - 1)
    k, first = p_count[N_KERNELS], p_count[N_ITEMS]
    if 2 * k >= size:
        p_count[HALF + P_KERNEL_HASH] = 2 * size
        return GROW
    if not (has_room(p_count, P_KERNELS, p_kernels.shape[0], k + 1) and has_room(p_count, P_ITEMS, p_items.shape[0], first + n)):
        return GROW
    for i in range(n):
        p_items[first + i, 0], p_items[first + i, 1] = items[i, 0], items[i, 1]
    p_kernels[k, 0], p_kernels[k, 1], p_kernels[k, 2], p_kernels[k, 3], p_kernels[k, 4], p_kernels[k, 5] = first, n, 0, 0, 0, -1
    p_kernel_hash[at] = k
    p_count[N_KERNELS], p_count[N_ITEMS] = k + 1, first + n
    return k


@compiled(int64(COUNTS, int64))
def terminal_of(pc, slot):
    p_skip_slots = mat(pc, P_SKIP_SLOTS, 4)
    return slot if slot >= 0 else p_skip_slots[-1 - slot, 1]


@compiled(boolean(COUNTS, int64))
def depends_on_text(pc, slot):
    """Whether what follows a slot depends on the lexeme's bytes."""
    p_slots, p_slot_items, p_states = mat(pc, P_SLOTS, 2), mat(pc, P_SLOT_ITEMS, 3), mat(pc, P_STATES, 6)
    w = p_slots[slot, 1]
    while w >= 0:
        if p_states[p_slot_items[w, 0], 0] & CAPTURE:
            return True
        w = p_slot_items[w, 2]
    return False


@compiled(int64(COUNTS, COUNTS, int64, I1, int64))
def _start(pc, xc, kernel, positions, n):
    """The lexer state at the start of a lexeme out of a kernel's slots at ``positions``; or GROW."""
    p_slots, p_kernels, p_terminals = mat(pc, P_SLOTS, 2), mat(pc, P_KERNELS, 6), mat(pc, P_TERMINALS, 2)
    x_set_b = mat(xc, L_SET_B, 3)
    if not has_room(vec64(xc, L_COUNT), L_SET_B, x_set_b.shape[0], n):
        return GROW
    exprs = x_set_b.reshape(-1)  # scratch that nobody uses here
    for i in range(n):
        exprs[i] = p_terminals[terminal_of(pc, p_slots[p_kernels[kernel, 2] + positions[i], 0]), 0]
    return state(xc, exprs, n, True)


@compiled(int64(COUNTS, COUNTS, int64, I1, int64, int64, boolean))
def parser_state(pc, xc, kernel, positions, n, complete, begins):
    """The parser state of a kernel's slots at ``positions``, made where it is new; or GROW. ``begins``: a lexeme begins here."""
    p_parser_hash = vec(pc, P_PARSER_HASH)
    p_parsers = mat(pc, P_PARSERS, 7)
    p_positions = vec(pc, P_POSITIONS)
    p_count = vec64(pc, P_COUNT)
    p_slots = mat(pc, P_SLOTS, 2)
    p_kernels = mat(pc, P_KERNELS, 6)
    p_terminals = mat(pc, P_TERMINALS, 2)
    h = mix(mix(np.uint64(kernel), n), complete)
    for i in range(n):
        h = mix(h, positions[i])
    size = p_parser_hash.shape[0]
    at = hash_place(h, size)
    while True:
        j = p_parser_hash[at]
        if j < 0:
            break
        if p_parsers[j, 0] == kernel and p_parsers[j, 2] == n and p_parsers[j, 3] == complete:
            first = p_parsers[j, 1]
            same = True
            for i in range(n):
                if p_positions[first + i] != positions[i]:
                    same = False
                    break
            if same and p_parsers[j, 5] == 0 and begins:
                start = _start(pc, xc, kernel, positions, n)
                if start < 0:
                    return GROW
                p_parsers[j, 5] = start
            if same:
                return j
        at = (at + 1) & (size - 1)
    j, first = p_count[N_PARSERS], p_count[N_POSITIONS]
    if 2 * j >= size:
        p_count[HALF + P_PARSER_HASH] = 2 * size
        return GROW
    if not (has_room(p_count, P_PARSERS, p_parsers.shape[0], j + 1) and has_room(p_count, P_POSITIONS, p_positions.shape[0], first + n)):
        return GROW
    start, group = 0, 0
    if begins:
        start = _start(pc, xc, kernel, positions, n)
        if start < 0:
            return GROW
    if n:
        group = p_terminals[terminal_of(pc, p_slots[p_kernels[kernel, 2] + positions[0], 0]), 1]
    for i in range(n):
        p_positions[first + i] = positions[i]
    p_parsers[j, 0], p_parsers[j, 1], p_parsers[j, 2] = kernel, first, n
    p_parsers[j, 3], p_parsers[j, 4], p_parsers[j, 5], p_parsers[j, 6] = complete, group, start, 0
    for i in range(n):
        if depends_on_text(pc, p_kernels[kernel, 2] + positions[i]):
            p_parsers[j, 6] = 1
    p_parser_hash[at] = j
    p_count[N_PARSERS], p_count[N_POSITIONS] = j + 1, first + n
    return j


# ---------------------------------------------------------------- closure
@compiled(types.void(COUNTS, COUNTS, int64))
def ask_rule(xc, pc, q):
    p_count = vec64(pc, P_COUNT)
    x_asked = vec(xc, L_ASKED)
    n = p_count[N_ASKED]
    if n < x_asked.shape[0]:
        x_asked[n] = q
        p_count[N_ASKED] = n + 1


@compiled(int64(COUNTS, I2, int64, int64, int64, int64))
def add_item(xc, items, n, q, r, base):
    """Adds an item where it is new, with the stamp that the caller raised; the new length. Room is the caller's business."""
    x_seen = mat64(xc, L_SEEN, 2)
    x_count = vec64(xc, L_COUNT)
    size = x_seen.shape[0]
    key = np.int64(q) << 32 | np.int64(r)
    stamp = x_count[STAMP]
    i = hash_place(np.uint64(key), size)
    while x_seen[i, 1] == stamp:
        if x_seen[i, 0] == key:
            return n
        i = (i + 1) & (size - 1)
    x_seen[i, 0], x_seen[i, 1] = key, stamp
    items[n, 0], items[n, 1], items[n, 2] = q, r, base
    return n + 1


@compiled(int64(COUNTS, COUNTS, int64, I2, int64))
def item_space(pc, xc, field, items, n):
    """Whether scratch has room for a good number of further items beyond ``n``; else GROW or TOO_MANY."""
    p_count = vec64(pc, P_COUNT)
    x_count = vec64(xc, L_COUNT)
    x_seen = mat64(xc, L_SEEN, 2)
    if n > p_count[LIMIT]:
        return TOO_MANY
    if n + 2 > items.shape[0]:
        x_count[HALF + field] = 2 * items.shape[0]
        return GROW
    if 2 * n + 4 > x_seen.shape[0]:
        x_count[HALF + L_SEEN] = 2 * x_seen.shape[0]
        return GROW
    return 0


@compiled(types.UniTuple(int64, 3)(COUNTS, COUNTS, int64, int64, I2, int64, boolean))
def _predict(pc, xc, kernel, field, items, n, note):
    """Earley's predictor and completer from the first ``n`` of ``items`` (scratch table ``field``).

    Returns (number of items, calls noted in ``calls`` if ``note``, whether the text may end), or a status in place of the first.
    """
    p_states = mat(pc, P_STATES, 6)
    p_returns = mat(pc, P_RETURNS, 3)
    p_waiting = mat(pc, P_WAITING, 3)
    p_edges = mat(pc, P_EDGES, 2)
    p_rules = mat(pc, P_RULES, 2)
    x_count = vec64(xc, L_COUNT)
    x_calls = mat(xc, L_CALLS, 3)
    x_count[STAMP] += 1
    given, n = n, 0
    for i in range(given):
        n = add_item(xc, items, n, items[i, 0], items[i, 1], 1)
    i = calls = complete = 0
    missing = False
    while i < n:
        status = item_space(pc, xc, field, items, n)
        if status < 0:
            return status, calls, complete
        q, r = items[i, 0], items[i, 1]
        i += 1
        bits = p_states[q, 0]
        if not bits & EXPANDED:
            ask_rule(xc, pc, q)
            missing = True
            continue
        if bits & FINAL:
            if r == 0:
                complete = 1
            elif p_returns[r, 0] != kernel:
                w = p_returns[r, 2]
                while w >= 0:
                    status = item_space(pc, xc, field, items, n)
                    if status < 0:
                        return status, calls, complete
                    n = add_item(xc, items, n, p_waiting[w, 0], p_waiting[w, 1], 1)
                    w = p_waiting[w, 2]
        first = p_states[q, 4]
        for e in range(first, first + p_states[q, 5]):
            rule, to = p_edges[e, 0], p_edges[e, 1]
            after = p_states[to, 0]
            if not after & EXPANDED:
                ask_rule(xc, pc, to)
                missing = True
                continue
            status = item_space(pc, xc, field, items, n)
            if status < 0:
                return status, calls, complete
            if after & LAST and (p_states[to, 1] < 0 or p_states[to, 1] == p_states[q, 1]):
                n = add_item(xc, items, n, p_rules[rule, 0], r, 0)
            else:
                back = intern_return(pc, kernel, rule)
                if back < 0:
                    return GROW, calls, complete
                if note:
                    if not has_room(x_count, L_CALLS, x_calls.shape[0], calls + 1):
                        return GROW, calls, complete
                    x_calls[calls, 0], x_calls[calls, 1], x_calls[calls, 2] = back, to, r
                    calls += 1
                n = add_item(xc, items, n, p_rules[rule, 0], back, 0)
            if p_rules[rule, 1]:
                n = add_item(xc, items, n, to, r, 1)
    return ASK if missing else n, calls, complete


@compiled(boolean(COUNTS, int64, int64, int64))
def _waits(pc, r, q, back):
    p_returns = mat(pc, P_RETURNS, 3)
    p_waiting = mat(pc, P_WAITING, 3)
    w = p_returns[r, 2]
    while w >= 0:
        if p_waiting[w, 0] == q and p_waiting[w, 1] == back:
            return True
        w = p_waiting[w, 2]
    return False


@compiled(int64(COUNTS, COUNTS, int64))
def _shift_slots(pc, xc, n):
    """A slot for each terminal that an item of set_a can shift; their number."""
    p_count = vec64(pc, P_COUNT)
    p_states = mat(pc, P_STATES, 6)
    p_edges = mat(pc, P_EDGES, 2)
    p_slots = mat(pc, P_SLOTS, 2)
    p_slot_items = mat(pc, P_SLOT_ITEMS, 3)
    x_count = vec64(xc, L_COUNT)
    x_set_a = mat(xc, L_SET_A, 3)
    x_marks = mat(xc, L_MARKS, 2)
    x_count[MARK] += 1
    mark, base, slots = x_count[MARK], p_count[N_SLOTS], 0
    for i in range(n):
        q, r = x_set_a[i, 0], x_set_a[i, 1]
        first = p_states[q, 2]
        for e in range(first, first + p_states[q, 3]):
            t = p_edges[e, 0]
            if x_marks[t, 0] != mark:
                x_marks[t, 0], x_marks[t, 1] = mark, slots
                p_slots[base + slots, 0], p_slots[base + slots, 1] = t, -1
                slots += 1
            slot, at = base + x_marks[t, 1], p_count[N_SLOT_ITEMS]
            p_slot_items[at, 0], p_slot_items[at, 1], p_slot_items[at, 2] = p_edges[e, 1], r, p_slots[slot, 1]
            p_slots[slot, 1] = at
            p_count[N_SLOT_ITEMS] = at + 1
    p_count[N_SLOTS] = base + slots
    return slots


@compiled(boolean(COUNTS, int64))
def _bears(pc, q):
    """Whether a rule state's skip matters: something follows it, or the rule may end."""
    p_states = mat(pc, P_STATES, 6)
    return p_states[q, 3] > 0 or p_states[q, 5] > 0 or p_states[q, 0] & FINAL


@compiled(int64(COUNTS, COUNTS, int64))
def _skip_kinds(pc, xc, n):
    """Number of different skips (none counts as one) of the base items of set_a."""
    p_states = mat(pc, P_STATES, 6)
    x_set_a = mat(xc, L_SET_A, 3)
    kinds = 0
    for i in range(n):
        if x_set_a[i, 2] and _bears(pc, x_set_a[i, 0]):
            known = False
            for h in range(i):
                if x_set_a[h, 2] and p_states[x_set_a[h, 0], 1] == p_states[x_set_a[i, 0], 1] and _bears(pc, x_set_a[h, 0]):
                    known = True
                    break
            if not known:
                kinds += 1
    return kinds


@compiled(int64(COUNTS, COUNTS, int64, int64, int64))
def _follow(pc, xc, kernel, n, skip):
    """Lists in ``follows`` the terminals that may follow items of this skip; their number, or a status less 100."""
    p_states = mat(pc, P_STATES, 6)
    p_count = vec64(pc, P_COUNT)
    p_edges = mat(pc, P_EDGES, 2)
    p_follows = vec(pc, P_FOLLOWS)
    x_set_a = mat(xc, L_SET_A, 3)
    x_set_b = mat(xc, L_SET_B, 3)
    x_count = vec64(xc, L_COUNT)
    x_marks = mat(xc, L_MARKS, 2)
    m = 0
    for i in range(n):
        if x_set_a[i, 2] and p_states[x_set_a[i, 0], 1] == skip:
            if m + 2 > x_set_b.shape[0]:
                x_count[HALF + L_SET_B] = 2 * x_set_b.shape[0]
                return GROW - 100
            x_set_b[m, 0], x_set_b[m, 1] = x_set_a[i, 0], x_set_a[i, 1]
            m += 1
    m, _, _ = _predict(pc, xc, kernel, L_SET_B, x_set_b, m, False)
    if m < 0:
        return m - 100
    x_count[MARK] += 1
    mark, first = x_count[MARK], p_count[N_FOLLOWS]
    for i in range(m):
        q = x_set_b[i, 0]
        for e in range(p_states[q, 2], p_states[q, 2] + p_states[q, 3]):
            t = p_edges[e, 0]
            if x_marks[t, 0] != mark:
                x_marks[t, 0] = mark
                p_follows[p_count[N_FOLLOWS]] = t
                p_count[N_FOLLOWS] += 1
    return p_count[N_FOLLOWS] - first


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, int64))
def _skip_slots(pc, xc, kernel, n, slots, kinds):
    """Slots for what may be skipped here. 0 or a status."""
    p_states = mat(pc, P_STATES, 6)
    p_count = vec64(pc, P_COUNT)
    p_skips = mat(pc, P_SKIPS, 3)
    p_skip_slots = mat(pc, P_SKIP_SLOTS, 4)
    p_skip_terminals = vec(pc, P_SKIP_TERMINALS)
    p_slots = mat(pc, P_SLOTS, 2)
    x_set_a = mat(xc, L_SET_A, 3)
    for i in range(n):
        q = x_set_a[i, 0]
        skip = p_states[q, 1]
        if not x_set_a[i, 2] or skip < 0 or not _bears(pc, q):
            continue
        known = False
        for h in range(i):
            if x_set_a[h, 2] and p_states[x_set_a[h, 0], 1] == skip and _bears(pc, x_set_a[h, 0]):
                known = True
                break
        if known:
            continue
        first, follows = p_count[N_FOLLOWS], -1
        any_follow = slots
        if kinds > 1:
            follows = _follow(pc, xc, kernel, n, skip)
            if follows < -9:
                return follows + 100
            any_follow = follows
        if p_skips[skip, 0] and not any_follow:
            continue
        for t in range(p_skips[skip, 1], p_skips[skip, 1] + p_skips[skip, 2]):
            s, at = p_count[N_SKIP_SLOTS], p_count[N_SLOTS]
            p_skip_slots[s, 0], p_skip_slots[s, 1], p_skip_slots[s, 2], p_skip_slots[s, 3] = skip, p_skip_terminals[t], first, follows
            p_slots[at, 0], p_slots[at, 1] = -1 - s, -1
            p_count[N_SKIP_SLOTS], p_count[N_SLOTS] = s + 1, at + 1
    return 0


@compiled(int64(COUNTS, COUNTS, int64))
def close_kernel(pc, xc, kernel):
    """Makes the closure of a kernel: what waits, its slots, whether the text may end. 0 or a status."""
    x_count = vec64(xc, L_COUNT)
    p_kernels = mat(pc, P_KERNELS, 6)
    p_items = mat(pc, P_ITEMS, 2)
    p_states = mat(pc, P_STATES, 6)
    p_skip_terminals = vec(pc, P_SKIP_TERMINALS)
    p_waiting = mat(pc, P_WAITING, 3)
    p_count = vec64(pc, P_COUNT)
    p_slots = mat(pc, P_SLOTS, 2)
    p_slot_items = mat(pc, P_SLOT_ITEMS, 3)
    p_skip_slots = mat(pc, P_SKIP_SLOTS, 4)
    p_follows = vec(pc, P_FOLLOWS)
    p_terminals = mat(pc, P_TERMINALS, 2)
    p_returns = mat(pc, P_RETURNS, 3)
    x_set_a = mat(xc, L_SET_A, 3)
    x_marks = mat(xc, L_MARKS, 2)
    x_calls = mat(xc, L_CALLS, 3)
    if p_kernels[kernel, 4] & CLOSED:
        return 0
    first, n = p_kernels[kernel, 0], p_kernels[kernel, 1]
    if not has_room(x_count, L_SET_A, x_set_a.shape[0], n + 2):
        return GROW
    for i in range(n):
        x_set_a[i, 0], x_set_a[i, 1] = p_items[first + i, 0], p_items[first + i, 1]
    n, calls, complete = _predict(pc, xc, kernel, L_SET_A, x_set_a, n, True)
    if n < 0:
        return n
    shifts = 0
    for i in range(n):
        shifts += p_states[x_set_a[i, 0], 3]
    skips = _skip_kinds(pc, xc, n)
    room = p_skip_terminals.shape[0] * (skips + 1)
    if not (
        has_room(p_count, P_WAITING, p_waiting.shape[0], p_count[N_WAITING] + calls)
        and has_room(p_count, P_SLOTS, p_slots.shape[0], p_count[N_SLOTS] + shifts + room)
        and has_room(p_count, P_SLOT_ITEMS, p_slot_items.shape[0], p_count[N_SLOT_ITEMS] + shifts)
        and has_room(p_count, P_SKIP_SLOTS, p_skip_slots.shape[0], p_count[N_SKIP_SLOTS] + room)
        and has_room(p_count, P_FOLLOWS, p_follows.shape[0], p_count[N_FOLLOWS] + (skips + 1) * shifts)
        and has_room(x_count, L_MARKS, x_marks.shape[0], p_terminals.shape[0])
    ):
        return GROW
    base, slots = p_count[N_SLOTS], _shift_slots(pc, xc, n)
    status = _skip_slots(pc, xc, kernel, n, slots, skips)
    if status < 0:
        p_count[N_SLOTS] = base
        return status
    for c in range(calls):
        w, r = p_count[N_WAITING], x_calls[c, 0]
        if not _waits(pc, r, x_calls[c, 1], x_calls[c, 2]):
            p_waiting[w, 0], p_waiting[w, 1], p_waiting[w, 2] = x_calls[c, 1], x_calls[c, 2], p_returns[r, 2]
            p_returns[r, 2] = w
            p_count[N_WAITING] = w + 1
    p_kernels[kernel, 2], p_kernels[kernel, 3] = base, p_count[N_SLOTS] - base
    p_kernels[kernel, 4] = CLOSED | (COMPLETE if complete else 0)
    return 0


# ---------------------------------------------------------------- hash tables made anew
@compiled(types.void(COUNTS, int64))
def rehash_parser(parser, field):
    """Fills the empty hash table of returns, kernels or parser states anew (``field``: its index)."""
    p_return_hash = vec(parser, P_RETURN_HASH)
    p_count = vec64(parser, P_COUNT)
    p_kernel_hash = vec(parser, P_KERNEL_HASH)
    p_parser_hash = vec(parser, P_PARSER_HASH)
    p_returns = mat(parser, P_RETURNS, 3)
    p_kernels = mat(parser, P_KERNELS, 6)
    p_items = mat(parser, P_ITEMS, 2)
    p_parsers = mat(parser, P_PARSERS, 7)
    p_positions = vec(parser, P_POSITIONS)
    if field == P_RETURN_HASH:
        table, count = p_return_hash, p_count[N_RETURNS]
    elif field == P_KERNEL_HASH:
        table, count = p_kernel_hash, p_count[N_KERNELS]
    else:
        table, count = p_parser_hash, p_count[N_PARSERS]
    size = table.shape[0]
    for n in range(1 if field == P_RETURN_HASH else 0, count):
        if field == P_RETURN_HASH:
            h = mix(np.uint64(p_returns[n, 0]), p_returns[n, 1])
        elif field == P_KERNEL_HASH:
            h = np.uint64(p_kernels[n, 1])
            for i in range(p_kernels[n, 0], p_kernels[n, 0] + p_kernels[n, 1]):
                h = mix(mix(h, p_items[i, 0]), p_items[i, 1])
        else:
            h = mix(mix(np.uint64(p_parsers[n, 0]), p_parsers[n, 2]), p_parsers[n, 3])
            for i in range(p_parsers[n, 1], p_parsers[n, 1] + p_parsers[n, 2]):
                h = mix(h, p_positions[i])
        at = hash_place(h, size)
        while table[at] >= 0:
            at = (at + 1) & (size - 1)
        table[at] = n


@compiled(types.void(COUNTS, int64, COUNTS, I1))
def refill(pc, field, old_keys, old_values):
    """Moves an open-addressing table of int64 keys (``field``) and int32 values (the next field) into the larger empty one in its place."""
    keys, values = vec64(pc, field), vec(pc, field + 1)
    for i in range(old_keys.shape[0]):
        if old_keys[i] >= 0:
            at = -1 - find(keys, old_keys[i])
            keys[at], values[at] = old_keys[i], old_values[i]
