"""Penalty Decoding: a repetition penalty that forgets, and a length penalty."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registry import Law, method
from .base import Row, Warper
from .penalties import occurrences, repetition_penalty

__all__ = ["PenaltyDecoding"]


@method(
    "Penalty Decoding",
    law="exact",
    target=(
        "softmax (greedy: argmax) of the scores after a repetition penalty on the tokens of the last window, the end tokens' scores "
        "lowered in proportion to what is missing from the least length"
    ),
    cost="a count of the window's tokens a step",
    paper="Zhu, Hao, Wang 2023, arXiv:2310.14971",
    use="guided.generate(..., warpers=[PenaltyDecoding(1.5, window=100)], temperature=0)",
)
class PenaltyDecoding(Warper):
    """The three parts of Penalty Decoding (Zhu, Hao, Wang 2023, arXiv:2310.14971), which is used with greedy decoding.

    1. *Repetition penalty*: ``s(v) / penalty`` where ``s(v) > 0``, else ``s(v) penalty``, for tokens seen;
    2. *forgetting*: only tokens among the last ``window`` of the text count as seen;
    3. *length penalty*: while the generated text has ``l < length`` tokens, ``s(end) <- s(end) - strength (length - l) / length``.

    The paper's idea of the third part is that end tokens lose score while the text is short. That the loss falls linearly to nothing at
    ``length``, and the default ``strength``, are a reading of it that was chosen here.

    Args:
        penalty: above 0; 1 is none.
        window: tokens that are remembered, at least 1.
        eos_token_ids: the end tokens; none switches the length penalty off.
        length: length under which a text counts as too short, at least 0.
        strength: what the length penalty takes off at the first token, at least 0.

    Raises:
        ValueError: an argument out of range.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(
        self, penalty: float = 1.5, window: int = 100, *, eos_token_ids: Sequence[int] = (), length: int = 0, strength: float = 10.0
    ) -> None:
        if not penalty > 0 or window < 1 or length < 0 or not strength >= 0:
            raise ValueError(
                "penalty must be above 0, window at least 1, length and strength at least 0, "
                f"not penalty={penalty}, window={window}, length={length}, strength={strength}"
            )
        self.penalty, self.window, self.length, self.strength = penalty, window, length, strength
        self.eos_token_ids = tuple(eos_token_ids)

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        texts = [row.tokens[max(0, len(row.tokens) - self.window) :] for row in rows]
        out = repetition_penalty(scores, occurrences(texts, scores) > 0, self.penalty)
        if self.length and self.eos_token_ids:
            missing = [max(0, self.length - len(row.made)) / self.length for row in rows]
            out = out.clone()
            out[:, list(self.eos_token_ids)] -= self.strength * torch.tensor(missing, dtype=out.dtype, device=out.device)[:, None]
        return out

    def describe(self) -> str:
        return f"repetition penalty {self.penalty:g} within {self.window} tokens and a length penalty up to {self.length} tokens"
