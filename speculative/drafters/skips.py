"""The search for sublayers to skip: random choices, and now and then one that a Gaussian process over them finds promising."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

__all__ = ["SkipSearch"]

Choice = tuple[bool, ...]
"""For each sublayer whether it is skipped."""
_POOL = 64  # random choices among which expected improvement chooses
_NOISE = 1e-2  # variance of a score, relative to that of scores over choices
_ERF = np.vectorize(math.erf, otypes=[float])


class SkipSearch:
    """Maximises a score over subsets of a fixed size.

    Args:
        size: number of sublayers.
        count: how many are skipped.
        every: each so many-th proposal comes of Bayesian optimisation, the others are random.
        source: of randomness.

    Attributes:
        tried: choices and their scores, in order.
    """

    def __init__(self, size: int, count: int, every: int, source: random.Random) -> None:
        self.size, self.count, self.every, self.source = size, count, every, source
        self.tried: list[tuple[Choice, float]] = []

    @property
    def best_score(self) -> float:
        """0 before anything was tried."""
        return max((score for _, score in self.tried), default=0.0)

    def spread(self) -> Choice:
        """A choice to begin with: skipped sublayers evenly spread."""
        return tuple((i + 1) * self.count // self.size > i * self.count // self.size for i in range(self.size))

    def note(self, choice: Choice, score: float) -> bool:
        """Notes a score; whether it is the best so far."""
        better = score > self.best_score or not self.tried
        self.tried.append((choice, score))
        return better

    def propose(self) -> Choice:
        """The next choice to try."""
        if (len(self.tried) + 1) % self.every or len(self.tried) < 2:
            return self._random()
        best = max(self.tried, key=lambda pair: pair[1])[0]
        pool = [self._random() for _ in range(_POOL)] + [self._neighbour(best) for _ in range(_POOL)]
        gains = self._expected_improvement(pool)
        return pool[int(np.argmax(gains))]

    def _random(self) -> Choice:
        chosen = set(self.source.sample(range(self.size), self.count))
        return tuple(i in chosen for i in range(self.size))

    def _neighbour(self, choice: Choice) -> Choice:
        """A choice that skips another sublayer in place of one."""
        found = list(choice)
        found[self.source.choice([i for i, skipped in enumerate(choice) if skipped])] = False
        found[self.source.choice([i for i, skipped in enumerate(choice) if not skipped])] = True
        return tuple(found)

    def _expected_improvement(self, pool: Sequence[Choice]) -> np.ndarray:
        """Of each choice, under a Gaussian process with a squared exponential kernel over the number of sublayers that differ."""
        known = np.array([choice for choice, _ in self.tried], float)
        scores = np.array([score for _, score in self.tried])
        mean, spread = scores.mean(), scores.std() or 1.0
        values = (scores - mean) / spread
        asked = np.array(pool, float)
        factor = np.linalg.cholesky(self._kernel(known, known) + _NOISE * np.eye(len(known)))
        across = np.linalg.solve(factor, self._kernel(known, asked))
        expected = across.T @ np.linalg.solve(factor, values)
        deviation = np.sqrt(np.maximum(1 - (across**2).sum(0), 1e-12))
        z = (expected - values.max()) / deviation
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        gain: np.ndarray = deviation * (z * (1 + _ERF(z / math.sqrt(2))) / 2 + density)
        return gain

    def _kernel(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        distance = np.abs(a[:, None] - b[None]).sum(-1)
        found: np.ndarray = np.exp(-distance / max(1, self.count))
        return found
