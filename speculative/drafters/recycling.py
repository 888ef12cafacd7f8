"""Token Recycling: what the target considered after a token is drafted the next time that token comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from samplers.registry import method

from ..shapes.levels import Template
from ..shapes.sequoia import best_tree
from .base import Lookup, Proposal

if TYPE_CHECKING:
    import torch

    from ..protocol import Outcome
    from ..rules import Place, Rules
    from ..tree import DraftTree

__all__ = ["TokenRecycling"]

_ACCEPTANCE = (0.45, 0.15, 0.08, 0.05, 0.035, 0.025, 0.02, 0.015)  # by rank, of tokens that are recycled: what the default tree is made for


@method(
    "Token Recycling",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's",
    cost="the best tokens of every verified position are looked for; width * k integers are kept",
    paper="Luo et al. 2024, arXiv:2408.08696",
    use="speculative.decode(..., drafter=TokenRecycling(model.width), shape=TokenRecycling.tree())",
)
class TokenRecycling(Lookup):
    """An adjacency matrix holds for every token the ``k`` tokens that the target found most probable after it, the last time that it was
    verified anywhere, accepted or not. A draft tree is found breadth first in it, so that its shape is the shape's to say; the paper's is
    a template (:meth:`tree`). The matrix is kept from text to text.

    Beyond the paper, the bigrams of a prompt are put before what its tokens' rows hold: the scores at the prompt's positions, which
    the paper reads, are not computed for every position here.

    Args:
        width: number of token ids.
        k: successors that are kept of a token.
        prompts: whether the prompts' bigrams are noted.
    """

    name = "recycled"

    def __init__(self, width: int, k: int = 8, *, prompts: bool = True) -> None:
        if width < 1 or k < 1:
            raise ValueError(f"width and k are at least 1, not {width} and {k}")
        self.k, self.prompts = k, prompts
        self.matrix = np.full((width, k), -1, np.int32)
        """``int32[width, k]``: successors of each token, the most probable first; -1: none."""

    @staticmethod
    def tree(size: int = 64, depth: int = 6) -> Template:
        """A static tree of ``size`` nodes, imbalanced towards the first ranks as the paper's is: the best one for typical acceptance."""
        return Template(best_tree(_ACCEPTANCE, size, depth))

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Notes the prompts' bigrams."""
        if self.prompts:
            for place in places:
                tokens = place.context.tokens
                for pair in pairwise(tokens):
                    self._note(*pair)

    def _note(self, token: int, follower: int) -> None:
        if token < len(self.matrix) and follower < len(self.matrix):
            row = [follower, *(t for t in self.matrix[token].tolist() if t != follower)]
            self.matrix[token] = row[: self.k] if len(row) >= self.k else [*row, *[-1] * (self.k - len(row))]

    def ready(self, row: int, place: Place, generator: torch.Generator) -> Callable[[DraftTree, int], Iterable[Proposal]]:
        """See :meth:`speculative.drafters.base.Lookup.ready`."""
        last = place.context.tokens_from(place.context.length - 1)

        def found(tree: DraftTree, node: int) -> Iterator[Proposal]:
            token = tree.tokens[node] if node else last[0] if last else -1
            if 0 <= token < len(self.matrix):
                for follower in self.matrix[token].tolist():
                    if follower >= 0:
                        yield follower, None

        return found

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Writes the best tokens of every verified position into the rows of their tokens; of equal tokens the last one stands."""
        for outcome in outcomes:
            if not len(outcome.nodes):
                continue
            k = min(self.k, outcome.scores.shape[-1])
            best = outcome.scores.topk(k, -1).indices.cpu().numpy()
            root = outcome.tree.places[0].context
            first = root.tokens_from(root.length - 1)
            for row, node in enumerate(outcome.nodes):
                token = outcome.tree.tokens[node] if node else first[0] if first else -1
                if 0 <= token < len(self.matrix):
                    self.matrix[token, :k] = best[row]
