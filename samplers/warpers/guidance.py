"""Guidance by a second prompt: classifier-free guidance, instructive decoding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from grammars.errors import ModelError

from ..registry import Law, method
from .base import Row, Warper
from .second import Companion

__all__ = ["ClassifierFreeGuidance", "InstructiveDecoding"]


@method(
    "Classifier-free guidance for text",
    law="exact",
    target="each token ~ softmax of u + scale (c - u), c and u the log-probabilities after the prompt and after the negative prompt",
    cost="a second row through the model a step",
    paper="Sanchez et al. 2023, arXiv:2306.17806; Kornblith et al. 2023, arXiv:2307.16686",
    use="guided.generate(..., warpers=[ClassifierFreeGuidance(model, 1.5, negative=ids)])",
)
class ClassifierFreeGuidance(Warper):
    """``log q(v) = u(v) + scale (c(v) - u(v))`` up to a constant, with ``c`` the log-probabilities that come in and ``u`` the model's
    after a negative (or empty) prompt and the text generated so far: ``q`` is ``p(v | text) (p(v | prompt, text) / p(v | text)) ** scale``
    (Sanchez et al. 2023, arXiv:2306.17806; Kornblith et al. 2023, arXiv:2307.16686).

    ``scale`` 1 changes nothing; above 1 the prompt weighs more; 0 is the model without it.

    Args:
        model: the model again, as a :class:`~samplers.models.LanguageModel` or a Hugging Face model.
        scale: of the guidance.
        negative: token ids in place of the prompt; ``None``: the prompt's last token alone.

    Raises:
        ValueError: ``scale`` is not finite.
        ModelError: ``model`` is no language model, or ``negative`` is empty.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, model: Any, scale: float, *, negative: Sequence[int] | None = None) -> None:
        if not math.isfinite(scale):
            raise ValueError(f"scale must be finite, not {scale}")
        if negative is not None and not len(negative):
            raise ModelError("the negative prompt has no tokens: a causal model needs at least one (its BOS token, say)")
        self.scale, self.free = scale, Companion(model, negative, last=1)

    def reset(self) -> None:
        super().reset()
        self.free.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        conditional = scores.log_softmax(-1)
        if self.scale == 1:
            return conditional
        forbidden = scores.isneginf()
        free = self.free.logprobs(rows, scores)
        return (free + self.scale * (conditional.masked_fill(forbidden, 0.0) - free)).masked_fill(forbidden, -math.inf)

    def describe(self) -> str:
        return f"classifier-free guidance of scale {self.scale:g}"


@method(
    "Instructive Decoding",
    law="exact",
    target="each token ~ softmax of z - epsilon z', z and z' the model's log-probabilities after the instruction and after a noisy one",
    cost="a second row through the model a step",
    paper="Kim, Kim, Lee, Yun 2023, arXiv:2311.00233",
    use="guided.generate(..., warpers=[InstructiveDecoding(model, noisy=ids)])",
)
class InstructiveDecoding(Warper):
    """``s(v) = z(v) - epsilon z'(v)``: what the model would also say after a noisy instruction (random words, a truncated one, or the
    request to answer with the opposite) is taken off (Kim, Kim, Lee, Yun 2023, arXiv:2311.00233).

    The paper's logits and the log-probabilities used here differ by a constant a row, which no softmax sees.

    Args:
        model: the model again, as a :class:`~samplers.models.LanguageModel` or a Hugging Face model.
        noisy: token ids of the prompt with the noisy instruction.
        epsilon: strength, at least 0.

    Raises:
        ValueError: ``epsilon`` is negative.
        ModelError: ``model`` is no language model, or ``noisy`` is empty.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, model: Any, noisy: Sequence[int], epsilon: float = 0.3) -> None:
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"epsilon must be a number of at least 0, not {epsilon}")
        if not len(noisy):
            raise ModelError("the noisy prompt has no tokens: a causal model needs at least one (its BOS token, say)")
        self.epsilon, self.noisy = epsilon, Companion(model, noisy)

    def reset(self) -> None:
        super().reset()
        self.noisy.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return scores.log_softmax(-1) - self.epsilon * self.noisy.logprobs(rows, scores)

    def describe(self) -> str:
        return f"less {self.epsilon:g} times the log-probabilities after a noisy instruction"
