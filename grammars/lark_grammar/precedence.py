"""Which terminal Lark's lexer takes where several match.

Lark compiles the terminals that the parser can use into one alternation, ordered by priority, then by the
greatest width, the length of the pattern and the name; the first that matches wins, *whatever its length*. A string
of the same priority that a pattern matches in full takes over where the pattern has matched just that (keywords
among identifiers). Our lexer takes the longest match and breaks ties by a number. The two agree once

- the numbers follow Lark's order, with keywords above the patterns that they are cut from (:func:`ranks`), and
- texts of a later terminal that begin with a match of an earlier one, so that Lark would never get there, are
  taken out of the later one's language (:func:`shadowed`), in the parser states where both may stand
  (:func:`neighbours`).

The second is done for each place where a terminal stands on a right-hand side, not for each parser state, and for
an ignored terminal (which may stand anywhere) with regard to other ignored ones only. Where that can make a
difference the front-end says so in its warnings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .backtracking import Match
from .loader import Symbol, TerminalPattern

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["Neighbours", "cut_by", "neighbours", "ranks", "scan_order", "shadowed"]

_STATES = 4000  # LR(0) states, beyond which every terminal counts as every other's neighbour

Occurrence = tuple[str, int, int]  # rule, number of the expansion, position in it


def scan_order(terminals: Sequence[TerminalPattern]) -> list[TerminalPattern]:
    """The order of Lark's alternation."""
    return sorted(terminals, key=lambda t: (-t.priority, -t.max_width, -t.value_length, t.name))


def ranks(terminals: Sequence[TerminalPattern], ignored: Collection[str] = ()) -> dict[str, int]:
    """A number for each terminal; of terminals that match the same text, Lark takes that of the highest.

    A string that an *ignored* pattern is the first to match in full is ignored with it.
    """
    order = scan_order(terminals)
    strings = [t for t in order if t.text is not None]
    taken: dict[str, list[str]] = {}
    lost: dict[str, None] = {}
    seen: set[str] = set()
    for terminal in order:
        pattern = re.compile(terminal.regexp) if terminal.text is None else None
        for string in strings if pattern is not None else ():
            if string.priority == terminal.priority and string.name not in seen and _takes(pattern, string.text or ""):
                seen.add(string.name)
                if terminal.name not in ignored:
                    taken.setdefault(terminal.name, []).append(string.name)
                elif string.flags <= terminal.flags:
                    lost[string.name] = None
    placed: dict[str, None] = {}
    for terminal in order:
        placed.update((name, None) for name in [*taken.get(terminal.name, ()), terminal.name] if name not in lost)
    placed.update(lost)
    return {name: len(placed) - i for i, name in enumerate(placed)}


def _takes(pattern: re.Pattern[str] | None, text: str) -> bool:
    match = pattern.match(text) if pattern is not None else None
    return match is not None and match.end() == len(text)


def cut_by(pool: Pool, match: Match) -> int:
    """Texts that a terminal matches the beginning of, but not the whole."""
    begun = pool.minus(pool.cat(match.expr, pool.nonnull(pool.anything)), pool.cat(match.blocked, pool.anything))
    return pool.minus(begun, match.expr)


def shadowed(pool: Pool, terminals: Sequence[TerminalPattern], matches: Mapping[str, Match]) -> dict[str, list[str]]:
    """For each terminal the earlier ones that cut into its longer texts (most grammars have none)."""
    exprs = {name: match.expr for name, match in matches.items()}
    order = [t for t in scan_order(terminals) if exprs[t.name] != pool.EMPTY]
    firsts = {t.name: _first_bytes(pool, exprs[t.name]) for t in order}
    out: dict[str, list[str]] = {}
    for i, later in enumerate(order):
        for earlier in order[:i]:
            if earlier.min_width >= later.max_width or not firsts[earlier.name] & firsts[later.name]:
                continue
            if earlier.text is not None and earlier.priority == later.priority:
                continue  # it is at least as wide as anything after it
            if not pool.is_empty(pool.both(exprs[later.name], cut_by(pool, matches[earlier.name]))):
                out.setdefault(later.name, []).append(earlier.name)
    return out


def _first_bytes(pool: Pool, expr: int) -> int:
    return sum(mask for mask, _ in pool.transitions(expr))


