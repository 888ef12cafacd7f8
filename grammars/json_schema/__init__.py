"""JSON Schema (drafts 4, 6, 7, 2019-09 and 2020-12) -> rules.

Reading order: :mod:`.source` (what users give), :mod:`.keywords` (what each draft knows), :mod:`.references` (schema nodes),
:mod:`.scan` (the eager check), :mod:`.normal` (the normal form), :mod:`.scalars`, :mod:`.algebra` (and, or, not, emptiness),
:mod:`.simplify`, :mod:`.meaning` (keywords -> normal form), :mod:`.unevaluated`, :mod:`.objects`, :mod:`.plain_objects`,
:mod:`.completable` and :mod:`.arrays` (look-ahead and rules), :mod:`.layout`, :mod:`.writer`, :mod:`.schema` (the front-ends).
"""

from __future__ import annotations

from .layout import Whitespace
from .scan import Finding
from .schema import AnyJson, JsonSchema

__all__ = ["AnyJson", "Finding", "JsonSchema", "Whitespace"]
