"""Lookahead decoding: a window of guesses that the target improves in parallel, and a pool of the n-grams that it wrote on the way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from samplers.registry import method

from ..tree import DraftTree
from .base import BaseDrafter
from .guesses import Answers, guess

if TYPE_CHECKING:
    from samplers.models.context import Context

    from ..protocol import Outcome, Shape, StepInfo
    from ..rules import Place, Rules

__all__ = ["LookaheadDrafter"]


@dataclass(slots=True)
class _State:
    """Of one row.

    Attributes:
        levels: ``n - 1`` rows of the window, ``levels[j][i]`` a guess for the token ``1 + i + j`` places ahead.
        pool: for a token, the ``n - 1`` tokens that followed it, those that were met last at the end.
        source: tokens that fresh guesses are taken from: the prompt's.
        root: what the last draft began from.
        columns: of the last draft, as tokens from the root: the end of each column of the window.
    """

    levels: list[list[int]] = field(default_factory=list)
    pool: dict[int, OrderedDict[tuple[int, ...], None]] = field(default_factory=dict)
    source: tuple[int, ...] = ()
    root: Context | None = None
    columns: list[tuple[int, ...]] = field(default_factory=list)


@method(
    "Lookahead Decoding",
    law="exact",
    target="a drafter of fixed proposals: the law is the verifier's",
    cost="(window + guesses) * (n - 1) more tokens in each forward of the target",
    paper="Fu et al. 2024, arXiv:2402.02057",
    use="speculative.decode(..., drafter=LookaheadDrafter())",
)
class LookaheadDrafter(BaseDrafter):
    """Jacobi iterations over a two-dimensional window yield n-grams; those that begin with the last token are verified.

    Column ``i`` of the window holds guesses of ``n - 1`` successive iterations, for tokens ``1 + i``, ``2 + i``, ... places ahead. A guess
    of the first row stands behind the guesses of that row before it, those of the other rows behind the ones above them: the paper's
    attention mask, which here is a tree of drafts like any other, evaluated by the same forward. The target's best token behind a column
    completes an n-gram, which goes to the pool, and the window moves on by a row.

    Everything proposed is ``fixed``, so that with an exact verifier sampling is exact too. The drafter has a shape of its own; limits of
    the step cut the window. Guesses that the constraint forbids are replaced by tokens that it allows.

    Args:
        window: columns (the paper's ``W``).
        n: length of the n-grams (``N``).
        guesses: n-grams that are kept of a token and verified at once (``G``).
        prompts: whether the prompt's n-grams are put into the pool.
    """

    name = "lookahead"

    def __init__(self, window: int = 8, n: int = 4, guesses: int = 8, *, prompts: bool = True) -> None:
        if window < 1 or n < 2 or guesses < 1:
            raise ValueError(f"window and guesses are at least 1, n at least 2: {window}, {guesses}, {n}")
        self.window, self.n, self.guesses, self.prompts = window, n, guesses, prompts
        self._rows: dict[int, _State] = {}

    def begin(self, rows: Sequence[int], places: Sequence[Place], rules: Sequence[Rules]) -> None:
        """Reads the prompts."""
        for row, place in zip(rows, places):
            tokens = place.context.tokens
            state = self._rows[row] = _State(source=tokens)
            if self.prompts:
                for at in range(len(tokens) - self.n + 1):
                    self._note(state, tokens[at : at + self.n])

    def draft(
        self, places: Sequence[Place], shapes: Sequence[Shape], step: StepInfo, generators: Sequence[torch.Generator]
    ) -> list[DraftTree]:
        """See :meth:`speculative.protocol.Drafter.draft`."""
        trees = []
        for i, place in enumerate(places):
            state = self._rows.setdefault(step.rows[i], _State(source=place.context.tokens))
            tree = DraftTree(place, step.rules[i])
            self._candidates(state, tree, step.limits[i], step.depths[i])
            self._window(state, tree, step.limits[i], step.depths[i], generators[i])
            trees.append(tree)
        return trees

    # ------------------------------------------------------------ the tree
    def _candidates(self, state: _State, tree: DraftTree, limit: int, depth: int) -> None:
        root = tree.places[0].context
        last = root.tokens_from(root.length - 1)
        pool = state.pool.get(last[0], ()) if last else ()
        for gram in reversed(list(pool)):
            room = min(len(gram), depth, limit - tree.size)
            tree.extend(0, gram[: max(0, room)], source=self.name)

    def _window(self, state: _State, tree: DraftTree, limit: int, depth: int, generator: torch.Generator) -> None:
        """The first row of the window as a chain, and below each of its tokens the rest of the column."""
        if not state.levels:
            state.levels = [self._fresh(state, self.window, generator) for _ in range(self.n - 1)]
        state.root, state.columns = tree.places[0].context, []
        trunk = 0
        for i in range(self.window):
            if tree.size + self.n - 1 > limit or tree.depths[trunk] + self.n - 1 > depth:
                break
            found = guess(tree, trunk, state.levels[0][i], generator, self.name)
            if found is None:
                break
            trunk = node = found
            state.levels[0][i] = tree.tokens[node]
            for level in state.levels[1:]:
                below = guess(tree, node, level[i], generator, self.name)
                if below is None:
                    break
                node = below
                level[i] = tree.tokens[node]
            else:
                state.columns.append(tuple(tree.tokens[n] for n in tree.path(node)))

    @staticmethod
    def _fresh(state: _State, count: int, generator: torch.Generator) -> list[int]:
        """Guesses to begin with: tokens of the prompt."""
        if not state.source:
            return [0] * count
        return [state.source[i] for i in torch.randint(len(state.source), (count,), generator=generator).tolist()]

    # ------------------------------------------------------------ learning
    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Completes the n-grams of the window's columns, and moves the window."""
        for outcome in outcomes:
            state = self._rows.get(outcome.row)
            if state is None or state.root is None or not state.columns:
                continue
            answers = Answers(outcome, state.root)
            new: list[int] = []
            for column in state.columns:
                nodes = answers.walk(column)
                found = answers.best(nodes[-1]) if len(nodes) == len(column) + 1 else None
                if found is None:
                    break
                new.append(found)
                self._note(state, (*column[-(self.n - 1) :], found))
            self._move(state, new, outcome.place.context.length - state.root.length)

    def _move(self, state: _State, new: Sequence[int], emitted: int) -> None:
        """A row falls out at the top, the target's answers come in below; of more tokens than one, so many columns less one are behind."""
        known = len(new)
        last = state.levels[-1]
        state.levels = [*state.levels[1:], [*new, *last[known:]]]
        if emitted > 1:
            gone = min(emitted - 1, self.window)
            state.levels = [[*level[gone:], *level[:gone]] for level in state.levels]
        state.root, state.columns = None, []

    def _note(self, state: _State, gram: Sequence[int]) -> None:
        pool = state.pool.setdefault(gram[0], OrderedDict())
        rest = tuple(gram[1:])
        pool[rest] = None
        pool.move_to_end(rest)
        if len(pool) > self.guesses:
            pool.popitem(last=False)

    def end(self, row: int) -> None:
        """Forgets a row."""
        self._rows.pop(row, None)
