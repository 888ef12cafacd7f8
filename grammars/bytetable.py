"""Parser configurations as one lazy byte automaton: for walks that must know where each token leads.

The mask of a plain grammar is composed from lexer segments (:mod:`grammars.masks`). Greedy lexing, where a
lexeme's end depends on what follows, and the listing of successor states need the transitions of whole
configurations instead. A row is filled at once: bytes that move the lexer alike lead to the same
configuration, so its cost is that of the distinct moves, not of 256 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .kernels.walk import table_walk, table_walk_states

if TYPE_CHECKING:
    from .threads import Stepper, Threads
    from .vocabulary import Vocabulary

__all__ = ["ByteTable"]

_NO_EXITS = np.empty(0, np.int32)


class ByteTable:
    """Rows of configurations, numbered from 1 (0 is dead)."""

    def __init__(self, stepper: Stepper, vocabulary: Vocabulary) -> None:
        self.stepper, self.vocabulary = stepper, vocabulary
        self.table: NDArray[np.int32] = np.full((64, 256), -1, np.int32)
        self.table[0] = 0
        self.configurations: list[Threads] = [()]
        self._ids: dict[Threads, int] = {(): 0}

    def __len__(self) -> int:
        return len(self.configurations)

    def id(self, threads: Threads) -> int:
        found = self._ids.get(threads)
        if found is None:
            found = self._ids[threads] = len(self.configurations)
            self.configurations.append(threads)
            if found >= len(self.table):
                grown = np.full((2 * len(self.table), 256), -1, np.int32)
                grown[: len(self.table)] = self.table
                self.table = grown
        return found

    def row(self, n: int) -> None:
        """Makes the row of configuration ``n``."""
        if self.table[n, 0] >= 0:
            return
        threads = self.configurations[n]
        row = np.zeros(256, np.int32)
        known: dict[tuple[int, ...], int] = {}
        for byte in self.stepper.next_bytes(threads):
            moves = self.stepper.signature(threads, byte)
            target = known.get(moves)
            if target is None:
                target = known[moves] = self.id(self.stepper.step(threads, byte))
            row[byte] = target
        self.table[n] = row

    def mask(self, threads: Threads, row: NDArray[np.uint32]) -> None:
        """Marks the tokens allowed after ``threads``."""
        v = self.vocabulary
        stack, miss = np.empty(v.max_token_bytes + 2, np.int32), np.empty((4096, 3), np.int32)
        accept = np.zeros(1, np.int32)
        first = np.array([[1, len(v.trie_byte), self.id(threads)]], np.int32)
        roots = first
        while len(roots):
            missing, _ = table_walk(roots, len(roots), *v.trie_arrays, self.table, accept, row, _NO_EXITS, 0, stack, miss)
            roots = self._resolve(missing, miss, first)

    def successors(self, threads: Threads) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Allowed tokens and the configuration each leads to: int32[k], int32[k]."""
        v = self.vocabulary
        stack, miss = np.empty(v.max_token_bytes + 2, np.int32), np.empty((4096, 3), np.int32)
        tokens, states = np.empty(len(v.trie_tokens), np.int32), np.empty(len(v.trie_tokens), np.int32)
        first = np.array([[1, len(v.trie_byte), self.id(threads)]], np.int32)
        roots, count = first, 0
        while len(roots):
            missing, count = table_walk_states(roots, len(roots), *v.trie_arrays, self.table, tokens, states, count, stack, miss)
            if missing < 0:
                count = 0
            roots = self._resolve(missing, miss, first)
        return tokens[:count], states[:count]

    def _resolve(self, missing: int, miss: NDArray[np.int32], first: NDArray[np.int32]) -> NDArray[np.int32]:
        for n in {int(s) for s in miss[: missing if missing >= 0 else len(miss) - 4, 2]}:
            self.row(n)
        return first if missing < 0 else miss[:missing].copy()
