"""SpecTr: choosing among candidates as optimal transport, by the k-SEQ plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from ..drawing import uniform
from .base import Walk
from .rejection import residual

if TYPE_CHECKING:
    from ..tree import DraftTree, Draw, How

__all__ = ["SpecTr", "accepted_mass", "optimal_mass", "solve"]


def accepted_mass(law: torch.Tensor, proposal: torch.Tensor, gamma: float) -> float:
    """``beta(gamma) = sum_x min(q(x), p(x) / gamma)``: the probability that one candidate is taken."""
    return float(torch.minimum(proposal, law / gamma).sum())


def solve(law: torch.Tensor, proposal: torch.Tensor, k: int, tolerance: float = 1e-9) -> float:
    """The ``gamma`` of k-SEQ: where ``1 - (1 - beta(gamma))^k = gamma beta(gamma)``, in ``[1, k]``.

    By false position (the Illinois variant) and halving, in ten to forty sums over the vocabulary. What is returned is the end of
    the last interval at which the left side is not the greater one: there the residual law is not negative, whatever the tolerance.

    Args:
        law, proposal: ``float64[width]``, probabilities ``p`` and ``q``.
        k: number of independent candidates.
        tolerance: of the balance.
    """

    def excess(gamma: float) -> float:
        beta = accepted_mass(law, proposal, gamma)
        return 1 - (1 - beta) ** k - gamma * beta

    low, high = 1.0, float(k)
    above, below = (0.0, 0.0) if k == 1 else (excess(low), excess(high))
    if above <= 0:
        return low
    found, side = below, 0
    for _ in range(100):
        if found >= -tolerance or high - low <= tolerance:
            break
        # an end that stays twice is given less weight; where that does not help, the interval is halved
        middle = (low + high) / 2 if abs(side) > 2 else (low * below - high * above) / (below - above)
        value = excess(middle)
        if value > 0:
            side = max(side, 0) + 1
            low, above, below = middle, value, below / 2 if side > 1 else below
        else:
            side = min(side, 0) - 1
            high, below, found, above = middle, value, value, above / 2 if side < -1 else above
    return high


def optimal_mass(law: torch.Tensor, proposal: torch.Tensor, k: int) -> float:
    """An upper bound of the probability that any exact verifier takes one of ``k`` independent candidates:
    ``sum_x min(p(x), 1 - (1 - q(x))^k)``. k-SEQ takes one at least ``1 - (1 - 1/k)^k > 1 - 1/e`` times as often as the best can."""
    return float(torch.minimum(law, 1 - (1 - proposal) ** k).sum())


@method(
    "SpecTr optimal transport",
    law="exact",
    target=(
        "each token ~ the target's law of the step (masked, warped); of k independent candidates one is taken at least (1 - 1/e) times "
        "as often as by the best transport plan"
    ),
    cost="one forward over the tree a step; ten to forty sums over the vocabulary for each node with several candidates",
    paper="Sun et al. 2023, arXiv:2310.15141",
    use="speculative.decode(..., verifier=SpecTr())",
)
class SpecTr(Walk):
    """k-SEQ: of ``k`` independent candidates ``x ~ q`` the first is taken that passes a coin of ``min(1, p(x) / (gamma q(x)))``, with the
    ``gamma`` of :func:`solve`; where none passes, the token comes from::

        p(x) - min(q(x), p(x) / gamma) (1 - (1 - beta)^k) / beta,  normalised

    ``k`` chains that were drawn independently are merged into one tree: where several hold a token, each of them is a candidate of what
    follows it. Proposals that are fixed, or drawn from another law, are groups of their own, verified before or after.
    """

    takes: tuple[How, ...] = ("with", "fixed")

    def choose(
        self, tree: DraftTree, draws: Sequence[Draw], law: torch.Tensor, generator: torch.Generator
    ) -> tuple[int | None, torch.Tensor]:
        """See :meth:`speculative.verifiers.base.Walk.choose`."""
        for _, group in groupby(draws, key=lambda draw: id(draw.law)):
            some = list(group)
            found, left = self._fixed(tree, some, law, generator) if some[0].law is None else self._sequence(tree, some, law, generator)
            if found is not None:
                return found, law
            law = left
        return None, law

    def _fixed(
        self, tree: DraftTree, draws: Sequence[Draw], law: torch.Tensor, generator: torch.Generator
    ) -> tuple[int | None, torch.Tensor]:
        for draw in draws:
            token = tree.tokens[draw.node]
            left = None if uniform(generator) < float(law[token]) else residual(law, None, token)
            if left is None:
                return draw.node, law
            law = left
        return None, law

    def _sequence(
        self, tree: DraftTree, draws: Sequence[Draw], law: torch.Tensor, generator: torch.Generator
    ) -> tuple[int | None, torch.Tensor]:
        assert draws[0].law is not None
        proposal, k = draws[0].law.exp(), len(draws)
        gamma = solve(law, proposal, k)
        for draw in draws:
            token = tree.tokens[draw.node]
            if uniform(generator) * gamma * float(proposal[token]) < float(law[token]):
                return draw.node, law
        taken = torch.minimum(proposal, law / gamma)
        beta = float(taken.sum())
        share = (1 - (1 - beta) ** k) / beta if beta > 0 else 0.0
        left = (law - taken * share).clamp_(min=0.0)
        total = float(left.sum())
        return (None, left.div_(total)) if total > 0 else (draws[-1].node, law)
