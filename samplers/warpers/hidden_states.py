"""The hidden states of a row's text, token by token, kept from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..models import Context
from .base import Row
from .memory import RowMemory
from .second import language_model

__all__ = ["HiddenStates"]


class HiddenStates:
    """Hidden states at every token of each row; one new state a row and step.

    Args:
        model: a :class:`~samplers.models.LanguageModel` that has hidden states, or a Hugging Face model.
    """

    def __init__(self, model: Any) -> None:
        self.model = language_model(model)
        self._memory: RowMemory[tuple[Context, torch.Tensor]] = RowMemory()

    def reset(self) -> None:
        """Forgets the text in progress."""
        self._memory.clear()

    def of(self, rows: Sequence[Row]) -> list[torch.Tensor]:
        """``float[length, size]`` for each row.

        Raises:
            ModelError: the model has no hidden states.
        """
        return [states for _, states in self.follow(rows)]

    def follow(self, rows: Sequence[Row]) -> list[tuple[Context, torch.Tensor]]:
        """Context and states of each row. What is not known from the last step is asked for in one batch."""
        asked: list[Context] = []
        found: list[tuple[list[Context], torch.Tensor | None]] = []
        for row in rows:
            before = self._memory.recall(row)
            if before is not None:
                new = [before[0].extend(int(row.tokens[-1]))]
            else:
                new = [self.model.context([int(row.tokens[0])])]
                for token in row.tokens[1:]:
                    new.append(new[-1].extend(int(token)))
            found.append((new, None if before is None else before[1]))
            asked += new
        states = self.model.hidden(asked)
        kept: list[tuple[Context, torch.Tensor]] = []
        at = 0
        for new, old in found:
            more = states[at : at + len(new)]
            at += len(new)
            kept.append((new[-1], more if old is None else torch.cat([old, more])))
        self._memory.keep(rows, kept)
        return kept
