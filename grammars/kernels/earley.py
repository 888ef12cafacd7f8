"""The parser and the mask walk over flat tables: closure, goto and the walk of the vocabulary's trie.

All tables are :class:`~grammars.kernels.memory.Tables`; their fields are listed in :data:`PARSER` (one set a grammar)
and :data:`LEXER` (one set a vocabulary). What they mean is told in :mod:`grammars.parser` and :mod:`grammars.lexer`. A function here either
finishes, or returns a negative status and has changed nothing that matters: :data:`ASK` (rule states listed in
``asked`` must be expanded by Python first), :data:`GROW` (a table is too small), :data:`TOO_MANY` (an item set beyond its limit),
:data:`TEXT` (what follows depends on the lexeme's bytes).

The trie is in preorder (see :class:`grammars.vocabulary.Vocabulary`): a subtree is the contiguous range ``node .. end[node]``. A
walk carries a state down each path and jumps over the subtree where it is dead, so its cost is the number of nodes alive or next to
alive. A walk that meets a lexer state whose row is not made (``table[x, 0] < 0``) notes it in ``miss`` with the range still to be
walked and goes on elsewhere; the caller makes all missing rows in one batch and walks those ranges. Marking is idempotent.
"""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import boolean, carray, float64, int32, int64, njit, types, uint8, uint32, uint64

from .memory import HALF, Field, pointer

I32, I64, F64 = np.int32, np.int64, np.float64

#: Statuses.
ASK, GROW, TOO_MANY, TEXT = -1, -2, -3, -4
#: Kinds of entries in a walk's ``miss``.
MISS_ROW, MISS_GOTO, MISS_RESTRICT, MISS_WORK = 0, 1, 2, 3
#: Bits of a rule state and of a kernel.
EXPANDED, FINAL, LAST, CAPTURE = 1, 2, 4, 8
CLOSED, COMPLETE = 1, 2

PARSER: list[Field] = [
    ("states", 6, I32, 64, 0),  # rule state: bits, skip or -1, first shift, shifts, first call, calls
    ("edges", 2, I32, 128, 0),  # symbol (terminal or rule), rule state reached
    ("rules", 2, I32, 32, 0),  # first rule state, nullable
    ("terminals", 2, I32, 32, 0),  # expression, group
    ("priorities", 0, F64, 32, 0),  # of terminals
    ("skips", 3, I32, 8, 0),  # once, first terminal, terminals
    ("skip_terminals", 0, I32, 8, 0),
    ("returns", 3, I32, 64, -1),  # kernel, rule, first waiting item or -1; 0 is the root
    ("waiting", 3, I32, 64, 0),  # rule state, return, next or -1
    ("return_hash", 0, I32, 128, -1),
    ("kernels", 6, I32, 64, 0),  # first item, items, first slot, slots, bits, list of parser states or -1
    ("items", 2, I32, 128, 0),  # rule state, return
    ("kernel_hash", 0, I32, 128, -1),
    ("slots", 2, I32, 128, 0),  # terminal or -1 - skip slot, first slot item or -1
    ("slot_items", 3, I32, 128, 0),  # rule state, return, next or -1
    ("skip_slots", 4, I32, 16, 0),  # skip, terminal, first follow, follows or -1 for all
    ("follows", 0, I32, 16, 0),  # terminals
    ("parsers", 7, I32, 128, 0),  # parser state: kernel, first position, positions, complete, group, lexer state where it begins, captures
    ("positions", 0, I32, 256, 0),  # of slots, within the kernel
    ("parser_hash", 0, I32, 256, -1),
    ("lists", 0, I32, 256, 0),  # a count, then parser states
    ("goto_keys", 0, I64, 256, -1),
    ("goto_values", 0, I32, 256, 0),
    ("restrict_keys", 0, I64, 256, -1),
    ("restrict_values", 0, I32, 256, 0),
]
# Places in the parser's count.
N_RETURNS, N_WAITING, N_KERNELS, N_ITEMS, N_SLOTS, N_SLOT_ITEMS, N_SKIP_SLOTS, N_FOLLOWS = 0, 1, 2, 3, 4, 5, 6, 7
N_PARSERS, N_POSITIONS, N_LISTS, N_GOTOS, N_RESTRICTS, N_ASKED, LIMIT = 8, 9, 10, 11, 12, 13, 14

LEXER: list[Field] = [
    ("table", 256, I32, 256, -1),
    ("kept", 256, I32, 256, 0),
    ("accept", 0, I32, 256, 0),
    ("tuples", 3, I32, 256, 0),  # lexer state at a lexeme's start: first expression, expressions, 1
    ("exprs", 0, I32, 512, 0),
    ("tuple_hash", 0, I32, 1024, -1),
    ("accepts", 2, I32, 64, 0),  # accept id: first position, positions
    ("keeps", 2, I32, 64, 0),  # kept id: first position, positions
    ("indices", 0, I32, 256, 0),
    ("set_a", 3, I32, 256, 0),  # scratch: rule state, return, whether a base item
    ("set_b", 3, I32, 256, 0),
    ("calls", 3, I32, 256, 0),  # scratch: return, rule state, its return
    ("seen", 2, I64, 1024, -1),  # scratch: item, stamp
    ("marks", 2, I32, 64, -1),  # scratch: of terminals
    ("picked", 0, I32, 256, 0),  # scratch: positions or expressions
    ("asked", 0, I32, 4096, 0),  # rule states to be expanded
    ("trie_byte", 0, np.uint8, 0, 0),  # the vocabulary's trie
    ("trie_depth", 0, I32, 0, 0),
    ("trie_end", 0, I32, 0, 0),
    ("trie_first", 0, I32, 0, 0),
    ("trie_tokens", 0, I32, 0, 0),
    ("roots", 6, I32, 64, 0),  # of a walk: first node, end node, parser state, lexer state before the first node's byte, base or 0, since
    ("stack", 3, I32, 64, 0),  # scratch, one more than the depth of the trie
    ("work", 6, I32, 4096, 0),  # scratch
    ("miss", 7, I32, 4096, 0),  # of a walk: kind, then a root (MISS_GOTO: the accept id in place of the lexer state)
    ("exits", 0, I32, 0, 0),  # of the base of a walk: nodes where its lexeme may end, ascending
    ("drops", 0, I32, 0, 0),  # nonzero for those that are none of the root's
]
N_TUPLES, N_EXPRS, STAMP, MARK, N_INDICES, ALIKE = 0, 1, 2, 3, 4, 5

