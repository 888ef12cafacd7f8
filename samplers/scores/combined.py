"""Several scores as one: their weighted sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from grammars.errors import ConstraintError

from .protocol import Candidate, Reward, Value, ValueBase, next_values

__all__ = ["Weighted"]


class Weighted(ValueBase):
    """``sum(weight * score)``. A score that judges whole texts only counts on finished candidates, and as 0 on others.

    Args:
        parts: pairs of a score and its weight. They are asked in turn, each only about what those before it do not forbid (``-inf``): put
            cheap ones first.

    Raises:
        ConstraintError: there is no part.
        ValueError: a weight is not a finite number.
    """

    def __init__(self, *parts: tuple[Reward | Value, float]) -> None:
        if not parts:
            raise ConstraintError("a weighted sum of scores needs at least one")
        for score, weight in parts:
            if not math.isfinite(weight):
                raise ValueError(f"the weight of {type(score).__name__} must be a finite number, not {weight}")
        self.parts = parts

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`."""
        return self._sum(candidates, final=False)

    def rewards(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Reward.rewards`."""
        return self._sum(candidates, final=True)

    def many_next_values(self, candidates: Sequence[Candidate], tokens: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """See :meth:`ValueBase.many_next_values`."""
        if not all(isinstance(score, Value) for score, _ in self.parts):
            return super().many_next_values(candidates, tokens)
        totals = [torch.zeros(len(after), dtype=torch.float64) for after in tokens]
        for score, weight in self.parts:
            assert isinstance(score, Value)
            alive = [total.isfinite().nonzero()[:, 0] for total in totals]
            asked = [[after[i] for i in places.tolist()] for after, places in zip(tokens, alive)]
            for total, places, found in zip(totals, alive, next_values(score, candidates, asked)):
                total[places] += weight * found if weight else 0.0
        return totals

    def _sum(self, candidates: Sequence[Candidate], final: bool) -> list[float]:
        totals = [0.0] * len(candidates)
        for score, weight in self.parts:
            graded = isinstance(score, Value)
            places = [i for i, c in enumerate(candidates) if totals[i] > -math.inf and weight and (final or graded or c.finished)]
            asked = [candidates[i] for i in places]
            if asked:
                found = score.values(asked) if isinstance(score, Value) and not final else score.rewards(asked)
                for i, number in zip(places, found):
                    totals[i] += weight * number
        return totals
