"""FUDGE: a classifier of prefixes by Bayes' rule."""

from __future__ import annotations

import torch

from ..registry import method
from ..scores.protocol import Value
from .tilt import Given, Tilt, as_log, check_given

__all__ = ["Fudge"]


@method(
    "FUDGE",
    law="exact",
    target=(
        "each token ~ p(v) P(class | text + v)^weight over the k most probable allowed tokens; with the true P, weight 1 and all "
        "tokens the whole text ~ the model given the language and the class"
    ),
    cost="k answers of the classifier a step",
    paper="Yang, Klein 2021, arXiv:2104.05218",
    use="guided.generate(..., guide=Fudge(value, top_k=200))",
)
class Fudge(Tilt):
    """``q(v) ~ p(v) P(class | text + v) ** weight`` on the ``k`` most probable tokens (Yang, Klein 2021, arXiv:2104.05218): Bayes' rule for
    a text that will have an attribute, with a classifier that was trained on prefixes to foresee it.

    Args:
        value: the classifier's ``P(class | text)``, stated as ``given`` says.
        weight: exponent of the probability, the paper's lambda; 1 is Bayes' rule. Finite.
        top_k: ``k``, the paper's 200; ``None``: all allowed tokens.
        given: ``"logprob"`` (natural logarithms), ``"probability"``, or ``"logit"``.

    Raises:
        ValueError: an argument out of range; when called, values that are no probabilities.
    """

    def __init__(self, value: Value, weight: float = 1.0, top_k: int | None = 200, *, given: Given = "logprob") -> None:
        super().__init__(value, weight, top_k)
        self.given = check_given(given)

    def strength(self, values: torch.Tensor) -> torch.Tensor:
        return super().strength(as_log(values, self.given))

    def describe(self) -> str:
        of = "" if self.top_k is None else f", of the {self.top_k} most probable"
        power = "" if self.weight == 1 else f" to the power of {self.weight:g}"
        return f"times the probability of the class given the text with the token{power}{of} (FUDGE)"
