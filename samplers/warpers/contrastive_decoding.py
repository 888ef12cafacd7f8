"""Contrastive decoding: an expert against an amateur."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..registry import Law, method
from .base import Row, Warper
from .min_p import min_p
from .second import Companion

__all__ = ["ContrastiveDecoding", "contrast"]


def contrast(expert: torch.Tensor, amateur: torch.Tensor, alpha: float, beta: float | None) -> torch.Tensor:
    """Scores of the contrast, minus infinity where the expert finds a token implausible.

    Args:
        expert, amateur: scores ``float[rows, width]`` (the amateur's finite).
        alpha: plausible is what has at least ``alpha`` times the best token's probability under the expert.
        beta: ``(1 + beta) expert - beta amateur``; ``None``: the plain difference of the log-probabilities.
    """
    plausible = min_p(expert, alpha)
    if beta is None:
        return plausible - amateur
    return (1 + beta) * plausible - beta * amateur


@method(
    "Contrastive Decoding",
    law="exact",
    target=(
        "each token ~ softmax of (1 + beta) expert - beta amateur (beta=None: log p_expert - log p_amateur), restricted to tokens with at "
        "least alpha times the best token's probability under the expert"
    ),
    cost="a step of the amateur for each step of the expert",
    paper="Li et al. 2022, arXiv:2210.15097; O'Brien, Lewis 2023, arXiv:2309.09117",
    use="guided.generate(..., warpers=[ContrastiveDecoding(amateur)])",
)
class ContrastiveDecoding(Warper):
    """Favours what a strong model (whose scores come in) finds more likely than a weak one. On the tokens with
    ``p_expert(v) >= alpha max p_expert``::

        s(v) = (1 + beta) s_expert(v) - beta s_amateur(v)            O'Brien, Lewis 2023, arXiv:2309.09117
        s(v) = log p_expert(v) - log p_amateur(v)    (beta=None)     Li et al. 2022, arXiv:2210.15097

    Args:
        amateur: a :class:`~samplers.models.LanguageModel` or Hugging Face model over the same vocabulary.
        alpha: in (0, 1].
        beta: strength, at least 0; ``None`` for the earlier form.
        prompt: a prompt of its own for the amateur; ``None``: the rows'.

    Raises:
        ValueError: an argument out of range.
        ModelError: the amateur is no language model, or (when called) has another number of logits.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, amateur: Any, alpha: float = 0.1, beta: float | None = 0.5, *, prompt: Sequence[int] | None = None) -> None:
        if not 0 < alpha <= 1 or (beta is not None and not 0 <= beta < math.inf):
            raise ValueError(f"alpha must be in (0, 1] and beta a number of at least 0, not {alpha} and {beta}")
        self.alpha, self.beta, self.amateur = alpha, beta, Companion(amateur, prompt)

    def reset(self) -> None:
        super().reset()
        self.amateur.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return contrast(scores.log_softmax(-1), self.amateur.logprobs(rows, scores), self.alpha, self.beta)

    def describe(self) -> str:
        how = "less an amateur's" if self.beta is None else f"moved by {self.beta:g} away from an amateur's"
        return f"log-probabilities {how}, where at least {self.alpha:g} of the best"
