"""Token masks, composed rather than scanned.

The mask of a parser thread is the union of

(a) the tokens that stay inside the current lexeme: a lexer :class:`~grammars.lexer.Segment`, kept for every
    grammar of the vocabulary (only *wide* states, the inside of strings and the like, have one), and
(b) the tokens that leave it: from the listed exits only the suffixes are walked, with the parser, and pruned
    where it is dead. States that are not wide are walked from the trie's root; few nodes survive.

A wide state that is no segment of its own (a key out of many or any other; a string with some contents
excluded) is walked for its difference from the segment of its *base* only. Other lexer states with several
lexemes are split: the union of the masks of their slots is exact, since under any-match lexing the slots never
hinder each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .kernels.earley import ALIKE, MISS_GOTO, MISS_RESTRICT, MISS_ROW

if TYPE_CHECKING:
    from .lexer import Lexer
    from .parser import Parser
    from .threads import Threads
    from .vocabulary import Vocabulary

__all__ = ["MaskMaker"]

Root = tuple[int, int, int, int, int, int]


class MaskMaker:
    """Makes masks of any-match configurations of one parser."""

    def __init__(self, parser: Parser, lexer: Lexer, vocabulary: Vocabulary) -> None:
        self.parser, self.lexer, self.vocabulary = parser, lexer, vocabulary
        self._nodes = len(vocabulary.trie_byte)
        self._texts: list[object] = []

    def mask(self, threads: Threads, row: NDArray[np.uint32]) -> None:
        """Sets the bits of the tokens allowed after ``threads`` in ``row``, uint32[words]."""
        parser, lexer = self.parser, self.lexer
        roots: list[Root] = []
        self._texts = [more for _, _, more in threads]
        todo = [(j, x, -1 - n) for n, (j, x, _) in enumerate(threads)]
        seen = set(todo)
        while todo:
            j, x, since = todo.pop()
            accept = lexer.accept_view[x]
            if accept:
                for j2 in self._after(j, accept, since, 0):
                    start = (j2, parser.start_of(j2), 0)
                    if start not in seen:
                        seen.add(start)
                        todo.append(start)
            if not lexer.wide(x):
                roots.append((1, self._nodes, j, x, 0, since))
            elif lexer.base(x)[0]:
                self._differ(j, x, since, row, roots)
            else:
                self._split(j, x, since, row, roots)
        if roots:
            self._walk(roots, row)

    def _after(self, j: int, accept: int, since: int, node: int) -> tuple[int, ...]:
        """Parser states after a lexeme that began at ``since`` ended at a node of the trie."""
        if not self.parser.captures(j):
            return self.parser.goto(j, accept)
        path = self.lexer.path(node)
        if since >= 0:
            return self.parser.goto_text(j, accept, path[since:])
        before = self._texts[-1 - since]
        return self.parser.goto_text(j, accept, before + path if isinstance(before, bytes) else path)

    def _split(self, j: int, x: int, since: int, row: NDArray[np.uint32], roots: list[Root]) -> None:
        """Segments of the wide slots of ``x``; a walk for the others."""
        parser, lexer = self.parser, self.lexer
        wide, narrow = lexer.split(x)
        exprs = lexer.exprs(x)
        if narrow:
            keep = lexer.keeps(narrow) if wide else 0
            roots.append((1, self._nodes, parser.restrict(j, keep), lexer.state(tuple(exprs[i] for i in narrow)), 0, since))
        for i in wide:
            segment = lexer.segment(exprs[i])
            row |= segment.row
            only = parser.restrict(j, lexer.keeps((i,)) if len(exprs) > 1 else 0)
            self._leave(only, since, segment.exits, segment.ends, roots)

    def _leave(self, j: int, since: int, exits: NDArray[np.int32], ends: NDArray[np.int32], roots: list[Root]) -> None:
        """Walks below ``exits``, where the one lexeme of ``j`` ends."""
        accept = self.lexer.accepts((0,))
        depths = self.vocabulary.trie_depth[exits].tolist()
        for node, end, depth in zip(exits.tolist(), ends.tolist(), depths, strict=True):
            roots.extend((node + 1, end, j2, self.parser.start_of(j2), 0, depth) for j2 in self._after(j, accept, since, node))

    def _differ(self, j: int, x: int, since: int, row: NDArray[np.uint32], roots: list[Root]) -> None:
        """The segment of the base of ``x``, corrected by a walk where ``x`` does otherwise."""
        parser, lexer = self.parser, self.lexer
        base, keep = lexer.base(x)
        segment = lexer.segment(lexer.exprs(base)[0])
        own = segment.row.copy()
        drops = np.zeros(len(segment.exits), np.int32)
        alike = parser.restrict(j, keep)
        tables = lexer.tables
        tables.place("exits", segment.exits)
        tables.place("drops", drops)
        tables.count[ALIKE] = alike
        self._walk([(1, self._nodes, j, x, base, since)], own, roots)
        np.bitwise_or(row, own, out=row)
        live = drops == 0
        self._leave(alike, since, segment.exits[live], segment.ends[live], roots)

    def _walk(self, first: list[Root], row: NDArray[np.uint32], later: list[Root] | None = None) -> None:
        """Walks ``first``. Roots without a base that come up on the way are put into ``later``, if given."""
        parser, lexer = self.parser, self.lexer
        roots = first
        while roots:
            for x in {root[3] for root in roots}:
                lexer.row(x)
            lexer.tables.reserve("roots", len(roots))[: len(roots)] = roots
            missing = parser.walk(len(roots), row)
            if not missing:
                return
            parser.resolve()
            again = missing < 0
            miss = lexer.tables.miss
            resumed = self._resolve(miss[: len(miss) - 8 if again else missing].tolist())
            if again:
                continue
            if later is not None:
                later.extend(root for root in resumed if not root[4])
                resumed = [root for root in resumed if root[4]]
            roots = resumed

    def _resolve(self, entries: list[list[int]]) -> list[Root]:
        """Makes what the walk missed; the ranges still to be walked."""
        parser, lexer = self.parser, self.lexer
        out: list[Root] = []
        for kind, start, end, j, x, base, since in entries:
            if kind == MISS_GOTO:
                depth = int(self.vocabulary.trie_depth[start - 1])
                out.extend((start, end, j2, parser.start_of(j2), 0, depth) for j2 in self._after(j, x, since, start - 1))
                continue
            if kind == MISS_RESTRICT:
                parser.restrict(j, int(lexer.kept[x, self.vocabulary.trie_byte[start]]))
            elif kind == MISS_ROW:
                lexer.row(x)
            out.append((start, end, j, x, base, since))
        return out
