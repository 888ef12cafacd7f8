"""``guided bench``: the library measured on schema collections, alone and beside its peers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grammars.errors import GuidedError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DataArgument", "JsonOption", "MarkdownOption", "MemoryOption", "OutOption", "SeedOption", "app", "bar_console", "reported"]

app = typer.Typer(help="Measure verdicts, speed, memory and the laws of samplers.", no_args_is_help=True, rich_markup_mode=None)

DataArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the collections (see docs/evaluation.md).")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for the records; a stopped run goes on from there.")]
SampleOption = Annotated[int, typer.Option("--sample", help="About this many schemas, splits in proportion; 0 for all.", min=0)]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything drawn at random.")]
WorkersOption = Annotated[int, typer.Option("--workers", help="Processes.", min=1)]
SecondsOption = Annotated[float, typer.Option("--seconds", help="Time limit of one schema.")]
MemoryOption = Annotated[int, typer.Option("--megabytes", help="Memory limit of one worker, beyond what it holds when ready.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="The tables in Markdown, as the documents have them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="The numbers as JSON.")]


@contextmanager
def reported() -> Iterator[None]:
    """Errors of bad input as one line and exit code 2; an interruption as 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted: the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    except (GuidedError, OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def bar_console() -> Console:
    """Where progress bars go."""
    from rich.console import Console

    return Console(stderr=True)


def _page() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


@app.command("suite")
def suite(
    data: DataArgument,
    draft: Annotated[list[str] | None, typer.Option("--draft", help="4, 6, 7, 2019-09 or 2020-12; may be given again.")] = None,
    order: Annotated[str, typer.Option("--order", help="Order of an object's keys: any (what JSON Schema says), or schema.")] = "any",
    optional: Annotated[bool, typer.Option("--optional/--required", help="With the suite's optional files, or without.")] = True,
    spellings: Annotated[int, typer.Option("--spellings", help="Judge this many other spellings of each instance too.")] = 0,
    out: OutOption = Path("out"),
    sample: SampleOption = 0,
    seed: SeedOption = 7,
    workers: WorkersOption = 2,
    seconds: SecondsOption = 10.0,
    megabytes: MemoryOption = 4096,
    show: Annotated[int, typer.Option("--show", help="How many reasons and wrong verdicts to list.")] = 20,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
    write_ratchet: Annotated[Path | None, typer.Option("--write-ratchet", help="Write the verdicts to this ratchet file.")] = None,
) -> None:
    """Judge the official JSON Schema test suite.

    Counts right, wrongly accepted, wrongly rejected and refused instances, for each keyword file and draft.

    Formats are asserted in the files about formats and annotations elsewhere, as the suite means it.
    """
    from dataclasses import asdict

    from .evaluation import official, ratchet, report

    with reported():
        if order not in ("any", "schema"):
            raise GuidedError(f"--order is any or schema, not {order!r}")
        drafts = [name if name.startswith("draft") else f"draft{name}" for name in draft or ()]
        cases, records = official.run_suite(
            data,
            out,
            drafts=drafts,
            optional=optional,
            order=order,
            spellings=spellings,
            seed=seed,
            count=sample,
            workers=workers,
            seconds=seconds,
            megabytes=megabytes,
            console=bar_console(),
        )
        tallies = official.tally(cases, records)
        if write_ratchet is not None:
            ratchet.write(write_ratchet, "suite", ratchet.of_suite(cases, records))
    if as_json:
        rows = [{"draft": d, "file": file, **asdict(counts)} for (d, file), counts in tallies.items()]
        typer.echo(json.dumps(rows, indent=1))
    elif markdown:
        typer.echo(official.markdown(tallies))
    else:
        report.show(records, _page(), title="official test suite", limit=show)
        official.show(tallies, _page())


@app.command("masks")
def masks(
    data: DataArgument,
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", help="packaged, tekken, deepseek, bytes, a folder or a hub id; or several, with commas.")
    ] = ("packaged"),
    engines: Annotated[
        str, typer.Option("--engines", help="Some of guided, llguidance, xgrammar, xgrammar-strict, outlines-core, with commas.")
    ] = "guided",
    split: Annotated[list[str] | None, typer.Option("--split", help="Only this split; may be given again.")] = None,
    cpu: Annotated[bool, typer.Option("--cpu/--wall", help="The clock: CPU time of the process, or wall time.")] = True,
    out: OutOption = Path("out"),
    sample: SampleOption = 0,
    seed: SeedOption = 7,
    seconds: SecondsOption = 30.0,
    megabytes: MemoryOption = 8192,
    picture: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw OUT/masks.png too.")] = True,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time masks on MaskBench, of one engine or several.

    Measures compilation, the time to the first mask, the time of each mask, and verdicts.

    Engines take turns schema by schema, each in a guarded process of its own. The numbers also go to masks.json and masks.md in OUT, or,
    where several tokenizers are given (with commas between them), in a folder in OUT for each.
    """
    from .evaluation import mask_report
    from .evaluation.masks import run_masks, versions
    from .evaluation.suites import maskbench
    from .evaluation.suites import sample as chosen

    tokenizers = [name for name in tokenizer.split(",") if name]
    with reported():
        cases = maskbench(data, split or ())
        cases = chosen(cases, sample, seed) if sample else cases
        names = [name for name in engines.split(",") if name]
        options: dict[str, Any] = {"cpu": cpu, "seconds": seconds, "megabytes": megabytes}
        for name in tokenizers:
            folder = out / re.sub(r"[^\w.-]+", "_", name) if len(tokenizers) > 1 else out
            records = run_masks(cases, folder, tokenizer=name, engines=names, seed=seed, console=bar_console(), **options)
            run = {"tokenizer": name, "sample": sample, "schemas": len(cases), "seed": seed, "versions": versions(names), **options}
            found = mask_report.summary(records, run)
            (folder / "masks.json").write_text(json.dumps(found, indent=1))
            (folder / "masks.md").write_text(mask_report.markdown(found) + "\n")
            if picture:
                mask_report.plot(records, folder / "masks.png", f"MaskBench, {len(cases)} schemas, tokenizer {name}")
            if as_json:
                typer.echo(json.dumps(found, indent=1))
            elif markdown:
                typer.echo(mask_report.markdown(found))
            else:
                mask_report.show(found, _page())


@app.command("verdicts")
def verdicts(
    data: DataArgument,
    split: Annotated[list[str] | None, typer.Option("--split", help="Only this split; may be given again.")] = None,
    out: OutOption = Path("out"),
    sample: SampleOption = 0,
    seed: SeedOption = 7,
    workers: WorkersOption = 2,
    seconds: SecondsOption = 10.0,
    megabytes: MemoryOption = 4096,
    show: Annotated[int, typer.Option("--show", help="How many reasons and wrong verdicts to list.")] = 20,
    write_ratchet: Annotated[Path | None, typer.Option("--write-ratchet", help="Write the verdicts to this ratchet file.")] = None,
) -> None:
    """Judge MaskBench's instances, without times.

    This library alone, over single bytes, in several processes: much quicker than 'masks'.
    """
    from .evaluation import ratchet, report
    from .evaluation.suites import maskbench
    from .evaluation.suites import sample as chosen
    from .evaluation.verdicts import judge_cases

    with reported():
        cases = maskbench(data, split or ())
        cases = chosen(cases, sample, seed) if sample else cases
        limits: dict[str, Any] = {"workers": workers, "seconds": seconds, "megabytes": megabytes}
        records = judge_cases(cases, out / "verdicts-maskbench.jsonl", console=bar_console(), **limits)
        if write_ratchet is not None:
            ratchet.write(write_ratchet, "maskbench", ratchet.of_maskbench(cases, records))
    report.show(records, _page(), title="MaskBench", limit=show)


@app.command("schemas")
def schemas(
    data: DataArgument,
    model: Annotated[str, typer.Option("--model", "-m", help="packaged, a folder or a hub id.")] = "packaged",
    device: Annotated[str | None, typer.Option("--device", help="Where the model runs: cpu, cuda.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Type of the weights: float32, bfloat16.")] = None,
    split: Annotated[list[str] | None, typer.Option("--split", help="Only this split; may be given again.")] = None,
    out: OutOption = Path("out"),
    sample: SampleOption = 100,
    seed: SeedOption = 7,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens of one text, at most.", min=1)] = 256,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help="0 is greedy.")] = 0.0,
    budget: Annotated[
        bool, typer.Option("--budget/--no-budget", help="Complete the text within --max-tokens; without it a text may be cut.")
    ] = True,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let a model write an instance of each JSONSchemaBench schema.

    Reports coverage, compliance and times.

    Declared coverage: schemas that compile. Empirical coverage: schemas for which the text is valid, by the jsonschema package with its
    format checks. Compliance: empirical of declared.
    """
    from .evaluation import generation
    from .evaluation.suites import maskbench
    from .evaluation.suites import sample as chosen

    with reported():
        cases = maskbench(data, split or ())
        cases = chosen(cases, sample, seed) if sample else cases
        options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed, "budget": budget}
        records = generation.run_generation(cases, out, model=model, device=device, dtype=dtype, console=bar_console(), **options)
        found = generation.summary(records)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    elif markdown:
        typer.echo(generation.markdown(found))
    else:
        generation.show(found, _page())


