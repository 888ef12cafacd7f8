"""What generation gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Partial", "Result", "Timings"]


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: ``compile`` the constraint, until the ``first`` token, ``total``; the latter two are those of the whole batch."""

    compile: float
    first: float
    total: float


@dataclass(frozen=True, slots=True)
class Result:
    """One generated text.

    Attributes:
        value: what the constraint makes of the text: an instance of the type, parsed JSON, or the text itself (see
            :mod:`guided.inputs`); ``None`` for JSON that was cut (``finish_reason == "length"``).
        text: the text, without end tokens.
        tokens: the token ids, with the end token.
        finish_reason: ``"complete"``, or ``"length"`` where the text was cut at ``max_tokens``.
        logprobs: log-probability of each token under the model itself (no mask, temperature 1).
        log_kept: logarithm of the probability mass that the mask left at each step, in the distribution that was masked (the model's at the
            temperature asked for).
        prompt_tokens: length of the prompt.
        seed: the row's seed; with the same model, prompt and settings it gives the same text.
        timings: seconds.
    """

    value: Any
    text: str
    tokens: list[int]
    finish_reason: Literal["complete", "length"]
    logprobs: list[float] = field(repr=False)
    log_kept: list[float] = field(repr=False)
    prompt_tokens: int = field(repr=False)
    seed: int = field(repr=False)
    timings: Timings = field(repr=False)

    @property
    def logprob(self) -> float:
        """Log-probability of the whole text (its end token included) under the model itself."""
        return math.fsum(self.logprobs)

    @property
    def removed_mass(self) -> list[float]:
        """Probability mass that the mask removed at each step."""
        return [-math.expm1(kept) for kept in self.log_kept]

    @property
    def log_weight(self) -> float:
        """Logarithm of the importance weight from local masking to the model conditioned on the language (up to a constant)."""
        return math.fsum(self.log_kept)


@dataclass(frozen=True, slots=True)
class Partial:
    """A text while it grows.

    Attributes:
        value: its value so far (:mod:`guided.partial`); ``None`` while there is none.
        text: the text so far.
        delta: what the last step added to it.
    """

    value: Any
    text: str
    delta: str
