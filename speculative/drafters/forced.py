"""What the constraint leaves no choice about: free drafts, which any other drafter goes on from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from samplers.registry import method

from ..shapes.base import values
from ..tree import DraftTree
from .base import BaseDrafter, draft_below

if TYPE_CHECKING:
    import torch

    from ..protocol import Drafter, Outcome, Shape, StepInfo
    from ..rules import Place, Rules

__all__ = ["Forced"]

_KEPT = 1 << 16
_SOURCE = "forced"


@method(
    "grammar-forced drafts",
    law="exact",
    target="a drafter of fixed proposals around another one: the law is the verifier's",
    cost="a look at the mask of a place, once a state; the tokens are evaluated in a forward that is made anyway",
    use="speculative.decode(..., drafter=Forced(inner))",
)
class Forced(BaseDrafter):
    """Drafts what must come: before what another drafter proposes, and behind each of its proposals.

    A *token* is certain only where the mask holds one; where the *text* is certain but several tokenisations of it are allowed, the
    tokenizer's own is proposed, as far as text to come cannot change it. All of it is ``fixed`` and is verified like any other draft.

    Args:
        inner: drafts what is not forced; ``None``: nothing.
        behind: whether forced tokens are put behind the inner drafter's proposals too.
        longest: forced tokens in a row at most.
    """

    def __init__(self, inner: Drafter | None = None, *, behind: bool = True, longest: int = 64) -> None:
        if longest < 1:
            raise ValueError(f"longest is at least 1, not {longest}")
        self.inner, self.behind, self.longest = inner, behind, longest
        self.name = _SOURCE if inner is None else f"{_SOURCE}({inner.name})"
        self._kept: dict[Hashable, tuple[bool, tuple[int, ...]]] = {}
        self._taken, self._tried = 9.0, 10.0  # of canonical tokens where others are allowed: a guess to begin with, then counts

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """New texts."""
        if self.inner is not None:
            self.inner.begin(rows, places, rules)

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        trees = [DraftTree(place, rules) for place, rules in zip(places, step.rules)]
        tips = [self._chain(tree, 0, limit, depth) for tree, limit, depth in zip(trees, step.limits, step.depths)]
        if self.inner is not None:
            draft_below(self.inner, trees, tips, shapes, step, generators)
            if self.behind:
                for tree, limit, depth in zip(trees, step.limits, step.depths):
                    self._behind(tree, limit, depth)
        return trees

    def _behind(self, tree: DraftTree, limit: int, depth: int) -> None:
        """Forced tokens below the leaves, those first that are most likely to be reached."""
        if tree.rules.automaton is None:
            return
        parents = set(tree.parents)
        worth = values(tree, 0.5)
        leaves = sorted((n for n in range(1, len(tree)) if n not in parents), key=lambda n: (-worth[n], n))
        for leaf in leaves:
            self._chain(tree, leaf, limit, depth)

    def _chain(self, tree: DraftTree, node: int, limit: int, depth: int) -> int:
        """Puts forced tokens below a node, as long as there are any and there is room; the last node."""
        deepest = min(depth, tree.depths[node] + self.longest)
        while tree.size < limit and tree.depths[node] < deepest and not tree.places[node].ended:
            certain, tokens = self._next(tree.rules, tree.places[node])
            chance = 1.0 if certain else self._taken / self._tried
            before = node
            for token in tokens[: min(limit - tree.size, deepest - tree.depths[node])]:
                found = tree.add(node, token, chance=chance, source=_SOURCE)
                if found is None:
                    return node
                node = found
            if node == before:
                break
        return node

    def _next(self, rules: Rules, place: Place) -> tuple[bool, tuple[int, ...]]:
        """Whether one token is all that may follow, and the forced tokens; found once for every mask."""
        key = rules.key(place)
        if key is None:
            return False, ()
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[key] = self._find(rules, place)
        return found

    @staticmethod
    def _find(rules: Rules, place: Place) -> tuple[bool, tuple[int, ...]]:
        row = np.zeros(rules.words, np.int32)
        rules.fill(place, row)
        words = np.flatnonzero(row)
        if len(words) == 1:
            bits = int(row[words[0]]) & 0xFFFFFFFF
            if bits & (bits - 1) == 0:
                return True, (32 * int(words[0]) + bits.bit_length() - 1,)
        automaton = rules.automaton
        assert automaton is not None
        # the last tokens might be merged with what follows: likely enough for a draft, and counted (see observe)
        return False, tuple(automaton.vocabulary.encode(automaton.forced_bytes(place.state)))

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Counts how often the canonical tokenisation is what the target writes."""
        for outcome in outcomes:
            taken = set(outcome.path)
            for node in (0, *outcome.path):
                for child in outcome.tree.children(node):
                    chance = outcome.tree.chances[child]
                    if outcome.tree.sources[child] == _SOURCE and chance is not None and chance < 1:
                        self._tried += 1
                        self._taken += child in taken
        if self.inner is not None:
            self.inner.observe(outcomes)

    def end(self, row: int) -> None:
        """The row's text is finished."""
        if self.inner is not None:
            self.inner.end(row)
