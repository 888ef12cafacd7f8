"""Conditional Poisson sampling: ``k`` of ``m`` items without replacement, ``P(S)`` proportional to the product of the weights in ``S``.

It is Poisson sampling (every item by itself, with probability ``w / (1 + w)``) given that ``k`` items come out (Hajek 1964). Weights
may all be scaled by a number without a change of the law; here they are scaled so that ``k`` items are expected, which keeps every
probability below in the middle of its range, so that nothing has to be done in logarithms.

The normaliser and the inclusion probabilities come from the recursion over items of Kulesza and Taskar (2012, arXiv:1207.6083, section
5.2) and Meister et al. (2021, arXiv:2109.11034, section 3), ``W(i, j) = W(i - 1, j) + w_i W(i - 1, j - 1)``, evaluated on a balanced binary
tree instead of a line: a node holds the distribution of the number of items that come out below it. That is the same arithmetic
(``O(m k)``) in ``log m`` steps over arrays, and a subset is drawn in ``O(k log m)``.
"""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

from samplers.target import pick

__all__ = ["ConditionalPoisson"]

Floats = npt.NDArray[np.float64]


def _sigmoid(x: Floats) -> Floats:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1 + small)


def _shift(log_weights: Floats, k: int) -> float:
    """The number that makes ``sum(sigmoid(log_weights + shift)) = k``, for ``0 < k < m``: Newton's method between bounds."""
    ordered = np.sort(log_weights)
    low, high = -ordered[-1] - 45.0, -ordered[0] + 45.0
    shift = float(-ordered[-k])
    for _ in range(200):
        chances = _sigmoid(log_weights + shift)
        excess = float(chances.sum()) - k
        low, high = (low, shift) if excess > 0 else (shift, high)
        if abs(excess) < 1e-3 * k or high - low < 1e-12:  # any scale gives the same law
            break
        slope = float((chances * (1 - chances)).sum())
        step = shift - excess / slope if slope > 0 else low
        shift = step if low < step < high else (low + high) / 2
    return shift


def _multiply(left: Floats, right: Floats, degree: int) -> Floats:
    """Products of polynomials, row by row, cut behind ``degree``: the distribution of a sum of two numbers."""
    rows, a, b = left.shape[0], left.shape[1], right.shape[1]
    out = np.zeros((rows, min(a + b - 1, degree + 1)))
    for i in range(min(a, out.shape[1])):
        width = min(b, out.shape[1] - i)
        out[:, i : i + width] += left[:, i : i + 1] * right[:, :width]
    return out


class ConditionalPoisson:
    """The design of size ``k`` over items with weights ``exp(log_weights)``.

    Args:
        log_weights: ``float64[m]``, finite.
        k: size of a sample, ``0 < k < m``.

    Raises:
        ValueError: ``k`` out of range, or a weight that is not finite.
    """

    def __init__(self, log_weights: npt.ArrayLike, k: int) -> None:
        weights = np.asarray(log_weights, np.float64)
        if not 0 < k < len(weights):
            raise ValueError(f"a sample has between 1 and {len(weights) - 1} of {len(weights)} items, not {k}")
        if not np.isfinite(weights).all():
            raise ValueError("every log-weight must be finite: leave out items that cannot be drawn")
        self.k, self.size = k, len(weights)
        logits = weights + _shift(weights, k)
        level = np.zeros((1 << (self.size - 1).bit_length(), 2))
        level[:, 0] = 1.0  # what fills the last level up never comes out
        level[: self.size, 0], level[: self.size, 1] = _sigmoid(-logits), _sigmoid(logits)
        self._levels = [level]
        while len(level) > 1:
            level = _multiply(level[::2], level[1::2], k)
            self._levels.append(level)

    def sample(self, source: random.Random) -> list[int]:
        """``k`` different items, ascending."""
        chosen: list[int] = []
        todo = [(len(self._levels) - 1, 0, self.k)]  # level, node, items to be drawn below it
        while todo:
            depth, node, count = todo.pop()
            if count == 0:
                continue
            if depth == 0:
                chosen.append(node)
                continue
            left, right = self._levels[depth - 1][2 * node], self._levels[depth - 1][2 * node + 1]
            first = max(0, count - len(right) + 1)
            counts = np.arange(first, min(count, len(left) - 1) + 1)
            taken = int(counts[pick((left[counts] * right[count - counts]).cumsum(), source)])
            todo += [(depth - 1, 2 * node + 1, count - taken), (depth - 1, 2 * node, taken)]
        return chosen

    def inclusion(self, item: int) -> float:
        """Probability that ``item`` is in a sample."""
        others = np.ones((1, 1))  # distribution of the number of items that come out beside the node
        for depth in range(len(self._levels) - 1, 0, -1):
            sibling = (item >> (depth - 1)) ^ 1
            others = _multiply(others, self._levels[depth - 1][sibling : sibling + 1], self.k)
        # without the item, one fewer is drawn from the others
        taken = others[0, self.k - 1] if others.shape[1] >= self.k else 0.0
        left_out = others[0, self.k] if others.shape[1] > self.k else 0.0
        inside, outside = self._levels[0][item, 1] * taken, self._levels[0][item, 0] * left_out
        return float(inside / (inside + outside))
