"""Closing in time: a token budget under which the text is always complete.

With ``left`` tokens to go (the EOS included), a token is allowed only if what then remains suffices for a shortest completion and
its EOS::

    need(s)    = len(shortest_completion(s)) + 1
    allowed(t) : need(advance(s, t)) <= left - 1

``need(start) <= max_tokens`` is checked before anything is generated. From then on every step has a *plan*, a completion that fits into
what is left, and the plan's first token is allowed too, so the text is complete when the budget ends, whatever the model prefers. The
plan is the state's own shortest completion wherever that fits; only where it does not (it is the shortest in bytes, and two texts of
equal length may differ in tokens) is the rest of the last plan carried along.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from grammars.errors import ConstraintError

from .masks import serial
from .registry import method

if TYPE_CHECKING:
    from grammars.automaton import Automaton

__all__ = ["Budget", "Plan"]

Plan = tuple[int, ...] | None  # a completion that fits into what is left; None: the state's own shortest one does


@method(
    "token budget",
    law="lossy",
    target="as local masking while every allowed token can still be completed; then only tokens that close in time, renormalised",
    cost="one shortest completion for each distinct successor of a state, once a state",
    use="guided.generate(..., max_tokens=N), GuidedLogitsProcessor(max_new_tokens=N); budget=False switches it off",
)
class Budget:
    """What a token budget forbids at the states of one automaton. Everything is computed once a state and kept.

    Args:
        automaton: whose states are asked about.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.serial = serial(automaton)
        self._need: dict[int, int] = {}
        self._worst: dict[int, int] = {}
        self._bounds: dict[int, float] = {}

    def need(self, state: int) -> int:
        """Tokens of a shortest completion from ``state``, its EOS included."""
        found = self._need.get(state)
        if found is None:
            found = self._need[state] = len(self.automaton.shortest_completion(state)) + 1
        return found

    def check(self, max_tokens: int) -> None:
        """Raises a :class:`ConstraintError` if not even the shortest sentence fits into ``max_tokens``."""
        need = self.need(self.automaton.start)
        if need > max_tokens:
            raise ConstraintError(
                f"the shortest text that fits the constraint needs {need} tokens (its end token included) and the budget is {max_tokens}: "
                f"allow at least {need} tokens, or switch the budget off to let the text be cut"
            )

    def _successors(self, state: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens that may follow (no EOS) and what each needs afterwards."""
        tokens, costs = self.automaton.completion_costs(state)
        return tokens, costs + 1

    def binds(self, state: int, left: int) -> bool:
        """Whether some token that the language allows at ``state`` is too long for ``left`` tokens."""
        worst = self._worst.get(state)
        if worst is None:
            if self._bound(state) + 1 <= left - 1:
                return False
            worst = self._worst[state] = int(self._successors(state)[1].max(initial=0))
        return worst > left - 1

    def _bound(self, state: int) -> float:
        """No completion behind ``state``, or from there, needs more tokens (without EOS): tells at once that a budget is far off."""
        found = self._bounds.get(state)
        if found is None:
            found = self._bounds[state] = self.automaton.completion_bound(state)
        return found

    def _first(self, state: int, plan: Plan) -> int | None:
        """First token of the plan at ``state``; ``None`` where the plan is the EOS."""
        tokens = self.automaton.shortest_completion(state) if plan is None else plan
        return tokens[0] if tokens else None

    def fill_mask(self, state: int, left: int, plan: Plan, row: np.ndarray) -> None:
        """The mask of ``state`` without the tokens that ``left`` forbids, as :meth:`Automaton.fill_mask` lays it out."""
        self.automaton.fill_mask(state, row)
        tokens, needs = self._successors(state)
        bad = tokens[needs > left - 1].astype(np.int64)
        bad = bad[bad != self._first(state, plan)]
        np.bitwise_and.at(row.view(np.uint32), bad >> 5, ~(np.uint32(1) << (bad & 31).astype(np.uint32)))

    def key(self, state: int, left: int, plan: Plan) -> Hashable:
        """What the mask of a row depends on: the key of :meth:`~samplers.masks.MaskTable.select`."""
        if self.binds(state, left):
            return self.serial, state, left, self._first(state, plan)
        return self.serial, state

    def fill(self, state: int, left: int, plan: Plan, row: np.ndarray) -> None:
        """Writes the mask of a row, whether the budget binds or not, into ``row``, which may be longer than the vocabulary's masks."""
        row = row[: self.automaton.words]
        if self.binds(state, left):
            self.fill_mask(state, left, plan, row)
        else:
            self.automaton.fill_mask(state, row)

    def advance(self, state: int, plan: Plan, token: int, left: int) -> tuple[int, Plan]:
        """State and plan after ``token``, with ``left`` tokens to go after it."""
        after = self.automaton.advance(state, token)
        if after in (self.automaton.DEAD, self.automaton.DONE) or self._bound(after) + 1 <= left or self.need(after) <= left:
            return after, None
        return after, tuple(self.automaton.shortest_completion(state) if plan is None else plan)[1:]
