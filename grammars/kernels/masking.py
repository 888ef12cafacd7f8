"""The token mask of a configuration: composed of segments, and walked where the parser is needed.

The trie is in preorder (see :class:`grammars.vocabulary.Vocabulary`): a subtree is the contiguous range ``node .. end[node]``. A walk
carries a state down each path and jumps over the subtree where the state is dead, so its cost is the number of nodes alive or next to
alive. What is not known yet is made on the way. Where that needs Python (a rule state to be expanded, the moves of an
expression) the walk notes it and goes on elsewhere; the caller sees to it and asks for the mask again: marking is idempotent.
"""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import boolean, int64, types, uint32

from .entries import goto, restrict, row
from .fields import (
    ALIKE,
    ASK,
    COMPLETES,
    GROW,
    L_ACCEPT,
    L_BASE_EXITS,
    L_CHASE,
    L_COUNT,
    L_DROPS,
    L_EXPRS,
    L_KEPT,
    L_LOOPS,
    L_MISS,
    L_NODES,
    L_OWN,
    L_REACHED,
    L_ROOTS,
    L_ROWS,
    L_SEGMENTS,
    L_STACK,
    L_SUFFIX_BYTE,
    L_SUFFIX_TOKENS,
    L_TABLE,
    L_THREADS,
    L_TRIE_BELOW,
    L_TRIE_BYTE,
    L_TRIE_DEPTH,
    L_TRIE_END,
    L_TRIE_FIRST,
    L_TRIE_TOKENS,
    L_TUPLES,
    N_CHASE,
    N_MISS,
    N_REACHED,
    N_ROOTS,
    P_COUNT,
    P_LISTS,
    P_PARSERS,
    REACH,
    REMEMBERS,
    SEGMENT,
    TEXT,
    WANTED,
)  # fmt: skip
from .rows import WIDE, base, positions, state
from .texts import COUNT, EXCEPT, NATIVE, saturated
from .views import COUNTS, I1, bytes_of, compiled, has_room, mat, mat64, vec, vec64, words

__all__ = ["FIRST"]

#: The accept id of the position 0 alone.
FIRST = 1


# ---------------------------------------------------------------- notes
@compiled(boolean(COUNTS, int64))
def _reach(xc, j):
    """Notes that tokens come to parser state ``j``, if not just noted; where there is room."""
    count, reached = vec64(xc, L_COUNT), vec(xc, L_REACHED)
    n = count[N_REACHED]
    for i in range(max(0, n - 4), n):
        if reached[i] == j:
            return True
    if not has_room(count, L_REACHED, reached.shape[0], n + 1):
        return False
    reached[n] = j
    count[N_REACHED] = n + 1
    return True


@compiled(int64(COUNTS, int64, int64, int64, int64, int64, int64))
def _root(xc, start, stop, j, x, trie, since):
    """Appends a root of the walk: the nodes ``start`` to ``stop`` from parser state ``j`` and lexer state ``x`` on; 0 or GROW.

    ``trie``: 0 for the vocabulary's, else the segment whose exits it follows.
    """
    count, roots = vec64(xc, L_COUNT), mat(xc, L_ROOTS, 6)
    n = count[N_ROOTS]
    if not (has_room(count, L_ROOTS, roots.shape[0], n + 1) and _reach(xc, j)):
        return GROW
    roots[n, 0], roots[n, 1], roots[n, 2], roots[n, 3], roots[n, 4], roots[n, 5] = start, stop, j, x, trie, since
    count[N_ROOTS] = n + 1
    return 0


@compiled(int64(COUNTS, int64, int64, int64, int64, int64))
def _missed(xc, start, stop, j, accept, since):
    """Notes that what follows a lexeme depends on its bytes; 0 or GROW."""
    count, miss = vec64(xc, L_COUNT), mat(xc, L_MISS, 5)
    n = count[N_MISS]
    if not has_room(count, L_MISS, miss.shape[0], n + 1):
        return GROW
    miss[n, 0], miss[n, 1], miss[n, 2], miss[n, 3], miss[n, 4] = start, stop, j, accept, since
    count[N_MISS] = n + 1
    return 0


