"""Contrastive search: a probable token whose hidden state is unlike those of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..registry import Law, method
from .base import FORBIDDEN, Row, Warper, only_best, top
from .hidden_states import HiddenStates

__all__ = ["ContrastiveSearch", "degeneration"]


def degeneration(candidates: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """The largest cosine of each candidate's state with a state of the text, ``float[k]`` from ``[k, size]`` and ``[length, size]``."""
    normalize = torch.nn.functional.normalize
    return (normalize(candidates, dim=-1) @ normalize(states, dim=-1).T).amax(-1)


@method(
    "Contrastive search",
    law="argmax",
    target="of (1 - alpha) p(v) - alpha max_j cos(h_v, h_j) over the k most probable tokens, h the hidden states of candidate and text",
    cost="k rows through the model a step, in one batch",
    paper="Su et al. 2022, arXiv:2202.06417",
    use="guided.generate(..., warpers=[ContrastiveSearch(model)])",
)
class ContrastiveSearch(Warper):
    """``argmax over the k best of (1 - alpha) p(v) - alpha max_j cos(h_v, h_j)``: ``h_v`` is the last layer's state at ``v`` if it were
    added, ``h_j`` those at the tokens of the text, prompt included (Su et al. 2022, arXiv:2202.06417).

    Args:
        model: a :class:`~samplers.models.LanguageModel` that has hidden states, or a Hugging Face model.
        k: number of candidates, at least 1; forbidden tokens are none.
        alpha: weight of the penalty, in [0, 1].

    Raises:
        ValueError: an argument out of range.
        ModelError: ``model`` is no language model, or (when called) has no hidden states.
    """

    law: Law = "argmax"
    reads_text = True

    def __init__(self, model: Any, k: int = 4, alpha: float = 0.6) -> None:
        if k < 1 or not 0 <= alpha <= 1:
            raise ValueError(f"k must be at least 1 and alpha between 0 and 1, not {k} and {alpha}")
        self.k, self.alpha, self.states = k, alpha, HiddenStates(model)

    def reset(self) -> None:
        super().reset()
        self.states.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        best, tokens = top(scores, self.k)
        p = scores.softmax(-1).gather(-1, tokens)
        known = self.states.follow(rows)
        places = [(i, j) for i, row in enumerate(best.tolist()) for j, score in enumerate(row) if score != FORBIDDEN]
        ids = tokens.tolist()
        ahead = self.states.model.hidden([known[i][0].extend(ids[i][j]) for i, j in places])
        penalty = torch.zeros_like(p)
        for i in range(len(rows)):
            mine = [n for n, place in enumerate(places) if place[0] == i]
            penalty[i, [places[n][1] for n in mine]] = degeneration(ahead[mine], known[i][1]).to(p)
        return only_best(scores, tokens, (1 - self.alpha) * p - self.alpha * penalty)

    def describe(self) -> str:
        return f"the best of {self.k} by probability less {self.alpha:g} of the likeness to the text"
