"""How much to draft, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from .protocol import Outcome
    from .rules import Place
    from .tree import DraftTree

__all__ = ["Always", "Bound", "Pace", "Seconds"]


class Bound(NamedTuple):
    """What a row may draft in a step: so many nodes, so deep."""

    nodes: int
    depth: int


class Seconds(NamedTuple):
    """Time that a step took: drafting, the target's forward, verifying."""

    draft: float
    target: float
    verify: float


class Pace(Protocol):
    """Decides how much is drafted.

    What it decides before a draft may depend on anything; what it trims afterwards may be ``fixed`` proposals only (see
    :class:`~speculative.tree.DraftTree`).
    """

    def bounds(self, rows: Sequence[int], places: Sequence[Place]) -> list[Bound]:
        """For each row, before drafting; ``Bound(0, 0)`` skips the drafter."""
        ...

    def trim(self, trees: Sequence[DraftTree]) -> list[DraftTree]:
        """The part of each drafted tree that is worth the target's time."""
        ...

    def observe(self, outcomes: Sequence[Outcome], seconds: Seconds) -> None:
        """What a step gave, and what it cost."""
        ...


@dataclass(frozen=True, slots=True)
class Always:
    """The same bound at every step, whatever it pays.

    Attributes:
        nodes, depth: see :class:`Bound`.
    """

    nodes: int = 64
    depth: int = 64

    def bounds(self, rows: Sequence[int], places: Sequence[Place]) -> list[Bound]:
        return [Bound(self.nodes, self.depth)] * len(rows)

    def trim(self, trees: Sequence[DraftTree]) -> list[DraftTree]:
        return list(trees)

    def observe(self, outcomes: Sequence[Outcome], seconds: Seconds) -> None:
        pass
