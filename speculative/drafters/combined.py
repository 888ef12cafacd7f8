"""Several drafters as one: the first that knows something; all into one tree; one behind the other. And a drafter with its own shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..tree import DraftTree
from .base import BaseDrafter, draft_below, subset

if TYPE_CHECKING:
    import torch

    from ..protocol import Drafter, Outcome, Shape, StepInfo
    from ..rules import Place, Rules

__all__ = ["FirstOf", "Merged", "Relay", "Shaped"]


class _Several(BaseDrafter):
    """Passes on what all drafters are told.

    Args:
        drafters: at least one.

    Raises:
        ValueError: there is none.
    """

    def __init__(self, *drafters: Drafter) -> None:
        if not drafters:
            raise ValueError("give at least one drafter")
        self.drafters = drafters
        self.name = f"{self.name}({', '.join(drafter.name for drafter in drafters)})"

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """New texts."""
        for drafter in self.drafters:
            drafter.begin(rows, places, rules)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """What a step gave."""
        for drafter in self.drafters:
            drafter.observe(outcomes)

    def end(self, row: int) -> None:
        """The row's text is finished."""
        for drafter in self.drafters:
            drafter.end(row)


class Shaped(_Several):
    """A drafter that always drafts in one shape, whatever the step's is: for drafters that are combined with others.

    Args:
        drafter: any.
        shape: its own.
    """

    name = "shaped"

    def __init__(self, drafter: Drafter, shape: Shape) -> None:
        super().__init__(drafter)
        self.drafter, self.shape, self.name = drafter, shape, drafter.name

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        return self.drafter.draft(places, [self.shape] * len(places), step, generators)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """What a step gave; a shape that learns is told as well."""
        super().observe(outcomes)
        learn = getattr(self.shape, "observe", None)
        if learn is not None:
            learn(outcomes)


class FirstOf(_Several):
    """For each row the draft of the first drafter that has one."""

    name = "first of"

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        found: dict[int, DraftTree] = {}
        left = list(range(len(places)))
        for drafter in self.drafters:
            if left:
                trees = drafter.draft(
                    [places[i] for i in left], [shapes[i] for i in left], subset(step, left), [generators[i] for i in left]
                )
                found.update(zip(left, trees))
                left = [i for i, tree in zip(left, trees) if not tree.size]
        return [found[i] for i in range(len(places))]


class Merged(_Several):
    """The drafts of all drafters in one tree. What two of them propose is there once; at a node the draws of earlier drafters come first.

    Args:
        drafters: at least one.
        shares: how much of the step's limit each may use at most; ``None``: whatever those before it left. Shares that sum to at most 1
            make what one may use independent of what others drew, as verifiers want that do not judge draws in their order.

    Raises:
        ValueError: no drafter, or not one share for each, or shares that are no shares.
    """

    name = "merged"

    def __init__(self, *drafters: Drafter, shares: Sequence[float] | None = None) -> None:
        super().__init__(*drafters)
        if shares is not None and (len(shares) != len(drafters) or not all(0 < share <= 1 for share in shares)):
            raise ValueError(f"give a share above 0 and at most 1 for each of the {len(drafters)} drafters, not {shares}")
        self.shares = [1.0] * len(drafters) if shares is None else list(shares)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        trees = [DraftTree(place, rules) for place, rules in zip(places, step.rules)]
        for drafter, share in zip(self.drafters, self.shares):
            most = [max(1, int(share * limit)) for limit in step.limits]
            draft_below(drafter, trees, [0] * len(trees), shapes, step, generators, most)
        return trees


class Relay(_Several):
    """One drafter goes on where the draft of the one before it ends, below its deepest node: a good one for the first tokens, which are
    most likely to be accepted, a cheap one for those behind them (the horizontal cascade of Chen et al. 2023, arXiv:2312.11462).

    Give each a shape of its own (:class:`Shaped`), so that it is said who drafts how much.
    """

    name = "relay"

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        trees = [DraftTree(place, rules) for place, rules in zip(places, step.rules)]
        for drafter in self.drafters:
            tips = [max(range(len(tree)), key=lambda n, tree=tree: (tree.depths[n], -n)) for tree in trees]  # type: ignore[misc]
            draft_below(drafter, trees, tips, shapes, step, generators)
        return trees
