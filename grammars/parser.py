"""An Earley parser whose item sets are interned.

Classic Earley items point back to an input position. Here an item is ``(q, r)``: a state ``q`` of a rule and
a *return address* ``r = (kernel, rule)``, "when this rule ends, go on with the items of that kernel that
wait for it". Kernels (the items after a lexeme, before prediction) are interned by content, so equal parser
configurations are the same integer, whatever text led there, and everything about a kernel (its closure, the
lexemes that may follow, where each leads) is computed once. Left recursion, ambiguity and empty rules are
Earley's; right recursion keeps no trail, since a call in tail position hands its own return address on
(compare Leo, *A general context-free parsing algorithm running in linear time on every LR(k) grammar
without using lookahead*, 1991).

A *parser state* ``j`` is a kernel with some of its *slots*, the lexemes that are still possible. The work is done
by :mod:`grammars.kernels.earley` over flat tables; what Python does is to expand rule states, once each, when the
kernels ask for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import LimitError
from .kernels import earley
from .kernels.fields import (
    CAPTURE,
    EXPANDED,
    FINAL,
    LAST,
    LIMIT,
    N_ASKED,
    N_CHASE,
    N_KERNELS,
    N_PARSERS,
    N_RETURNS,
    PARSER,
    REMEMBERS,
    TOO_MANY,
)  # fmt: skip
from .kernels.memory import Tables
from .lexer import NO_ITEMS, NOTHING, Lexer
from .limits import Limits
from .rules import Capture, Rule, Skip, State, Symbol, Terminal

__all__ = ["Item", "Parser"]

Item = tuple[int, int]
_TEXTS = 20_000  # remembered gotos that depend on a text


class Parser:
    """Kernels and parser states of one grammar over one lexer; see the module's docstring."""

    def __init__(self, start: Rule, lexer: Lexer, limits: Limits) -> None:
        self.lexer, self.limits = lexer, limits
        hashes = dict.fromkeys(("return_hash", "kernel_hash", "parser_hash"), self._rehash)
        self.tables = Tables(PARSER, hashes | {"goto_keys": self._refill, "restrict_keys": self._refill})
        self.tables.count[LIMIT] = limits.item_set
        self.tables.count[N_RETURNS] = 1
        self.terminals: list[Terminal] = []
        self._terminal_ids: dict[Terminal, int] = {}
        self._rules: list[Rule] = []
        self._rule_ids: dict[Rule, int] = {}
        self._skip_ids: dict[Skip, int] = {}
        self._skip_terminals = 0
        self._last_skip: tuple[Skip | None, int] = (None, -1)
        self._names: list[tuple[Rule, Hashable]] = []
        self._name_ids: dict[tuple[Rule, Hashable], int] = {}
        self._expanded = bytearray()  # by rule state
        self._states: dict[int, State] = {}
        self._edges = 0
        self.greedy = False  # whether some terminal is of a greedy group
        self.remembers = False  # whether some edge depends on a lexeme's bytes
        self._gotos: dict[int, tuple[int, ...]] = {}
        self._texts: dict[tuple[int, int, bytes | None], tuple[int, ...]] = {}
        self._continuations: dict[int, list[Item]] = {}
        self.parsers = self.tables.parsers
        first = self.kernel([(self.rule_state(start, start.start), 0)])
        self.start = self._list(self._run(earley.FULL, first))

    def release(self) -> None:
        """Drops references that go in circles; the parser is of no use afterwards."""
        self.tables.rehash.clear()

    def __len__(self) -> int:
        return int(self.tables.count[N_KERNELS] + self.tables.count[N_PARSERS])

    # ------------------------------------------------------------ kernels' wishes
    def _run(self, operation: int, a: int, b: int = 0, items: NDArray[np.int32] = NO_ITEMS) -> int:
        """Calls the kernel until it has what it needs."""
        while True:
            status: int = earley.run(self.tables.context, self.lexer.tables.context, operation, a, b, items, *NOTHING)
            if status >= 0:
                return status
            self.resolve(status)

    def chase(self) -> None:
        """Makes the gotos that a mask is waiting for."""
        lexer = self.lexer.tables
        for j, accept in lexer.chase[: lexer.count[N_CHASE]].tolist():
            self._run(earley.GOTO, j, accept)

    def resolve(self, status: int = 0) -> None:
        """Expands the rule states that kernels asked for, answers what they asked of the lexer, and makes room.

        Raises:
            LimitError: an item set grew beyond its limit.
        """
        count = self.tables.count
        asked = int(count[N_ASKED])
        if asked:
            count[N_ASKED] = 0
            self._expand_all(self.lexer.tables.asked[:asked].tolist())
        if self.tables.grow():
            self.parsers = self.tables.parsers
        self.lexer.resolve(status)
        if status == TOO_MANY:
            raise LimitError("item_set", self.limits.item_set, "(the grammar is too ambiguous)")

    def _rehash(self, field: int, old: NDArray[Any]) -> None:
        self._run(earley.REHASH_PARSER, field)

    def _refill(self, field: int, old: NDArray[Any]) -> None:
        before = self.tables.arrays[field + 1]
        self.tables.clear(PARSER[field + 1][0], len(self.tables.arrays[field]))
        earley.run(self.tables.context, self.lexer.tables.context, earley.REFILL, field, 0, NO_ITEMS, NOTHING[0], old, before)

    # ------------------------------------------------------------ rules
    def rule_state(self, rule: Rule, key: Hashable) -> int:
        """The number of a rule's state."""
        q = self._name_ids.get((rule, key))
        if q is None:
            q = self._name_ids[rule, key] = len(self._names)
            if q >= self.limits.grammar_size:
                raise LimitError("grammar_size", self.limits.grammar_size, f"(in {rule.name})")
            self._names.append((rule, key))
            self._expanded.append(0)
            self.tables.reserve("states", q + 1)
        return q

    def rule_state_name(self, q: int) -> tuple[Rule, Hashable]:
        """The rule that ``q`` belongs to, and its key there."""
        return self._names[q]

    def expand(self, q: int) -> State:
        """The rule state ``q`` as its rule describes it; for those who search, the kernels work on tables."""
        found = self._states.get(q)
        if found is None:
            rule, key = self._names[q]
            found = self._states[q] = State([]) if type(key) is Capture else rule.expand(key)
        return found

    def _expand_all(self, todo: list[int]) -> None:
        """Expands rule states, and with them what their closure needs: the states behind their calls, and where these begin."""
        while todo:
            q = todo.pop()
            if not self._expanded[q]:
                self._expanded[q] = 1
                self._expand(q, todo)

    def _expand(self, q: int, todo: list[int]) -> None:
        """Asks the rule of ``q`` for its edges, and enters them; what is to be expanded next goes into ``todo``.

        Nothing of the answer is kept besides: there are many, and objects that live long are looked at by every collection of garbage.
        """
        rule, key = self._names[q]
        found = rule.expand(key)
        ids, terminals = self._name_ids, self._terminal_ids
        shifts: list[tuple[int, int]] = []
        calls: list[tuple[int, int]] = []
        for symbol, to in found.edges:
            target = ids.get((rule, to))
            if target is None:
                target = self.rule_state(rule, to)
                if type(to) is Capture:
                    self._capture(target, symbol)
            if isinstance(symbol, Terminal):
                t = terminals.get(symbol)
                shifts.append((self._terminal(symbol) if t is None else t, target))
                if found.ahead:
                    todo.append(target)
            else:
                n = self._rule(symbol)
                calls.append((n, target))
                todo += (target, ids[symbol, symbol.start])
        first, n = self._edges, len(shifts) + len(calls)
        if n:
            self.tables.reserve("edges", first + n)[first : first + n] = shifts + calls
            self._edges += n
        bits = EXPANDED | (FINAL if found.final else 0) | (LAST if found.final and not n else 0)
        skip = -1 if found.skip is None else self._skip(found.skip)
        self.tables.states[q] = bits, skip, first, len(shifts), first + len(shifts), len(calls)

    def _capture(self, q: int, symbol: Symbol) -> None:
        """Makes ``q`` the stand-in for a target that the lexeme's bytes decide."""
        if not isinstance(symbol, Terminal) or symbol.group:
            raise AssertionError("a capture stands behind a terminal of group 0 only: a rule breaks its contract")
        self.remembers = True
        self.tables.count[REMEMBERS] = 1
        self._expanded[q] = 1
        self.tables.states[q] = EXPANDED | CAPTURE, -1, 0, 0, 0, 0

    def _rule(self, rule: Rule) -> int:
        n = self._rule_ids.get(rule)
        if n is None:
            n = self._rule_ids[rule] = len(self._rules)
            self._rules.append(rule)
            self.tables.reserve("rules", n + 1)[n] = self.rule_state(rule, rule.start), rule.nullable
        return n

    def _terminal(self, terminal: Terminal) -> int:
        t = self._terminal_ids.get(terminal)
        if t is None:
            t = self._terminal_ids[terminal] = len(self.terminals)
            self.terminals.append(terminal)
            self.greedy = self.greedy or terminal.group > 0
            self.tables.reserve("terminals", t + 1)[t] = self.lexer.mirror.native(terminal.expr), terminal.group
            self.tables.reserve("priorities", t + 1)[t] = terminal.priority
        return t

    def _skip(self, skip: Skip) -> int:
        if skip is self._last_skip[0]:
            return self._last_skip[1]
        n = self._skip_ids.get(skip)
        if n is None:
            n = self._skip_ids[skip] = len(self._skip_ids)
            terminals = [self._terminal(t) for t in skip.terminals]
            first, end = self._skip_terminals, self._skip_terminals + len(terminals)
            self.tables.reserve("skips", n + 1)[n] = skip.once, first, len(terminals)
            self.tables.reserve("skip_terminals", end)[first:end] = terminals
            self._skip_terminals = end
        self._last_skip = skip, n
        return n

    # ------------------------------------------------------------ kernels
    def kernel(self, items: Sequence[Item]) -> int:
        """Interns items after a lexeme. Finished rules give way to what waits for them, so that equal situations get one id."""
        return self._run(earley.KERNEL, len(items), 0, np.array(items, np.int32).reshape(-1, 2))

    def items(self, kernel: int) -> list[Item]:
        """The items of a kernel."""
        first, n = self.tables.kernels[kernel, :2].tolist()
        return [(q, r) for q, r in self.tables.items[first : first + n].tolist()]

    def continuations(self, r: int) -> list[Item]:
        """Items to go on with when the rule that was called with return address ``r`` ends."""
        found = self._continuations.get(r)
        if found is None:
            found = self._continuations[r] = []
            w = int(self.tables.returns[r, 2])
            while w >= 0:
                q, back, w = self.tables.waiting[w].tolist()
                found.append((q, back))
        return found

    # ------------------------------------------------------------ parser states
    def complete(self, j: int) -> bool:
        """Whether the text may end at ``j`` before any byte of the next lexeme."""
        return bool(self.parsers.item(j, 3))

    def group(self, j: int) -> int:
        """The lexemes' group, 0 for any-match lexing."""
        return self.parsers.item(j, 4)

    def start_of(self, j: int) -> int:
        """The lexer state at the start of the next lexeme."""
        return self.parsers.item(j, 5)

    def slots(self, j: int) -> list[tuple[int, Terminal, bool]]:
        """The lexemes of ``j`` in the order of its lexer state's expressions: (slot, terminal, whether it is skipped)."""
        kernel, first, n = self.parsers[j, :3].tolist()
        base = int(self.tables.kernels[kernel, 2])
        out = []
        for position in self.tables.positions[first : first + n].tolist():
            t = int(self.tables.slots[base + position, 0])
            skipped = t < 0
            out.append((base + position, self.terminals[int(self.tables.skip_slots[-1 - t, 1]) if skipped else t], skipped))
        return out

    def captures(self, j: int) -> bool:
        """Whether what follows a lexeme of ``j`` may depend on its bytes."""
        return bool(self.parsers.item(j, 6))

    def _shifted(self, slot: int, text: bytes | None) -> list[Item]:
        """Items after the lexeme ``text`` of ``slot`` (``None``: a shortest one)."""
        items = []
        if text is None:
            text = self.lexer.pool.shortest(self.terminals[int(self.tables.slots[slot, 0])].expr) or b""
        w = int(self.tables.slots[slot, 1])
        while w >= 0:
            q, r, w = self.tables.slot_items[w].tolist()
            rule, key = self._names[q]
            items.append((self.rule_state(rule, key.function(text)) if isinstance(key, Capture) else q, r))
        return items

    def shift(self, slot: int, text: bytes | None) -> int:
        """The kernel after the lexeme ``text`` (``None``: a shortest one) of ``slot`` (not one that is skipped)."""
        return self.kernel(self._shifted(slot, text))

    def goto_text(self, j: int, accept: int, text: bytes | None) -> tuple[int, ...]:
        """As :meth:`goto`, where what follows depends on the lexeme's bytes (``None``: taken to be a shortest lexeme)."""
        key = (j, accept, text)
        found = self._texts.get(key)
        if found is None:
            slots, items = self.slots(j), []
            after: dict[int, None] = {}
            for i in self.lexer.accepted(accept):
                slot, _, skipped = slots[i]
                if skipped:
                    after.update(dict.fromkeys(self.after(j, i)))
                else:
                    items += self._shifted(slot, text)
            if items:
                after.update(dict.fromkeys(self._list(self._run(earley.FULL, self.kernel(items)))))
            if len(self._texts) >= _TEXTS:
                self._texts.clear()
            found = self._texts[key] = tuple(after)
        return found

    def restrict(self, j: int, keep: int) -> int:
        """``j`` with only the slots behind the lexer's kept id ``keep`` (0: all of them)."""
        return self._run(earley.RESTRICT, j, keep) if keep else j

    def goto(self, j: int, accept: int) -> tuple[int, ...]:
        """Parser states after a lexeme of ``j`` ended; ``accept`` is the lexer's id of the slots that end here.

        In a greedy group only the slots of highest priority count (all that share it).
        """
        key = j << 32 | accept
        found = self._gotos.get(key)
        if found is None:
            found = self._gotos[key] = self._list(self._run(earley.GOTO, j, accept))
        return found

    def after(self, j: int, i: int) -> tuple[int, ...]:
        """Parser states after the lexeme of the ``i``-th slot of ``j``, and no other, ended."""
        return self.goto(self.restrict(j, self.lexer.keeps((i,))), self.lexer.accepts((0,)))

    def _list(self, at: int) -> tuple[int, ...]:
        n = int(self.tables.lists[at])
        return tuple(self.tables.lists[at + 1 : at + 1 + n].tolist())
