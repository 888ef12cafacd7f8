"""No n-gram twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..registry import Law, method
from .base import FORBIDDEN, Row, Warper

__all__ = ["NoRepeatNGram", "followers"]


def followers(tokens: Sequence[int], suffix: int) -> np.ndarray:
    """Tokens that came after the earlier occurrences of the text's last ``suffix`` tokens, in order, ``int64[occurrences]``.

    With ``suffix`` 0: every token of the text.
    """
    text = np.asarray(tokens, dtype=np.int64)
    if suffix == 0:
        return text
    if len(text) <= suffix:
        return text[:0]
    windows = np.lib.stride_tricks.sliding_window_view(text[:-1], suffix)
    return text[np.flatnonzero((windows == text[-suffix:]).all(axis=1)) + suffix]


@method(
    "no-repeat n-gram",
    law="exact",
    target="the step's distribution restricted to tokens that complete no n-gram of the text, renormalised; as it is where all would",
    cost="a scan of the text a step",
    paper="Paulus, Xiong, Socher 2018, arXiv:1705.04304",
    use="guided.generate(..., warpers=[NoRepeatNGram(3)])",
)
class NoRepeatNGram(Warper):
    """Forbids the tokens that would complete an n-gram which the text, prompt included, holds already (Paulus, Xiong, Socher 2018,
    arXiv:1705.04304). Where that is every token that is left, the row stays as it is.

    Raises:
        ValueError: ``n`` is below 1.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        self.n = n

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        width = scores.shape[-1]
        banned = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        for i, row in enumerate(rows):
            tokens = followers(row.tokens, self.n - 1)
            banned[i, torch.from_numpy(tokens[tokens < width]).to(scores.device)] = True
        out = scores.masked_fill(banned, FORBIDDEN)
        return torch.where(out.amax(-1, keepdim=True) == FORBIDDEN, scores, out)

    def describe(self) -> str:
        return f"no {self.n}-gram twice"
