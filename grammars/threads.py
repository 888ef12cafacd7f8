"""What a configuration is, and how one byte moves it.

A *thread* is ``(j, x, fallback)``: parser state, lexer state, and the configuration to return to should the
lexeme under way come to nothing (greedy lexing only: the longest match that has been seen so far; ``()`` otherwise). A
configuration is a sorted tuple of threads. A lexeme's end is decided by the byte after it, so a
deterministic text is one thread all along.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .lexer import Lexer
from .parser import Parser

__all__ = ["Stepper", "Thread", "Threads"]

Thread = tuple[int, int, Any]
Threads = tuple[Thread, ...]


def canonical(threads: Iterable[Thread]) -> Threads:
    """Sorted without repetition."""
    unique = set(threads)
    return tuple(unique) if len(unique) < 2 else tuple(sorted(unique))


class Stepper:
    """Moves configurations of one parser by bytes."""

    def __init__(self, parser: Parser, lexer: Lexer) -> None:
        self.parser, self.lexer = parser, lexer
        self.start: Threads = canonical((j, parser.start_of(j), ()) for j in parser.start)

    def step(self, threads: Threads, byte: int) -> Threads:
        """The configuration after ``byte``; ``()`` is dead."""
        out: list[Thread] = []
        for thread in threads:
            if self.parser.group(thread[0]):
                self._greedy(thread, byte, out)
            else:
                self._any(thread, byte, out)
        return tuple(out) if len(out) < 2 else canonical(out)

    def run(self, threads: Threads, data: bytes) -> Threads:
        """The configuration after ``data``."""
        for byte in data:
            threads = self.step(threads, byte)
            if not threads:
                break
        return threads

    def _move(self, j: int, x: int, byte: int) -> tuple[int, int]:
        """Parser and lexer state after ``byte`` inside the lexeme; (0, 0) where it is dead."""
        lexer = self.lexer
        at = x << 8 | byte
        nx = lexer.table_view[at]
        if nx < 0:
            lexer.row(x)
            nx = lexer.table_view[at]
        if not nx:
            return 0, 0
        keep = lexer.kept_view[at]
        return (self.parser.restrict(j, keep) if keep else j), nx

    def _ended(self, j: int, accept: int, byte: int, out: list[Thread]) -> None:
        """Threads that take ``byte`` as the first of the next lexeme."""
        for j2 in self.parser.goto(j, accept):
            j3, nx = self._move(j2, self.parser.start_of(j2), byte)
            if nx:
                out.append((j3, nx, ()))

    def _any(self, thread: Thread, byte: int, out: list[Thread]) -> None:
        j, x, _ = thread
        nj, nx = self._move(j, x, byte)
        if nx:
            out.append((nj, nx, ()))
        accept = self.lexer.accept_view[x]
        if accept:
            self._ended(j, accept, byte, out)

    def _greedy(self, thread: Thread, byte: int, out: list[Thread]) -> None:
        j, x, fallback = thread
        nj, nx = self._move(j, x, byte)
        accept = self.lexer.accept_view[x]
        if nx and self.lexer.accept_view[nx]:
            out.append((nj, nx, ()))  # a longer match: nothing to fall back to any more
            return
        ended: list[Thread] = []
        if accept:
            self._ended(j, accept, byte, ended)
        elif fallback:
            ended.extend(self.step(fallback, byte))
        if nx:
            out.append((nj, nx, canonical(ended)))
        else:
            out.extend(ended)

    def accepts(self, threads: Threads) -> bool:
        """Whether the text may end here."""
        parser, lexer = self.parser, self.lexer
        for j, x, fallback in threads:
            if parser.complete(j) and x == parser.start_of(j):
                return True
            accept = lexer.accept_view[x]
            if accept:
                if any(parser.complete(j2) for j2 in parser.goto(j, accept)):
                    return True
            elif fallback and self.accepts(fallback):
                return True
        return False

    def next_bytes(self, threads: Threads) -> list[int]:
        """Bytes that keep the configuration alive, ascending."""
        live = np.zeros(256, bool)
        self._next(threads, live)
        return [int(b) for b in np.nonzero(live)[0]]

    def _next(self, threads: Threads, live: Any) -> None:
        parser, lexer = self.parser, self.lexer
        for j, x, fallback in threads:
            lexer.row(x)
            live |= lexer.table[x] > 0
            accept = lexer.accept_view[x]
            if accept:
                for j2 in parser.goto(j, accept):
                    start = parser.start_of(j2)
                    lexer.row(start)
                    live |= lexer.table[start] > 0
            elif fallback:
                self._next(fallback, live)

    def signature(self, threads: Threads, byte: int) -> tuple[int, ...]:
        """Bytes with equal signatures lead from ``threads`` to the same configuration (rows must exist: call :meth:`next_bytes` first)."""
        parser, lexer = self.parser, self.lexer
        out: list[int] = []
        for j, x, fallback in threads:
            at = x << 8 | byte
            out += (lexer.table_view[at], lexer.kept_view[at])
            accept = lexer.accept_view[x]
            if accept:
                for j2 in parser.goto(j, accept):
                    at = parser.start_of(j2) << 8 | byte
                    out += (lexer.table_view[at], lexer.kept_view[at])
            elif fallback:
                out += self.signature(fallback, byte)
        return tuple(out)
