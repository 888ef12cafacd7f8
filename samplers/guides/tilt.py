"""The law that guides by a value share: probabilities times the exponential of a weight times the value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch

from ..scores.protocol import Candidate, Value, next_values
from ..warpers.base import FORBIDDEN, Row
from ..warpers.second import Contexts
from .guide import Guide, as_logprobs, guided_scores

__all__ = ["Given", "Tilt", "as_log", "check_top_k"]

Given = Literal["logprob", "probability", "logit"]
"""How a value states a probability."""


def check_top_k(top_k: int | None) -> int | None:
    """``top_k`` itself; a ``ValueError`` if it is below 1."""
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1 (None: all tokens), not {top_k}")
    return top_k


def check_given(given: Given) -> Given:
    """``given`` itself; a ``ValueError`` if it is none of :data:`Given`."""
    if given not in get_args(Given):
        raise ValueError(f"given must be one of {get_args(Given)}, not {given!r}")
    return given


def as_log(values: torch.Tensor, given: Given) -> torch.Tensor:
    """Natural logarithms of probabilities that are ``given`` as such, as logarithms, or as logits.

    Raises:
        ValueError: a number that is no probability (beyond 1e-6 of rounding).
    """
    if given == "logit":
        return torch.nn.functional.logsigmoid(values)
    logs = values.log() if given == "probability" else values
    if bool(logs.isnan().any()) or bool((logs > 1e-6).any()):
        raise ValueError(f"{given} must stand for probabilities, not {values[(logs.isnan()) | (logs > 1e-6)][:4].tolist()}")
    return logs.clamp(max=0.0)


def most_probable(logprobs: torch.Tensor, k: int) -> torch.Tensor:
    """Ids of the ``k`` best tokens of one row (fewer where fewer are allowed), best first; of equal ones the lower ids.

    As :func:`samplers.warpers.base.top`, without the sort of the whole vocabulary.
    """
    least = logprobs.topk(min(k, len(logprobs))).values[-1]
    ids = ((logprobs >= least) & logprobs.isfinite()).nonzero()[:, 0]
    return ids[logprobs[ids].sort(descending=True, stable=True).indices[:k]]


class Tilt(Guide):
    """``q(v) ~ p(v) exp(weight V(text + v))`` on the ``top_k`` most probable tokens, zero elsewhere, normalised.

    ``p`` is the distribution that comes in, its forbidden tokens at zero: they are not among the ``top_k`` and are not asked about. A
    value of ``-inf`` takes a token out, whatever the weight; where all are taken out, the row keeps ``p`` on these tokens.

    The guides of the papers are this law with their own reading of ``V``; this class is it in plain.

    Args:
        value: see :mod:`samplers.scores`.
        weight: finite; a negative one steers away from high values.
        top_k: how many tokens are asked about a step (exactly; of equally probable ones the lower ids); ``None``: all that are allowed.

    Raises:
        ValueError: an argument out of range; when called, a value that is not a number or ``+inf``.
    """

    def __init__(self, value: Value, weight: float = 1.0, top_k: int | None = None) -> None:
        if not math.isfinite(weight):
            raise ValueError(f"weight must be finite, not {weight}")
        self.value, self.weight, self.top_k = value, weight, check_top_k(top_k)
        self.texts = Contexts()

    def reset(self) -> None:
        super().reset()
        self.texts.reset()

    def strength(self, values: torch.Tensor) -> torch.Tensor:
        """What is added to the log-probabilities of the tokens of one row, from their values: ``float64[k]``."""
        out = values.isneginf()
        return (self.weight * values.masked_fill(out, 0.0)).masked_fill(out, FORBIDDEN)

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        logprobs = as_logprobs(scores)
        candidates = [Candidate(context, row.prompt, False, self.ends) for row, context in zip(rows, self.texts.of(rows))]
        tokens = self.considered(logprobs)
        found = next_values(self.value, candidates, [row.tolist() for row in tokens])
        self.scored += sum(map(len, tokens))
        kept, guided = torch.full_like(logprobs, FORBIDDEN), torch.full_like(logprobs, FORBIDDEN)
        for i, (ids, values) in enumerate(zip(tokens, found)):
            kept[i, ids] = logprobs[i, ids]
            guided[i, ids] = logprobs[i, ids] + self.strength(self._checked(values, ids)).to(logprobs.device)
        self.observe(candidates, logprobs, guided)
        return guided_scores(scores, kept, guided)

    def considered(self, logprobs: torch.Tensor) -> list[torch.Tensor]:
        """The tokens of each row that are asked about, ``int64[k]``: none that is forbidden."""
        if self.top_k is None:
            return [row.isfinite().nonzero()[:, 0] for row in logprobs]
        return [most_probable(row, self.top_k) for row in logprobs]

    def observe(self, candidates: Sequence[Candidate], logprobs: torch.Tensor, guided: torch.Tensor) -> None:
        """Called at every step with what came in and the unnormalised law; for guides that keep statistics."""

    def _checked(self, values: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        values = torch.as_tensor(values, dtype=torch.float64).cpu()
        bad = values.isnan() | (values == math.inf)
        if bool(bad.any()):
            token = int(tokens[bad.to(tokens.device)][0])
            raise ValueError(f"the value of the text with token {token} is {float(values[bad][0])}; it must be a finite number or -inf")
        return values

    def describe(self) -> str:
        of = "" if self.top_k is None else f", on the {self.top_k} most probable tokens"
        return f"{self.weight:g} times the value of the text with the token{of}"
