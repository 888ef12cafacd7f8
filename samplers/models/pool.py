"""The key/value states of cached tokens, as tensors, and the ``Cache`` that shows a model a window of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from .cache import Moves, Window

__all__ = ["Pool"]


@dataclass(slots=True)
class _Step:
    """What the forward under way writes and reads.

    Attributes:
        slots: ``int64[tokens]``, where the new states go.
        span: ``(low, high)``, the slots that are read.
        rows: each token is a row of the batch (``[tokens, heads, 1, size]``); otherwise all are in one (``[1, heads, tokens, size]``).
        gather: ``int64[tokens, length]``, the slots that each row reads, instead of ``span``; only with ``rows``.
    """

    slots: torch.Tensor
    span: tuple[int, int]
    rows: bool
    gather: torch.Tensor | None
    contiguous: bool
    moved: dict[torch.device, tuple[torch.Tensor, torch.Tensor | None]] = field(default_factory=dict)

    def on(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor | None]:
        """``slots`` and ``gather`` on the device of a layer."""
        if device not in self.moved:
            self.moved[device] = self.slots.to(device), None if self.gather is None else self.gather.to(device)
        return self.moved[device]


class _Layer(DynamicLayer):
    """One layer's states, ``[heads, slots, size]`` for keys and values (whose sizes may differ)."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool = pool
        self.stored: list[torch.Tensor] = []

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores the new tokens' states and returns all that this forward reads."""
        states = (key_states, value_states)
        if not self.stored:
            self.is_initialized, self.device = True, key_states.device
            self.stored = [s.new_zeros((s.shape[1], self.pool.capacity, s.shape[3])) for s in states]
        keys, values = (self._exchange(stored, new) for stored, new in zip(self.stored, states))
        return keys, values

    def _exchange(self, stored: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        step = self.pool.step
        slots, gather = step.on(stored.device)
        fresh = new[:, :, 0].transpose(0, 1) if step.rows else new[0]
        if step.contiguous:
            start = step.span[1] - fresh.shape[1]
            stored[:, start : step.span[1]] = fresh
        else:
            stored[:, slots] = fresh
        if gather is not None:
            return stored[:, gather].transpose(0, 1)
        window = stored[:, step.span[0] : step.span[1]].unsqueeze(0)
        # every row reads the same memory: nothing is repeated
        return window.expand(new.shape[0], -1, -1, -1) if step.rows else window

    def get_seq_length(self) -> int:
        return self.pool.step.span[1] - self.pool.step.span[0] - len(self.pool.step.slots)

    def resize(self, capacity: int, used: int) -> None:
        for i, old in enumerate(self.stored):
            self.stored[i] = old.new_zeros((old.shape[0], capacity, old.shape[2]))
            self.stored[i][:, :used] = old[:, :used]

    def move(self, source: torch.Tensor, target: torch.Tensor, swap: bool) -> None:
        for stored in self.stored:
            a, b = source.to(stored.device), target.to(stored.device)
            going = stored[:, a]
            if swap:
                stored[:, a] = stored[:, b]
            stored[:, b] = going


class Pool:
    """Slots for the states of every layer.

    Args:
        layers: number of layers.
        limit: slots that there should be at most; growing stops there unless one forward needs more.
    """

    def __init__(self, layers: int, limit: int) -> None:
        self.limit, self.capacity = limit, 0
        self.layers = [_Layer(self) for _ in range(layers)]
        self.cache = Cache(layers=list(self.layers))
        self.step = _Step(torch.zeros(0, dtype=torch.int64), (0, 0), False, None, True)

    @property
    def bytes(self) -> int:
        """Size of all states."""
        return sum(s.numel() * s.element_size() for layer in self.layers for s in layer.stored)

    def begin(self, window: Window, slots: Sequence[int], needed: int, *, rows: bool, gather: torch.Tensor | None, used: int) -> None:
        """Prepares a forward: makes room for ``needed`` slots, moves what has to be moved, and sets what the layers read and write.

        Args:
            used: slots that hold something.
        """
        if needed > self.capacity:
            capacity = max(needed, min(max(1024, 2 * self.capacity), self.limit))
            for layer in self.layers:
                layer.resize(capacity, min(used, self.capacity))
            self.capacity = capacity
        for moves in window.moves:
            self._move(moves)
        contiguous = list(slots) == list(range(window.high - len(slots), window.high))
        self.step = _Step(torch.tensor(slots, dtype=torch.int64), (window.low, window.high), rows, gather, contiguous)

    def _move(self, moves: Moves) -> None:
        source, target = torch.from_numpy(moves.source), torch.from_numpy(moves.target)
        for layer in self.layers:
            layer.move(source, target, moves.swap)
