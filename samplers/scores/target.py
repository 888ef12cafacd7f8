"""Scores as rewards of a :class:`~samplers.target.Target`, and as potentials of SMC."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from ..smc.potentials import Potential, Prefix
from .memory import Memory
from .protocol import Candidate, Reward, Value

__all__ = ["ScorePotential", "as_target_reward"]

_KEPT = 1 << 16


class ScorePotential(Potential):
    """A score as a potential of SMC: ``exp(scale * score)``, all particles in one batch.

    Args:
        score: a :class:`Value`, which also guides on the way, or a :class:`Reward`, which weighs finished texts only.
        prompt: token ids before the generated ones.
        ends: the tokens that end a text (:attr:`Target.ends`).
        scale: what the score is multiplied by; 1 / beta of a Kullback-Leibler regularised objective.

    Raises:
        ValueError: ``scale`` is not finite.
    """

    def __init__(self, score: Reward | Value, prompt: Sequence[int], ends: Collection[int], scale: float = 1.0) -> None:
        if not math.isfinite(scale):
            raise ValueError(f"the scale of a score must be finite, not {scale}")
        self.score, self.scale, self.ends = score, scale, frozenset(ends)
        self._root = Candidate.of(prompt, ends=self.ends)
        self._known: Memory[Candidate] = Memory(_KEPT)

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        return self.scores([(prefix.tokens, prefix.finished) for prefix in prefixes])

    def scores(self, texts: Sequence[tuple[tuple[int, ...], bool]]) -> list[float]:
        """``scale * score`` of generated tokens and whether they are finished; the empty prefix is worth 0."""
        found = [0.0] * len(texts)
        graded = isinstance(self.score, Value)
        asked = [i for i, (tokens, finished) in enumerate(texts) if finished or (graded and tokens)]
        candidates = [self._candidate(texts[i][0]) for i in asked]
        if candidates:
            scores = self.score.values(candidates) if isinstance(self.score, Value) else self.score.rewards(candidates)
            for i, score in zip(asked, scores):
                found[i] = self.scale * score if self.scale else 0.0
        return found

    def _candidate(self, tokens: tuple[int, ...]) -> Candidate:
        """The candidate, extended from that of the prefix where that was seen, so that scores find what they know of it."""
        found = self._known.get(tokens) if tokens else self._root
        if found is None:
            above = self._known.get(tokens[:-1]) if len(tokens) > 1 else self._root
            found = above.child(tokens[-1]) if above is not None else Candidate.of(self._root.context.tokens, tokens, ends=self.ends)
            self._known.put(tokens, found)
        return found


class _TargetReward:
    def __init__(self, potential: ScorePotential) -> None:
        self.potential = potential

    def __call__(self, tokens: tuple[int, ...], finished: bool) -> float:
        return self.potential.scores([(tokens, finished)])[0]


def as_target_reward(score: Reward | Value, prompt: Sequence[int], ends: Collection[int], scale: float = 1.0) -> _TargetReward:
    """The score as :attr:`Target.reward`, so that every sampler of this package follows ``p(x) exp(scale * score(x))``.

    See :class:`ScorePotential` for the arguments; SMC asks about all particles at once if it is given that.
    """
    return _TargetReward(ScorePotential(score, prompt, ends, scale))
