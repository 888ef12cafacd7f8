"""Expressions that kernels make themselves: spelt texts, repetitions, and what stands behind them.

An expression below :data:`NATIVE` is one of the pool (:mod:`grammars.regex.expr`); its moves are found by Python and noted once
(``atoms``). The others are ``nodes``, interned by content, always with a *rest* that follows:

- ``WALK``: one of a set of texts, spelt as JSON strings are (or byte by byte), some of it read already;
- ``EXCEPT``: what an expression of the pool allows, but none of the texts of a walk;
- ``COUNT``: an expression of the pool, at least so often and at most so often;
- ``CHAIN``: an expression of the pool;
- ``PAIR``: what two expressions have in common, the first a counted repetition (a string's length, say), begun or not.

A *move* is a mask of bytes and the expression after any of them; the masks of one expression are disjoint. Where texts would have to be
united with what follows them (both begin alike), Python is asked for the moves.

A walk is ``(set, from, to, codes read, stage, value)``: texts ``from`` to ``to`` of the sorted set agree in the codes read; stage and value
are what is read of the next code's spelling: 1 to 3 bytes of UTF-8 (value: those bytes), 4 a backslash, 5 to 8 ``\\u`` and digits (value:
theirs), 9 to 14 the second half of a surrogate pair (value: first half, then digits). The only text of a range is a walk of its own,
whatever set it came from.
"""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import boolean, int64, types

from .fields import (
    ASK,
    GROW,
    L_ASKED_EXPRS,
    L_ATOMS,
    L_CODES,
    L_COUNT,
    L_MASKS,
    L_NODE_HASH,
    L_NODES,
    L_SET_TEXTS,
    L_SETS,
    L_STEPS,
    L_TARGETS,
    L_TEXTS,
    L_WALK_HASH,
    L_WALKS,
    L_WRITABLE,
    N_ASKED_EXPRS,
    N_MOVES,
    N_NODES,
    N_WALKS,
)  # fmt: skip
from .memory import HALF
from .views import COUNTS, I2, compiled, has_room, hash_place, mask_rows, mat, mix, vec, vec64

__all__ = ["BYTE", "CHAIN", "COUNT", "EXCEPT", "LONG", "LOWER", "NATIVE", "PAIR", "RAW", "SHORT", "WALK"]

NATIVE = 1 << 30
WALK, EXCEPT, COUNT, CHAIN, PAIR = 1, 2, 3, 4, 5
#: How a code may be spelt: as itself in UTF-8, as a short escape, as ``\\uXXXX``; as the one byte it is; digits in lower case only.
RAW, SHORT, LONG, BYTE, LOWER = 1 << 24, 1 << 25, 1 << 26, 1 << 27, 1 << 28

_POINT = (1 << 21) - 1
_BACKSLASH, _U = 0x5C, 0x75


# ---------------------------------------------------------------- walks
@compiled(int64(COUNTS, int64, int64, int64, int64, int64, int64))
def walk(xc, texts, lo, hi, depth, stage, value):
    """The walk over texts ``lo`` to ``hi`` of a set (or of one text, -1 - text), made where it is new; or GROW."""
    if texts >= 0 and hi == lo + 1:
        texts, lo, hi = -1 - vec(xc, L_SET_TEXTS)[mat(xc, L_SETS, 2)[texts, 0] + lo], 0, 1
    walks, hashes, count = mat(xc, L_WALKS, 6), vec(xc, L_WALK_HASH), vec64(xc, L_COUNT)
    h = mix(mix(mix(np.uint64(texts + (1 << 30)), lo), hi), depth)
    h = mix(mix(h, stage), value)
    size = hashes.shape[0]
    at = hash_place(h, size)
    while True:
        n = hashes[at]
        if n < 0:
            break
        if (
            walks[n, 0] == texts and walks[n, 1] == lo and walks[n, 2] == hi
            and walks[n, 3] == depth and walks[n, 4] == stage and walks[n, 5] == value
        ):  # fmt: skip
            return n
        at = (at + 1) & (size - 1)
    n = count[N_WALKS]
    if 2 * n >= size:
        count[HALF + L_WALK_HASH] = 2 * size
        return GROW
    if not has_room(count, L_WALKS, walks.shape[0], n + 1):
        return GROW
    walks[n, 0], walks[n, 1], walks[n, 2], walks[n, 3], walks[n, 4], walks[n, 5] = texts, lo, hi, depth, stage, value
    hashes[at] = n
    count[N_WALKS] = n + 1
    return n


