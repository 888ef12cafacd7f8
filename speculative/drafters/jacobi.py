"""Jacobi and Gauss-Seidel decoding: greedy text as the fixed point of a system of equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from samplers.registry import method

from ..tree import DraftTree
from .base import BaseDrafter
from .guesses import Answers, guess

if TYPE_CHECKING:
    import torch

    from samplers.models.context import Context

    from ..protocol import Outcome, Shape, StepInfo
    from ..rules import Place, Rules

__all__ = ["JacobiDrafter"]


@dataclass(slots=True)
class _State:
    """Of one row: guesses of the tokens ahead, what is left of the block, and the chain that was drafted last with what it began from."""

    guesses: list[int] = field(default_factory=list)
    left: int = 0
    root: Context | None = None
    chain: tuple[int, ...] = ()


@method(
    "Jacobi / Gauss-Seidel decoding",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's; with greedy verification the fixed point, which is the greedy text",
    cost="block more tokens in each forward of the target",
    paper="Santilli et al. 2023, arXiv:2305.10427; Song et al. 2021, arXiv:2002.03629",
    use="speculative.decode(..., drafter=JacobiDrafter(), verifier=Greedy())",
)
class JacobiDrafter(BaseDrafter):
    """A block of guesses is put behind the text, all of its tokens are recomputed in parallel, and what agrees with the target's own
    answers is text; the answers behind it are the next guesses, until nothing changes.

    ``sliding``: new guesses come in at the end as text comes out at the front (Jacobi over a window). Otherwise a block is finished before
    the next one begins (Gauss-Seidel over blocks, Jacobi within them). The drafter has a shape of its own, a chain.

    Args:
        block: guesses ahead.
        sliding: see above.
    """

    name = "jacobi"

    def __init__(self, block: int = 8, *, sliding: bool = True) -> None:
        if block < 1:
            raise ValueError(f"a block has at least one token, not {block}")
        self.block, self.sliding = block, sliding
        self._rows: dict[int, _State] = {}

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """New texts."""
        for row in rows:
            self._rows[row] = _State()

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        return [
            self._draft(self._rows.setdefault(row, _State()), DraftTree(place, rules), min(limit, depth), generator)
            for row, place, rules, limit, depth, generator in zip(step.rows, places, step.rules, step.limits, step.depths, generators)
        ]

    def _draft(self, state: _State, tree: DraftTree, room: int, generator: torch.Generator) -> DraftTree:
        if state.left < 1 or self.sliding:
            state.left = self.block
        root = tree.places[0].context
        last = root.tokens_from(root.length - 1)
        filler = state.guesses[-1] if state.guesses else last[0] if last else 0
        guesses = [*state.guesses, *[filler] * self.block][: min(state.left, room)]
        node = 0
        for token in guesses:
            found = guess(tree, node, token, generator, self.name)
            if found is None:
                break
            node = found
        state.root, state.chain = root, tuple(tree.tokens[n] for n in tree.path(node))
        return tree

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Takes the target's answers behind the accepted tokens as the next guesses."""
        for outcome in outcomes:
            state = self._rows.get(outcome.row)
            if state is None or state.root is None:
                continue
            emitted = outcome.place.context.length - state.root.length
            answers = Answers(outcome, state.root)
            found = [answers.best(node) for node in answers.walk(state.chain)[max(0, emitted) :]]
            state.guesses = [token for token in found if token is not None]
            state.left -= max(0, emitted)
            state.root = None

    def end(self, row: int) -> None:
        """Forgets a row."""
        self._rows.pop(row, None)
