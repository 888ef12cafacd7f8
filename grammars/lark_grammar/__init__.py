"""Lark grammars. Lark's own loader reads them, so that imports, templates and priorities are Lark's.

Reading order: :mod:`.loader` (grammar text to plain rules and terminals), :mod:`.properties` (``\\p{...}``), :mod:`.pattern_tree`
and :mod:`.backtracking` (what a terminal's pattern matches), :mod:`.precedence` (which terminal wins), :mod:`.frontend` (rules for
the engine). The public name is :class:`Lark`.
"""

from __future__ import annotations

from .frontend import Lark

__all__ = ["Lark"]
