"""Epsilon and eta sampling: cutoffs on the probability itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..registry import method
from .base import FORBIDDEN, Row, Warper

__all__ = ["EpsilonCutoff", "EtaCutoff", "entropy", "epsilon_cutoff", "eta_cutoff"]


def entropy(scores: torch.Tensor) -> torch.Tensor:
    """Entropy in nats of the softmax of each row, ``float[rows]``."""
    logprobs = scores.log_softmax(-1)
    return -(logprobs.exp() * logprobs).nan_to_num(nan=0.0).sum(-1)


def _at_least(scores: torch.Tensor, threshold: torch.Tensor | float) -> torch.Tensor:
    """Keeps tokens of log-probability at least ``threshold``, and those that tie with the best."""
    best = scores.amax(-1, keepdim=True)
    return scores.masked_fill((scores.log_softmax(-1) < threshold) & (scores < best), FORBIDDEN)


def epsilon_cutoff(scores: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Keeps tokens with probability at least ``epsilon``, and the best one."""
    return _at_least(scores, math.log(epsilon))


def eta_cutoff(scores: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Keeps tokens with probability at least ``min(epsilon, sqrt(epsilon) exp(-H))``, ``H`` the row's entropy, and the best one."""
    eta = (0.5 * math.log(epsilon) - entropy(scores)).clamp(max=math.log(epsilon))
    return _at_least(scores, eta[..., None])


def _check(epsilon: float) -> float:
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon must be above 0 and below 1, not {epsilon}")
    return epsilon


@method(
    "epsilon sampling",
    law="exact",
    target="the step's distribution restricted to tokens of probability at least epsilon (the best one always), renormalised",
    cost="a softmax over the vocabulary a step",
    paper="Hewitt, Manning, Liang 2022, arXiv:2210.15191",
    use="guided.generate(..., warpers=[EpsilonCutoff(epsilon)])",
)
class EpsilonCutoff(Warper):
    """Keeps ``{v: p(v) >= epsilon}`` and the most probable token, renormalised (Hewitt, Manning, Liang 2022, arXiv:2210.15191).

    Raises:
        ValueError: ``epsilon`` is not in (0, 1).
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = _check(epsilon)

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return epsilon_cutoff(scores, self.epsilon)

    def describe(self) -> str:
        return f"probability at least {self.epsilon:g}"


@method(
    "eta sampling",
    law="exact",
    target="the step's distribution restricted to tokens of probability at least min(epsilon, sqrt(epsilon) exp(-entropy)), renormalised",
    cost="a softmax over the vocabulary a step",
    paper="Hewitt, Manning, Liang 2022, arXiv:2210.15191",
    use="guided.generate(..., warpers=[EtaCutoff(epsilon)])",
)
class EtaCutoff(Warper):
    """Keeps ``{v: p(v) >= eta}``, ``eta = min(epsilon, sqrt(epsilon) exp(-H(p)))``, and the most probable token; renormalised: the cutoff
    falls where the model is unsure (Hewitt, Manning, Liang 2022, arXiv:2210.15191).

    Raises:
        ValueError: ``epsilon`` is not in (0, 1).
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = _check(epsilon)

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return eta_cutoff(scores, self.epsilon)

    def describe(self) -> str:
        return f"eta cutoff at epsilon {self.epsilon:g}"
