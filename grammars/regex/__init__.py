"""Regular expressions: patterns in three dialects, and a pool of byte expressions with lazy derivatives.

Reading order:

1. :mod:`.charset`: sets of code points, Unicode properties, case folding.
2. :mod:`.leaves`, :mod:`.expr`: hash-consed expressions over bytes (:class:`Pool`); :mod:`.alternatives` (unions and
   intersections kept small), :mod:`.search` (emptiness, shortest members), :mod:`.saturate` (cutting at a horizon).
"""

from __future__ import annotations

from .charset import CharSet, property_set
from .expr import Pool
from .leaves import Leaf

__all__ = ["CharSet", "Leaf", "Pool", "property_set"]
