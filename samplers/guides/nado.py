"""NADO: an oracle of whole texts, decomposed into tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..registry import method
from ..scores.protocol import Candidate, Value
from .tilt import Given, Tilt, as_log, check_given

__all__ = ["Nado"]


@method(
    "NADO",
    law="exact",
    target=(
        "each token ~ p(v) R(text + v) / R(text), normalised over the allowed tokens; with the true R (the chance that the text comes to "
        "fit the oracle) the whole text ~ the model given the language and the oracle"
    ),
    cost="R of every considered token a step: one pass where it gives all next tokens at once",
    paper="Meng, Lu, Peng, Chang 2022, arXiv:2205.14219",
    use="guided.generate(..., guide=Nado(value))",
)
class Nado(Tilt):
    """``q(v) ~ p(v) R(text + v) / R(text)`` (Meng, Lu, Peng, Chang 2022, arXiv:2205.14219): the closed-form optimum of posterior
    regularisation for a yes/no oracle of whole texts, where ``R(text)`` is the chance that the model completes the text to one that the
    oracle takes.

    The true ``R`` satisfies ``R(text) = sum_v p(v) R(text + v)``, so that the ratio is normalised by itself. That of a network does so only
    roughly: the law is normalised by the sum, and with ``audit`` the departure from the recursion is measured.

    Args:
        value: ``R``, stated as ``given`` says.
        top_k: ask about so many most probable tokens and drop the others; ``None``: about all that are allowed.
        given: ``"logprob"`` (natural logarithms), ``"probability"``, or ``"logit"``.
        audit: ask for ``R(text)`` as well and keep :attr:`recursion_error`. Needs ``top_k=None``.

    Raises:
        ValueError: an argument out of range; when called, values that are no probabilities.
    """

    def __init__(self, value: Value, top_k: int | None = None, *, given: Given = "logprob", audit: bool = False) -> None:
        if audit and top_k is not None:
            raise ValueError("the recursion is a sum over all tokens: audit needs top_k=None")
        super().__init__(value, 1.0, top_k)
        self.given, self.audit = check_given(given), audit
        self._errors: list[float] = []

    @property
    def recursion_error(self) -> float:
        """Mean over the texts asked about of ``|log sum_v p(v) R(text + v) - log R(text)|``, in nats; ``nan`` before there are any.

        ``p`` is the distribution that comes in: under a constraint, the model's over the allowed tokens.
        """
        return math.fsum(self._errors) / len(self._errors) if self._errors else math.nan

    def strength(self, values: torch.Tensor) -> torch.Tensor:
        return as_log(values, self.given)

    def observe(self, candidates: Sequence[Candidate], logprobs: torch.Tensor, guided: torch.Tensor) -> None:
        if self.audit:
            stated = as_log(torch.tensor(self.value.values(candidates), dtype=torch.float64), self.given)
            errors = (guided.logsumexp(-1).cpu() - stated).abs()
            self._errors += errors[errors.isfinite()].tolist()

    def describe(self) -> str:
        of = "" if self.top_k is None else f", of the {self.top_k} most probable"
        return f"times the chance that the oracle takes the text with the token{of} (NADO)"
