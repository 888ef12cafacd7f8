"""``guided bench search``: what searches find on a model, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .bench_cli import DataArgument, JsonOption, MarkdownOption, OutOption, SeedOption, bar_console, reported

__all__ = ["register"]


def search(
    data: DataArgument,
    part: Annotated[list[str] | None, typer.Option("--part", help="concepts, rewards, objects or beams; may be given again.")] = None,
    sample: Annotated[int, typer.Option("--sample", help="How many prompts a part.", min=1)] = 2,
    model: Annotated[str, typer.Option("--model", "-m", help="Folder or hub id of a model; 'packaged' is the packaged one.")] = "packaged",
    device: Annotated[str | None, typer.Option("--device", help="Where the model runs: cpu, cuda.")] = None,
    out: OutOption = Path("out"),
    seed: SeedOption = 7,
    picture: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw OUT/search-rewards.png too.")] = True,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare ways of searching.

    concepts: CommonGen's words; rewards: a lexicon, by what is spent; objects: summaries under a schema; beams: beside the beams of
    transformers. Every search is a line in OUT/search.jsonl; a larger --sample goes on from there.
    """
    from .evaluation.searches import report
    from .evaluation.searches.run import PARTS, run_searches
    from .evaluation.tables import print_tables
    from .model import load

    with reported():
        loaded = load(None if model == "packaged" else model, device)
        records = run_searches(loaded, data, out, parts=part or PARTS, sample=sample, seed=seed, console=bar_console())
        if picture:
            report.plot(records, out / "search-rewards.png")
    if as_json:
        typer.echo(json.dumps(records, ensure_ascii=False, indent=1))
    elif markdown:
        typer.echo(report.markdown(records))
    else:
        from rich.console import Console

        print_tables(report.tables(records), Console())


def register(app: typer.Typer) -> None:
    """Adds the command to ``guided bench``."""
    app.command("search")(search)
