"""One step of sampling: logits and what is allowed in, tokens and their probabilities out. Pure functions on tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .registry import method

__all__ = ["Drawn", "Settings", "Warp", "choose", "draw", "shape", "top_k", "top_p"]

Warp = Callable[[torch.Tensor, "torch.Tensor | None"], tuple[torch.Tensor, torch.Tensor]]
"""Scores and what is allowed in, scores of the allowed tokens and :attr:`Drawn.log_kept` out: a pipeline of warpers, say."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a token is drawn from the allowed ones.

    Attributes:
        temperature: logits are divided by it; 0 is greedy.
        top_k: keep the ``top_k`` most probable of the allowed tokens; ``None`` keeps all.
        top_p: keep the smallest set of most probable tokens that holds this share of the allowed mass; ``None`` or 1 keeps all.

    Raises:
        ValueError: a value outside of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be a finite number >= 0, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens of one step, one a row.

    Attributes:
        tokens: ``int64[rows]``.
        logprobs: ``float64[rows]``, log-probability of the token under the model itself (no mask, temperature 1).
        log_kept: ``float64[rows]``, logarithm of the probability mass that the mask left, in the distribution that is masked (the
            model's at ``temperature``; at temperature 1 for greedy). ``-expm1(log_kept)`` is the mass that was removed.
    """

    tokens: torch.Tensor
    logprobs: torch.Tensor
    log_kept: torch.Tensor


def top_k(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Keeps the ``k`` best scores of each row and those that tie with the k-th; the others become minus infinity."""
    if k >= scores.shape[-1]:
        return scores
    kth = scores.topk(k, dim=-1).values[..., -1:]
    return scores.masked_fill(scores < kth, float("-inf"))


def top_p(scores: torch.Tensor, p: float) -> torch.Tensor:
    """Keeps the fewest best scores of each row whose softmax holds ``p``; the others become minus infinity."""
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    before = ordered.softmax(-1).cumsum(-1).roll(1, -1)
    before[..., 0] = 0
    return torch.full_like(scores, float("-inf")).scatter(-1, order, ordered.masked_fill(before >= p, float("-inf")))


@method(
    "temperature sampling",
    law="exact",
    target="each token ~ softmax(logits / temperature), over the tokens that are allowed",
    cost="none",
    use="temperature=T",
)
@method(
    "greedy decoding",
    law="argmax",
    target="of each step's distribution over the allowed tokens (not of the whole text's probability)",
    cost="none",
    use="temperature=0",
)
@method(
    "top-k sampling",
    law="exact",
    target="as temperature sampling, restricted to the k most probable allowed tokens (ties with the k-th are kept), renormalised",
    cost="a selection over the vocabulary a step",
    paper="Fan, Lewis, Dauphin 2018, arXiv:1805.04833",
    use="top_k=K",
)
@method(
    "top-p sampling",
    law="exact",
    target="as temperature sampling, restricted to the fewest most probable allowed tokens that hold p of the allowed mass, renormalised",
    cost="a sort of the vocabulary a step",
    paper="Holtzman et al. 2020, arXiv:1904.09751",
    use="top_p=P",
)
def choose(
    logits: torch.Tensor, allowed: torch.Tensor | None, uniforms: torch.Tensor, settings: Settings, warp: Warp | None = None
) -> Drawn:
    """Draws one token a row.

    Args:
        logits: ``[rows, width]``.
        allowed: ``bool[rows, width]``, at least one a row; ``None``: everything.
        uniforms: ``float64[rows]`` in [0, 1), on any device: the only randomness (inverse of the cumulative distribution).
        settings: temperature, top-k and top-p.
        warp: shapes the distribution, and applies the mask where it stands in it, before the settings act.
    """
    scores = logits.double()
    warped, kept = shape(scores, allowed, settings, warp)
    tokens = draw(warped, uniforms.to(warped.device)) if settings.temperature else warped.argmax(-1)
    return Drawn(tokens, scores.gather(-1, tokens[:, None])[:, 0] - scores.logsumexp(-1), kept)


def shape(
    scores: torch.Tensor, allowed: torch.Tensor | None, settings: Settings, warp: Warp | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The law of a step: everything that :func:`choose` does before it draws.

    Args:
        scores: ``float64[rows, width]``, logits.
        allowed, settings, warp: see :func:`choose`.

    Returns:
        ``float64[rows, width]``, whose softmax is the law (at temperature 0: whose greatest entry is the token), and
        :attr:`Drawn.log_kept`.
    """
    if warp is not None:
        warped, kept = warp(scores, allowed)
        warped = warped / settings.temperature if settings.temperature else warped
    else:
        warped = scores / settings.temperature if settings.temperature else scores
        total = warped.logsumexp(-1)
        if allowed is not None:
            warped = warped.masked_fill(~allowed, float("-inf"))
        kept = (warped.logsumexp(-1) - total).clamp(max=0)
    if settings.temperature:
        if settings.top_k is not None:
            warped = top_k(warped, settings.top_k)
        if settings.top_p is not None and settings.top_p < 1:
            warped = top_p(warped, settings.top_p)
    return warped, kept


def draw(scores: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Index whose interval of the cumulative distribution holds the row's uniform; never one of probability zero."""
    cumulative = scores.softmax(-1).cumsum(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    # at most the last index where the sum still grows: rounding must not lead past it
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(torch.searchsorted(cumulative, target, right=True), last).clamp(max=scores.shape[-1] - 1)[:, 0]
