"""Configurations of plain any-match lexing, moved by bytes."""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

from numba import int64

from .entries import goto, restrict, row
from .fields import (
    GROW,
    L_ACCEPT,
    L_COUNT,
    L_KEPT,
    L_ROWS,
    L_STEPPED,
    L_TABLE,
    L_TEXT,
    L_THREADS,
    P_LISTS,
    P_PARSERS,
    TEXT,
)
from .views import COUNTS, bytes_of, compiled, has_room, mat, vec, vec64

__all__ = ["advance"]


@compiled(int64(COUNTS, COUNTS, int64, int64, int64, int64))
def _move(pc, xc, n, j, x, letter):
    """Puts the thread (j, x) after ``letter`` among the ``n`` of ``stepped``, which stay sorted and distinct; their number, or a status."""
    table, kept, stepped, count = mat(xc, L_TABLE, 256), mat(xc, L_KEPT, 256), mat(xc, L_STEPPED, 3), vec64(xc, L_COUNT)
    if vec(xc, L_ROWS)[x] == 0:
        status = row(xc, x)
        if status < 0:
            return status
    r = vec(xc, L_ROWS)[x]
    to = table[r, letter]
    if to == 0:
        return n
    if kept[r, letter]:
        j = restrict(pc, xc, j, kept[r, letter])
        if j < 0:
            return GROW
    if mat(pc, P_PARSERS, 7)[j, 6]:
        return TEXT
    if not has_room(count, L_STEPPED, stepped.shape[0], n + 1):
        return GROW
    at = n
    while at > 0 and (stepped[at - 1, 0] > j or (stepped[at - 1, 0] == j and stepped[at - 1, 1] >= to)):
        at -= 1
    if at < n and stepped[at, 0] == j and stepped[at, 1] == to:
        return n
    for i in range(n, at, -1):
        stepped[i, 0], stepped[i, 1] = stepped[i - 1, 0], stepped[i - 1, 1]
    stepped[at, 0], stepped[at, 1] = j, to
    return n + 1


@compiled(int64(COUNTS, COUNTS, int64, int64))
def advance(pc, xc, n, size):
    """Moves the first ``n`` of ``threads`` by the first ``size`` bytes of ``text``; the number of threads then (0: dead), or a status."""
    threads, stepped, text = mat(xc, L_THREADS, 3), mat(xc, L_STEPPED, 3), bytes_of(xc, L_TEXT)
    accept, lists, parsers = vec(xc, L_ACCEPT), vec(pc, P_LISTS), mat(pc, P_PARSERS, 7)
    for t in range(size):
        after = 0
        for i in range(n):
            j, x = threads[i, 0], threads[i, 1]
            after = _move(pc, xc, after, j, x, text[t])
            if after < 0:
                return after
            if accept[x]:
                at = goto(pc, xc, j, accept[x])
                if at < 0:
                    return at
                for g in range(at + 1, at + 1 + lists[at]):
                    after = _move(pc, xc, after, lists[g], parsers[lists[g], 5], text[t])
                    if after < 0:
                        return after
        n = after
        if n == 0:
            return 0
        if not has_room(vec64(xc, L_COUNT), L_THREADS, threads.shape[0], n):
            return GROW
        for i in range(n):
            threads[i, 0], threads[i, 1] = stepped[i, 0], stepped[i, 1]
    return n
