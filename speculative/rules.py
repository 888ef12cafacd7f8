"""What may be written after a place: the constraint of one request, as a function of values."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from samplers.masks import serial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grammars.automaton import Automaton
    from samplers.budget import Budget, Plan
    from samplers.models.context import Context
    from samplers.models.protocol import LanguageModel

__all__ = ["DEAD", "DONE", "FREE", "Place", "Rules"]

DEAD, DONE = 0, 1  # as in grammars.automaton.Automaton
FREE = 2  # the one state of a text without an automaton that has not ended, as in samplers.target


@dataclass(frozen=True, slots=True)
class Place:
    """A beginning of a text: where a token may be drafted, or judged.

    Attributes:
        context: prompt and generated tokens.
        state: of the automaton (1: the text has ended); 2 where there is no automaton and it has not ended.
        left: tokens that may still come, the one that ends the text included.
        start: length of the prompt, in tokens.
        plan: see :mod:`samplers.budget`.
    """

    context: Context
    state: int
    left: int
    start: int
    plan: Plan = None

    @property
    def ended(self) -> bool:
        """Whether nothing can follow: an end token was taken, or the number of tokens is used up."""
        return self.state == DONE or self.left <= 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The generated tokens."""
        return self.context.tokens_from(self.start)


class Rules:
    """The constraint of one request: which tokens may follow a place, and where they lead.

    Args:
        ends: token ids that end a text.
        automaton: ``None`` leaves the text free.
        budget: keeps constrained texts completable within ``max_tokens``; ``None`` lets them be cut.
    """

    def __init__(self, ends: Sequence[int], automaton: Automaton | None = None, budget: Budget | None = None) -> None:
        self.ends = frozenset(ends)
        self.automaton, self.budget = automaton, budget
        self._serial = -1 if automaton is None else serial(automaton)

    @property
    def words(self) -> int:
        """Length of a packed mask; 0 without an automaton."""
        return 0 if self.automaton is None else self.automaton.words

    def root(self, model: LanguageModel, prompt: Sequence[int], max_tokens: int) -> Place:
        """The place of the empty text."""
        start = FREE if self.automaton is None else self.automaton.start
        return Place(model.context(tuple(prompt)), start, max_tokens, len(prompt))

    def key(self, place: Place) -> Hashable | None:
        """Of the mask of a place that has not ended, for :meth:`samplers.masks.MaskTable.select`; ``None`` allows everything."""
        if self.automaton is None:
            return None
        if self.budget is None:
            return self._serial, place.state
        return self.budget.key(place.state, place.left, place.plan)

    def fill(self, place: Place, row: np.ndarray) -> None:
        """Writes the mask of a place whose :meth:`key` is not ``None`` into ``row``, which may be longer than the automaton's masks."""
        assert self.automaton is not None
        if self.budget is None:
            self.automaton.fill_mask(place.state, row[: self.automaton.words])
        else:
            self.budget.fill(place.state, place.left, place.plan, row)

    def child(self, place: Place, token: int) -> Place | None:
        """The place after ``token``; ``None`` where it may not follow."""
        if place.ended:
            return None
        plan: Plan = None
        left = place.left - 1
        if self.automaton is None:
            state = DONE if token in self.ends else FREE
        elif self.budget is None:
            state = self.automaton.advance(place.state, token)
        elif not self._fits(place, token):
            return None
        else:
            state, plan = self.budget.advance(place.state, place.plan, token, left)
        return None if state == DEAD else Place(place.context.extend(token), state, left, place.start, plan)

    def _fits(self, place: Place, token: int) -> bool:
        """Whether the budget, which binds or not, lets ``token`` follow; asked about tokens of any kind."""
        assert self.automaton is not None and self.budget is not None
        if not self.budget.binds(place.state, place.left):
            return True
        row = np.zeros(self.automaton.words, np.int32)
        self.budget.fill_mask(place.state, place.left, place.plan, row)
        return token >> 5 < len(row) and bool(int(row[token >> 5]) >> (token & 31) & 1)

    def forced(self, place: Place) -> list[int]:
        """Tokens that must follow, in the tokenizer's own segmentation; empty where nothing is certain."""
        if self.automaton is None or place.ended:
            return []
        return self.automaton.forced_tokens(place.state)
