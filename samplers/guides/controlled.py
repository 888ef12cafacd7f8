"""Controlled decoding, token by token; block by block is :mod:`.blockwise`."""

from __future__ import annotations

from ..registry import method
from ..scores.protocol import Value
from .tilt import Tilt

__all__ = ["ControlledDecoding"]


@method(
    "Controlled Decoding",
    law="exact",
    target=(
        "each token ~ p(v) exp(strength V(text + v)), normalised over the allowed tokens; where exp(strength V) is the model's expectation "
        "of exp(strength r) over the language the whole text ~ p(x) exp(strength r(x)) given the language"
    ),
    cost="one score a considered token and step; one pass where the value gives all next tokens at once",
    paper="Mudgal et al. 2023, arXiv:2310.17022",
    use="guided.generate(..., guide=ControlledDecoding(value, strength=1.0)); samplers.guides.blockwise for blocks",
)
class ControlledDecoding(Tilt):
    """``q(v) ~ p(v) exp(strength V(text + v))``: token-wise controlled decoding with a prefix scorer ``V``, the expected reward of what
    the model makes of a text (Mudgal et al. 2023, arXiv:2310.17022). This is the step's maximiser of
    ``strength E_q[V] - KL(q || p)``.

    Args:
        value: the prefix scorer; several rewards are a :class:`samplers.scores.Weighted` sum of theirs, without
            any training.
        strength: finite, the paper's lambda.
        top_k: ask about so many most probable tokens and drop the others; ``None``: about all that are allowed.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, value: Value, strength: float = 1.0, top_k: int | None = None) -> None:
        super().__init__(value, strength, top_k)

    def describe(self) -> str:
        of = "" if self.top_k is None else f", of the {self.top_k} most probable"
        return f"tilted by {self.weight:g} times the value of the text with the token{of} (controlled decoding)"
