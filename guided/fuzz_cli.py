"""``guided fuzz``: the mask prover on the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from .evaluation.fuzz import Summary

__all__ = ["fuzz"]

FOUND = 1


def fuzz(
    data: Annotated[Path | None, typer.Argument(help="Folder with MaskBench: schemas are grown from real ones too.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="guided, llguidance, xgrammar, xgrammar-strict or outlines-core.")] = "guided",
    tokenizer: Annotated[str, typer.Option("--tokenizer", help="small, bytes, packaged, tekken, deepseek, a folder, a hub id.")] = "small",
    seed: Annotated[int, typer.Option("--seed", help="Of the first schema; the same seed is the same schema.")] = 0,
    count: Annotated[int | None, typer.Option("--count", "-n", help="How many schemas.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="As many schemas as fit into this time.")] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes.", min=1)] = 1,
    case_seconds: Annotated[float, typer.Option("--case-seconds", help="Time limit of a schema; more is a failure.")] = 30.0,
    shrink_seconds: Annotated[float, typer.Option("--shrink-seconds", help="For making a failure smaller.")] = 10.0,
    show: Annotated[int, typer.Option("--show", help="How many failures to print.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Try random schemas, and look for wrong masks and dead ends.

    Each schema is grown at random or out of a real one. Walks under the token masks must end in texts that the jsonschema package calls
    valid, and must be finishable wherever they stop; candidates for instances must be accepted if and only if they are valid. Failures
    are shrunk and printed as test cases. For other engines than guided only invalid texts, dead ends and crashes count.

    Exit codes: 0 nothing found, 1 a failure was found, 2 bad input.
    """
    from rich.console import Console

    from .evaluation.fuzz import fuzz as run
    from .evaluation.prover import as_test

    console = Console(stderr=True, highlight=False)
    with console.status("growing schemas") as status:

        def report(summary: Summary) -> None:
            status.update(f"{summary.schemas} schemas: {summary.passed} passed, {summary.refused} refused, {summary.failed} failed")

        summary = run(
            engine=engine,
            tokenizer=tokenizer,
            data=data,
            seed=seed,
            count=count if count or seconds else 500,
            seconds=seconds,
            workers=workers,
            case_seconds=case_seconds,
            shrink_seconds=shrink_seconds,
            report=report,
        )
    if as_json:
        typer.echo(json.dumps(_plain(summary), indent=2, ensure_ascii=False))
    else:
        for at, finding in summary.findings[:show]:
            typer.echo(as_test(finding, f"fuzz_{at}", engine) + "\n")
        _tell(summary, show)
    if summary.findings:
        raise typer.Exit(FOUND)


def _tell(summary: Summary, show: int) -> None:
    typer.echo(
        f"{summary.schemas} schemas: {summary.passed} passed, {summary.refused} refused, {summary.failed} failed; "
        f"{summary.instances} instances ({summary.valid} valid), {summary.walks} walks; no verdict on {summary.unknown} texts"
    )
    kinds = Counter(finding.kind for _, finding in summary.findings)
    if kinds:
        typer.echo("failures: " + ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()))
    for reason, number in summary.reasons.most_common(show):
        typer.echo(f"refused {number:>5}: {reason}")


def _plain(summary: Summary) -> dict[str, object]:
    from dataclasses import asdict

    rows = [{"seed": seed, **asdict(finding)} for seed, finding in summary.findings]
    counts = {name: getattr(summary, name) for name in ("schemas", "passed", "refused", "failed", "instances", "valid", "walks", "unknown")}
    return {**counts, "reasons": dict(summary.reasons.most_common()), "findings": rows}
