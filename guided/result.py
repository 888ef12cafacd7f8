"""What generation gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from samplers.search.trace import Trace

__all__ = ["Alternative", "Partial", "Result", "SearchReport", "Timings"]


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: ``compile`` the constraint, until the ``first`` token, ``total``; the latter two are those of the whole batch."""

    compile: float
    first: float
    total: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """A text that a search found.

    Attributes:
        value, text, tokens, finish_reason: as in :class:`Result`.
        score: what the strategy ranks by.
        logprob: of the text under the model, at the temperature asked for.
    """

    value: Any
    text: str
    tokens: list[int] = field(repr=False)
    finish_reason: Literal["complete", "length"]
    score: float
    logprob: float


@dataclass(frozen=True, slots=True)
class SearchReport:
    """How a text was searched for.

    Attributes:
        method: the strategy's name in the table of methods.
        alternatives: all texts that were found, best first; the first one is the result.
        complete: whether the search ran to its own end; ``False``: its budget stopped it.
        forwards: distinct contexts whose next-token distribution was needed.
        expansions, tokens: prefixes that were expanded, and made.
        seconds: wall time of the search.
        details: further numbers, named by the strategy.
        trace: the search tree where one was asked for.
    """

    method: str
    alternatives: list[Alternative]
    complete: bool
    forwards: int
    expansions: int
    tokens: int
    seconds: float
    details: dict[str, float]
    trace: Trace | None = field(repr=False, default=None)

    @property
    def score(self) -> float:
        """Of the best text."""
        return self.alternatives[0].score


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
        search: how it was searched for, with the alternatives; ``None`` where it was sampled.
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
    search: SearchReport | None = field(repr=False, default=None)

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