# Indices of the fields above.
(
    P_STATES, P_EDGES, P_RULES, P_TERMINALS, P_PRIORITIES, P_SKIPS, P_SKIP_TERMINALS, P_RETURNS, P_WAITING, P_RETURN_HASH, P_KERNELS,
    P_ITEMS,
    P_KERNEL_HASH, P_SLOTS, P_SLOT_ITEMS, P_SKIP_SLOTS, P_FOLLOWS, P_PARSERS, P_POSITIONS, P_PARSER_HASH, P_LISTS, P_GOTO_KEYS,
    P_GOTO_VALUES,
    P_RESTRICT_KEYS, P_RESTRICT_VALUES, P_COUNT,
) = range(len(PARSER) + 1)  # fmt: skip
(
    L_TABLE, L_KEPT, L_ACCEPT, L_TUPLES, L_EXPRS, L_TUPLE_HASH, L_ACCEPTS, L_KEEPS, L_INDICES, L_SET_A, L_SET_B, L_CALLS, L_SEEN, L_MARKS,
    L_PICKED,
    L_ASKED, L_TRIE_BYTE, L_TRIE_DEPTH, L_TRIE_END, L_TRIE_FIRST, L_TRIE_TOKENS, L_ROOTS, L_STACK, L_WORK, L_MISS, L_EXITS, L_DROPS,
    L_COUNT,
) = range(len(LEXER) + 1)  # fmt: skip

_C = int64[::1]  # a context, or counts
_I1, _I2 = int32[::1], int32[:, ::1]
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)



@njit(_I1(_C, int64), cache=True)
def _v(c, n):
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.int32)


@njit(int64[::1](_C, int64), cache=True)
def _w(c, n):
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.int64)


@njit(_I2(_C, int64, int64), cache=True)
def _m(c, n, columns):
    return carray(pointer(c[2 * n]), (c[2 * n + 1], columns), np.int32)


@njit(uint8[::1](_C, int64), cache=True)
def _b(c, n):
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.uint8)


@njit(float64[::1](_C, int64), cache=True)
def _f(c, n):
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.float64)


@njit(int64[:, ::1](_C, int64), cache=True)
def _ww(c, n):
    return carray(pointer(c[2 * n]), (c[2 * n + 1], 2), np.int64)


@njit(boolean(_C, int64, int64, int64), cache=True)
def _room(count, field, size, rows):
    """Whether a field of ``size`` rows has ``rows`` rows; notes the wish otherwise."""
    if rows <= size:
        return True
    if count[HALF + field] < rows:
        count[HALF + field] = rows
    return False


@njit(uint64(uint64, int64), cache=True)
def _mix(h, value):
    return (h ^ np.uint64(value)) * _MULTIPLIER


@njit(int64(uint64, int64), cache=True)
def _slot(h, size):
    return np.int64((h ^ (h >> np.uint64(29))) * _MULTIPLIER >> np.uint64(32)) & (size - 1)


@njit(int64(_C, int64), cache=True)
def find(keys, key):
    """Index of ``key`` in an open-addressing table (size a power of two, empty = -1), or ``-1 - index`` of its place."""
    size = keys.shape[0]
    i = _slot(np.uint64(key), size)
    while True:
        k = keys[i]
        if k == key:
            return i
        if k == -1:
            return -1 - i
        i = (i + 1) & (size - 1)


# ---------------------------------------------------------------- interning
@njit(int64(_C, int64, int64), cache=True)
def _return(pc, kernel, rule):
    """The return address (kernel, rule), made where it is new; or GROW."""
    p_return_hash = _v(pc, P_RETURN_HASH)
    p_returns = _m(pc, P_RETURNS, 3)
    p_count = _w(pc, P_COUNT)
    size = p_return_hash.shape[0]
    i = _slot(_mix(np.uint64(kernel), rule), size)
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
    if not _room(p_count, P_RETURNS, p_returns.shape[0], r + 1):
        return GROW
    p_returns[r, 0], p_returns[r, 1], p_returns[r, 2] = kernel, rule, -1
    p_return_hash[i] = r
    p_count[N_RETURNS] = r + 1
    return r


@njit(int64(_C, _I2, int64), cache=True)
def _kernel(pc, items, n):
    """The kernel of ``n`` sorted distinct items, made where it is new; or GROW."""
    p_kernel_hash = _v(pc, P_KERNEL_HASH)
    p_kernels = _m(pc, P_KERNELS, 6)
    p_items = _m(pc, P_ITEMS, 2)
    p_count = _w(pc, P_COUNT)
    h = np.uint64(n)
    for i in range(n):
        h = _mix(_mix(h, items[i, 0]), items[i, 1])
    size = p_kernel_hash.shape[0]
    at = _slot(h, size)
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
    if not (_room(p_count, P_KERNELS, p_kernels.shape[0], k + 1) and _room(p_count, P_ITEMS, p_items.shape[0], first + n)):
        return GROW
    for i in range(n):
        p_items[first + i, 0], p_items[first + i, 1] = items[i, 0], items[i, 1]
    p_kernels[k, 0], p_kernels[k, 1], p_kernels[k, 2], p_kernels[k, 3], p_kernels[k, 4], p_kernels[k, 5] = first, n, 0, 0, 0, -1
    p_kernel_hash[at] = k
    p_count[N_KERNELS], p_count[N_ITEMS] = k + 1, first + n
    return k


