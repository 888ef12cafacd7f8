"""Local masking, made good: texts drawn token by token from a proposal, each with the importance weight that corrects it.

Masking alone follows another law than the model given the language: a prefix on which the mask leaves little mass is entered as often as
one on which it leaves all. The product of the masses that were left is exactly what the text was drawn too often by; as a weight it
makes averages right, at the price of unequal weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .registry import method
from .smc.particles import Node, Walker
from .smc.proposals import Masked
from .target import Meter, Sample, Samples, Target, effective_size, log_mean, relative_error, require_positive, streams

if TYPE_CHECKING:
    from .smc.proposals import Proposal

__all__ = ["importance", "weighted_walk"]

_NAME = "masked importance sampling"


@method(
    _NAME,
    law="exact in the limit",
    target=(
        "the model given the language, times exp(reward), as the number of texts grows: texts are drawn by local masking, weight = product "
        "of the masses that the masks left, times exp(reward); mean(weight) is an unbiased estimate of Z"
    ),
    cost="that of local masking: a forward and a mask a token",
    paper="Kahn, Marshall 1953; for masked language models Loula et al. 2025, arXiv:2504.13139",
    use='guided.sample(..., method="importance")',
)
def importance(target: Target, n: int, *, seed: int) -> Samples:
    """Draws ``n`` texts by local masking and weighs them.

    Weights are absolute: the mean of ``exp(log_weight) f(tokens)`` is an unbiased estimate of ``sum_x p(x) exp(reward(x)) f(x)``. Texts
    that ran into a dead end (nothing can follow that the model gives mass to, or that fits in ``max_tokens``) have weight zero.

    Args:
        target: what the weighted texts follow.
        n: number of texts; all take part in one forward a step.
        seed: row ``i`` depends on ``seed`` and ``i`` only.

    Returns:
        :class:`~samplers.target.Samples`; its ``details``: ``removed_mass``, the mean over the texts of ``1 - product of the masses
        left``; ``kl_masking``, the estimated divergence of masking's own law from the target (``inf`` where it can reach dead ends);
        ``dead``, the number of texts in a dead end.

    Raises:
        ValueError: ``n`` below 1.
    """
    samples, log_ratios = weighted_walk(target, n, seed, Masked(), _NAME)
    logs = [s.log_weight for s in samples.samples]
    samples.details["removed_mass"] = 1 - sum(map(math.exp, log_ratios)) / n
    samples.details["kl_masking"] = max(0.0, samples.log_z - sum(logs) / n) if min(logs) > -math.inf else math.inf
    return samples


def weighted_walk(target: Target, n: int, seed: int, proposal: Proposal, name: str) -> tuple[Samples, list[float]]:
    """``n`` independent texts drawn by a properly weighted proposal, without resampling, and the logarithms of its weights alone.

    The reward of a finished text is part of its weight in the samples, and no part of the second value.

    Raises:
        ValueError: ``n`` below 1.
    """
    require_positive(n=n)
    meter = Meter(target)
    walker = Walker(target, meter, proposal, lambda tokens: True)
    nodes = walker.run([walker.root()] * n, target.max_tokens, streams(seed, n))
    found = [_weighed(target, node) for node in nodes]
    logs = [s.log_weight for s in found]
    error = relative_error(logs)
    samples = Samples(
        samples=found,
        log_z=log_mean(logs),
        log_z_error=error,
        ess=[effective_size(logs)],
        forwards=meter.forwards,
        kl=None if math.isnan(error) else error**2 / 2,
        method=name,
        details={**proposal.details, "calls": meter.calls, "dead": sum(not s.finished for s in found)},
    )
    return samples, [node.log_ratio for node in nodes]


def _weighed(target: Target, node: Node) -> Sample:
    if not (node.finished and node.alive):
        return Sample(node.tokens, -math.inf, node.log_prob, False)
    return Sample(node.tokens, node.log_ratio + target.potential(node.tokens, True), node.log_prob, True)
