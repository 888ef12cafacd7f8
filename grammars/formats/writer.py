"""What the formats are written with: patterns and literals over one pool and one encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..regex.charset import CharSet
from ..regex.lower import to_expr

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["Encoder", "Writer"]

Encoder = Callable[["Pool", CharSet], int]


class Writer:
    """Builds expressions of ``pool`` with characters written by ``encoder``."""

    def __init__(self, pool: Pool, encoder: Encoder) -> None:
        self.pool, self.encoder = pool, encoder
        self._characters: dict[str, int] = {}

    def pattern(self, text: str, max_length: int | None = None) -> int:
        """A whole-text pattern in Python's syntax (white space in it is not significant), at most ``max_length`` characters long."""
        return to_expr("".join(text.split()), self.pool, dialect="python", encoder=self.encoder, max_length=max_length)

    def chars(self, charset: CharSet) -> int:
        """One character."""
        return self.encoder(self.pool, charset)

    def text(self, text: str) -> int:
        """A literal."""
        return self.pool.cat(*map(self._character, text))

    def _character(self, character: str) -> int:
        found = self._characters.get(character)
        if found is None:
            found = self._characters[character] = self.chars(CharSet.of(character))
        return found
