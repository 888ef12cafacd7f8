"""Targets made of two models: each step's law is put together from a large and a small one, then verified exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..protocol import Verdict, Verifier
from ..shaping import Shaper, TargetRows, fit
from .base import Base
from .rejection import Recursive

if TYPE_CHECKING:
    from samplers.models.protocol import LanguageModel
    from samplers.sampling import Settings

    from ..tree import DraftTree, How

__all__ = ["TwoModels"]


class TwoModels(Base):
    """A verifier for the law of two models.

    The small model is asked about all nodes of all trees of a step in one batch. Where it is the drafter as well, it has answered most of
    them already; but drafts may come from anywhere.

    Args:
        small: over the same vocabulary.
        exact: decides what is kept, given the law.
    """

    def __init__(self, small: LanguageModel, exact: Verifier | None = None) -> None:
        self.small = small
        self.within: Verifier = Recursive() if exact is None else exact
        self.takes: tuple[How, ...] = self.within.takes
        self.trees, self.invariant = self.within.trees, self.within.invariant
        self._scores: dict[int, dict[int, torch.Tensor]] = {}

    def check(self, settings: Settings) -> None:
        """As the verifier within."""
        self.within.check(settings)

    def prepare(self, trees: Sequence[DraftTree], nodes: Sequence[Sequence[int]], shaper: Shaper) -> None:
        """Asks the small model."""
        contexts = [tree.places[node].context for tree, some in zip(trees, nodes) for node in some]
        ask = getattr(self.small, "next_logits", self.small.next_logprobs)
        rows = iter(fit(ask(contexts).to(shaper.device, torch.float64), shaper.width))
        self._scores = {id(tree): {node: next(rows) for node in some} for tree, some in zip(trees, nodes)}

    def verify(self, tree: DraftTree, rows: TargetRows, generator: torch.Generator) -> Verdict:
        """See :meth:`speculative.protocol.Verifier.verify`."""
        return self.within.verify(tree, _Rows(self, rows, self._scores[id(tree)]), generator)

    def law(self, rows: TargetRows, node: int, small: torch.Tensor) -> torch.Tensor:
        """The scores of the target at a node, ``float64[width]``: the softmax is the law (at temperature 0 the best one is the token).

        Args:
            rows: of the large model.
            node: of the tree.
            small: ``float64[width]``, the small model's scores, neither masked nor warped.
        """
        raise NotImplementedError


class _Rows(TargetRows):
    """The large model's rows, with the law of both."""

    def __init__(self, owner: TwoModels, rows: TargetRows, small: dict[int, torch.Tensor]) -> None:
        self.shaper, self.tree, self.scores = rows.shaper, rows.tree, rows.scores
        self._owner, self._large, self._small = owner, rows, small
        self._both: dict[int, torch.Tensor] = {}

    def raw(self, node: int) -> torch.Tensor:
        return self._large.raw(node)

    def shaped(self, node: int) -> torch.Tensor:
        found = self._both.get(node)
        if found is None:
            found = self._both[node] = self._owner.law(self._large, node, self._small[node])
        return found

    def kept(self, node: int) -> float:
        return self._large.kept(node)

    def best(self, node: int) -> int:
        return int(self.shaped(node).argmax())
