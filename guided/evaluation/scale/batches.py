"""A batch of texts on one engine: all masks of a step in one call, on the call that the engine documents for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from grammars import fill_masks

from ..engines import Engine, Guided, LLGuidance, XGrammar

__all__ = ["Batch", "make_batch"]


class Batch(ABC):
    """``rows`` texts under the schema that ``engine`` has compiled.

    Attributes:
        masks: int32[rows, words], what ``fill()`` wrote last.
        fill: computes the masks of all rows.
    """

    fill: Callable[[], object]

    def __init__(self, engine: Engine, rows: int) -> None:
        self.engine, self.rows = engine, rows
        self.masks = np.zeros((rows, engine.vocabulary.words), dtype=np.int32)

    @abstractmethod
    def begin(self, row: int) -> None:
        """Goes to the start of a text in that row."""

    @abstractmethod
    def advance(self, row: int, token: int) -> None:
        """Takes a token in that row."""

    def allows(self, row: int, token: int) -> bool:
        """Whether the mask of that row has ``token``."""
        return bool(int(self.masks[row, token >> 5]) >> (token & 31) & 1)


class _Guided(Batch):
    """:func:`grammars.fill_masks`."""

    def __init__(self, engine: Guided, rows: int) -> None:
        super().__init__(engine, rows)
        automaton = engine.automaton
        assert automaton is not None
        self.automaton, self.states = automaton, [automaton.start] * rows
        self.fill = lambda: fill_masks(automaton, self.states, self.masks)

    def begin(self, row: int) -> None:
        self.states[row] = self.automaton.start

    def advance(self, row: int, token: int) -> None:
        self.states[row] = self.automaton.advance(self.states[row], token)


class _LLGuidance(Batch):
    """``LLExecutor``, its masks written through a kept pointer."""

    def __init__(self, engine: LLGuidance, rows: int) -> None:
        super().__init__(engine, rows)
        executor, pointer, count = engine.library.LLExecutor(), self.masks.ctypes.data, self.masks.shape[1] * 4
        self.matchers: list[tuple[Any, int]] = [(engine.matcher(), i) for i in range(rows)]
        self.fill = lambda: executor.unsafe_compute_mask_ptr(self.matchers, pointer, count, rows)
        self._make = engine.matcher

    def begin(self, row: int) -> None:
        self.matchers[row] = (self._make(), row)

    def advance(self, row: int, token: int) -> None:
        self.matchers[row][0].consume_token(token)


class _XGrammar(Batch):
    """``BatchGrammarMatcher``."""

    def __init__(self, engine: XGrammar, rows: int) -> None:
        super().__init__(engine, rows)
        together = engine.library.BatchGrammarMatcher()
        self.matchers = [engine.matcher() for _ in range(rows)]
        self.fill = lambda: together.batch_fill_next_token_bitmask(self.matchers, self.masks)
        self._make = engine.matcher

    def begin(self, row: int) -> None:
        self.matchers[row] = self._make()

    def advance(self, row: int, token: int) -> None:
        self.matchers[row].accept_token(token)


class _Single(Batch):
    """One text on the engine's own call for one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, 1)
        self.masks = engine.row[None]
        self.begin(0)

    def begin(self, row: int) -> None:
        self.engine.begin()
        self.fill = self.engine.fill

    def advance(self, row: int, token: int) -> None:
        self.engine.advance(token)


def make_batch(engine: Engine, rows: int) -> Batch | None:
    """A batch of ``rows`` texts at their start; ``None`` where the engine has no call for a batch."""
    if rows == 1:
        return _Single(engine)
    if isinstance(engine, Guided):
        return _Guided(engine, rows)
    if isinstance(engine, LLGuidance):
        return _LLGuidance(engine, rows)
    return _XGrammar(engine, rows) if isinstance(engine, XGrammar) else None
