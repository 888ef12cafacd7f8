"""Where a lexeme leads: the parser states after it, and those with some of their slots only."""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import boolean, int64

from .closure import add_item, ask_rule, close_kernel, depends_on_text, intern_kernel, item_space, parser_state, terminal_of
from .fields import (
    ASK,
    COMPLETE,
    EXPANDED,
    GROW,
    L_ACCEPTS,
    L_COUNT,
    L_INDICES,
    L_KEEPS,
    L_PICKED,
    L_SEEN,
    L_SET_A,
    L_SET_B,
    LAST,
    N_GOTOS,
    N_LISTS,
    N_RESTRICTS,
    P_COUNT,
    P_FOLLOWS,
    P_GOTO_KEYS,
    P_GOTO_VALUES,
    P_KERNELS,
    P_LISTS,
    P_PARSERS,
    P_POSITIONS,
    P_PRIORITIES,
    P_RESTRICT_KEYS,
    P_RESTRICT_VALUES,
    P_RETURNS,
    P_SKIP_SLOTS,
    P_SKIPS,
    P_SLOT_ITEMS,
    P_SLOTS,
    P_STATES,
    P_TERMINALS,
    P_WAITING,
    STAMP,
    TEXT,
)  # fmt: skip
from .memory import HALF
from .views import COUNTS, I1, I2, compiled, find, floats, has_room, mat, mat64, vec, vec64


# ---------------------------------------------------------------- goto
@compiled(boolean(COUNTS, int64, int64))
def _same_skip(pc, q, r):
    """Whether nothing is lost when the finished state ``q`` is replaced by what waits at ``r``."""
    p_states = mat(pc, P_STATES, 6)
    p_returns = mat(pc, P_RETURNS, 3)
    p_waiting = mat(pc, P_WAITING, 3)
    skip = p_states[q, 1]
    if skip < 0:
        return True
    w = p_returns[r, 2]
    while w >= 0:
        if p_states[p_waiting[w, 0], 1] != skip:
            return False
        w = p_waiting[w, 2]
    return True


@compiled(int64(COUNTS, COUNTS, int64))
def _settle(pc, xc, n):
    """Finished rules among the first ``n`` items of set_a give way to what waits for them.

    The rest goes to set_b, sorted, without repetition. Returns its length or a status.
    """
    p_states = mat(pc, P_STATES, 6)
    p_returns = mat(pc, P_RETURNS, 3)
    p_waiting = mat(pc, P_WAITING, 3)
    x_count = vec64(xc, L_COUNT)
    x_set_a = mat(xc, L_SET_A, 3)
    x_set_b = mat(xc, L_SET_B, 3)
    x_count[STAMP] += 1
    given, n = n, 0
    for i in range(given):
        n = add_item(xc, x_set_a, n, x_set_a[i, 0], x_set_a[i, 1], 1)
    i = m = 0
    missing = False
    while i < n:
        q, r = x_set_a[i, 0], x_set_a[i, 1]
        i += 1
        bits = p_states[q, 0]
        if not bits & EXPANDED:
            ask_rule(xc, pc, q)
            missing = True
            continue
        if bits & LAST and r != 0 and _same_skip(pc, q, r):
            w = p_returns[r, 2]
            while w >= 0:
                status = item_space(pc, xc, L_SET_A, x_set_a, n)
                if status < 0:
                    return status
                n = add_item(xc, x_set_a, n, p_waiting[w, 0], p_waiting[w, 1], 1)
                w = p_waiting[w, 2]
            continue
        if m >= x_set_b.shape[0]:
            x_count[HALF + L_SET_B] = 2 * x_set_b.shape[0]
            return GROW
        at = m  # insertion sort: item sets are small
        while at > 0 and (x_set_b[at - 1, 0] > q or (x_set_b[at - 1, 0] == q and x_set_b[at - 1, 1] > r)):
            x_set_b[at, 0], x_set_b[at, 1] = x_set_b[at - 1, 0], x_set_b[at - 1, 1]
            at -= 1
        x_set_b[at, 0], x_set_b[at, 1] = q, r
        m += 1
    return ASK if missing else m


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, I1, int64))
def _grouped(pc, xc, kernel, n, complete, out, m):
    """Appends to ``out`` (from ``m`` on) the parser states of the ``n`` positions in ``picked``, one a group of lexemes.

    Returns the new length or GROW.
    """
    p_kernels = mat(pc, P_KERNELS, 6)
    p_terminals = mat(pc, P_TERMINALS, 2)
    p_slots = mat(pc, P_SLOTS, 2)
    x_picked = vec(xc, L_PICKED)
    if n == 0:
        if complete:
            j = parser_state(pc, xc, kernel, x_picked, 0, 1, True)
            if j < 0:
                return GROW
            out[m] = j
            m += 1
        return m
    base = p_kernels[kernel, 2]
    one = True
    group = p_terminals[terminal_of(pc, p_slots[base + x_picked[0], 0]), 1]
    for i in range(1, n):
        if p_terminals[terminal_of(pc, p_slots[base + x_picked[i], 0]), 1] != group:
            one = False
            break
    if one:
        j = parser_state(pc, xc, kernel, x_picked, n, complete, True)
        if j < 0:
            return GROW
        out[m] = j
        return m + 1
    picked = x_picked[:n].copy()
    part = np.empty(n, np.int32)
    for i in range(n):
        group = p_terminals[terminal_of(pc, p_slots[base + picked[i], 0]), 1]
        size, first = 0, True
        for h in range(n):
            if p_terminals[terminal_of(pc, p_slots[base + picked[h], 0]), 1] == group:
                if h < i:
                    first = False
                    break
                part[size] = picked[h]
                size += 1
        if first:
            j = parser_state(pc, xc, kernel, part, size, complete if i == 0 else 0, True)
            if j < 0:
                return GROW
            out[m] = j
            m += 1
    return m


