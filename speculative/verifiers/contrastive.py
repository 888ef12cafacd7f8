"""Speculative contrastive decoding: the draft model is the amateur that the target is contrasted with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from grammars.errors import ModelError
from samplers.registry import method
from samplers.sampling import shape

from ..protocol import Verifier
from .second import TwoModels

if TYPE_CHECKING:
    from samplers.models.protocol import LanguageModel

    from ..shaping import Shaper, TargetRows
    from ..tree import DraftTree

__all__ = ["Contrastive"]

_NEVER = -700.0  # stands for the logarithm of zero, which no difference could be taken of


@method(
    "Speculative Contrastive Decoding",
    law="exact",
    target=(
        "each token ~ softmax of ((1 + beta) log p_expert - beta log p_amateur) / temperature, among the allowed tokens with at least "
        "alpha times the probability of the expert's best allowed one; then top-k and top-p"
    ),
    cost="one forward of each model over the tree a step; where the amateur drafts, it has answered most of it",
    paper="Yuan et al. 2023, arXiv:2311.08981",
    use="speculative.decode(..., verifier=Contrastive(amateur))",
)
class Contrastive(TwoModels):
    """Verifies the contrastive law of an expert (the target model) and an amateur, which as a rule is also the drafter.

    Args:
        amateur: over the same vocabulary.
        alpha: in (0, 1]: how plausible a token must be.
        beta: strength of the contrast, at least 0.
        exact: decides what is kept, given the law; ``None``: :class:`~speculative.verifiers.Recursive`.

    Raises:
        ValueError: an argument out of range; or (when called) warpers, which would act on the expert alone.
        ModelError: the amateur has fewer logits than the expert (when called).
    """

    def __init__(self, amateur: LanguageModel, alpha: float = 0.1, beta: float = 0.5, exact: Verifier | None = None) -> None:
        if not 0 < alpha <= 1 or not 0 <= beta < math.inf:
            raise ValueError(f"alpha must be in (0, 1] and beta a number of at least 0, not {alpha} and {beta}")
        super().__init__(amateur, exact)
        self.alpha, self.beta = alpha, beta

    def prepare(self, trees: Sequence[DraftTree], nodes: Sequence[Sequence[int]], shaper: Shaper) -> None:
        """Asks the amateur."""
        if self.small.width < shaper.width:
            raise ModelError(f"the amateur has {self.small.width} logits and the expert {shaper.width}: their vocabularies differ")
        if shaper.pipeline is not None:
            raise ValueError(
                "speculative contrastive decoding takes no warpers; put ContrastiveDecoding among them, with an exact verifier"
            )
        super().prepare(trees, nodes, shaper)

    def law(self, rows: TargetRows, node: int, small: torch.Tensor) -> torch.Tensor:
        """See :meth:`TwoModels.law`."""
        shaper = rows.shaper
        expert = rows.raw(node).double()[None]
        selection = shaper.select([rows.tree.places[node]], [rows.tree.rules])
        if selection is not None:
            expert = expert.masked_fill(~selection.allowed(), float("-inf"))
        expert, amateur = expert.log_softmax(-1), small[None].log_softmax(-1).clamp(min=_NEVER)
        plausible = expert >= expert.amax(-1, keepdim=True) + math.log(self.alpha)
        scores = ((1 + self.beta) * expert - self.beta * amateur).masked_fill(~plausible, float("-inf"))
        return shape(scores, None, shaper.settings)[0][0]
