"""What guides share: they are warpers that may need to know which tokens end a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import torch

from ..registry import Law
from ..warpers.base import FORBIDDEN, Warper
from ..warpers.pipeline import CONSTRAINT, Pipeline, as_pipeline

__all__ = ["Guide", "choose_ends", "guides_of", "with_guide"]


class Guide(Warper):
    """Base of the guides; see :class:`~samplers.warpers.Warper` for the two ways in which it is called.

    A guide reads the scores that it is given as the model's log-probabilities (up to a constant a row), and minus infinity as a token that
    cannot come. It keeps these at minus infinity and never asks about them.

    Attributes:
        ends: tokens that end a text. Scores may treat a text that has ended in another way, so a guide by a value should know them:
            :func:`guided_decode` and ``guided.generate`` say them, elsewhere :meth:`ending` does.
        scored: how much was asked of the scores so far: tokens after a prefix for a value, contexts for a second model.
    """

    law: Law = "exact"
    reads_text = True
    ends: frozenset[int] = frozenset()
    scored: int = 0

    def ending(self, ends: Iterable[int]) -> Self:
        """Names the tokens that end a text; returns the guide itself."""
        self.ends = frozenset(ends)
        return self


def guided_scores(scores: torch.Tensor, logprobs: torch.Tensor, guided: torch.Tensor) -> torch.Tensor:
    """``guided`` in the type of ``scores``; ``logprobs`` in rows where ``guided`` leaves nothing.

    A guide that gives every token of a row weight zero says nothing about which to take; the row keeps what it had, so that the text
    can go on.
    """
    empty = guided.isneginf().all(-1, keepdim=True)
    return torch.where(empty, logprobs, guided).to(scores.dtype)


def as_logprobs(scores: torch.Tensor) -> torch.Tensor:
    """Log-probabilities ``float64[rows, width]`` of the scores that come in; a row without a finite one stays as it is."""
    return scores.double().log_softmax(-1).nan_to_num(nan=FORBIDDEN, neginf=FORBIDDEN)


def guides_of(warpers: Pipeline) -> Iterator[Guide]:
    """The guides of a pipeline, those of pipelines in it included."""
    for part in warpers.before + warpers.after:
        if isinstance(part, Pipeline):
            yield from guides_of(part)
        elif isinstance(part, Guide):
            yield part


def choose_ends(warpers: Pipeline, ends: Iterable[int]) -> Pipeline:
    """Tells every guide of a pipeline which tokens end a text; returns the pipeline."""
    known = frozenset(ends)
    for guide in guides_of(warpers):
        guide.ending(known)
    return warpers


def with_guide(warpers: Pipeline | Sequence[Any] | Warper | None, guide: Warper | Sequence[Warper] | None, ends: Iterable[int]) -> Pipeline:
    """A pipeline that ends with the guide: the constraint's mask and the warpers come first, so that the guide sees what they left.

    Args:
        warpers: as in ``guided.generate``; ``None``: none.
        guide: a guide, or several in order; ``None``: none.
        ends: tokens that end a text.

    Raises:
        ValueError: ``guide`` is not made of warpers.
    """
    guides = [] if guide is None else [guide] if isinstance(guide, Warper) else list(guide)
    for one in guides:
        if not isinstance(one, Warper):
            raise ValueError(f"a guide is one of samplers.guides (ARGS(...), RAD(...), DExperts(...)), not {one!r}")
    base = Pipeline([]) if warpers is None else as_pipeline(warpers)
    parts: list[Any] = [*base.before, CONSTRAINT] if base.before else []
    return choose_ends(Pipeline([*parts, *base.after, *guides]), ends)
