"""Top-p (nucleus): the fewest tokens that hold a share of the mass."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..sampling import top_p
from .base import Row, Warper

__all__ = ["TopP", "top_p"]


class TopP(Warper):
    """Keeps the smallest set of most probable tokens whose mass is at least ``p``; renormalised (Holtzman et al. 2020, arXiv:1904.09751).

    A token is kept if the tokens before it, in the order of probability, hold less than ``p``; so one is always kept.

    Raises:
        ValueError: ``p`` is not in (0, 1].
    """

    def __init__(self, p: float) -> None:
        if not 0 < p <= 1:
            raise ValueError(f"p must be above 0 and at most 1, not {p}")
        self.p = p

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return scores if self.p == 1 else top_p(scores, self.p)

    def describe(self) -> str:
        return f"the nucleus of mass {self.p:g}"