@app.command("laws")
def laws(
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="Only methods with this in their name; may be given again.")
    ] = None,
    case: Annotated[list[str] | None, typer.Option("--case", help="Only this case; may be given again.")] = None,
    sizes: Annotated[str, typer.Option("--sizes", help="Numbers of texts (particles) of one call.")] = "4,16,64,256",
    runs: Annotated[int, typer.Option("--runs", help="Calls at each size.", min=1)] = 8,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="genlm-control too, where it is installed.")] = True,
    model: Annotated[str | None, typer.Option("--model", help="Measure costs on a model too: packaged, a folder or a hub id.")] = None,
    seed: SeedOption = 7,
    out: OutOption = Path("out"),
    picture: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw OUT/laws.png too.")] = True,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
) -> None:
    """Test samplers on small problems whose answer is known.

    Reports the total variation to the target, against the forward passes spent.

    With --model also what samplers cost on a model: a slow checker under masks and under AWRS, particles against single generations, and
    genlm-control on the same model. The numbers also go to OUT/laws.json.
    """
    from .evaluation import law_report
    from .evaluation.laws import contenders, run_laws
    from .evaluation.sampling_costs import costs
    from .model import load

    with reported():
        numbers = _sizes(sizes)
        records = run_laws(contenders(method or (), peers), case_names=case, sizes=numbers, runs=runs, seed=seed, console=bar_console())
        found = law_report.summary(records, {"sizes": numbers, "runs": runs, "seed": seed})
        if model is not None:
            found["costs"] = costs(load(None if model == "packaged" else model), seed=seed, peers=peers)
        out.mkdir(parents=True, exist_ok=True)
        (out / "laws.json").write_text(json.dumps(found, indent=1))
        if picture:
            law_report.plot(found, out / "laws.png", f"{len(found['common cases'])} cases, {runs} runs")
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    elif markdown:
        typer.echo(law_report.markdown(found))
    else:
        law_report.show(found, _page())


def _sizes(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise GuidedError(f"--sizes is numbers with commas between them (4,16,64), not {text!r}") from None
