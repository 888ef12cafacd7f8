"""Adaptive weighted rejection sampling: the masked distribution and an unbiased estimate of its mass, without the mask.

Tokens are drawn from the model and checked one at a time. One that fails is taken out of the distribution, so that it is never drawn
again; the first that passes is a draw from the model given the constraint. A few draws more, from what is left, estimate the mass of
the tokens that would have passed, which is the token's importance weight (Lipkin et al. 2025, arXiv:2504.05410).

**Why the weight is right.** Let ``R`` be the tokens that failed before ``x`` passed. Whatever ``R`` is, ``x`` is drawn in proportion to the
model's probabilities among the tokens that pass. With ``Z`` their mass, ``Z - p(x)`` is the mass of those among the tokens that were not
looked at. Draws ``y_1, y_2, ...`` from these, without replacement, give the terms ``t_j = sum_{i<j} p(y_i) c_i + c_j m_j``, with ``c_i``
whether ``y_i`` passes and ``m_j`` the mass that was left when ``y_j`` was drawn. Each has the mean ``Z - p(x)`` (Des Raj 1956), so ``w =
p(x) + mean(t_j)`` has the mean ``Z`` for every ``R`` and ``x``, hence ``E[w f(x)]`` is the sum of ``p(x) f(x)`` over the tokens that pass.
With one draw more it is the paper's recursive estimate, which costs two checks where the model agrees with the constraint.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from .importance import weighted_walk
from .registry import method
from .smc.proposals import Move
from .target import Samples, Target, require_positive

if TYPE_CHECKING:
    from .smc.particles import Node

__all__ = ["AdaptiveRejection", "Urn", "awrs", "draw"]

_NAME = "AWRS adaptive weighted rejection sampling"
_FEW = 24  # draws found one by one; after so many all the others are put in order at once
_THIN = 1e-6  # share of the mass below which differences of cumulative sums are no longer trusted


def cumulative(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums of the probabilities, in units of the largest."""
    return np.exp(logs - max(float(logs.max(initial=-math.inf)), -1e300)).cumsum()


class Urn:
    """Tokens drawn one after the other without replacement, each in proportion to its probability among those that are left.

    The first draws cost a binary search; should many be needed, the rest is put into its random order by one sort (perturbing the
    logarithms with Gumbel noise gives the same law; Efraimidis, Spirakis 2006).

    Args:
        logs: ``float64[width]``, log-probabilities; they need not be normalised. ``-inf`` is never drawn.
        source: the only randomness.
        sums: :func:`cumulative` of ``logs``, where it is known (urns with the same content share it).
    """

    def __init__(self, logs: NDArray[np.float64], source: random.Random, sums: NDArray[np.float64] | None = None) -> None:
        self.logs, self._source = logs, source
        self._top = float(logs.max(initial=-math.inf))
        self._order: NDArray[np.intp] | None = None
        self._next = 0  # in the order
        self._taken: list[tuple[float, float, int]] = []  # (start of its interval, mass, token), ascending
        if self._top > -math.inf:
            self._cumulative = cumulative(logs) if sums is None else sums
            self._left = self._total = float(self._cumulative[-1])
        else:
            self._order = np.empty(0, np.intp)

    def draw(self) -> int | None:
        """The next token; ``None`` when all that have a probability were drawn."""
        if self._order is None and (len(self._taken) >= _FEW or self._left <= _THIN * self._total):
            self._arrange()
        if self._order is not None:
            if self._next == len(self._order):
                return None
            self._next += 1
            return int(self._order[self._next - 1])
        token = self._search()
        if token is None:
            self._arrange()
            return self.draw()
        start = float(self._cumulative[token - 1]) if token else 0.0
        mass = float(self._cumulative[token]) - start
        self._taken.append((start, mass, token))
        self._taken.sort()
        self._left -= mass
        return token

    def _search(self) -> int | None:
        """A token by inversion, stepping over the intervals of those that were taken; ``None`` where rounding led to one of them."""
        point = self._source.random() * self._left
        for start, mass, _ in self._taken:
            if point < start:
                break
            point += mass
        token = int(np.searchsorted(self._cumulative, point, side="right"))
        if token >= len(self.logs) or self.logs[token] == -math.inf or any(token == t for _, _, t in self._taken):
            return None
        return token

    def _arrange(self) -> None:
        """Puts the tokens that are left into the order in which they will be drawn."""
        left = self.logs.copy()
        left[[t for _, _, t in self._taken]] = -math.inf
        tokens = np.flatnonzero(left > -math.inf)
        noise = np.random.Generator(np.random.PCG64(self._source.getrandbits(128))).gumbel(size=len(tokens))
        self._order = tokens[np.argsort(-(left[tokens] + noise), kind="stable")]

    def log_left(self) -> float:
        """Logarithm of the mass of the tokens that were not drawn."""
        if self._order is not None:
            rest = self.logs[self._order[self._next :]]
            if not len(rest):
                return -math.inf
            top = float(rest.max())
            return top + math.log(float(np.exp(rest - top).sum()))
        if self._left <= _THIN * self._total:
            self._arrange()
            return self.log_left()
        return self._top + math.log(self._left)