@compiled(int64(COUNTS, int64, int64))
def _chase(xc, j, accept):
    """Notes a goto that Python must help to make; ASK."""
    count, chase = vec64(xc, L_COUNT), mat(xc, L_CHASE, 2)
    n = count[N_CHASE]
    for i in range(n):
        if chase[i, 0] == j and chase[i, 1] == accept:
            return ASK
    if n < chase.shape[0]:
        chase[n, 0], chase[n, 1] = j, accept
        count[N_CHASE] = n + 1
    return ASK


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, int64, int64, int64, int64))
def _ended(pc, xc, start, stop, j, accept, trie, depth, since):
    """Roots below a node at ``depth`` where lexemes of ``j`` end; 0 or a status."""
    at = goto(pc, xc, j, accept)
    if at == TEXT:
        return _missed(xc, start, stop, j, accept, since)
    if at == ASK:
        return _chase(xc, j, accept)
    if at < 0:
        return at
    lists, parsers = vec(pc, P_LISTS), mat(pc, P_PARSERS, 7)
    for g in range(at + 1, at + 1 + lists[at]):
        if _root(xc, start, stop, lists[g], parsers[lists[g], 5], trie, depth) < 0:
            return GROW
    return 0


# ---------------------------------------------------------------- the walk
@compiled(types.void(COUNTS, int64, int64))
def _drop(xc, start, stop):
    """Marks the base's exits at nodes ``start`` to ``stop`` as void."""
    exits, drops = vec(xc, L_BASE_EXITS), vec(xc, L_DROPS)
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


