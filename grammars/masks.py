"""Token masks, composed rather than scanned.

The mask of a parser thread is the union of

(a) the tokens that stay inside the current lexeme: a lexer :class:`~grammars.segments.Segment`, kept for every
    grammar of the vocabulary (only *wide* states, the inside of strings and the like, have one), and
(b) the tokens that leave it: from the listed exits only the suffixes are walked, with the parser, and pruned
    where it is dead. States that are not wide are walked from the trie's root; few nodes survive.

A wide state that is no segment of its own (a key out of many or any other; a string with some contents
excluded) is walked for its difference from the segment of its *base* only. Other lexer states with several
lexemes are split: the union of the masks of their slots is exact, since under any-match lexing the slots never
hinder each other.

All of it is one call of a kernel (:mod:`.kernels.masking`), repeated after Python has worked out what it asked for. Only
where what follows a lexeme depends on its bytes does Python find the roots of further walks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .kernels import earley
from .kernels.fields import COMPLETES, N_MISS, N_REACHED, N_ROOTS
from .lexer import NO_ITEMS, NOTHING

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        self._texts: list[object] = []

    def mask(self, threads: Threads, row: NDArray[np.uint32]) -> int | None:
        """Sets ``row``, uint32[words], to the bits of the tokens allowed after ``threads``.

        Returns 1 if the text may end there, plus 2 if there is a token; ``None`` where that depends on the bytes of a lexeme.
        """
        self.lexer.segments.trim()
        tables = self.lexer.tables
        places = tables.reserve("threads", len(threads))
        for n, thread in enumerate(threads):
            places[n] = thread[0], thread[1], -1 - n
        parser = self.parser
        missed = -1
        while missed < 0:
            missed = earley.run(parser.tables.context, tables.context, earley.MASK, len(threads), 0, NO_ITEMS, row, *NOTHING[1:])
            if missed < 0:
                self._resolve(missed)
        if missed:
            self._texts = [more for _, _, more in threads]
            self._follow(self._roots(missed), row)
            return None
        return int(tables.count[COMPLETES])

    def reached(self, threads: Threads) -> set[int] | None:
        """The parser states that an allowed token may lead to; ``None`` where that depends on the bytes of a lexeme."""
        row = np.empty(self.vocabulary.words, np.uint32)
        if self.mask(threads, row) is None:
            return None
        tables = self.lexer.tables
        return {thread[0] for thread in threads}.union(tables.reached[: int(tables.count[N_REACHED])].tolist())

    def _resolve(self, status: int) -> None:
        """Sees to what the kernel asked for."""
        self.parser.resolve(status)
        self.parser.chase()

    # ------------------------------------------------------------ where the bytes of a lexeme matter
    def _roots(self, missed: int) -> list[Root]:
        """Where walks go on behind lexemes that ended."""
        parser, depth = self.parser, self.vocabulary.trie_depth
        found: dict[Root, None] = {}
        for start, stop, j, accept, since in self.lexer.tables.miss[:missed].tolist():
            for to in self._after(j, accept, since, start - 1):
                found[start, stop, to, parser.start_of(to), 0, int(depth[start - 1])] = None
        return list(found)

    def _after(self, j: int, accept: int, since: int, node: int) -> tuple[int, ...]:
        """Parser states after a lexeme that began at ``since`` ended at a node of the trie."""
        path = self.lexer.path(node)
        if since >= 0:
            return self.parser.goto_text(j, accept, path[since:])
        before = self._texts[-1 - since]
        return self.parser.goto_text(j, accept, before + path if isinstance(before, bytes) else path)

    def _follow(self, roots: list[Root], row: NDArray[np.uint32]) -> None:
        """Walks ``roots`` and what comes of them."""
        tables = self.lexer.tables
        while roots:
            missed = -1
            while missed < 0:
                tables.reserve("roots", len(roots))[: len(roots)] = roots
                tables.count[N_ROOTS] = len(roots)
                tables.count[N_MISS] = 0
                missed = earley.run(self.parser.tables.context, tables.context, earley.WALK_ROOTS, 0, 0, NO_ITEMS, row, *NOTHING[1:])
                if missed < 0:
                    self._resolve(missed)
            roots = self._roots(missed)
