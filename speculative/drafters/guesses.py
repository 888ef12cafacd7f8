"""What drafters share that put guesses before the target and read its answers: the window of lookahead decoding, the block of Jacobi's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from samplers.models.context import Context

    from ..protocol import Outcome
    from ..rules import Place, Rules
    from ..tree import DraftTree

__all__ = ["Answers", "guess", "some_token"]

_LOOK = 8  # best tokens that are looked at for one that may follow, before any other is taken


def some_token(place: Place, rules: Rules, generator: torch.Generator) -> int | None:
    """A token that may follow, one that does not end the text where there is such; ``None`` where the rules allow everything."""
    if rules.key(place) is None:
        return None
    row = np.zeros(rules.words, np.int32)
    rules.fill(place, row)
    allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    inner = allowed[~np.isin(allowed, list(rules.ends))]
    allowed = inner if len(inner) else allowed
    return int(allowed[int(torch.randint(len(allowed), (), generator=generator))]) if len(allowed) else None


def guess(tree: DraftTree, node: int, token: int, generator: torch.Generator, source: str) -> int | None:
    """Puts a guess below a node: ``token``, or where it may not follow, some other; ``None`` where nothing can follow."""
    if tree.places[node].ended:
        return None
    found = tree.add(node, token, source=source)
    if found is None:
        other = some_token(tree.places[node], tree.rules, generator)
        found = None if other is None else tree.add(node, other, source=source)
    return found


class Answers:
    """What the target answered at the nodes of a tree.

    Args:
        outcome: of a step.
        root: the context that was drafted from, which may lie below the tree's root, where several drafters share a tree.
    """

    def __init__(self, outcome: Outcome, root: Context) -> None:
        self.tree = outcome.tree
        self._scores, self._rows = outcome.scores, {node: i for i, node in enumerate(outcome.nodes)}
        self._root = next((n for n, place in enumerate(self.tree.places) if place.context == root), None)

    def walk(self, tokens: Sequence[int]) -> list[int]:
        """The nodes from the root along ``tokens``, the root included, as far as the tree has them; empty where it lacks the root."""
        if self._root is None:
            return []
        nodes = [self._root]
        for token in tokens:
            child = self.tree.child(nodes[-1], token)
            if child is None:
                break
            nodes.append(child)
        return nodes

    def best(self, node: int) -> int | None:
        """The target's most probable token at a node, of those that may follow where one of the first few may; ``None``: not known."""
        row = self._rows.get(node)
        if row is None:
            return None
        scores = self._scores[row]
        place = self.tree.places[node]
        if self.tree.rules.key(place) is None:
            return int(scores.argmax())
        best = scores.topk(min(_LOOK, scores.shape[-1])).indices.tolist()
        return next((token for token in best if self.tree.rules.child(place, token) is not None), best[0])
