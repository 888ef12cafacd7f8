"""Temperature."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .base import FORBIDDEN, Row, Warper, only_best, top

__all__ = ["Temperature", "temperature"]


def temperature(scores: torch.Tensor, t: float) -> torch.Tensor:
    """``scores / t``; at 0 the best token alone is left.

    Args:
        scores: ``float[rows, width]``.
        t: at least 0.
    """
    if t:
        return scores / t
    best, tokens = top(scores, 1)
    return only_best(scores, tokens, best)


class Temperature(Warper):
    """``p(v)`` proportional to ``exp(s(v) / t)``: below 1 sharper, above 1 flatter, 0 is greedy (Ackley, Hinton, Sejnowski 1985).

    Raises:
        ValueError: ``t`` is negative or not finite.
    """

    def __init__(self, t: float) -> None:
        if not 0 <= t < -FORBIDDEN:
            raise ValueError(f"the temperature must be a finite number >= 0, not {t}")
        self.t = t
        if not t:
            self.law = "argmax"

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return temperature(scores, self.t)

    def describe(self) -> str:
        return f"temperature {self.t:g}"