@njit(int64(_C, _I1, int64), cache=True)
def _tuple(xc, exprs, n):
    """The lexer state of ``n`` expressions at a lexeme's start, made (without its row) where it is new; or GROW.

    Distinct from the same expressions met inside of a lexeme; it accepts nothing.
    """
    x_tuple_hash = _v(xc, L_TUPLE_HASH)
    x_tuples = _m(xc, L_TUPLES, 3)
    x_exprs = _v(xc, L_EXPRS)
    x_count = _w(xc, L_COUNT)
    x_table = _m(xc, L_TABLE, 256)
    x_kept = _m(xc, L_KEPT, 256)
    x_accept = _v(xc, L_ACCEPT)
    h = np.uint64(n)
    for i in range(n):
        h = _mix(h, exprs[i])
    size = x_tuple_hash.shape[0]
    at = _slot(h, size)
    while True:
        s = x_tuple_hash[at]
        if s < 0:
            break
        if x_tuples[s, 1] == n:
            first = x_tuples[s, 0]
            same = True
            for i in range(n):
                if x_exprs[first + i] != exprs[i]:
                    same = False
                    break
            if same:
                return s
        at = (at + 1) & (size - 1)
    s, first = x_count[N_TUPLES], x_count[N_EXPRS]
    if 2 * s >= size:
        x_count[HALF + L_TUPLE_HASH] = 2 * size
        return GROW
    if not (
        _room(x_count, L_TUPLES, x_tuples.shape[0], s + 1)
        and _room(x_count, L_EXPRS, x_exprs.shape[0], first + n)
        and _room(x_count, L_TABLE, x_table.shape[0], s + 1)
        and _room(x_count, L_KEPT, x_kept.shape[0], s + 1)
        and _room(x_count, L_ACCEPT, x_accept.shape[0], s + 1)
    ):
        return GROW
    for i in range(n):
        x_exprs[first + i] = exprs[i]
    x_tuples[s, 0], x_tuples[s, 1], x_tuples[s, 2] = first, n, 1
    x_tuple_hash[at] = s
    x_count[N_TUPLES], x_count[N_EXPRS] = s + 1, first + n
    return s


@njit(int64(_C, int64), cache=True)
def _terminal(pc, slot):
    p_skip_slots = _m(pc, P_SKIP_SLOTS, 4)
    return slot if slot >= 0 else p_skip_slots[-1 - slot, 1]


@njit(boolean(_C, int64), cache=True)
def _captures(pc, slot):
    """Whether what follows a slot depends on the lexeme's bytes."""
    p_slots, p_slot_items, p_states = _m(pc, P_SLOTS, 2), _m(pc, P_SLOT_ITEMS, 3), _m(pc, P_STATES, 6)
    w = p_slots[slot, 1]
    while w >= 0:
        if p_states[p_slot_items[w, 0], 0] & CAPTURE:
            return True
        w = p_slot_items[w, 2]
    return False


@njit(int64(_C, _C, int64, _I1, int64), cache=True)
def _start(pc, xc, kernel, positions, n):
    """The lexer state at the start of a lexeme out of a kernel's slots at ``positions``; or GROW."""
    p_slots, p_kernels, p_terminals = _m(pc, P_SLOTS, 2), _m(pc, P_KERNELS, 6), _m(pc, P_TERMINALS, 2)
    x_set_b = _m(xc, L_SET_B, 3)
    if not _room(_w(xc, L_COUNT), L_SET_B, x_set_b.shape[0], n):
        return GROW
    exprs = x_set_b.reshape(-1)  # scratch that nobody uses here
    for i in range(n):
        exprs[i] = p_terminals[_terminal(pc, p_slots[p_kernels[kernel, 2] + positions[i], 0]), 0]
    return _tuple(xc, exprs, n)


@njit(int64(_C, _C, int64, _I1, int64, int64, boolean), cache=True)
def _state(pc, xc, kernel, positions, n, complete, begins):
    """The parser state of a kernel's slots at ``positions``, made where it is new; or GROW. ``begins``: a lexeme begins here."""
    p_parser_hash = _v(pc, P_PARSER_HASH)
    p_parsers = _m(pc, P_PARSERS, 7)
    p_positions = _v(pc, P_POSITIONS)
    p_count = _w(pc, P_COUNT)
    p_slots = _m(pc, P_SLOTS, 2)
    p_kernels = _m(pc, P_KERNELS, 6)
    p_terminals = _m(pc, P_TERMINALS, 2)
    h = _mix(_mix(np.uint64(kernel), n), complete)
    for i in range(n):
        h = _mix(h, positions[i])
    size = p_parser_hash.shape[0]
    at = _slot(h, size)
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
    if not (_room(p_count, P_PARSERS, p_parsers.shape[0], j + 1) and _room(p_count, P_POSITIONS, p_positions.shape[0], first + n)):
        return GROW
    start, group = 0, 0
    if begins:
        start = _start(pc, xc, kernel, positions, n)
        if start < 0:
            return GROW
    if n:
        group = p_terminals[_terminal(pc, p_slots[p_kernels[kernel, 2] + positions[0], 0]), 1]
    for i in range(n):
        p_positions[first + i] = positions[i]
    p_parsers[j, 0], p_parsers[j, 1], p_parsers[j, 2] = kernel, first, n
    p_parsers[j, 3], p_parsers[j, 4], p_parsers[j, 5], p_parsers[j, 6] = complete, group, start, 0
    for i in range(n):
        if _captures(pc, p_kernels[kernel, 2] + positions[i]):
            p_parsers[j, 6] = 1
    p_parser_hash[at] = j
    p_count[N_PARSERS], p_count[N_POSITIONS] = j + 1, first + n
    return j


# ---------------------------------------------------------------- closure
@njit(types.void(_C, _C, int64), cache=True)
def _ask(xc, pc, q):
    p_count = _w(pc, P_COUNT)
    x_asked = _v(xc, L_ASKED)
    n = p_count[N_ASKED]
    if n < x_asked.shape[0]:
        x_asked[n] = q
        p_count[N_ASKED] = n + 1


@njit(int64(_C, _I2, int64, int64, int64, int64), cache=True)
def _add(xc, items, n, q, r, base):
    """Adds an item where it is new, with the stamp that the caller raised; the new length. Room is the caller's business."""
    x_seen = _ww(xc, L_SEEN)
    x_count = _w(xc, L_COUNT)
    size = x_seen.shape[0]
    key = np.int64(q) << 32 | np.int64(r)
    stamp = x_count[STAMP]
    i = _slot(np.uint64(key), size)
    while x_seen[i, 1] == stamp:
        if x_seen[i, 0] == key:
            return n
        i = (i + 1) & (size - 1)
    x_seen[i, 0], x_seen[i, 1] = key, stamp
    items[n, 0], items[n, 1], items[n, 2] = q, r, base
    return n + 1


