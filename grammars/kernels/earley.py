"""The one entry to the parser's and the lexer's kernels, so that Python calls one function and all is compiled once."""

# Kernels are typed by their numba signatures.
# mypy: disable-error-code="no-untyped-def, call-overload, no-untyped-call, operator, misc"

from __future__ import annotations

from numba import int64, njit, uint8, uint32

from .closure import refill, rehash_parser
from .entries import goto, restrict, row
from .fields import L_PICKED
from .goto import full, kernel_of
from .masking import mask, walk_roots
from .rows import positions, rehash, state
from .segments import classes_below, follow, segment
from .stepping import advance
from .texts import WALK, cat, node, walk
from .views import COUNTS, I1, I2, vec

__all__ = [
    "ADVANCE", "CAT_OF", "CLASSES_BELOW", "FULL", "GOTO", "KERNEL", "MASK", "NODE", "POSITIONS", "REFILL", "REHASH_LEXER", "REHASH_PARSER",
    "RESTRICT", "ROW", "SEGMENT_OF", "SPELT", "STATE", "WALK_OF", "WALK_ROOTS", "following", "run",
]  # fmt: skip

#: Operations of :func:`run`.
GOTO, RESTRICT, KERNEL, FULL, MASK, WALK_ROOTS, ROW, STATE, POSITIONS, NODE, WALK_OF, SEGMENT_OF = range(12)
REHASH_LEXER, REHASH_PARSER, REFILL, CLASSES_BELOW, SPELT, ADVANCE, CAT_OF = range(12, 19)


@njit(int64(COUNTS, I1, int64, int64, uint8[::1], I1, I1, I1, I1), cache=True, nogil=True)
def following(lexer, nodes, n, deepest, out_byte, out_depth, out_end, out_first, out_tokens):
    """The trie of what follows some nodes, see :func:`.segments.follow`."""
    return follow(lexer, nodes, n, deepest, out_byte, out_depth, out_end, out_first, out_tokens)


@njit(int64(COUNTS, COUNTS, int64, int64, int64, I2, uint32[::1], COUNTS, I1), cache=True, nogil=True)
def run(parser, lexer, operation, a, b, items, bits, old_keys, old_values):
    """One operation; its result or a status.

    Args:
        parser, lexer: contexts of the two sets of tables.
        items, bits, old_keys, old_values: see the operations; empty where not needed.

    - GOTO: index in the parser's ``lists`` of the states after the lexemes of accept id ``b`` ended in parser state ``a``.
    - RESTRICT: the parser state ``a`` with only the slots behind kept id ``b``.
    - KERNEL: the kernel of the first ``a`` of ``items`` (rule state, return), finished rules given way to what waits for them.
    - FULL: index in ``lists`` of the parser states of kernel ``a`` with all its slots.
    - MASK: the mask of the first ``a`` of ``threads`` into ``bits``, see :func:`.masking.mask`; WALK_ROOTS: of the ``roots``.
    - ADVANCE: moves the first ``a`` of ``threads`` by the first ``b`` bytes of ``text``, see :func:`.stepping.advance`.
    - ROW: makes the row of lexer state ``a``.
    - STATE: the lexer state of the first ``a`` of ``picked`` inside of a lexeme.
    - POSITIONS: the id of the first ``a`` of ``picked`` among the kept (``b``) or the accept ids.
    - NODE: the expression of the first row of ``items``, see :func:`.texts.node`; WALK_OF: the walk of it, see :func:`.texts.walk`.
    - SPELT: the expression of text ``a`` and then ``b``.
    - CAT_OF: the expression ``a`` and then ``b``.
    - SEGMENT_OF: the tokens that stay inside the lexeme of lexer state ``a``, into ``bits``; ``b``: 1 to go on, and twice the
      body whose repetitions are counted; see :func:`.segments.segment`.
    - CLASSES_BELOW: see :func:`.segments.classes_below`.
    - REHASH_LEXER, REHASH_PARSER, REFILL: fill an emptied hash table anew (field ``a``).
    """
    if operation == MASK:
        return mask(parser, lexer, a, bits)
    if operation == ADVANCE:
        return advance(parser, lexer, a, b)
    if operation == WALK_ROOTS:
        return walk_roots(parser, lexer, bits)
    if operation == GOTO:
        return goto(parser, lexer, a, b)
    if operation == RESTRICT:
        return restrict(parser, lexer, a, b)
    if operation == FULL:
        return full(parser, lexer, a)
    if operation == KERNEL:
        return kernel_of(parser, lexer, items, a)
    if operation == ROW:
        return row(lexer, a)
    if operation in (STATE, POSITIONS):
        values = vec(lexer, L_PICKED)[:a].copy()  # the place is scratch
        return state(lexer, values, a, False) if operation == STATE else positions(lexer, b != 0, values, a)
    if operation == NODE:
        return node(lexer, items[0, 0], items[0, 1], items[1, 0], items[1, 1], items[2, 0])
    if operation == WALK_OF:
        return walk(lexer, items[0, 0], items[0, 1], items[1, 0], items[1, 1], items[2, 0], items[2, 1])
    if operation == SPELT:
        begin = walk(lexer, -1 - a, 0, 1, 0, 0, 0)
        return node(lexer, WALK, begin, 0, 0, b) if begin >= 0 else begin
    if operation == CAT_OF:
        return cat(lexer, a, b)
    if operation == SEGMENT_OF:
        return segment(lexer, a, b & 1, b >> 1, bits)
    if operation == REHASH_LEXER:
        rehash(lexer, a)
    elif operation == CLASSES_BELOW:
        classes_below(lexer)
    elif operation == REHASH_PARSER:
        rehash_parser(parser, a)
    else:
        refill(parser, a, old_keys, old_values)
    return 0
