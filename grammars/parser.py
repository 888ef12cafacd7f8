"""An Earley parser whose item sets are interned.

Classic Earley items point back to an input position. Here an item is ``(q, r)``: a state ``q`` of a rule and
a *return address* ``r = (kernel, rule)``, "when this rule ends, go on with the items of that kernel that
wait for it". Kernels (the items after a lexeme, before prediction) are interned by content, so equal parser
configurations are the same integer, whatever text led there, and everything about a kernel (its closure, the
lexemes that may follow, where each leads) is computed once. Left recursion, ambiguity and empty rules are
Earley's; right recursion keeps no trail, since a call in tail position hands its own return address on
(compare Leo, *A general context-free parsing algorithm running in linear time on every LR(k) grammar
without using lookahead*, 1991).

A *parser state* ``j`` is a kernel with a tuple of *slots*: the lexemes that are still possible. A slot is
a terminal's id, or ``-1 - n`` for the n-th entry of :attr:`Parser.skips` (a lexeme to be skipped).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from .errors import LimitError
from .kernels.walk import lookup
from .lexer import Lexer, grown
from .limits import Limits
from .rules import Rule, Skip, State, Terminal

__all__ = ["Closure", "Parser"]

Item = tuple[int, int]


class RuleState:
    """An expanded rule state: edges by terminal id and by rule."""

    __slots__ = ("calls", "final", "last", "shifts", "skip", "source")

    def __init__(self, source: State, shifts: list[Item], calls: list[tuple[Rule, int]]) -> None:
        self.source, self.shifts, self.calls = source, shifts, calls
        self.final, self.skip = source.final, source.skip
        self.last = self.final and not shifts and not calls


class Closure:
    """What follows from a kernel.

    Attributes:
        shifts: terminal id -> items after it.
        waiting: rule -> items after it, for rules called in this kernel.
        complete: the whole text may end here.
        skips: pairs of a :class:`~grammars.rules.Skip` and the terminals that may follow it (``None``: all).
    """

    __slots__ = ("complete", "shifts", "skips", "waiting")

    def __init__(self) -> None:
        self.shifts: dict[int, list[Item]] = {}
        self.waiting: dict[Rule, dict[Item, None]] = {}
        self.complete = False
        self.skips: list[tuple[Skip, frozenset[int] | None]] = []


class Table:
    """int64 key -> int32 value in open addressing, laid out for the kernels; grows by doubling."""

    def __init__(self) -> None:
        self.keys: NDArray[np.int64] = np.full(256, -1, np.int64)
        self.values: NDArray[np.int32] = np.zeros(256, np.int32)
        self.used = 0

    def get(self, key: int) -> int:
        """The value, or -1."""
        at = lookup(self.keys, key)
        return int(self.values[at]) if at >= 0 else -1

    def put(self, key: int, value: int) -> None:
        if 2 * self.used >= len(self.keys):
            keys, values = self.keys, self.values
            self.keys = np.full(2 * len(keys), -1, np.int64)
            self.values = np.zeros(2 * len(keys), np.int32)
            for k in np.nonzero(keys >= 0)[0]:
                at = -1 - lookup(self.keys, keys[k])
                self.keys[at], self.values[at] = keys[k], values[k]
        at = lookup(self.keys, key)
        if at < 0:
            self.used += 1
            at = -1 - at
        self.keys[at], self.values[at] = key, value


class Parser:
    """Kernels and parser states of one grammar over one lexer; see the module's docstring."""

    def __init__(self, start: Rule, lexer: Lexer, limits: Limits) -> None:
        self.root, self.lexer, self.limits = start, lexer, limits
        self.terminals: list[Terminal] = []
        self._terminal_ids: dict[Terminal, int] = {}
        self._rule_states: list[tuple[Rule, Hashable]] = []
        self._rule_state_ids: dict[tuple[Rule, Hashable], int] = {}
        self._expanded: list[RuleState | None] = []
        self.returns: list[tuple[int, Rule | None]] = [(-1, None)]
        self._return_ids: dict[tuple[int, Rule], int] = {}
        self.kernels: list[tuple[Item, ...]] = []
        self._kernel_ids: dict[tuple[Item, ...], int] = {}
        self._closures: list[Closure | None] = []
        self._kernel_states: dict[int, tuple[int, ...]] = {}
        self.skips: list[tuple[Skip, Terminal, frozenset[int] | None]] = []
        self._skip_ids: dict[tuple[Skip, Terminal, frozenset[int] | None], int] = {}
        # parser states
        self.states: list[tuple[int, tuple[int, ...]]] = []
        self._state_ids: dict[tuple[int, tuple[int, ...], bool], int] = {}
        self.complete: list[bool] = []
        self.groups: list[int] = []
        self.start_of: NDArray[np.int32] = np.zeros(256, np.int32)
        self.gotos, self.restricts = Table(), Table()
        self.goto_lists: NDArray[np.int32] = np.zeros(1024, np.int32)
        self._goto_used = 0
        self._gotos: dict[tuple[int, int], tuple[int, ...]] = {}
        first = self.kernel([(self.rule_state(start, start.start), 0)])
        self.start = self.full(first)

    def __len__(self) -> int:
        return len(self.kernels) + len(self.states)

    # ------------------------------------------------------------ rules
    def rule_state(self, rule: Rule, key: Hashable) -> int:
        name = (rule, key)
        q = self._rule_state_ids.get(name)
        if q is None:
            q = self._rule_state_ids[name] = len(self._rule_states)
            if q >= self.limits.grammar_size:
                raise LimitError("grammar_size", self.limits.grammar_size, f"(in {rule.name})")
            self._rule_states.append(name)
            self._expanded.append(None)
        return q

    def expand(self, q: int) -> RuleState:
        """The rule state behind ``q``; asks the rule on the first visit."""
        found = self._expanded[q]
        if found is None:
            rule, key = self._rule_states[q]
            state = rule.expand(key)
            shifts: list[Item] = []
            calls: list[tuple[Rule, int]] = []
            for symbol, to in state.edges:
                target = self.rule_state(rule, to)
                if isinstance(symbol, Terminal):
                    shifts.append((self.terminal(symbol), target))
                else:
                    calls.append((symbol, target))
            found = self._expanded[q] = RuleState(state, shifts, calls)
        return found

    def terminal(self, terminal: Terminal) -> int:
        t = self._terminal_ids.get(terminal)
        if t is None:
            t = self._terminal_ids[terminal] = len(self.terminals)
            self.terminals.append(terminal)
        return t

    def rule_state_name(self, q: int) -> tuple[Rule, Hashable]:
        """The rule that ``q`` belongs to, and its key there."""
        return self._rule_states[q]

    # ------------------------------------------------------------ kernels
    def kernel(self, items: list[Item]) -> int:
        """Interns items after a lexeme. Finished rules are replaced by what waits for them, so that equal situations get one id."""
        out: dict[Item, None] = {}
        todo = list(items)
        while todo:
            item = todo.pop()
            if item in out:
                continue
            q, r = item
            state = self.expand(q)
            if state.last and r:
                after = self.continuations(r)
                if state.skip is None or all(self.expand(p).skip == state.skip for p, _ in after):
                    todo.extend(after)
                    continue
            out[item] = None
        key = tuple(sorted(out))
        k = self._kernel_ids.get(key)
        if k is None:
            if len(key) > self.limits.item_set:
                raise LimitError("item_set", self.limits.item_set, "(the grammar is too ambiguous)")
            k = self._kernel_ids[key] = len(self.kernels)
            self.kernels.append(key)
            self._closures.append(None)
        return k

    def continuations(self, r: int) -> Iterable[Item]:
        """Items to go on with when the rule that was called with return address ``r`` ends."""
        kernel, rule = self.returns[r]
        closure = self._closures[kernel]
        assert closure is not None and rule is not None
        return closure.waiting[rule]

    def _return(self, kernel: int, rule: Rule) -> int:
        r = self._return_ids.get((kernel, rule))
        if r is None:
            r = self._return_ids[kernel, rule] = len(self.returns)
            self.returns.append((kernel, rule))
        return r

    def closure(self, kernel: int) -> Closure:
        """Prediction and completion from a kernel."""
        found = self._closures[kernel]
        if found is None:
            found = self._closures[kernel] = Closure()
            bases = self._close(kernel, list(self.kernels[kernel]), found)
            self._find_skips(kernel, bases, found)
            if not found.complete and not found.shifts:
                raise AssertionError("a parser state without continuation: a rule breaks its contract")
        return found

    def _close(self, kernel: int, items: list[Item], out: Closure) -> list[Item]:
        """Earley's predictor and completer; fills ``out`` and returns the items that were not predicted."""
        predicted: set[Item] = set()
        seen = set(items)
        todo = list(items)
        bases = list(items)
        limit = self.limits.item_set

        def base(item: Item) -> None:
            if item not in seen:
                seen.add(item)
                todo.append(item)
                bases.append(item)

        while todo:
            q, r = todo.pop()
            state = self.expand(q)
            if state.final:
                if not r:
                    out.complete = True
                elif self.returns[r][0] != kernel:
                    for item in self.continuations(r):
                        base(item)
            for t, to in state.shifts:
                out.shifts.setdefault(t, []).append((to, r))
            for rule, to in state.calls:
                target = self.expand(to)
                if target.last and (target.skip is None or target.skip == state.skip):
                    entry = (self.rule_state(rule, rule.start), r)  # tail call: hand on the return address
                else:
                    out.waiting.setdefault(rule, {})[to, r] = None
                    entry = (self.rule_state(rule, rule.start), self._return(kernel, rule))
                if entry not in seen:
                    seen.add(entry)
                    predicted.add(entry)
                    todo.append(entry)
                if rule.nullable:
                    base((to, r))
            if len(seen) > limit:
                raise LimitError("item_set", limit, "(the grammar is too ambiguous)")
        return bases

    def _find_skips(self, kernel: int, bases: list[Item], out: Closure) -> None:
        by_skip: dict[Skip | None, list[Item]] = {}
        for item in bases:
            state = self.expand(item[0])
            if state.shifts or state.calls or state.final:
                by_skip.setdefault(state.skip, []).append(item)
        for skip, items in by_skip.items():
            if skip is None:
                continue
            follow: frozenset[int] | None = None
            if len(by_skip) > 1:
                part = Closure()
                self._close(kernel, items, part)
                follow = frozenset(part.shifts)
            if not skip.once or (out.shifts if follow is None else follow):
                out.skips.append((skip, follow))

    # ------------------------------------------------------------ parser states
    def full(self, kernel: int) -> tuple[int, ...]:
        """The parser states of a kernel with all its slots: one for each group of lexemes (usually one)."""
        found = self._kernel_states.get(kernel)
        if found is None:
            closure = self.closure(kernel)
            slots = list(closure.shifts)
            for skip, follow in closure.skips:
                for terminal in skip.terminals:
                    slots.append(-1 - self._skip(skip, terminal, follow))
            found = self._kernel_states[kernel] = self._grouped(kernel, slots, closure.complete)
        return found

    def _skip(self, skip: Skip, terminal: Terminal, follow: frozenset[int] | None) -> int:
        key = (skip, terminal, follow)
        n = self._skip_ids.get(key)
        if n is None:
            n = self._skip_ids[key] = len(self.skips)
            self.skips.append(key)
        return n

    def slot_terminal(self, slot: int) -> Terminal:
        return self.terminals[slot] if slot >= 0 else self.skips[-1 - slot][1]

    def _grouped(self, kernel: int, slots: list[int], complete: bool) -> tuple[int, ...]:
        groups: dict[int, list[int]] = {}
        for slot in slots:
            groups.setdefault(self.slot_terminal(slot).group, []).append(slot)
        if not groups:
            return (self.state(kernel, (), complete),) if complete else ()
        return tuple(self.state(kernel, tuple(part), complete and n == 0) for n, part in enumerate(groups.values()))

    def state(self, kernel: int, slots: tuple[int, ...], complete: bool = False) -> int:
        """Interns a parser state; ``complete``: the text may end before any byte of the next lexeme."""
        key = (kernel, slots, complete)
        j = self._state_ids.get(key)
        if j is None:
            j = self._state_ids[key] = len(self.states)
            self.states.append((kernel, slots))
            self.complete.append(complete)
            self.groups.append(self.slot_terminal(slots[0]).group if slots else 0)
            self.start_of = grown(self.start_of, j + 1, 0)
            self.start_of[j] = self.lexer.state(tuple(self.slot_terminal(s).expr for s in slots), start=complete)
        return j

    def restrict(self, j: int, keep: int) -> int:
        """``j`` with only the slots behind the lexer's kept id ``keep`` (0: all of them)."""
        if not keep:
            return j
        key = j << 32 | keep
        found = self.restricts.get(key)
        if found < 0:
            kernel, slots = self.states[j]
            found = self.state(kernel, self.lexer.restricted(slots, keep))
            self.restricts.put(key, found)
        return found

    def goto(self, j: int, accept: int) -> tuple[int, ...]:
        """Parser states after a lexeme of ``j`` ended; ``accept`` is the lexer's id of the slots that end here.

        In a greedy group only the slots of highest priority count (all that share it).
        """
        key = (j, accept)
        found = self._gotos.get(key)
        if found is None:
            kernel, slots = self.states[j]
            ended = [slots[i] for i in self.lexer.accepts.values[accept]]
            if self.groups[j]:
                best = max(self.slot_terminal(s).priority for s in ended)
                ended = [s for s in ended if self.slot_terminal(s).priority == best]
            found = self._gotos[key] = self._after(kernel, ended)
            end = self._goto_used + 1 + len(found)
            self.goto_lists = grown(self.goto_lists, end, 0)
            self.goto_lists[self._goto_used] = len(found)
            self.goto_lists[self._goto_used + 1 : end] = found
            self.gotos.put(j << 32 | accept, self._goto_used)
            self._goto_used = end
        return found

    def shift(self, j: int, slot: int) -> int | None:
        """The kernel after the lexeme of ``slot``; ``None`` for a lexeme that is skipped."""
        return None if slot < 0 else self.kernel(self.closure(self.states[j][0]).shifts[slot])

    def after(self, j: int, slot: int) -> tuple[int, ...]:
        """Parser states after the lexeme of one slot of ``j``."""
        return self._after(self.states[j][0], [slot])

    def _after(self, kernel: int, ended: list[int]) -> tuple[int, ...]:
        result: dict[int, None] = {}
        closure = self.closure(kernel)
        shifted = [item for slot in ended if slot >= 0 for item in closure.shifts[slot]]
        if shifted:
            result.update(dict.fromkeys(self.full(self.kernel(shifted))))
        for slot in ended:
            if slot < 0:
                result.update(dict.fromkeys(self._skipped(kernel, closure, *self.skips[-1 - slot])))
        return tuple(result)

    def _skipped(self, kernel: int, closure: Closure, skip: Skip, terminal: Terminal, follow: frozenset[int] | None) -> tuple[int, ...]:
        slots = [t for t in closure.shifts if follow is None or t in follow]
        if not skip.once:
            slots += [-1 - self._skip(skip, t, follow) for t in skip.terminals]
        return self._grouped(kernel, slots, closure.complete and not skip.once)
