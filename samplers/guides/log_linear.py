"""Products of experts: other models' next-token probabilities, each to a power, times the model's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..registry import method
from ..warpers.base import Row
from ..warpers.second import Companion
from .guide import Guide, as_logprobs, guided_scores

__all__ = ["DExperts", "GenARM", "LogLinear", "Plugin", "WeakToStrong"]


class LogLinear(Guide):
    """``log q(v) = power log p(v) + sum_i weight_i log p_i(v | text)`` up to a constant, ``p`` what comes in.

    Forbidden tokens stay forbidden. Log-probabilities of the other models count as at least -100
    (:data:`samplers.warpers.second.FLOOR`), so that none rules a token out alone. The guides of the papers are this law with their own
    weights; this class is it in plain. Its close relatives that cut the vocabulary as well are warpers:
    :class:`samplers.warpers.ContrastiveDecoding`, :class:`samplers.warpers.ClassifierFreeGuidance`.

    Args:
        models: pairs of a model (a :class:`~samplers.models.LanguageModel` or a Hugging Face model over the same vocabulary, or a
            :class:`~samplers.warpers.second.Companion` for one with a prompt of its own) and its weight.
        power: of what comes in.

    Raises:
        ValueError: a weight or the power is not finite.
        ModelError: one is no language model; when called, it has another number of logits.
    """

    def __init__(self, models: Sequence[tuple[Any, float]], power: float = 1.0) -> None:
        if not all(math.isfinite(weight) for weight in (power, *(weight for _, weight in models))):
            raise ValueError(f"powers must be finite, not {power} and {[weight for _, weight in models]}")
        self.power = power
        self.parts = [(model if isinstance(model, Companion) else Companion(model), weight) for model, weight in models if weight]

    def reset(self) -> None:
        super().reset()
        for companion, _ in self.parts:
            companion.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        logprobs = as_logprobs(scores)
        forbidden = logprobs.isneginf()
        guided = self.power * logprobs.masked_fill(forbidden, 0.0)
        for companion, weight in self.parts:
            guided = guided + weight * companion.logprobs(rows, logprobs)
            self.scored += len(rows)
        return guided_scores(scores, logprobs, guided.masked_fill(forbidden, -math.inf))

    def describe(self) -> str:
        return f"to the power of {self.power:g}, times other models' to the powers of {self._powers()}"

    def _powers(self) -> str:
        return ", ".join(f"{weight:g}" for _, weight in self.parts) or "none"


@method(
    "DExperts",
    law="exact",
    target="each token ~ softmax of z(v) + alpha (z_expert(v) - z_antiexpert(v)) over the allowed tokens, z log-probabilities",
    cost="a step of the expert and one of the anti-expert",
    paper="Liu et al. 2021, arXiv:2105.03023",
    use="guided.generate(..., warpers=[TopP(0.9)], guide=DExperts(expert, antiexpert, alpha=2.0))",
)
class DExperts(LogLinear):
    """``z(v) + alpha (z+(v) - z-(v))``: towards a model fine-tuned on what is wanted and away from one fine-tuned on what is not (Liu et
    al. 2021, arXiv:2105.03023). The paper cuts the base model's distribution by top-p (or top-k) first: put that warper before the guide.

    Log-probabilities stand for the paper's logits; they differ by a constant a row, which no softmax sees.

    Args:
        expert: a :class:`~samplers.models.LanguageModel` or Hugging Face model; ``None``: the base model itself (the paper's variant with
            an anti-expert only).
        antiexpert: likewise.
        alpha: strength, finite.

    Raises:
        ValueError: ``alpha`` is not finite, or there is neither an expert nor an anti-expert.
        ModelError: one is no language model; when called, it has another number of logits.
    """

    def __init__(self, expert: Any | None, antiexpert: Any | None, alpha: float = 2.0) -> None:
        if expert is None and antiexpert is None:
            raise ValueError("there must be an expert or an anti-expert, if not both")
        given = [(model, sign * alpha) for model, sign in ((expert, 1), (antiexpert, -1)) if model is not None]
        super().__init__(given, 1 + alpha * ((expert is None) - (antiexpert is None)))
        self.alpha = alpha

    def describe(self) -> str:
        return f"plus {self.alpha:g} times the difference of an expert's and an anti-expert's log-probabilities (DExperts)"


@method(
    "weak-to-strong log-ratio",
    law="exact",
    target="each token ~ p(v) (p_tuned(v) / p_untuned(v))^beta, normalised over the allowed tokens, for a small model tuned and untuned",
    cost="a step of each of the two small models",
    paper="Mitchell et al. 2023, arXiv:2310.12962; Liu et al. 2024, arXiv:2401.08565",
    use="guided.generate(..., guide=WeakToStrong(tuned, untuned, beta=1.0))",
)
class WeakToStrong(DExperts):
    """``q(v) ~ p(v) (p_tuned(v) / p_untuned(v)) ** beta``: what tuning did to a small model is done to a large one, token by token
    (emulated fine-tuning, Mitchell et al. 2023, arXiv:2310.12962; proxy-tuning, Liu et al. 2024, arXiv:2401.08565). The same ratio
    steers whole chunks in weak-to-strong search.

    Args:
        tuned, untuned: the small model after and before tuning; :class:`~samplers.models.LanguageModel` or Hugging Face models.
        beta: strength, finite; 1 is the papers' law.

    Raises:
        ValueError: ``beta`` is not finite.
        ModelError: one is no language model; when called, it has another number of logits.
    """

    def __init__(self, tuned: Any, untuned: Any, beta: float = 1.0) -> None:
        super().__init__(tuned, untuned, beta)

    def describe(self) -> str:
        return f"times the ratio of a small model's probabilities after and before tuning, to the power of {self.alpha:g}"


@method(
    "GenARM",
    law="exact",
    target="each token ~ p(v) prod_i p_i(v)^(alpha_i / beta), normalised over the allowed tokens, p_i autoregressive reward models",
    cost="a step of each reward model",
    paper="Xu et al. 2024, arXiv:2410.08193",
    use="guided.generate(..., guide=GenARM(reward_model, beta=1.0))",
)
class GenARM(LogLinear):
    """``q(v) ~ p(v) p_r(v | text) ** (1 / beta)``: the reward of a text is the log-probability of a language model trained on
    preferences, so that it falls apart into tokens (Xu et al. 2024, arXiv:2410.08193). Each step is the optimum of that reward less
    ``beta`` times the divergence from ``p``.

    Args:
        reward: a :class:`~samplers.models.LanguageModel` or Hugging Face model over the same vocabulary; or for several objectives pairs
            of such a model and its coefficient.
        beta: above 0; small is strong.

    Raises:
        ValueError: ``beta`` or a coefficient out of range.
        ModelError: one is no language model; when called, it has another number of logits.
    """

    def __init__(self, reward: Any | Sequence[tuple[Any, float]], beta: float = 1.0) -> None:
        if not 0 < beta < math.inf:
            raise ValueError(f"beta must be a positive finite number, not {beta}")
        given = reward if isinstance(reward, list | tuple) else [(reward, 1.0)]
        super().__init__([(model, alpha / beta) for model, alpha in given])

    def describe(self) -> str:
        return f"times reward models' next-token probabilities to the powers of {self._powers()} (GenARM)"


@method(
    "Plugin reweighting of black-box LMs",
    law="exact",
    target="each token ~ p(v) p_reweighting(v), normalised over the allowed tokens",
    cost="a step of the reweighting model",
    paper="Hiranandani et al. 2025, arXiv:2502.06806",
    use="guided.generate(..., guide=Plugin(reweighting_model))",
)
class Plugin(LogLinear):
    """``q(v) ~ p(v) p_w(v | text)``: a model that shows only its probabilities, times those of a small model fitted to the task with
    the large one frozen (Hiranandani et al. 2025, arXiv:2502.06806).

    Args:
        reweighting: a :class:`~samplers.models.LanguageModel` or Hugging Face model over the same vocabulary.

    Raises:
        ModelError: it is no language model; when called, it has another number of logits.
    """

    def __init__(self, reweighting: Any) -> None:
        super().__init__([(reweighting, 1.0)])

    def describe(self) -> str:
        return "times a reweighting model's probabilities (Plugin)"
