"""Proposals: how a particle draws its next token, and the weight that makes up for it.

A proposal is *properly weighted*: for every function ``f`` of tokens, ``E[w f(token)]`` is the sum of ``p(token) f(token)`` over the tokens
that the target allows. The product of the weights along a text is then an unbiased importance weight, whether a weight is a
function of the prefix (masking) or an estimate (AWRS).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch

if TYPE_CHECKING:
    from ..target import Target
    from .particles import Node

__all__ = ["Masked", "Move", "Proposal"]


class Move(NamedTuple):
    """A token drawn for a particle.

    Attributes:
        token: its id; of no meaning where the weight is zero.
        log_prob: its log-probability under the model, at the target's temperature.
        log_weight: of the proposal; ``-inf`` where nothing may follow.
    """

    token: int
    log_prob: float
    log_weight: float


class Proposal(Protocol):
    """Draws the next token of many particles.

    Attributes:
        name: as in results.
        details: counters of its own, for :attr:`samplers.target.Samples.details`.
    """

    name: str
    details: dict[str, float]

    def propose(self, target: Target, nodes: Sequence[Node], logprobs: torch.Tensor, sources: Sequence[random.Random]) -> list[Move]:
        """One move a node, drawn with the source beside it.

        Args:
            target: says what may follow.
            nodes: neither finished nor dead.
            logprobs: ``float64[len(nodes), width]``, normalised.
            sources: the only randomness.
        """
        ...


class Masked:
    """The model, masked and normalised again: a token's weight is the mass that the mask left, known exactly.

    Of all properly weighted proposals that look one token ahead its weights vary least; it costs a full mask a step.
    """

    name = "masked"

    def __init__(self) -> None:
        self.details: dict[str, float] = {}

    def propose(self, target: Target, nodes: Sequence[Node], logprobs: torch.Tensor, sources: Sequence[random.Random]) -> list[Move]:
        """See :meth:`Proposal.propose`."""
        places: dict[tuple[int, ...], int] = {}
        rows = [places.setdefault(node.tokens, len(places)) for node in nodes]
        states = {node.tokens: node.state for node in nodes}
        masks = torch.stack([target.allowed(states[tokens], tokens) for tokens in places])
        first = torch.tensor([rows.index(place) for place in range(len(places))])
        kept = logprobs[first].masked_fill(~masks, -math.inf)
        log_kept = kept.logsumexp(-1)
        cumulative = (kept - log_kept[:, None].nan_to_num(neginf=0.0)).exp().cumsum(-1)
        uniforms = torch.tensor([source.random() for source in sources], dtype=torch.float64)
        table = cumulative[rows]
        # at most the last index where the sum still grows: rounding must not lead to a token that is not allowed
        last = torch.searchsorted(table, table[:, -1:].contiguous())
        drawn = torch.minimum(torch.searchsorted(table, uniforms[:, None] * table[:, -1:], right=True), last)[:, 0].tolist()
        weights = log_kept.clamp(max=0.0).tolist()
        picked = logprobs.gather(1, torch.tensor(drawn)[:, None])[:, 0].tolist()
        return [Move(token, log_prob, weights[row]) for token, log_prob, row in zip(drawn, picked, rows)]
