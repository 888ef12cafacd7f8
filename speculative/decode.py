"""The loop: draft, one forward over all trees of all rows, verify.

A row's constraint is a state (an integer) and drafts carry their own, so nothing is ever rolled back; rows accept different numbers of
tokens and go on from where they are. A row that is finished leaves the batch.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from grammars.errors import DeadEnd
from samplers.masked import Reason, Request, Step
from samplers.sampling import Settings

from .pace import Always, Bound, Seconds
from .protocol import Drafter, Outcome, Shape, StepInfo, Stop, Verdict, Verifier
from .rules import DONE, Place, Rules
from .shaping import Shaper, TargetRows
from .tree import DraftTree

if TYPE_CHECKING:
    from samplers.masks import MaskTable
    from samplers.models.protocol import LanguageModel
    from samplers.warpers.pipeline import Pipeline

    from .pace import Pace

__all__ = ["Loop", "Round", "Row", "RowRound", "decode"]

_PLAIN = Settings()


@dataclass(frozen=True, slots=True)
class RowRound:
    """What one step did for one row.

    Attributes:
        row: index of the request.
        drafted: tokens proposed that the target judged.
        accepted: of those, how many were taken.
        emitted: tokens that came out: those, and at most one of the verifier's own.
    """

    row: int
    drafted: int
    accepted: int
    emitted: int


@dataclass(frozen=True, slots=True)
class Round:
    """One step of all rows that are not finished.

    Attributes:
        steps: the tokens that came out, in order of the rows, a row's tokens in the order of its text.
        rows: one entry a row.
        forwards: batched questions to the target: 1.
        seconds: time that it took.
    """

    steps: list[Step]
    rows: list[RowRound]
    forwards: int
    seconds: Seconds

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(slots=True)
class Row:
    """One text in the making.

    Attributes:
        index: of the request.
        rules: its constraint.
        place: the end of the text so far.
        chance, draft_chance: randomness of the verifier (used as plain decoding uses a row's: see :class:`samplers.masked.Request`) and of
            the drafter.
    """

    index: int
    rules: Rules
    place: Place
    chance: torch.Generator
    draft_chance: torch.Generator


class _GoOn:
    """Draft on at every node."""

    def go_on(self, tree: DraftTree, node: int, law: torch.Tensor | None) -> bool:
        return True

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        pass


def decode(
    model: LanguageModel,
    requests: Sequence[Request],
    drafter: Drafter,
    *,
    verifier: Verifier,
    shape: Shape,
    stop: Stop | None = None,
    settings: Settings = _PLAIN,
    warpers: Pipeline | Iterable[Any] | None = None,
    eos_token_ids: Sequence[int] | None = None,
    table: MaskTable | None = None,
    pace: Pace | None = None,
) -> Iterator[Round]:
    """Generates one text for every request, all together, several tokens a forward; yields what each step gave.

    The law of the texts is the verifier's; that of an exact one is local masking with ``settings`` and ``warpers``, as
    :func:`samplers.masked.decode` has it, to rounding.

    Args:
        model: the target.
        requests: prompts, constraints, budgets, lengths and seeds.
        drafter: proposes tokens.
        verifier: decides which are kept.
        shape: of the trees.
        stop: whether to draft on at a node; ``None``: always.
        settings: temperature, top-k, top-p of the target's law.
        warpers: a :class:`~samplers.warpers.Pipeline`, or its parts in order; they act before ``settings``, and must depend on the text
            alone.
        eos_token_ids: ids that end a text; ``None``: the model's.
        table: masks of earlier calls on the same device, to be used again.
        pace: how much to draft, step by step; ``None``: as much as the shape asks for.

    Raises:
        ConstraintError: a request's budget is too small for any text of its language.
        DeadEnd: a row has no token that can follow and that the model gives mass to.
        ModelError: a prompt that the model cannot take (too long, or empty where it needs a token).
        ValueError: the verifier does not go with the drafter, the warpers or the settings.
    """
    if not requests:
        return
    loop = Loop(model, drafter, verifier, shape, stop, settings, warpers, table, pace or Always())
    ends = model.eos_token_ids if eos_token_ids is None else eos_token_ids
    rows = [loop.row(i, request, ends) for i, request in enumerate(requests)]
    yield from loop.run(rows)


class Loop:
    """The steps of :func:`decode`; also what :mod:`speculative.weighted` runs on.

    Args:
        dead: called with a row's index where nothing can follow its text, which then ends as it is; ``None`` raises :class:`DeadEnd`.

    The other arguments are those of :func:`decode`.
    """

    def __init__(
        self,
        model: LanguageModel,
        drafter: Drafter,
        verifier: Verifier,
        shape: Shape,
        stop: Stop | None,
        settings: Settings,
        warpers: Pipeline | Iterable[Any] | None,
        table: MaskTable | None,
        pace: Pace,
        dead: Callable[[int], None] | None = None,
    ) -> None:
        self.model, self.drafter, self.verifier, self.shape = model, drafter, verifier, shape
        self.stop: Stop = _GoOn() if stop is None else stop
        self.settings, self.warpers, self.table = settings, warpers, table
        self.pace, self.dead = pace, dead
        self._scores = getattr(model, "next_logits", model.next_logprobs)
        self._shaper: Shaper | None = None
        verifier.check(settings)
        pace.begin(verifier.invariant)
        self._clock: Callable[[], float] = getattr(pace, "clock", time.perf_counter)

    # ------------------------------------------------------------ rows
    def row(self, index: int, request: Request, ends: Sequence[int]) -> Row:
        """The beginning of a request's text."""
        if request.budget is not None:
            request.budget.check(request.max_tokens)
        rules = Rules(ends, request.automaton, request.budget)
        return self.row_of(index, rules, rules.root(self.model, request.prompt, request.max_tokens), request.seed)

    def row_of(self, index: int, rules: Rules, place: Place, seed: int) -> Row:
        """A row that begins at ``place``; its randomness depends on ``seed`` only."""
        if place.left < 1:
            raise ValueError(f"max_tokens must be at least 1, not {place.left}")
        drafts = random.Random(f"{seed}/draft").getrandbits(63)
        return Row(index, rules, place, torch.Generator().manual_seed(seed), torch.Generator().manual_seed(drafts))

    # ------------------------------------------------------------ steps
    def run(self, rows: Sequence[Row]) -> Iterator[Round]:
        """Steps until all rows are finished."""
        rows = list(rows)
        self.drafter.begin([row.index for row in rows], [row.place for row in rows], [row.rules for row in rows])
        try:
            while rows:
                yield self.step(rows)
                rows = [row for row in rows if not row.place.ended]
        finally:
            for row in rows:
                self.drafter.end(row.index)

    def step(self, rows: Sequence[Row]) -> Round:
        """One step of rows that have not ended; moves their places."""
        began = self._clock()
        trees = self._draft(rows)
        drafted = self._clock()
        nodes = [tree.open() for tree in trees]
        scores = self._scores([tree.places[n].context for tree, open_ in zip(trees, nodes) for n in open_])
        answered = self._clock()
        shaper = self._shape_with(scores, rows)
        parts = scores.split([len(open_) for open_ in nodes])
        self.verifier.prepare(trees, nodes, shaper)
        verdicts = [
            self.verifier.verify(tree, TargetRows(shaper, tree, open_, part), row.chance)
            for tree, open_, part, row in zip(trees, nodes, parts, rows)
        ]
        steps = self._emit(rows, trees, nodes, verdicts, scores, shaper)
        outcomes = [
            Outcome(row.index, tree, verdict.path, [step.token for step in given], row.place, open_, part)
            for row, tree, verdict, given, open_, part in zip(rows, trees, verdicts, steps, nodes, parts)
        ]
        done = self._clock()
        self._observe(rows, outcomes)
        seconds = Seconds(drafted - began, answered - drafted, done - answered)
        self.pace.observe(outcomes, seconds)
        counts = [RowRound(row.index, tree.size, len(v.path), len(given)) for row, tree, v, given in zip(rows, trees, verdicts, steps)]
        return Round([step for given in steps for step in given], counts, 1, seconds)

    def _draft(self, rows: Sequence[Row]) -> list[DraftTree]:
        bounds = self.pace.bounds([row.index for row in rows], [row.place for row in rows])
        trees = [DraftTree(row.place, row.rules) for row in rows]
        # the token behind the last draft comes with the verdict, so the last token of a text need not be drafted
        bounds = [Bound(b.nodes, min(b.depth, row.place.left - 1)) for b, row in zip(bounds, rows)]
        asked = [i for i, bound in enumerate(bounds) if bound.nodes > 0 and bound.depth > 0]
        if not asked:
            return trees
        some = [rows[i] for i in asked]
        info = StepInfo(
            [row.index for row in some],
            [row.rules for row in some],
            [bounds[i].nodes for i in asked],
            [bounds[i].depth for i in asked],
            self.verifier.takes[0],
            self._shape_with(None, rows),
            self.stop,
        )
        found = self.drafter.draft([row.place for row in some], [self.shape] * len(some), info, [row.draft_chance for row in some])
        for i, tree in zip(asked, self.pace.trim(found, len(rows))):
            trees[i] = tree
        return trees

    def _shape_with(self, scores: torch.Tensor | None, rows: Sequence[Row]) -> Shaper:
        """The shaper, made when it is first needed: before the first scores it lives where the mask table does."""
        if self._shaper is None:
            device = scores.device if scores is not None else getattr(getattr(self.model, "model", None), "device", "cpu")
            words = max((row.rules.words for row in rows), default=0)
            self._shaper = Shaper(self.model.width, self.settings, device=device, warpers=self.warpers, words=words, table=self.table)
        return self._shaper

    # ------------------------------------------------------------ what comes out
    def _emit(
        self,
        rows: Sequence[Row],
        trees: Sequence[DraftTree],
        nodes: Sequence[Sequence[int]],
        verdicts: Sequence[Verdict],
        scores: torch.Tensor,
        shaper: Shaper,
    ) -> list[list[Step]]:
        """Moves the rows' places, and makes the steps of each."""
        picks: list[tuple[int, Place, Rules, int]] = []  # row of the scores, and the place, rules and token there
        emitted: list[int] = []
        first = 0
        for row, tree, open_, verdict in zip(rows, trees, nodes, verdicts):
            names = {node: first + i for i, node in enumerate(open_)}
            first += len(open_)
            tokens = [tree.tokens[node] for node in verdict.path]
            row.place = tree.places[verdict.path[-1]] if verdict.path else row.place
            tokens += self._last(row, verdict, tree)
            at = [0, *verdict.path][: len(tokens)]
            picks += [(names[node], tree.places[node], row.rules, token) for node, token in zip(at, tokens)]
            emitted.append(len(tokens))
        facts = iter(shaper.facts(scores, picks))
        steps = []
        for row, count in zip(rows, emitted):
            some = [next(facts) for _ in range(count)]
            steps.append([Step(row.index, token, p, kept, None) for token, p, kept in some])
            if row.place.ended and steps[-1]:
                last = steps[-1][-1]
                steps[-1][-1] = Step(row.index, last.token, last.logprob, last.log_kept, _reason(row))
        return steps

    def _last(self, row: Row, verdict: Verdict, tree: DraftTree) -> list[int]:
        """The verifier's own token, and the row's place after it."""
        if verdict.token is not None:
            place = row.rules.child(row.place, verdict.token)
            if place is None:
                raise DeadEnd(f"row {row.index}: the model gives no mass to the tokens that may follow")
            row.place = place
            return [verdict.token]
        if not verdict.path:
            if self.dead is None:
                raise DeadEnd(f"row {row.index}: the model gives no mass to the tokens that may follow")
            self.dead(row.index)
            row.place = replace(row.place, left=0)
        return []

    def _observe(self, rows: Sequence[Row], outcomes: Sequence[Outcome]) -> None:
        for learner in (self.drafter, self.stop, self.shape):
            observe = getattr(learner, "observe", None)  # a shape may learn, and need not
            if observe is not None:
                observe(outcomes)
        for row in rows:
            if row.place.ended:
                self.drafter.end(row.index)


def _reason(row: Row) -> Reason:
    return "complete" if row.place.state == DONE else "length"