@njit(int64(_C, _C, int64, _I2, int64), cache=True)
def _space(pc, xc, field, items, n):
    """Whether scratch has room for a good number of further items beyond ``n``; else GROW or TOO_MANY."""
    p_count = _w(pc, P_COUNT)
    x_count = _w(xc, L_COUNT)
    x_seen = _ww(xc, L_SEEN)
    if n > p_count[LIMIT]:
        return TOO_MANY
    if n + 2 > items.shape[0]:
        x_count[HALF + field] = 2 * items.shape[0]
        return GROW
    if 2 * n + 4 > x_seen.shape[0]:
        x_count[HALF + L_SEEN] = 2 * x_seen.shape[0]
        return GROW
    return 0


@njit(types.UniTuple(int64, 3)(_C, _C, int64, int64, _I2, int64, boolean), cache=True)
def _predict(pc, xc, kernel, field, items, n, note):
    """Earley's predictor and completer from the first ``n`` of ``items`` (scratch table ``field``).

    Returns (number of items, calls noted in ``calls`` if ``note``, whether the text may end), or a status in place of the first.
    """
    p_states = _m(pc, P_STATES, 6)
    p_returns = _m(pc, P_RETURNS, 3)
    p_waiting = _m(pc, P_WAITING, 3)
    p_edges = _m(pc, P_EDGES, 2)
    p_rules = _m(pc, P_RULES, 2)
    x_count = _w(xc, L_COUNT)
    x_calls = _m(xc, L_CALLS, 3)
    x_count[STAMP] += 1
    given, n = n, 0
    for i in range(given):
        n = _add(xc, items, n, items[i, 0], items[i, 1], 1)
    i = calls = complete = 0
    missing = False
    while i < n:
        status = _space(pc, xc, field, items, n)
        if status < 0:
            return status, calls, complete
        q, r = items[i, 0], items[i, 1]
        i += 1
        bits = p_states[q, 0]
        if not bits & EXPANDED:
            _ask(xc, pc, q)
            missing = True
            continue
        if bits & FINAL:
            if r == 0:
                complete = 1
            elif p_returns[r, 0] != kernel:
                w = p_returns[r, 2]
                while w >= 0:
                    status = _space(pc, xc, field, items, n)
                    if status < 0:
                        return status, calls, complete
                    n = _add(xc, items, n, p_waiting[w, 0], p_waiting[w, 1], 1)
                    w = p_waiting[w, 2]
        first = p_states[q, 4]
        for e in range(first, first + p_states[q, 5]):
            rule, to = p_edges[e, 0], p_edges[e, 1]
            after = p_states[to, 0]
            if not after & EXPANDED:
                _ask(xc, pc, to)
                missing = True
                continue
            status = _space(pc, xc, field, items, n)
            if status < 0:
                return status, calls, complete
            if after & LAST and (p_states[to, 1] < 0 or p_states[to, 1] == p_states[q, 1]):
                n = _add(xc, items, n, p_rules[rule, 0], r, 0)
            else:
                back = _return(pc, kernel, rule)
                if back < 0:
                    return GROW, calls, complete
                if note:
                    if not _room(x_count, L_CALLS, x_calls.shape[0], calls + 1):
                        return GROW, calls, complete
                    x_calls[calls, 0], x_calls[calls, 1], x_calls[calls, 2] = back, to, r
                    calls += 1
                n = _add(xc, items, n, p_rules[rule, 0], back, 0)
            if p_rules[rule, 1]:
                n = _add(xc, items, n, to, r, 1)
    return ASK if missing else n, calls, complete


@njit(boolean(_C, int64, int64, int64), cache=True)
def _waits(pc, r, q, back):
    p_returns = _m(pc, P_RETURNS, 3)
    p_waiting = _m(pc, P_WAITING, 3)
    w = p_returns[r, 2]
    while w >= 0:
        if p_waiting[w, 0] == q and p_waiting[w, 1] == back:
            return True
        w = p_waiting[w, 2]
    return False


@njit(int64(_C, _C, int64), cache=True)
def _shift_slots(pc, xc, n):
    """A slot for each terminal that an item of set_a can shift; their number."""
    p_count = _w(pc, P_COUNT)
    p_states = _m(pc, P_STATES, 6)
    p_edges = _m(pc, P_EDGES, 2)
    p_slots = _m(pc, P_SLOTS, 2)
    p_slot_items = _m(pc, P_SLOT_ITEMS, 3)
    x_count = _w(xc, L_COUNT)
    x_set_a = _m(xc, L_SET_A, 3)
    x_marks = _m(xc, L_MARKS, 2)
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


@njit(boolean(_C, int64), cache=True)
def _bears(pc, q):
    """Whether a rule state's skip matters: something follows it, or the rule may end."""
    p_states = _m(pc, P_STATES, 6)
    return p_states[q, 3] > 0 or p_states[q, 5] > 0 or p_states[q, 0] & FINAL


@njit(int64(_C, _C, int64), cache=True)
def _skip_kinds(pc, xc, n):
    """Number of different skips (none counts as one) of the base items of set_a."""
    p_states = _m(pc, P_STATES, 6)
    x_set_a = _m(xc, L_SET_A, 3)
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


@njit(int64(_C, _C, int64, int64, int64), cache=True)
def _follow(pc, xc, kernel, n, skip):
    """Lists in ``follows`` the terminals that may follow items of this skip; their number, or a status less 100."""
    p_states = _m(pc, P_STATES, 6)
    p_count = _w(pc, P_COUNT)
    p_edges = _m(pc, P_EDGES, 2)
    p_follows = _v(pc, P_FOLLOWS)
    x_set_a = _m(xc, L_SET_A, 3)
    x_set_b = _m(xc, L_SET_B, 3)
    x_count = _w(xc, L_COUNT)
    x_marks = _m(xc, L_MARKS, 2)
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


@njit(int64(_C, _C, int64, int64, int64, int64), cache=True)
def _skip_slots(pc, xc, kernel, n, slots, kinds):
    """Slots for what may be skipped here. 0 or a status."""
    p_states = _m(pc, P_STATES, 6)
    p_count = _w(pc, P_COUNT)
    p_skips = _m(pc, P_SKIPS, 3)
    p_skip_slots = _m(pc, P_SKIP_SLOTS, 4)
    p_skip_terminals = _v(pc, P_SKIP_TERMINALS)
    p_slots = _m(pc, P_SLOTS, 2)
    x_set_a = _m(xc, L_SET_A, 3)
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


