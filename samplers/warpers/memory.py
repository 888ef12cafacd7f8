"""State of a row from one step to the next, found by the row's own text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from .base import Row

__all__ = ["RowMemory"]

T = TypeVar("T")


class RowMemory(Generic[T]):
    """What the last step kept for each row, looked up by the row's tokens.

    Nothing is bound to a row's number, so rows may be reordered, copied (each copy goes on from the same value) and dropped between two
    steps. Rows with the same text share a value: what depends on the text alone is the same for both. Where a value also depends on the
    row's own randomness, ``by_seed`` keeps rows of different seeds apart.
    """

    def __init__(self, by_seed: bool = False) -> None:
        self.by_seed = by_seed
        self._kept: dict[tuple[int, tuple[int, ...]], T] = {}

    def recall(self, row: Row) -> T | None:
        """The value kept for the row's text without its last token; ``None`` where the last step did not see it."""
        return self._kept.get((row.seed if self.by_seed else 0, tuple(row.tokens[:-1])))

    def keep(self, rows: Sequence[Row], values: Sequence[T]) -> None:
        """Replaces all that is kept by the values of the rows of this step."""
        self._kept = {(row.seed if self.by_seed else 0, tuple(row.tokens)): value for row, value in zip(rows, values)}

    def clear(self) -> None:
        """Forgets everything."""
        self._kept = {}