@compiled(int64(COUNTS, int64, int64))
def _text(xc, texts, i):
    """Number of the ``i``-th text of a set, or of the one text."""
    return -1 - texts if texts < 0 else vec(xc, L_SET_TEXTS)[mat(xc, L_SETS, 2)[texts, 0] + i]


@compiled(boolean(COUNTS, int64))
def _ends(xc, n):
    """Whether a text of the walk may end here."""
    walks = mat(xc, L_WALKS, 6)
    return n == 0 or (walks[n, 4] == 0 and mat(xc, L_TEXTS, 2)[_text(xc, walks[n, 0], walks[n, 1]), 1] == walks[n, 3])


@compiled(int64(COUNTS, int64, int64, int64, int64, int64))
def _same(xc, texts, lo, hi, depth, point):
    """The end of the texts from ``lo`` on that have ``point`` as their code ``depth``."""
    codes, table = vec(xc, L_CODES), mat(xc, L_TEXTS, 2)
    end = lo + 1
    while end < hi:
        middle = (end + hi) >> 1
        if codes[table[_text(xc, texts, middle), 0] + depth] & _POINT == point:
            end = middle + 1
        else:
            hi = middle
    return end


@compiled(types.void(I2, int64, int64, int64, int64, int64, int64, int64, int64))
def _step(steps, byte, whole, lo, hi, depth, stage, value, other):
    """Notes that ``byte`` (or ``other``, if not negative) goes on with texts ``lo`` to ``hi``."""
    if steps[byte, 0] and not whole:
        steps[byte, 2], steps[byte, 3] = min(steps[byte, 2], lo), max(steps[byte, 3], hi)
        return
    steps[byte, 0], steps[byte, 1], steps[byte, 2], steps[byte, 3] = 1, whole, lo, hi
    steps[byte, 4], steps[byte, 5], steps[byte, 6], steps[byte, 7] = depth, stage, value, other


@compiled(types.void(I2, int64, int64, int64, int64, int64, int64, int64, int64))
def _digit(steps, code, digit, whole, lo, hi, depth, stage, value):
    """Notes a hexadecimal digit, in either case."""
    if digit < 10:
        _step(steps, 48 + digit, whole, lo, hi, depth, stage, value, -1)
    else:
        _step(steps, 87 + digit, whole, lo, hi, depth, stage, value, -1 if code & LOWER else 55 + digit)


@compiled(types.void(I2, int64, int64, int64, int64, int64, int64))
def _utf8(steps, code, lo, hi, depth, stage, value):
    """Notes the next byte of a code's UTF-8 form, of which ``stage`` bytes are read."""
    point = code & _POINT
    if not code & RAW:
        return
    if point < 0x80:
        if stage == 0:
            _step(steps, point, 1, lo, hi, depth + 1, 0, 0, -1)
        return
    length = 2 if point < 0x800 else 3 if point < 0x10000 else 4
    lead = (0xC0 if length == 2 else 0xE0 if length == 3 else 0xF0) | point >> 6 * (length - 1)
    if stage == 0:
        _step(steps, lead, 0, lo, hi, depth, 1, lead, -1)
        return
    read = lead
    for n in range(1, stage):
        read = read << 8 | 0x80 | (point >> 6 * (length - 1 - n)) & 0x3F
    if stage >= length or read != value:
        return
    byte = 0x80 | (point >> 6 * (length - 1 - stage)) & 0x3F
    if stage == length - 1:
        _step(steps, byte, 1, lo, hi, depth + 1, 0, 0, -1)
    else:
        _step(steps, byte, 0, lo, hi, depth, stage + 1, value << 8 | byte, -1)