@njit(int64(_C, _C, int64), cache=True)
def _close(pc, xc, kernel):
    """Makes the closure of a kernel: what waits, its slots, whether the text may end. 0 or a status."""
    x_count = _w(xc, L_COUNT)
    p_kernels = _m(pc, P_KERNELS, 6)
    p_items = _m(pc, P_ITEMS, 2)
    p_states = _m(pc, P_STATES, 6)
    p_skip_terminals = _v(pc, P_SKIP_TERMINALS)
    p_waiting = _m(pc, P_WAITING, 3)
    p_count = _w(pc, P_COUNT)
    p_slots = _m(pc, P_SLOTS, 2)
    p_slot_items = _m(pc, P_SLOT_ITEMS, 3)
    p_skip_slots = _m(pc, P_SKIP_SLOTS, 4)
    p_follows = _v(pc, P_FOLLOWS)
    p_terminals = _m(pc, P_TERMINALS, 2)
    p_returns = _m(pc, P_RETURNS, 3)
    x_set_a = _m(xc, L_SET_A, 3)
    x_marks = _m(xc, L_MARKS, 2)
    x_calls = _m(xc, L_CALLS, 3)
    if p_kernels[kernel, 4] & CLOSED:
        return 0
    first, n = p_kernels[kernel, 0], p_kernels[kernel, 1]
    if not _room(x_count, L_SET_A, x_set_a.shape[0], n + 2):
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
        _room(p_count, P_WAITING, p_waiting.shape[0], p_count[N_WAITING] + calls)
        and _room(p_count, P_SLOTS, p_slots.shape[0], p_count[N_SLOTS] + shifts + room)
        and _room(p_count, P_SLOT_ITEMS, p_slot_items.shape[0], p_count[N_SLOT_ITEMS] + shifts)
        and _room(p_count, P_SKIP_SLOTS, p_skip_slots.shape[0], p_count[N_SKIP_SLOTS] + room)
        and _room(p_count, P_FOLLOWS, p_follows.shape[0], p_count[N_FOLLOWS] + (skips + 1) * shifts)
        and _room(x_count, L_MARKS, x_marks.shape[0], p_terminals.shape[0])
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


# ---------------------------------------------------------------- goto
@njit(boolean(_C, int64, int64), cache=True)
def _same_skip(pc, q, r):
    """Whether nothing is lost when the finished state ``q`` is replaced by what waits at ``r``."""
    p_states = _m(pc, P_STATES, 6)
    p_returns = _m(pc, P_RETURNS, 3)
    p_waiting = _m(pc, P_WAITING, 3)
    skip = p_states[q, 1]
    if skip < 0:
        return True
    w = p_returns[r, 2]
    while w >= 0:
        if p_states[p_waiting[w, 0], 1] != skip:
            return False
        w = p_waiting[w, 2]
    return True


@njit(int64(_C, _C, int64), cache=True)
def _settle(pc, xc, n):
    """Finished rules among the first ``n`` items of set_a give way to what waits for them.

    The rest goes to set_b, sorted, without repetition. Returns its length or a status.
    """
    p_states = _m(pc, P_STATES, 6)
    p_returns = _m(pc, P_RETURNS, 3)
    p_waiting = _m(pc, P_WAITING, 3)
    x_count = _w(xc, L_COUNT)
    x_set_a = _m(xc, L_SET_A, 3)
    x_set_b = _m(xc, L_SET_B, 3)
    x_count[STAMP] += 1
    given, n = n, 0
    for i in range(given):
        n = _add(xc, x_set_a, n, x_set_a[i, 0], x_set_a[i, 1], 1)
    i = m = 0
    missing = False
    while i < n:
        q, r = x_set_a[i, 0], x_set_a[i, 1]
        i += 1
        bits = p_states[q, 0]
        if not bits & EXPANDED:
            _ask(xc, pc, q)
            missing = True
            continue
        if bits & LAST and r != 0 and _same_skip(pc, q, r):
            w = p_returns[r, 2]
            while w >= 0:
                status = _space(pc, xc, L_SET_A, x_set_a, n)
                if status < 0:
                    return status
                n = _add(xc, x_set_a, n, p_waiting[w, 0], p_waiting[w, 1], 1)
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


@njit(int64(_C, _C, int64, int64, int64, _I1, int64), cache=True)
def _grouped(pc, xc, kernel, n, complete, out, m):
    """Appends to ``out`` (from ``m`` on) the parser states of the ``n`` positions in ``picked``, one a group of lexemes.

    Returns the new length or GROW.
    """
    p_kernels = _m(pc, P_KERNELS, 6)
    p_terminals = _m(pc, P_TERMINALS, 2)
    p_slots = _m(pc, P_SLOTS, 2)
    x_picked = _v(xc, L_PICKED)
    if n == 0:
        if complete:
            j = _state(pc, xc, kernel, x_picked, 0, 1, True)
            if j < 0:
                return GROW
            out[m] = j
            m += 1
        return m
    base = p_kernels[kernel, 2]
    one = True
    group = p_terminals[_terminal(pc, p_slots[base + x_picked[0], 0]), 1]
    for i in range(1, n):
        if p_terminals[_terminal(pc, p_slots[base + x_picked[i], 0]), 1] != group:
            one = False
            break
    if one:
        j = _state(pc, xc, kernel, x_picked, n, complete, True)
        if j < 0:
            return GROW
        out[m] = j
        return m + 1
    picked = x_picked[:n].copy()
    part = np.empty(n, np.int32)
    for i in range(n):
        group = p_terminals[_terminal(pc, p_slots[base + picked[i], 0]), 1]
        size, first = 0, True
        for h in range(n):
            if p_terminals[_terminal(pc, p_slots[base + picked[h], 0]), 1] == group:
                if h < i:
                    first = False
                    break
                part[size] = picked[h]
                size += 1
        if first:
            j = _state(pc, xc, kernel, part, size, complete if i == 0 else 0, True)
            if j < 0:
                return GROW
            out[m] = j
            m += 1
    return m


