"""What a configuration is, and how one byte moves it.

A *thread* is ``(j, x, more)``: parser state, lexer state, and, under greedy lexing, the configuration to return to
should the lexeme under way come to nothing (the longest match that has been seen so far), or, where what follows
depends on the lexeme's bytes, these bytes so far; ``()`` otherwise. A configuration is a sorted tuple of threads. A
lexeme's end is decided by the byte after it, so a deterministic text is one thread all along.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .kernels import earley
from .kernels.fields import TEXT
from .lexer import NO_ITEMS, NOTHING, Lexer
from .parser import Parser

__all__ = ["Stepper", "Thread", "Threads"]

Thread = tuple[int, int, Any]
Threads = tuple[Thread, ...]


def canonical(threads: Iterable[Thread]) -> Threads:
    """Sorted without repetition."""
    unique = set(threads)
    return tuple(unique) if len(unique) < 2 else tuple(sorted(unique))


class Stepper:
    """Moves configurations of one parser by bytes.

    Args:
        remember: whether the bytes of lexemes are kept where something depends on them. Without, a lexeme that ends is taken to have been
            the shortest one (``None`` stands in a thread in place of bytes): fewer configurations, for questions that hardly depend on it.
    """

    def __init__(self, parser: Parser, lexer: Lexer, remember: bool = True) -> None:
        self.parser, self.lexer, self.remember = parser, lexer, remember
        self.start: Threads = canonical((j, parser.start_of(j), self._begin(j, b"")) for j in parser.start)

    def forget(self, threads: Threads) -> Threads:
        """The same configuration without the bytes of lexemes."""
        return canonical((j, x, None if isinstance(more, bytes) else more) for j, x, more in threads)

    def _begin(self, j: int, text: bytes) -> Any:
        """The third part of a thread whose lexeme begins with ``text``."""
        return () if not self.parser.captures(j) else text if self.remember else None

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
        parser = self.parser
        if not parser.greedy and (not parser.remembers or all(more == () for _, _, more in threads)):
            moved = self._advance(threads, data)
            if moved is not None:
                return moved
        for byte in data:
            threads = self.step(threads, byte)
            if not threads:
                break
        return threads

    def _advance(self, threads: Threads, data: bytes) -> Threads | None:
        """As :meth:`run`, by the kernels; ``None`` where a lexeme's bytes begin to matter."""
        parser, tables = self.parser, self.lexer.tables
        size, n = len(data), len(threads)
        tables.reserve("text", size)[:size] = np.frombuffer(data, np.uint8)
        while True:
            places = tables.reserve("threads", n)
            for i, thread in enumerate(threads):
                places[i] = thread[0], thread[1], 0
            after: int = earley.run(parser.tables.context, tables.context, earley.ADVANCE, n, size, NO_ITEMS, *NOTHING)
            if after >= 0:
                return tuple([(j, x, ()) for j, x, _ in tables.threads[:after].tolist()])
            if after == TEXT:
                return None
            parser.resolve(after)

    def _move(self, j: int, x: int, byte: int) -> tuple[int, int]:
        """Parser and lexer state after ``byte`` inside the lexeme; (0, 0) where it is dead."""
        lexer = self.lexer
        at = lexer.row(x) << 8 | byte
        nx = lexer.table_view[at]
        if not nx:
            return 0, 0
        keep = lexer.kept_view[at]
        return (self.parser.restrict(j, keep) if keep else j), nx

    def after(self, j: int, accept: int, more: Any) -> tuple[int, ...]:
        """Parser states after the lexeme of a thread ended."""
        return self.parser.goto(j, accept) if more == () else self.parser.goto_text(j, accept, more)

    def _ended(self, j: int, accept: int, more: Any, byte: int, out: list[Thread]) -> None:
        """Threads that take ``byte`` as the first of the next lexeme."""
        parser = self.parser
        for j2 in self.after(j, accept, more):
            j3, nx = self._move(j2, parser.start_of(j2), byte)
            if nx:
                out.append((j3, nx, self._begin(j3, bytes((byte,)))))

    def _any(self, thread: Thread, byte: int, out: list[Thread]) -> None:
        j, x, more = thread
        nj, nx = self._move(j, x, byte)
        if nx:
            kept = () if more == () or not self.parser.captures(nj) else more
            out.append((nj, nx, kept + bytes((byte,)) if isinstance(kept, bytes) else kept))
        accept = self.lexer.accept_view[x]
        if accept:
            self._ended(j, accept, more, byte, out)

    def _greedy(self, thread: Thread, byte: int, out: list[Thread]) -> None:
        j, x, fallback = thread
        nj, nx = self._move(j, x, byte)
        accept = self.lexer.accept_view[x]
        if nx and self.lexer.accept_view[nx]:
            out.append((nj, nx, ()))  # a longer match: nothing to fall back to any more
            return
        ended: list[Thread] = []
        if accept:
            self._ended(j, accept, (), byte, ended)
        elif fallback:
            ended.extend(self.step(fallback, byte))
        if nx:
            out.append((nj, nx, canonical(ended)))
        else:
            out.extend(ended)

    def accepts(self, threads: Threads) -> bool:
        """Whether the text may end here."""
        parser, lexer = self.parser, self.lexer
        for j, x, more in threads:
            if parser.complete(j) and x == parser.start_of(j):
                return True
            accept = lexer.accept_view[x]
            if accept:
                if any(parser.complete(j2) for j2 in self.after(j, accept, more)):
                    return True
            elif more and parser.group(j) and self.accepts(more):
                return True
        return False

    def next_bytes(self, threads: Threads) -> list[int]:
        """Bytes that keep the configuration alive, ascending."""
        live = np.zeros(256, bool)
        self._next(threads, live)
        return [int(b) for b in np.nonzero(live)[0]]

    def _next(self, threads: Threads, live: Any) -> None:
        parser, lexer = self.parser, self.lexer
        for j, x, more in threads:
            live |= lexer.table[lexer.row(x)] > 0
            accept = lexer.accept_view[x]
            if accept:
                for j2 in self.after(j, accept, more):
                    live |= lexer.table[lexer.row(parser.start_of(j2))] > 0
            elif more and parser.group(j):
                self._next(more, live)

    def signature(self, threads: Threads, byte: int) -> tuple[int, ...]:
        """Bytes with equal signatures lead from ``threads`` to the same configuration (call :meth:`next_bytes` first: rows must exist)."""
        parser, lexer = self.parser, self.lexer
        out: list[int] = []
        for j, x, more in threads:
            at = lexer.row(x) << 8 | byte
            out += (lexer.table_view[at], lexer.kept_view[at])
            if isinstance(more, bytes):
                out.append(byte)
            accept = lexer.accept_view[x]
            if accept:
                for j2 in self.after(j, accept, more):
                    at = lexer.row(parser.start_of(j2)) << 8 | byte
                    out += (lexer.table_view[at], lexer.kept_view[at])
                    if self.remember and parser.captures(j2):
                        out.append(byte)
            elif more and parser.group(j):
                out += self.signature(more, byte)
        return tuple(out)
