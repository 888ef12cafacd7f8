"""Regular expressions: patterns in three dialects, and a pool of byte expressions with lazy derivatives.

>>> pool = Pool()
>>> expr = to_expr("(?!0)[0-9]{1,3}", pool)
>>> pool.matches(expr, b"120"), pool.matches(expr, b"012")
(True, False)

Reading order:

1. :mod:`.charset`: sets of code points, Unicode properties, case folding.
2. :mod:`.leaves`, :mod:`.expr`: hash-consed expressions over bytes (:class:`Pool`); :mod:`.derivatives`, :mod:`.alternatives` (unions and
   intersections kept small), :mod:`.search` (emptiness, shortest members), :mod:`.saturate` (cutting at a horizon).
3. :mod:`.ast`, :mod:`.parser` and the dialects :mod:`.python_syntax`, :mod:`.ecma_syntax`, :mod:`.rust_syntax`;
   :mod:`.syntax` is their entry.
4. :mod:`.lower`: trees to expressions, with anchors, boundaries and lookahead; :mod:`.lengths` (bounds on characters
   merged into a pattern's counts).

``docs/regex.md`` says what is supported in which dialect.
"""

from __future__ import annotations

from .charset import CharSet, property_set
from .expr import Pool
from .leaves import Leaf
from .lower import char_length, to_expr
from .syntax import Pattern, parse

__all__ = ["CharSet", "Leaf", "Pattern", "Pool", "char_length", "parse", "property_set", "to_expr"]
