"""``guided search``: what it reads (rewards, strategies and their fields) and writes (progress, the found texts, the trace)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from grammars.errors import ConstraintError, ModelError

from .sample_cli import function_of, options_of
from .strategies import STRATEGIES, OfValue, Strategy, strategy

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from samplers.search.frontier import Progress

    from .model import Model
    from .result import Result

__all__ = ["as_dict", "limits", "list_strategies", "made", "reward_of", "show", "shown"]

_SHOWN = 10  # texts in the table


def limits(forwards: int | None, tokens: int | None, seconds: float | None) -> Any:
    """The budget of the options; ``None`` where none is given."""
    from samplers.search.frontier import SearchBudget

    return None if (forwards, tokens, seconds) == (None, None, None) else SearchBudget(forwards, tokens, seconds)


def made(name: str, given: list[str], reward: Any) -> Strategy:
    """The strategy of the options.

    Args:
        name: in :data:`guided.strategies.STRATEGIES`.
        given: ``NAME=VALUE`` pairs.
        reward: a score, for the strategy's field of that kind; ``None``: none was asked for.

    Raises:
        ConstraintError: an option that is no pair; a reward for a strategy that takes none.
        ValueError: see :func:`guided.strategies.strategy`.
    """
    options = options_of(given)
    if reward is not None:
        fields = STRATEGIES[name].scores if name in STRATEGIES else ("reward",)
        if not fields:
            takes = ", ".join(known for known, kind in STRATEGIES.items() if kind.scores)
            raise ConstraintError(f"the strategy {name!r} takes no reward; these do: {takes}")
        options[fields[0]] = reward
    return strategy(name, {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()})


def reward_of(
    model: Model, function: str | None, of: str, lexicon: Path | None, classifier: str | None, label: str, scale: float
) -> Any:
    """The reward of the options; ``None`` if they ask for none.

    Args:
        function: ``FILE.py:NAME``.
        of: what the function is given: ``"text"`` or ``"value"``.
        lexicon: a file with a word a line, each followed by its weight (1 where there is none), or a JSON object of them.
        classifier: folder or hub id of a sequence classification model.
        label: index or name of its class.
        scale: the reward is multiplied by it.

    Raises:
        ConstraintError: more than one is given, or a file says something else.
        ModelError: the classifier cannot be loaded.
    """
    given = [name for name, value in (("--reward", function), ("--lexicon", lexicon), ("--classifier", classifier)) if value is not None]
    if len(given) > 1:
        raise ConstraintError(f"{' and '.join(given)} exclude each other: give one reward (a function may add several up)")
    if not math.isfinite(scale):
        raise ConstraintError(f"--scale must be a finite number, not {scale}")
    if of not in ("text", "value"):
        raise ConstraintError(f"--reward-of is 'text' or 'value', not {of!r}")
    if function is not None:
        judge = _scaled(function_of(function), scale)
        return OfValue(judge) if of == "value" else judge
    if lexicon is not None:
        from samplers.scores import Lexicon

        return Lexicon({word: weight * scale for word, weight in _lexicon(lexicon).items()}, model.vocabulary)
    if classifier is not None:
        from samplers.scores import Weighted

        return Weighted((_classifier(classifier, label, model), scale))
    return None


def _scaled(function: Callable[..., Any], scale: float) -> Callable[[Any], float]:
    return lambda what: scale * float(function(what))


def _lexicon(path: Path) -> dict[str, float]:
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("{"):
            return {str(word): float(weight) for word, weight in json.loads(text).items()}
        lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        return {parts[0]: float(parts[1]) if len(parts) > 1 else 1.0 for parts in lines}
    except (ValueError, TypeError) as error:
        raise ConstraintError(f"{path} is no lexicon: a word and its weight a line, or a JSON object of weights ({error})") from None


def _classifier(path: str, label: str, model: Model) -> Any:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from samplers.scores import Classifier

    try:
        network = AutoModelForSequenceClassification.from_pretrained(path, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} is no classifier that can be loaded: {error}") from None
    return Classifier(network, tokenizer, texts=model.vocabulary, label=int(label) if label.isdigit() else label, with_prompt=False)


# ---------------------------------------------------------------- what is written
@contextmanager
def shown(console: Console, what: str) -> Iterator[Callable[[Progress], None]]:
    """Progress on the console while a search runs; the callback for it."""
    with console.status(what) as status:

        def report(progress: Progress) -> None:
            best = "" if progress.best is None else f", best score {progress.best:.3f}"
            spent = f"{progress.forwards} forwards, {progress.expansions} expansions, {progress.tokens} tokens, {progress.seconds:.0f} s"
            status.update(f"{what}: {spent}, depth {progress.depth}{best}")

        yield report


def as_dict(result: Result) -> dict[str, Any]:
    """A result of a search as plain data; numbers that are not finite are ``None``."""
    report = result.search
    assert report is not None
    return {
        "method": report.method,
        "text": result.text,
        "score": _finite(report.score),
        "logprob": _finite(result.logprob),
        "finish_reason": result.finish_reason,
        "complete": report.complete,
        "forwards": report.forwards,
        "expansions": report.expansions,
        "tokens": report.tokens,
        "seconds": round(report.seconds, 3),
        "details": {name: _finite(value) for name, value in report.details.items()},
        "prompt_tokens": result.prompt_tokens,
        "seed": result.seed,
        "found": [
            {"text": one.text, "score": _finite(one.score), "logprob": _finite(one.logprob), "finish_reason": one.finish_reason}
            for one in report.alternatives
        ],
    }


def show(result: Result, console: Console, as_json: bool, all_texts: bool) -> None:
    """The text on the standard output (or all as JSON), the alternatives and what it cost on the console."""
    report = result.search
    assert report is not None
    if as_json:
        typer.echo(json.dumps(as_dict(result), ensure_ascii=False, indent=2, allow_nan=False))
        return
    typer.echo(result.text)
    if all_texts:
        console.print(_table(result))
    end = "" if report.complete else ", cut by its budget"
    spent = f"{report.forwards} forwards, {report.expansions} expansions, {report.tokens} tokens, {report.seconds:.1f} s"
    line = f"{report.method}: score {report.score:.3f}, log p {result.logprob:.2f}, {spent}, seed {result.seed}{end}"
    console.print(line, markup=False)


def _table(result: Result) -> Table:
    from rich.table import Table
    from rich.text import Text

    report = result.search
    assert report is not None
    table = Table("score", "log p", "text")
    for one in report.alternatives[:_SHOWN]:
        cut = " (cut)" if one.finish_reason == "length" else ""
        table.add_row(f"{one.score:.3f}", f"{one.logprob:.2f}", Text(one.text + cut))
    if len(report.alternatives) > _SHOWN:
        table.add_row("", "", Text(f"and {len(report.alternatives) - _SHOWN} more", style="dim"))
    return table


def list_strategies() -> None:
    """Writes the strategies with their fields."""
    import dataclasses

    for name, kind in STRATEGIES.items():
        about = (kind.__doc__ or "").split(";")[0].split(". ")[0].strip().rstrip(".")
        typer.echo(f"{name}: {about}")
        for each in dataclasses.fields(kind):  # type: ignore[arg-type]
            needed = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
            value = "needed" if needed else each.default
            typer.echo(f"    {each.name} = {value}" + (" (a reward)" if each.name in kind.scores else ""))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
