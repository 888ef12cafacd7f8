"""A second model drafts: one with the target's vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..drawing import children
from ..tree import DraftTree
from .base import BaseDrafter, Wanted, grow, how_of

if TYPE_CHECKING:
    from samplers.models.protocol import LanguageModel

    from ..protocol import Shape, StepInfo
    from ..rules import Place, Rules

__all__ = ["ModelDrafter"]


class ModelDrafter(BaseDrafter):
    """Draws from a smaller model over the target's token ids, masked by the same states, with the same temperature, top-k and top-p.

    A round is one forward of the draft model, over all nodes of all rows that are grown in it.

    Args:
        model: the draft model. Its width may differ from the target's where the ids that both have mean the same.
        temperature: the draft model's scores are divided by it before the target's settings act: above 1 for a more careful draft.

    Raises:
        ValueError: a temperature that is not above 0.
    """

    name = "model"

    def __init__(self, model: LanguageModel, *, temperature: float = 1.0) -> None:
        if not temperature > 0:
            raise ValueError(f"a draft's temperature must be above 0, not {temperature}")
        self.model, self.temperature = model, temperature
        self._scores = getattr(model, "next_logits", model.next_logprobs)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        trees = [DraftTree(place, rules) for place, rules in zip(places, step.rules)]
        laws: dict[tuple[int, int], torch.Tensor] = {}  # of a tree and node: siblings may be drawn in different rounds

        def propose(wanted: list[Wanted]) -> None:
            new = [(i, node) for i, node, _ in wanted if (i, node) not in laws]
            if new:
                spots = [trees[i].places[node] for i, node in new]
                rules = [step.rules[i] for i, _ in new]
                laws.update(zip(new, self.laws(spots, rules, step, [i for i, _ in new])))
            for i, node, count in wanted:
                law = laws[i, node]
                if step.stop.go_on(trees[i], node, law):
                    self._add(trees[i], node, count, law, shapes[i], step, generators[i])
                else:
                    trees[i].closed.add(node)

        return grow(trees, shapes, step, propose)

    def laws(self, places: Sequence[Place], rules: Sequence[Rules], step: StepInfo, which: Sequence[int]) -> torch.Tensor:
        """The laws that children are drawn from: ``float64[len(places), width]`` log-probabilities.

        Args:
            which: for each place, the number of its tree among those of the step.
        """
        return step.law(self.scores(places), places, rules)

    def scores(self, places: Sequence[Place]) -> torch.Tensor:
        """The draft model's logits."""
        found: torch.Tensor = self._scores([place.context for place in places])
        return found if self.temperature == 1 else found / self.temperature

    def _add(
        self, tree: DraftTree, node: int, count: int, law: torch.Tensor, shape: Shape, step: StepInfo, generator: torch.Generator
    ) -> None:
        how = how_of(shape, step)
        there = tree.children(node)
        if there and how != "with":
            # drawing goes on without the tokens that are there: the law of the draw stays the whole one, see DraftTree
            left = law.clone()
            left[[tree.tokens[child] for child in there]] = float("-inf")
        else:
            left = law
        found = children(left, count, how, generator) if left is law or bool((left > float("-inf")).any()) else []
        for token in found:
            tree.add(node, token, None if how == "fixed" else law, how, chance=float(law[token].exp()), source=self.name)
        if len(found) < count:
            tree.closed.add(node)
