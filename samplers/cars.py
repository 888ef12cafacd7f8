"""Constrained adaptive rejection sampling: exact as rejection is, but no failure comes twice.

The model's distribution with everything that is known to fail taken out of it (and the rest normalised) is a better proposal for
rejection than the model itself, and just as exact: a text that is accepted follows the model given the language, whatever was known when
it was begun. Each prefix that a trial visits tells, by its mask, all the tokens that fail there, not only the one that was drawn.

Trials run side by side on one tree, so what is known changes while they run. A trial therefore remembers the bound that its prefix had
when it was chosen; where the bound has fallen meanwhile to a share of that, the trial goes on with the probability of that share and
fails otherwise. The chance of writing a text ``x`` is then its probability under the model over the bound of the empty text when the
trial began, in whatever order bounds fell on the way.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import numpy as np

from .prefix_tree import Branch, PrefixTree
from .registry import method
from .rejection import excess, required_bound
from .target import Meter, Sample, Samples, Target, require_positive, streams

__all__ = ["cars"]

_NAME = "CARS constrained adaptive rejection sampling"


@dataclass(slots=True)
class _Trials:
    """How every trial of one row went: the bound of the empty text when it began, and whether it was the accepted one (the last)."""

    source: random.Random
    branch: Branch
    bound: float
    log_prob: float = 0.0
    begun: list[float] = field(default_factory=list)
    text: tuple[int, ...] | None = None

    def begin(self, root: Branch) -> None:
        self.branch, self.bound, self.log_prob = root, root.mass, 0.0
        self.begun.append(root.mass)

    def survives(self, bound: float) -> bool:
        """Whether the trial goes on where its prefix's bound has fallen to ``bound``."""
        return bound > 0 and (bound >= self.bound or self.source.random() * self.bound < bound)


@method(
    _NAME,
    law="exact",
    target="the model given the language, times exp(reward): texts are independent draws from it",
    cost="fewer and fewer failed texts: what failed once is never drawn again, and prefixes seen before cost no forward",
    paper="Parys et al. 2025, arXiv:2510.01902",
    use='guided.sample(..., method="cars")',
)
def cars(
    target: Target, n: int, *, seed: int, max_trials: int = 2_000, reward_bound: float | None = None, max_entries: int = 20_000_000
) -> Samples:
    """Draws ``n`` independent texts from the target, learning from every failure.

    Args:
        target: what the texts follow.
        n: number of texts. They share what is learnt, so row ``i`` depends on ``n`` as well as on ``seed``; their laws do not.
        seed: of all randomness.
        max_trials: of one text; a row that used them up has no text (weight zero), the others stay exact.
        reward_bound: no finished text's reward is larger; needed where the target has a reward.
        max_entries: bound of what is remembered, in tokens (20 bytes each); beyond it the method is as exact, and learns no more.

    Returns:
        :class:`~samplers.target.Samples` of equal weight 1. ``log_z`` is the maximum of the likelihood of all trials' outcomes, within the
        bounds that are known for certain; ``details``: ``log_z_lower`` (of the texts found), ``log_z_upper`` (the model's mass less what is
        known to fail), ``trials``, ``acceptance``, ``given_up``.

    Raises:
        ValueError: ``n``, ``max_trials`` or ``max_entries`` below 1; a reward without a bound, or above it.
    """
    require_positive(n=n, max_trials=max_trials, max_entries=max_entries)
    bound = required_bound(target, reward_bound)
    meter = Meter(target)
    tree = PrefixTree(target, meter, max_entries)
    rows = [_Trials(source, tree.root, tree.root.mass) for source in streams(seed, n)]
    for row in rows:
        row.begin(tree.root)
    active = rows
    while active:
        active = [row for row in active if _walk(row, tree, bound, max_trials)]
        tree.grow()
    return _summary(rows, tree, bound, meter)


def _walk(row: _Trials, tree: PrefixTree, bound: float, max_trials: int) -> bool:
    """Goes on until a prefix comes that nobody has looked at (true), or the row has its text, or has given up (false)."""
    while True:
        failed = not row.survives(row.branch.mass)
        if not failed:
            branch = row.branch
            place = branch.choose(row.source)
            row.bound = float(branch.bounds[place])
            row.log_prob += math.log(branch.probs[place])
            token = int(branch.tokens[place])
            if token not in tree.target.ends:
                row.branch, known = tree.below(branch, place)
                if not known:
                    return True
                continue
            text = (*branch.prefix, token)
            share = math.exp(excess(tree.target, text, bound))
            branch.lower(place, share)
            failed = not row.survives(share)
            if not failed:
                row.text = text
                return False
        if len(row.begun) == max_trials or tree.root.mass <= 0:
            return False
        row.begin(tree.root)


def _summary(rows: list[_Trials], tree: PrefixTree, bound: float, meter: Meter) -> Samples:
    samples = [
        Sample(row.branch.prefix, -math.inf, row.log_prob, False) if row.text is None else Sample(row.text, 0.0, row.log_prob, True)
        for row in rows
    ]
    accepted = [row.begun[-1] for row in rows if row.text is not None]
    failed = [begun for row in rows for begun in (row.begun if row.text is None else row.begun[:-1])]
    masses = {row.text: math.exp(row.log_prob + excess(tree.target, row.text, bound)) for row in rows if row.text is not None}
    lower, upper = math.fsum(masses.values()), tree.root.mass
    z, error = _most_likely(len(accepted), np.array(failed), min(lower, upper), upper)
    return Samples(
        samples=samples,
        log_z=bound + math.log(z) if z else -math.inf,
        log_z_error=error,
        ess=[float(len(accepted))],
        forwards=meter.forwards,
        kl=0.0 if accepted else None,
        method=_NAME,
        details={
            "log_z_lower": bound + math.log(lower) if lower else -math.inf,
            "log_z_upper": bound + math.log(upper) if upper > 0 else -math.inf,
            "trials": len(accepted) + len(failed),
            "acceptance": len(accepted) / (len(accepted) + len(failed)),
            "given_up": len(rows) - len(accepted),
            "calls": meter.calls,
        },
    )


def _most_likely(accepted: int, failed: np.ndarray, lower: float, upper: float) -> tuple[float, float]:
    """The ``z`` of ``[lower, upper]`` under which the outcomes are most likely, and its relative standard error.

    A trial that began with the bound ``b`` is accepted with probability ``z / b``. The derivative of the logarithm of the likelihood falls
    in ``z``, so its zero is found by bisection; the error is that of the Fisher information, and no more than the bounds leave open.

    Args:
        accepted: how many trials were.
        failed: ``float64[]``, bounds of those that were not; none is below ``upper``.
    """
    if not accepted or upper <= 0:
        return 0.0, math.nan
    low, high = lower, upper

    def slope(z: float) -> float:
        with np.errstate(divide="ignore"):
            return accepted / z - float((1 / np.maximum(failed - z, 0.0)).sum())

    if slope(high) < 0:
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    z = high
    with np.errstate(divide="ignore"):
        information = accepted / z**2 + float((1 / np.maximum(failed - z, 0.0) ** 2).sum())
    return z, min(1 / (z * math.sqrt(information)), (upper - lower) / z)
