"""Structured output: :func:`generate` and :func:`stream`."""

from __future__ import annotations

import codecs
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from grammars import ModelError
from samplers.masked import Request, Step, decode
from samplers.sampling import Settings

from .drafting import opened, rounds
from .inputs import Target, target_of
from .model import Compiled, Model, load
from .partial import NOTHING
from .prompts import Prompt, is_single, prompt_ids
from .result import Partial, Result, Timings
from .searching import Search, checked
from .searching import search as run_search

if TYPE_CHECKING:
    from samplers.search.frontier import Progress, SearchBudget
    from samplers.search.trace import Trace
    from samplers.warpers import Pipeline, Warper

    from .strategies import Strategy

__all__ = ["generate", "stream"]


@dataclass
class _Text:
    """One row while it is generated."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    log_kept: list[float] = field(default_factory=list)
    reason: Any = None

    def add(self, step: Step) -> None:
        self.tokens.append(step.token)
        self.logprobs.append(step.logprob)
        self.log_kept.append(step.log_kept)
        self.reason = step.reason


class _Job:
    """The arguments of one call, checked and prepared."""

    def __init__(self, model: Any, prompts: Sequence[Prompt], constraint: Any, options: _Options) -> None:
        self.began = time.perf_counter()
        self.model = model if isinstance(model, Model) else load(model)
        self.settings = Settings(options.temperature, options.top_k, options.top_p)
        self.warpers = _shaping(options, self.model)
        self.draft = opened(options.draft)
        if options.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {options.max_tokens}")
        self.target: Target = target_of(constraint)
        started = time.perf_counter()
        self.compiled: Compiled = self.model.compile(constraint, self.target)
        self.compile_time = time.perf_counter() - started
        seeds = _seeds(secrets.randbits(63) if options.seed is None else options.seed, len(prompts))
        self.requests = [self._request(prompt, seed, options) for prompt, seed in zip(prompts, seeds)]

    def _request(self, prompt: Prompt, seed: int, options: _Options) -> Request:
        ids = prompt_ids(self.model, prompt, self.target, chat=options.chat, instruct=options.instruct)
        room = options.max_tokens if self.model.context is None else min(options.max_tokens, self.model.context - len(ids))
        if room < 1:
            raise ModelError(
                f"the prompt has {len(ids)} tokens and {self.model.name} takes {self.model.context}, answer included: shorten the prompt"
            )
        budget = self.compiled.budget if options.budget else None
        if budget is not None:
            budget.check(room)
        return Request(ids, self.compiled.automaton, room, seed, budget)

    def steps(self, requests: Sequence[Request]) -> Iterator[Iterable[Step]]:
        if self.draft is not None:
            return rounds(self.model, requests, self.draft, self.settings, self.warpers)
        return decode(self.model.model, requests, self.model.vocabulary.eos_token_ids, self.settings, self.model.masks, self.warpers)

    def result(self, request: Request, made: _Text, first: float) -> Result:
        text = self.model.vocabulary.decode(made.tokens).decode("utf-8", "replace")
        total = time.perf_counter() - self.began
        return Result(
            self.value(text, made.reason == "complete"),
            text,
            made.tokens,
            made.reason,
            made.logprobs,
            made.log_kept,
            len(request.prompt),
            request.seed,
            Timings(self.compile_time, first, total),
        )

    def value(self, text: str, complete: bool) -> Any:
        if not complete and self.target.schema is not None:
            return None
        try:
            return self.target.parse(text)
        except ValidationError:
            raise
        except ValueError:
            if complete:
                raise
            return None


@dataclass(frozen=True)
class _Options:
    max_tokens: int
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int | None
    budget: bool
    chat: bool
    instruct: bool
    warpers: Pipeline | Sequence[Any] | None = None
    guide: Warper | Sequence[Warper] | None = None
    draft: Any = None


def _shaping(options: _Options, model: Model) -> Pipeline | None:
    """The warpers, and the guide behind them; ``None`` where there is neither."""
    if options.warpers is None and options.guide is None:
        return None
    from samplers.guides import with_guide

    return with_guide(options.warpers, options.guide, model.vocabulary.eos_token_ids)


def _seeds(seed: int, count: int) -> list[int]:
    """A seed a row; the first one is ``seed`` itself, so that a prompt alone and at the head of a batch gives the same."""
    return [seed if i == 0 else int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0] >> 1) for i in range(count)]


def generate(
    model: Model | str | Path | tuple[Any, Any] | None,
    prompt: Prompt | Sequence[Prompt],
    constraint: Any = None,
    *,
    max_tokens: int = 256,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    budget: bool = True,
    batch_size: int = 8,
    chat: bool = True,
    instruct: bool = True,
    warpers: Pipeline | Sequence[Any] | None = None,
    guide: Warper | Sequence[Warper] | None = None,
    draft: Any = None,
    search: Strategy | None = None,
    search_budget: SearchBudget | None = None,
    trace: Trace | str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Any:
    """Text that fits a constraint, and its value.

    Args:
        model: what :func:`guided.load` returns (or takes: but then it is loaded on each call).
        prompt: a text; messages (``[{"role": "user", "content": "..."}, ...]``); or a list of such prompts.
        constraint: a constraint, a schema, a type, ...: see :mod:`guided.inputs`. ``None`` is free text.
        max_tokens: tokens to generate at most, the end token included. A text is complete within it (see ``budget``). Where the
            model's context has less room, that is the number.
        temperature: 0 is greedy; 1 is the model's own distribution over the allowed tokens.
        top_k, top_p: restrict the allowed tokens to the most probable ones.
        seed: of the randomness; same seed, same text. ``None`` draws one (it is in the result).
        budget: close in time: when what is left just suffices for the shortest completion, only tokens that close are allowed. If false a
            text may be cut (``finish_reason == "length"``).
        batch_size: prompts that run through the model together.
        chat: put a text into the model's chat template, where it has one.
        instruct: tell a chat model the schema, in a paragraph behind the user's last message; what the user wrote stays as it is.
        warpers: a :class:`samplers.warpers.Pipeline`, or its parts in order (logits processors of Hugging Face, too): they shape each
            step's distribution before ``temperature``, ``top_k`` and ``top_p`` do. The constraint's mask comes first, or where
            ``CONSTRAINT`` stands among them; the pipeline's ``law`` and ``target`` state what a step then follows.
        guide: one of :mod:`samplers.guides`, or several in order: a reward, a value, a classifier or other models steer each step. It comes
            after the mask and the warpers, so it is asked about allowed tokens only.
        draft: speculative decoding: several tokens a forward, and the same law (for drafts that are looked up, the same text). A name
            (``"auto"``, ``"lookup"``, ``"sam"``, ``"recycling"``, ``"forced"``, ...), a model that drafts, a drafter, or a
            :class:`guided.Speculation`: see :mod:`guided.drafting`.
        search: a strategy of :mod:`guided.strategies`: the text is searched for instead of sampled, and ``result.search`` has its score,
            the alternatives and what the search cost. ``temperature`` is then that of the distribution that is searched, above 0.
        search_budget: what each search may spend; at its end the result is the best text so far.
        trace: of one search: a :class:`samplers.search.trace.Trace` that receives the search tree, or the file to write it to: a page for a
            name that ends in ``.html``, JSON otherwise.
        progress: called during a search with a :class:`samplers.search.frontier.Progress`.

    Returns:
        A :class:`Result`, or a list of them for a list of prompts.

    Raises:
        ConstraintError: the constraint is malformed, unsupported, or ``max_tokens`` is less than its shortest text needs.
        ModelError: a model cannot be loaded, or does not take this prompt; ``draft`` is none.
        ValueError: a sampling parameter is out of range.
        pydantic.ValidationError: the type has validators of its own beyond its schema, and they refuse the value.
    """
    single = is_single(prompt)
    prompts: Sequence[Any] = [prompt] if single else prompt
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    options = _Options(max_tokens, temperature, top_k, top_p, seed, budget, chat, instruct, warpers, guide, draft)
    job = _Job(model, prompts, constraint, options)
    if search is not None:
        if draft is not None:
            raise ValueError("a search does not sample token by token: leave draft out")
        return _searched(job, Search(search, search_budget, trace, progress), temperature, {"guide": guide, "warpers": warpers}, single)
    if (search_budget, trace, progress) != (None, None, None):
        raise ValueError("search_budget, trace and progress are of a search: give search=..., a strategy of guided.strategies")
    results: list[Result] = []
    for at in range(0, len(job.requests), batch_size):
        results += _batch(job, job.requests[at : at + batch_size])
    return results[0] if single else results


def _searched(job: _Job, wanted: Search, temperature: float, shaping: dict[str, Any], single: bool) -> Any:
    """The results of a strategy, prompt by prompt: they share the model's cache of prefixes."""
    steps = {"top_k": job.settings.top_k, "top_p": job.settings.top_p, **shaping}
    checked(wanted, len(job.requests), temperature, steps)
    results = [run_search(job.model, request, wanted, temperature, job.value, job.compile_time, job.began) for request in job.requests]
    return results[0] if single else results


