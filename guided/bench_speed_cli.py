"""``guided bench batches`` and ``guided bench start``: masks of whole batches, and what it takes to begin."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from grammars.errors import GuidedError

from .bench_cli import DataArgument, JsonOption, MarkdownOption, SeedOption, reported

__all__ = ["register"]


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",") if part]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise GuidedError(f"batch sizes are positive numbers with commas between them, not {text!r}")
    return found


def batches(
    data: DataArgument,
    tokenizer: Annotated[str, typer.Option("--tokenizer", help="packaged, tekken, deepseek, bytes, a folder or a hub id.")] = "packaged",
    engines: Annotated[
        str, typer.Option("--engines", help="Some of guided, llguidance, xgrammar, xgrammar-strict, with commas.")
    ] = "guided",
    sizes: Annotated[str, typer.Option("--batch", help="Numbers of rows, with commas between them.")] = "1,8,64,256",
    steps: Annotated[int, typer.Option("--steps", help="Tokens of each row.", min=1)] = 48,
    schemas: Annotated[int, typer.Option("--schemas", help="How many schemas the rows write.", min=1)] = 64,
    model: Annotated[
        str, typer.Option("--model", "-m", help="The model whose step the processor is compared with; 'none' leaves it out.")
    ] = "packaged",
    device: Annotated[str | None, typer.Option("--device", help="Where the model runs: cpu, cuda.")] = None,
    cpu: Annotated[bool, typer.Option("--cpu/--wall", help="The clock: CPU time of the process, or wall time.")] = True,
    seed: SeedOption = 7,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time the masks of whole batches.

    Beside other engines; and what GuidedLogitsProcessor adds to a model's step.

    Rows write instances of MaskBench schemas, step by step, first with fresh schemas (cold), then the same texts again (warm).
    """
    from .evaluation import batch_report
    from .evaluation.batches import fills, processor_steps, texts_of
    from .evaluation.suites import maskbench, sample
    from .evaluation.tokenizers import Tokens, load_tokens

    clock = time.process_time_ns if cpu else time.perf_counter_ns
    names = [name for name in engines.split(",") if name]
    with reported():
        numbers, cases = _numbers(sizes), sample(maskbench(data), 8 * schemas, seed)
        found: list[Any] = []
        if names:
            tokens = load_tokens(tokenizer)
            texts = texts_of(cases, tokens)
            for size in numbers:
                found += fills(texts, tokens, names, size, steps=steps, schemas=schemas, clock=clock)
        beside = []
        if model != "none":
            from .model import load

            loaded = load(None if model == "packaged" else model, device)
            texts = texts_of(cases, Tokens("model", loaded.vocabulary))
            beside = [processor_steps(texts, loaded, size, steps=steps, schemas=schemas, clock=clock) for size in numbers]
        run = {"tokenizer": tokenizer, "steps": steps, "schemas": schemas, "seed": seed, "cpu": cpu, "model": model, "device": device}
        result = batch_report.summary(found, beside, run)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    elif markdown:
        typer.echo(batch_report.markdown(result))
    else:
        from rich.console import Console

        batch_report.show(result, Console())


def start(
    schema: Annotated[Path | None, typer.Argument(help="A schema for 'guided explain' and for the first masks.")] = None,
    tokenizer: Annotated[str, typer.Option("--tokenizer", help="packaged, tekken, deepseek, a folder or a hub id.")] = "packaged",
    repeats: Annotated[int, typer.Option("--repeats", help="Processes for each figure.", min=1)] = 5,
    kernels: Annotated[bool, typer.Option("--kernels/--no-kernels", help="Compile all kernels anew too (up to minutes).")] = False,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time imports, commands, a vocabulary and the first mask.

    Each in fresh processes.
    """
    from .evaluation import start as measure

    with reported():
        found = measure.run(schema, tokenizer=tokenizer, repeats=repeats, kernels=kernels)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    elif markdown:
        typer.echo(measure.markdown(found))
    else:
        from rich.console import Console

        measure.show(found, Console())


def register(app: typer.Typer) -> None:
    """Adds the commands to ``guided bench``."""
    app.command("batches")(batches)
    app.command("start")(start)
