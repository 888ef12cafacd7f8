"""``guided bench scale`` and ``guided bench soak``: how cost grows with the work, and memory with time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grammars.errors import GuidedError

from .bench_cli import DataArgument, JsonOption, MarkdownOption, MemoryOption, OutOption, SeedOption, bar_console, reported

if TYPE_CHECKING:
    from .evaluation.soak import Sample

__all__ = ["register"]

TokenizerOption = Annotated[str, typer.Option("--tokenizer", help="packaged, tekken, deepseek, bytes, a folder or a hub id.")]


def scale(
    curve: Annotated[list[str] | None, typer.Option("--curve", help="Only this curve; may be given again.")] = None,
    engines: Annotated[
        str, typer.Option("--engines", help="Some of guided, llguidance, xgrammar, xgrammar-strict, outlines-core, with commas.")
    ] = "guided",
    tokenizer: TokenizerOption = "packaged",
    cpu: Annotated[bool, typer.Option("--cpu/--wall", help="The clock: CPU time of the process, or wall time.")] = True,
    points: Annotated[int, typer.Option("--points", help="This many points of each curve, from the smallest; 0 for all.", min=0)] = 0,
    repeats: Annotated[int, typer.Option("--repeats", help="Measure each point this many times, and take medians.", min=1)] = 3,
    out: OutOption = Path("out"),
    seed: SeedOption = 7,
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit of one point in one engine.")] = 60.0,
    megabytes: MemoryOption = 8192,
    picture: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw OUT/scale-<curve>.png too.")] = True,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how cost grows with the work.

    The work: schema size, enums, properties, depth, lengths, vocabulary, batch. The cost: compilation, first mask, masks, memory.
    Engines take turns point by point; every point is measured in a process of its own. The numbers also go to OUT/scale.json.
    """
    from .evaluation.masks import versions
    from .evaluation.scale import report
    from .evaluation.scale.curves import CURVES, curve_of
    from .evaluation.scale.run import run_scale

    with reported():
        chosen = [curve_of(name) for name in curve] if curve else list(CURVES)
        names = [name for name in engines.split(",") if name]
        rows = run_scale(
            chosen,
            out,
            engines=names,
            tokenizer=tokenizer,
            cpu=cpu,
            points=points,
            repeats=repeats,
            seconds=seconds,
            megabytes=megabytes,
            seed=seed,
            console=bar_console(),
        )
        run = {"tokenizer": tokenizer, "cpu": cpu, "repeats": repeats, "seconds": seconds, "versions": versions(names)}
        found = {"run": run, "points": rows}
        (out / "scale.json").write_text(json.dumps(found, indent=1))
        if picture:
            report.plots(rows, out)
    typer.echo(json.dumps(found, indent=1) if as_json else report.markdown(rows))


def soak(
    data: DataArgument,
    minutes: Annotated[float, typer.Option("--minutes", help="How long.")] = 60.0,
    tokenizer: TokenizerOption = "packaged",
    every: Annotated[float, typer.Option("--every", help="Seconds between two samples.")] = 15.0,
    bound: Annotated[
        float, typer.Option("--bound", help="Exit code 1 where the last third holds more than this times the middle third's memory.")
    ] = 1.1,
    out: OutOption = Path("out"),
    seed: SeedOption = 7,
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit of one schema.")] = 20.0,
    megabytes: MemoryOption = 8192,
) -> None:
    """See whether memory is bounded over a stream of new schemas.

    The schemas, MaskBench's and ones grown from them, all go through one process. Prints the resident size as it goes; the
    samples also go to OUT/soak.json.
    """
    from .evaluation.soak import growth, run_soak
    from .evaluation.suites import maskbench

    def told(sample: Sample) -> None:
        typer.echo(
            f"{sample.seconds:7.0f} s  {sample.schemas:7} schemas ({sample.refused} refused, {sample.failed} failed)  "
            f"{sample.masks:8} masks  {sample.resident_mb:8.1f} MB" + f"  {sample.restarts} restarts" * (sample.restarts > 0)
        )

    with reported():
        cases = maskbench(data)
        samples = run_soak(
            cases, tokenizer=tokenizer, minutes=minutes, every=every, seconds=seconds, megabytes=megabytes, seed=seed, told=told
        )
        out.mkdir(parents=True, exist_ok=True)
        found = {"run": {"tokenizer": tokenizer, "minutes": minutes, "seed": seed}, "samples": [sample.as_dict() for sample in samples]}
        (out / "soak.json").write_text(json.dumps(found, indent=1))
        if len(samples) < 6:
            raise GuidedError("too few samples to judge growth: give more --minutes, or a smaller --every")
        grown = growth(samples)
    typer.echo(f"the last third of the run holds {grown:.3f} times the memory of its middle third (bound {bound:g})")
    if grown > bound:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Adds the commands to ``guided bench``."""
    app.command("scale")(scale)
    app.command("soak")(soak)
