"""Top-k: the k most probable tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..sampling import top_k
from .base import Row, Warper

__all__ = ["TopK", "top_k"]


class TopK(Warper):
    """Keeps the ``k`` tokens of highest score, and those that tie with the k-th; renormalised (Fan, Lewis, Dauphin 2018, arXiv:1805.04833).

    Raises:
        ValueError: ``k`` is below 1.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        self.k = k

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return top_k(scores, self.k)

    def describe(self) -> str:
        return f"the {self.k} best"
