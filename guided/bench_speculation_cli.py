"""``guided bench speculation``: ways to decode, by tokens a second."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Annotated

import typer

from .bench_cli import DataArgument, JsonOption, MarkdownOption, OutOption, SeedOption, bar_console, reported

__all__ = ["register"]

_BESIDE = "plain; transformers; transformers, prompt lookup; transformers, assisted (own first layers)"
_OURS = "forced tokens; lookup; sam; recycling; auto"


def speculation(
    data: DataArgument,
    out: OutOption = Path("bench-speculation"),
    prompts: Annotated[int, typer.Option("--prompts", help="Prompts of each group of Spec-Bench.", min=0)] = 2,
    schemas: Annotated[int, typer.Option("--schemas", help="MaskBench schemas, each with a record to write as JSON.", min=0)] = 8,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens of a text, at most.", min=2)] = 128,
    ways: Annotated[
        str, typer.Option("--ways", help="Names with semicolons between them, or 'all'; a wrong name lists them.")
    ] = f"{_BESIDE}; {_OURS}",
    model: Annotated[str, typer.Option("--model", "-m", help="'packaged', a folder, a hub id.")] = "packaged",
    device: Annotated[str | None, typer.Option("--device", help="Where the model runs: cpu, cuda.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Of the weights: float32, bfloat16, float16.")] = None,
    threads: Annotated[int, typer.Option("--threads", help="Of torch; 0 leaves them as they are.", min=0)] = 0,
    cpu: Annotated[bool, typer.Option("--cpu/--wall", help="The clock: CPU time of the process, or wall time.")] = False,
    seed: SeedOption = 7,
    plot: Annotated[Path | None, typer.Option("--plot", help="A picture of the speed-ups.")] = None,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time speculative decoding beside plain decoding and transformers.

    Spec-Bench prompts by group, and JSON extraction with MaskBench schemas; greedy, all ways in turn on each text. A stopped run goes on
    where it was.
    """
    from .evaluation import speculation as measure
    from .evaluation import speculation_report as report

    with reported():
        import torch

        from .model import load

        if threads:
            torch.set_num_threads(threads)
        loaded = load(None if model == "packaged" else model, device, dtype)
        names = list(measure.WAYS) if ways == "all" else [name.strip() for name in ways.split(";") if name.strip()]
        tasks = measure.spec_bench_tasks(data, prompts, seed) if prompts else []
        tasks += measure.json_tasks(data, schemas, seed, loaded.vocabulary) if schemas else []
        random.Random(seed).shuffle(tasks)  # so that a run that is cut short has seen all groups
        options = {"device": device, "dtype": dtype, "threads": torch.get_num_threads(), "cpu": cpu}
        clock = time.process_time if cpu else time.perf_counter
        console = bar_console()
        found = report.summary(measure.run(tasks, names, loaded, out, max_tokens=max_tokens, clock=clock, options=options, console=console))
        if plot is not None:
            report.plot(found, plot)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    elif markdown:
        typer.echo(report.markdown(found))
    else:
        from rich.console import Console

        report.show(found, Console())


def register(app: typer.Typer) -> None:
    """Adds the command to ``guided bench``."""
    app.command("speculation")(speculation)
