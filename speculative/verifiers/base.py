"""What verifiers share: defaults, and the walk down a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..drawing import pick, uniform
from ..protocol import Verdict

if TYPE_CHECKING:
    from samplers.sampling import Settings

    from ..shaping import Shaper, TargetRows
    from ..tree import DraftTree, Draw, How

__all__ = ["Base", "Walk"]

_IMPOSSIBLE = float("-inf")


class Base:
    """Defaults of :class:`~speculative.protocol.Verifier`."""

    takes: tuple[How, ...] = ("fixed", "with", "without")
    trees: bool = True
    invariant: bool = False
    exact: bool = False

    def check(self, settings: Settings) -> None:
        """Any settings will do."""

    def prepare(self, trees: Sequence[DraftTree], nodes: Sequence[Sequence[int]], shaper: Shaper) -> None:
        """Nothing has to be done for all trees together."""

    def accepts(self, tree: DraftTree) -> None:
        """Raises a ``ValueError`` for a tree that this verifier cannot judge."""
        for draws in tree.draws:
            if len(draws) > 1 and not self.trees:
                raise ValueError(f"{type(self).__name__} verifies chains: use a chain as shape, or a verifier of trees")
            for draw in draws:
                if draw.how not in self.takes:
                    raise ValueError(f"{type(self).__name__} takes proposals that are {' or '.join(self.takes)}, not {draw.how!r}")


class Walk(Base):
    """Down the tree, node by node: at each one of its proposals is taken, or a token of what is left of the law ends the walk."""

    exact: bool = True

    def verify(self, tree: DraftTree, rows: TargetRows, generator: torch.Generator) -> Verdict:
        """See :meth:`speculative.protocol.Verifier.verify`."""
        self.accepts(tree)
        path: list[int] = []
        node = 0
        while not tree.places[node].ended and rows.kept(node) > _IMPOSSIBLE:
            found, law = self.choose(tree, tree.draws[node], rows.probabilities(node), generator)
            if found is None:
                return Verdict(path, pick(law, uniform(generator)))
            path.append(found)
            node = found
        return Verdict(path, None)

    def choose(
        self, tree: DraftTree, draws: Sequence[Draw], law: torch.Tensor, generator: torch.Generator
    ) -> tuple[int | None, torch.Tensor]:
        """One node of the walk.

        Args:
            draws: the proposals of the node.
            law: ``float64[width]``, the target's probabilities there.

        Returns:
            The child that is taken, or ``None`` and the law (need not be normalised) of the token that comes instead.
        """
        raise NotImplementedError
