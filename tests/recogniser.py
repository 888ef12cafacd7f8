"""A slow, plain recogniser for rules: the oracle for the parser core.

An Earley recogniser over bytes. At each position every lexeme that the items ask for is run to its
end by derivatives. Greedy groups take the longest match of all their lexemes that are allowed at the
position (ties: the highest priority); any-match lexemes may end wherever their language allows. Where an edge leads to a
capture, it is asked with the lexeme's bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from grammars.rules import Capture, Rule, Skip, State, Terminal

if TYPE_CHECKING:
    from grammars.regex.expr import Pool

__all__ = ["Recogniser"]

Item = tuple[Rule, Hashable, int, bool]  # rule, state, origin, whether its skip may still be used


class Recogniser:
    """Says whether a byte string is in the language of a rule."""

    def __init__(self, start: Rule, pool: Pool) -> None:
        self.start, self.pool = start, pool
        self._states: dict[tuple[Rule, Hashable], State] = {}
        self._ends: dict[tuple[int, int], list[int]] = {}

    def accepts(self, data: bytes) -> bool:
        self._ends.clear()
        sets: list[dict[Item, None]] = [{} for _ in range(len(data) + 1)]
        sets[0][self.start, self.start.start, 0, True] = None
        for k in range(len(data) + 1):
            if sets[k]:
                self._close(sets, k)
                self._scan(sets, k, data)
        final = sets[len(data)]
        return any(r is self.start and o == 0 and self._state(r, s).final for r, s, o, _ in final)

    def _state(self, rule: Rule, key: Hashable) -> State:
        state = self._states.get((rule, key))
        if state is None:
            state = self._states[rule, key] = rule.expand(key)
        return state

    def _close(self, sets: list[dict[Item, None]], k: int) -> None:
        """Prediction and completion until nothing is new (rules may be empty: hence the outer loop)."""
        items = sets[k]
        size = -1
        while size != len(items):
            size = len(items)
            for rule, key, origin, _ in list(items):
                state = self._state(rule, key)
                for symbol, _to in state.edges:
                    if isinstance(symbol, Rule):
                        items.setdefault((symbol, symbol.start, k, True))
                if state.final:
                    self._complete(sets, k, rule, origin)

    def _complete(self, sets: list[dict[Item, None]], k: int, rule: Rule, origin: int) -> None:
        for caller, key, start, _ in list(sets[origin]):
            for symbol, to in self._state(caller, key).edges:
                if symbol is rule:
                    sets[k].setdefault((caller, to, start, True))

    def _scan(self, sets: list[dict[Item, None]], k: int, data: bytes) -> None:
        """Adds to later sets what the lexemes that begin at ``k`` reach."""
        targets: dict[Terminal, list[Item]] = {}
        for rule, key, origin, fresh in sets[k]:
            state = self._state(rule, key)
            for symbol, to in state.edges:
                if isinstance(symbol, Terminal):
                    targets.setdefault(symbol, []).append((rule, to, origin, True))
            if fresh and isinstance(state.skip, Skip):
                for terminal in state.skip.terminals:
                    targets.setdefault(terminal, []).append((rule, key, origin, not state.skip.once))
        groups: dict[int, list[Terminal]] = {}
        for terminal in targets:
            groups.setdefault(terminal.group, []).append(terminal)
        for group, terminals in groups.items():
            for terminal, end in self._matches(group, terminals, data, k):
                for rule, to, origin, fresh in targets[terminal]:
                    key = to.function(data[k:end]) if isinstance(to, Capture) else to
                    sets[end].setdefault((rule, key, origin, fresh))

    def _matches(self, group: int, terminals: list[Terminal], data: bytes, k: int) -> Iterable[tuple[Terminal, int]]:
        ends = {terminal: self._run(terminal.expr, data, k) for terminal in terminals}
        if group == 0:
            return [(terminal, end) for terminal in terminals for end in ends[terminal]]
        longest = max((found[-1] for found in ends.values() if found), default=None)
        if longest is None:
            return []
        winners = [terminal for terminal in terminals if ends[terminal] and ends[terminal][-1] == longest]
        best = max(terminal.priority for terminal in winners)
        return [(terminal, longest) for terminal in winners if terminal.priority == best]

    def _run(self, expr: int, data: bytes, k: int) -> list[int]:
        found = self._ends.get((expr, k))
        if found is None:
            found = self._ends[expr, k] = []
            state = expr
            for end in range(k, len(data)):
                state = self.pool.derivative(state, data[end])
                if state == self.pool.EMPTY:
                    break
                if self.pool.nullable(state):
                    found.append(end + 1)
        return found
