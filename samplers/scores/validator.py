"""A score of the finished object: what must hold of it, and what it costs where it does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .function import Function
from .protocol import Candidate

__all__ = ["Validator"]


class Validator(Function):
    """A check of what a text spells, beyond what a grammar can say: totals that add up, dates in order, a reference that exists.

    Args:
        check: given the object; ``True`` (NumPy's too): worth 0; ``False``: ``-penalty``; a number: that number
            (a penalty of its own, or a reward).
        texts: a vocabulary, tokenizer or function from token ids to text.
        parse: from the text to the object; ``str`` leaves the text as it is. A text that it refuses with a ``ValueError`` costs
            ``penalty``.
        penalty: at least 0; ``inf`` (the default) forbids.

    Unfinished candidates are worth 0: nothing is known of the object yet.

    Raises:
        ValueError: a negative penalty.
    """

    def __init__(
        self,
        check: Callable[[Any], bool | float],
        *,
        texts: Any,
        parse: Callable[[str], Any] = json.loads,
        penalty: float = math.inf,
    ) -> None:
        if not penalty >= 0:
            raise ValueError(f"a penalty must be at least 0, not {penalty}")

        def score(thing: Any) -> float:
            found = check(thing)
            return (0.0 if found else -penalty) if isinstance(found, bool | np.bool_) else float(found)

        super().__init__(score, on="object", texts=texts, parse=parse, otherwise=-penalty)
        self.check, self.penalty = check, penalty

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`; 0 for those that are not finished."""
        known = iter(self.rewards([c for c in candidates if c.finished]))
        return [next(known) if c.finished else 0.0 for c in candidates]
