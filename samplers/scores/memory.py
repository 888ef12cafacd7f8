"""What a score remembers of the candidates that it has seen, within a bound; and a wrapper that keeps the scores of any score."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import torch

from grammars.errors import ConstraintError

from ..models.context import Context
from .protocol import Candidate, Reward, StepScorer, Value, next_values

__all__ = ["Cached", "Memory"]

T = TypeVar("T")


class Memory(Generic[T]):
    """Values by key; those that were not asked for longest go first.

    Args:
        size: how many are kept.

    Raises:
        ValueError: ``size`` below 1.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"the size of a memory must be at least 1, not {size}")
        self.size = size
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> T | None:
        """What is kept under ``key``."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, value: T) -> T:
        """Keeps ``value``, and returns it."""
        self._kept[key] = value
        if len(self._kept) > self.size:
            self._kept.popitem(last=False)
        return value

    def nearest(self, candidate: Candidate) -> tuple[Context | None, T | None]:
        """The longest context that ``candidate`` was extended from (itself among them, its prompt at the least) and has a value."""
        for context in candidate.context.ancestors():
            if context.length < candidate.start:
                break
            found = self.get((context, candidate.start))
            if found is not None:
                return context, found
        return None, None


class Cached:
    """Any score, asked once about each candidate.

    A candidate is known by its tokens, where its prompt ends, and whether it is finished. What is asked for in one call and not known is
    asked for in one call. Scores that look at all tokens of a vocabulary at once (:class:`~.lexicon.Lexicon`, :class:`~.ratio.Ratio`) have
    memories of their own and gain nothing by this one.

    Args:
        score: a :class:`Reward`, :class:`Value` or :class:`StepScorer`.
        size: how many numbers of each kind are kept.

    Attributes:
        asked: numbers that were asked for.
        hits: those of them that were known, or asked for twice in one call.
    """

    def __init__(self, score: Reward | Value | StepScorer, size: int = 1 << 18) -> None:
        self.score, self.asked, self.hits = score, 0, 0
        self._kinds: dict[str, Memory[float]] = {}
        self._size = size
        Memory[float](size)  # refuses a bad size here

    def rewards(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Reward.rewards`."""
        score = self._capable("rewards")
        keys: list[Hashable] = [_key(c) for c in candidates]
        return self._through("rewards", keys, lambda new: score.rewards([candidates[i] for i in new]))

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`."""
        score = self._capable("values")
        keys: list[Hashable] = [_key(c) for c in candidates]
        return self._through("values", keys, lambda new: score.values([candidates[i] for i in new]))

    def next_values(self, candidate: Candidate, tokens: Sequence[int]) -> torch.Tensor:
        """See :meth:`Value.next_values`."""
        return self.many_next_values([candidate], [tokens])[0]

    def many_next_values(self, candidates: Sequence[Candidate], tokens: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """See :meth:`ValueBase.many_next_values`."""
        score = self._capable("next_values")
        places = [(i, int(token)) for i, after in enumerate(tokens) for token in after]

        def ask(new: list[int]) -> list[float]:
            wanted: dict[int, list[int]] = {}
            for n in new:
                wanted.setdefault(places[n][0], []).append(places[n][1])
            found = next_values(score, [candidates[i] for i in wanted], list(wanted.values()))
            return [value for row in found for value in row.tolist()]

        numbers = self._through("values", [_key(candidates[i].child(token)) for i, token in places], ask)
        return list(torch.tensor(numbers, dtype=torch.float64).split([len(after) for after in tokens]))

    def step_scores(self, candidates: Sequence[Candidate], step_starts: Sequence[int]) -> list[float]:
        """See :meth:`StepScorer.step_scores`."""
        score = self._capable("step_scores")
        keys: list[Hashable] = [(_key(c), start) for c, start in zip(candidates, step_starts)]
        return self._through(
            "step_scores", keys, lambda new: score.step_scores([candidates[i] for i in new], [step_starts[i] for i in new])
        )

    def _capable(self, name: str) -> Any:
        if not hasattr(self.score, name):
            raise ConstraintError(f"{type(self.score).__name__} has no {name}: it is not the kind of score that is needed here")
        return self.score

    def _through(self, kind: str, keys: Sequence[Hashable], ask: Callable[[list[int]], list[float]]) -> list[float]:
        """A number for each key: the kept ones, and those that ``ask`` answers for the places of the others."""
        memory = self._kinds.setdefault(kind, Memory(self._size))
        known: dict[Hashable, float] = {}
        new: dict[Hashable, int] = {}
        for place, key in enumerate(keys):
            if key in known or key in new:
                continue
            found = memory.get(key)
            if found is None:
                new[key] = place
            else:
                known[key] = found
        self.asked += len(keys)
        self.hits += len(keys) - len(new)
        if new:
            for key, value in zip(new, ask(list(new.values()))):
                known[key] = memory.put(key, float(value))
        return [known[key] for key in keys]


def _key(candidate: Candidate) -> tuple[Context, int, bool]:
    return candidate.context, candidate.start, candidate.finished
