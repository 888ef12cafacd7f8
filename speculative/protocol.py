"""The four axes of speculation, and what they tell each other.

A method is a choice of *drafter* (what proposes tokens), *tree shape* (how many, and where), *stop policy* (whether to go on at a node) and
*verifier* (what is kept, so that the output follows a stated law). :func:`speculative.decode.decode` runs any combination::

    drafter.begin(rows, roots, rules)
    each step:  trees = drafter.draft(places, shapes, step, generators)       # ragged: one tree a row
                rows  = the target's scores at every node of every tree       # one batched forward
                verdict = verifier.verify(tree, rows_of_tree, generator)      # for each tree
                drafter.observe(outcomes)
    drafter.end(row)                                                         # its text is finished
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

from .rules import Place, Rules
from .tree import DraftTree, Draw, How

if TYPE_CHECKING:
    from samplers.sampling import Settings

    from .shaping import Shaper, TargetRows

__all__ = ["DraftTree", "Drafter", "Draw", "How", "Outcome", "Place", "Rules", "Shape", "StepInfo", "Stop", "Verdict", "Verifier"]


@dataclass(slots=True)
class StepInfo:
    """What a drafter is told about a step; lists have one entry a row, in the order of the places.

    Attributes:
        rows: numbers of the requests.
        rules: their constraints.
        limits: nodes that may be proposed at most (the budget of the step; 0: nothing).
        depths: tokens deep that a tree may be at most.
        how: how children are to be chosen where the drafter has a law: what the verifier takes. ``fixed``: the most probable ones.
        shaper: masks and warps a draft model's scores as the target's are; see :meth:`law`.
        stop: whether to go on at a node.
    """

    rows: Sequence[int]
    rules: Sequence[Rules]
    limits: Sequence[int]
    depths: Sequence[int]
    how: How
    shaper: Shaper
    stop: Stop

    def law(self, scores: torch.Tensor, places: Sequence[Place], rules: Sequence[Rules]) -> torch.Tensor:
        """The law to draw drafts from: a draft model's scores (logits or log-probabilities) at places that have not ended, with the
        target's temperature, top-k and top-p, masked by the places' states: ``float64[len(places), width]`` log-probabilities.

        At temperature 0 the temperature is 1, so that children can be ranked and ``chances`` be told.
        """
        return self.shaper.draft(scores, places, rules)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a row's tree: for drafters that learn, and for statistics.

    Attributes:
        row: number of the request.
        tree: what was proposed.
        path: nodes that were accepted.
        tokens: tokens that were emitted: those of the path, then the verifier's own.
        place: the place after them.
        nodes: nodes of the tree whose next-token scores are known.
        scores: ``float[len(nodes), width]``: the target model's own logits (or log-probabilities) there, neither masked nor warped.
    """

    row: int
    tree: DraftTree
    path: Sequence[int]
    tokens: Sequence[int]
    place: Place
    nodes: Sequence[int]
    scores: torch.Tensor


class Shape(Protocol):
    """How many children each node gets. An object may serve many trees and keeps nothing of one."""

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """Which nodes a drafter is to propose children of now, and how many more for each.

        Called before each round of drafting, until it answers with an empty list. A drafter may propose fewer (where it knows no more,
        the text ends, or a stop policy says so).

        Args:
            tree: as drafted so far; chances along its nodes are estimates.
            fresh: nodes that came with the last round (node 0 at first).
            limit: nodes that the tree may have at most, the root not counted.
            depth: how deep it may be at most.
        """
        ...


class Stop(Protocol):
    """Whether to draft on. It must not look at a token before it is drawn; see :class:`~speculative.tree.DraftTree`."""

    def go_on(self, tree: DraftTree, node: int, law: torch.Tensor | None) -> bool:
        """Whether children of ``node`` are to be proposed.

        Args:
            tree: as drafted so far.
            node: one that a shape wants to grow.
            law: ``float64[width]`` log-probabilities that its children would be drawn from; ``None`` where the drafter has none.
        """
        ...

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Learns from a step (bandits)."""
        ...


@runtime_checkable
class Drafter(Protocol):
    """Proposes tokens.

    Attributes:
        name: as in statistics.
    """

    name: str

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """New texts; the places are those of the prompts."""
        ...

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """One tree a place, at most ``step.limits`` nodes large and ``step.depths`` deep; a tree of a root alone proposes nothing.

        Args:
            places: none has ended.
            shapes: one a place.
            step: see :class:`StepInfo`.
            generators: the only randomness, one a place.
        """
        ...

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Learns from a step: what was accepted, and what the target's scores were."""
        ...

    def end(self, row: int) -> None:
        """The row's text is finished."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier keeps of a tree.

    Attributes:
        path: accepted nodes, from below the root down.
        token: a further token: of the residual law where a proposal was rejected, otherwise the bonus; ``None`` where the path ends the
            text, or where the model gives no mass to anything that may follow.
    """

    path: list[int]
    token: int | None


class Verifier(Protocol):
    """Decides which proposals are kept. Its law is in the table of methods.

    Attributes:
        takes: how proposals may have been chosen, the preferred way of drawing first.
        trees: whether a node may have several proposals.
        exact: whether tokens follow the model's law of the step (masked, warped), and nothing else.
        invariant: whether the emitted text is the same whatever is drafted (so that drafting may depend on measured times and a seed still
            gives one text).
    """

    @property
    def takes(self) -> tuple[How, ...]: ...

    @property
    def trees(self) -> bool: ...

    @property
    def invariant(self) -> bool: ...

    @property
    def exact(self) -> bool: ...

    def check(self, settings: Settings) -> None:
        """Raises a ``ValueError`` if it cannot follow such settings."""
        ...

    def prepare(self, trees: Sequence[DraftTree], nodes: Sequence[Sequence[int]], shaper: Shaper) -> None:
        """Called before the trees of a step are verified, one by one: what is better done for all together.

        Args:
            trees: all of the step.
            nodes: of each, those that something can follow.
            shaper: the target's law.
        """
        ...

    def verify(self, tree: DraftTree, rows: TargetRows, generator: torch.Generator) -> Verdict:
        """Walks down the tree.

        Args:
            tree: what was proposed.
            rows: the target's law at each node that something can follow.
            generator: the only randomness.
        """
        ...