@compiled(types.void(uint32[::1], I1, int64, int64))
def _clear(bits, tokens, start, stop):
    """Takes ``tokens[start:stop]`` out of a mask."""
    for t in range(start, stop):
        bits[tokens[t] >> 5] &= ~(np.uint32(1) << np.uint32(tokens[t] & 31))


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, int64, int64, int64, int64, uint32[::1], uint32[::1]))
def _walk(pc, xc, i, stop, j, s, base_state, trie, since, bits, leave):
    """Marks in ``bits`` the tokens at nodes ``i`` to ``stop`` of a trie that may be taken from parser state ``j`` and lexer state ``s`` on.

    ``since`` is the depth in the trie where the lexeme began, or ``-1 - n`` if that was in the text before (the caller's n-th thread).

    With a *base*, a lexer state whose tokens are in ``bits`` already, and those that leave its lexeme in ``leave``, the walk is for the
    difference: where both automata (and the parser state, ``ALIKE``) have come to the same, the subtree is as in the base; where only the
    base is alive its tokens are taken out, where only the base's lexeme may end those behind it; such exits are also marked in ``drops``.

    Returns 0 or a status. Cost: about 10 ns a node met, 1 to 3 us a state made.
    """
    shift = L_SUFFIX_BYTE - L_TRIE_BYTE if trie else 0
    byte, depth, end = bytes_of(xc, L_TRIE_BYTE + shift), vec(xc, L_TRIE_DEPTH + shift), vec(xc, L_TRIE_END + shift)
    first, tokens, stack = vec(xc, L_TRIE_FIRST + shift), vec(xc, L_TRIE_TOKENS + shift), mat(xc, L_STACK, 3)
    table, kept, accept = mat(xc, L_TABLE, 256), mat(xc, L_KEPT, 256), vec(xc, L_ACCEPT)
    rows = vec(xc, L_ROWS)
    below, loops, alike = vec64(xc, L_TRIE_BELOW), vec64(xc, L_LOOPS), vec64(xc, L_COUNT)[ALIKE]
    if i >= stop:
        return 0
    if rows[s] == 0:
        status = row(xc, s)
        if status < 0:
            return status
    differ = base_state != 0
    top = depth[i] - 1
    stack[top, 0], stack[top, 1], stack[top, 2] = j, s, base_state
    worst = nb = 0
    while i < stop:
        d = depth[i] - 1
        j, s = stack[d, 0], stack[d, 1]
        letter = byte[i]
        ns = table[rows[s], letter]
        if differ:
            nb = table[rows[stack[d, 2]], letter]
        after = end[i]
        if ns == 0:
            if nb != 0:
                _clear(bits, tokens, first[i], first[after])
                _clear(leave, tokens, first[i], first[after])
                _drop(xc, i, after)
            i = after
            continue
        k = kept[rows[s], letter]
        if k != 0:
            j = restrict(pc, xc, j, k)
            if j < 0:
                return GROW
        if differ:
            if ns == nb and j == alike:
                i = after
                continue
            if nb != 0 and accept[nb] != 0:
                _clear(leave, tokens, first[i + 1], first[after])
                _drop(xc, i, i + 1)
        for t in range(first[i], first[i + 1]):
            bits[tokens[t] >> 5] |= np.uint32(1) << np.uint32(tokens[t] & 31)
        if after == i + 1:
            i = after
            continue
        if accept[ns] == 0 and not below[i] & ~loops[ns] and not trie and rows[ns] != 0:
            # all that is below stays in this state, and in that of the base
            if not differ or (nb != 0 and accept[nb] == 0 and rows[nb] != 0 and not below[i] & ~loops[nb]):
                if not differ:
                    for t in range(first[i + 1], first[after]):
                        bits[tokens[t] >> 5] |= np.uint32(1) << np.uint32(tokens[t] & 31)
                i = after
                continue
        if accept[ns] != 0:
            status = _ended(pc, xc, i + 1, after, j, accept[ns], trie, d + 1, since)
            if status < ASK:
                return status
            worst = min(worst, status)
        if rows[ns] == 0 or (nb != 0 and rows[nb] == 0):
            status = row(xc, ns)
            if status == 0 and nb != 0:
                status = row(xc, nb)
            if status == GROW:
                return GROW
            if status < 0:
                worst = ASK
                i = after
                continue
        stack[d + 1, 0], stack[d + 1, 1], stack[d + 1, 2] = j, ns, nb
        i += 1
    return worst


@compiled(int64(COUNTS, COUNTS, int64, uint32[::1]))
def _walk_from(pc, xc, r, bits):
    """Walks the roots from number ``r`` on, also those that come up on the way; 0 or a status."""
    count, worst = vec64(xc, L_COUNT), 0
    segments = mat64(xc, L_SEGMENTS, 12)
    while r < count[N_ROOTS]:
        roots = mat(xc, L_ROOTS, 6)
        trie = roots[r, 4]
        if trie:
            for k in range(5):
                xc[2 * (L_SUFFIX_BYTE + k)] = segments[trie, 5 + k]
                xc[2 * (L_SUFFIX_BYTE + k) + 1] = segments[trie, 10] + (1 if k == 3 else 0)
            xc[2 * L_SUFFIX_TOKENS + 1] = segments[trie, 11]
        status = _walk(pc, xc, roots[r, 0], roots[r, 1], roots[r, 2], roots[r, 3], 0, trie, roots[r, 5], bits, bits)
        if status < ASK:
            return status
        worst = min(worst, status)
        r += 1
    return worst


