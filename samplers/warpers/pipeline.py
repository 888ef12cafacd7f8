"""Warpers in an explicit order, the constraint's mask among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import torch

from ..registry import Law
from .base import FORBIDDEN, Row, Warper

__all__ = ["CONSTRAINT", "Pipeline", "Processor", "as_pipeline"]

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # any Hugging Face logits processor

_WORSE: tuple[Law, ...] = ("exact", "argmax", "lossy")


class _Constraint:
    """Type of :data:`CONSTRAINT`."""

    def __repr__(self) -> str:
        return "CONSTRAINT"


CONSTRAINT: Final = _Constraint()
"""The place of the constraint's mask in a :class:`Pipeline`."""


class Pipeline(Warper):
    """Warpers one after the other; the law of a step is the softmax of what the last one returns.

    Where the mask stands changes the law. First (where it stands if :data:`CONSTRAINT` is not named): the warpers act on the allowed
    tokens, so top-p, say, is the nucleus *of the allowed mass*. Later: the warpers before it shape the model's own distribution, and the
    mask takes from what they have left; where it takes everything, the allowed tokens of the distribution that entered the pipeline stand
    in, and go through the warpers behind the mask.

    Args:
        warpers: :class:`Warper`, :data:`CONSTRAINT` (once at most) or any Hugging Face logits processor. A processor is called with the
            texts' real tokens: rows of different lengths in calls of their own, so it must not keep state between calls.

    Attributes:
        law: the worst of its parts' (``exact``, then ``argmax``, then ``lossy``); processors of unknown law count as ``lossy``.
        target: the law of a step in one sentence.

    Raises:
        ValueError: the mask is named twice, or something in the list cannot be called.

    Example::

        Pipeline([RepetitionPenalty(1.1), CONSTRAINT, Temperature(0.7), TopP(0.9)])
    """

    def __init__(self, warpers: Iterable[Warper | Processor | _Constraint]) -> None:
        given = list(warpers)
        places = [i for i, one in enumerate(given) if one is CONSTRAINT]
        if len(places) > 1:
            raise ValueError("CONSTRAINT stands in the pipeline more than once: the mask has one place")
        parts: list[Warper] = [_part(one) for one in given if one is not CONSTRAINT]
        cut = places[0] if places else 0
        self.before, self.after = tuple(parts[:cut]), tuple(parts[cut:])
        self.law = max((part.law for part in parts), key=lambda law: _WORSE.index(law) if law in _WORSE else len(_WORSE), default="exact")

    @property
    def reads_text(self) -> bool:  # type: ignore[override]
        return any(part.reads_text for part in self.before + self.after)

    @property
    def target(self) -> str:
        steps = [*(part.describe() for part in self.before), "the constraint's mask", *(part.describe() for part in self.after)]
        text = "each token ~ softmax of the logits after, in this order: " + "; ".join(steps)
        if self.before:
            text += " (where the mask takes all that is left, from the model's own distribution instead)"
        return text + ". This is a law of steps: over whole texts it is not the model conditioned on the constraint"

    def describe(self) -> str:
        return "; ".join(part.describe() for part in self.before + self.after)

    def reset(self) -> None:
        super().reset()
        for part in self.before + self.after:
            part.reset()

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        return self.apply(rows, scores, None)[0]

    def apply(self, rows: Sequence[Row], scores: torch.Tensor, allowed: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """The whole pipeline, mask included.

        Args:
            rows: the texts; may be empty where :attr:`reads_text` is false.
            scores: ``float[rows, width]``.
            allowed: ``bool[rows, width]``, at least one token a row; ``None``: everything.

        Returns:
            The scores of the step, and ``float[rows]``: the logarithm of the mass that the mask left of the distribution that reached it.
        """
        entered = scores
        for part in self.before:
            scores = part.warp(rows, scores)
        kept = scores.new_zeros(scores.shape[0])
        if allowed is not None:
            total = scores.logsumexp(-1)
            scores = scores.masked_fill(~allowed, FORBIDDEN)
            kept = (scores.logsumexp(-1) - total).clamp(max=0)
            if self.before:
                scores = torch.where((kept == FORBIDDEN)[:, None], entered.masked_fill(~allowed, FORBIDDEN), scores)
        for part in self.after:
            scores = part.warp(rows, scores)
        return scores, kept


class _Foreign(Warper):
    """A logits processor that is no :class:`Warper`."""

    law: Law = "lossy"
    reads_text = True

    def __init__(self, processor: Processor) -> None:
        self.processor = processor

    def describe(self) -> str:
        return type(self.processor).__name__

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        lengths: dict[int, list[int]] = {}
        for i, row in enumerate(rows):
            lengths.setdefault(len(row.tokens), []).append(i)
        out = torch.empty_like(scores)
        for members in lengths.values():
            ids = torch.tensor([list(rows[i].tokens) for i in members], dtype=torch.long, device=scores.device)
            chosen = torch.tensor(members, device=scores.device)
            out[chosen] = self.processor(ids, scores[chosen])
        return out


def _part(one: Warper | Processor | _Constraint) -> Warper:
    if isinstance(one, Pipeline) and one.before:
        raise ValueError("a pipeline within a pipeline cannot have a place for the mask of its own: name CONSTRAINT in the outer one")
    if isinstance(one, Warper):
        return one
    if isinstance(one, type):
        raise ValueError(f"a pipeline is made of warpers, not of their classes: give {one.__name__}(...)")
    if isinstance(one, _Constraint) or not callable(one):
        raise ValueError(f"a pipeline is made of warpers, logits processors and CONSTRAINT, not of {one!r}")
    return _Foreign(one)


def as_pipeline(warpers: Warper | Iterable[Warper | Processor | _Constraint]) -> Pipeline:
    """What a decode loop's ``warpers`` argument stands for: a pipeline, its parts in order, or its only warper."""
    if isinstance(warpers, Pipeline):
        return warpers
    return Pipeline([warpers] if isinstance(warpers, Warper) else warpers)
