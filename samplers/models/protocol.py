"""What a sampler needs of a language model: log-probabilities of next tokens for a batch of contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch

from grammars.errors import ModelError

from .context import Context

__all__ = ["LanguageModel", "score_by_steps"]


@runtime_checkable
class LanguageModel(Protocol):
    """A distribution over token sequences, asked one batch at a time.

    Attributes:
        width: number of logits; token ids are below it.
        eos_token_ids: tokens that end a text; may be empty.
    """

    width: int
    eos_token_ids: tuple[int, ...]

    def context(self, tokens: Sequence[int]) -> Context:
        """A handle for ``tokens``: immutable, hashable, and cheap to extend. No forward is made."""
        ...

    def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        """Log-probabilities of the token after each context.

        Returns:
            ``float64[len(contexts), width]``, natural logarithms; the exponentials of a row sum to 1. The tensor is the caller's to
            keep and to change. Rows do not depend on what else is in the batch (for a network, beyond the rounding of its sums). Contexts
            that the model still knows cost nothing; the others are evaluated together.

        Raises:
            ModelError: a context that the model cannot take (too long, a token id out of range, empty where the model needs a token).
        """
        ...

    def score(self, context: Context, continuations: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Log-probability of every token of each continuation, given ``context`` and the tokens before it.

        Returns:
            a ``float64[len(continuation)]`` tensor for each; its sum is the log-probability of the continuation.
        """
        ...

    def hidden(self, contexts: Sequence[Context]) -> torch.Tensor:
        """The last layer's hidden state at the last token of each context, ``float[len(contexts), size]``.

        Raises:
            ModelError: the model has none.
        """
        ...


def score_by_steps(model: LanguageModel, context: Context, continuations: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """:meth:`LanguageModel.score` for models whose ``next_logprobs`` is cheap: asks for every prefix of every continuation, each once."""
    asked: dict[Context, int] = {}
    rows: list[list[int]] = []
    for continuation in continuations:
        row, here = [], context
        for token in continuation:
            if not 0 <= token < model.width:
                raise ModelError(f"{token} is no token id of this model: its logits are {model.width} wide")
            row.append(asked.setdefault(here, len(asked)))
            here = here.extend(int(token))
        rows.append(row)
    if not asked:
        return [torch.zeros(0, dtype=torch.float64) for _ in continuations]
    table = model.next_logprobs(list(asked))
    return [table[row, list(continuation)] if row else table.new_zeros(0) for row, continuation in zip(rows, continuations)]
