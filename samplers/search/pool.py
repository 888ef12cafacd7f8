"""What methods that choose among whole texts share: a pool of texts, drawn here or by another sampler, and a judge of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grammars.errors import ConstraintError

from ..target import Samples
from .frontier import Node, Space
from .rollout import sample_texts, shortest

if TYPE_CHECKING:
    from ..scores.protocol import Reward

__all__ = ["Judge", "Pool", "draw_pool", "reader"]


@dataclass(frozen=True, slots=True)
class Pool:
    """Texts with weights.

    Attributes:
        texts: finished ones, in the order in which they were drawn.
        weights: ``weights[i]`` of text ``i``, summing to 1.
        rest: unfinished ones, where the budget ended the drawing.
        complete: whether nothing was cut off.
    """

    texts: list[Node]
    weights: list[float]
    rest: list[Node]
    complete: bool


def draw_pool(space: Space, n: int, seed: int, samples: Samples | None = None) -> Pool:
    """``n`` texts of the masked law, each of one weight; or what another sampler drew, with its weights.

    Raises:
        DeadEnd: no sample has a weight.
    """
    if samples is None:
        nodes, complete = sample_texts(space, n, seed)
        texts = [node for node in nodes if node.finished]
        if complete and not nodes:
            texts = shortest(space)
        return Pool(texts, [1 / max(1, len(texts))] * len(texts), [node for node in nodes if not node.finished], complete)
    texts, weights = [], []
    for sample, weight in zip(samples.samples, samples.weights.tolist()):
        if weight > 0 and sample.finished:
            texts.append(adopted(space, sample.tokens, sample.log_prob))
            weights.append(weight)
    total = math.fsum(weights)
    return Pool(texts, [weight / total for weight in weights], [], True)


def adopted(space: Space, tokens: tuple[int, ...], logprob: float) -> Node:
    """A text that was not written in this space, as a node of its own tree."""
    root = space.start()
    return replace(root, context=root.context.extend(tokens), state=1, tokens=tokens, logprob=logprob, score=logprob, finished=True)


class Judge:
    """A reward of nodes, asked once about each.

    Args:
        space: whose nodes.
        reward: see :class:`samplers.scores.protocol.Reward`; ``None``: the target's own reward.

    Raises:
        ValueError: there is neither.
    """

    def __init__(self, space: Space, reward: Reward | None) -> None:
        if reward is None and space.target.reward is None:
            raise ValueError("there is nothing to judge texts by: give a reward, or a target that has one")
        self._space, self._reward = space, reward
        self._known: dict[int, float] = {}

    def many(self, nodes: Sequence[Node]) -> list[float]:
        """The rewards; those not yet known are asked for in one batch."""
        new = list({node.number: node for node in nodes if node.number not in self._known}.values())
        if self._reward is None:
            values = [self._space.target.potential(node.tokens, node.finished) for node in new]
        else:
            values = self._reward.rewards([self._space.candidate(node) for node in new]) if new else []
        for node, value in zip(new, values):
            if math.isnan(value):
                raise ValueError(f"the reward of {node.tokens[-8:]} (last tokens) is not a number")
            self._known[node.number] = float(value)
        return [self._known[node.number] for node in nodes]

    def __call__(self, node: Node) -> float:
        """The reward of one node."""
        return self.many([node])[0]


def reader(space: Space, texts: Any) -> Callable[[tuple[int, ...]], str]:
    """From generated tokens to text, without the token that ends it.

    Args:
        texts: a vocabulary, tokenizer or function from token ids to text; ``None``: the vocabulary of the target's automaton.

    Raises:
        ConstraintError: there is neither.
    """
    from ..scores.texts import decoder

    if texts is None:
        if space.target.automaton is None:
            raise ConstraintError("to read texts takes `texts` (a vocabulary or tokenizer) where the target has no constraint")
        texts = space.target.automaton.vocabulary
    decode, ends = decoder(texts), space.target.ends
    return lambda tokens: decode(tokens[:-1] if tokens and tokens[-1] in ends else tokens)