def _batch(job: _Job, requests: Sequence[Request]) -> list[Result]:
    texts = [_Text() for _ in requests]
    first = 0.0
    for steps in job.steps(requests):
        first = first or time.perf_counter() - job.began
        for step in steps:
            texts[step.row].add(step)
    return [job.result(request, text, first) for request, text in zip(requests, texts)]


def stream(
    model: Model | str | Path | tuple[Any, Any] | None,
    prompt: Prompt,
    constraint: Any = None,
    *,
    max_tokens: int = 256,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    budget: bool = True,
    chat: bool = True,
    instruct: bool = True,
    warpers: Pipeline | Sequence[Any] | None = None,
    guide: Warper | Sequence[Warper] | None = None,
    draft: Any = None,
) -> Iterator[Partial | Result]:
    """As :func:`generate` for one prompt, piece by piece.

    The same seed gives the same text as :func:`generate`. Errors in what was asked are raised on the call, not on the first piece.

    Returns:
        An iterator of one :class:`Partial` for every step that adds text (its ``value`` is the object so far, see
        :mod:`guided.partial`), and the :class:`Result` at the end.
    """
    if not is_single(prompt):
        raise ValueError("stream takes one prompt (a text or a list of messages); generate takes lists of prompts")
    options = _Options(max_tokens, temperature, top_k, top_p, seed, budget, chat, instruct, warpers, guide, draft)
    return _pieces(_Job(model, [prompt], constraint, options))


def _pieces(job: _Job) -> Iterator[Partial | Result]:
    made, text, first = _Text(), "", 0.0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for step in (step for steps in job.steps(job.requests) for step in steps):
        first = first or time.perf_counter() - job.began
        made.add(step)
        delta = decoder.decode(job.model.vocabulary.decode([step.token]), step.reason is not None)
        if delta:
            text += delta
            value = job.target.partial(text)
            yield Partial(None if value is NOTHING else value, text, delta)
    yield job.result(job.requests[0], made, first)
