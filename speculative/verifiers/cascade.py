"""Speculative cascades: the small model where it is good enough, the large one elsewhere, verified as one law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import torch

from samplers.registry import method
from samplers.sampling import Settings, shape

from ..protocol import Verifier
from .second import TwoModels

if TYPE_CHECKING:
    from samplers.models.protocol import LanguageModel

    from ..shaping import TargetRows

__all__ = ["Cascade", "Rule", "cascade_law"]

Rule = Literal["chow", "diff", "opt", "token-1", "token-2", "token-3"]
_IMPOSSIBLE = float("-inf")


def cascade_law(
    large: torch.Tensor, small: torch.Tensor, plain_large: torch.Tensor, plain_small: torch.Tensor, rule: Rule, alpha: float
) -> torch.Tensor:
    """The law of a deferral rule (arXiv:2405.19261, equations 2, 5, 10, 13, 14, 15), ``float64[width]``.

    With ``p`` the large and ``q`` the small model::

        chow      q  where max q >= 1 - alpha,                    otherwise p
        diff      q  where max q >= max p - alpha,                otherwise p
        opt       q  where max q >= max p - alpha TV(p, q),       otherwise p
        token-i   q(v) [v in A] + p(v) sum_{u not in A} q(u),     with A the tokens v such that
                    1: q(v) >= max p - alpha     2: p(v) >= max p - alpha     3: p(v) >= (1 - alpha) max p

    Args:
        large, small: ``float64[width]``, the probabilities that are mixed.
        plain_large, plain_small: those that the rule looks at (the same at temperature 1).
        rule: see above.
        alpha: how lenient; 0 defers to the large model unless the small one is as sure.
    """
    best = float(plain_large.max())
    if rule in ("chow", "diff", "opt"):
        least = {"chow": 1 - alpha, "diff": best - alpha, "opt": best}[rule]
        if rule == "opt":
            least -= alpha * float((small - large).clamp(min=0).sum())
        return small if float(plain_small.max()) >= least else large
    if rule == "token-1":
        accepted = plain_small >= best - alpha
    elif rule == "token-2":
        accepted = plain_large >= best - alpha
    else:
        accepted = plain_large >= (1 - alpha) * best
    kept = small * accepted
    return kept + (1 - kept.sum()).clamp(min=0) * large


@method(
    "Speculative cascades",
    law="exact",
    target=(
        "each token ~ the law of the deferral rule: the small model's law of the step where the rule finds it good enough, otherwise the "
        "large one's (rules on tokens mix both); both masked by the same states, and warped"
    ),
    cost="one forward of each model over the tree a step; where the small one drafts, it has answered most of it",
    paper="Narasimhan et al. 2024, arXiv:2405.19261",
    use="speculative.decode(..., verifier=Cascade(small, rule, alpha))",
)
class Cascade(TwoModels):
    """Verifies the law of a cascade of two models; see :func:`cascade_law`.

    Probabilities that the rule compares are masked, at temperature 1, as in the paper; those that are mixed are masked and warped. At
    temperature 0 each model's law is its most probable token.

    Args:
        small: the small model, over the same vocabulary.
        rule: ``chow``, ``diff``, ``opt``, ``token-1``, ``token-2`` or ``token-3``.
        alpha: how lenient, at least 0.
        exact: decides what is kept, given the law; ``None``: :class:`~speculative.verifiers.Recursive`.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, small: LanguageModel, rule: Rule = "token-3", alpha: float = 0.1, exact: Verifier | None = None) -> None:
        if rule not in get_args(Rule):
            raise ValueError(f"rule must be one of {get_args(Rule)}, not {rule!r}")
        if not 0 <= alpha < float("inf"):
            raise ValueError(f"alpha must be a finite number >= 0, not {alpha}")
        super().__init__(small, exact)
        self.rule: Rule = rule
        self.alpha = alpha

    def law(self, rows: TargetRows, node: int, small: torch.Tensor) -> torch.Tensor:
        """See :meth:`TwoModels.law`."""
        shaper, place, rules = rows.shaper, rows.tree.places[node], rows.tree.rules
        selection = shaper.select([place], [rules])
        allowed = None if selection is None else selection.allowed()
        scores, kept = shaper.target(small[None], [place], [rules])
        if float(kept[0]) == _IMPOSSIBLE:  # the small model gives nothing to what is allowed
            return rows.shaped(node)
        plain = shape(torch.stack([rows.raw(node).double(), small]), None if allowed is None else allowed.expand(2, -1), Settings())[0]
        plain_large, plain_small = plain.softmax(-1)
        large = rows.probabilities(node)
        if rows.greedy:
            small_law = torch.zeros_like(large)
            small_law[scores[0].argmax()] = 1.0
        else:
            small_law = scores[0].softmax(-1)
        return cascade_law(large, small_law, plain_large, plain_small, self.rule, self.alpha).log()
