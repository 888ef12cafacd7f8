"""What drafters share: rounds of growing, proposals that are looked up, drafts put below one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..shapes.levels import Chain
from ..tree import DraftTree, How

if TYPE_CHECKING:
    import torch

    from ..protocol import Drafter, Outcome, Shape, StepInfo
    from ..rules import Place, Rules

__all__ = ["BaseDrafter", "Lookup", "Proposal", "draft_below", "graft", "grow", "how_of", "settle", "subset"]

Wanted = tuple[int, int, int]
"""Which tree, which of its nodes, and how many more children."""
Proposal = tuple[int, float | None]
"""A token, and the estimated probability that it is accepted (``None``: no estimate)."""


class BaseDrafter:
    """Defaults of :class:`~speculative.protocol.Drafter`."""

    name = "drafter"

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Nothing has to be made ready."""

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        raise NotImplementedError

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing is learned."""

    def end(self, row: int) -> None:
        """Nothing is kept of a row."""


# ---------------------------------------------------------------- growing
def how_of(shape: Shape, step: StepInfo) -> How:
    """How children of a tree of this shape are to be chosen."""
    if getattr(shape, "fixed", False):
        return "fixed"
    return "without" if step.how == "with" and getattr(shape, "adaptive", False) else step.how


def settle(tree: DraftTree, shape: Shape, limit: int) -> DraftTree:
    """The tree as its shape leaves it once nothing is grown any more."""
    finish: Callable[[DraftTree, int], DraftTree] | None = getattr(shape, "finish", None)
    return tree if finish is None else finish(tree, limit)


def grow(trees: Sequence[DraftTree], shapes: Sequence[Shape], step: StepInfo, propose: Callable[[list[Wanted]], None]) -> list[DraftTree]:
    """Asks the shapes, round by round and for all trees together, for nodes to grow, until none wants any.

    Args:
        trees: of roots alone.
        propose: adds children, or closes nodes (:attr:`~speculative.tree.DraftTree.closed`) at which it knows no more.
    """
    fresh = [[0] for _ in trees]
    open_ = list(range(len(trees)))
    while open_:
        wanted: list[Wanted] = []
        for i in open_:
            asked = shapes[i].grow(trees[i], fresh[i], step.limits[i], step.depths[i])
            wanted += [(i, node, count) for node, count in asked if _grows(trees[i], node, step.depths[i])]
        if not wanted:
            break
        sizes = [len(tree) for tree in trees]
        before = [_work(trees[i], node) for i, node, _ in wanted]
        propose(wanted)
        fresh = [list(range(size, len(tree))) for size, tree in zip(sizes, trees)]
        moved = {i for (i, node, _), work in zip(wanted, before) if _work(trees[i], node) > work}
        # draws of one token again and again are no new nodes: a bound on draws, so that no shape can go on for ever
        open_ = [i for i in open_ if i in moved and (fresh[i] or sum(map(len, trees[i].draws)) <= 4 * step.limits[i])]
    return [settle(tree, shape, limit) for tree, shape, limit in zip(trees, shapes, step.limits)]


def _grows(tree: DraftTree, node: int, depth: int) -> bool:
    return node not in tree.closed and not tree.places[node].ended and tree.depths[node] < depth


def _work(tree: DraftTree, node: int) -> int:
    """What was done at a node."""
    return len(tree.draws[node]) + (node in tree.closed)


class Lookup(BaseDrafter):
    """Drafters that have no law: tokens are looked up, in order of preference, and are ``fixed``."""

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        trees = [DraftTree(place, rules) for place, rules in zip(places, step.rules)]
        tables = [self.ready(row, place, generator) for row, place, generator in zip(step.rows, places, generators)]
        if all(type(shape) is Chain for shape in shapes):
            for i, shape in enumerate(shapes):
                self._chain(trees[i], min(shape.length, step.limits[i], step.depths[i]), step, tables[i])  # type: ignore[attr-defined]
            return trees

        def propose(wanted: list[Wanted]) -> None:
            for i, node, count in wanted:
                self._add(trees[i], node, count, step, tables[i])

        return grow(trees, shapes, step, propose)

    def _chain(self, tree: DraftTree, length: int, step: StepInfo, found: Callable[[DraftTree, int], Iterable[Proposal]]) -> None:
        """What rounds of growing come to for a chain, without the rounds."""
        for node in range(length):  # in a chain the nodes are numbered by depth
            if tree.places[node].ended:
                return
            self._add(tree, node, 1, step, found)
            if len(tree) == node + 1:
                return

    def _add(self, tree: DraftTree, node: int, count: int, step: StepInfo, found: Callable[[DraftTree, int], Iterable[Proposal]]) -> None:
        if not step.stop.go_on(tree, node, None):
            tree.closed.add(node)
            return
        for token, chance in found(tree, node):
            if tree.child(node, token) is None and tree.add(node, token, chance=chance, source=self.name) is not None:
                count -= 1
                if not count:
                    return
        tree.closed.add(node)

    def ready(self, row: int, place: Place, generator: torch.Generator) -> Callable[[DraftTree, int], Iterable[Proposal]]:
        """Prepares a draft after ``place``.

        Returns:
            What may follow a node of the tree, the best first; tokens that the rules forbid are passed over, so that more than are wanted
            may be given, lazily.
        """
        raise NotImplementedError


# ---------------------------------------------------------------- drafts below drafts
def subset(step: StepInfo, some: Sequence[int], limits: Sequence[int] | None = None, depths: Sequence[int] | None = None) -> StepInfo:
    """A step of some of its rows, with other limits and depths where they are given."""
    return replace(
        step,
        rows=[step.rows[i] for i in some],
        rules=[step.rules[i] for i in some],
        limits=[step.limits[i] for i in some] if limits is None else limits,
        depths=[step.depths[i] for i in some] if depths is None else depths,
    )


def graft(tree: DraftTree, node: int, branch: DraftTree) -> list[int]:
    """Puts ``branch``, a draft after the place of ``node``, below it, with all its draws.

    Returns:
        the names of the branch's nodes in ``tree``.
    """
    names = [node] * len(branch)
    for parent, draws in enumerate(branch.draws):
        for child, law, how in draws:
            found = tree.add(
                names[parent],
                branch.tokens[child],
                law,
                how,
                chance=branch.chances[child],
                source=branch.sources[child],
            )
            assert found is not None, "the rules of a branch are those of its tree"
            names[child] = found
    return names


def draft_below(
    drafter: Drafter,
    trees: Sequence[DraftTree],
    nodes: Sequence[int],
    shapes: Sequence[Shape],
    step: StepInfo,
    generators: Sequence[torch.Generator],
    limits: Sequence[int] | None = None,
) -> list[bool]:
    """Lets a drafter go on at one node of each tree, with what is left of the step's limits.

    Args:
        limits: nodes that may be added to each tree; ``None``: all that is left.

    Returns:
        whether it added something, for each tree.
    """
    room = [limit - tree.size for limit, tree in zip(step.limits, trees)]
    if limits is not None:
        room = [min(pair) for pair in zip(room, limits)]
    deep = [depth - tree.depths[node] for depth, tree, node in zip(step.depths, trees, nodes)]
    some = [
        i for i, (tree, node) in enumerate(zip(trees, nodes)) if room[i] > 0 and deep[i] > 0 and not tree.places[node].ended
    ]
    if not some:
        return [False] * len(trees)
    part = subset(step, some, [room[i] for i in some], [deep[i] for i in some])
    places = [trees[i].places[nodes[i]] for i in some]
    found = drafter.draft(places, [shapes[i] for i in some], part, [generators[i] for i in some])
    added = [False] * len(trees)
    for i, branch in zip(some, found):
        graft(trees[i], nodes[i], branch)
        added[i] = branch.size > 0
    return added