def draw(urn: Urn, allows: Callable[[int], bool], extra: int = 1) -> tuple[int | None, float, int]:
    """One token that ``allows`` lets pass, and an unbiased estimate of the mass of all of them.

    Args:
        urn: fresh.
        allows: asked about one token at a time, never twice about the same.
        extra: draws after the token that passed, at least 1; more of them make the estimate vary less.

    Returns:
        the token (``None`` where none passes), the logarithm of the estimate (``-inf`` then), and how many tokens were checked.
    """
    checks = 0
    while (token := urn.draw()) is not None:
        checks += 1
        if allows(token):
            break
    if token is None:
        return None, -math.inf, checks
    known, terms = -math.inf, []  # log of sum_{i<j} p(y_i) c_i, and of the t_j
    for _ in range(extra):
        left = urn.log_left()
        other = urn.draw()
        if other is None:
            terms = [known]  # everything was looked at: the mass is known
            break
        checks += 1
        if allows(other):
            terms.append(float(np.logaddexp(known, left)))
            known = float(np.logaddexp(known, urn.logs[other]))
        else:
            terms.append(known)
    rest = float(np.logaddexp.reduce(terms)) - math.log(len(terms))
    return token, float(np.logaddexp(urn.logs[token], rest)), checks


class AdaptiveRejection:
    """The proposal of AWRS, for particles (see :class:`samplers.smc.proposals.Proposal`).

    Args:
        extra: see :func:`draw`.
        premask: take the automaton's mask first (it costs microseconds) and look at single tokens for the target's ``check`` only, where
            that is the slow part. Without it nothing is asked about a token that was not drawn.

    Attributes:
        details: ``checks`` (tokens that were looked at), ``steps`` (tokens that were drawn for particles), ``checked_fraction``: checks
            per step and token of the vocabulary. Particles with the same prefix share the answers.

    Raises:
        ValueError: ``extra`` below 1.
    """

    name = "awrs"

    def __init__(self, extra: int = 1, premask: bool = False) -> None:
        require_positive(extra=extra)
        self.extra, self.premask = extra, premask
        self.details: dict[str, float] = {"checks": 0, "steps": 0, "checked_fraction": 0.0}

    def propose(self, target: Target, nodes: Sequence[Node], logprobs: torch.Tensor, sources: Sequence[random.Random]) -> list[Move]:
        """See :meth:`samplers.smc.proposals.Proposal.propose`."""
        answers: dict[tuple[int, ...], dict[int, bool]] = {}
        contents: dict[tuple[int, ...], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        moves = []
        for node, row, source in zip(nodes, logprobs.numpy(), sources):
            known = answers.setdefault(node.tokens, {})
            if node.tokens not in contents:
                logs = self._candidates(target, node, row)
                contents[node.tokens] = logs, cumulative(logs)
            logs, sums = contents[node.tokens]
            token, log_weight, _ = draw(Urn(logs, source, sums), self._checker(target, node, known), self.extra)
            moves.append(Move(-1, -math.inf, -math.inf) if token is None else Move(token, float(row[token]), log_weight))
        self.details["steps"] += len(nodes)
        self.details["checks"] += sum(map(len, answers.values()))
        self.details["checked_fraction"] = self.details["checks"] / (self.details["steps"] * target.model.width)
        return moves

    def _candidates(self, target: Target, node: Node, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """The row without the tokens that are ruled out at no cost."""
        if len(node.tokens) == target.max_tokens - 1:
            ends = [t for t in target.ends if t < len(row)]
            kept = np.full_like(row, -math.inf)
            kept[ends] = row[ends]
            return kept
        if self.premask and target.automaton is not None:
            return np.where(target.automaton_mask(node.state).numpy(), row, -math.inf)
        return row

    @staticmethod
    def _checker(target: Target, node: Node, known: dict[int, bool]) -> Callable[[int], bool]:
        def allows(token: int) -> bool:
            if token not in known:
                known[token] = target.allows(node.state, node.tokens, token)
            return known[token]

        return allows


@method(
    _NAME,
    law="exact in the limit",
    target=(
        "the model given the language, times exp(reward), as the number of texts grows; a token is a draw from the model given what may "
        "follow, its weight an unbiased estimate of the mass that may follow; mean(weight) is an unbiased estimate of Z"
    ),
    cost="a forward a token, no mask: two checks of single tokens where model and constraint agree, more where they do not",
    paper="Lipkin et al. 2025, arXiv:2504.05410",
    use='guided.sample(..., method="awrs")',
)
def awrs(target: Target, n: int, *, seed: int, extra: int = 1, premask: bool = False) -> Samples:
    """Draws ``n`` weighted texts, checking tokens one at a time.

    Weights are absolute, as those of :func:`~samplers.importance.importance`, whose weights vary less and which needs a full mask a step.
    For resampling between the steps, give :class:`AdaptiveRejection` to :mod:`samplers.smc`.

    Args:
        target: what the weighted texts follow; its ``check`` may be slow.
        n: number of texts; all take part in one forward a step.
        seed: row ``i`` depends on ``seed`` and ``i`` only.
        extra, premask: see :class:`AdaptiveRejection`.

    Returns:
        :class:`~samplers.target.Samples` with the ``details`` of :class:`AdaptiveRejection`.

    Raises:
        ValueError: ``n`` or ``extra`` below 1.
    """
    return weighted_walk(target, n, seed, AdaptiveRejection(extra, premask), _NAME)[0]
