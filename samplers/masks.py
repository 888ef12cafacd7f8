"""Token masks on the logits' device: packed rows in a table, one index a row and step.

A mask is ``int32[ceil(width / 32)]``, bit ``t % 32`` of word ``t // 32`` for token ``t``. Each distinct mask is copied to the
device once; after that a decoding step sends one integer a row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch

__all__ = ["FREE", "Mask", "MaskTable"]

FREE = 0  # index of the row that allows everything

Mask = tuple[Hashable, Callable[[np.ndarray], object]]  # a key and what fills the key's packed row


class MaskTable:
    """Packed masks by key.

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
        self._shifts = torch.arange(32, dtype=torch.int32, device=self.device)
        self._clear(32)

    def _clear(self, rows: int) -> None:
        self._index: dict[Hashable, int] = {}
        self._table = torch.zeros((rows, self.words), dtype=torch.int32, device=self.device)
        self._table[FREE] = -1

    def __len__(self) -> int:
        return len(self._index) + 1

    def indices(self, wanted: Sequence[Mask | None]) -> torch.Tensor:
        """Indices of the masks of one step, ``int64[len(wanted)]`` on the device.

        Args:
            wanted: for every row ``None`` (all is allowed) or a key and the function that fills the key's packed row
                (``int32[words]``, zeros when it is called), called only if the key is not in the table.
        """
        new = {pair[0] for pair in wanted if pair is not None} - self._index.keys()
        if len(self._index) + 1 + len(new) > self.max_rows:
            self._clear(len(self._table))
            new = {pair[0] for pair in wanted if pair is not None}
        if new:
            self._fill({pair[0]: pair[1] for pair in wanted if pair is not None and pair[0] in new})
        return torch.tensor([FREE if pair is None else self._index[pair[0]] for pair in wanted], device=self.device)

    def _fill(self, new: dict[Hashable, Callable[[np.ndarray], object]]) -> None:
        block = np.zeros((len(new), self.words), dtype=np.int32)
        for row, fill in zip(block, new.values()):
            fill(row)
        first = len(self)
        while first + len(new) > len(self._table):
            self._table = torch.cat([self._table, torch.zeros_like(self._table)])
        self._table[first : first + len(new)] = torch.from_numpy(block).to(self.device)
        self._index.update(zip(new, range(first, first + len(new))))

    def allowed(self, indices: torch.Tensor) -> torch.Tensor:
        """``bool[len(indices), width]``: what the masks at ``indices`` allow."""
        bits = (self._table[indices].unsqueeze(-1) >> self._shifts) & 1
        return bits.flatten(1)[:, : self.width].bool()