@njit(int64(_C, _C, int64), cache=True)
def _full(pc, xc, kernel):
    """Index in ``lists`` of the parser states of a kernel with all its slots; or a status."""
    x_count = _w(xc, L_COUNT)
    p_kernels = _m(pc, P_KERNELS, 6)
    p_count = _w(pc, P_COUNT)
    p_lists = _v(pc, P_LISTS)
    x_picked = _v(xc, L_PICKED)
    if p_kernels[kernel, 5] >= 0:
        return p_kernels[kernel, 5]
    status = _close(pc, xc, kernel)
    if status < 0:
        return status
    n = p_kernels[kernel, 3]
    at = p_count[N_LISTS]
    if not (_room(x_count, L_PICKED, x_picked.shape[0], n) and _room(p_count, P_LISTS, p_lists.shape[0], at + n + 2)):
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


@njit(int64(_C, _C, int64, int64, _I1, int64), cache=True)
def _after_skip(pc, xc, kernel, slot, out, m):
    """Appends to ``out`` the parser states after the lexeme of skip slot ``slot`` of a kernel; the new length or GROW."""
    x_count = _w(xc, L_COUNT)
    p_slots = _m(pc, P_SLOTS, 2)
    p_skip_slots = _m(pc, P_SKIP_SLOTS, 4)
    p_skips = _m(pc, P_SKIPS, 3)
    p_kernels = _m(pc, P_KERNELS, 6)
    p_follows = _v(pc, P_FOLLOWS)
    x_picked = _v(xc, L_PICKED)
    s = -1 - p_slots[slot, 0]
    skip, first, follows = p_skip_slots[s, 0], p_skip_slots[s, 2], p_skip_slots[s, 3]
    once = p_skips[skip, 0]
    base, total = p_kernels[kernel, 2], p_kernels[kernel, 3]
    if not _room(x_count, L_PICKED, x_picked.shape[0], total):
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


@njit(int64(_I1, int64, int64), cache=True)
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


@njit(int64(_C, _C, int64, int64), cache=True)
def _goto(pc, xc, j, accept):
    """Index in ``lists`` of the parser states after lexemes of ``j`` ended, by the lexer's accept id; or a status.

    In a greedy group only the slots of highest priority count (all that share it).
    """
    p_goto_keys = _w(pc, P_GOTO_KEYS)
    p_goto_values = _v(pc, P_GOTO_VALUES)
    p_parsers = _m(pc, P_PARSERS, 7)
    p_kernels = _m(pc, P_KERNELS, 6)
    p_priorities = _f(pc, P_PRIORITIES)
    p_slots = _m(pc, P_SLOTS, 2)
    p_positions = _v(pc, P_POSITIONS)
    p_count = _w(pc, P_COUNT)
    p_slot_items = _m(pc, P_SLOT_ITEMS, 3)
    p_lists = _v(pc, P_LISTS)
    x_accepts = _m(xc, L_ACCEPTS, 2)
    x_indices = _v(xc, L_INDICES)
    x_set_a = _m(xc, L_SET_A, 3)
    x_seen = _ww(xc, L_SEEN)
    x_count = _w(xc, L_COUNT)
    x_set_b = _m(xc, L_SET_B, 3)
    key = np.int64(j) << 32 | np.int64(accept)
    at = find(p_goto_keys, key)
    if at >= 0:
        return p_goto_values[at]
    kernel, first = p_parsers[j, 0], p_parsers[j, 1]
    base = p_kernels[kernel, 2]
    ends, size = x_accepts[accept, 0], x_accepts[accept, 1]
    if p_parsers[j, 6]:
        for i in range(ends, ends + size):
            if _captures(pc, base + p_positions[first + x_indices[i]]):
                return TEXT
    best = -np.inf
    if p_parsers[j, 4]:
        for i in range(ends, ends + size):
            best = max(best, p_priorities[_terminal(pc, p_slots[base + p_positions[first + x_indices[i]], 0])])
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
        new = _kernel(pc, x_set_b, n)
        if new < 0:
            return GROW
        shifted = _full(pc, xc, new)
        if shifted < 0:
            return shifted
    skips = 0
    for i in range(ends, ends + size):
        t = p_slots[base + p_positions[first + x_indices[i]], 0]
        if t < 0 and not (p_parsers[j, 4] and p_priorities[_terminal(pc, t)] < best):
            skips += 1
    at = p_count[N_LISTS]
    if skips == 0:
        result = shifted
    else:
        most = (p_kernels[kernel, 3] + 1) * skips + (p_lists[shifted] if shifted >= 0 else 0)
        if not _room(p_count, P_LISTS, p_lists.shape[0], at + most + 2):
            return GROW
        end = at + 1
        if shifted >= 0:
            for i in range(p_lists[shifted]):
                p_lists[end] = p_lists[shifted + 1 + i]
                end += 1
        for i in range(ends, ends + size):
            slot = base + p_positions[first + x_indices[i]]
            t = p_slots[slot, 0]
            if t < 0 and not (p_parsers[j, 4] and p_priorities[_terminal(pc, t)] < best):
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


@njit(int64(_C, _C, int64, int64), cache=True)
def _restrict(pc, xc, j, keep):
    """The parser state ``j`` with only the slots behind the lexer's kept id; or GROW."""
    x_count = _w(xc, L_COUNT)
    p_restrict_keys = _w(pc, P_RESTRICT_KEYS)
    p_restrict_values = _v(pc, P_RESTRICT_VALUES)
    p_count = _w(pc, P_COUNT)
    p_parsers = _m(pc, P_PARSERS, 7)
    p_positions = _v(pc, P_POSITIONS)
    x_keeps = _m(xc, L_KEEPS, 2)
    x_picked = _v(xc, L_PICKED)
    x_indices = _v(xc, L_INDICES)
    key = np.int64(j) << 32 | np.int64(keep)
    at = find(p_restrict_keys, key)
    if at >= 0:
        return p_restrict_values[at]
    if 2 * p_count[N_RESTRICTS] >= p_restrict_keys.shape[0]:
        p_count[HALF + P_RESTRICT_KEYS] = 2 * p_restrict_keys.shape[0]
        return GROW
    n, first, base = x_keeps[keep, 1], x_keeps[keep, 0], p_parsers[j, 1]
    if not _room(x_count, L_PICKED, x_picked.shape[0], n):
        return GROW
    for i in range(n):
        x_picked[i] = p_positions[base + x_indices[first + i]]
    j2 = _state(pc, xc, p_parsers[j, 0], x_picked, n, 0, False)
    if j2 < 0:
        return GROW
    p_restrict_keys[-1 - at], p_restrict_values[-1 - at] = key, j2
    p_count[N_RESTRICTS] += 1
    return j2


