"""Arithmetic sampling: evenly spread code points, each decoded to a text of its own (Vilnis et al. 2022, arXiv:2210.15458).

A sequence model divides [0, 1) into intervals, one a text, as arithmetic coding does: the first token's intervals are stacked in the
order of token ids, each is divided by the second token, and so on. A uniform point falls into a text's interval with the text's
probability. ``n`` points that are spread evenly and shifted by one common uniform number are each uniform, but distant from each
other: texts of a probability above ``1 / n`` come as often as they should, give or take one, and the others at most once.

Points are exact: a rational number of as many random bits as telling the next token apart needs, drawn when they are needed. With a
floating point number the digits would be used up after about 50 bits of text, and what follows would be rounding noise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import torch

from samplers.registry import method
from samplers.target import Samples, Target, effective_size, log_mean, relative_error, require_positive

from .nodes import Node, Tree

__all__ = ["arithmetic_sampling"]

_BITS = 52  # resolution of a step's cumulative probabilities: 2 ** -52, that of float64 near 1
_BLOCK = 64  # random bits drawn at a time


class _Code:
    """A point of [0, 1): ``(shift + row / rows) mod 1``, and what is left of it after the tokens decoded so far.

    The remaining point is known to lie in ``[low, low + slack) / whole``; more bits of the shift narrow it.
    """

    def __init__(self, row: int, rows: int, bits: Callable[[int], int]) -> None:
        self._bits, self._block = bits, 1
        self.whole = rows << _BLOCK
        self.low = (rows * bits(0) + (row << _BLOCK)) % self.whole
        self.slack = rows

    def _refine(self) -> None:
        self.whole <<= _BLOCK
        # before the first token the shift may lead past 1
        self.low = ((self.low << _BLOCK) + self.slack * self._bits(self._block)) % self.whole
        self._block += 1

    def decode(self, ends: np.ndarray) -> int:
        """Index of the interval that holds the point; the point is rescaled to it.

        Args:
            ends: upper ends of the intervals, ascending, in units of ``2 ** -_BITS``: ``int64[intervals]``; the last one is ``2 ** _BITS``.
        """
        while True:
            least = (self.low << _BITS) // self.whole
            most = (((self.low + self.slack) << _BITS) - 1) // self.whole  # the point is below (low + slack) / whole
            first, last = np.searchsorted(ends, [least, most], side="right").tolist()
            if first == last:
                break
            self._refine()
        start = int(ends[first - 1]) if first else 0
        self.low = (self.low << _BITS) - start * self.whole
        self.slack <<= _BITS
        self.whole *= int(ends[first]) - start
        return int(first)


def _shift(seed: int) -> Callable[[int], int]:
    """The random shift of all rows, as blocks of bits, the most significant first."""
    source = random.Random(f"arithmetic/{seed}")
    blocks: list[int] = []

    def block(at: int) -> int:
        while len(blocks) <= at:
            blocks.append(source.getrandbits(_BLOCK))
        return blocks[at]

    return block


def _intervals(logprobs: torch.Tensor, log_kept: float) -> tuple[list[int], np.ndarray]:
    """Tokens with a chance, in the order of their ids, and the upper ends of their intervals (see :meth:`_Code.decode`)."""
    tokens = (logprobs > -math.inf).nonzero()[:, 0]
    share = (logprobs[tokens] - log_kept).exp().cumsum(0)
    ends = (share / share[-1] * (1 << _BITS)).round().to(torch.int64)
    return tokens.tolist(), ends.numpy()


@method(
    "Arithmetic Sampling",
    law="exact",
    target=(
        "each text alone follows local masking (the product of masked conditionals; with no constraint, the model), the n texts together "
        "are spread evenly over it; with the importance weights, mean(weight) is unbiased for Z and weighted means are consistent "
        "for the model conditioned on the language"
    ),
    cost="as n samples of local masking, rows that share a prefix computed once",
    paper="Vilnis et al. 2022, arXiv:2210.15458",
    use='guided.sample(..., method="arithmetic")',
)
def arithmetic_sampling(target: Target, n: int, *, seed: int) -> Samples:
    """``n`` texts whose code points are evenly spaced, with one random shift for all.

    Args:
        target: what to sample; its reward is in the weights only.
        n: texts, duplicates included.
        seed: of the shift.

    Returns:
        Samples in the order of their codes before the shift. ``log_weight`` is the importance weight from local masking to the target (0
        for all without constraint and reward), ``log_z`` the logarithm of its mean. ``log_z_error`` is that of independent
        samples, which those of a common shift are not: usually it is too large. ``details["distinct"]`` counts different texts.

    Raises:
        ValueError: ``n`` below 1.
    """
    require_positive(n=n)
    tree, bits = Tree(target), _shift(seed)
    codes = [_Code(row, n, bits) for row in range(n)]
    nodes: list[Node] = [tree.root] * n
    while live := [row for row in range(n) if not nodes[row].leaf]:
        groups: dict[tuple[int, ...], list[int]] = {}  # rows with the same prefix
        for row in live:
            groups.setdefault(nodes[row].tokens, []).append(row)
        logprobs, log_kept = tree.expand([nodes[rows[0]] for rows in groups.values()])
        for rows, scores, kept in zip(groups.values(), logprobs, log_kept.tolist()):
            if kept == -math.inf:
                for row in rows:
                    nodes[row] = tree.dead(nodes[row])
                continue
            tokens, ends = _intervals(scores, kept)
            for row in rows:
                token = tokens[codes[row].decode(ends)]
                nodes[row] = tree.child(nodes[row], token, float(scores[token]), kept)
    return _samples(tree, nodes)


def _samples(tree: Tree, nodes: list[Node]) -> Samples:
    weights = [tree.potential(node) - node.log_masked for node in nodes]
    samples = [tree.sample(node, weight) for node, weight in zip(nodes, weights)]
    error = relative_error(weights)
    details = {"distinct": float(len({node.tokens for node in nodes}))}
    kl = None if math.isnan(error) else error**2 / 2
    return Samples(samples, log_mean(weights), error, [effective_size(weights)], tree.meter.forwards, kl, "Arithmetic Sampling", details)
