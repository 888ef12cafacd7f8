"""What a warper asks of a model beside the one whose scores it is given: a second model, a second prompt, or hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grammars.errors import ModelError

from ..models import Context, LanguageModel
from .base import Row
from .memory import RowMemory

__all__ = ["FLOOR", "Companion", "language_model"]

FLOOR = -100.0
"""Log-probabilities of a second model are taken to be at least this, so that a token it rules out does not weigh infinitely much."""


def language_model(model: Any) -> LanguageModel:
    """``model`` itself where it is a :class:`~samplers.models.LanguageModel`, wrapped where it is a Hugging Face causal model.

    Raises:
        ModelError: it is neither.
    """
    if isinstance(model, LanguageModel):
        return model
    if hasattr(model, "forward") and hasattr(model, "config"):
        from ..models import HFModel

        return HFModel(model)
    raise ModelError(f"a {type(model).__name__} is no language model: pass a samplers.models.LanguageModel or a Hugging Face causal model")


class Companion:
    """A model that reads along: its contexts follow the rows.

    Args:
        model: see :func:`language_model`.
        prompt: what stands in place of the rows' own prompts; ``None``: they themselves.
        last: how many of the last tokens of the rows' own prompts are kept; ``None``: all.
    """

    def __init__(self, model: Any, prompt: Sequence[int] | None = None, *, last: int | None = None) -> None:
        self.model, self.last = language_model(model), last
        self.prompt = None if prompt is None else tuple(prompt)
        self._memory: RowMemory[Context] = RowMemory()

    def reset(self) -> None:
        """Forgets the text in progress."""
        self._memory.clear()

    def contexts(self, rows: Sequence[Row]) -> list[Context]:
        """The context of each row, extended from that of the last step where there was one."""
        found = []
        for row in rows:
            before = self._memory.recall(row)
            if before is not None:
                found.append(before.extend(int(row.tokens[-1])))
            else:
                own = row.tokens[0 if self.last is None else max(0, row.prompt - self.last) : row.prompt]
                prompt = own if self.prompt is None else self.prompt
                found.append(self.model.context([int(token) for token in (*prompt, *row.made)]))
        self._memory.keep(rows, found)
        return found

    def logprobs(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of the next tokens, at least :data:`FLOOR`, with shape, type and device of ``scores``.

        Raises:
            ModelError: the two models have different numbers of logits.
        """
        if self.model.width != scores.shape[-1]:
            raise ModelError(f"the second model has {self.model.width} logits, the first {scores.shape[-1]}: they must share a vocabulary")
        return self.model.next_logprobs(self.contexts(rows)).clamp(min=FLOOR).to(device=scores.device, dtype=scores.dtype)
