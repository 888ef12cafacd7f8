"""Kernels called through their addresses.

What numba compiles contains, optimised anew, all that it calls. The big functions that many others call (rows, gotos, restrictions) are
therefore C functions of their own, whose addresses stand in the lexer's context: first-time compilation takes half as long.
"""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

import numpy as np
from numba import carray, cfunc, int64

from .fields import L_ENTRIES, L_MORE_ENTRIES, L_SELF, P_SELF
from .goto import goto as _goto
from .goto import restrict as _restrict
from .memory import call, pointer
from .rows import row as _row
from .views import COUNTS, compiled

__all__ = ["ADDRESSES", "goto", "restrict", "row"]

_ENTRY = int64(int64, int64, int64, int64, int64, int64)


@cfunc(_ENTRY, cache=True)
def _row_entry(lexer, n_lexer, x, unused, unused2, unused3):
    return _row(carray(pointer(lexer), (n_lexer,), np.int64), x)


@cfunc(_ENTRY, cache=True)
def _goto_entry(parser, n_parser, lexer, n_lexer, j, accept):
    return _goto(carray(pointer(parser), (n_parser,), np.int64), carray(pointer(lexer), (n_lexer,), np.int64), j, accept)


@cfunc(_ENTRY, cache=True)
def _restrict_entry(parser, n_parser, lexer, n_lexer, j, keep):
    return _restrict(carray(pointer(parser), (n_parser,), np.int64), carray(pointer(lexer), (n_lexer,), np.int64), j, keep)


#: What belongs into the fields ``entries`` and ``more_entries`` of the lexer's context.
ADDRESSES = (_row_entry.address, _goto_entry.address, _restrict_entry.address, 0)


@compiled(int64(COUNTS, int64))
def row(xc, x):
    """See :func:`.rows.row`."""
    return call(xc[2 * L_ENTRIES], xc[2 * L_SELF], xc[2 * L_SELF + 1], x, 0, 0, 0)


@compiled(int64(COUNTS, COUNTS, int64, int64))
def goto(pc, xc, j, accept):
    """See :func:`.goto.goto`."""
    return call(xc[2 * L_ENTRIES + 1], pc[2 * P_SELF], pc[2 * P_SELF + 1], xc[2 * L_SELF], xc[2 * L_SELF + 1], j, accept)


@compiled(int64(COUNTS, COUNTS, int64, int64))
def restrict(pc, xc, j, keep):
    """See :func:`.goto.restrict`."""
    return call(xc[2 * L_MORE_ENTRIES], pc[2 * P_SELF], pc[2 * P_SELF + 1], xc[2 * L_SELF], xc[2 * L_SELF + 1], j, keep)
