"""Resample-move: after resampling, copies of a particle are moved apart without changing what they are a sample of.

A move cuts a suffix off, lets the proposal write another one up to the same number of blocks, and accepts it by Metropolis and
Hastings. The kernel leaves the intermediate target ``p(x) Phi(x)`` invariant, so weights stay as they are and the estimate of ``Z`` stays
unbiased (Gilks, Berzuini 2001; Markovic-Voronov et al. 2026, arXiv:2604.16453).

With ``w`` the product of the proposal's weights, ``x'`` the text with the new suffix and ``c(x) = min(depth, len(x))`` the number of places
where ``x`` may be cut::

    accept with probability min(1, w(x') Phi(x') c(x) / (w(x) Phi(x) c(x')))

The weights may be estimates (AWRS): each is kept with its token, which makes the chain a pseudo-marginal one, exact all the same
(Andrieu, Roberts 2009).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from .particles import Node, Particle, Walker
from .potentials import Potential, evaluate

__all__ = ["rejuvenate"]


def _accepts(old: Particle, new: Node, log_potential: float, cut: int, depth: int, source: random.Random) -> bool:
    places, back = (min(depth, len(node.tokens)) for node in (old.node, new))
    if cut < len(new.tokens) - back:  # the way back does not exist: the old suffix is longer than ``depth`` seen from the new text
        return False
    log_ratio = new.log_ratio + log_potential - old.node.log_ratio - old.log_potential + math.log(places / back)
    return log_ratio >= 0 or source.random() < math.exp(log_ratio)


def rejuvenate(
    particles: Sequence[Particle], walker: Walker, potential: Potential, blocks: int, depth: int, sources: Sequence[random.Random]
) -> tuple[int, int]:
    """One move of every particle with a weight, in place; all of them share their forwards.

    Args:
        particles: that have ended ``blocks`` blocks, or are finished.
        walker: writes the new suffixes.
        potential: of the intermediate target.
        blocks: how many blocks an unfinished text of the intermediate target has ended.
        depth: longest suffix, in tokens, that is cut off.
        sources: the randomness, one a particle.

    Returns:
        moves tried, and moves accepted.
    """
    rows = [i for i, p in enumerate(particles) if p.log_weight > -math.inf and p.node.tokens]
    cuts = {}
    for i in rows:
        length = len(particles[i].node.tokens)
        cuts[i] = length - 1 - sources[i].randrange(min(depth, length))
    ends = walker.run([particles[i].node.ancestor(cuts[i]) for i in rows], blocks, [sources[i] for i in rows])
    alive = {i: end for i, end in zip(rows, ends) if end.alive}
    values = evaluate(potential, [end.prefix for end in alive.values()])
    accepted = 0
    for (i, end), value in zip(alive.items(), values):
        if value > -math.inf and _accepts(particles[i], end, value, cuts[i], depth, sources[i]):
            particles[i].node, particles[i].log_potential = end, value
            accepted += 1
    return len(rows), accepted