# ---------------------------------------------------------------- segments
@compiled(int64(COUNTS, int64))
def _segment(xc, x):
    """The segment of a wide state with one lexeme; SEGMENT where it must be made first, or GROW."""
    tuples, exprs, count = mat(xc, L_TUPLES, 7), vec(xc, L_EXPRS), vec64(xc, L_COUNT)
    if tuples[x, 6]:
        return tuples[x, 6]
    one = np.empty(1, np.int32)
    e = exprs[tuples[x, 0]]
    cut = saturated(xc, e, count[REACH])
    if cut < 0:
        return GROW
    y = x
    if cut != e:
        one[0] = cut
        y = state(xc, one, 1, False)
        if y < 0:
            return GROW
    if tuples[y, 6]:
        tuples[x, 6] = tuples[y, 6]
        return tuples[y, 6]
    count[WANTED] = y
    return SEGMENT


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, boolean))
def _exits(pc, xc, j, since, segment, some):
    """Roots below the exits of a segment, where the one lexeme of ``j`` ends; 0 or a status.

    With ``some``: one by one, those that are not dropped. Otherwise a root in the trie of what follows them, where no text matters.
    """
    segments, parsers, lists = mat64(xc, L_SEGMENTS, 12), mat(pc, P_PARSERS, 7), vec(pc, P_LISTS)
    depth, drops = vec(xc, L_TRIE_DEPTH), vec(xc, L_DROPS)
    at = goto(pc, xc, j, FIRST)
    if at == ASK:
        return _chase(xc, j, FIRST)
    if at < 0 and at != TEXT:
        return at
    n = segments[segment, 3]
    if not some and not vec64(pc, P_COUNT)[REMEMBERS]:
        if n == 0 or lists[at] == 0:
            return 0
        if segments[segment, 10] == 0:  # nobody has asked for what follows yet: it may be all of the vocabulary, behind every byte
            vec64(xc, L_COUNT)[WANTED] = -segment
            return SEGMENT
        for g in range(at + 1, at + 1 + lists[at]):
            if _root(xc, 1, segments[segment, 10], lists[g], parsers[lists[g], 5], segment, 0) < 0:
                return GROW
        return 0
    exits, ends = words(segments[segment, 1], n), words(segments[segment, 2], n)
    for i in range(n):
        if some and drops[i]:
            continue
        node, end = np.int64(exits[i]), np.int64(ends[i])
        if at == TEXT:
            if _missed(xc, node + 1, end, j, FIRST, since) < 0:
                return GROW
            continue
        for g in range(at + 1, at + 1 + lists[at]):
            if _root(xc, node + 1, end, lists[g], parsers[lists[g], 5], 0, depth[node]) < 0:
                return GROW
    return 0


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, uint32[::1], boolean))
def _differ(pc, xc, j, x, since, bits, fresh):
    """The segment of the base of ``x``, corrected by a walk where ``x`` does otherwise; 0 or a status. ``fresh``: ``bits`` is empty."""
    tuples, segments, count = mat(xc, L_TUPLES, 7), mat64(xc, L_SEGMENTS, 12), vec64(xc, L_COUNT)
    y, keep, n = tuples[x, 4], tuples[x, 5], bits.shape[0]
    found = _segment(xc, y)
    if found < 0:
        return found
    alike = restrict(pc, xc, j, keep) if keep else j
    if alike < 0:
        return GROW
    rows, shared = words(xc[2 * L_OWN], xc[2 * L_OWN + 1]), words(segments[found, 0], n)
    own = bits if fresh else rows[:n]
    for i in range(n):
        own[i] = shared[i]
    shape = segments[found, 4]
    single = shape == 2 or vec64(pc, P_COUNT)[REMEMBERS] != 0  # exits must be looked at one by one
    leave = rows[n : 2 * n] if single or shape == 1 else own  # of no use if single
    worst, before = 0, count[N_ROOTS]
    xc[2 * L_BASE_EXITS], xc[2 * L_BASE_EXITS + 1] = segments[found, 1], 0
    if single:
        drops = vec(xc, L_DROPS)
        xc[2 * L_BASE_EXITS + 1] = segments[found, 3]
        for i in range(segments[found, 3]):
            drops[i] = 0
    else:
        if shape == 1:
            leave[:] = 0
        worst = _exits(pc, xc, alike, since, found, False)
        if worst < ASK:
            return worst
        status = _walk_from(pc, xc, before, leave)
        if status < ASK:
            return status
        worst, count[N_ROOTS] = min(worst, status), before
    count[ALIKE] = alike
    status = _walk(pc, xc, 1, bytes_of(xc, L_TRIE_BYTE).shape[0], j, x, y, 0, since, own, leave)
    if status < ASK:
        return status
    worst = min(worst, status)
    if shape == 1 and not single:
        for i in range(n):
            own[i] |= leave[i]
    if not fresh:
        for i in range(n):
            bits[i] |= own[i]
    if single:
        status = _exits(pc, xc, alike, since, found, True)
        worst = status if status < ASK else min(worst, status)
    return worst


