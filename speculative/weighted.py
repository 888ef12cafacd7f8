"""Weighted texts from speculation: several tokens a forward, and the importance weight that makes them follow the model given the language.

An exact verifier draws each token from the model restricted to what may follow, as plain masking does, and tells the mass that was left
there. The product of these masses along a text is its importance weight (see :mod:`samplers.importance`), so speculation changes the
number of forwards and nothing else.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from samplers.registry import method
from samplers.sampling import Settings
from samplers.target import Meter, Sample, Samples, Target, effective_size, log_mean, relative_error, require_positive

from .decode import Loop, Row
from .pace import Always
from .rules import DONE, Place, Rules
from .verifiers.matching import Matching

if TYPE_CHECKING:
    from samplers.models.context import Context

    from .pace import Pace
    from .protocol import Drafter, Shape, Stop, Verifier

__all__ = ["TargetRules", "speculative_importance"]

_NAME = "speculative importance sampling"


class TargetRules(Rules):
    """The language of a :class:`~samplers.target.Target`: automaton, ``check``, and an end within ``max_tokens``."""

    def __init__(self, target: Target) -> None:
        super().__init__(sorted(target.ends), target.automaton)
        self.target = target

    @property
    def words(self) -> int:
        """See :attr:`Rules.words`; there are masks without an automaton too."""
        return max(super().words, -(-self.target.model.width // 32))

    def root_of(self, target: Target) -> Place:
        """The place of the empty text."""
        return Place(target.root, target.start, target.max_tokens, len(target.prompt))

    def key(self, place: Place) -> Hashable | None:
        """See :meth:`Rules.key`."""
        last = place.left == 1
        if self.target.check is not None:
            return id(self), place.state, last, place.tokens
        if last:
            return id(self), place.state, last
        return super().key(place)

    def fill(self, place: Place, row: np.ndarray) -> None:
        """See :meth:`Rules.fill`."""
        if self.target.check is None and place.left > 1:
            return super().fill(place, row)
        bits = np.packbits(self.target.allowed(place.state, place.tokens).numpy(), bitorder="little")
        row.view(np.uint8)[: len(bits)] = bits

    def child(self, place: Place, token: int) -> Place | None:
        """See :meth:`Rules.child`."""
        if place.ended or not self.target.allows(place.state, place.tokens, token):
            return None
        return Place(place.context.extend(token), self.target.advance(place.state, token), place.left - 1, place.start)


class _Tempered:
    """The target's model at its temperature, counted."""

    def __init__(self, target: Target, meter: Meter) -> None:
        self.target, self.meter = target, meter
        self.width, self.eos_token_ids = target.model.width, target.model.eos_token_ids

    def context(self, tokens: Sequence[int]) -> Context:
        return self.target.model.context(tokens)

    def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        return self.meter.logprobs(contexts)

    def score(self, context: Context, continuations: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        return self.target.model.score(context, continuations)

    def hidden(self, contexts: Sequence[Context]) -> torch.Tensor:
        return self.target.model.hidden(contexts)


@method(
    _NAME,
    law="exact in the limit",
    target=(
        "the model given the language, times exp(reward), as the number of texts grows: texts are drawn by local masking, several tokens a "
        "forward, weight = product of the masses that the masks left, times exp(reward); mean(weight) is an unbiased estimate of Z"
    ),
    cost="that of speculation with the same drafter and verifier",
    paper="weights: Kahn, Marshall 1953; drafts: Leviathan, Kalman, Matias 2023, arXiv:2211.17192",
    use="speculative.weighted.speculative_importance(target, n, seed=..., drafter=..., shape=...)",
)
def speculative_importance(
    target: Target,
    n: int,
    *,
    seed: int,
    drafter: Drafter,
    shape: Shape,
    verifier: Verifier | None = None,
    stop: Stop | None = None,
    pace: Pace | None = None,
) -> Samples:
    """Draws ``n`` texts by local masking, speculatively, and weighs them; see :func:`samplers.importance.importance`.

    Args:
        target: what the weighted texts follow.
        n: number of texts; all take part in one forward a step.
        seed: row ``i`` depends on ``seed`` and ``i`` only (with a drafter that learns from the rows beside it and a verifier that is not
            invariant, on those too).
        drafter, shape, stop, pace: see :func:`speculative.decode.decode`.
        verifier: an exact one; ``None``: :class:`~speculative.verifiers.Matching`.

    Returns:
        :class:`~samplers.target.Samples`; its ``details``: ``removed_mass`` and ``dead`` as for ``importance``; ``calls`` (batched
        questions to the model); ``tokens``, ``drafted`` and ``accepted``, over all texts.

    Raises:
        ValueError: ``n`` below 1, or a verifier that does not follow the target's law.
    """
    require_positive(n=n)
    verifier = Matching() if verifier is None else verifier
    if not getattr(verifier, "exact", False):
        raise ValueError(f"{type(verifier).__name__} does not follow the target's law: the weights need an exact verifier")
    meter = Meter(target)
    dead: set[int] = set()
    loop = Loop(_Tempered(target, meter), drafter, verifier, shape, stop, Settings(), None, None, pace or Always(), dead.add)
    rules = TargetRules(target)
    rows = [loop.row_of(i, rules, rules.root_of(target), random.Random(f"{seed}/{i}").getrandbits(63)) for i in range(n)]
    log_prob, log_ratio = [0.0] * n, [0.0] * n
    drafted = accepted = 0
    for step in loop.run(rows):
        drafted += sum(row.drafted for row in step.rows)
        accepted += sum(row.accepted for row in step.rows)
        for one in step:
            log_prob[one.row] += one.logprob
            log_ratio[one.row] += one.log_kept
    found = [_weighed(target, row, log_prob[i], log_ratio[i]) for i, row in enumerate(rows)]
    logs = [s.log_weight for s in found]
    error = relative_error(logs)
    kept = [0.0 if row.index in dead else math.exp(log_ratio[row.index]) for row in rows]
    details = {
        "removed_mass": 1 - math.fsum(kept) / n,
        "dead": sum(not s.finished for s in found),
        "calls": meter.calls,
        "tokens": sum(len(s.tokens) for s in found),
        "drafted": drafted,
        "accepted": accepted,
    }
    kl = None if math.isnan(error) else error**2 / 2
    return Samples(found, log_mean(logs), error, [effective_size(logs)], meter.forwards, kl, _NAME, details)


def _weighed(target: Target, row: Row, log_prob: float, log_ratio: float) -> Sample:
    tokens = row.place.tokens
    if row.place.state != DONE:
        return Sample(tokens, -math.inf, log_prob, False)
    return Sample(tokens, log_ratio + target.potential(tokens, True), log_prob, True)