@compiled(int64(int64))
def _short(point):
    """The letter of a code's short escape."""
    if point == 8:
        return 0x62
    if point == 9:
        return 0x74
    if point == 10:
        return 0x6E
    if point == 12:
        return 0x66
    if point == 13:
        return 0x72
    return point


@compiled(types.void(I2, int64, int64, int64, int64, int64, int64))
def _escape(steps, code, lo, hi, depth, stage, value):
    """Notes the next byte of a code's escapes, behind the backslash (stage 4 and above)."""
    point = code & _POINT
    if stage == 4 and code & SHORT:
        _step(steps, _short(point), 1, lo, hi, depth + 1, 0, 0, -1)
    if not code & LONG:
        return
    unit = point if point < 0x10000 else 0xD7C0 + (point >> 10)
    if stage == 4:
        _step(steps, _U, 0, lo, hi, depth, 5, 0, -1)
    elif stage <= 8:
        read = stage - 5
        if unit >> (16 - 4 * read) != value:
            return
        digit = (unit >> (12 - 4 * read)) & 15
        if read < 3:
            _digit(steps, code, digit, 0, lo, hi, depth, stage + 1, value << 4 | digit)
        elif point < 0x10000:
            _digit(steps, code, digit, 1, lo, hi, depth + 1, 0, 0)
        else:
            _digit(steps, code, digit, 0, lo, hi, depth, 9, unit)
    elif point >= 0x10000:
        read = max(stage - 11, 0)
        low = 0xDC00 | point & 0x3FF
        if value >> 4 * read != unit or low >> (16 - 4 * read) != value & ((1 << 4 * read) - 1):
            return
        if stage == 9:
            _step(steps, _BACKSLASH, 0, lo, hi, depth, 10, value, -1)
        elif stage == 10:
            _step(steps, _U, 0, lo, hi, depth, 11, value, -1)
        else:
            digit = (low >> (12 - 4 * read)) & 15
            if read < 3:
                _digit(steps, code, digit, 0, lo, hi, depth, stage + 1, value << 4 | digit)
            else:
                _digit(steps, code, digit, 1, lo, hi, depth + 1, 0, 0)


@compiled(int64(COUNTS, int64))
def _steps(xc, n):
    """Notes in ``steps`` every byte that walk ``n`` can take; the set of the walk."""
    walks, table, codes, steps = mat(xc, L_WALKS, 6), mat(xc, L_TEXTS, 2), vec(xc, L_CODES), mat(xc, L_STEPS, 8)
    texts, i, hi, depth, stage, value = walks[n, 0], walks[n, 1], walks[n, 2], walks[n, 3], walks[n, 4], walks[n, 5]
    for byte in range(256):
        steps[byte, 0] = 0
    if n == 0:
        return texts
    while i < hi:
        text = _text(xc, texts, i)
        if table[text, 1] == depth:  # ends here
            i += 1
            continue
        code = codes[table[text, 0] + depth]
        end = _same(xc, texts, i, hi, depth, code & _POINT)
        if code & BYTE:
            _step(steps, code & 0xFF, 1, i, end, depth + 1, 0, 0, -1)
        elif stage == 0:
            _utf8(steps, code, i, end, depth, 0, 0)
            if code & (SHORT | LONG):
                _step(steps, _BACKSLASH, 0, i, end, depth, 4, 0, -1)
        elif stage < 4:
            _utf8(steps, code, i, end, depth, stage, value)
        else:
            _escape(steps, code, i, end, depth, stage, value)
        i = end
    return texts


@compiled(int64(COUNTS, int64, int64))
def _after(xc, texts, byte):
    """The walk after the step noted for ``byte`` (0: all of the text is read); or GROW."""
    steps = mat(xc, L_STEPS, 8)
    lo, hi, depth = steps[byte, 2], steps[byte, 3], steps[byte, 4]
    if steps[byte, 1] and hi == lo + 1 and mat(xc, L_TEXTS, 2)[_text(xc, texts, lo), 1] == depth:
        return 0
    return walk(xc, texts, lo, hi, depth, steps[byte, 5], steps[byte, 6])


