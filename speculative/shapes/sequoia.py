"""Sequoia: the fixed tree with the most accepted tokens, for measured acceptance by rank, by dynamic programming."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from samplers.registry import method

from ..protocol import Outcome
from .levels import Ranks, Template

__all__ = ["Acceptance", "Sequoia", "best_tree", "expected_tokens"]


class Acceptance:
    """Measures how often the child of each rank is taken where the verifier comes to its parent.

    Args:
        ranks: how many are told apart.
        prior: estimates to begin with, the last one standing for all that follow.
        weight: how many observations the prior is worth.
    """

    def __init__(self, ranks: int = 8, prior: Sequence[float] = (0.6, 0.12, 0.06, 0.04, 0.03), weight: float = 8.0) -> None:
        if ranks < 1 or not prior or not all(0 <= p <= 1 for p in prior) or weight <= 0:
            raise ValueError("acceptance needs at least one rank, probabilities as prior, and a weight above 0")
        start = [prior[min(rank, len(prior) - 1)] for rank in range(ranks)]
        self._taken = [p * weight for p in start]
        self._tried = [weight] * ranks

    @property
    def vector(self) -> tuple[float, ...]:
        """Probability that the child of each rank is taken."""
        return tuple(taken / tried for taken, tried in zip(self._taken, self._tried))

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Counts what a step took."""
        for outcome in outcomes:
            taken = iter(outcome.path)
            for node in (0, *outcome.path):
                children = outcome.tree.children(node)
                chosen = next(taken, None)
                for rank, child in enumerate(children[: len(self._tried)]):
                    self._tried[rank] += 1
                    self._taken[rank] += child == chosen


@lru_cache(maxsize=64)
def _table(acceptance: tuple[float, ...], size: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """The dynamic programme.

    Returns:
        ``best[d, n]``, ``float64[depth + 1, size + 2]``: the most tokens that a subtree of at most ``n`` nodes (its root one of them, and
        sure to be taken) and ``d`` levels below the root gives; ``choice[d, k, n]``: how many of the ``n`` nodes for children of rank
        ``k`` and up go to the subtree of the child of rank ``k`` (0: no such child).
    """
    ranks = len(acceptance)
    best = np.zeros((depth + 1, size + 2))
    choice = np.zeros((depth + 1, ranks, size + 2), np.int64)
    best[0, 1:] = 1.0
    for d in range(1, depth + 1):
        rest = np.zeros(size + 2)
        for k in reversed(range(ranks)):
            gains = acceptance[k] * best[d - 1]
            new = np.zeros(size + 2)
            for n in range(1, size + 2):
                totals = gains[1 : n + 1] + rest[n - 1 :: -1][:n]
                m = int(totals.argmax()) + 1
                if totals[m - 1] > 0:
                    new[n], choice[d, k, n] = totals[m - 1], m
            rest = new
        best[d, 1:] = 1.0 + rest[:-1]
    return best, choice


def expected_tokens(acceptance: Sequence[float], size: int, depth: int) -> float:
    """Tokens a step of the best tree with at most ``size`` proposals in ``depth`` levels, the one of the verifier's own included."""
    return float(_table(tuple(acceptance), size, depth)[0][depth, size + 1])


def best_tree(acceptance: Sequence[float], size: int, depth: int) -> list[Ranks]:
    """The nodes of that tree, each as the ranks that lead to it.

    Raises:
        ValueError: no nodes or levels, or no child is ever taken.
    """
    if size < 1 or depth < 1 or not acceptance or max(acceptance) <= 0:
        raise ValueError("a tree needs nodes and levels, and ranks of which one is taken sometimes")
    _, choice = _table(tuple(acceptance), size, depth)
    found: list[Ranks] = []
    stack: list[tuple[Ranks, int, int]] = [((), size, depth)]
    while stack:
        path, left, levels = stack.pop()
        for rank in range(len(acceptance)):
            given = int(choice[levels, rank, left]) if levels and left else 0
            if not given:
                break
            found.append((*path, rank))
            stack.append((found[-1], given - 1, levels - 1))
            left -= given
    return sorted(found, key=lambda path: (len(path), path))


@method(
    "Sequoia",
    law="exact",
    target="a tree shape: the law is the verifier's (the paper draws siblings without replacement: Recursive())",
    cost="a dynamic programme whenever the measured acceptance is looked at again (milliseconds)",
    paper="Chen et al. 2024, arXiv:2402.12374",
    use="speculative.decode(..., shape=Sequoia(size, depth), verifier=Recursive())",
)
class Sequoia(Template):
    """The tree that maximises the expected number of accepted tokens when the child of rank ``k`` is taken with probability ``p_k``.

    ``best(n, d) = 1 + max over n_1 + n_2 + ... < n of sum_k p_k best(n_k, d - 1)``.

    Args:
        size: proposals at most.
        depth: levels at most.
        acceptance: ``p_k``, or a meter of it; ``None``: a meter that begins with a guess.
        every: after how many observed steps the tree is made anew; 0: never.
    """

    def __init__(
        self, size: int = 32, depth: int = 8, acceptance: Acceptance | Sequence[float] | None = None, *, every: int = 32
    ) -> None:
        given = Acceptance() if acceptance is None else acceptance
        self._meter = given if isinstance(given, Acceptance) else None
        self._bounds, self._every, self._seen = (size, depth), every, 0
        super().__init__(best_tree(given.vector if isinstance(given, Acceptance) else given, size, depth))

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Measures, and makes the tree anew now and then. Nothing happens where the acceptance was given as numbers."""
        if self._meter is None:
            return
        self._meter.observe(outcomes)
        before = self._seen
        self._seen += len(outcomes)
        if self._every and before // self._every != self._seen // self._every:
            vector = tuple(round(p, 3) for p in self._meter.vector)
            if max(vector) > 0:
                super().__init__(best_tree(vector, *self._bounds))

    @classmethod
    def for_hardware(
        cls, acceptance: Sequence[float], target_seconds: Sequence[float], draft_seconds: float, *, depth: int = 16
    ) -> Sequoia:
        """The tree with the most tokens a second.

        Args:
            acceptance: ``p_k``.
            target_seconds: measured time of a forward of the target over 1, 2, 3, ... tokens; the tree has at most one node less than
                the longest.
            draft_seconds: of drafting one level.
            depth: levels at most.

        Raises:
            ValueError: fewer than two times are given.
        """
        if len(target_seconds) < 2:
            raise ValueError("give the times of forwards over one token, two tokens, and more")
        best, _ = _table(tuple(acceptance), len(target_seconds) - 1, depth)
        rates = {
            (size, d): float(best[d, size + 1]) / (target_seconds[size] + d * draft_seconds)
            for size in range(1, len(target_seconds))
            for d in range(1, min(depth, size) + 1)
        }
        size, levels = max(rates, key=lambda key: (rates[key], -key[0], -key[1]))
        return cls(size, levels, acceptance)
