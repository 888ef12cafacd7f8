"""RAD: reward-augmented decoding."""

from __future__ import annotations

from ..registry import method
from ..scores.protocol import Value
from .tilt import Tilt

__all__ = ["RAD"]


@method(
    "RAD reward-augmented decoding",
    law="exact",
    target="each token ~ softmax of z(v) + beta r(text + v) over the k most probable allowed tokens, z the logits",
    cost="k scores a step; one token each with a unidirectional reward model that keeps its cache",
    paper="Deng, Raffel 2023, arXiv:2310.09520",
    use="guided.generate(..., guide=RAD(value, beta=10.0, top_k=20))",
)
class RAD(Tilt):
    """The logits of the ``k`` most probable tokens are raised by ``beta`` times the reward of the text with the token, and the softmax of
    these is what is sampled (Deng, Raffel 2023, arXiv:2310.09520).

    The paper's reward model is unidirectional, so that what it computed for the text serves all ``k`` next tokens and the next step
    (:class:`samplers.scores.Classifier` with a causal model keeps such a cache), and its rewards lie in [0, 1]. It decreases an
    attribute by using ``1 - r``; that is the same law as a negative ``beta``.

    Args:
        value: the reward of a text so far.
        beta: steering amount; finite.
        top_k: ``k``, at least 1.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, value: Value, beta: float = 10.0, top_k: int = 20) -> None:
        super().__init__(value, beta, top_k)

    def describe(self) -> str:
        return f"plus {self.weight:g} times the reward of the text with the token, of the {self.top_k} most probable (RAD)"
