"""What is kept of each row's text, as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from .base import Proposal

if TYPE_CHECKING:
    from samplers.models.context import Context

    from ..protocol import Outcome
    from ..rules import Place
    from ..tree import DraftTree

__all__ = ["Grown", "Spot", "Texts", "follow"]


class Grown(Protocol):
    """Something that is kept of a text, and grows with it.

    Attributes:
        tokens: the text.
    """

    tokens: list[int]

    def append(self, token: int) -> None:
        """The text's next token."""
        ...


T = TypeVar("T", bound=Grown)


class Texts(Generic[T]):
    """One :class:`Grown` a row.

    A draft may begin behind the end of the known text (below the draft of another drafter); what is between is told, not kept. Where a row
    turns out to have another text than the one that is known (a particle that was resampled), it is read anew.

    Args:
        make: an empty one.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._rows: dict[int, tuple[Context, T]] = {}

    def begin(self, rows: Sequence[int], places: Sequence[Place]) -> None:
        """New texts: the prompts."""
        for row, place in zip(rows, places):
            self._read(row, place.context)

    def feed(self, outcomes: Sequence[Outcome]) -> None:
        """What a step added."""
        for outcome in outcomes:
            found, new = self.at(outcome.row, outcome.place.context)
            for token in new:
                found.append(token)
            self._rows[outcome.row] = outcome.place.context, found

    def at(self, row: int, context: Context) -> tuple[T, tuple[int, ...]]:
        """What is kept of a row, and the tokens of ``context`` behind it."""
        known = self._rows.get(row)
        if known is not None:
            before = next((a for a in context.ancestors() if a.length <= known[0].length), None)
            if before is not None and before == known[0]:
                return known[1], context.tokens_from(before.length)
        return self._read(row, context), ()

    def end(self, row: int) -> None:
        """The row's text is finished."""
        self._rows.pop(row, None)

    def _read(self, row: int, context: Context) -> T:
        found = self._make()
        for token in context.tokens:
            found.append(token)
        self._rows[row] = context, found
        return found


Spot = tuple[Sequence[int], int]
"""A text, and the position in it from which it is copied."""


def follow(spots: Sequence[Spot], own: Sequence[int], pending: Sequence[int]) -> Callable[[DraftTree, int], Iterable[Proposal]]:
    """Copies from several places: what follows a node of a tree is what follows it at those of them that agree with its path.

    Where a copy comes to the end of the row's own text it goes on with what was drafted behind it, so that a text that repeats itself
    is drafted at any length. Tokens below 0 (borders between documents) end a copy.

    Args:
        spots: the best first.
        own: the row's own text; ``spots`` may lie in it.
        pending: what stands between it and the tree's root.
    """
    known: dict[int, list[Spot]] = {0: list(spots)}

    def beyond(text: Sequence[int], position: int, tree: DraftTree, node: int) -> int:
        """The token at a position behind the end of a text; -1: none."""
        if text is not own:
            return -1
        position -= len(text)
        if position < len(pending):
            return pending[position]
        path = tree.path(node)
        position -= len(pending)
        return tree.tokens[path[position]] if position < len(path) else -1

    def at(tree: DraftTree, node: int) -> list[Spot]:
        here = known.get(node)
        if here is None:
            parent, token = tree.parents[node], tree.tokens[node]
            here = known[node] = [
                (t, p + 1) for t, p in at(tree, parent) if (t[p] if p < len(t) else beyond(t, p, tree, parent)) == token
            ]
        return here

    def found(tree: DraftTree, node: int) -> Iterator[Proposal]:
        for text, position in at(tree, node):
            token = text[position] if position < len(text) else beyond(text, position, tree, node)
            if token >= 0:
                yield token, None

    return found
