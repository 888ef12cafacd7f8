"""A language -> states and token masks. numpy and numba, no torch, no model.

A *front-end* (:class:`JsonSchema`, :class:`Regex`, :class:`Lark`, ...) describes a language; ``compile(vocabulary)``
binds it to a :class:`Vocabulary` and gives an :class:`Automaton` whose **states are values**: interned integers that can be
copied, compared, stored and forked for free. Every question (which tokens may follow? does the text end here? what
must come next?) is a pure function of a state.

Reading order: :mod:`.errors`, :mod:`.limits`; :mod:`.vocabulary` (tokens as bytes, the byte trie); :mod:`.regex` (hash-consed
expressions, lazily derived byte automata); :mod:`.rules` (what every front-end is translated to); :mod:`.constraint` (the base of
front-ends, composition); the front-ends; :mod:`.lexer`, :mod:`.segments`, :mod:`.parser` and :mod:`.automaton` (the engine);
:mod:`.batch` (masks of many states); :mod:`.kernels` (numba).

Names are loaded when they are first used: importing one front-end does not import the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    ConstraintError,
    DeadEnd,
    GrammarError,
    GuidedError,
    LimitError,
    ModelError,
    RegexError,
    SchemaError,
    VocabularyError,
)
from .limits import Limits

if TYPE_CHECKING:
    from .automaton import Automaton
    from .batch import fill_masks
    from .constraint import Constraint, Literal
    from .gbnf import Gbnf
    from .intersection import Intersection
    from .json_schema import AnyJson, JsonSchema
    from .lark_grammar import Lark
    from .lexical import MustInclude, MustNotInclude, english_inflections
    from .patterns import Choice, Regex
    from .vocabulary import Vocabulary

__all__ = [
    "AnyJson",
    "Automaton",
    "Choice",
    "Constraint",
    "ConstraintError",
    "DeadEnd",
    "Gbnf",
    "GrammarError",
    "GuidedError",
    "Intersection",
    "JsonSchema",
    "Lark",
    "LimitError",
    "Limits",
    "Literal",
    "ModelError",
    "MustInclude",
    "MustNotInclude",
    "Regex",
    "RegexError",
    "SchemaError",
    "Vocabulary",
    "VocabularyError",
    "english_inflections",
    "fill_masks",
]

_LAZY = {
    "AnyJson": ".json_schema",
    "Automaton": ".automaton",
    "Choice": ".patterns",
    "Constraint": ".constraint",
    "Gbnf": ".gbnf",
    "Intersection": ".intersection",
    "JsonSchema": ".json_schema",
    "Lark": ".lark_grammar",
    "Literal": ".constraint",
    "MustInclude": ".lexical",
    "MustNotInclude": ".lexical",
    "Regex": ".patterns",
    "Vocabulary": ".vocabulary",
    "english_inflections": ".lexical",
    "fill_masks": ".batch",
}


def __getattr__(name: str) -> Any:
    """Loads a public name on its first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
