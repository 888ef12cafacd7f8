"""One object for every bound, so that hostile or huge input ends in an error that names the bound."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Bounds on what one constraint may cost.

    Attributes:
        regex_size: nodes of one parsed pattern, after expansion.
        fuel: work (expression nodes, records of normal forms, ways looked ahead) that one search may spend. A step may spend six times
            as much: compiling a schema, expanding one state of its rules, the derivatives of one expression.
        grammar_size: rule states of one grammar.
        schema_size: records in the normal form of one schema, over all its parts.
        nesting: depth of nested schemas, groups or rules in the *input* (not in the output).
        item_set: Earley items in one parser state.
        arena: parser states, and token states, that one automaton keeps before it begins afresh (states stay valid).
        cache_bytes: bytes of token masks kept for one automaton.
    """

    regex_size: int = 200_000
    fuel: int = 500_000
    grammar_size: int = 2_000_000
    schema_size: int = 100_000
    nesting: int = 500
    item_set: int = 50_000
    arena: int = 200_000
    cache_bytes: int = 128 << 20
