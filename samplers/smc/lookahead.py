"""Lookahead: the expected value of what may still be written, estimated by writing it.

With intermediate targets ``p(x_1..t) E[Phi(x) | x_1..t]`` (``Phi`` zero outside of the language) every intermediate target is the marginal
of the final one, and particles are never drawn to where nothing good can follow. :class:`Rollouts` estimates the expectation by a
few complete texts for each prefix, written by the proposal and weighted (Markovic-Voronov et al. 2026, arXiv:2604.16453; twisted
SMC: Zhao et al. 2024, arXiv:2404.17546). The estimates decide about the variance only: any positive function of prefixes leaves the final
target and the mean of the estimate of ``Z`` as they are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ..target import log_mean
from .potentials import Potential, Prefix, evaluate

if TYPE_CHECKING:
    from .particles import Node, Walker

__all__ = ["Rollouts"]

_PILOTS = 16


class Rollouts(Potential):
    """Expected value of a potential over the ways in which the proposal may finish a prefix.

    The estimate for a prefix is drawn once, from a source seeded by the prefix itself: it is a function of the prefix, whatever else is
    asked. It is shrunk a little, as if one rollout more had come out as those of other prefixes of its length do on average (in a pilot run
    of 16 texts). So a prefix whose rollouts all happened to fail is not written off: without that its texts would be drawn hardly
    ever, and carry weights as large as they are rare.

    Args:
        walker: writes the rollouts.
        final: the potential of finished texts.
        count: rollouts for each prefix. Each costs a forward for every token it writes; all of a step run as one batch.
        seed: of the randomness.

    Raises:
        ValueError: ``count`` is below 1.
    """

    def __init__(self, walker: Walker, final: Potential, count: int, seed: int) -> None:
        if count < 1:
            raise ValueError(f"lookahead needs at least 1 rollout for a prefix, not {count}")
        self.walker, self.final, self.count, self.seed = walker, final, count, seed
        self._known: dict[tuple[int, ...], float] = {}
        self._centres: list[float] = []

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        self._centres = self._centres or self._pilot()
        fresh = {p.tokens: p for p in prefixes if p.tokens not in self._known}
        nodes = [self._node(fresh[tokens]) for tokens in sorted(fresh)]
        rows = [node for node in nodes for _ in range(self.count)]
        values = self._written(rows, [k for _ in nodes for k in range(self.count)])[1]
        for i, node in enumerate(nodes):
            centre = self._centres[min(len(node.tokens), len(self._centres) - 1)]
            self._known[node.tokens] = log_mean([centre, *values[i * self.count : (i + 1) * self.count]])
        return [self._known[p.tokens] for p in prefixes]

    def _node(self, prefix: Prefix) -> Node:
        """The node of a prefix, with a weight that starts anew."""
        root = self.walker.root()
        state = root.state
        for token in prefix.tokens:
            state = self.walker.target.advance(state, token)
        return replace(root, tokens=prefix.tokens, context=root.context.extend(prefix.tokens), state=state, log_prob=prefix.log_prob)

    def _written(self, nodes: Sequence[Node], numbers: Sequence[int]) -> tuple[list[Node], list[float]]:
        """Each node written to its end, and the logarithm of the weight times the final potential: zero at dead ends."""
        sources = [random.Random(f"rollout {number} of {self.seed}/{node.tokens}") for node, number in zip(nodes, numbers)]
        ends = self.walker.run(nodes, self.walker.target.max_tokens + 1, sources)
        finished = [i for i, end in enumerate(ends) if end.finished]
        values = [-math.inf] * len(ends)
        for i, value in zip(finished, evaluate(self.final, [ends[i].prefix for i in finished])):
            values[i] = ends[i].log_ratio + value
        return ends, values

    def _pilot(self) -> list[float]:
        """For every length, the mean value of unfinished prefixes of that length, as a few texts show it."""
        ends, values = self._written([self.walker.root()] * _PILOTS, range(-_PILOTS, 0))
        found: list[list[float]] = []
        for end, value in zip(ends, values):
            for length in range(len(end.tokens) + (not end.finished)):
                if length == len(found):
                    found.append([])
                found[length].append(value - end.ancestor(length).log_ratio if value > -math.inf else -math.inf)
        centres, last = [], -math.log(_PILOTS)
        for logs in found:
            mean = float(torch.tensor(logs, dtype=torch.float64).logsumexp(0)) - math.log(len(logs))
            last = mean if mean > -math.inf else last
            centres.append(last)
        return centres
