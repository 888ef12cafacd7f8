"""What a warper is: scores in, scores out, row by row; alone a Hugging Face logits processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from transformers import LogitsProcessor

from ..registry import Law

__all__ = ["FORBIDDEN", "Row", "Warper", "only_best", "top"]

FORBIDDEN = float("-inf")  # the score of a token that cannot come


@dataclass(frozen=True, slots=True)
class Row:
    """The text of one row, as a warper sees it.

    Attributes:
        tokens: prompt and generated tokens, without padding.
        prompt: how many of them are the prompt.
        seed: of the row's randomness, for the few warpers that draw.
    """

    tokens: Sequence[int]
    prompt: int
    seed: int = 0

    @property
    def made(self) -> Sequence[int]:
        """The generated tokens."""
        return self.tokens[self.prompt :]


class Warper(LogitsProcessor):
    """Base of the warpers.

    A warper turns the scores of a step (logits, or log-probabilities up to a constant a row) into other scores; the step's law is the
    softmax of what the last one returns. Minus infinity stays minus infinity, and a row keeps at least one finite score. A row's result
    does not depend on the rows beside it.

    It is called in two ways. ``warper(input_ids, scores)`` is the protocol of Hugging Face's ``generate`` (``int64[rows, length]``,
    ``float[rows, width]``): rows may be reordered, copied and dropped between two calls, as beam search does; a call is a new text's first
    one unless its rows extend those of the last call by a token, and the rows of a new text are its prompts. Left padding is dropped
    where :meth:`padded` has named it. ``warper.warp(rows, scores)`` takes the texts themselves, of any lengths.

    Attributes:
        law: what a step follows, see :data:`~samplers.registry.Law`: ``exact`` for a stated distribution, ``argmax`` where one token is
            left, ``lossy`` otherwise.
        reads_text: whether the result depends on the text so far; if not, ``rows`` may be empty.
        pad_token_id: the id of left padding in ``input_ids``.
    """

    law: Law = "exact"
    reads_text: ClassVar[bool] = False
    supports_continuous_batching = False
    pad_token_id: int | None = None
    _last: frozenset[tuple[int, ...]] = frozenset()
    _width = -1
    _prompt = 0

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        """The scores ``float[rows, width]`` of a step after this warper; ``scores`` is left as it is."""
        raise NotImplementedError

    def describe(self) -> str:
        """What it does, in a few words; part of a pipeline's stated law."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forgets the text in progress."""
        self._last, self._width, self._prompt = frozenset(), -1, 0

    def padded(self, pad_token_id: int | None) -> Self:
        """Names the left padding of ``input_ids``; returns the warper itself."""
        self.pad_token_id = pad_token_id
        return self

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores after ``input_ids``, see the class."""
        return self.warp(self.rows_of(input_ids) if self.reads_text else (), scores)  # type: ignore[return-value]

    def rows_of(self, input_ids: torch.Tensor) -> list[Row]:
        """The rows of a call of Hugging Face's ``generate``; a row's seed is its number."""
        ids = [tuple(row) for row in input_ids.tolist()]
        if input_ids.shape[1] != self._width + 1 or not all(row[:-1] in self._last for row in ids):
            self.reset()
            self._prompt = input_ids.shape[1]
        self._last, self._width = frozenset(ids), input_ids.shape[1]
        return [self._row(row, seed) for seed, row in enumerate(ids)]

    def _row(self, ids: tuple[int, ...], seed: int) -> Row:
        skip = 0
        if self.pad_token_id is not None:
            while skip < self._prompt - 1 and ids[skip] == self.pad_token_id:
                skip += 1
        return Row(ids[skip:], self._prompt - skip, seed)


def top(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``min(k, width)`` best tokens of each row, best first (of equal ones the lower id): scores and ids, ``[rows, k]``.

    Forbidden tokens may be among them, with score minus infinity.
    """
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    return ordered[..., :k], order[..., :k]


def only_best(scores: torch.Tensor, tokens: torch.Tensor, criterion: torch.Tensor) -> torch.Tensor:
    """Leaves one token a row: of the candidates ``tokens`` (``int64[rows, k]``) the first that has the highest ``criterion``.

    Candidates whose score is minus infinity are passed over. The one that is left keeps its score, so that greedy decoding and sampling
    take the same token.
    """
    kept = scores.gather(-1, tokens)
    best = tokens.gather(-1, criterion.masked_fill(kept == FORBIDDEN, FORBIDDEN).argmax(-1, keepdim=True))
    return torch.full_like(scores, FORBIDDEN).scatter(-1, best, scores.gather(-1, best))
