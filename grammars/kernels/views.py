"""Views of the fields of :class:`~grammars.kernels.memory.Tables` inside of kernels, hashing, and room."""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

from functools import partial

import numpy as np
from numba import boolean, carray, float64, int32, int64, njit, uint8, uint32, uint64

from .memory import HALF, pointer

__all__ = [
    "COUNTS", "I1", "I2", "bytes_of", "compiled", "find", "floats", "has_room", "hash_place", "mask_rows", "mat", "mat64", "mix", "vec",
    "vec64", "words",
]  # fmt: skip

#: Compiles a function that only kernels call: nothing is made for calls from Python.
compiled = partial(njit, cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)

COUNTS = int64[::1]  # a context, or counts
I1, I2 = int32[::1], int32[:, ::1]
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@compiled(I1(COUNTS, int64))
def vec(c, n):
    """Field ``n`` of a context as int32[rows]."""
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.int32)


@compiled(int64[::1](COUNTS, int64))
def vec64(c, n):
    """Field ``n`` as int64[rows]."""
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.int64)


@compiled(I2(COUNTS, int64, int64))
def mat(c, n, columns):
    """Field ``n`` as int32[rows, columns]."""
    return carray(pointer(c[2 * n]), (c[2 * n + 1], columns), np.int32)


@compiled(uint8[::1](COUNTS, int64))
def bytes_of(c, n):
    """Field ``n`` as uint8[rows]."""
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.uint8)


@compiled(float64[::1](COUNTS, int64))
def floats(c, n):
    """Field ``n`` as float64[rows]."""
    return carray(pointer(c[2 * n]), (c[2 * n + 1],), np.float64)


@compiled(int64[:, ::1](COUNTS, int64, int64))
def mat64(c, n, columns):
    """Field ``n`` as int64[rows, columns]."""
    return carray(pointer(c[2 * n]), (c[2 * n + 1], columns), np.int64)


@compiled(uint64[:, ::1](COUNTS, int64))
def mask_rows(c, n):
    """Field ``n`` as uint64[rows, 4]: 256-bit masks."""
    return carray(pointer(c[2 * n]), (c[2 * n + 1], 4), np.uint64)


@compiled(uint32[::1](int64, int64))
def words(address, n):
    """uint32[n] at an address."""
    return carray(pointer(address), (n,), np.uint32)


@compiled(boolean(COUNTS, int64, int64, int64))
def has_room(count, field, size, rows):
    """Whether a field of ``size`` rows has ``rows`` rows; notes the wish otherwise."""
    if rows <= size:
        return True
    if count[HALF + field] < rows:
        count[HALF + field] = rows
    return False


@compiled(uint64(uint64, int64))
def mix(h, value):
    """A hash with one more value in it."""
    return (h ^ np.uint64(value)) * _MULTIPLIER


@compiled(int64(uint64, int64))
def hash_place(h, size):
    """Place of a hash in a table of ``size`` (a power of two) rows."""
    return np.int64((h ^ (h >> np.uint64(29))) * _MULTIPLIER >> np.uint64(32)) & (size - 1)


@compiled(int64(COUNTS, int64))
def find(keys, key):
    """Index of ``key`` in an open-addressing table (size a power of two, empty = -1), or ``-1 - index`` of its place."""
    size = keys.shape[0]
    i = hash_place(np.uint64(key), size)
    while True:
        k = keys[i]
        if k == key:
            return i
        if k == -1:
            return -1 - i
        i = (i + 1) & (size - 1)
