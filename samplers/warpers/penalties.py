"""Penalties on tokens that the text holds already: repetition, frequency, presence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registry import Law, method
from .base import Row, Warper

__all__ = ["OccurrencePenalty", "RepetitionPenalty", "occurrences", "repetition_penalty"]


def occurrences(texts: Sequence[Sequence[int]], like: torch.Tensor) -> torch.Tensor:
    """How often each token is in each text: ``float[rows, width]`` with the type, width and device of ``like``.

    Ids beyond the width (a tokenizer with more ids than the model has logits) are passed over.
    """
    width = like.shape[-1]
    flat = [i * width + token for i, text in enumerate(texts) for token in text if token < width]
    index = torch.tensor(flat, dtype=torch.long, device=like.device)
    return torch.bincount(index, minlength=len(texts) * width).to(like.dtype).view(len(texts), width)


def repetition_penalty(scores: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Scores of the tokens in ``seen`` (``bool[rows, width]``) divided by ``penalty`` if they are positive, multiplied if negative."""
    return torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def _window(text: Sequence[int], window: int | None) -> Sequence[int]:
    return text if window is None else text[max(0, len(text) - window) :]


@method(
    "repetition penalty",
    law="exact",
    target="softmax of the scores, those of tokens in the text (or its last tokens) divided by the penalty if positive, else multiplied",
    cost="a count of the text's tokens a step",
    paper="Keskar et al. 2019, arXiv:1909.05858",
    use="guided.generate(..., warpers=[RepetitionPenalty(1.1)])",
)
class RepetitionPenalty(Warper):
    """``s(v) <- s(v) / penalty`` if ``s(v) > 0`` else ``s(v) penalty``, for the tokens of the text (Keskar et al. 2019, arXiv:1909.05858).

    It depends on where the zero of the scores is, so it belongs on the model's logits: before anything that shifts them.

    Args:
        penalty: above 0; above 1 makes repetition less likely.
        window: only the last so many tokens count; ``None``: all.
        prompt: whether the prompt's tokens count.

    Raises:
        ValueError: an argument out of range.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, penalty: float, *, window: int | None = None, prompt: bool = True) -> None:
        if not penalty > 0:
            raise ValueError(f"penalty must be above 0, not {penalty}")
        if window is not None and window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self.penalty, self.window, self.prompt = penalty, window, prompt

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        texts = [_window(row.tokens if self.prompt else row.made, self.window) for row in rows]
        return repetition_penalty(scores, occurrences(texts, scores) > 0, self.penalty)

    def describe(self) -> str:
        return f"repetition penalty {self.penalty:g}" + ("" if self.window is None else f" within {self.window} tokens")


@method(
    "frequency and presence penalties",
    law="exact",
    target="softmax of the scores less frequency times a token's count in the generated text and presence where it is in it",
    cost="a count of the text's tokens a step",
    use="guided.generate(..., warpers=[OccurrencePenalty(frequency=0.5, presence=0.5)])",
)
class OccurrencePenalty(Warper):
    """``s(v) <- s(v) - frequency c(v) - presence [c(v) > 0]``, ``c(v)`` the count of ``v`` in the generated text (OpenAI's API).

    Args:
        frequency: taken off for each occurrence; negative values favour repetition.
        presence: taken off once.
        window: only the last so many tokens count; ``None``: all.
        prompt: whether the prompt's tokens count too.

    Raises:
        ValueError: ``window`` is below 1.
    """

    law: Law = "exact"
    reads_text = True

    def __init__(self, frequency: float = 0.0, presence: float = 0.0, *, window: int | None = None, prompt: bool = False) -> None:
        if window is not None and window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self.frequency, self.presence, self.window, self.prompt = frequency, presence, window, prompt

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        counts = occurrences([_window(row.tokens if self.prompt else row.made, self.window) for row in rows], scores)
        return scores - self.frequency * counts - self.presence * (counts > 0).to(scores.dtype)

    def describe(self) -> str:
        return f"frequency penalty {self.frequency:g}, presence penalty {self.presence:g}"