@njit(int64(_C, _C, _I2, int64), cache=True)
def _kernel_of(pc, xc, items, n):
    """The kernel of ``n`` items, settled; or a status."""
    x_set_a, x_seen, x_count = _m(xc, L_SET_A, 3), _ww(xc, L_SEEN), _w(xc, L_COUNT)
    if n + 2 > x_set_a.shape[0] or 2 * n + 4 > x_seen.shape[0]:
        x_count[HALF + L_SET_A], x_count[HALF + L_SEEN] = max(2 * (n + 2), x_set_a.shape[0]), 4 * x_seen.shape[0]
        return GROW
    for i in range(n):
        x_set_a[i, 0], x_set_a[i, 1] = items[i, 0], items[i, 1]
    m = _settle(pc, xc, n)
    return _kernel(pc, _m(xc, L_SET_B, 3), m) if m >= 0 else m


# ---------------------------------------------------------------- hash tables made anew
@njit(types.void(_C), cache=True)
def _rehash_lexer(lexer):
    """Fills the empty ``tuple_hash`` anew."""
    x_tuple_hash = _v(lexer, L_TUPLE_HASH)
    x_count = _w(lexer, L_COUNT)
    x_tuples = _m(lexer, L_TUPLES, 3)
    x_exprs = _v(lexer, L_EXPRS)
    size = x_tuple_hash.shape[0]
    for s in range(1, x_count[N_TUPLES]):
        if not x_tuples[s, 2]:
            continue
        h = np.uint64(x_tuples[s, 1])
        for i in range(x_tuples[s, 0], x_tuples[s, 0] + x_tuples[s, 1]):
            h = _mix(h, x_exprs[i])
        at = _slot(h, size)
        while x_tuple_hash[at] >= 0:
            at = (at + 1) & (size - 1)
        x_tuple_hash[at] = s


@njit(types.void(_C, int64), cache=True)
def _rehash_parser(parser, field):
    """Fills the empty hash table of returns, kernels or parser states anew (``field``: its index)."""
    p_return_hash = _v(parser, P_RETURN_HASH)
    p_count = _w(parser, P_COUNT)
    p_kernel_hash = _v(parser, P_KERNEL_HASH)
    p_parser_hash = _v(parser, P_PARSER_HASH)
    p_returns = _m(parser, P_RETURNS, 3)
    p_kernels = _m(parser, P_KERNELS, 6)
    p_items = _m(parser, P_ITEMS, 2)
    p_parsers = _m(parser, P_PARSERS, 7)
    p_positions = _v(parser, P_POSITIONS)
    if field == P_RETURN_HASH:
        table, count = p_return_hash, p_count[N_RETURNS]
    elif field == P_KERNEL_HASH:
        table, count = p_kernel_hash, p_count[N_KERNELS]
    else:
        table, count = p_parser_hash, p_count[N_PARSERS]
    size = table.shape[0]
    for n in range(1 if field == P_RETURN_HASH else 0, count):
        if field == P_RETURN_HASH:
            h = _mix(np.uint64(p_returns[n, 0]), p_returns[n, 1])
        elif field == P_KERNEL_HASH:
            h = np.uint64(p_kernels[n, 1])
            for i in range(p_kernels[n, 0], p_kernels[n, 0] + p_kernels[n, 1]):
                h = _mix(_mix(h, p_items[i, 0]), p_items[i, 1])
        else:
            h = _mix(_mix(np.uint64(p_parsers[n, 0]), p_parsers[n, 2]), p_parsers[n, 3])
            for i in range(p_parsers[n, 1], p_parsers[n, 1] + p_parsers[n, 2]):
                h = _mix(h, p_positions[i])
        at = _slot(h, size)
        while table[at] >= 0:
            at = (at + 1) & (size - 1)
        table[at] = n


@njit(types.void(_C, int64, _C, _I1), cache=True)
def _refill(pc, field, old_keys, old_values):
    """Moves an open-addressing table of int64 keys (``field``) and int32 values (the next field) into the larger empty one in its place."""
    keys, values = _w(pc, field), _v(pc, field + 1)
    for i in range(old_keys.shape[0]):
        if old_keys[i] >= 0:
            at = -1 - find(keys, old_keys[i])
            keys[at], values[at] = old_keys[i], old_values[i]


# ---------------------------------------------------------------- the walk
@njit(int64(_I2, int64, int64, int64, int64, int64, int64, int64, int64), cache=True)
def _note(rows, n, kind, a, b, c, d, e, f):
    """Writes a root as row ``n``, behind ``kind`` where there is a column for it; the next row's number."""
    at = 0
    if kind >= 0:
        rows[n, 0] = kind
        at = 1
    rows[n, at], rows[n, at + 1], rows[n, at + 2], rows[n, at + 3], rows[n, at + 4], rows[n, at + 5] = a, b, c, d, e, f
    return n + 1


@njit(types.void(_C, int64, int64), cache=True)
def _drop(lexer, start, stop):
    """Marks the base's exits at nodes ``start`` to ``stop`` as void."""
    exits, drops = _v(lexer, L_EXITS), _v(lexer, L_DROPS)
    low, high = 0, exits.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if exits[middle] < start:
            low = middle + 1
        else:
            high = middle
    while low < exits.shape[0] and exits[low] < stop:
        drops[low] = 1
        low += 1