# ---------------------------------------------------------------- nodes
@compiled(boolean(COUNTS, int64))
def nullable(xc, e):
    """Whether an expression has the empty string."""
    return mat(xc, L_ATOMS, 6)[e, 2] == 1 if e < NATIVE else mat(xc, L_NODES, 9)[e - NATIVE, 7] == 1


@compiled(boolean(COUNTS, int64, int64, int64))
def _head_nullable(xc, kind, a, b):
    """Whether a node without its rest has the empty string."""
    if kind == WALK:
        return _ends(xc, a)
    if kind == EXCEPT:
        return not _ends(xc, a) and mat(xc, L_ATOMS, 6)[b, 2] == 1
    if kind == COUNT:
        return b == 0
    if kind == PAIR:
        return nullable(xc, a) and nullable(xc, b)
    return mat(xc, L_ATOMS, 6)[a, 2] == 1


@compiled(int64(COUNTS, int64, int64, int64, int64, int64))
def node(xc, kind, a, b, c, rest):
    """The node of this content, made where it is new; or GROW."""
    nodes, hashes, count = mat(xc, L_NODES, 9), vec(xc, L_NODE_HASH), vec64(xc, L_COUNT)
    h = mix(mix(mix(mix(np.uint64(kind), a), b), c), rest)
    size = hashes.shape[0]
    at = hash_place(h, size)
    while True:
        n = hashes[at]
        if n < 0:
            break
        if nodes[n, 0] == kind and nodes[n, 1] == a and nodes[n, 2] == b and nodes[n, 3] == c and nodes[n, 4] == rest:
            return NATIVE + n
        at = (at + 1) & (size - 1)
    n = count[N_NODES]
    if 2 * n >= size:
        count[HALF + L_NODE_HASH] = 2 * size
        return GROW
    if not has_room(count, L_NODES, nodes.shape[0], n + 1):
        return GROW
    nodes[n, 0], nodes[n, 1], nodes[n, 2], nodes[n, 3], nodes[n, 4], nodes[n, 5], nodes[n, 6] = kind, a, b, c, rest, -1, 0
    nodes[n, 7] = 1 if _head_nullable(xc, kind, a, b) and nullable(xc, rest) else 0
    nodes[n, 8] = -1
    hashes[at] = n
    count[N_NODES] = n + 1
    return NATIVE + n


@compiled(int64(COUNTS, int64, int64))
def cat(xc, e, rest):
    """``e``, then ``rest``; or GROW."""
    nodes = mat(xc, L_NODES, 9)
    if e == 1 or rest == 1:
        return rest if e == 1 else e
    # The rests of ``e``, the innermost one first, are put in front of ``rest``.
    depth, last = 0, e
    while last >= NATIVE:
        depth, last = depth + 1, nodes[last - NATIVE, 4]
    if last != 1:
        rest = node(xc, CHAIN, last, 0, 0, rest)
    while depth > 0 and rest >= 0:
        depth -= 1
        at = e - NATIVE
        for _ in range(depth):
            at = nodes[at, 4] - NATIVE
        rest = node(xc, nodes[at, 0], nodes[at, 1], nodes[at, 2], nodes[at, 3], rest)
    return rest


@compiled(int64(COUNTS, int64, int64, int64, int64))
def counted(xc, body, lo, hi, rest):
    """``body`` (an expression of the pool) ``lo`` to ``hi`` (-1: without bound) times, then ``rest``; or GROW."""
    if hi == 0:
        return rest
    if lo == 1 and hi == 1:
        return cat(xc, body, rest)
    if lo == 0 and hi < 0:
        return cat(xc, mat(xc, L_ATOMS, 6)[body, 5], rest)
    return node(xc, COUNT, body, lo, hi, rest)


