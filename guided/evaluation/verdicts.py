"""Judges schema collections with the JSON Schema front-end, and prints what came of it.

    python -m guided.evaluation.verdicts --data DATA --out OUT [--suite maskbench|official|all] [--sample N] [--times] ...

Every schema is compiled and its labelled instances are run through the automaton, in guarded worker processes. The
records go to ``OUT/verdicts-<suite>.jsonl``, one line a schema; a run that was stopped goes on where it was, unless the
code or the options have changed since, in which case it begins afresh. See :class:`.judge.Record` for the fields.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import grammars
from grammars.errors import GuidedError

from . import report
from .judge import PACKAGED, Judge
from .pool import Guard
from .suites import Case, maskbench, sample, schema_test_suite, suite_remotes

__all__ = ["app", "bar_of", "bench", "code_digest", "earlier", "judge_cases", "suite_cases"]

OPTIONS: dict[str, dict[str, Any]] = {
    "maskbench": {},  # its instances have their keys in schema order
    "official": {"order": "any", "format": "annotation"},  # a validator's test: key order means nothing, format need not be checked
}
SUITES = tuple(OPTIONS)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
"""The command line of this module."""


def code_digest() -> str:
    """A digest of the source of :mod:`grammars` and of this package: records of other code are not mixed with ours."""
    digest = hashlib.sha256()
    for folder in (Path(grammars.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def earlier(path: Path, header: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The records of an earlier run of the same code and options, by id; empty where there is none."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as lines:
        rows = []
        for line in lines:
            try:
                rows.append(json.loads(line))
            except ValueError:
                break  # the line in which the run was stopped
    if not rows or rows[0] != header:
        return {}
    return {row["id"]: row for row in rows[1:]}


def bar_of(console: Console | None) -> Progress:
    """A progress bar on ``console``; an invisible one for ``None``."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console or Console(stderr=True), disable=console is None)


def judge_cases(
    cases: Sequence[Case],
    out: Path,
    *,
    tokenizer: str | None = None,
    times: bool = False,
    cpu: bool = False,
    options: Mapping[str, Any] | None = None,
    remotes: Mapping[str, Any] | None = None,
    spellings: int = 0,
    seed: int = 0,
    workers: int = 2,
    seconds: float = 10.0,
    megabytes: int = 4096,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Judges ``cases`` and writes their records to the file ``out`` (JSON lines; the first is about the run).

    Args:
        cases: ids must be unique.
        out: of an earlier run of the same code and options: what it holds is not judged again.
        tokenizer: see :func:`.judge.load_vocabulary`; ``None`` for a vocabulary of single bytes.
        times: measure the masks too (with one worker, unless the machine is idle enough for more).
        cpu: count the process's own CPU time, which a busy machine disturbs less, instead of the wall clock's.
        options, remotes, spellings, seed: see :class:`.judge.Judge`.
        workers, seconds, megabytes: see :class:`.pool.Guard`.
        console: where the progress bar goes; ``None`` for none.

    Returns:
        The records in the order of ``cases``.
    """
    clocks = {"times": times, "cpu": cpu, "spellings": [spellings, seed]}
    header = {"run": code_digest(), "tokenizer": tokenizer, **clocks, "options": dict(options or {}), "limits": [seconds, megabytes]}
    records = earlier(out, header)
    todo = [case for case in cases if case.id not in records]
    splits = {case.id: case.split for case in cases}
    out.parent.mkdir(parents=True, exist_ok=True)
    progress = bar_of(console)
    clock = time.process_time_ns if cpu else time.perf_counter_ns
    judge = partial(Judge, tokenizer, times=times, options=options, remotes=remotes, spellings=spellings, seed=seed, clock=clock)
    guard = Guard(judge, workers=min(workers, len(todo)), seconds=seconds, megabytes=megabytes)
    with out.open("w", encoding="utf-8") as lines, progress:
        for row in [header, *records.values()]:
            lines.write(json.dumps(row) + "\n")
        bar = progress.add_task(out.stem, total=len(cases), completed=len(cases) - len(todo))
        for name, answer in guard.run((case.id, case) for case in todo):
            row = {"id": name, "split": splits[name], **answer}
            records[name] = row
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            progress.advance(bar)
    return [records[case.id] for case in cases]


def suite_cases(suite: str, data: Path, *, splits: Sequence[str] = (), optional: bool = False) -> list[Case]:
    """The cases of ``maskbench`` or of the ``official`` test suite (``splits``: its drafts)."""
    if suite == "maskbench":
        return maskbench(data, splits)
    if suite == "official":
        return schema_test_suite(data, splits, optional=optional)
    raise GuidedError(f"no suite {suite!r}; there are {', '.join(SUITES)}")


@app.command()
def bench(
    data: Annotated[Path, typer.Option(help="folder that holds the collections")],
    out: Annotated[Path, typer.Option(help="folder for the records")] = Path("out"),
    suite: Annotated[str, typer.Option(help="maskbench, official or all")] = "all",
    split: Annotated[list[str] | None, typer.Option(help="only this split (or draft); may be given again")] = None,
    count: Annotated[int, typer.Option("--sample", help="about so many schemas of a suite, splits in proportion; 0 for all")] = 0,
    seed: Annotated[int, typer.Option(help="of the sample")] = 7,
    optional: Annotated[bool, typer.Option(help="the optional cases of the official suite too")] = False,
    times: Annotated[bool, typer.Option(help="measure the masks of MaskBench too")] = False,
    cpu: Annotated[bool, typer.Option("--cpu/--wall", help="the clock of the times")] = False,
    tokenizer: Annotated[str, typer.Option(help="for the times: a folder or hub name, or the packaged model's")] = PACKAGED,
    order: Annotated[str | None, typer.Option(help="of keys: schema (MaskBench's default) or any (the official suite's)")] = None,
    workers: Annotated[int, typer.Option(min=1)] = 2,
    seconds: Annotated[float, typer.Option(help="time limit of one schema")] = 10.0,
    megabytes: Annotated[int, typer.Option(help="memory limit of one worker")] = 4096,
    show: Annotated[int, typer.Option(help="how many reasons and wrong verdicts to list")] = 20,
) -> None:
    """Judges MaskBench and the official JSON Schema test suite with this library."""
    console = Console(stderr=True)
    try:
        if order not in (None, "schema", "any"):
            raise GuidedError(f"--order is schema or any, not {order!r}")
        for name in SUITES if suite == "all" else (suite,):
            cases: Iterable[Case] = suite_cases(name, data, splits=split or (), optional=optional)
            chosen = sample(cases, count, seed) if count else list(cases)
            timed = times and name == "maskbench"
            records = judge_cases(
                chosen,
                out / f"verdicts-{name}.jsonl",
                tokenizer=tokenizer if timed else None,
                times=timed,
                cpu=cpu,
                options=OPTIONS[name] | ({"order": order} if order else {}),
                remotes=suite_remotes(data) if name == "official" else None,
                workers=workers,
                seconds=seconds,
                megabytes=megabytes,
                console=console,
            )
            report.show(records, Console(width=None if sys.stdout.isatty() else 160), title=name, limit=show)
    except GuidedError as error:
        console.print(f"error: {error}", style="red", highlight=False)
        raise typer.Exit(2) from error


if __name__ == "__main__":
    app()
