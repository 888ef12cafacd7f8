"""Shortest completions: how a text can end soonest.

Costs are bytes. A rule state's cost is that of the cheapest path to the rule's end, where a called rule costs
its own cheapest sentence (Knuth, *A generalization of Dijkstra's algorithm*, 1977); a return address costs the
cheapest way out through its callers. Rules are looked into only as far as the search needs them, since there may be endlessly many.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

from .regex.remainder import remainder
from .rules import Capture, Rule, State, Symbol, Terminal

if TYPE_CHECKING:
    from .lexer import Lexer
    from .parser import Item, Parser
    from .regex.expr import Pool
    from .threads import Threads

__all__ = ["Completer", "Costs"]

INF = float("inf")
_VISIT = 8  # work of looking at one state, in expressions
Path = tuple[tuple[Symbol, Hashable], ...]


class Costs:
    """Shortest ways to the ends of rules.

    Args:
        expand: the state behind a key of a rule.
        pool: of the terminals' expressions.
    """

    def __init__(self, expand: Callable[[Rule, Hashable], State], pool: Pool) -> None:
        self.expand, self.pool = expand, pool
        self._rules: dict[Rule, float] = {}
        self._exact: set[Rule] = set()
        self._users: dict[Rule, set[Rule]] = {}
        self._ways: dict[tuple[Rule, Hashable], tuple[float, Path]] = {}

    def rule(self, rule: Rule) -> float:
        """Bytes of the shortest sentence of ``rule``.

        Rules that ``rule`` may call are looked into in the order of the bytes that stand before the call, and only while these are fewer
        than the best sentence found so far: rules may be without number (one for every depth of nesting).
        """
        if rule in self._exact:
            return self._rules[rule]
        before = {rule: 0.0}
        heap: list[tuple[float, int, Rule]] = [(0, 0, rule)]
        count = 0
        while heap:
            depth, _, current = heapq.heappop(heap)
            if depth >= self._rules.get(rule, INF):
                break
            if depth > before[current]:
                continue
            calls: dict[Rule, float] = {}
            cost, _ = self._search(current, current.start, calls)
            again: list[Rule] = []
            if cost < self._rules.get(current, INF):
                self._rules[current] = cost
                again = [user for user in self._users.get(current, ()) if user in before]
            for callee, at in calls.items():
                if depth + at < before.get(callee, INF):
                    before[callee] = depth + at
                    again.append(callee)
            for r in again:
                count += 1
                heapq.heappush(heap, (before[r], count, r))
        self._exact.add(rule)
        return self._rules.setdefault(rule, INF)

    def _search(self, rule: Rule, key: Hashable, calls: dict[Rule, float] | None = None) -> tuple[float, Path]:
        """Dijkstra from a state of ``rule`` to its end: (cost, path).

        With ``calls``, rules whose cost is not settled go into it, with the fewest bytes before the call, and count as what is known of
        them so far (endless at first).
        """
        heap: list[tuple[float, int, Hashable]] = [(0, 0, key)]
        best: dict[Hashable, float] = {key: 0}
        back: dict[Hashable, tuple[Hashable, Symbol]] = {}
        done: set[Hashable] = set()
        count = 0
        while heap:
            cost, _, at = heapq.heappop(heap)
            if at in done:
                continue
            done.add(at)
            self.pool.charge(_VISIT)
            state = self.expand(rule, at)
            if state.final:
                path: list[tuple[Symbol, Hashable]] = []
                while at in back:
                    previous, symbol = back[at]
                    path.append((symbol, at))
                    at = previous
                return cost, tuple(reversed(path))
            for symbol, to in rule.shortest(at, state) or state.edges:
                if isinstance(to, Capture):
                    assert isinstance(symbol, Terminal)
                    to = to.function(self.pool.shortest(symbol.expr) or b"")
                total = cost + self._symbol(rule, symbol, cost, calls)
                if total < best.get(to, INF):
                    best[to] = total
                    back[to] = (at, symbol)
                    count += 1
                    heapq.heappush(heap, (total, count, to))
        return INF, ()

    def _symbol(self, rule: Rule, symbol: Symbol, at: float, calls: dict[Rule, float] | None) -> float:
        if isinstance(symbol, Terminal):
            return self.pool.min_length(symbol.expr)
        if calls is None:
            return self.rule(symbol)
        if symbol not in self._exact:
            self._users.setdefault(symbol, set()).add(rule)
            calls[symbol] = min(at, calls.get(symbol, INF))
        return self._rules.get(symbol, INF)

    def way(self, rule: Rule, key: Hashable) -> tuple[float, Path]:
        """Cheapest way from a state of ``rule`` to its end: (bytes, path)."""
        found = self._ways.get((rule, key))
        if found is None:
            found = self._ways[rule, key] = self._search(rule, key)
        return found


class Completer(Costs):
    """Shortest ways to the end, for one parser."""

    def __init__(self, parser: Parser, lexer: Lexer) -> None:
        super().__init__(lambda rule, key: parser.expand(parser.rule_state(rule, key)), lexer.pool)
        self.parser, self.lexer = parser, lexer
        self._returns: dict[int, tuple[float, tuple[int, int] | None]] = {0: (0, None)}
        self._most: dict[int, float] = {}

    def state(self, q: int) -> tuple[float, Path]:
        """Cheapest way from rule state ``q`` to the end of its rule: (bytes, path)."""
        return self.way(*self.parser.rule_state_name(q))

    def text(self, symbol: Symbol) -> bytes:
        """A shortest sentence of a symbol."""
        out: list[bytes] = []
        stack: list[Symbol] = [symbol]
        while stack:
            s = stack.pop()
            if isinstance(s, Terminal):
                out.append(self.lexer.pool.shortest(s.expr) or b"")
            else:
                q = self.parser.rule_state(s, s.start)
                self.rule(s)
                stack.extend(part for part, _ in reversed(self.state(q)[1]))
        return b"".join(out)

    # ------------------------------------------------------------ configurations
    def way_out(self, r: int) -> float:
        """Bytes from the end of the rule called with return address ``r`` to the end of the text (Dijkstra over return addresses)."""
        if r in self._returns:
            return self._returns[r][0]
        heap: list[tuple[float, int, bool]] = [(0, r, False)]
        best = {r: 0.0}
        back: dict[int, tuple[int, int]] = {}
        while heap:
            cost, at, known = heapq.heappop(heap)
            if known:
                total = cost
                while at != r:
                    to = at
                    at, q = back[to]
                    self._returns[at] = (total - best[at], (q, to))
                return total
            if cost > best[at]:
                continue
            if at in self._returns:
                heapq.heappush(heap, (cost + self._returns[at][0], at, True))
                continue
            for q, to in self.parser.continuations(at):
                total = cost + self.state(q)[0]
                if total < best.get(to, INF):
                    best[to] = total
                    back[to] = (at, q)
                    heapq.heappush(heap, (total, to, False))
        raise AssertionError("a rule without a way out: a rule breaks its contract")

    def _leave(self, q: int, r: int) -> list[Symbol]:
        """Symbols from item ``(q, r)`` to the end of the text along a shortest way."""
        out = [symbol for symbol, _ in self.state(q)[1]]
        while r:
            self.way_out(r)
            step = self._returns[r][1]
            assert step is not None
            q, r = step
            out.extend(symbol for symbol, _ in self.state(q)[1])
        return out

    def most(self, j: int) -> float:
        """Bytes that suffice to complete any text that is inside of a lexeme of parser state ``j``, or at its end; may be infinite.

        Whichever lexemes are still possible, one of them is completed by as many bytes as may be missing of it, and the text by those
        behind it.
        """
        found = self._most.get(j)
        if found is None:
            found = self._most[j] = max((self._most_of(j, i, *slot) for i, slot in enumerate(self.parser.slots(j))), default=0.0)
        return found

    def _most_of(self, j: int, i: int, slot: int, terminal: Terminal, skipped: bool) -> float:
        parser = self.parser
        missing = remainder(self.pool, terminal.expr, self.lexer.remainders)
        if missing == INF:
            return INF
        if skipped:
            ways = (self._options(to, parser.start_of(to), b"", skipping=False) for to in parser.after(j, i))
            return missing + min(option[0] for options in ways for option in options)
        return missing + min(self.state(q)[0] + self.way_out(r) for q, r in parser.items(parser.shift(slot, None)))

    def estimate(self, threads: Threads) -> float:
        """Bytes of :meth:`shortest`, or fewer."""
        return min((option[0] for j, x, more in threads for option in self._options(j, x, more)), default=INF)

    def shortest(self, threads: Threads) -> bytes:
        """A text that takes every lexeme and rule along a shortest way to the end (``threads`` must not be dead).

        Greedy lexing may read the joined lexemes otherwise; callers check.
        """
        options = (option for j, x, more in threads for option in self._options(j, x, more))
        _, head, item = min(options, key=lambda option: (option[0], len(option[1])))
        return head + (b"".join(map(self.text, self._leave(*item))) if item else b"")

    def _options(self, j: int, x: int, more: Any, skipping: bool = True) -> Iterator[tuple[float, bytes, Item | None]]:
        """(cost, bytes up to the end of the lexeme, the item to go on from or None at the end of the text).

        Inside a lexeme that is skipped the bytes go on through the one behind it; a second one in a row is never on a shortest way.
        """
        parser, pool = self.parser, self.lexer.pool
        if parser.complete(j) and x == parser.start_of(j):
            yield 0, b"", None
        for i, ((slot, _, skipped), expr) in enumerate(zip(parser.slots(j), self.lexer.exprs(x), strict=True)):
            head = pool.shortest(expr)
            assert head is not None
            if not skipped:
                text = more + head if isinstance(more, bytes) else None if more is None else head
                for q, r in parser.items(parser.shift(slot, text)):
                    yield len(head) + self.state(q)[0] + self.way_out(r), head, (q, r)
            elif skipping:
                for to in parser.after(j, i):
                    for cost, text, item in self._options(to, parser.start_of(to), b"", skipping=False):
                        yield len(head) + cost, head + text, item
