"""Frustratingly Simple Decoding: the model against an anti-model of the text so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..registry import Law, method
from .base import Row, Warper, only_best, top
from .hidden_states import HiddenStates
from .no_repeat import followers

__all__ = ["FrustratinglySimple", "FrustratinglySimpleVector", "anti_ngram", "anti_vector"]


def anti_ngram(tokens: Sequence[int], candidates: Sequence[int], n: int, beta: float) -> list[float]:
    """Smoothed n-gram probabilities of the candidates under the text itself.

    With ``c`` counts in the text and ``h_i`` its last ``i`` tokens, from the unigram ``a_0(v) = c(v) / |text|`` up to ``a_(n-1)``::

        a_i(v) = beta c(h_i v) / (c(h_i) + 1) + (1 - beta) a_(i-1)(v)     if h_i v is in the text, else a_(i-1)(v)

    where ``c(h_i)`` counts the occurrences that something follows. 0 for a text of fewer than ``n - 1`` tokens.
    """
    found = dict.fromkeys(candidates, 0.0)
    if not tokens or len(tokens) < n - 1:
        return [0.0 for _ in candidates]
    for i in range(n):
        after = followers(tokens, i).tolist()
        for token in found:
            count = after.count(token)
            if count:
                found[token] = count / len(after) if i == 0 else beta * count / (len(after) + 1) + (1 - beta) * found[token]
    return [found[token] for token in candidates]


def anti_vector(states: torch.Tensor, tokens: Sequence[int], candidates: Sequence[int], n: int) -> torch.Tensor:
    """Soft n-gram matches: for each candidate the best cosine, in [0, 1], of the last ``n - 1`` states with those before its occurrences.

    Args:
        states: ``float[length, size]``, the hidden state at each token of the text.
        tokens: the text.
        candidates: token ids.
        n: at least 2; the ``n - 1`` states of a match are put end to end and normalised as one vector.
    """
    width = n - 1
    found = states.new_zeros(len(candidates))
    if len(tokens) < n:
        return found
    windows = states.unfold(0, width, 1).transpose(1, 2).flatten(1)  # row j: the states at j .. j + width - 1
    windows = torch.nn.functional.normalize(windows, dim=-1)
    match = windows[:-1] @ windows[-1]  # the last window's successor is what is asked for
    following = torch.tensor(list(tokens[width:]), device=states.device)
    for i, token in enumerate(candidates):
        here = match[following == token]
        if len(here):
            found[i] = here.max()
    return found.clamp(0, 1)


def _check(k: int, alpha: float, n: int) -> None:
    if k < 1 or not 0 <= alpha <= 1 or n < 2:
        raise ValueError(f"k must be at least 1, alpha between 0 and 1 and n at least 2, not {k}, {alpha} and {n}")


@method(
    "Frustratingly Simple Decoding",
    law="argmax",
    target="of (1 - alpha) p(v) - alpha a(v) over the k most probable tokens, a the text's n-grams (FSD-d) or hidden states (FSD)",
    cost="n scans of the text a step; with hidden states a product with all of the text's states",
    paper="Yang et al. 2023, arXiv:2305.12675",
    use="guided.generate(..., warpers=[FrustratinglySimple()]), warpers=[FrustratinglySimpleVector(model)]",
)
class FrustratinglySimple(Warper):
    """FSD-d, with an n-gram anti-model: ``argmax over the k best of (1 - alpha) p(v) - alpha a(v)``, ``a`` see :func:`anti_ngram` (Yang et
    al. 2023, arXiv:2305.12675; the smoothing is that of the authors' program).

    The anti-model is a function of the text (prompt included); nothing is kept from step to step.

    Args:
        k: number of candidates.
        alpha: weight of the anti-model, in [0, 1].
        n: order of the n-grams, at least 2.
        beta: weight of the longest n-gram in the smoothing, in [0, 1].

    Raises:
        ValueError: an argument out of range.
    """

    law: Law = "argmax"
    reads_text = True

    def __init__(self, k: int = 6, alpha: float = 0.4, n: int = 3, beta: float = 0.9) -> None:
        _check(k, alpha, n)
        if not 0 <= beta <= 1:
            raise ValueError(f"beta must be between 0 and 1, not {beta}")
        self.k, self.alpha, self.n, self.beta = k, alpha, n, beta

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        _, tokens = top(scores, self.k)
        p = scores.softmax(-1).gather(-1, tokens)
        against = [anti_ngram(row.tokens, ids, self.n, self.beta) for row, ids in zip(rows, tokens.tolist())]
        return only_best(scores, tokens, (1 - self.alpha) * p - self.alpha * p.new_tensor(against))

    def describe(self) -> str:
        return f"the best of {self.k} by probability less {self.alpha:g} of a {self.n}-gram anti-model"


class FrustratinglySimpleVector(Warper):
    """FSD with a vectorised anti-model: matches of hidden states in place of n-grams, see :func:`anti_vector` (Yang et al. 2023,
    arXiv:2305.12675).

    Args:
        model: a :class:`~samplers.models.LanguageModel` that has hidden states, or a Hugging Face model.
        k: number of candidates.
        alpha: weight of the anti-model, in [0, 1].
        n: length of a match plus one, at least 2.

    Raises:
        ValueError: an argument out of range.
        ModelError: ``model`` is no language model, or (when called) has no hidden states.
    """

    law: Law = "argmax"
    reads_text = True

    def __init__(self, model: Any, k: int = 6, alpha: float = 0.4, n: int = 2) -> None:
        _check(k, alpha, n)
        self.k, self.alpha, self.n = k, alpha, n
        self.states = HiddenStates(model)

    def reset(self) -> None:
        super().reset()
        self.states.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        _, tokens = top(scores, self.k)
        p = scores.softmax(-1).gather(-1, tokens)
        found = zip(rows, tokens.tolist(), self.states.of(rows))
        against = [anti_vector(states, row.tokens, ids, self.n) for row, ids, states in found]
        return only_best(scores, tokens, (1 - self.alpha) * p - self.alpha * torch.stack(against).to(p))

    def describe(self) -> str:
        return f"the best of {self.k} by probability less {self.alpha:g} of a vectorised anti-model"
