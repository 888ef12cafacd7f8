"""Syntax trees of patterns: character level, dialect-free.

The parsers resolve flags, case and named classes, so a tree means the same whatever dialect it was
written in. Nodes are immutable and hashable; positions are for messages and no part of the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from .charset import CharSet

__all__ = ["Atomic", "Boundary", "Chars", "Edge", "LineEdge", "Look", "Node", "Pattern", "Repeat", "Sequence", "Union_"]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Sequence:
    """Concatenation; the empty one matches the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Union_:
    """Alternation of at least two."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``body`` between ``lo`` and ``hi`` times (``None``: without bound)."""

    body: Node
    lo: int
    hi: int | None


@dataclass(frozen=True, slots=True)
class Edge:
    """An anchor: ``"start"`` or ``"end"`` of the text, or ``"last line"`` (the end, or in front of one final newline)."""

    kind: str


@dataclass(frozen=True, slots=True)
class LineEdge:
    """A multi-line anchor, at the text's edge or next to a line terminator: in front of a line (``start``) or behind it."""

    start: bool
    newlines: CharSet


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place by the kind of its neighbours: allowed pairs ``(word on the left, word on the right)``; the text's edges are no words."""

    allowed: frozenset[tuple[bool, bool]]
    word: CharSet


@dataclass(frozen=True, slots=True)
class Look:
    """Lookahead."""

    body: Node
    negative: bool


@dataclass(frozen=True, slots=True)
class Atomic:
    """A group whose first way to match is final (also a possessive repetition)."""

    body: Node
    position: int = field(compare=False)


Node = Union[Chars, Sequence, Union_, Repeat, Edge, LineEdge, Boundary, Look, Atomic]

EMPTY = Sequence(())
NOTHING = Chars(CharSet.EMPTY)
START, END, LAST_LINE = Edge("start"), Edge("end"), Edge("last line")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern.

    Attributes:
        node: the tree.
        source: the pattern's text, for messages.
        dialect: what it was written in.
    """

    node: Node
    source: str = ""
    dialect: str = "python"


def sequence(items: list[Node]) -> Node:
    """Concatenation, flattened."""
    flat: list[Node] = []
    for item in items:
        if isinstance(item, Sequence):
            flat.extend(item.items)
        else:
            flat.append(item)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def union(items: list[Node]) -> Node:
    """Alternation, flattened; single characters are joined into one set."""
    flat: list[Node] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Union_) else (item,))
    chars = [item for item in flat if isinstance(item, Chars)]
    if len(chars) > 1:
        ranges = [r for item in chars for r in item.chars.ranges]
        flat = [Chars(CharSet(ranges)), *(item for item in flat if not isinstance(item, Chars))]
    return flat[0] if len(flat) == 1 else Union_(tuple(flat))