@compiled(boolean(COUNTS, int64))
def _excepts(xc, x):
    """Whether a state of one lexeme is some texts short of a simpler one."""
    e = vec(xc, L_EXPRS)[mat(xc, L_TUPLES, 7)[x, 0]]
    return e >= NATIVE and mat(xc, L_NODES, 9)[e - NATIVE, 0] == EXCEPT


@compiled(boolean(COUNTS, int64))
def _blank(xc, e):
    """Whether a lexeme is a run of bytes out of a few, such as blanks: it may end after each of them."""
    nodes = mat(xc, L_NODES, 9)
    return e >= NATIVE and nodes[e - NATIVE, 0] == COUNT and nodes[e - NATIVE, 4] == 1


@compiled(boolean(COUNTS, int64))
def _runs(xc, x):
    """Whether a state at a lexeme's start has such a lexeme."""
    tuples, exprs = mat(xc, L_TUPLES, 7), vec(xc, L_EXPRS)
    if not tuples[x, 2]:
        return False
    found = False
    for i in range(tuples[x, 0], tuples[x, 0] + tuples[x, 1]):
        found = found or _blank(xc, exprs[i])
    return found


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, uint32[::1]))
def _split(pc, xc, j, x, since, bits):
    """Segments of the wide lexemes of ``x``, and of runs that begin there; a walk for the others. 0 or a status.

    The union of the masks of the lexemes is exact: under any-match lexing they never hinder each other.
    """
    tuples, exprs, segments = mat(xc, L_TUPLES, 7), vec(xc, L_EXPRS), mat64(xc, L_SEGMENTS, 12)
    first, n = tuples[x, 0], tuples[x, 1]
    one, narrow, left = np.empty(1, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    size = 0
    for i in range(n):
        y = x
        if n > 1:
            one[0] = exprs[first + i]
            y = state(xc, one, 1, False)
            if y < 0:
                return GROW
            status = row(xc, y)
            if status < 0:
                return status
        if tuples[y, 3] < WIDE and not (tuples[x, 2] and _blank(xc, exprs[first + i])):
            narrow[size], left[size] = i, exprs[first + i]
            size += 1
            continue
        alone = j
        if n > 1:
            one[0] = i
            keep = positions(xc, True, one, 1)
            if keep < 0:
                return GROW
            alone = restrict(pc, xc, j, keep)
            if alone < 0:
                return GROW
            if _excepts(xc, y):
                status = base(xc, y)
                if status < 0:
                    return status
                if tuples[y, 4]:
                    status = _differ(pc, xc, alone, y, since, bits, False)
                    if status < 0:
                        return status
                    continue
        found = _segment(xc, y)
        if found < 0:
            return found
        shared = words(segments[found, 0], bits.shape[0])
        for k in range(bits.shape[0]):
            bits[k] |= shared[k]
        status = _exits(pc, xc, alone, since, found, False)
        if status < 0:
            return status
    if size:
        if size < n:
            keep = positions(xc, True, narrow, size)
            if keep < 0:
                return GROW
            j = restrict(pc, xc, j, keep)
            if j < 0:
                return GROW
        y = state(xc, left, size, False)
        if y < 0:
            return GROW
        return _root(xc, 1, bytes_of(xc, L_TRIE_BYTE).shape[0], j, y, 0, since)
    return 0


# ---------------------------------------------------------------- masks
@compiled(int64(COUNTS, COUNTS, uint32[::1]))
def walk_roots(pc, xc, bits):
    """Walks all the roots; the number of entries in ``miss``, or a status."""
    status = _walk_from(pc, xc, 0, bits)
    return status if status < 0 else vec64(xc, L_COUNT)[N_MISS]


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, uint32[::1], boolean))
def _begin(pc, xc, j, x, since, bits, fresh):
    """The part of a mask that one thread gives: marked in ``bits``, or noted as roots. 0 or a status."""
    tuples = mat(xc, L_TUPLES, 7)
    status = row(xc, x)
    if status < 0:
        return status
    if tuples[x, 3] < WIDE:
        if _runs(xc, x):
            return _split(pc, xc, j, x, since, bits)
        return _root(xc, 1, bytes_of(xc, L_TRIE_BYTE).shape[0], j, x, 0, since)
    if tuples[x, 1] > 1 or _excepts(xc, x):
        status = base(xc, x)
        if status < 0:
            return status
        if tuples[x, 4]:
            return _differ(pc, xc, j, x, since, bits, fresh)
    return _split(pc, xc, j, x, since, bits)


