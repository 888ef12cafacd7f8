"""Markov chains over texts of a language: cut the text somewhere, write it anew from there, and keep the new one if it is a fair exchange.

The part that is written anew comes from local masking, so every state of a chain is a text of the language. Masking's own law is not
the target; the Metropolis-Hastings test makes up for it. With ``pi`` the target (not normalised), ``m(y | i)`` the probability with
which masking writes ``y`` from position ``i`` on, and the cut drawn uniformly from the positions of the text, the proposal is

    q(y | x) = 1 / |x| * sum of m(y | i) over the cuts i at which x and y agree before i

and ``y`` replaces ``x`` with probability ``min(1, pi(y) q(x | y) / (pi(x) q(y | x)))``. The sum is over all cuts that lead to ``y``, not
only the one that was drawn, which never makes acceptance rarer on average (Gonzalez et al. 2025, arXiv:2506.05754).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch

from grammars.errors import ConstraintError

from .registry import method
from .smc.particles import Node, Walker
from .smc.proposals import Masked
from .target import Meter, Sample, Samples, Target, effective_size, log_mean, relative_error, require_positive, streams

__all__ = ["Cut", "mcmc"]

Cut = Literal["uniform", "restart"]
_NAME = "MCMC constrained sampling"


@dataclass(slots=True)
class _Chain:
    """One chain: the text that it is at, and the one that is being written."""

    source: random.Random
    node: Node
    left: int
    current: Node | None = None
    log_target: float = -math.inf
    first: float | None = None  # log-weight of the first text that was tried
    starts: int = 0
    proposed: int = 0
    accepted: int = 0


@method(
    _NAME,
    law="exact in the limit",
    target="the model given the language, times exp(reward), as the number of steps grows; chains are independent",
    cost="local masking of half a text a step, on average; all chains share each forward",
    paper="Gonzalez et al. 2025, arXiv:2506.05754",
    use='guided.sample(..., method="mcmc")',
)
def mcmc(
    target: Target,
    n: int,
    *,
    seed: int,
    steps: int = 10,
    cut: Cut = "uniform",
    start: Sequence[tuple[int, ...]] | None = None,
    max_starts: int = 1000,
) -> Samples:
    """The last texts of ``n`` independent chains.

    Args:
        target: what the texts follow as ``steps`` grows.
        n: number of chains; all take part in each forward, at whatever step each of them is.
        seed: chain ``i`` depends on ``seed`` and ``i`` only.
        steps: proposals of each chain.
        cut: where a text is cut: ``"uniform"`` over its tokens, or always at its beginning (``"restart"``, which is independent
            Metropolis-Hastings; its chains mix slowly where texts are long).
        start: ``n`` texts that the chains begin with; ``None``: texts drawn by local masking.
        max_starts: of a chain that runs into dead ends at its beginning; a chain without a text has weight zero.

    Returns:
        :class:`~samplers.target.Samples` of equal weight 1. ``log_z`` comes from the importance weights of the chains' first texts (``nan``
        with ``start``); ``kl`` is not known. ``details``: ``acceptance``, ``steps``, ``dead``.

    Raises:
        ValueError: ``n`` or ``max_starts`` below 1, ``steps`` below 0, an unknown ``cut``, or not ``n`` texts to start with.
        ConstraintError: a text to start with is not in the language, or the target gives it no probability.
    """
    require_positive(n=n, max_starts=max_starts)
    if steps < 0 or cut not in get_args(Cut):
        raise ValueError(f"steps must be at least 0 and cut one of {', '.join(get_args(Cut))}, not {steps} and {cut!r}")
    if start is not None and len(start) != n:
        raise ValueError(f"there are {len(start)} texts to start with, for {n} chains")
    meter = Meter(target)
    walker = Walker(target, meter, Masked(), lambda tokens: True)
    chains = [_Chain(source, walker.root(), steps) for source in streams(seed, n)]
    if start is not None:
        _begin(chains, start, target, meter)
    active = [chain for chain in chains if chain.current is None or _propose(chain, cut)]
    while active:
        grown = walker.step([chain.node for chain in active], [chain.source for chain in active])
        for chain, node in zip(active, grown):
            chain.node = node
        active = [chain for chain in active if _goes_on(chain, target, walker, cut, max_starts)]
    return _summary(chains, meter)


def _begin(chains: Sequence[_Chain], texts: Sequence[tuple[int, ...]], target: Target, meter: Meter) -> None:
    """Puts every chain at its text."""
    nodes = [chain.node for chain in chains]
    for position in range(max(map(len, texts))):
        rows = [i for i, text in enumerate(texts) if position < len(text)]
        for i, row in zip(rows, meter.logprobs([nodes[i].context for i in rows])):
            nodes[i] = _followed(target, nodes[i], texts[i][position], row)
    for chain, node in zip(chains, nodes):
        value = node.log_prob + target.potential(node.tokens, True) if node.finished else -math.inf
        if value == -math.inf:
            raise ConstraintError(f"a chain cannot start at {node.tokens}: it is no text of the language with a probability in the target")
        chain.current, chain.log_target = node, value


def _followed(target: Target, node: Node, token: int, row: torch.Tensor) -> Node:
    """``node`` with ``token`` after it, weighed as masking weighs it; its ``log_ratio`` is ``-inf`` where it is not allowed."""
    tokens = (*node.tokens, token)
    allowed = target.allowed(node.state, node.tokens) if node.alive else torch.zeros(len(row), dtype=torch.bool)
    if not 0 <= token < len(row) or not allowed[token]:
        return Node(tokens, node.context, 0, -math.inf, -math.inf, 0, False, node)
    kept = min(0.0, float(row.masked_fill(~allowed, -math.inf).logsumexp(0)))
    state = target.advance(node.state, token)
    return Node(tokens, node.context.extend(token), state, node.log_prob + float(row[token]), node.log_ratio + kept, 0, state == 1, node)


def _propose(chain: _Chain, cut: Cut) -> bool:
    """Cuts the chain's text; false where it has made all its steps."""
    if not chain.left or chain.current is None:
        return False
    chain.left -= 1
    chain.proposed += 1
    chain.node = chain.current.ancestor(0 if cut == "restart" else chain.source.randrange(len(chain.current.tokens)))
    return True


