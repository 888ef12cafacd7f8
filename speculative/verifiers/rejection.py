"""Exact verification by rejection: one proposal after the other, and what a rejected one leaves of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from ..drawing import uniform
from .base import Walk

if TYPE_CHECKING:
    from ..tree import DraftTree, Draw, How

__all__ = ["Exact", "MultiCandidate", "Recursive", "Rejection", "conditional", "residual"]


def conditional(draws: Sequence[Draw], at: int, tree: DraftTree) -> torch.Tensor | None:
    """The probabilities that proposal ``at`` was drawn with, given those before it: ``float64[width]``; ``None`` for a fixed one."""
    draw = draws[at]
    if draw.law is None:
        return None
    mass = draw.law.exp()
    if draw.how == "without":
        taken = [tree.tokens[other.node] for other in draws[:at] if other.law is draw.law and other.how == "without"]
        if taken:
            mass[taken] = 0.0
            mass /= mass.sum()
    return mass


def residual(law: torch.Tensor, proposal: torch.Tensor | None, token: int) -> torch.Tensor | None:
    """What a rejected proposal leaves: the normalised positive part of ``law - proposal``.

    Args:
        law: ``float64[width]``, probabilities; not changed.
        proposal: those that ``token`` was drawn with; ``None``: it is fixed.

    Returns:
        ``None`` where nothing is left: the proposal was to be taken, and only rounding refused it.
    """
    if proposal is None:
        left = law.clone()
        left[token] = 0.0
    else:
        left = (law - proposal).clamp_(min=0.0)
    total = float(left.sum())
    return left.div_(total) if total > 0 else None


class Rejection(Walk):
    """Recursive rejection: proposal ``x`` is taken with probability ``min(1, p(x) / q(x))``; otherwise the target becomes the residual
    ``max(0, p - q)``, normalised, and the next proposal is tried against that, ``q`` being each time the law that it was drawn from given
    those before it. A fixed proposal has all of ``q`` on itself. What comes after the last is drawn from what is left.

    So proposals of any kinds may stand side by side, drawn from several laws, with and without replacement, and the token follows ``p``.
    """

    def choose(
        self, tree: DraftTree, draws: Sequence[Draw], law: torch.Tensor, generator: torch.Generator
    ) -> tuple[int | None, torch.Tensor]:
        """See :meth:`speculative.verifiers.base.Walk.choose`."""
        for at in self.order(draws, generator):
            token = tree.tokens[draws[at].node]
            proposal = conditional(draws, at, tree)
            drawn_with = 1.0 if proposal is None else float(proposal[token])
            if uniform(generator) * drawn_with < float(law[token]):
                return draws[at].node, law
            left = residual(law, proposal, token)
            if left is None:
                return draws[at].node, law
            law = left
        return None, law

    def order(self, draws: Sequence[Draw], generator: torch.Generator) -> Sequence[int]:
        """In which order the proposals are tried: as they were made."""
        return range(len(draws))


_EXACT = "each token ~ the target's law of the step (masked, warped), whatever is proposed"


@method(
    "Speculative decoding (Leviathan)",
    law="exact",
    target=_EXACT,
    cost="one forward over the chain a step; a law is normalised for each token that is judged",
    paper="Leviathan, Kalman, Matias 2023, arXiv:2211.17192",
    use="speculative.decode(..., verifier=Exact())",
)
@method(
    "Speculative sampling (Chen)",
    law="exact",
    target=_EXACT,
    cost="one forward over the chain a step; a law is normalised for each token that is judged",
    paper="Chen et al. 2023, arXiv:2302.01318",
    use="speculative.decode(..., verifier=Exact())",
)
class Exact(Rejection):
    """Chains: takes ``x ~ q`` with probability ``min(1, p(x) / q(x))``, otherwise draws from ``max(0, p - q)``, normalised; after a chain
    that is taken whole, a further token from ``p``. The probability that a draft is taken is the greatest there can be, ``1 - TV(p, q)``.
    """

    takes: tuple[How, ...] = ("with", "without", "fixed")
    trees: bool = False


@method(
    "Multi-Candidate SD",
    law="exact",
    target=_EXACT,
    cost="one forward over the tree a step; a law is normalised for each token that is judged",
    paper="Yang et al. 2024, arXiv:2401.06706",
    use="speculative.decode(..., verifier=MultiCandidate())",
)
class MultiCandidate(Rejection):
    """Several candidates a node, drawn independently from one law (or without replacement: the paper's variant), tried in turn."""

    takes: tuple[How, ...] = ("with", "without", "fixed")


@method(
    "Recursive SD",
    law="exact",
    target=_EXACT,
    cost="one forward over the tree a step; a law is normalised for each token that is judged",
    paper="Jeon et al. 2024, arXiv:2402.14160",
    use="speculative.decode(..., verifier=Recursive())",
)
class Recursive(Rejection):
    """Recursive rejection for siblings drawn without replacement (Gumbel-top-k a node, or a stochastic beam over the whole tree): the
    ``k``-th is judged against the law without the ``k - 1`` before it. No token is proposed twice, so none is judged in vain.
    """

    takes: tuple[How, ...] = ("without", "with", "fixed")
