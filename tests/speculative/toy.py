"""Drafters and shapes for tests, as small as they can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from speculative.drawing import children
from speculative.protocol import Outcome, Place, Rules, StepInfo
from speculative.tree import DraftTree, How

__all__ = ["Branches", "Fixed", "Mixed", "Sampled", "Several"]


class Branches:
    """So many children for each node of each depth."""

    def __init__(self, *counts: int) -> None:
        self.counts = counts

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        level = tree.depths[fresh[0]] if fresh else len(self.counts)
        if level >= min(len(self.counts), depth):
            return []
        room = limit - tree.size
        wanted = [(node, self.counts[level]) for node in fresh if not tree.places[node].ended]
        return [(node, count) for i, (node, count) in enumerate(wanted) if self.counts[level] * (i + 1) <= room]


class Sampled:
    """Draws from a model, layer by layer."""

    name = "sampled"

    def __init__(self, model: Any, how: How | None = None) -> None:
        self.model, self.how = model, how
        self.ended: list[int] = []
        self.outcomes: list[Outcome] = []

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        self.ended = []

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes += outcomes

    def end(self, row: int) -> None:
        self.ended.append(row)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Any], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        trees = [self.plant(DraftTree(place, rules)) for place, rules in zip(places, step.rules)]
        fresh = [list(range(len(tree))) if len(tree) == 1 else [len(tree) - 1] for tree in trees]
        open_ = set(range(len(trees)))
        while open_:
            wanted = []
            for i in sorted(open_):
                grown = shapes[i].grow(trees[i], fresh[i], step.limits[i], step.depths[i]) if fresh[i] else []
                grown = [(node, count) for node, count in grown if not trees[i].places[node].ended]
                if not grown:
                    open_.discard(i)
                wanted += [(i, node, count) for node, count in grown]
            if not wanted:
                break
            before = [len(tree) for tree in trees]
            spots = [trees[i].places[node] for i, node, _ in wanted]
            laws = step.law(self.model.next_logprobs([p.context for p in spots]), spots, [trees[i].rules for i, _, _ in wanted])
            for (i, node, count), law in zip(wanted, laws):
                self.propose(trees[i], node, count, law, self.how or step.how, generators[i])
            fresh = [list(range(n, len(tree))) for n, tree in zip(before, trees)]
        return trees

    def plant(self, tree: DraftTree) -> DraftTree:
        return tree

    def propose(self, tree: DraftTree, node: int, count: int, law: torch.Tensor, how: How, generator: torch.Generator) -> None:
        for token in children(law, count, how, generator):
            tree.add(node, token, None if how == "fixed" else law, how)


class Fixed(Sampled):
    """The most probable tokens of a model, whatever the verifier likes."""

    def __init__(self, model: Any) -> None:
        super().__init__(model, "fixed")


class Mixed(Sampled):
    """At every node a fixed token first (the least probable one that is possible), then drawn ones."""

    def propose(self, tree: DraftTree, node: int, count: int, law: torch.Tensor, how: How, generator: torch.Generator) -> None:
        possible = law.masked_fill(law == float("-inf"), float("inf"))
        tree.add(node, int(possible.argmin()))
        super().propose(tree, node, count, law, how, generator)


class Several(Sampled):
    """The children of a node come from the laws of several models, in turn."""

    def __init__(self, model: Any, others: Sequence[Any], how: How = "with") -> None:
        super().__init__(model, how)
        self.others = others

    def propose(self, tree: DraftTree, node: int, count: int, law: torch.Tensor, how: How, generator: torch.Generator) -> None:
        super().propose(tree, node, count, law, how, generator)
        place = tree.places[node]
        for other in self.others:
            scores = other.next_logprobs([place.context])[0]
            allowed = law > float("-inf")
            super().propose(tree, node, count, scores.masked_fill(~allowed, float("-inf")).log_softmax(-1), how, generator)
