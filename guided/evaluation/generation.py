"""JSONSchemaBench (Geng et al. 2025): a model writes an instance of each schema; coverage, compliance and times."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from grammars import JsonSchema
from grammars.errors import ConstraintError, GuidedError

from .pool import Guard
from .report import PERCENTILES, percentiles
from .suites import Case
from .tables import markdown_lines
from .verdicts import bar_of, code_digest, earlier

__all__ = ["Writer", "Written", "markdown", "run_generation", "show", "summary"]

PROMPT = "Write a JSON value that is a realistic example of what the schema describes."
STATUSES = ("valid", "invalid", "cut", "too long", "refused", "error", "crash", "timeout", "memory")
TIMES = ("compile ms", "first token ms", "token ms")


@dataclass(slots=True)
class Written:
    """What became of one schema.

    Attributes:
        status: ``valid``, ``invalid``, ``cut`` (not complete within the tokens), ``too long`` (its shortest text has more tokens
            than allowed), ``refused`` (at compile time), ``error``; or by the guard.
        text: what was written.
        tokens: their number.
        compile_ms, first_ms, token_ms: to compile, until the first token (compilation included), and for each further one.
    """

    id: str
    split: str
    status: str = "valid"
    reason: str = ""
    text: str = ""
    tokens: int = 0
    compile_ms: float | None = None
    first_ms: float | None = None
    token_ms: float | None = None


class Writer:
    """Writes an instance of a schema with a model; a picklable task for :class:`.pool.Guard`.

    Args:
        model, device, dtype: see :func:`guided.load`; ``"packaged"`` is the demo model.
        options: of :func:`guided.generate`.
    """

    def __init__(self, model: str, device: str | None, dtype: str | None, options: Mapping[str, Any]) -> None:
        from guided.model import load

        self.model, self.options = load(None if model == "packaged" else model, device, dtype), dict(options)
        from guided.api import generate

        generate(self.model, "warm-up", JsonSchema({"type": "integer"}), max_tokens=4)

    def __call__(self, case: Case) -> dict[str, Any]:
        """The :class:`Written` of a case, as a dict."""
        from guided.api import generate

        record = Written(case.id, case.split)
        try:
            begin = time.perf_counter()
            JsonSchema(case.schema).compile(self.model.vocabulary)
            record.compile_ms = (time.perf_counter() - begin) * 1e3
        except GuidedError as error:
            record.status, record.reason = "refused", str(error)[:300]
            return asdict(record)
        try:
            result = generate(self.model, PROMPT, case.schema, **self.options)
        except ConstraintError as error:
            record.status, record.reason = "too long", str(error)[:300]
            return asdict(record)
        except (MemoryError, TimeoutError):
            raise  # the guard's business
        except Exception as error:
            record.status, record.reason = "error", f"{type(error).__name__}: {error}"[:300]
            return asdict(record)
        record.text, record.tokens, times = result.text, len(result.tokens), result.timings
        record.first_ms = times.first * 1e3
        record.token_ms = (times.total - times.first) * 1e3 / max(1, record.tokens - 1)
        if result.finish_reason != "complete":
            record.status = "cut"
        elif not _valid(case.schema, result.text):
            record.status = "invalid"
        return asdict(record)


def _valid(schema: Any, text: str) -> bool:
    """What ``jsonschema`` says, formats included."""
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    kind = validator_for(schema)
    return bool(kind(schema, registry=REGISTRY, format_checker=kind.FORMAT_CHECKER).is_valid(json.loads(text)))


def run_generation(
    cases: Sequence[Case],
    out: Path,
    *,
    model: str,
    device: str | None = None,
    dtype: str | None = None,
    console: Console | None = None,
    case_seconds: float = 600.0,
    megabytes: int = 16384,
    **options: Any,
) -> list[dict[str, Any]]:
    """Has an instance of each case written; records in the order of ``cases``, kept in ``out/schemas.jsonl`` (resumable).

    Args:
        model, device, dtype, options: see :class:`Writer`.
        console: where the progress bar goes; ``None`` for none.
        case_seconds, megabytes: limits of one schema.
    """
    try:
        import jsonschema  # noqa: F401
    except ImportError:
        raise GuidedError("this needs the package jsonschema: pip install jsonschema") from None
    out.mkdir(parents=True, exist_ok=True)
    path = out / "schemas.jsonl"
    header = {"run": code_digest(), "model": model, "device": device, "dtype": dtype, "options": options}
    records = earlier(path, header)
    todo = [case for case in cases if case.id not in records]
    splits = {case.id: case.split for case in cases}
    guard = Guard(partial(Writer, model, device, dtype, options), workers=min(1, len(todo)), seconds=case_seconds, megabytes=megabytes)
    with path.open("w", encoding="utf-8") as lines, bar_of(console) as progress:
        for row in [header, *records.values()]:
            lines.write(json.dumps(row) + "\n")
        bar = progress.add_task("schemas", total=len(cases), completed=len(cases) - len(todo))
        for name, answer in guard.run((case.id, case) for case in todo):
            records[name] = {**asdict(Written(name, splits[name])), **answer}
            lines.write(json.dumps(records[name]) + "\n")
            lines.flush()
            progress.advance(bar)
    return [records[case.id] for case in cases]


def _coverage(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    count = {status: sum(row["status"] == status for row in rows) for status in STATUSES}
    declared = sum(row["compile_ms"] is not None for row in rows)
    return {
        "schemas": len(rows),
        "declared": declared / max(1, len(rows)),
        "empirical": count["valid"] / max(1, len(rows)),
        "compliance": count["valid"] / max(1, declared),
        **count,
    }


def summary(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The run in numbers: coverage by split (all of them under ``"all"``), and statistics of the times."""
    rows = list(records)
    splits = {split: _coverage([row for row in rows if row["split"] == split]) for split in sorted({row["split"] for row in rows})}
    series = {
        "compile ms": [row["compile_ms"] for row in rows if row["compile_ms"] is not None],
        "first token ms": [row["first_ms"] for row in rows if row["first_ms"] is not None],
        "token ms": [row["token_ms"] for row in rows if row["token_ms"] is not None and row["tokens"] > 1],
    }
    names = ("mean", *(f"p{p:g}" for p in PERCENTILES), "max")
    times = {what: {"n": len(values), **dict(zip(names, percentiles(values)))} for what, values in series.items() if values}
    return {"coverage": {**splits, "all": _coverage(rows)}, "times": times}


def _rows(found: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    shares = ("declared", "empirical", "compliance")
    rows = [
        [split, str(row["schemas"]), *(f"{100 * row[s]:.1f} %" for s in shares), *(str(row[s] or "") for s in STATUSES)]
        for split, row in found["coverage"].items()
    ]
    tables = [("coverage", ["split", "schemas", *shares, *STATUSES], rows)]
    if found["times"]:
        head = ["", *next(iter(found["times"].values()))]
        cells = [[what, *(f"{v:,.2f}" if k != "n" else str(v) for k, v in row.items())] for what, row in found["times"].items()]
        tables.append(("times", head, cells))
    return tables


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints a :func:`summary`."""
    for title, head, rows in _rows(found):
        table = Table(*head, title=title)
        for row in rows:
            table.add_row(*row)
        console.print(table)


def markdown(found: Mapping[str, Any]) -> str:
    """A :func:`summary` as Markdown tables."""
    lines = []
    for _, head, rows in _rows(found):
        lines += markdown_lines(head, rows)
    return "\n".join(lines).rstrip()
