"""Block by block: several continuations are drawn from the model, and one is kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ..sampling import draw
from ..search.frontier import Node, Space
from ..smc.boundaries import Boundary
from ..target import Sample, Samples, pick, streams

__all__ = ["Block", "Blocks"]


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a text.

    Attributes:
        tokens: what was kept.
        chosen: which of the candidates it was.
        scores: of all candidates, by which one was chosen; in the order in which they were drawn.
    """

    tokens: tuple[int, ...]
    chosen: int
    scores: tuple[float, ...]


@dataclass
class Blocks(Samples):
    """Texts made of chosen blocks, as :class:`~samplers.target.Samples`. The finished ones all count the same: they have no importance
    weights (``log_weight`` 0, ``log_z`` is ``nan``).

    Attributes:
        blocks: for every sample its blocks, in order.
    """

    blocks: list[list[Block]] = field(default_factory=list)


@dataclass(slots=True)
class _Text:
    node: Node
    source: random.Random
    blocks: list[Block] = field(default_factory=list)
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """A candidate for a block.

    Attributes:
        node: the text with it.
        log_masked: log-probability of the block's tokens under the masked, renormalised steps that they were drawn from.
        alive: ``False``: nothing could follow before the block ended (only with ``ending="exact"``).
    """

    node: Node
    log_masked: float = 0.0
    alive: bool = True


Score = Callable[[Node, list[Drawn]], list[float]]
"""Scores of candidates that continue a node."""
Pick = Callable[[list[float], random.Random], int]
"""Which candidate is kept."""


def by_blocks(space: Space, n: int, k: int, ends: Boundary, score: Score, choose: Pick, *, seed: int, name: str) -> Blocks:
    """Draws ``k`` candidates for every next block of ``n`` texts by local masking and keeps one of each, until the texts end.

    Args:
        space: of a target, whose temperature is that of the draws and whose reward has no part in it. Where its budget is spent the texts
            stay as they are.
        n: number of texts.
        k: candidates a block.
        ends: whether a block ends with the last of these tokens; the end of the text ends one as well.
        score, choose: how one is chosen. A candidate that could not go on is not among them unless all are such; then the text ends there.
        seed: text ``i`` depends on ``seed`` and ``i`` only.
        name: in the table of methods.
    """
    texts = [_Text(space.start(), source) for source in streams(seed, n)]
    scored = 0
    while (live := [text for text in texts if not (text.dead or space.is_leaf(text.node))]) and not space.spent:
        for text, drawn in zip(live, draw_blocks(space, [(text.node, text.source) for text in live], k, ends)):
            scored += _keep(space, text, drawn, score, choose)
    nodes = [text.node for text in texts]
    finished = sum(node.finished for node in nodes)
    return Blocks(
        samples=[Sample(node.tokens, 0.0 if node.finished else -math.inf, node.logprob, node.finished) for node in nodes],
        log_z=math.nan if finished else -math.inf,
        log_z_error=math.nan,
        ess=[float(finished)],
        forwards=space.forwards,
        kl=None,
        method=name,
        details={
            "tokens": space.tokens,
            "scored": scored,
            "dead": sum(t.dead for t in texts),
            "calls": space.meter.calls,
            "complete": float(not live),
        },
        blocks=[text.blocks for text in texts],
    )


def _keep(space: Space, text: _Text, drawn: list[Drawn], score: Score, choose: Pick) -> int:
    """Goes on with one of the candidates; how many were scored."""
    able = [i for i, one in enumerate(drawn) if one.alive]
    if not able:
        text.node, text.dead = drawn[0].node, True
        return 0
    scores = score(text.node, [drawn[i] for i in able])
    at = able[choose(scores, text.source)]
    found = dict(zip(able, scores))
    kept = replace(drawn[at].node, score=found[at])
    space.prune([replace(one.node, score=found.get(i, -math.inf)) for i, one in enumerate(drawn) if i != at], "another block was kept")
    text.blocks.append(Block(kept.tokens[len(text.node) :], at, tuple(found.get(i, -math.inf) for i in range(len(drawn)))))
    text.node = kept
    return len(able)


def draw_blocks(space: Space, starts: Sequence[tuple[Node, random.Random]], k: int, ends: Boundary) -> list[list[Drawn]]:
    """For each start ``k`` continuations up to the end of a block, drawn by local masking: the masked steps of the space, renormalised.

    All steps of all starts are batched; a start's draws depend on its own source only.
    """
    drawn = [[Drawn(start)] * k for start, _ in starts]

    def goes_on(row: int, i: int) -> bool:
        one, start = drawn[row][i], starts[row][0]
        return one.alive and not space.is_leaf(one.node) and (one.node is start or not ends(one.node.tokens))

    while places := [(row, i) for row in range(len(drawn)) for i in range(k) if goes_on(row, i)]:
        laws = space.rows([drawn[row][i].node for row, i in places])
        kept = laws.logsumexp(-1)
        uniforms = torch.tensor([starts[row][1].random() for row, _ in places], dtype=torch.float64)
        tokens = draw(torch.where(kept[:, None].isneginf(), 0.0, laws), uniforms).tolist()
        for (row, i), token, law, mass in zip(places, tokens, laws, kept.tolist()):
            one = drawn[row][i]
            if mass == -math.inf:
                drawn[row][i] = replace(one, alive=False)
            else:
                logprob = float(law[token])
                drawn[row][i] = Drawn(space.child(one.node, token, logprob, 0.0), one.log_masked + logprob - mass)
    return drawn


def best(scores: list[float], source: random.Random) -> int:
    """The first of the best."""
    return max(range(len(scores)), key=lambda i: scores[i])


def proportional(weights: Sequence[float], source: random.Random) -> int:
    """One in proportion to its weight; the first where all are zero."""
    sums = np.cumsum(np.asarray(weights, dtype=np.float64))
    return pick(sums, source) if sums[-1] > 0 else 0
