"""A wrapper that counts what a model was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .context import Context
from .protocol import LanguageModel

__all__ = ["Counting", "Usage"]


@dataclass(slots=True)
class Usage:
    """Work of a model.

    Attributes:
        forwards: batched evaluations.
        rows: contexts (or continuations) that were evaluated, over all forwards.
        tokens: token positions that were evaluated, over all rows; padding does not count.
        hits: contexts that were asked for and cost nothing, because their answer was known.
        prefix_hits: token positions that did not have to be evaluated because a cached prefix held them.
    """

    forwards: int = 0
    rows: int = 0
    tokens: int = 0
    hits: int = 0
    prefix_hits: int = 0

    def since(self, before: Usage) -> Usage:
        """The work done since ``before`` was noted."""
        return Usage(*(getattr(self, name) - getattr(before, name) for name in _FIELDS))

    def copy(self) -> Usage:
        """As it is now."""
        return Usage(*(getattr(self, name) for name in _FIELDS))


_FIELDS = ("forwards", "rows", "tokens", "hits", "prefix_hits")


class Counting:
    """A model that counts what it is asked for from now on; otherwise the model that it wraps.

    Where the wrapped model does its own accounting (attribute ``usage``, as :class:`HFModel` has), its numbers are reported, less what
    they were when the wrapper was made. For others the wrapper reckons as if every answer were kept: a context costs a row the
    first time it is asked for, and of its tokens those beyond the longest prefix that was evaluated before.

    Attributes:
        forwards, rows, tokens, hits, prefix_hits: see :class:`Usage`.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.width, self.eos_token_ids = model.width, model.eos_token_ids
        self._own: Usage | None = None if isinstance(getattr(model, "usage", None), Usage) else Usage()
        self._before = self._now.copy()
        self._answered: set[Context] = set()
        self._evaluated: dict[int, Any] = {}  # a trie of tokens

    @property
    def _now(self) -> Usage:
        """The work done by whoever counts it, since that began to."""
        return self.model.usage if self._own is None else self._own  # type: ignore[attr-defined]

    @property
    def usage(self) -> Usage:
        """What was done since the wrapper was made."""
        return self._now.since(self._before)

    @property
    def forwards(self) -> int:
        return self.usage.forwards

    @property
    def rows(self) -> int:
        return self.usage.rows

    @property
    def tokens(self) -> int:
        return self.usage.tokens

    @property
    def hits(self) -> int:
        return self.usage.hits

    @property
    def prefix_hits(self) -> int:
        return self.usage.prefix_hits

    def context(self, tokens: Sequence[int]) -> Context:
        """See :meth:`LanguageModel.context`."""
        return self.model.context(tokens)

    def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        """See :meth:`LanguageModel.next_logprobs`."""
        answer = self.model.next_logprobs(contexts)
        if self._own is not None:
            self._count(self._own, contexts)
        return answer

    def next_logits(self, contexts: Sequence[Context]) -> torch.Tensor:
        """The model's logits where it gives them, otherwise its log-probabilities."""
        answer: torch.Tensor = getattr(self.model, "next_logits", self.model.next_logprobs)(contexts)
        if self._own is not None:
            self._count(self._own, contexts)
        return answer

    def score(self, context: Context, continuations: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """See :meth:`LanguageModel.score`; a continuation is a row, and costs nothing where every prefix of it was known."""
        answer = self.model.score(context, continuations)
        if self._own is not None:
            asked = [context.extend(tuple(c)[:-1]) for c in continuations if len(c)]
            self._count(self._own, asked)
            for end in asked:
                self._answered.update(context.extend(end.tokens_from(context.length)[:k]) for k in range(end.length - context.length))
        return answer

    def hidden(self, contexts: Sequence[Context]) -> torch.Tensor:
        """See :meth:`LanguageModel.hidden`."""
        answer = self.model.hidden(contexts)
        if self._own is not None:
            self._count(self._own, contexts)
        return answer

    def _count(self, usage: Usage, contexts: Sequence[Context]) -> None:
        rows = 0
        for context in contexts:
            if context in self._answered:
                usage.hits += 1
                continue
            self._answered.add(context)
            rows += 1
            node, fresh = self._evaluated, 0
            for token in context.tokens:
                if token not in node:
                    fresh += 1
                node = node.setdefault(token, {})
            usage.tokens += fresh
            usage.prefix_hits += context.length - fresh
        usage.rows += rows
        usage.forwards += rows > 0
