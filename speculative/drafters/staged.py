"""Staged speculation: the draft model is itself drafted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from ..shapes.levels import Chain
from ..stops import FixedStop
from .base import subset
from .model import ModelDrafter

if TYPE_CHECKING:
    from samplers.models.protocol import LanguageModel

    from ..protocol import Drafter, Outcome, Shape, StepInfo
    from ..rules import Place, Rules
    from ..tree import DraftTree

__all__ = ["StagedDrafter"]

_NODES = 64  # of an inner draft


@method(
    "Staged SD",
    law="exact",
    target="a drafter that draws from its own model's law: the law of the text is the verifier's",
    cost="drafts of the inner drafter; forwards of the draft model over several tokens instead of one",
    paper="Spector, Re 2023, arXiv:2308.04623",
    use="speculative.decode(..., drafter=StagedDrafter(model, NgramDrafter()), shape=Branches(3, 2, 1))",
)
class StagedDrafter(ModelDrafter):
    """A draft model that is asked about several tokens at once: whenever its law is needed at a place where it is not known, an inner
    drafter proposes what may follow there, and one forward tells the law at all of those places. Where a token that is then drawn was among
    the proposals, the next law costs nothing.

    Tokens are drawn from the draft model's law whatever the inner drafter says, so that any shape, way of drawing and verifier goes with
    it, and stages may be stacked (the inner drafter may be staged itself).

    Args:
        model: the draft model.
        inner: a cheaper drafter. Its proposals should be ``fixed`` or drawn; they are looked up, not verified.
        shape: of the inner drafts.
        temperature: see :class:`~speculative.drafters.model.ModelDrafter`.
    """

    name = "staged model"

    def __init__(self, model: LanguageModel, inner: Drafter, *, shape: Shape | None = None, temperature: float = 1.0) -> None:
        super().__init__(model, temperature=temperature)
        self.inner = inner
        self.shape: Shape = Chain(4) if shape is None else shape
        self._known: dict[object, torch.Tensor] = {}
        self._chances: Sequence[torch.Generator] = ()

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """New texts."""
        self.inner.begin(rows, places, rules)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        self._known, self._chances = {}, generators
        try:
            return super().draft(places, shapes, step, generators)
        finally:
            self._known, self._chances = {}, ()

    def laws(self, places: Sequence[Place], rules: Sequence[Rules], step: StepInfo, which: Sequence[int]) -> torch.Tensor:
        """See :meth:`speculative.drafters.model.ModelDrafter.laws`."""
        new = [k for k, place in enumerate(places) if place.context not in self._known]
        if new:
            self._ask([places[k] for k in new], [which[k] for k in new], step)
        return step.law(torch.stack([self._known[place.context] for place in places]), places, rules)

    def _ask(self, places: Sequence[Place], which: Sequence[int], step: StepInfo) -> None:
        """One forward for these places, and for what the inner drafter expects behind them."""
        part = subset(step, which, [_NODES] * len(which), [max(0, place.left - 1) for place in places])
        part = replace(part, how="fixed", stop=FixedStop())
        deep = [k for k, depth in enumerate(part.depths) if depth > 0]
        trees = self.inner.draft(
            [places[k] for k in deep], [self.shape] * len(deep), subset(part, deep), [self._chances[which[k]] for k in deep]
        )
        spots = [*places, *(tree.places[node] for tree in trees for node in tree.open() if node)]
        fresh = list({spot.context: spot for spot in spots if spot.context not in self._known}.values())
        self._known.update(zip((spot.context for spot in fresh), self.scores(fresh).unbind()))

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Tells the inner drafter what was written; the scores in it are the target's."""
        self.inner.observe(outcomes)

    def end(self, row: int) -> None:
        """The row's text is finished."""
        self.inner.end(row)