@compiled(int64(COUNTS, COUNTS, int64, int64, int64))
def _start(pc, xc, n, j, x):
    """Appends the thread (j, x) to the first ``n`` where it is new; the new number, or GROW."""
    threads, count = mat(xc, L_THREADS, 3), vec64(xc, L_COUNT)
    for i in range(n):
        if threads[i, 0] == j and threads[i, 1] == x and threads[i, 2] == 0:
            return n
    if not (has_room(count, L_THREADS, threads.shape[0], n + 1) and _reach(xc, j)):
        return GROW
    threads[n, 0], threads[n, 1], threads[n, 2] = j, x, 0
    return n + 1


@compiled(int64(COUNTS, COUNTS, int64, uint32[::1]))
def mask(pc, xc, n, bits):
    """Marks in ``bits`` (uint32[words], cleared first) the tokens allowed after the first ``n`` of ``threads`` (any-match lexing).

    A thread is (parser state, lexer state, since). Whether the text may end is noted in ``COMPLETES`` (1), and whether any token is
    allowed (2). The parser states that tokens come to, beside those of the threads, are in ``reached``.

    Returns the number of entries in ``miss``, what depends on text, to be walked by the caller; or a status.
    """
    count, accept, nodes = vec64(xc, L_COUNT), vec(xc, L_ACCEPT), bytes_of(xc, L_TRIE_BYTE).shape[0]
    parsers, lists = mat(pc, P_PARSERS, 7), vec(pc, P_LISTS)
    threads = mat(xc, L_THREADS, 3)
    count[N_ROOTS] = count[N_MISS] = count[N_CHASE] = count[COMPLETES] = count[N_REACHED] = 0
    bits[:] = 0
    worst = i = 0
    while i < n:
        j, x, since = threads[i, 0], threads[i, 1], threads[i, 2]
        i += 1
        if parsers[j, 3] and x == parsers[j, 5]:
            count[COMPLETES] |= 1
        if accept[x]:
            at = goto(pc, xc, j, accept[x])
            status = 0
            if at == TEXT:
                status = _missed(xc, 1, nodes, j, accept[x], since)
            elif at == ASK:
                status = _chase(xc, j, accept[x])
            elif at < 0:
                status = at
            else:
                for g in range(at + 1, at + 1 + lists[at]):
                    n = _start(pc, xc, n, lists[g], parsers[lists[g], 5])
                    if n < 0:
                        return GROW
            if status < ASK:
                return status
            worst = min(worst, status)
        status = _begin(pc, xc, j, x, since, bits, i == 1)
        if status < ASK:
            return status
        worst = min(worst, status)
    status = walk_roots(pc, xc, bits)
    if status < ASK or worst < 0:
        return min(worst, status)
    for i in range(bits.shape[0]):
        if bits[i]:
            count[COMPLETES] |= 2
            break
    return status
