"""Grammar-aligned decoding by adaptive sampling with approximate expected futures (ASAp).

Masking forgets how likely the model is to finish a text of the language after each token. That *expected future* is what a token's
probability should be multiplied by to draw from the model given the language. Here it is learnt: every text that is drawn tells, along
its way, which tokens fail, and the bounds that follow from this (see :mod:`.prefix_tree`) are the approximation that the next text is
drawn with. Nothing is rejected, so the first texts are those of masking, and later ones come ever closer to the target.

The probability with which a text was drawn is known, and so is its importance weight; it corrects what has not been learnt yet.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from .prefix_tree import Branch, PrefixTree
from .registry import method
from .rejection import excess, required_bound
from .target import Meter, Sample, Samples, Target, effective_size, log_mean, relative_error, require_positive, streams

__all__ = ["asap"]

_NAME = "ASAp grammar-aligned decoding"


@dataclass(slots=True)
class _Row:
    source: random.Random
    branch: Branch
    log_prob: float = 0.0
    log_drawn: float = 0.0  # logarithm of the probability with which it was drawn
    log_weight: float = -math.inf
    text: tuple[int, ...] | None = None

    def sample(self) -> Sample:
        if self.text is None:
            return Sample(self.branch.prefix, -math.inf, self.log_prob, False)
        return Sample(self.text, self.log_weight, self.log_prob, True)


@method(
    _NAME,
    law="exact in the limit",
    target=(
        "the model given the language, times exp(reward): without weights as the number of texts drawn before grows, with them as that of "
        "texts grows; mean(weight) is an unbiased estimate of Z"
    ),
    cost="that of local masking, for every text that is drawn to learn from as well; prefixes seen before cost no forward",
    paper="Park et al. 2024, arXiv:2405.21047",
    use='guided.sample(..., method="asap")',
)
def asap(
    target: Target,
    n: int,
    *,
    seed: int,
    warmup: int = 0,
    batch: int = 16,
    reward_bound: float | None = None,
    max_entries: int = 20_000_000,
) -> Samples:
    """Draws ``n`` texts one after the other, each from what the texts before it have taught.

    Weights are absolute, as those of :func:`~samplers.importance.importance`; they are equal once all is learnt.

    Args:
        target: what the texts follow in the limit.
        n: number of texts; a text that ran into a dead end has weight zero (and no later one runs into it).
        seed: text ``i`` depends on ``seed`` and on the texts before it.
        warmup: texts that are drawn to learn from, and not returned.
        batch: texts drawn side by side, which do not learn from each other until their ways meet; 1 is the method of the paper.
        reward_bound: no finished text's reward is larger; needed where the target has a reward.
        max_entries: bound of what is remembered, in tokens (20 bytes each); beyond it nothing more is learnt.

    Returns:
        :class:`~samplers.target.Samples`; ``details``: ``removed_mass`` (of the model, known to fail), ``log_z_upper`` (what is left),
        ``kl_unweighted``, the estimated divergence of the texts' own laws from the target (``inf`` with a dead end among them), ``dead``.

    Raises:
        ValueError: ``n``, ``batch`` or ``max_entries`` below 1, ``warmup`` below 0; a reward without a bound, or above it.
    """
    require_positive(n=n, batch=batch, max_entries=max_entries)
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, not {warmup}")
    bound = required_bound(target, reward_bound)
    meter = Meter(target)
    tree = PrefixTree(target, meter, max_entries)
    rows = [_Row(source, tree.root) for source in streams(seed, warmup + n)]
    for first in range(0, len(rows), batch):
        active = rows[first : first + batch]
        while active:
            active = [row for row in active if _walk(row, tree, bound)]
            tree.grow()
    return _summary(rows[warmup:], tree, bound, meter)


def _walk(row: _Row, tree: PrefixTree, bound: float) -> bool:
    """Goes on until a prefix comes that nobody has looked at (true), or the text ends (false)."""
    while row.branch.mass > 0:
        branch = row.branch
        place = branch.choose(row.source)
        row.log_prob += math.log(branch.probs[place])
        row.log_drawn += math.log(branch.probs[place] * branch.bounds[place]) - math.log(float(branch.probs @ branch.bounds))
        token = int(branch.tokens[place])
        if token in tree.target.ends:
            row.text = (*branch.prefix, token)
            gap = excess(tree.target, row.text, bound)
            branch.lower(place, math.exp(gap))
            row.log_weight = row.log_prob - row.log_drawn + gap + bound
            return False
        row.branch, known = tree.below(branch, place)
        if not known:
            return True
    return False


def _summary(rows: list[_Row], tree: PrefixTree, bound: float, meter: Meter) -> Samples:
    samples = [row.sample() for row in rows]
    logs = [s.log_weight for s in samples]
    log_z, error = log_mean(logs), relative_error(logs)
    upper = tree.root.mass
    return Samples(
        samples=samples,
        log_z=log_z,
        log_z_error=error,
        ess=[effective_size(logs)],
        forwards=meter.forwards,
        kl=None if math.isnan(error) else error**2 / 2,
        method=_NAME,
        details={
            "removed_mass": 1 - upper,
            "log_z_upper": bound + math.log(upper) if upper > 0 else -math.inf,
            "kl_unweighted": max(0.0, log_z - sum(logs) / len(logs)) if min(logs) > -math.inf else math.inf,
            "dead": sum(row.text is None for row in rows),
            "calls": meter.calls,
        },
    )