@compiled(int64(COUNTS, COUNTS, int64))
def full(pc, xc, kernel):
    """Index in ``lists`` of the parser states of a kernel with all its slots; or a status."""
    x_count = vec64(xc, L_COUNT)
    p_kernels = mat(pc, P_KERNELS, 6)
    p_count = vec64(pc, P_COUNT)
    p_lists = vec(pc, P_LISTS)
    x_picked = vec(xc, L_PICKED)
    if p_kernels[kernel, 5] >= 0:
        return p_kernels[kernel, 5]
    status = close_kernel(pc, xc, kernel)
    if status < 0:
        return status
    n = p_kernels[kernel, 3]
    at = p_count[N_LISTS]
    if not (has_room(x_count, L_PICKED, x_picked.shape[0], n) and has_room(p_count, P_LISTS, p_lists.shape[0], at + n + 2)):
        return GROW
    for i in range(n):
        x_picked[i] = i
    end = _grouped(pc, xc, kernel, n, 1 if p_kernels[kernel, 4] & COMPLETE else 0, p_lists, at + 1)
    if end < 0:
        return GROW
    p_lists[at] = end - at - 1
    p_count[N_LISTS] = end
    p_kernels[kernel, 5] = at
    return at


@compiled(int64(COUNTS, COUNTS, int64, int64, I1, int64))
def _after_skip(pc, xc, kernel, slot, out, m):
    """Appends to ``out`` the parser states after the lexeme of skip slot ``slot`` of a kernel; the new length or GROW."""
    x_count = vec64(xc, L_COUNT)
    p_slots = mat(pc, P_SLOTS, 2)
    p_skip_slots = mat(pc, P_SKIP_SLOTS, 4)
    p_skips = mat(pc, P_SKIPS, 3)
    p_kernels = mat(pc, P_KERNELS, 6)
    p_follows = vec(pc, P_FOLLOWS)
    x_picked = vec(xc, L_PICKED)
    s = -1 - p_slots[slot, 0]
    skip, first, follows = p_skip_slots[s, 0], p_skip_slots[s, 2], p_skip_slots[s, 3]
    once = p_skips[skip, 0]
    base, total = p_kernels[kernel, 2], p_kernels[kernel, 3]
    if not has_room(x_count, L_PICKED, x_picked.shape[0], total):
        return GROW
    n = 0
    for i in range(total):
        t = p_slots[base + i, 0]
        take = False
        if t < 0:
            take = not once and p_skip_slots[-1 - t, 0] == skip
        elif follows < 0:
            take = True
        else:
            for f in range(first, first + follows):
                if p_follows[f] == t:
                    take = True
                    break
        if take:
            x_picked[n] = i
            n += 1
    return _grouped(pc, xc, kernel, n, 1 if p_kernels[kernel, 4] & COMPLETE and not once else 0, out, m)


