"""Token masks on the logits' device: packed rows in a table, one index a row and step.

A mask is ``int32[ceil(width / 32)]``, bit ``t % 32`` of word ``t // 32`` for token ``t``. Each distinct mask is copied to the
device once; after that a decoding step sends one integer a row.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from .device import FREE, allowed_tokens, mask_logits

if TYPE_CHECKING:
    from grammars.automaton import Automaton

__all__ = ["FREE", "MaskTable", "Selection", "serial"]


_serials: weakref.WeakKeyDictionary[Automaton, int] = weakref.WeakKeyDictionary()
_numbers = itertools.count()
_lock = threading.Lock()


def serial(automaton: Automaton) -> int:
    """A number of this automaton in this process: what keys of masks are made of, so that a table keeps no automaton alive."""
    with _lock:
        found = _serials.get(automaton)
        if found is None:
            found = _serials[automaton] = next(_numbers)
        return found


class Selection:
    """The masks of one step, one a row; stays good whatever becomes of the table.

    Attributes:
        indices: ``int32[n]`` on the device, numbers of masks.
    """

    __slots__ = ("_table", "_width", "indices")

    def __init__(self, table: torch.Tensor, indices: torch.Tensor, width: int) -> None:
        self._table, self.indices, self._width = table, indices, width

    def allowed(self) -> torch.Tensor:
        """``bool[n, width]``: what the masks allow."""
        return allowed_tokens(self._table, self.indices, self._width)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """``logits`` (``[n, width]``) with minus infinity for what is not allowed; see :func:`samplers.device.mask_logits`."""
        return mask_logits(logits, self._table, self.indices)


class MaskTable:
    """Packed masks by key. May be used from several threads.

    Args:
        width: number of logits; tokens beyond what a mask covers (padding ids) are not allowed.
        device: where the table lives: the logits' device.
        words: length of a packed row where it is more than ``width`` asks for (a tokenizer with more ids than the model has logits).
        max_bytes: bound on the table. When it is reached the table starts anew; masks in use are filled in again on their next use.
    """

    def __init__(self, width: int, device: torch.device | str = "cpu", words: int = 0, max_bytes: int = 256 << 20) -> None:
        self.width, self.device = width, torch.device(device)
        self.words = max(-(-width // 32), words)
        self.max_rows = max(64, max_bytes // (4 * self.words))
        self._lock = threading.Lock()
        self._clear(32)

    def _clear(self, rows: int) -> None:
        self._index: dict[Hashable, int] = {None: FREE}
        self._table = torch.zeros((rows, self.words), dtype=torch.int32, device=self.device)
        self._table[FREE] = -1

    def __len__(self) -> int:
        return len(self._index)

    def select(self, keys: Sequence[Hashable | None], fill: Callable[[int, np.ndarray], object]) -> Selection:
        """The masks of one step.

        Args:
            keys: for every row ``None`` (all is allowed) or the key of its mask. Equal keys have equal masks.
            fill: ``fill(i, row)`` writes the mask of row ``i``, whose key is not in the table yet, into ``row`` (``int32[words]``,
                zeros when it is called). Must not call the table.
        """
        with self._lock:
            found = list(map(self._index.get, keys))
            if None in found:
                found = self._missing(keys, fill)
            table = self._table
        return Selection(table, torch.tensor(found, dtype=torch.int32, device=self.device), self.width)

    def _missing(self, keys: Sequence[Hashable | None], fill: Callable[[int, np.ndarray], object]) -> list[int | None]:
        """Numbers of the masks after those not yet there have been filled in."""
        new = {key: i for i, key in enumerate(keys) if key not in self._index}
        if len(self._index) + len(new) > self.max_rows:
            self._clear(len(self._table))
            new = {key: i for i, key in enumerate(keys) if key is not None}
        block = np.zeros((len(new), self.words), dtype=np.int32)
        for row, i in zip(block, new.values()):
            fill(i, row)
        first = len(self._index)
        while first + len(new) > len(self._table):
            self._table = torch.cat([self._table, torch.zeros_like(self._table)])
        self._table[first : first + len(new)] = torch.from_numpy(block).to(self.device)
        self._index.update(zip(new, range(first, first + len(new))))
        return list(map(self._index.get, keys))
