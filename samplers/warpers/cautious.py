"""Cautious next token prediction: where the model is unsure, try several ways to the next punctuation mark and take the likeliest."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..masks import MaskTable, serial
from ..models import Context
from ..registry import Law, method
from ..sampling import draw
from .base import FORBIDDEN, Row, Warper
from .cutoff import entropy
from .memory import RowMemory
from .pipeline import Pipeline
from .second import Companion

if TYPE_CHECKING:
    from grammars.automaton import Automaton

__all__ = ["CautiousNextToken"]


@dataclass(slots=True)
class _Trial:
    """One way on, while it is drawn."""

    row: Row
    context: Context
    state: int
    generator: torch.Generator
    tokens: list[int] = field(default_factory=list)
    logprob: float = 0.0

    @property
    def text(self) -> Row:
        return Row([*self.row.tokens, *self.tokens], self.row.prompt, self.row.seed)

    @property
    def perplexity(self) -> float:
        return -self.logprob / len(self.tokens)  # its logarithm


@method(
    "CNTP cautious next token",
    law="lossy",
    target=(
        "where the step's entropy is low, the step's distribution; else the first token (and then the rest) of the one with the lowest "
        "perplexity among trials that are drawn up to the next punctuation mark, more of them the higher the entropy"
    ),
    cost="up to `trials` rows through the model at the steps of high entropy, until each has met a punctuation mark",
    paper="Wang et al. 2025, arXiv:2507.03038",
    use="guided.generate(..., warpers=[CautiousNextToken(model, stops)])",
)
class CautiousNextToken(Warper):
    """Cautious next token prediction (Wang et al. 2025, arXiv:2507.03038).

    With ``H`` the entropy of a step in nats, ``N = floor(least + (trials - least) clamp((H - low) / (high - low), 0, 1))``
    continuations are drawn, each until it has taken a token of ``stops``, an end token or ``longest`` tokens. The one with the lowest
    perplexity (the mean of ``-log p`` of its tokens, in the distributions they were drawn from) becomes the text: its tokens are all that
    is left at the steps to come. ``N = 1`` leaves the step alone.

    The first token of a trial is drawn from the scores that come in, later ones from the model through ``warpers``, within ``automaton``. A
    continuation that a mask behind or before this warper forbids half-way is given up there. It is meant for sampling: a plan belongs to a
    row and its seed, so beams that swap rows make new ones.

    Args:
        model: the model, as a :class:`~samplers.models.LanguageModel` or a Hugging Face model.
        stops: ids of the punctuation tokens.
        low, high: entropies, in nats, of the fewest and of the most trials.
        least, trials: the fewest and the most trials, at least 1.
        longest: tokens of a trial at most.
        warpers: what shapes the later tokens of a trial; a :class:`Pipeline` or a list of warpers.
        automaton: the constraint of the rows, so that trials stay within it.
        seed: of the trials; the rows' own seeds are mixed in.

    Raises:
        ValueError: an argument out of range.
        ModelError: ``model`` is no language model.
    """

    law: Law = "lossy"
    reads_text = True

    def __init__(
        self,
        model: Any,
        stops: Collection[int],
        *,
        low: float = 0.01,
        high: float = 1.5,
        least: int = 1,
        trials: int = 10,
        longest: int = 64,
        warpers: Pipeline | Sequence[Any] = (),
        automaton: Automaton | None = None,
        seed: int = 0,
    ) -> None:
        if not low < high or not 1 <= least <= trials or longest < 1:
            raise ValueError(
                "low must be below high, least between 1 and trials, and longest at least 1, "
                f"not low={low}, high={high}, least={least}, trials={trials}, longest={longest}"
            )
        self.reader = Companion(model)
        self.low, self.high, self.least, self.trials, self.longest = low, high, least, trials, longest
        self.stops = frozenset(stops) | frozenset(self.reader.model.eos_token_ids)
        self.pipeline = warpers if isinstance(warpers, Pipeline) else Pipeline(warpers)
        self.automaton, self.seed = automaton, seed
        self._memory: RowMemory[tuple[int, tuple[int, ...]]] = RowMemory(by_seed=True)
        self._table: MaskTable | None = None

    def reset(self) -> None:
        super().reset()
        self.reader.reset()
        self._memory.clear()

    def describe(self) -> str:
        return f"cautious trials (up to {self.trials}) where the entropy is above {self.low:g} nats"

    def count(self, nats: float) -> int:
        """The number of trials at this entropy."""
        share = min(max((nats - self.low) / (self.high - self.low), 0.0), 1.0)
        return int(self.least + (self.trials - self.least) * share)

    # ------------------------------------------------------------ rows
    def _place(self, row: Row) -> tuple[int, tuple[int, ...]]:
        """The row's automaton state, and what is left of its plan."""
        known, last = self._memory.recall(row), row.tokens[-1]
        if known is not None:
            state, plan = known
            return self._after(state, [last]), plan[1:] if plan[:1] == (last,) else ()
        return self._after(0 if self.automaton is None else self.automaton.start, row.made), ()

    def _after(self, state: int, tokens: Sequence[int]) -> int:
        if self.automaton is not None:
            for token in tokens:
                state = self.automaton.advance(state, int(token))
        return state

    def warp(self, rows: Sequence[Row], scores: torch.Tensor) -> torch.Tensor:
        places = [self._place(row) for row in rows]
        contexts = self.reader.contexts(rows)
        plans = [plan if plan and scores[i, plan[0]] != FORBIDDEN else () for i, (_, plan) in enumerate(places)]
        begun: list[list[_Trial]] = []
        for i, (row, nats) in enumerate(zip(rows, entropy(scores).tolist())):
            number = 0 if plans[i] else self.count(nats)
            begun.append(self._begin(row, contexts[i], places[i][0], scores[i], number) if number > 1 else [])
        self._finish([trial for group in begun for trial in group])
        out = scores
        for i, group in enumerate(begun):
            if group:
                plans[i] = tuple(min(group, key=lambda trial: trial.perplexity).tokens)
            if plans[i]:
                out = out.clone() if out is scores else out
                out[i] = FORBIDDEN
                out[i, plans[i][0]] = 0.0
        self._memory.keep(rows, [(state, plan) for (state, _), plan in zip(places, plans)])
        return out

    # ------------------------------------------------------------ trials
    def _begin(self, row: Row, context: Context, state: int, scores: torch.Tensor, number: int) -> list[_Trial]:
        """Trials with their first token, drawn from the scores of the step."""
        seeds = np.random.SeedSequence([self.seed, row.seed, *map(int, row.tokens)])
        made = []
        for one in seeds.generate_state(number, np.uint64):
            generator = torch.Generator().manual_seed(int(one) >> 1)
            made.append(_Trial(row, context, state, generator))
        self._take(made, scores.double().expand(number, -1))
        return made

    def _take(self, trials: Sequence[_Trial], scores: torch.Tensor) -> None:
        """Draws the next token of each trial from ``softmax(scores)``."""
        uniforms = torch.stack([torch.rand((), dtype=torch.float64, generator=trial.generator) for trial in trials])
        tokens = draw(scores, uniforms.to(scores.device))
        logprobs = scores.log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
        for trial, token, logprob in zip(trials, tokens.tolist(), logprobs.tolist()):
            trial.tokens.append(token)
            trial.logprob += logprob
            trial.context = trial.context.extend(token)
            trial.state = self._after(trial.state, [token])

    def _finish(self, trials: list[_Trial]) -> None:
        """Draws until each trial has come to a stop."""
        while trials := [t for t in trials if t.tokens[-1] not in self.stops and len(t.tokens) < self.longest and not self._dead(t)]:
            logprobs = self.reader.model.next_logprobs([trial.context for trial in trials])
            texts = [trial.text for trial in trials] if self.pipeline.reads_text else []
            warped, _ = self.pipeline.apply(texts, logprobs, self._allowed(trials, logprobs))
            self._take(trials, warped)

    def _dead(self, trial: _Trial) -> bool:
        """Whether the trial has left the language (by a first token that a mask behind this warper will forbid)."""
        if self.automaton is None or trial.state != self.automaton.DEAD:
            return False
        trial.logprob = -math.inf
        return True

    def _allowed(self, trials: Sequence[_Trial], logprobs: torch.Tensor) -> torch.Tensor | None:
        automaton = self.automaton
        if automaton is None:
            return None
        if self._table is None or self._table.width != logprobs.shape[-1]:
            self._table = MaskTable(logprobs.shape[-1], logprobs.device, automaton.words)
        number = serial(automaton)
        return self._table.select(
            [(number, trial.state) for trial in trials], lambda i, row: automaton.fill_mask(trials[i].state, row[: automaton.words])
        ).allowed()