@compiled(int64(I1, int64, int64))
def _distinct(values, start, end):
    """Removes repetitions in ``values[start:end]``; the new end."""
    out = start
    for i in range(start, end):
        new = True
        for h in range(start, out):
            if values[h] == values[i]:
                new = False
                break
        if new:
            values[out] = values[i]
            out += 1
    return out


@compiled(int64(COUNTS, COUNTS, int64, int64))
def goto(pc, xc, j, accept):
    """Index in ``lists`` of the parser states after lexemes of ``j`` ended, by the lexer's accept id; or a status.

    In a greedy group only the slots of highest priority count (all that share it).
    """
    p_goto_keys = vec64(pc, P_GOTO_KEYS)
    p_goto_values = vec(pc, P_GOTO_VALUES)
    p_parsers = mat(pc, P_PARSERS, 7)
    p_kernels = mat(pc, P_KERNELS, 6)
    p_priorities = floats(pc, P_PRIORITIES)
    p_slots = mat(pc, P_SLOTS, 2)
    p_positions = vec(pc, P_POSITIONS)
    p_count = vec64(pc, P_COUNT)
    p_slot_items = mat(pc, P_SLOT_ITEMS, 3)
    p_lists = vec(pc, P_LISTS)
    x_accepts = mat(xc, L_ACCEPTS, 2)
    x_indices = vec(xc, L_INDICES)
    x_set_a = mat(xc, L_SET_A, 3)
    x_seen = mat64(xc, L_SEEN, 2)
    x_count = vec64(xc, L_COUNT)
    x_set_b = mat(xc, L_SET_B, 3)
    key = np.int64(j) << 32 | np.int64(accept)
    at = find(p_goto_keys, key)
    if at >= 0:
        return p_goto_values[at]
    kernel, first = p_parsers[j, 0], p_parsers[j, 1]
    base = p_kernels[kernel, 2]
    ends, size = x_accepts[accept, 0], x_accepts[accept, 1]
    if p_parsers[j, 6]:
        for i in range(ends, ends + size):
            if depends_on_text(pc, base + p_positions[first + x_indices[i]]):
                return TEXT
    best = -np.inf
    if p_parsers[j, 4]:
        for i in range(ends, ends + size):
            best = max(best, p_priorities[terminal_of(pc, p_slots[base + p_positions[first + x_indices[i]], 0])])
    if 2 * p_count[N_GOTOS] >= p_goto_keys.shape[0]:
        p_count[HALF + P_GOTO_KEYS] = 2 * p_goto_keys.shape[0]
        return GROW
    n = 0
    for i in range(ends, ends + size):
        slot = base + p_positions[first + x_indices[i]]
        t = p_slots[slot, 0]
        if t < 0 or (p_parsers[j, 4] and p_priorities[t] < best):
            continue
        w = p_slots[slot, 1]
        while w >= 0:
            if n + 2 > x_set_a.shape[0] or 2 * n + 4 > x_seen.shape[0]:
                x_count[HALF + L_SET_A], x_count[HALF + L_SEEN] = 2 * x_set_a.shape[0], 2 * x_seen.shape[0]
                return GROW
            x_set_a[n, 0], x_set_a[n, 1] = p_slot_items[w, 0], p_slot_items[w, 1]
            n += 1
            w = p_slot_items[w, 2]
    shifted = -1
    if n:
        n = _settle(pc, xc, n)
        if n < 0:
            return n
        new = intern_kernel(pc, x_set_b, n)
        if new < 0:
            return GROW
        shifted = full(pc, xc, new)
        if shifted < 0:
            return shifted
    skips = 0
    for i in range(ends, ends + size):
        t = p_slots[base + p_positions[first + x_indices[i]], 0]
        if t < 0 and not (p_parsers[j, 4] and p_priorities[terminal_of(pc, t)] < best):
            skips += 1
    at = p_count[N_LISTS]
    if skips == 0:
        result = shifted
    else:
        most = (p_kernels[kernel, 3] + 1) * skips + (p_lists[shifted] if shifted >= 0 else 0)
        if not has_room(p_count, P_LISTS, p_lists.shape[0], at + most + 2):
            return GROW
        end = at + 1
        if shifted >= 0:
            for i in range(p_lists[shifted]):
                p_lists[end] = p_lists[shifted + 1 + i]
                end += 1
        for i in range(ends, ends + size):
            slot = base + p_positions[first + x_indices[i]]
            t = p_slots[slot, 0]
            if t < 0 and not (p_parsers[j, 4] and p_priorities[terminal_of(pc, t)] < best):
                end = _after_skip(pc, xc, kernel, slot, p_lists, end)
                if end < 0:
                    return GROW
        end = _distinct(p_lists, at + 1, end)
        p_lists[at] = end - at - 1
        p_count[N_LISTS] = end
        result = at
    place = -1 - find(p_goto_keys, key)
    p_goto_keys[place], p_goto_values[place] = key, result
    p_count[N_GOTOS] += 1
    return result


