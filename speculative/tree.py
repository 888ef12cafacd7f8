"""Draft trees: what was proposed after a place, and how it was drawn, in flat arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from .rules import Place, Rules

if TYPE_CHECKING:
    import torch

__all__ = ["DraftTree", "Draw", "How"]

How = Literal["fixed", "with", "without"]
"""How a child was chosen. ``fixed``: by its context alone, without randomness. ``with``: drawn from a law, whatever its siblings are.
``without``: drawn from that law without the siblings that were drawn from the same one before, normalised again."""


class Draw(NamedTuple):
    """One proposal at a node.

    Attributes:
        node: the child that was proposed; the same one again where a token was drawn twice.
        law: ``float64[width]``, log-probabilities that it was drawn from (normalised, masked); ``None`` where it is ``fixed``.
        how: see :data:`How`.
    """

    node: int
    law: torch.Tensor | None
    how: How


class DraftTree:
    """Proposals after a place. Node 0 is that place itself; parents come before their children.

    **What makes an exact verifier exact.** The draws of a node are verified in the order in which they were added, and each must come from
    the law that it states, given the draws of that node before it. So whether a node is grown, and how often, may depend on what was
    drawn before (on confidence, on a heap of values), but a token that was *drawn* must never be taken out again, or left out, because of
    which token it is. Those that are ``fixed`` may be (:meth:`keep`).

    Attributes:
        rules: of the request.
        tokens: of each node; -1 for node 0.
        parents: of each node; -1 for node 0.
        depths: of each node; 0 for node 0.
        places: of each node.
        draws: of each node, the proposals there, in the order they were made.
        chances: of each node, the drafter's estimate of the probability that it is accepted once its parent is; ``None``: it has none.
        sources: of each node, the name of what proposed it first (statistics are kept by it).
        closed: nodes at which nothing more is to be proposed: a drafter knows no further child, or a stop policy said so.
    """

    __slots__ = ("_children", "chances", "closed", "depths", "draws", "parents", "places", "rules", "sources", "tokens")

    def __init__(self, place: Place, rules: Rules) -> None:
        self.rules = rules
        self.tokens, self.parents, self.depths = [-1], [-1], [0]
        self.places: list[Place] = [place]
        self.draws: list[list[Draw]] = [[]]
        self.chances: list[float | None] = [None]
        self.sources: list[str] = [""]
        self.closed: set[int] = set()
        self._children: list[dict[int, int]] = [{}]

    def __len__(self) -> int:
        """Number of nodes, the root included."""
        return len(self.tokens)

    @property
    def size(self) -> int:
        """Number of proposed nodes."""
        return len(self.tokens) - 1

    def add(
        self,
        parent: int,
        token: int,
        law: torch.Tensor | None = None,
        how: How = "fixed",
        *,
        chance: float | None = None,
        source: str = "",
    ) -> int | None:
        """Proposes ``token`` after node ``parent``; returns its node.

        A token that is there already keeps its node, and the proposal is noted beside the earlier ones: which proposals there are must not
        depend on what was drawn. Only a second fixed one changes nothing.

        Returns:
            ``None`` where the rules do not let a ``fixed`` token follow; nothing is changed then.

        Raises:
            ValueError: a token that the rules forbid was *drawn*: the law was not masked, and leaving the draw out would change the law
                of the output; or ``law`` is missing, or given for a fixed token; or a token was drawn twice without replacement.
        """
        if (law is None) != (how == "fixed"):
            raise ValueError("a drawn token states the law that it was drawn from, a fixed one has none")
        node = self._children[parent].get(token)
        if node is not None:
            if how == "fixed" and any(draw.node == node and draw.how == "fixed" for draw in self.draws[parent]):
                return node
            if how == "without" and any(draw.node == node and draw.law is law for draw in self.draws[parent]):
                raise ValueError(f"token {token} was drawn without replacement, and is there already")
            self.draws[parent].append(Draw(node, law, how))
            return node
        place = self.rules.child(self.places[parent], token)
        if place is None:
            if how != "fixed":
                raise ValueError(f"token {token} was drawn where the constraint forbids it: mask the law that is drawn from")
            return None
        node = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.places.append(place)
        self.draws.append([])
        self.chances.append(chance)
        self.sources.append(source)
        self._children.append({})
        self._children[parent][token] = node
        self.draws[parent].append(Draw(node, law, how))
        return node

    def extend(self, parent: int, tokens: Iterator[int] | list[int] | tuple[int, ...], *, source: str = "") -> int:
        """Proposes a chain of fixed tokens, up to the first that may not follow; returns its last node (``parent`` where there is none)."""
        for token in tokens:
            node = self.add(parent, token, source=source)
            if node is None:
                break
            parent = node
        return parent

    def child(self, node: int, token: int) -> int | None:
        """The child of ``node`` that is ``token``."""
        return self._children[node].get(token)

    def children(self, node: int) -> list[int]:
        """The distinct children of ``node``, in the order they were first proposed."""
        return list(self._children[node].values())

    def path(self, node: int) -> list[int]:
        """The nodes from below the root down to ``node``."""
        found = []
        while node:
            found.append(node)
            node = self.parents[node]
        return found[::-1]

    def rank(self, node: int) -> int:
        """How many siblings were proposed before ``node``; 0 for the root."""
        return 0 if not node else list(self._children[self.parents[node]].values()).index(node)

    def open(self) -> list[int]:
        """Nodes that something can follow: whose next-token law is needed to verify the tree. The root is among them."""
        return [node for node, place in enumerate(self.places) if not place.ended]

    @property
    def fixed(self) -> bool:
        """Whether nothing in it was drawn, so that any part of it may be left out."""
        return all(draw.how == "fixed" for draws in self.draws for draw in draws)

    def keep(self, nodes: set[int]) -> DraftTree:
        """The tree of the root and ``nodes``, which hold the parents of all of them; only for trees that are :attr:`fixed`.

        Raises:
            ValueError: a drawn token would be left out, or a parent is missing.
        """
        if not self.fixed:
            raise ValueError("a token that was drawn cannot be left out: that would change the law of the output")
        tree = DraftTree(self.places[0], self.rules)
        names = {0: 0}
        for node in sorted(nodes - {0}):
            if self.parents[node] not in names:
                raise ValueError(f"node {node} is kept without its parent")
            parent = names[self.parents[node]]
            names[node] = len(tree.tokens)
            tree.tokens.append(self.tokens[node])
            tree.parents.append(parent)
            tree.depths.append(self.depths[node])
            tree.places.append(self.places[node])
            tree.draws.append([])
            tree.chances.append(self.chances[node])
            tree.sources.append(self.sources[node])
            tree._children.append({})
            tree._children[parent][self.tokens[node]] = names[node]
            tree.draws[parent].append(Draw(names[node], None, "fixed"))
        return tree
