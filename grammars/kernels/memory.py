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
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["HALF", "Field", "Tables", "call", "pointer"]

HALF = 64

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


class Tables:
    """Named arrays with room to grow; attribute access gives the current array.

    ``rehash`` names the fields that are hash tables: they are not copied but made anew, by the function given
    (which is told the field's index, and the old array).
    """

    def __init__(self, fields: list[Field], rehash: dict[str, Callable[[int, NDArray[Any]], None]]) -> None:
        fields = [*fields, ("count", 0, np.int64, 2 * HALF, 0)]
        assert len(fields) <= HALF
        self.rehash = rehash
        self.fields = fields
        self.context: NDArray[np.int64] = np.zeros(2 * len(fields), np.int64)
        self.index = {field[0]: n for n, field in enumerate(fields)}
        # all of them in one piece of zeroed memory at first: making a set of tables costs a few microseconds
        plan = [(n, (rows, columns) if columns else (rows,), np.dtype(dtype)) for n, (_, columns, dtype, rows, _) in enumerate(fields)]
        ends = np.cumsum([-(-math.prod(shape) * dtype.itemsize // 64) * 64 for _, shape, dtype in plan]).tolist()
        memory = np.zeros(ends[-1] + 64, np.uint8)
        begin = -memory.ctypes.data % 64
        self.arrays: list[NDArray[Any]] = [
            np.ndarray(shape, dtype, memory, begin + end - -(-math.prod(shape) * dtype.itemsize // 64) * 64)
            for (_, shape, dtype), end in zip(plan, ends, strict=True)
        ]
        address = memory.ctypes.data + begin
        self.context[0::2] = [address, *[address + end for end in ends[:-1]]]
        self.context[1::2] = [shape[0] for _, shape, _ in plan]
        for array, field in zip(self.arrays, fields, strict=True):
            if field[4]:
                array.fill(field[4])
        self._wanted = self.arrays[-1][HALF:]
        if "self" in self.index:
            at = 2 * self.index["self"]
            self.context[at : at + 2] = self.context.ctypes.data, len(self.context)

    def _place(self, n: int) -> None:
        array = self.arrays[n]
        self.context[2 * n], self.context[2 * n + 1] = array.ctypes.data, len(array)

    def __getattr__(self, name: str) -> NDArray[Any]:
        try:
            return self.__dict__["arrays"][self.__dict__["index"][name]]
        except KeyError:
            raise AttributeError(name) from None

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