# ---------------------------------------------------------------- moves
@compiled(int64(COUNTS, int64))
def ask(xc, e):
    """Notes that Python must find the moves of ``e`` (or, for ``-1 - e``, its least bytes, or whether a PAIR has a member); ASK."""
    count, asked = vec64(xc, L_COUNT), vec(xc, L_ASKED_EXPRS)
    n = count[N_ASKED_EXPRS]
    for i in range(n):
        if asked[i] == e:
            return ASK
    if n < asked.shape[0]:
        asked[n] = e
        count[N_ASKED_EXPRS] = n + 1
    return ASK


@compiled(int64(COUNTS, int64))
def first_move(xc, e):
    """Index of the first move of ``e``, or -1 where they are not known."""
    return mat(xc, L_ATOMS, 6)[e, 0] if e < NATIVE else mat(xc, L_NODES, 9)[e - NATIVE, 5]


@compiled(int64(COUNTS, int64))
def n_moves(xc, e):
    """Number of the moves of ``e``."""
    return mat(xc, L_ATOMS, 6)[e, 1] if e < NATIVE else mat(xc, L_NODES, 9)[e - NATIVE, 6]


@compiled(int64(COUNTS, int64, int64))
def _walk_moves(xc, e, at):
    """Writes the moves of a walk from ``at`` on; where they end, or GROW."""
    nodes, steps, masks, targets = mat(xc, L_NODES, 9), mat(xc, L_STEPS, 8), mask_rows(xc, L_MASKS), vec(xc, L_TARGETS)
    writable = mask_rows(xc, L_WRITABLE)
    rest = nodes[e - NATIVE, 4]
    texts = _steps(xc, nodes[e - NATIVE, 1])
    for byte in range(256):
        if not steps[byte, 0]:
            continue
        after = _after(xc, texts, byte)
        if after < 0:
            return GROW
        target = rest
        if after > 0:
            target = node(xc, WALK, after, 0, 0, rest)
            if target < 0:
                return GROW
        masks[at] = np.uint64(0)
        masks[at, byte >> 6] |= np.uint64(1) << np.uint64(byte & 63)
        other = steps[byte, 7]
        if other >= 0:
            masks[at, other >> 6] |= (np.uint64(1) << np.uint64(other & 63)) & writable[0, other >> 6]
        targets[at] = target
        at += 1
    return at


@compiled(int64(COUNTS, int64, int64))
def _except_moves(xc, e, at):
    """Writes the moves of an expression but the texts of a walk from ``at`` on; where they end, or a status."""
    nodes, steps, atoms = mat(xc, L_NODES, 9), mat(xc, L_STEPS, 8), mat(xc, L_ATOMS, 6)
    masks, targets = mask_rows(xc, L_MASKS), vec(xc, L_TARGETS)
    texts = _steps(xc, nodes[e - NATIVE, 1])
    others, rest = nodes[e - NATIVE, 2], nodes[e - NATIVE, 4]
    left = np.zeros(4, np.uint64)
    for i in range(atoms[others, 0], atoms[others, 0] + atoms[others, 1]):
        to = targets[i]
        if to >= NATIVE:
            return ask(xc, e)
        for n in range(4):
            left[n] = masks[i, n]
        for byte in range(256):
            if not steps[byte, 0]:
                continue
            other = steps[byte, 7] if steps[byte, 7] >= 0 else byte
            one = left[byte >> 6] & np.uint64(1) << np.uint64(byte & 63)
            two = left[other >> 6] & np.uint64(1) << np.uint64(other & 63)
            if not one and not two:
                continue
            left[byte >> 6] &= ~one
            left[other >> 6] &= ~two
            after = _after(xc, texts, byte)
            if after < 0:
                return GROW
            if after > 0:
                target = node(xc, EXCEPT, after, to, 0, rest)
            else:
                if atoms[to, 2] == 1 and atoms[to, 3] < 0:
                    return ask(xc, to)
                target = cat(xc, atoms[to, 3] if atoms[to, 2] == 1 else to, rest)
            if target < 0:
                return GROW
            masks[at] = np.uint64(0)
            masks[at, byte >> 6] |= one
            masks[at, other >> 6] |= two
            targets[at] = target
            at += 1
        if left[0] | left[1] | left[2] | left[3]:
            target = cat(xc, to, rest)
            if target < 0:
                return GROW
            for n in range(4):
                masks[at, n] = left[n]
            targets[at] = target
            at += 1
    return at


