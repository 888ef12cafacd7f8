"""N-gram models: counts of a corpus, smoothed, as a language model whose texts can be enumerated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from grammars.errors import ModelError

from .tabular import TabularModel

__all__ = ["NGramModel"]

_START = -1  # stands before the first token of every text


class NGramModel(TabularModel):
    """The next token depends on the last ``order - 1`` tokens, as in a corpus; interpolated with shorter histories.

    Witten-Bell smoothing: a history that was seen ``c`` times, followed by ``t`` different tokens, gives a token that followed it ``n``
    times the probability ``(n + t * shorter) / (c + t)``, where ``shorter`` is the token's probability after the history without its first
    token, and in the end ``1 / width``. So no token is impossible.

    Witten, Bell 1991 (IEEE Transactions on Information Theory 37, 1085); Chen, Goodman 1998 (Harvard TR-10-98), section 2.6.

    Args:
        texts: the corpus, token ids. Where a text does not end with an end token, its end is not counted as one.
        width: number of tokens.
        eos: the token that ends a text, or several.
        order: length of the longest n-grams; 1 looks at no history.

    Raises:
        ModelError: a token id of the corpus is out of range.
        ValueError: ``order``, ``width`` or ``eos`` out of range.
    """

    def __init__(self, texts: Iterable[Sequence[int]], width: int, eos: int | Sequence[int], order: int = 3) -> None:
        if order < 1:
            raise ValueError(f"order must be at least 1, not {order}")
        super().__init__(width, eos, self._smoothed, memory=order - 1)
        self.order = order
        self._followers: dict[tuple[int, ...], Counter[int]] = {}
        for text in texts:
            self.observe(text)

    def observe(self, text: Sequence[int]) -> None:
        """Adds a text to the corpus."""
        tokens = [int(token) for token in text]
        for token in tokens:
            if not 0 <= token < self.width:
                raise ModelError(f"{token} is no token id of this model: it is {self.width} wide")
        padded = [_START] * (self.order - 1) + tokens
        for at in range(self.order - 1, len(padded)):
            for length in range(self.order):
                history = tuple(padded[at - length : at])
                self._followers.setdefault(history, Counter())[padded[at]] += 1
        self._rows.clear()

    def _smoothed(self, recent: tuple[int, ...]) -> np.ndarray:
        """The row after a text that ends with ``recent``, or that is ``recent`` where this is shorter than the memory."""
        history = (_START,) * (self.order - 1 - len(recent)) + recent
        row = np.full(self.width, 1 / self.width)
        for length in range(self.order):
            followers = self._followers.get(history[len(history) - length :])
            if followers is None:
                break  # nor was a longer one seen
            row *= len(followers)
            row[list(followers)] += list(followers.values())
            row /= followers.total() + len(followers)
        return row