@compiled(int64(COUNTS, COUNTS, int64, int64))
def restrict(pc, xc, j, keep):
    """The parser state ``j`` with only the slots behind the lexer's kept id; or GROW."""
    x_count = vec64(xc, L_COUNT)
    p_restrict_keys = vec64(pc, P_RESTRICT_KEYS)
    p_restrict_values = vec(pc, P_RESTRICT_VALUES)
    p_count = vec64(pc, P_COUNT)
    p_parsers = mat(pc, P_PARSERS, 7)
    p_positions = vec(pc, P_POSITIONS)
    x_keeps = mat(xc, L_KEEPS, 2)
    x_picked = vec(xc, L_PICKED)
    x_indices = vec(xc, L_INDICES)
    key = np.int64(j) << 32 | np.int64(keep)
    at = find(p_restrict_keys, key)
    if at >= 0:
        return p_restrict_values[at]
    if 2 * p_count[N_RESTRICTS] >= p_restrict_keys.shape[0]:
        p_count[HALF + P_RESTRICT_KEYS] = 2 * p_restrict_keys.shape[0]
        return GROW
    n, first, base = x_keeps[keep, 1], x_keeps[keep, 0], p_parsers[j, 1]
    if not has_room(x_count, L_PICKED, x_picked.shape[0], n):
        return GROW
    for i in range(n):
        x_picked[i] = p_positions[base + x_indices[first + i]]
    j2 = parser_state(pc, xc, p_parsers[j, 0], x_picked, n, 0, False)
    if j2 < 0:
        return GROW
    p_restrict_keys[-1 - at], p_restrict_values[-1 - at] = key, j2
    p_count[N_RESTRICTS] += 1
    return j2


@compiled(int64(COUNTS, COUNTS, I2, int64))
def kernel_of(pc, xc, items, n):
    """The kernel of ``n`` items, settled; or a status."""
    x_set_a, x_seen, x_count = mat(xc, L_SET_A, 3), mat64(xc, L_SEEN, 2), vec64(xc, L_COUNT)
    if n + 2 > x_set_a.shape[0] or 2 * n + 4 > x_seen.shape[0]:
        x_count[HALF + L_SET_A], x_count[HALF + L_SEEN] = max(2 * (n + 2), x_set_a.shape[0]), 4 * x_seen.shape[0]
        return GROW
    for i in range(n):
        x_set_a[i, 0], x_set_a[i, 1] = items[i, 0], items[i, 1]
    m = _settle(pc, xc, n)
    return intern_kernel(pc, mat(xc, L_SET_B, 3), m) if m >= 0 else m
