"""The languages of a schema's numbers and strings, each made once: keywords in, expressions out.

A language holds every spelling of its values (``1``, ``1.0`` and ``10e-1``; ``"a"`` and ``"\\u0061"``), so set operations on
languages are set operations on values.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import formats, numbers, strings
from ..errors import RegexError, SchemaError
from ..regex.lower import to_expr
from .keywords import escape_token

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["NUMBER_KEYWORDS", "STRING_KEYWORDS", "Scalars"]

NUMBER_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
STRING_KEYWORDS = frozenset({"minLength", "maxLength", "pattern", "format"})


class Scalars:
    """Numbers and strings over one pool.

    Args:
        pool: where the expressions live.
        encoder: how a character of a string is written.
        assert_format: whether ``format`` asserts.
    """

    def __init__(self, pool: Pool, encoder: strings.JsonEncoder, assert_format: bool) -> None:
        self.pool, self.encoder, self.assert_format = pool, encoder, assert_format
        self.any_text = strings.any_text(pool, encoder)
        self.any_number = numbers.number(pool)
        self._memo: dict[Hashable, int] = {}
        digits = pool.byteset(sum(1 << b for b in b"0123456789"))
        from_one = pool.byteset(sum(1 << b for b in b"123456789"))
        natural = pool.alt(pool.literal(b"0"), pool.cat(from_one, pool.star(digits)))
        self._plain_integer = pool.cat(pool.opt(pool.literal(b"-")), natural)

    # ------------------------------------------------------------ set operations
    def both(self, a: int, b: int, full: int) -> int:
        """Intersection, within ``full``."""
        return b if a in (full, b) else a if b == full else self.pool.both(a, b)

    def either(self, parts: Sequence[int], full: int) -> int:
        """Union, within ``full``."""
        return full if full in parts else self.pool.alt(*dict.fromkeys(parts))

    def without(self, a: int, full: int) -> int:
        """Complement in ``full``."""
        if a == full:
            return self.pool.EMPTY
        return full if a == self.pool.EMPTY else self.pool.minus(full, a)