@compiled(int64(COUNTS, int64, int64))
def _atom_moves(xc, e, at):
    """Writes the moves of a repetition or a chain from ``at`` on; where they end, or GROW."""
    nodes, masks, targets, atoms = mat(xc, L_NODES, 9), mask_rows(xc, L_MASKS), vec(xc, L_TARGETS), mat(xc, L_ATOMS, 6)
    kind, a, lo, hi, rest = (
        nodes[e - NATIVE, 0], nodes[e - NATIVE, 1], nodes[e - NATIVE, 2], nodes[e - NATIVE, 3], nodes[e - NATIVE, 4],
    )  # fmt: skip
    if kind == COUNT:
        rest = counted(xc, a, max(lo - 1, 0), hi - 1 if hi > 0 else -1, rest)
        if rest < 0:
            return GROW
    for i in range(atoms[a, 0], atoms[a, 0] + atoms[a, 1]):
        target = cat(xc, targets[i], rest)
        if target < 0:
            return GROW
        for n in range(4):
            masks[at, n] = masks[i, n]
        targets[at] = target
        at += 1
    return at


@compiled(int64(COUNTS, int64))
def _most(xc, e):
    """How many further repetitions the first member of a pair allows, where any number up to that will do; else -1."""
    nodes = mat(xc, L_NODES, 9)
    while e >= NATIVE:
        if nodes[e - NATIVE, 0] == COUNT:
            return nodes[e - NATIVE, 3] if nodes[e - NATIVE, 2] == 0 else -1
        if nodes[e - NATIVE, 0] != CHAIN:
            return -1
        e = nodes[e - NATIVE, 4]
    return -1


@compiled(int64(COUNTS, int64))
def least(xc, e):
    """Bytes of a shortest member of ``e`` (a great number for a pair, where that is not known); or ASK."""
    if e >= NATIVE and mat(xc, L_NODES, 9)[e - NATIVE, 0] == PAIR:
        return NATIVE
    found = mat(xc, L_ATOMS, 6)[e, 4] if e < NATIVE else mat(xc, L_NODES, 9)[e - NATIVE, 8]
    return found if found >= 0 else ask(xc, -1 - e)


@compiled(int64(COUNTS, int64, int64, int64))
def pair(xc, a, b, rest):
    """What ``a`` and ``b`` have in common, then ``rest``; 0 where there is nothing, or a status."""
    if a == 1 or b == 1:
        return rest if nullable(xc, a) and nullable(xc, b) else 0
    e = node(xc, PAIR, a, b, 0, rest)
    if e < 0:
        return GROW
    nodes = mat(xc, L_NODES, 9)
    alive = nodes[e - NATIVE, 8]
    if alive < 0:
        needed = least(xc, b)
        if needed < 0:
            return ASK
        if _most(xc, a) < needed:  # a shortest member of ``b`` has no more characters than bytes; else it takes a search
            return ask(xc, -1 - e)
        nodes[e - NATIVE, 8] = alive = 1
    return e if alive else 0


@compiled(int64(COUNTS, int64, int64))
def _pair_moves(xc, e, at):
    """Writes the moves of a pair from ``at`` on; where they end, or a status."""
    nodes, masks, targets, count = mat(xc, L_NODES, 9), mask_rows(xc, L_MASKS), vec(xc, L_TARGETS), vec64(xc, L_COUNT)
    a, b, rest = nodes[e - NATIVE, 1], nodes[e - NATIVE, 2], nodes[e - NATIVE, 4]
    worst = 0
    for i in range(first_move(xc, a), first_move(xc, a) + n_moves(xc, a)):
        for k in range(first_move(xc, b), first_move(xc, b) + n_moves(xc, b)):
            if not (
                masks[i, 0] & masks[k, 0] | masks[i, 1] & masks[k, 1] | masks[i, 2] & masks[k, 2] | masks[i, 3] & masks[k, 3]
            ):  # fmt: skip
                continue
            target = pair(xc, targets[i], targets[k], rest)
            if target < ASK:
                return target
            worst = min(worst, target)
            if target <= 0:
                continue
            if at + 256 > masks.shape[0]:
                count[HALF + L_TARGETS] = count[HALF + L_MASKS] = 2 * masks.shape[0]
                return GROW
            for n in range(4):
                masks[at, n] = masks[i, n] & masks[k, n]
            targets[at] = target
            at += 1
    return worst if worst < 0 else at


