"""What shapes share: the room that is left, and what a node is worth."""

from __future__ import annotations

from collections.abc import Sequence

from ..tree import DraftTree

__all__ = ["BaseShape", "fitting", "growable", "values"]


class BaseShape:
    """Defaults of :class:`~speculative.protocol.Shape`, and what drafters of this package know of shapes beyond it.

    Attributes:
        fixed: whether children are to be the most probable ones (not drawn), whatever the verifier likes: for shapes that leave out nodes
            when all are known.
        adaptive: whether how often a node is drawn from depends on what was drawn there before. Its children are then drawn without
            replacement, which verifiers that do not judge draws in their order (and would give another law) do not take.
    """

    fixed: bool = False
    adaptive: bool = False

    def grow(self, tree: DraftTree, fresh: Sequence[int], limit: int, depth: int) -> list[tuple[int, int]]:
        """See :meth:`speculative.protocol.Shape.grow`."""
        raise NotImplementedError

    def finish(self, tree: DraftTree, limit: int) -> DraftTree:
        """The tree that is verified, of at most ``limit`` nodes; called once nothing is grown any more."""
        return tree


def growable(tree: DraftTree, nodes: Sequence[int], depth: int) -> list[int]:
    """Those of ``nodes`` that may have children."""
    return [n for n in nodes if tree.depths[n] < depth and n not in tree.closed and not tree.places[n].ended]


def fitting(wanted: Sequence[tuple[int, int]], room: int) -> list[tuple[int, int]]:
    """As many of the wanted children as there is room for, those of earlier nodes first."""
    found = []
    for node, count in wanted:
        count = min(count, room)
        if count > 0:
            found.append((node, count))
            room -= count
    return found


def values(tree: DraftTree, unknown: float) -> list[float]:
    """Of each node, the estimated probability that the walk of the verifier comes to it: the product of the chances on its path.

    Args:
        unknown: chance of a node whose drafter has no estimate.
    """
    found = [1.0]
    for node in range(1, len(tree)):
        chance = tree.chances[node]
        found.append(found[tree.parents[node]] * (unknown if chance is None else chance))
    return found
