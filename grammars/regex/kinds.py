"""The kinds of expression nodes, and what ``Pool.args`` holds for each."""

from __future__ import annotations

__all__ = ["ALL_BYTES", "ALT", "BOTH", "BYTES", "CAT", "EMPTY", "EPSILON", "LEAF", "LITERAL", "NOT", "REPEAT", "VARIABLE", "WORDS"]

ALL_BYTES = (1 << 256) - 1

EMPTY = 0
EPSILON = 1
BYTES = 2  # (mask,): one byte out of several (a single one is a literal)
LITERAL = 3  # (bytes,)
CAT = 4  # (first, rest): the first is no concatenation
ALT = 5  # the members, sorted
BOTH = 6  # the members, sorted
NOT = 7  # (expression,)
REPEAT = 8  # (body, lo, hi or None): the body is not nullable
LEAF = 9  # (leaf,)
WORDS = 10  # (number of the sorted word list, from, to, bytes read so far)
VARIABLE = 11  # (its own id,)
