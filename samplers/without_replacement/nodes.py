"""Beginnings of texts, and what may follow them under local masking.

The samplers of this package work on a tree: a node is a prefix, its children are the tokens that the target allows after it. With
``p`` the model's probabilities and ``kept`` the mass that the mask leaves, the *locally masked* law of a text ``x`` is
``q(x) = prod_t p(x_t | x_<t) / kept(x_<t)``, so the importance weight from it to the target is
``p(x) exp(reward(x, True)) / q(x) = prod_t kept(x_<t) exp(reward(x, True))``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from samplers.target import Meter, Sample, Target

if TYPE_CHECKING:
    from samplers.models import Context

__all__ = ["Node", "Tree"]


@dataclass(frozen=True, slots=True)
class Node:
    """A prefix.

    Attributes:
        context: the model's handle of prompt and prefix.
        state: the automaton's.
        tokens: the prefix.
        log_prob: its natural log-probability under the model, at the target's temperature.
        log_kept: sum over its steps of the logarithm of the mass that the mask left.
        leaf: whether nothing can follow: the text has ended, or it cannot be finished.
    """

    context: Context
    state: int
    tokens: tuple[int, ...]
    log_prob: float = 0.0
    log_kept: float = 0.0
    leaf: bool = False

    @property
    def log_masked(self) -> float:
        """Natural log-probability under local masking."""
        return self.log_prob - self.log_kept

    @property
    def finished(self) -> bool:
        """Whether it is a text."""
        return self.state == 1


class Tree:
    """The prefixes of one target; counts what its model was asked for, and keeps masks by state.

    Attributes:
        target: what is sampled.
        meter: see :class:`samplers.target.Meter`.
        root: the empty prefix.
    """

    def __init__(self, target: Target) -> None:
        self.target, self.meter = target, Meter(target)
        self.root = Node(target.root, target.start, ())
        self._masks: dict[tuple[int, bool], torch.Tensor] = {}

    def _mask(self, node: Node) -> torch.Tensor:
        if self.target.check is not None:  # it may look at the whole prefix
            return self.target.allowed(node.state, node.tokens)
        key = node.state, len(node.tokens) >= self.target.max_tokens - 1
        if key not in self._masks:
            self._masks[key] = self.target.allowed(node.state, node.tokens)
        return self._masks[key]

    def expand(self, nodes: Sequence[Node]) -> tuple[torch.Tensor, torch.Tensor]:
        """What may follow each node, in one batch of the model.

        Returns:
            the model's log-probabilities, ``float64[len(nodes), width]``, ``-inf`` for tokens that are not allowed, and the logarithm of
            the mass that is left, ``float64[len(nodes)]``: ``-inf`` where nothing can follow.
        """
        allowed = torch.stack([self._mask(node) for node in nodes])
        rows = self.meter.logprobs([node.context for node in nodes]).masked_fill(~allowed, -math.inf)
        return rows, rows.logsumexp(-1).clamp(max=0)

    def child(self, node: Node, token: int, logprob: float, log_kept: float) -> Node:
        """``node`` and a token of it; the numbers are those of :meth:`expand`."""
        state = self.target.advance(node.state, token)
        return Node(
            node.context.extend(token), state, (*node.tokens, token), node.log_prob + logprob, node.log_kept + log_kept, leaf=state == 1
        )

    def dead(self, node: Node) -> Node:
        """``node`` as a leaf that is no text."""
        return Node(node.context, node.state, node.tokens, node.log_prob, node.log_kept, leaf=True)

    def potential(self, node: Node) -> float:
        """Logarithm of ``p(x) exp(reward(x, True))``; ``-inf`` for what is no text."""
        return node.log_prob + self.target.potential(node.tokens, True) if node.finished else -math.inf

    def sample(self, node: Node, log_weight: float) -> Sample:
        """A leaf as a sampler returns it."""
        return Sample(node.tokens, log_weight if node.finished else -math.inf, node.log_prob, node.finished)
