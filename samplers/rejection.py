"""Rejection sampling: draw from the model, throw away what is not in the language. Exact, and the yardstick of everything else.

A text is given up at its first token that the language does not allow, so a failure costs only as many tokens as it takes to fail.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .registry import method
from .target import Meter, Sample, Samples, Target, require_positive, streams

if TYPE_CHECKING:
    from .models.context import Context

__all__ = ["accepts_reward", "excess", "free_tokens", "rejection", "required_bound"]

_NAME = "rejection sampling"


@dataclass(slots=True)
class _Row:
    """One text under way, and the trials that it took."""

    source: random.Random
    context: Context
    state: int
    tokens: tuple[int, ...] = ()
    log_prob: float = 0.0
    trials: int = 0
    accepted: bool = False

    def restart(self, target: Target) -> None:
        self.context, self.state, self.tokens, self.log_prob = target.root, target.start, (), 0.0


@method(
    _NAME,
    law="exact",
    target="the model given the language, times exp(reward): texts are independent draws from it",
    cost="1/Z texts for each that is kept (exp(reward_bound)/Z with a reward), each as long as it takes to leave the language",
    paper="von Neumann 1951",
    use='guided.sample(..., method="rejection")',
)
def rejection(target: Target, n: int, *, seed: int, max_trials: int = 2_000, reward_bound: float | None = None) -> Samples:
    """Draws ``n`` independent texts from the target.

    Args:
        target: what the texts follow.
        n: number of texts; all take part in one forward a step, each repeats until it is accepted.
        seed: row ``i`` depends on ``seed`` and ``i`` only.
        max_trials: of one text; a row that used them up has no text (weight zero), the others stay exact.
        reward_bound: no finished text's reward is larger; needed where the target has a reward. A text is kept with probability
            ``exp(reward - reward_bound)``.

    Returns:
        :class:`~samplers.target.Samples` of equal weight 1. ``log_z`` is that of the unbiased estimate ``(n - 1) / (trials - 1)`` times
        ``exp(reward_bound)`` (accepted / trials for one text, or where rows gave up). ``details``: ``trials``, ``acceptance``,
        ``given_up``.

    Raises:
        ValueError: ``n`` or ``max_trials`` below 1; a reward without a bound, or above it.
    """
    require_positive(n=n, max_trials=max_trials)
    bound = required_bound(target, reward_bound)
    meter = Meter(target)
    rows = [_Row(source, target.root, target.start) for source in streams(seed, n)]
    active = rows
    while active:
        for row, (token, log_prob) in zip(active, free_tokens(meter, [r.context for r in active], [r.source for r in active])):
            if target.allows(row.state, row.tokens, token):
                row.tokens, row.state = (*row.tokens, token), target.advance(row.state, token)
                row.context, row.log_prob = row.context.extend(token), row.log_prob + log_prob
                if row.state != 1:
                    continue
                row.accepted = accepts_reward(target, row.tokens, bound, row.source)
            row.trials += 1
            if not row.accepted:
                row.restart(target)
        active = [row for row in active if not row.accepted and row.trials < max_trials]
    return _summary(rows, bound, meter)


def _summary(rows: Sequence[_Row], bound: float, meter: Meter) -> Samples:
    accepted, trials = sum(row.accepted for row in rows), sum(row.trials for row in rows)
    unbiased = 1 < accepted == len(rows)
    rate = (accepted - 1) / (trials - 1) if unbiased else accepted / trials
    return Samples(
        samples=[Sample(r.tokens, 0.0 if r.accepted else -math.inf, r.log_prob, r.accepted) for r in rows],
        log_z=bound + math.log(rate) if rate else -math.inf,
        log_z_error=math.sqrt((1 - rate) / accepted) if accepted > 1 else math.nan,
        ess=[float(accepted)],
        forwards=meter.forwards,
        kl=0.0 if accepted else None,
        method=_NAME,
        details={"trials": trials, "acceptance": accepted / trials, "given_up": len(rows) - accepted, "calls": meter.calls},
    )


def free_tokens(meter: Meter, contexts: Sequence[Context], sources: Sequence[random.Random]) -> list[tuple[int, float]]:
    """One token of the model for each context, nothing restricted, and its log-probability. Equal contexts share the work."""
    table, rows = meter.distinct(contexts)
    logs = table.numpy()
    cumulative = np.exp(logs).cumsum(-1)
    # at most the last index where the sum still grows: rounding must not lead past it
    last = [int(np.searchsorted(row, row[-1])) for row in cumulative]
    drawn = []
    for row, source in zip(rows, sources):
        place = int(np.searchsorted(cumulative[row], source.random() * cumulative[row, -1], side="right"))
        token = min(place, last[row])
        drawn.append((token, float(logs[row, token])))
    return drawn


def required_bound(target: Target, reward_bound: float | None) -> float:
    """The bound to use: ``reward_bound``, 0 for a target without a reward.

    Raises:
        ValueError: a target with a reward without a finite bound.
    """
    if target.reward is None:
        return 0.0
    if reward_bound is None or not math.isfinite(reward_bound):
        raise ValueError("a target with a reward needs reward_bound, a finite number that no finished text's reward exceeds")
    return reward_bound


def accepts_reward(target: Target, tokens: tuple[int, ...], bound: float, source: random.Random) -> bool:
    """Whether a finished text is kept: with probability ``exp(reward - bound)``.

    Raises:
        ValueError: the reward is above the bound.
    """
    if target.reward is None:
        return True
    return source.random() < math.exp(excess(target, tokens, bound))


def excess(target: Target, tokens: tuple[int, ...], bound: float) -> float:
    """``reward - bound`` of a finished text, at most 0 (0 without a reward).

    Raises:
        ValueError: the reward is above the bound.
    """
    if target.reward is None:
        return 0.0
    value = target.potential(tokens, True)
    if value > bound + 1e-9:
        raise ValueError(f"a text has the reward {value}, above reward_bound = {bound}: raise the bound (what was drawn so far is biased)")
    return min(0.0, value - bound)
