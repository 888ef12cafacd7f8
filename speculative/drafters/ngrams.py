"""Tables of n-grams that learn while the target writes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from samplers.registry import method

from .base import Lookup, Proposal

if TYPE_CHECKING:
    import torch

    from ..protocol import Outcome
    from ..rules import Place, Rules
    from ..tree import DraftTree

__all__ = ["NgramDrafter", "NgramTable"]


class NgramTable:
    """Counts of what follows the last ``order - 1`` tokens, and fewer where those were never seen.

    Args:
        order: of the longest n-grams; 3 for trigrams.
        contexts: how many contexts of each length are kept; those that were not met for longest are forgotten.
        successors: how many tokens are kept of a context.
    """

    def __init__(self, order: int = 3, *, contexts: int = 1 << 18, successors: int = 32) -> None:
        if order < 2 or contexts < 1 or successors < 1:
            raise ValueError(f"order is at least 2, contexts and successors at least 1: {order}, {contexts}, {successors}")
        self.order, self._contexts, self._successors = order, contexts, successors
        self._tables: list[OrderedDict[tuple[int, ...], dict[int, float]]] = [OrderedDict() for _ in range(order - 1)]

    def learn(self, tokens: Sequence[int], start: int = 0, weight: float = 1.0) -> None:
        """Counts the n-grams that end at position ``start`` or later."""
        for at in range(max(1, start), len(tokens)):
            for size, table in enumerate(self._tables, 1):
                if at >= size:
                    self._count(table, tuple(tokens[at - size : at]), tokens[at], weight)

    def _count(self, table: OrderedDict[tuple[int, ...], dict[int, float]], context: tuple[int, ...], token: int, weight: float) -> None:
        found = table.setdefault(context, {})
        table.move_to_end(context)
        if token not in found and len(found) >= self._successors:
            del found[min(found, key=found.__getitem__)]
        found[token] = found.get(token, 0.0) + weight
        if len(table) > self._contexts:
            table.popitem(last=False)

    def following(self, tokens: Sequence[int]) -> list[tuple[int, float]]:
        """What follows the end of ``tokens`` and how often, in shares of what is known there, the most frequent first; of the longest
        context that was seen. Tokens that only shorter contexts know come after those, with the share that one unseen token would have."""
        found: dict[int, float] = {}
        left = 1.0
        for size in range(min(self.order - 1, len(tokens)), 0, -1):
            counts = self._tables[size - 1].get(tuple(tokens[len(tokens) - size :]))
            if not counts:
                continue
            total = sum(counts.values())
            keep = total / (total + 1.0)  # the rest is for what was not seen here
            for token, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
                found.setdefault(token, left * keep * count / total)
            left *= 1 - keep
        return list(found.items())


@method(
    "ADED tri-gram",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's",
    cost="a few dictionary entries a token",
    paper="Liu et al. 2024, arXiv:2407.12021",
    use="speculative.decode(..., drafter=NgramDrafter(), shape=Puct())",
)
class NgramDrafter(Lookup):
    """A table of trigrams stands for the target's law. It is updated with what the target wrote, so that it comes to follow it; drafts
    are searched for in it by :class:`speculative.shapes.Puct`, which weighs likely continuations against little tried ones and sets the
    size of the draft. The table is kept from text to text.

    Args:
        table: to begin with (of a corpus: :meth:`NgramTable.learn`); ``None``: an empty one of trigrams.
        prompts: whether prompts are learned from.
        candidates: how many of the target's best tokens at each verified position are learned from too, with the weight of their
            probability (0: accepted tokens only).
    """

    name = "n-grams"

    def __init__(self, table: NgramTable | None = None, *, prompts: bool = True, candidates: int = 0) -> None:
        if candidates < 0:
            raise ValueError(f"candidates must not be negative, not {candidates}")
        self.table = NgramTable() if table is None else table
        self.prompts, self.candidates = prompts, candidates

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Learns from the prompts."""
        if self.prompts:
            for place in places:
                self.table.learn(place.context.tokens)

    def ready(self, row: int, place: Place, generator: torch.Generator) -> Callable[[DraftTree, int], Iterable[Proposal]]:
        """See :meth:`speculative.drafters.base.Lookup.ready`."""
        size = self.table.order - 1
        tail = place.context.tokens_from(place.context.length - size)

        def found(tree: DraftTree, node: int) -> Iterator[Proposal]:
            path = [tree.tokens[n] for n in tree.path(node)]
            yield from self.table.following([*tail, *path][-size:])

        return found

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Learns from what came out."""
        for outcome in outcomes:
            size = self.table.order - 1
            new = len(outcome.tokens)
            tokens = outcome.place.context.tokens_from(outcome.place.context.length - new - size)
            self.table.learn(tokens, len(tokens) - new)
            if self.candidates and len(outcome.nodes):
                self._learn_scores(outcome)

    def _learn_scores(self, outcome: Outcome) -> None:
        size = self.table.order - 1
        best = outcome.scores.double().softmax(-1).topk(min(self.candidates, outcome.scores.shape[-1]), -1)
        for node, tokens, weights in zip(outcome.nodes, best.indices.tolist(), best.values.tolist()):
            context = outcome.tree.places[node].context
            tail = context.tokens_from(context.length - size)
            for token, weight in zip(tokens, weights):
                self.table.learn([*tail, token], len(tail), weight)
