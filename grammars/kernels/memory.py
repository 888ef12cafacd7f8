"""Growable flat tables that numba kernels reach through one address array.

Passing thirty arrays to a numba function costs more than many of the functions themselves. A :class:`Tables`
keeps its arrays alive and their addresses in ``context`` (int64[2 * fields]: address, rows); a kernel rebuilds
views of them from that one argument. Kernels never reallocate: they note how many rows of which field they need
and return; :meth:`Tables.grow` makes room and the call is repeated.

The last field is always ``count``, int64[2 * HALF]: numbers of used rows (each table's own affair)
and, from ``HALF`` on, rows wanted of each field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["HALF", "Field", "Tables", "call", "pointer"]

HALF = 96
_ALIGN = 64

#: name, columns (0: one-dimensional), dtype, rows at first, fill value
Field = tuple[str, int, type, int, int]


@intrinsic
def pointer(typingctx, address):  # type: ignore[no-untyped-def]
    """The integer ``address`` as a pointer, for ``numba.carray``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(address), codegen


@intrinsic
def call(typingctx, address, a, b, c, d, e, f):  # type: ignore[no-untyped-def]
    """Calls the C function at ``address``: int64 from six int64."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        number = ir.IntType(64)
        function = builder.inttoptr(args[0], ir.FunctionType(number, [number] * 6).as_pointer())
        return builder.call(function, args[1:])

    return types.int64(*[types.int64] * 7), codegen


class _Plan(NamedTuple):
    """Where the arrays of a list of fields lie in one piece of zeroed memory: making a set of tables costs some microseconds then."""

    fields: list[Field]
    numbers: dict[str, int]
    places: list[tuple[tuple[int, ...], np.dtype[Any], int]]
    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    fills: list[tuple[int, int]]
    size: int


@lru_cache(maxsize=8)
def _plan(given: tuple[Field, ...]) -> _Plan:
    fields = [*given, ("count", 0, np.int64, 2 * HALF, 0)]
    assert len(fields) <= HALF
    places: list[tuple[tuple[int, ...], np.dtype[Any], int]] = []
    size = 0
    for _, columns, dtype, rows, _ in fields:
        shape = (rows, columns) if columns else (rows,)
        places.append((shape, np.dtype(dtype), size))
        size += -(-math.prod(shape) * np.dtype(dtype).itemsize // _ALIGN) * _ALIGN
    offsets, rows_of = np.array([at for _, _, at in places]), np.array([shape[0] for shape, _, _ in places])
    fills = [(n, field[4]) for n, field in enumerate(fields) if field[4]]
    return _Plan(fields, {field[0]: n for n, field in enumerate(fields)}, places, offsets, rows_of, fills, size)


class Tables:
    """Named arrays with room to grow; attribute access gives the current array.

    ``rehash`` names the fields that are hash tables: they are not copied but made anew, by the function given
    (which is told the field's index, and the old array).
    """

    def __init__(self, fields: list[Field], rehash: dict[str, Callable[[int, NDArray[Any]], None]]) -> None:
        plan = _plan(tuple(fields))
        self.rehash, self.fields, self.index = rehash, plan.fields, plan.numbers
        self.context: NDArray[np.int64] = np.empty(2 * len(plan.fields), np.int64)
        memory = np.zeros(plan.size + _ALIGN, np.uint8)
        address = memory.ctypes.data
        begin = -address % _ALIGN
        self.arrays: list[NDArray[Any]] = [np.ndarray(shape, dtype, memory, begin + at) for shape, dtype, at in plan.places]
        self.context[0::2] = plan.offsets
        self.context[0::2] += address + begin
        self.context[1::2] = plan.rows
        for n, fill in plan.fills:
            self.arrays[n].fill(fill)
        self.__dict__.update(zip(plan.numbers, self.arrays, strict=True))
        self._wanted = self.arrays[-1][HALF:]
        if "self" in self.index:
            at = 2 * self.index["self"]
            self.context[at : at + 2] = self.context.ctypes.data, len(self.context)

    def _place(self, n: int) -> None:
        array = self.arrays[n]
        setattr(self, self.fields[n][0], array)
        self.context[2 * n], self.context[2 * n + 1] = array.ctypes.data, len(array)

    def __getattr__(self, name: str) -> NDArray[Any]:  # the arrays are attributes; this tells type checkers of them
        raise AttributeError(name)

    def reserve(self, name: str, rows: int) -> NDArray[Any]:
        """The array ``name`` with at least ``rows`` rows (doubling)."""
        n = self.index[name]
        array = self.arrays[n]
        if rows > len(array):
            new = np.full((max(rows, 2 * len(array)), *array.shape[1:]), self.fields[n][4], array.dtype)
            new[: len(array)] = array
            self.arrays[n] = new
            self._place(n)
        return self.arrays[n]

    def place(self, name: str, array: NDArray[Any]) -> None:
        """Lets ``name`` be somebody else's array (C-contiguous, of the field's dtype), which is kept alive."""
        n = self.index[name]
        assert array.dtype == self.fields[n][2] and array.flags.c_contiguous
        self.arrays[n] = array
        self._place(n)

    def clear(self, name: str, rows: int) -> None:
        """Makes ``name`` anew, with ``rows`` rows of its fill value."""
        n = self.index[name]
        array = self.arrays[n]
        self.arrays[n] = np.full((rows, *array.shape[1:]), self.fields[n][4], array.dtype)
        self._place(n)

    def grow(self) -> list[str]:
        """Makes the room that kernels asked for; names of the fields that were asked for."""
        wanted = self._wanted
        asked: list[str] = []
        if not wanted.any():
            return asked
        for n in np.nonzero(wanted)[0]:
            name, rows = self.fields[n][0], int(wanted[n])
            wanted[n] = 0
            asked.append(name)
            if name in self.rehash:
                old = self.arrays[n]
                self.clear(name, rows)
                self.rehash[name](int(n), old)
            else:
                self.reserve(name, rows)
        return asked
