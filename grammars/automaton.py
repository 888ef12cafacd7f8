"""The compiled constraint: an automaton over tokens whose states are integers and values.

``advance(state, token)`` is a pure function; nothing is ever rolled back; a beam, a particle, a draft tree or
a batch row forks for free. Equal parser configurations are the same state. Whatever depends on a state only
(its mask, its forced continuation, its shortest completion) is computed once and kept within bounds.
"""

from __future__ import annotations

import heapq
import math
import weakref
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .bytetable import ByteTable
from .completion import Completer
from .errors import ConstraintError, DeadEnd, LimitError, VocabularyError
from .limits import Limits
from .masks import MaskMaker
from .parser import Parser
from .threads import Stepper, Threads

if TYPE_CHECKING:
    from .constraint import Constraint
    from .rules import Rule
    from .vocabulary import Vocabulary

__all__ = ["Automaton"]

_SEARCH = 20_000
_STEPS = 100_000  # of tokens that are remembered
_PROGRESS = 1_000  # states that must be new since the tables were begun, or they are too small for one text


class Automaton:
    """A language bound to a vocabulary. Made by :meth:`grammars.constraint.Constraint.compile`.

    Attributes:
        DEAD: the state of texts that have left the language.
        DONE: the state after an end-of-sequence token.
        start: the state of the empty text.
        vocabulary: what the token ids mean.
        words: length of a mask row, ``ceil(logits size / 32)``.

    One automaton may be used from several threads.
    """

    DEAD = 0
    DONE = 1

    def __init__(self, constraint: Constraint, vocabulary: Vocabulary, limits: Limits) -> None:
        self.vocabulary, self.limits, self.words = vocabulary, limits, vocabulary.words
        self._constraint = constraint
        self._origins: list[tuple[int, bytes]] = [(0, b""), (0, b"")]
        self._rows: OrderedDict[int, NDArray[np.int32]] = OrderedDict()
        self._eos = tuple(vocabulary.eos_token_ids)
        self._eos_set = frozenset(self._eos)
        self._threads: list[Threads | None] = [(), ()]
        self._steps: dict[tuple[int, int], int] = {}
        self._room, self._renewed = limits.arena, -_PROGRESS
        self._arena()
        if not self._stepper.start:
            raise ConstraintError("the language is empty, no text fits it")
        self.start = self._intern(self._stepper.start, 0, b"")

    # ------------------------------------------------------------ the arena
    def _arena(self) -> None:
        """Begins with empty tables."""
        lexer = self._lexer = self.vocabulary.lexer()
        with lexer.lock:
            self._lock = lexer.lock
            rule = self._constraint.build(lexer.pool)
            parser = self._parser = Parser(rule, lexer, self.limits)
            self._release = weakref.finalize(self, _released, rule, parser)
            self._release.atexit = False
            self._stepper = Stepper(parser, lexer)
            self._masks = MaskMaker(parser, lexer, self.vocabulary)
            self._table = ByteTable(self._stepper, self.vocabulary)
            self._forgetful = ByteTable(Stepper(parser, lexer, remember=False), self.vocabulary)
            self._costs: dict[Threads, int] = {}
            self._completer = Completer(parser, lexer)
            self._completions: dict[int, tuple[int, ...]] = {}
            self._ids: dict[Threads, int] = {}

    def _renew(self) -> None:
        """Begins a fresh arena when the tables are full. State numbers stay good: what is behind one is found
        again by replaying its bytes when it is asked for."""
        if self._lexer.full or len(self._parser) > self._room or len(self._ids) > self._room:
            if len(self._origins) - self._renewed < _PROGRESS:  # what is in use fills them by itself
                self._room *= 2
                if self._lexer.full:
                    self._lexer.stretch()
                return
            self._renewed = len(self._origins)
            self._threads = [(), (), *[None] * (len(self._threads) - 2)]
            self._release()
            self._arena()
        elif len(self._table) > self.limits.arena:
            self._table = ByteTable(self._stepper, self.vocabulary)

    # ------------------------------------------------------------ states
    def _intern(self, threads: Threads, parent: int, data: bytes) -> int:
        """The number of a configuration, reached from state ``parent`` by ``data``."""
        if not threads:
            return self.DEAD
        found = self._ids.get(threads)
        if found is None:
            found = self._ids[threads] = len(self._threads)
            self._threads.append(threads)
            self._origins.append((parent, data))
        return found

    def _configuration(self, state: int) -> Threads:
        """The configuration behind ``state``; ``()`` for DEAD and DONE."""
        if not 0 <= state < len(self._threads):
            raise DeadEnd(f"{state} is not a state of this automaton; states come from start, advance and advance_bytes")
        threads = self._threads[state]
        if threads is None:
            trail = []
            while threads is None:
                trail.append(state)
                parent, _ = self._origins[state]
                threads = self._stepper.start if parent == self.DEAD else self._threads[parent]
                state = parent
            for s in reversed(trail):
                threads = self._stepper.run(threads, self._origins[s][1])
                self._threads[s] = threads
                self._ids.setdefault(threads, s)
        return threads

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or :attr:`DEAD` where the language does not allow it.

        Special tokens are never text; an end-of-sequence token leads to :attr:`DONE` where the text may end.
        """
        step = state, token
        found = self._steps.get(step)
        if found is None:
            if token in self._eos_set:
                return self.DONE if state == self.DONE or self.accepts(state) else self.DEAD
            if not self.vocabulary.is_text(token):
                return self.DEAD
            found = self.advance_bytes(state, self.vocabulary.tokens[token])
            if len(self._steps) >= _STEPS:
                self._steps.clear()
            self._steps[step] = found
        return found

    def advance_bytes(self, state: int, data: bytes) -> int:
        """The state after the bytes ``data``, which need not be whole tokens or characters."""
        with self._lock:
            self._renew()
            threads = self._configuration(state)
            if not threads:
                return state if not data else self.DEAD
            return self._intern(self._stepper.run(threads, data), state, data)

    def allows(self, state: int, token: int) -> bool:
        """Whether ``token`` may come next; the bit that :meth:`fill_mask` sets."""
        return self.advance(state, token) != self.DEAD

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        if state == self.DONE:
            return True
        with self._lock:
            return self._stepper.accepts(self._configuration(state))

    def next_bytes(self, state: int) -> list[int]:
        """Bytes that may come next, ascending."""
        with self._lock:
            return self._stepper.next_bytes(self._configuration(state))

    # ------------------------------------------------------------ masks
    def mask(self, state: int) -> NDArray[np.int32]:
        """The token mask of ``state``: read-only int32[words], bit ``t % 32`` of word ``t // 32`` for token ``t``.

        Rows are kept (the last used, up to ``limits.cache_bytes``) and shared: do not write to them.

        Raises:
            DeadEnd: ``state`` is :attr:`DEAD`.
        """
        rows = self._rows
        row = rows.get(state)
        if row is not None:
            with suppress(KeyError):  # another thread may just have dropped it
                rows.move_to_end(state)
        else:
            with self._lock:
                row = rows[state] = self._make_mask(state)
                if len(rows) * 4 * self.words > self.limits.cache_bytes:
                    rows.popitem(last=False)
        return row

    def fill_mask(self, state: int, row: NDArray[np.int32]) -> None:
        """Writes the token mask of ``state`` into ``row``, int32[words] (as in llguidance and xgrammar)."""
        mask = self.mask(state)
        if row.shape != mask.shape:
            raise ConstraintError(f"a mask row of this vocabulary is int32[{self.words}], not an array of shape {row.shape}")
        row[:] = mask

    def _make_mask(self, state: int) -> NDArray[np.int32]:
        if state == self.DEAD:
            raise DeadEnd("no token can follow: the text has left the language")
        row = np.empty(self.words, np.uint32)
        threads = self._configuration(state)
        found: int | None = None
        if not threads or self._parser.greedy:
            row[:] = 0
            if threads:
                self._table.mask(threads, row)
        else:
            found = self._masks.mask(threads, row)
        ends = state == self.DONE or (self._stepper.accepts(threads) if found is None else found & 1)
        if ends:
            for token in self._eos:
                row[token >> 5] |= np.uint32(1 << (token & 31))
        if not ((ends and self._eos) or (found is not None and found & 2) or row.any()):
            raise VocabularyError("no token of this vocabulary can write what must come next")
        row.setflags(write=False)
        return row.view(np.int32)

    def successors(self, state: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Every allowed text token and the state it leads to (end-of-sequence tokens are not listed): int32[k], int64[k]."""
        with self._lock:
            self._renew()
            threads = self._configuration(state)
            if not threads:
                return np.empty(0, np.int32), np.empty(0, np.int64)
            tokens, local = self._table.successors(threads)
            if not len(tokens):
                return tokens, np.empty(0, np.int64)
            example = np.empty(int(local.max()) + 1, np.int64)  # local numbers are small: no sorting
            example[local] = np.arange(len(local))
            states = np.zeros(len(example), np.int64)
            for n in np.flatnonzero(np.bincount(local)).tolist():
                states[n] = self._intern(self._table.configurations[n], state, self.vocabulary.tokens[tokens[example[n]]])
            return tokens, states[local]

    def completion_costs(self, state: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Every allowed text token, and the tokens (without end of sequence) of a shortest completion behind it: int32[k], int64[k].

        As :meth:`successors` and :meth:`distance` together, but cheap also where the language remembers what was
        written (``uniqueItems``): the costs there are those behind a shortest lexeme, and two tokens more.
        """
        with self._lock:
            self._renew()
            table = self._forgetful
            if len(table) > self.limits.arena:
                table = self._forgetful = ByteTable(table.stepper, self.vocabulary)
            threads = self._configuration(state)
            if not threads:
                return np.empty(0, np.int32), np.empty(0, np.int64)
            forgotten = table.stepper.forget(threads)
            tokens, local = table.successors(forgotten)
            costs = np.zeros(int(local.max(initial=0)) + 1, np.int64)
            for n in np.flatnonzero(np.bincount(local)).tolist():
                costs[n] = self._cost(table.configurations[n])
            costs = costs[local]
            return (tokens, costs) if forgotten == threads and not self._parser.remembers else self._corrected(state, tokens, costs)

    def completion_bound(self, state: int) -> float:
        """A bound on the costs of :meth:`completion_costs` that takes much less work; infinite where none is known.

        Holds also for ``state`` itself: so many tokens (without end of sequence) complete it.
        """
        with self._lock:
            self._renew()
            parser = self._parser
            if parser.greedy or parser.remembers:
                return math.inf
            reached = self._masks.reached(self._configuration(state))
            if reached is None or parser.remembers:
                return math.inf
            return max(map(self._completer.most, reached), default=0)

    def _corrected(self, state: int, tokens: NDArray[np.int32], costs: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Costs of the tokens that are allowed indeed; those that span several lexemes may differ where the first one matters."""
        known = np.full(32 * self.words, -1, np.int64)
        known[tokens] = costs
        allowed = np.flatnonzero(np.unpackbits(self.mask(state).view(np.uint8), bitorder="little"))
        allowed = allowed[~np.isin(allowed, self._eos)]
        for token in allowed[known[allowed] < 0].tolist():
            known[token] = self.distance(self.advance(state, token))
        return allowed.astype(np.int32), known[allowed]

    def _cost(self, threads: Threads) -> int:
        cost = self._costs.get(threads)
        if cost is None:
            cost = self._costs[threads] = len(self.vocabulary.fewest_tokens(self._shortest_bytes(threads, self._forgetful.stepper)))
        return cost + 2 * self._parser.remembers

    # ------------------------------------------------------------ what must or can follow
    def forced_bytes(self, state: int) -> bytes:
        """The bytes that every continuation of ``state`` begins with (up to where the text could end)."""
        out = bytearray()
        with self._lock:
            threads = self._configuration(state)
            seen = {threads}
            while threads and not self._stepper.accepts(threads):
                following = self._stepper.next_bytes(threads)
                if len(following) != 1:
                    break
                out.append(following[0])
                threads = self._stepper.step(threads, following[0])
                if threads in seen:
                    break
                seen.add(threads)
        return bytes(out)

    def forced_tokens(self, state: int) -> list[int]:
        """Tokens that must come next, in the tokenizer's own (canonical) segmentation.

        Trailing tokens that the tokenizer might merge with text still unknown are left out.
        """
        data = self.forced_bytes(state)
        if not data:
            return []
        tokens = self.vocabulary.encode(data)
        end = self.advance_bytes(state, data)
        if self.next_bytes(end):
            safe = self._lexer.mergeable_from(data)
            length = 0
            for n, token in enumerate(tokens):
                length += len(self.vocabulary.tokens[token])
                if length > safe:
                    return tokens[:n]
        return tokens

    def shortest_completion(self, state: int) -> list[int]:
        """Token ids (without end of sequence) that finish the text soonest.

        The text is a shortest one in bytes, the segmentation one with fewest tokens.

        Raises:
            DeadEnd: ``state`` is :attr:`DEAD`.
        """
        found = self._completions.get(state)
        if found is None:
            if state == self.DEAD:
                raise DeadEnd("no text can be completed from here: it has left the language")
            with self._lock:
                data = self._shortest_bytes(self._configuration(state), self._stepper)
            found = self._completions[state] = tuple(self.vocabulary.fewest_tokens(data))
        return list(found)

    def _shortest_bytes(self, threads: Threads, stepper: Stepper) -> bytes:
        if not threads or stepper.accepts(threads):
            return b""
        data = self._completer.shortest(threads)
        if stepper.accepts(stepper.run(threads, data)):
            return data
        return self._search_bytes(threads)

    def _search_bytes(self, threads: Threads) -> bytes:
        """A* over bytes, for greedy lexing, where lexemes put side by side may read as another one."""
        estimate = self._completer.estimate
        count = 0
        heap: list[tuple[float, int, bytes, Threads]] = [(estimate(threads), 0, b"", threads)]
        seen = {threads}
        while heap and count < _SEARCH:
            _, _, text, at = heapq.heappop(heap)
            if self._stepper.accepts(at):
                return text
            known: set[tuple[int, ...]] = set()
            for byte in self._stepper.next_bytes(at):
                signature = self._stepper.signature(at, byte)
                if signature in known:
                    continue
                known.add(signature)
                to = self._stepper.step(at, byte)
                if to and to not in seen:
                    seen.add(to)
                    count += 1
                    heapq.heappush(heap, (len(text) + 1 + estimate(to), count, text + bytes([byte]), to))
        raise LimitError("search", _SEARCH, "while looking for a shortest completion")

    def distance(self, state: int) -> int:
        """Tokens of :meth:`shortest_completion`."""
        return len(self.shortest_completion(state))

    def describe(self, state: int) -> list[str]:
        """What may come next, in words: names of the lexemes possible here."""
        with self._lock:
            names: dict[str, Any] = {}
            for j, x, _ in self._configuration(state):
                if self._parser.complete(j) and x == self._parser.start_of(j):
                    names["the end"] = None
                for _, terminal, _ in self._parser.slots(j):
                    names[terminal.name or self._lexer.pool.show(terminal.expr)] = None
        return list(names)


def _released(rule: Rule, parser: Parser) -> None:
    """What an arena leaves is freed at once, since nothing points in circles any more."""
    parser.release()
    rule.release()