@compiled(int64(COUNTS, int64))
def _unmet(xc, e):
    """An expression whose moves must be known before those of the node ``e``; 0 if there is none."""
    nodes = mat(xc, L_NODES, 9)
    kind, a, b, rest = nodes[e - NATIVE, 0], nodes[e - NATIVE, 1], nodes[e - NATIVE, 2], nodes[e - NATIVE, 4]
    if _head_nullable(xc, kind, a, b) and first_move(xc, rest) < 0:
        return rest
    if kind == PAIR and first_move(xc, b) < 0:
        return b
    of = b if kind == EXCEPT else a
    return of if kind != WALK and first_move(xc, of) < 0 else 0


@compiled(int64(COUNTS, int64))
def _own_moves(xc, e):
    """Finds the moves of a node; those that they rest on must be known. 0 or a status."""
    nodes, count = mat(xc, L_NODES, 9), vec64(xc, L_COUNT)
    kind, a, b, rest = nodes[e - NATIVE, 0], nodes[e - NATIVE, 1], nodes[e - NATIVE, 2], nodes[e - NATIVE, 4]
    first = count[N_MOVES]
    targets, masks = vec(xc, L_TARGETS), mask_rows(xc, L_MASKS)
    if not (has_room(count, L_TARGETS, targets.shape[0], first + 1024) and has_room(count, L_MASKS, masks.shape[0], first + 1024)):
        return GROW
    if kind == WALK:
        end = _walk_moves(xc, e, first)
    elif kind == EXCEPT:
        end = _except_moves(xc, e, first)
    elif kind == PAIR:
        end = _pair_moves(xc, e, first)
    else:
        end = _atom_moves(xc, e, first)
    if end < 0:
        return end
    if _head_nullable(xc, kind, a, b):
        begin, own = first_move(xc, rest), end
        for i in range(begin, begin + n_moves(xc, rest)):
            for k in range(first, own):
                for n in range(4):
                    if masks[i, n] & masks[k, n]:
                        return ask(xc, e)
            for n in range(4):
                masks[end, n] = masks[i, n]
            targets[end] = targets[i]
            end += 1
    nodes[e - NATIVE, 5], nodes[e - NATIVE, 6] = first, end - first
    count[N_MOVES] = end
    return 0


@compiled(int64(COUNTS, int64))
def moves(xc, e):
    """Finds the moves of ``e`` where they are not known; 0 or a status."""
    while first_move(xc, e) < 0:
        at = e
        while at >= NATIVE:
            before = _unmet(xc, at)
            if not before:
                break
            at = before
        status = _own_moves(xc, at) if at >= NATIVE else ask(xc, at)
        if status < 0:
            return status
    return 0


@compiled(int64(COUNTS, int64, int64))
def saturated(xc, e, reach):
    """A repetition with counts cut that cannot matter within ``reach`` bytes; other expressions as they are. Or GROW."""
    if e < NATIVE:
        return e
    nodes = mat(xc, L_NODES, 9)
    if nodes[e - NATIVE, 0] != COUNT:
        return e
    body, lo, hi, rest = nodes[e - NATIVE, 1], nodes[e - NATIVE, 2], nodes[e - NATIVE, 3], nodes[e - NATIVE, 4]
    most = reach // max(mat(xc, L_ATOMS, 6)[body, 4], 1) + 1
    if mat(xc, L_ATOMS, 6)[body, 5] < 0 or (lo <= most and (hi < 0 or hi < most)):
        return e
    return counted(xc, body, min(lo, most), -1 if hi < 0 or hi >= most else hi, rest)
