r"""What Python's backtracking ``re`` would *match* at a position, as a byte language.

Lark's lexer takes what ``re.match`` returns: alternatives are tried in order, and a lazy quantifier stops as
early as the rest allows. So ``/".*?"/`` ends at the first quote, although its language holds texts with more. The
construction is that of leftmost-first automata (Cox, *Regular Expression Matching: the Virtual Machine
Approach*, 2009): the threads of the backtracking matcher run in parallel, in order of preference, and where one of
them matches those behind it are cut off. The texts after which some thread has just matched form a
language whose *longest* match in any input is exactly what the backtracking matcher finds.

:func:`terminal_expr` gives that language as an expression (lazily, as a leaf of the pool), or the plain language of
the pattern where both are the same. Lookbehind and lookahead work inside the match; a pattern whose match would
depend on the text in front of it is refused. A negative lookahead (or ``\b``) at the very end is taken apart: the
match without it, and the texts that it forbids, which the caller has to keep from occurring.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import RegexError
from .pattern_tree import Alt, Cat, Chars, Look, Node, Rep, children, has_lazy, has_look, language, parse_tree

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["Match", "terminal_expr", "terminal_match"]

_PAST_END = "a lookahead (or \\b) past the end of the match is not supported in a terminal"
_EXPLORED = 4000  # states that are looked at when a pattern is compiled


@dataclass(frozen=True, slots=True)
class Match:
    """What a pattern matches.

    Attributes:
        expr: the texts.
        blocked: texts that begin with one of ``expr`` which, followed by the rest, would *not* match, because of a
            negative lookahead at the pattern's end (the empty language: there is no such lookahead).
    """

    expr: int
    blocked: int


def terminal_expr(pool: Pool, pattern: str, *, first_match: bool = True) -> int:
    """:func:`terminal_match` for patterns that do not look past their end; others are refused."""
    match = terminal_match(pool, pattern, first_match=first_match)
    if match.blocked != pool.EMPTY:
        raise RegexError(_PAST_END, pattern, 0)
    return match.expr


def terminal_match(pool: Pool, pattern: str, *, first_match: bool = True) -> Match:
    """The language of a Python pattern without anchors, matched from some position on.

    Args:
        pool: where the expression is made.
        pattern: for Python's ``re``; flags are written inline.
        first_match: the texts that ``re.match`` would return, given a suitable rest; otherwise all texts that match in full.

    Raises:
        RegexError: the pattern is malformed, not regular, or depends on the text around the match.
    """
    tree = parse_tree(pool, pattern)
    program = _Program(pool, pattern, tree, first_match)
    if not program.looks:
        plain = language(pool, tree)
        return Match(plain if not first_match or plain == pool.EMPTY or program.same_as(plain) else program.expr(), pool.EMPTY)
    expr = program.explored()
    if not program.trailing:
        return Match(expr, pool.EMPTY)
    blocked = _Program(pool, pattern, tree, first_match, blocking=True).explored()
    if pool.is_empty(pool.minus(blocked, expr)):
        return Match(expr, pool.EMPTY)  # what is forbidden goes on to a longer match, as in \\w+\\b
    if not pool.is_empty(pool.both(expr, pool.cat(expr, pool.nonnull(pool.anything)))):
        raise RegexError(_PAST_END, pattern, 0)  # the matcher would fall back to a shorter match
    return Match(expr, blocked)


# ---------------------------------------------------------------- threads
Watches = tuple[tuple[bool, int], ...]  # lookaheads under way: (negated, expression of what they still look for)
Thread = tuple[int, int, Watches]  # rest of the current character, continuation, lookaheads
_MATCH, _BLOCKED = 0, 1


class _Program:
    """The threads of one pattern.

    Continuations are named by a digest of what they say, so that equal patterns have equal leaves; two have names of their
    own, the match and, where ``blocking`` is set, the end of a text that a lookahead behind the match forbids. (Then
    those texts are the language, not the matches.)
    """

    def __init__(self, pool: Pool, pattern: str, tree: Node, ordered: bool, blocking: bool = False) -> None:
        self.pool, self.source, self.ordered, self.blocking = pool, pattern, ordered, blocking
        self.trailing = False
        self.lazy, self.looks = has_lazy(tree), has_look(tree)
        self.steps: dict[int, tuple[Node, int, int | None, int]] = {}
        self._ids: dict[tuple[Node, int, int | None, int], int] = {}
        self._numbers: dict[Node, int] = {}
        self.behinds: dict[Look, int] = {}
        self.collect(tree)
        self.depth = max((look.width for look in self.behinds), default=0)
        self.first = self.continuation(tree, _MATCH)
        self._dead: set[_State] = set()

    def collect(self, node: Node) -> None:
        self._numbers[node] = len(self._numbers)
        if isinstance(node, Look) and node.behind:
            self.behinds[node] = len(self.behinds)
        for child in children(node):
            self.collect(child)

    def continuation(self, node: Node, after: int, lo: int | None = None, hi: int | None = None) -> int:
        """``node`` and then ``after``; a repetition with what is left of its bounds."""
        if isinstance(node, Rep) and lo is None:
            lo, hi = node.lo, node.hi
        key = (node, lo or 0, hi, after)
        found = self._ids.get(key)
        if found is None:
            content = repr((self._numbers[node], key[1], hi, after)).encode()
            found = self._ids[key] = int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")
            self.steps[found] = key
        return found

    def start(self) -> _State:
        behinds = tuple(self.pool.cat(self.pool.anything, look.expr) for look in self.behinds)
        threads: dict[Thread, None] = {}
        accept, _ = self.follow(self.first, (), behinds, 0, threads)
        return _State(self, tuple(threads), behinds, 0, accept)

    # ------------------------------------------------------------ moves
    def follow(self, first: int, watches: Watches, behinds: tuple[int, ...], depth: int, out: dict[Thread, None]) -> tuple[bool, bool]:
        """Appends the threads that come out of a continuation, best first.

        Returns whether a match is among them, and whether what comes after it is cut off.
        """
        todo: list[tuple[int, Watches]] = [(first, watches)]
        seen: set[tuple[int, Watches]] = set()
        accept = conditional = False
        while todo:
            entry = todo.pop()
            if entry in seen:
                continue
            seen.add(entry)
            at, watches = entry
            if at == _BLOCKED:
                return True, False
            if at == _MATCH:
                accept = not self.blocking
                if self.ordered and not watches and not conditional:
                    return accept, True
                self.forbid(watches, conditional, out)
                conditional |= bool(watches)
                continue
            node, lo, hi, after = self.steps[at]
            if isinstance(node, Chars):
                if node.expr != self.pool.EMPTY:
                    if conditional:
                        raise RegexError(_PAST_END, self.source, 0)
                    out[node.expr, after, watches] = None
            elif isinstance(node, Cat):
                for item in reversed(node.items):
                    after = self.continuation(item, after)
                todo.append((after, watches))
            elif isinstance(node, Alt):
                todo.extend((self.continuation(item, after), watches) for item in reversed(node.items))
            elif isinstance(node, Rep):
                todo.extend((c, watches) for c in reversed(self.repetition(node, lo, hi, after)))
            elif isinstance(node, Look):
                kept = self.look(node, watches, behinds, depth)
                if kept is not None:
                    todo.append((after, kept))
        return accept, conditional

    def forbid(self, watches: Watches, again: bool, out: dict[Thread, None]) -> None:
        """A match on condition that no lookahead under way finds its text.

        There must be no worse thread: the matcher would turn to it where the condition fails.
        """
        if again or not all(negated for negated, _ in watches):
            raise RegexError(_PAST_END, self.source, 0)
        self.trailing |= bool(watches)
        if self.blocking:
            out.update(dict.fromkeys((expr, _BLOCKED, ()) for _, expr in watches))

    def repetition(self, node: Rep, lo: int, hi: int | None, after: int) -> list[int]:
        """The ways to go on with a repetition, best first."""
        if hi == 0:
            return [after]
        again = self.continuation(node.item, self.continuation(node, after, max(lo - 1, 0), None if hi is None else hi - 1))
        if lo:
            return [again]
        return [after, again] if node.lazy else [again, after]

    def look(self, node: Look, watches: Watches, behinds: tuple[int, ...], depth: int) -> Watches | None:
        """The lookaheads under way after this assertion; ``None`` where it fails."""
        nullable = self.pool.nullable
        if node.behind:
            holds = nullable(behinds[self.behinds[node]])
            if not holds and depth < node.width:
                message = "a lookbehind (or \\b) that sees the text in front of the match is not supported in a terminal"
                raise RegexError(message, self.source, 0)
            return watches if holds != node.negated else None
        if nullable(node.expr) or node.expr == self.pool.EMPTY:
            return watches if nullable(node.expr) != node.negated else None
        return watches if (node.negated, node.expr) in watches else tuple(sorted({*watches, (node.negated, node.expr)}))

    def watch(self, watches: Watches, byte: int) -> Watches | None:
        """The lookaheads after a byte; ``None`` where one has failed."""
        out = []
        for negated, expr in watches:
            rest = self.pool.derivative(expr, byte)
            decided = self.pool.nullable(rest) or rest == self.pool.EMPTY
            if not decided:
                out.append((negated, rest))
            elif self.pool.nullable(rest) == negated:
                return None
        return tuple(sorted(set(out)))

    def step(self, state: _State, byte: int) -> _State | None:
        """The state after a byte; ``None`` where nothing is left and nothing matched."""
        pool = self.pool
        behinds = tuple(pool.derivative(expr, byte) for expr in state.behinds)
        depth = min(self.depth, state.depth + (byte & 0xC0 != 0x80))
        threads: dict[Thread, None] = {}
        accept = conditional = False
        for expr, after, watches in state.threads:
            rest = pool.derivative(expr, byte)
            kept = self.watch(watches, byte) if rest != pool.EMPTY else None
            if kept is None:
                continue
            if conditional and after != _BLOCKED:
                raise RegexError(_PAST_END, self.source, 0)
            if not pool.nullable(rest):
                threads[rest, after, kept] = None
                continue
            before, self.trailing = self.trailing, False
            accepts, cut = self.follow(after, kept, behinds, depth, threads)
            conditional, self.trailing = conditional or self.trailing, before or self.trailing
            accept |= accepts
            if cut and not conditional:
                break
        return _State(self, tuple(threads), behinds, depth, accept) if threads or accept else None

    def moves(self, state: _State) -> list[tuple[int, _State]]:
        """Disjoint byte masks and the states they lead to."""
        watched = [expr for _, _, watches in state.threads for _, expr in watches]
        parts: list[int] = []
        for expr in {*(thread[0] for thread in state.threads), *watched, *state.behinds}:
            parts = _refine(parts, [mask for mask, _ in self.pool.transitions(expr)])
        out: dict[_State, int] = {}
        for mask in parts:
            target = self.step(state, (mask & -mask).bit_length() - 1)
            if target is not None:
                out[target] = out.get(target, 0) | mask
        return [(mask, target) for target, mask in out.items()]

    # ------------------------------------------------------------ expressions
    def expr(self) -> int:
        """The language, as a leaf of the pool."""
        start = self.start()
        return self.pool.leaf(start) if start.threads else self.pool.EPSILON if start.nullable else self.pool.EMPTY

    def explored(self) -> int:
        """As :meth:`expr`, after a look at all states: what is refused is refused now, and states without a match are removed."""
        users: dict[_State, list[_State]] = {self.start(): []}
        todo = list(users)
        for state in todo:  # grows
            for _, target in self.moves(state):
                if target not in users:
                    users[target] = []
                    todo.append(target)
                users[target].append(state)
            if len(todo) > _EXPLORED:
                raise RegexError("the lookarounds of this pattern need too many states", self.source, 0)
        live = {state for state in todo if state.nullable}
        pending = list(live)
        while pending:
            for user in users[pending.pop()]:
                if user not in live:
                    live.add(user)
                    pending.append(user)
        self._dead = set(todo) - live
        return self.expr() if todo[0] in live else self.pool.EMPTY

    def dead(self, state: _State) -> bool:
        return state in self._dead

    def same_as(self, plain: int) -> bool:
        """Whether the language is ``plain``, as far as a bounded search sees (beyond it: if no quantifier is lazy)."""
        pool = self.pool
        todo: list[tuple[_State, int]] = [(self.start(), plain)]
        seen = set(todo)
        for state, expr in todo:  # grows
            if state.nullable != pool.nullable(expr):
                return False
            moves = self.moves(state)
            parts = _refine([mask for mask, _ in moves], [mask for mask, _ in pool.transitions(expr)])
            for mask in parts:
                target, rest = next((t for m, t in moves if m & mask), None), pool.derivative(expr, (mask & -mask).bit_length() - 1)
                if target is None:
                    return False  # the pattern's language goes on where the matcher has been cut off
                if (target, rest) not in seen:
                    seen.add((target, rest))
                    todo.append((target, rest))
            if len(todo) > _EXPLORED:
                return not self.lazy
        return True


def _refine(parts: list[int], masks: Iterable[int]) -> list[int]:
    """The coarsest partition that both disjoint families respect."""
    for mask in masks:
        out = []
        for part in parts:
            out += [p for p in (part & mask, part & ~mask) if p]
            mask &= ~part
        parts = [*out, mask] if mask else out
    return parts


class _State:
    """Threads in order of preference (a :class:`~grammars.regex.expr.Leaf`)."""

    __slots__ = ("_hash", "behinds", "depth", "nullable", "program", "threads")

    def __init__(self, program: _Program, threads: tuple[Thread, ...], behinds: tuple[int, ...], depth: int, accept: bool) -> None:
        self.program, self.threads, self.depth, self.nullable = program, threads, depth, accept
        self.behinds = behinds if threads else ()
        self._hash = hash((program.source, threads, self.behinds, accept))

    def __hash__(self) -> int:
        return self._hash

    def _key(self) -> tuple[object, ...]:
        program = self.program
        return program.source, program.ordered, program.blocking, self.threads, self.behinds, self.depth, self.nullable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _State) and self._key() == other._key()

    def transitions(self) -> Sequence[tuple[int, _State | None]]:
        dead: Callable[[_State], bool] = self.program.dead
        return [(mask, target if target.threads else None) for mask, target in self.program.moves(self) if not dead(target)]