# ---------------------------------------------------------------- contexts
Item = tuple[int, int]  # production, dot


class _Automaton:
    """The LR(0) automaton of a grammar, as the contextual lexer sees it."""

    def __init__(self, rules: Mapping[str, Sequence[tuple[Symbol, ...]]], start: str) -> None:
        self.productions = [(name, n, expansion) for name, expansions in rules.items() for n, expansion in enumerate(expansions)]
        self.by_rule: dict[str, list[int]] = {}
        for p, (name, _, _) in enumerate(self.productions):
            self.by_rule.setdefault(name, []).append(p)
        self.states: list[list[Item]] = []
        self.gotos: list[dict[Symbol, int]] = []
        self._ids: dict[frozenset[Item], int] = {}
        self.state(frozenset((p, 0) for p in self.by_rule.get(start, ())))
        for s, items in enumerate(self.states):  # grows
            moves: dict[Symbol, set[Item]] = {}
            for p, dot in items:
                expansion = self.productions[p][2]
                if dot < len(expansion):
                    moves.setdefault(expansion[dot], set()).add((p, dot + 1))
            self.gotos[s] = {symbol: self.state(frozenset(kernel)) for symbol, kernel in moves.items()}
            if len(self.states) > _STATES:
                break

    def state(self, kernel: frozenset[Item]) -> int:
        if kernel not in self._ids:
            self._ids[kernel] = len(self.states)
            items, seen = list(kernel), set(kernel)
            for p, dot in items:  # grows
                expansion = self.productions[p][2]
                if dot < len(expansion) and not expansion[dot].is_terminal:
                    for q in self.by_rule.get(expansion[dot].name, ()):
                        if (q, 0) not in seen:
                            seen.add((q, 0))
                            items.append((q, 0))
            self.states.append(items)
            self.gotos.append({})
        return self._ids[kernel]

    def before_shift(self) -> list[set[int]]:
        """For each state those that reductions may lead to before the next terminal is shifted, itself among them."""
        after: dict[str, set[int]] = {}
        for moves in self.gotos:
            for symbol, target in moves.items():
                if not symbol.is_terminal:
                    after.setdefault(symbol.name, set()).add(target)
        steps: list[set[int]] = []
        for items in self.states:
            reduced = {self.productions[p][0] for p, dot in items if dot == len(self.productions[p][2])}
            steps.append({t for name in reduced for t in after.get(name, ())})
        out = []
        for s in range(len(self.states)):
            reached, todo = {s}, [s]
            while todo:
                for t in steps[todo.pop()] - reached:
                    reached.add(t)
                    todo.append(t)
            out.append(reached)
        return out


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Terminals that may stand at the same place of a text as some occurrence: in some parser states, and in all."""

    some: frozenset[str] = frozenset()
    every: frozenset[str] = frozenset()


def neighbours(rules: Mapping[str, Sequence[tuple[Symbol, ...]]], start: str) -> dict[Occurrence, Neighbours] | None:
    """The neighbours of each terminal on a right-hand side.

    ``None`` where the grammar is too big to tell: then every terminal is to count as every other's neighbour.
    """
    automaton = _Automaton(rules, start)
    if len(automaton.states) > _STATES:
        return None
    names = sorted({s.name for expansions in rules.values() for expansion in expansions for s in expansion if s.is_terminal})
    bit = {name: 1 << i for i, name in enumerate(names)}
    shifts = [sum({bit[s.name] for s in moves if s.is_terminal}) for moves in automaton.gotos]
    some, every = [0] * len(shifts), [-1] * len(shifts)
    for reached in automaton.before_shift():
        accepted = 0
        for s in reached:
            accepted |= shifts[s]
        for s in reached:
            some[s] |= accepted
            every[s] &= accepted
    found: dict[Occurrence, tuple[int, int]] = {}
    for s, items in enumerate(automaton.states):
        for p, dot in items:
            name, n, expansion = automaton.productions[p]
            if dot < len(expansion) and expansion[dot].is_terminal:
                a, b = found.get((name, n, dot), (0, -1))
                found[name, n, dot] = a | some[s], b & every[s]

    def named(mask: int) -> frozenset[str]:
        return frozenset(name for name in names if mask & bit[name])

    return {occurrence: Neighbours(named(a), named(b)) for occurrence, (a, b) in found.items()}
