"""Verification by coupling: the target's token is drawn first, and a proposal is taken if it is that token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from ..drawing import uniform
from ..protocol import Verdict
from .base import Base

if TYPE_CHECKING:
    from ..shaping import TargetRows
    from ..tree import DraftTree, How

__all__ = ["Matching"]

_IMPOSSIBLE = float("-inf")


@method(
    "drafter-invariant verification",
    law="exact",
    target=(
        "each token ~ the target's law of the step (masked, warped); the text depends on the seed alone, whatever is drafted: it is "
        "the one that plain decoding writes with that seed, to rounding"
    ),
    cost="one forward over the tree a step; takes a fixed proposal as often as any exact verifier can, a drawn one less often",
    paper="Daliri, Musco, Suresh 2024, arXiv:2408.07978 (drafter-invariance); Fu et al. 2024, arXiv:2402.02057 (fixed proposals)",
    use="speculative.decode(..., verifier=Matching())",
)
class Matching(Base):
    """Draws the target's token at each node as plain decoding does, from one uniform number a token, and goes on where the tree holds it.

    A proposal that is fixed is taken with its own probability under the target, several with the sum of theirs: no exact verifier takes
    them more often. For drawn proposals (a draft model at a temperature) rejection takes more.
    """

    takes: tuple[How, ...] = ("fixed", "with", "without")
    invariant: bool = True
    exact: bool = True

    def verify(self, tree: DraftTree, rows: TargetRows, generator: torch.Generator) -> Verdict:
        """See :meth:`speculative.protocol.Verifier.verify`."""
        path: list[int] = []
        node = 0
        while not tree.places[node].ended and rows.kept(node) > _IMPOSSIBLE:
            token = rows.sample(node, uniform(generator))
            child = tree.child(node, token)
            if child is None:
                return Verdict(path, token)
            path.append(child)
            node = child
        return Verdict(path, None)