@njit(int64(_C, _C, int64, uint32[::1]), cache=True)
def _walk(parser, lexer, n_roots, row):
    """Marks in ``row`` (uint32[words]) the tokens that the parser threads of ``roots`` may take (any-match lexing).

    ``since`` of a root is the depth in the trie where its lexeme began, or ``-1 - n`` if that was in the text before (the caller's n-th).

    A root with a *base*, a lexer state whose tokens are in the row already, is walked for the difference: where both automata (and
    the parser state, ``alike``) have come to the same, the subtree is as in the base; where only the base is alive its tokens are
    taken out, and its exits there are marked in ``drops``. What leaves a lexeme on such a walk is
    only noted (MISS_WORK), since the walk may still clear bits there.

    Returns the number of entries in ``miss``, or -1 where it overflowed (resolve them all and repeat the call). Rule states that
    have to be expanded are in ``asked``.

    Cost: about 10 ns a node met, 1 to 3 us a parser state made.
    """
    byte, depth, end = _b(lexer, L_TRIE_BYTE), _v(lexer, L_TRIE_DEPTH), _v(lexer, L_TRIE_END)
    first, tokens = _v(lexer, L_TRIE_FIRST), _v(lexer, L_TRIE_TOKENS)
    roots, stack, work, miss = _m(lexer, L_ROOTS, 6), _m(lexer, L_STACK, 3), _m(lexer, L_WORK, 6), _m(lexer, L_MISS, 7)
    p_lists = _v(parser, P_LISTS)
    p_parsers = _m(parser, P_PARSERS, 7)
    table, kept, accept = _m(lexer, L_TABLE, 256), _m(lexer, L_KEPT, 256), _v(lexer, L_ACCEPT)
    alike = _w(lexer, L_COUNT)[ALIKE]
    n = n_work = r = 0
    limit = miss.shape[0] - 8
    while r < n_roots or n_work > 0:
        if n > limit:
            return -1
        base = 0
        if n_work > 0:
            n_work -= 1
            i, stop, j, s, since = work[n_work, 0], work[n_work, 1], work[n_work, 2], work[n_work, 3], work[n_work, 5]
        else:
            i, stop, j, s, base, since = roots[r, 0], roots[r, 1], roots[r, 2], roots[r, 3], roots[r, 4], roots[r, 5]
            r += 1
        if i >= stop:
            continue
        differ = base != 0
        if table[s, 0] < 0:
            n = _note(miss, n, MISS_ROW, i, stop, j, s, base, since)
            continue
        top = depth[i] - 1
        stack[top, 0], stack[top, 1], stack[top, 2] = j, s, base
        nb = 0
        while i < stop:
            d = depth[i] - 1
            j, s = stack[d, 0], stack[d, 1]
            b = byte[i]
            ns = table[s, b]
            if differ:
                nb = table[stack[d, 2], b]
            if ns == 0:
                after = end[i]
                if nb != 0:
                    for t in range(first[i], first[after]):
                        token = tokens[t]
                        row[token >> 5] &= ~(np.uint32(1) << np.uint32(token & 31))
                    _drop(lexer, i, after)
                i = after
                continue
            if n > limit:
                return -1
            k = kept[s, b]
            if k != 0:
                nj = _restrict(parser, lexer, j, k)
                if nj < 0:
                    n = _note(miss, n, MISS_RESTRICT, i, end[i], j, s, stack[d, 2], since)
                    i = end[i]
                    continue
                j = nj
            if differ:
                if ns == nb and j == alike:
                    i = end[i]
                    continue
                if nb != 0 and accept[nb] != 0:
                    _drop(lexer, i, i + 1)
            for t in range(first[i], first[i + 1]):
                token = tokens[t]
                row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            after = end[i]
            if after == i + 1:
                i = after
                continue
            a = accept[ns]
            if a != 0:
                at = _goto(parser, lexer, j, a)
                if at < 0:
                    n = _note(miss, n, MISS_GOTO, i + 1, after, j, a, 0, since)
                else:
                    for g in range(p_lists[at]):
                        j2 = p_lists[at + 1 + g]
                        if n_work < work.shape[0] and not differ:
                            n_work = _note(work, n_work, -1, i + 1, after, j2, p_parsers[j2, 5], 0, d + 1)
                        else:
                            n = _note(miss, n, MISS_WORK, i + 1, after, j2, p_parsers[j2, 5], 0, d + 1)
                            if n > limit:
                                return -1
            if table[ns, 0] < 0:
                n = _note(miss, n, MISS_ROW, i + 1, after, j, ns, nb, since)
                i = after
                continue
            stack[d + 1, 0], stack[d + 1, 1], stack[d + 1, 2] = j, ns, nb
            i += 1
    return n


# ---------------------------------------------------------------- the entry
#: Operations of :func:`run`.
GOTO, RESTRICT, KERNEL, FULL, WALK, REHASH_LEXER, REHASH_PARSER, REFILL = range(8)


@njit(int64(_C, _C, int64, int64, int64, _I2, uint32[::1], _C, _I1), cache=True, nogil=True)
def run(parser, lexer, operation, a, b, items, row, old_keys, old_values):
    """One operation; its result or a status. (One entry, so that all is compiled once.)

    Args:
        parser, lexer: contexts of the two sets of tables.
        items, row, old_keys, old_values: see the operations; empty where not needed.

    - GOTO: index in the parser's ``lists`` of the states after the lexemes of accept id ``b`` ended in parser state ``a``.
    - RESTRICT: the parser state ``a`` with only the slots behind kept id ``b``.
    - KERNEL: the kernel of the first ``a`` of ``items`` (rule state, return), finished rules given way to what waits for them.
    - FULL: index in ``lists`` of the parser states of kernel ``a`` with all its slots.
    - WALK: see :func:`_walk`; ``a`` is the number of roots.
    - REHASH_LEXER, REHASH_PARSER, REFILL: fill an emptied hash table anew (field ``a``).
    """
    if operation == WALK:
        return _walk(parser, lexer, a, row)
    if operation == GOTO:
        return _goto(parser, lexer, a, b)
    if operation == RESTRICT:
        return _restrict(parser, lexer, a, b)
    if operation == FULL:
        return _full(parser, lexer, a)
    if operation == KERNEL:
        return _kernel_of(parser, lexer, items, a)
    if operation == REHASH_LEXER:
        _rehash_lexer(lexer)
    elif operation == REHASH_PARSER:
        _rehash_parser(parser, a)
    else:
        _refill(parser, a, old_keys, old_values)
    return 0