def _goes_on(chain: _Chain, target: Target, walker: Walker, cut: Cut, max_starts: int) -> bool:
    """What becomes of a chain after a token; false where it is done."""
    node = chain.node
    if node.alive and not node.finished:
        return True
    value = node.log_prob + target.potential(node.tokens, True) if node.alive else -math.inf
    if chain.current is not None:
        if value > -math.inf and _accepts(chain, node, value, cut):
            chain.current, chain.log_target = node, value
            chain.accepted += 1
        return _propose(chain, cut)
    chain.starts += 1
    if chain.first is None:
        chain.first = node.log_ratio + value - node.log_prob if value > -math.inf else -math.inf
    if value > -math.inf:
        chain.current, chain.log_target = node, value
        return _propose(chain, cut)
    chain.node = walker.root()
    return chain.starts < max_starts


def _accepts(chain: _Chain, new: Node, value: float, cut: Cut) -> bool:
    old = chain.current
    assert old is not None
    log_ratio = value - chain.log_target + _log_proposal(old, new, cut) - _log_proposal(new, old, cut)
    return log_ratio >= 0 or chain.source.random() < math.exp(log_ratio)


def _log_proposal(to: Node, text: Node, cut: Cut) -> float:
    """Logarithm of ``q(to | text)``."""

    def written(node: Node) -> float:
        """Logarithm of the probability with which masking writes all of it."""
        return node.log_prob - node.log_ratio

    if cut == "restart":
        return written(to)
    agree = 0
    for a, b in zip(to.tokens[:-1], text.tokens[:-1]):
        if a != b:
            break
        agree += 1
    node: Node | None = to.ancestor(agree)
    starts = []
    while node is not None:
        starts.append(-written(node))
        node = node.parent
    return written(to) + float(np.logaddexp.reduce(starts)) - math.log(len(text.tokens))


def _summary(chains: Sequence[_Chain], meter: Meter) -> Samples:
    samples = [
        Sample(chain.node.tokens, -math.inf, chain.node.log_prob, False)
        if chain.current is None
        else Sample(chain.current.tokens, 0.0, chain.current.log_prob, True)
        for chain in chains
    ]
    firsts = [chain.first for chain in chains if chain.first is not None]
    proposed = sum(chain.proposed for chain in chains)
    return Samples(
        samples=samples,
        log_z=log_mean(firsts) if firsts else math.nan,
        log_z_error=relative_error(firsts),
        ess=[effective_size(s.log_weight for s in samples)],
        forwards=meter.forwards,
        kl=None,
        method=_NAME,
        details={
            "acceptance": sum(chain.accepted for chain in chains) / proposed if proposed else math.nan,
            "steps": proposed,
            "dead": sum(chain.current is None for chain in chains),
            "calls": meter.calls,
        },
    )
