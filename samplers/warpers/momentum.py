"""Momentum decoding: a resistance against walking back into the text's own paths."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registry import Law, method
from .base import Row, Warper, only_best, top
from .no_repeat import followers

__all__ = ["RESISTANCE", "Momentum", "loop_depth"]

RESISTANCE = (0.0, 1.0, 3.0, 4.0, 5.0, 6.0)
"""The paper's resistance by loop depth."""


def loop_depth(tokens: Sequence[int], candidates: Sequence[int], longest: int) -> list[int]:
    """For each candidate the length of the longest n-gram, ``longest`` at most, that it would complete and the text holds already.

    0: the candidate is not in the text; it opens a new node of the graph.
    """
    depth = dict.fromkeys(candidates, 0)
    for suffix in range(min(longest, len(tokens))):
        for token in set(followers(tokens, suffix).tolist()):
            if token in depth:
                depth[token] = suffix + 1
    return [depth[token] for token in candidates]


@method(
    "Momentum Decoding",
    law="argmax",
    target="of p(v) - scale f(depth of the loop that v would close), over the k most probable tokens",
    cost="a few scans of the text a step",
    paper="Lan et al. 2022, arXiv:2212.02175",
    use="guided.generate(..., warpers=[Momentum()])",
)
class Momentum(Warper):
    """The text is a walk in a graph whose nodes are tokens. The most probable token is taken if it opens a new node; one that walks back
    into the graph meets a resistance that grows with the length of the path it repeats (Lan et al. 2022, arXiv:2212.02175)::

        argmax over the k best of  p(v) - scale f(depth(v))

    ``depth(v)`` is the length of the longest n-gram of the text (prompt included) that ends the text after ``v`` is added, 0 where ``v`` is
    new. The graph is a function of the text, so nothing is kept from step to step and rows may be reordered freely.

    Args:
        k: number of candidates, at least 1.
        scale: of the resistance, at least 0.
        resistance: ``f`` by depth from 0 on; the last value holds for anything deeper.

    Raises:
        ValueError: an argument out of range.
    """

    law: Law = "argmax"
    reads_text = True

    def __init__(self, k: int = 5, scale: float = 0.2, resistance: Sequence[float] = RESISTANCE) -> None:
        if k < 1 or not scale >= 0 or len(resistance) < 2:
            raise ValueError(f"k must be at least 1, scale at least 0 and resistance at least two values, not {k}, {scale}, {resistance}")
        self.k, self.scale, self.resistance = k, scale, tuple(resistance)

    def criterion(self, row: Row, probabilities: torch.Tensor, candidates: Sequence[int]) -> torch.Tensor:
        """What the candidates are ranked by, ``float[len(candidates)]``; ``probabilities`` are theirs."""
        depths = loop_depth(row.tokens, candidates, len(self.resistance) - 1)
        return probabilities - self.scale * probabilities.new_tensor([self.resistance[d] for d in depths])

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        _, tokens = top(scores, self.k)
        probabilities = scores.softmax(-1).gather(-1, tokens)
        ranked = [self.criterion(row, p, ids) for row, p, ids in zip(rows, probabilities, tokens.tolist())]
        return only_best(scores, tokens, torch.stack(ranked))

    def describe(self) -> str:
        return f"the best of {self.k} by probability less {self.scale:g} times the resistance against loops"
