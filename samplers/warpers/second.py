"""What a warper asks of a model beside the one whose scores it is given: a second model, a second prompt, or hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grammars.errors import ModelError

from ..models import Context, LanguageModel
from .base import Row
from .memory import RowMemory

__all__ = ["FLOOR", "Companion", "Contexts", "language_model"]

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


class Contexts:
    """The contexts of rows: each is extended from that of the last step where there was one.

    Args:
        prompt: what stands in place of the rows' own prompts; ``None``: they themselves.
        last: how many of the last tokens of the rows' own prompts are kept; ``None``: all.
        before: what is put before the prompts (a control code, say).
    """

    def __init__(self, prompt: Sequence[int] | None = None, *, last: int | None = None, before: Sequence[int] = ()) -> None:
        self.last, self.before = last, tuple(before)
        self.prompt = None if prompt is None else tuple(prompt)
        self._memory: RowMemory[Context] = RowMemory()

    def reset(self) -> None:
        """Forgets the text in progress."""
        self._memory.clear()

    def start(self, row: Row) -> Context:
        """The context of a row's prompt, without what was generated."""
        own = row.tokens[0 if self.last is None else max(0, row.prompt - self.last) : row.prompt]
        prompt = own if self.prompt is None else self.prompt
        return Context([int(token) for token in (*self.before, *prompt)])

    def of(self, rows: Sequence[Row]) -> list[Context]:
        """The context of each row."""
        found = []
        for row in rows:
            known = self._memory.recall(row)
            if known is not None:
                found.append(known.extend(int(row.tokens[-1])))
            else:
                found.append(self.start(row).extend([int(token) for token in row.made]))
        self._memory.keep(rows, found)
        return found


class Companion:
    """A model that reads along: its contexts follow the rows.

    Args:
        model: see :func:`language_model`.
        prompt, last, before: see :class:`Contexts`.
    """

    def __init__(self, model: Any, prompt: Sequence[int] | None = None, *, last: int | None = None, before: Sequence[int] = ()) -> None:
        self.model = language_model(model)
        self.texts = Contexts(prompt, last=last, before=before)

    def reset(self) -> None:
        """Forgets the text in progress."""
        self.texts.reset()

    def contexts(self, rows: Sequence[Row]) -> list[Context]:
        """The context of each row, extended from that of the last step where there was one."""
        return self.texts.of(rows)

    def logprobs(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of the next tokens, at least :data:`FLOOR`, with shape, type and device of ``scores``.

        Raises:
            ModelError: the two models have different numbers of logits.
        """
        if self.model.width != scores.shape[-1]:
            raise ModelError(f"the second model has {self.model.width} logits, the first {scores.shape[-1]}: they must share a vocabulary")
        return self.model.next_logprobs(self.contexts(rows)).clamp(min=FLOOR).to(device=scores.device, dtype=scores.dtype)
