"""``guided.generate(..., search=...)``: a strategy in the place of sampling token by token."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from .result import Alternative, Result, SearchReport, Timings
from .strategies import Setting, Strategy

if TYPE_CHECKING:
    from grammars import Vocabulary
    from samplers.masked import Request
    from samplers.models.context import Context
    from samplers.search.frontier import Found, Progress, SearchBudget, SearchResult
    from samplers.search.trace import Trace
    from samplers.target import Target

    from .model import Model

__all__ = ["Search", "checked", "search"]


@dataclass(frozen=True)
class Search:
    """What ``generate`` was told about the search.

    Attributes:
        strategy: see :mod:`guided.strategies`.
        budget, progress: see :mod:`samplers.search.frontier`.
        trace: receives the search tree, or where to write it: a path that ends in ``.html``, or another for JSON.
    """

    strategy: Strategy
    budget: SearchBudget | None = None
    trace: Trace | str | Path | None = None
    progress: Callable[[Progress], None] | None = None


def checked(search: Search, prompts: int, temperature: float, refused: dict[str, Any]) -> Search:
    """The search itself, where it goes together with the other arguments.

    Args:
        prompts: how many there are.
        refused: arguments that shape single steps, by name.

    Raises:
        ValueError: it does not.
    """
    if not isinstance(search.strategy, Strategy):
        raise ValueError(f"search is a strategy of guided.strategies, Beam(beams=4), say; not {search.strategy!r}")
    for name, value in refused.items():
        if value is not None:
            raise ValueError(f"a search looks at the model's own distribution: leave {name} out, or leave search out")
    if temperature == 0:
        raise ValueError("a search needs a temperature above 0: it divides the model's log-probabilities, and 1 leaves them as they are")
    if search.trace is not None and prompts > 1:
        raise ValueError(f"a trace is of one search: give one prompt, not {prompts}")
    return search


def search(
    model: Model, request: Request, wanted: Search, temperature: float, parse: Callable[[str, bool], Any], compile_time: float, began: float
) -> Result:
    """Searches for the text of one request.

    Args:
        request: prompt, automaton, tokens at most and seed; without a budget of its own a text may be cut.
        parse: from a text and whether it is complete to its value.
        compile_time, began: for :class:`Timings`.
    """
    from samplers.search.trace import Trace
    from samplers.target import Target

    vocabulary = model.vocabulary
    to_file = isinstance(wanted.trace, str | Path)
    trace = Trace() if to_file else wanted.trace
    assert trace is None or isinstance(trace, Trace)
    if trace is not None and trace.text is None:
        trace.text = _writer(vocabulary)
    target = Target(model.language_model, tuple(request.prompt), request.automaton, request.max_tokens, temperature)
    setting = Setting(
        target,
        texts=vocabulary,
        parse=lambda text: parse(text, True),
        ending="cut" if request.budget is None else "budget",
        seed=request.seed,
        budget=wanted.budget,
        trace=trace,
        progress=wanted.progress,
    )
    found = wanted.strategy.run(setting)
    found.best  # noqa: B018  # a DeadEnd where there is none
    if trace is not None:
        trace.conclude(found)
        if to_file:
            trace.save(wanted.trace)  # type: ignore[arg-type]
    logprobs, log_kept = _numbers(target, found.best)
    report = _report(found, vocabulary, parse)
    best, spent = report.alternatives[0], time.perf_counter() - began
    times = Timings(compile_time, spent, spent)
    seed, prompt = request.seed, len(request.prompt)
    return Result(best.value, best.text, best.tokens, best.finish_reason, logprobs, log_kept, prompt, seed, times, report)


def _writer(vocabulary: Vocabulary) -> Callable[[int], str]:
    def write(token: int) -> str:
        return vocabulary.tokens[token].decode("utf-8", "backslashreplace") if vocabulary.is_text(token) else ""

    return write


def _numbers(target: Target, found: Found) -> tuple[list[float], list[float]]:
    """Log-probabilities of the tokens at temperature 1, and logarithms of the mass that the automaton left at the target's."""
    contexts: list[Context] = [target.root.extend(found.tokens[:i]) for i in range(len(found.tokens))]
    rows = target.model.next_logprobs(contexts).to("cpu").double()
    logprobs = rows[range(len(contexts)), list(found.tokens)].tolist()
    if target.automaton is None:
        return logprobs, [0.0] * len(contexts)
    if target.temperature != 1:
        rows = (rows / target.temperature).log_softmax(-1)
    kept, state = [], target.start
    for row, token in zip(rows, found.tokens):
        kept.append(min(0.0, float(row[target.automaton_mask(state)].logsumexp(0))))
        state = target.advance(state, token)
    return logprobs, kept


def _report(result: SearchResult, vocabulary: Vocabulary, parse: Callable[[str, bool], Any]) -> SearchReport:
    return SearchReport(
        result.method,
        _alternatives(result.found, vocabulary, parse),
        result.complete,
        result.forwards,
        result.expansions,
        result.tokens,
        result.seconds,
        dict(result.details),
        result.trace,
    )


def _alternatives(found: Sequence[Found], vocabulary: Vocabulary, parse: Callable[[str, bool], Any]) -> list[Alternative]:
    """The texts with their values. One that its type refuses is an error only where it is the result itself."""
    made = []
    for place, one in enumerate(found):
        text = vocabulary.decode(one.tokens).decode("utf-8", "replace")
        reason: Literal["complete", "length"] = "complete" if one.finished else "length"
        try:
            value = parse(text, one.finished)
        except ValidationError:
            if place == 0:
                raise
            value = None
        made.append(Alternative(value, text, list(one.tokens), reason, one.score, one.logprob))
    return made
