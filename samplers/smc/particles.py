"""Particles: texts that grow, as values. What a particle has written is a :class:`Node`; extending it makes a new one."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .boundaries import Boundary
from .potentials import Prefix
from .proposals import Proposal

if TYPE_CHECKING:
    from ..models.context import Context
    from ..target import Meter, Target

__all__ = ["Node", "Particle", "Walker"]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """What was written, one token longer than its parent.

    Attributes:
        tokens: generated token ids.
        context: the model's handle for the prompt and ``tokens``.
        state: of the target's automaton.
        log_prob: of ``tokens`` under the model at the target's temperature.
        log_ratio: sum of the logarithms of the proposal's weights, so that ``E[exp(log_ratio) f(tokens)]`` is the sum of
            ``p(tokens) f(tokens)`` over the language; ``-inf`` at a dead end.
        blocks: blocks that have ended, see :mod:`samplers.smc.boundaries`.
        finished: whether it is a text.
        parent: the node that it extends; ``None`` for the empty one.
    """

    tokens: tuple[int, ...]
    context: Context
    state: int
    log_prob: float
    log_ratio: float
    blocks: int
    finished: bool
    parent: Node | None

    @property
    def alive(self) -> bool:
        """Whether it is part of a text of the language, as far as the proposal knows."""
        return self.log_ratio > -math.inf

    @property
    def prefix(self) -> Prefix:
        """What a potential gets to see."""
        return Prefix(self.tokens, self.finished, self.log_prob)

    def ancestor(self, length: int) -> Node:
        """The node of its first ``length`` tokens."""
        node = self
        while len(node.tokens) > length:
            assert node.parent is not None
            node = node.parent
        return node


@dataclass(slots=True)
class Particle:
    """A node with its weight.

    Attributes:
        node: what it has written.
        log_weight: absolute: the mean of the particles' weights estimates the mass of the target so far.
        log_potential: logarithm of the potential of the node.
        first: which of the particles of the start it descends from.
    """

    node: Node
    log_weight: float
    log_potential: float
    first: int

    @property
    def grows(self) -> bool:
        """Whether it still has something to write. Others cost nothing."""
        return self.log_weight > -math.inf and not self.node.finished


class Walker:
    """Extends nodes of one target by one proposal; every step is one batched forward for all nodes together.

    Args:
        target: what is sampled.
        meter: its model, counted.
        proposal: how a token is drawn and what weight it gets.
        boundary: where blocks end.
    """

    def __init__(self, target: Target, meter: Meter, proposal: Proposal, boundary: Boundary) -> None:
        self.target, self.meter, self.proposal, self.boundary = target, meter, proposal, boundary

    def root(self) -> Node:
        """The empty text."""
        return Node((), self.target.root, self.target.start, 0.0, 0.0, 0, False, None)

    def step(self, nodes: Sequence[Node], sources: Sequence[random.Random]) -> list[Node]:
        """Each node with one token more, drawn with the source beside it. None may be finished or dead."""
        logprobs = self.meter.logprobs([node.context for node in nodes])
        moves = self.proposal.propose(self.target, nodes, logprobs, sources)
        return [self._extended(node, *move) for node, move in zip(nodes, moves)]

    def _extended(self, node: Node, token: int, log_prob: float, log_weight: float) -> Node:
        if log_weight == -math.inf:
            return Node(node.tokens, node.context, 0, node.log_prob, -math.inf, node.blocks, False, node.parent)
        tokens = (*node.tokens, token)
        state = self.target.advance(node.state, token)
        finished = state == 1
        blocks = node.blocks + (finished or self.boundary(tokens))
        return Node(
            tokens, node.context.extend(token), state, node.log_prob + log_prob, node.log_ratio + log_weight, blocks, finished, node
        )

    def run(self, nodes: Sequence[Node], blocks: int, sources: Sequence[random.Random]) -> list[Node]:
        """Extends each node until it has ended ``blocks`` blocks, is finished, or is at a dead end."""
        done = list(nodes)
        while True:
            rows = [i for i, node in enumerate(done) if node.alive and not node.finished and node.blocks < blocks]
            if not rows:
                return done
            for i, node in zip(rows, self.step([done[i] for i in rows], [sources[i] for i in rows])):
                done[i] = node
