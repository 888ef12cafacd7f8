"""Token masks, composed rather than scanned.

The mask of a parser thread is the union of

(a) the tokens that stay inside the current lexeme: a lexer :class:`~grammars.lexer.Segment`, kept for every
    grammar of the vocabulary (only *wide* states, the inside of strings and the like, have one), and
(b) the tokens that leave it: from the listed exits only the suffixes are walked, with the parser, and pruned
    where it is dead. States that are not wide are walked from the trie's root; few nodes survive.

A lexer state with several lexemes is split: the union of the masks of its slots is exact, since under
any-match lexing the slots never hinder each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .kernels.earley import MISS_GOTO, MISS_RESTRICT, MISS_ROW

if TYPE_CHECKING:
    from .lexer import Lexer
    from .parser import Parser
    from .threads import Threads
    from .vocabulary import Vocabulary

__all__ = ["MaskMaker"]

Root = tuple[int, int, int, int]


class MaskMaker:
    """Makes masks of any-match configurations of one parser."""

    def __init__(self, parser: Parser, lexer: Lexer, vocabulary: Vocabulary) -> None:
        self.parser, self.lexer, self.vocabulary = parser, lexer, vocabulary
        self._nodes = len(vocabulary.trie_byte)

    def mask(self, threads: Threads, row: NDArray[np.uint32]) -> None:
        """Sets the bits of the tokens allowed after ``threads`` in ``row``, uint32[words]."""
        roots, ranges = self._roots(threads, row)
        parts = [np.array(roots, np.int32).reshape(-1, 4)] if roots else []
        self._walk(np.concatenate(parts + ranges) if ranges else parts[0] if parts else np.empty((0, 4), np.int32), row)

    def _roots(self, threads: Threads, row: NDArray[np.uint32]) -> tuple[list[Root], list[NDArray[np.int32]]]:
        """What is left to walk once the segments are in ``row``."""
        parser, lexer = self.parser, self.lexer
        roots: list[Root] = []
        ranges: list[NDArray[np.int32]] = []
        todo = [(j, x) for j, x, _ in threads]
        seen = set(todo)

        def visit(pair: tuple[int, int]) -> None:
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)

        while todo:
            j, x = todo.pop()
            accept = int(lexer.accept[x])
            if accept:
                for j2 in parser.goto(j, accept):
                    visit((j2, parser.start_of(j2)))
            if not lexer.wide(x):
                roots.append((1, self._nodes, j, x))
                continue
            wide, narrow = lexer.split(x)
            exprs = lexer.exprs(x)
            if narrow:
                keep = lexer.keeps(narrow) if wide else 0
                roots.append((1, self._nodes, parser.restrict(j, keep), lexer.state(tuple(exprs[i] for i in narrow))))
            for i in wide:
                segment = lexer.segment(exprs[i])
                row |= segment.row
                if len(segment.exits):
                    only = parser.restrict(j, lexer.keeps((i,)) if len(exprs) > 1 else 0)
                    for j2 in parser.goto(only, lexer.accepts((0,))):
                        part = np.empty((len(segment.exits), 4), np.int32)
                        part[:, :2], part[:, 2], part[:, 3] = segment.exits, j2, parser.start_of(j2)
                        ranges.append(part)
        return roots, ranges

    def _walk(self, first: NDArray[np.int32], row: NDArray[np.uint32]) -> None:
        parser, lexer = self.parser, self.lexer
        roots = first
        while len(roots):
            for x in {int(r) for r in roots[:, 3]} if len(roots) < 16 else set(np.unique(roots[:, 3]).tolist()):
                lexer.row(x)
            lexer.tables.reserve("roots", len(roots))[: len(roots)] = roots
            missing = parser.walk(len(roots), row)
            if not missing:
                return
            parser.resolve()
            again = missing < 0
            miss = lexer.tables.miss
            entries = miss[: len(miss) - 8 if again else missing].tolist()
            resumed = self._resolve(entries)
            roots = first if again else np.array(resumed, np.int32).reshape(-1, 4)

    def _resolve(self, entries: list[list[int]]) -> list[Root]:
        """Makes what the walk missed; the ranges still to be walked."""
        parser, lexer = self.parser, self.lexer
        out: list[Root] = []
        for kind, start, end, j, x in entries:
            if kind == MISS_GOTO:
                out.extend((start, end, j2, parser.start_of(j2)) for j2 in parser.goto(j, x))
                continue
            if kind == MISS_RESTRICT:
                parser.restrict(j, int(lexer.kept[x, self.vocabulary.trie_byte[start]]))
            elif kind == MISS_ROW:
                lexer.row(x)
            out.append((start, end, j, x))
        return out
