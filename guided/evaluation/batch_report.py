"""What a run of :mod:`.batches` came to: a summary as JSON, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

__all__ = ["markdown", "show", "summary"]

_FILLS = ("batch", "masks", "engine", "fill p50", "fill p99", "fill mean", "a row, p50", "advance p50")
_STEPS = ("batch", "model step ms", "processor", "p50 us", "p99 us", "mean us", "of the model step")


def _figures(values: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(values, (50, 99))
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2), "mean": round(float(np.mean(values)), 2), "n": len(values)}


def summary(fills: Iterable[Mapping[str, Any]], steps: Iterable[Mapping[str, Any]], run: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a run: microseconds a step of a whole batch (medians, 99th percentiles, means)."""
    rows = [
        {**{key: row[key] for key in ("engine", "batch", "pass", "schemas")}, "fill_us": _figures(row["fill_us"]),
         "advance_us": _figures(row["advance_us"])}
        for row in fills
    ]  # fmt: skip
    processor = [
        {"batch": step["batch"], "which": which, "model_us": _figures(step["model_us"]), "processor_us": _figures(times)}
        for step in steps
        for which, times in step["processor_us"].items()
    ]
    return {"run": dict(run), "fills": rows, "processor": processor}


def _fill_rows(found: Mapping[str, Any]) -> list[list[str]]:
    out = []
    for row in sorted(found["fills"], key=lambda row: (row["batch"], row["pass"])):
        fill, advance = row["fill_us"], row["advance_us"]
        numbers = [fill["p50"], fill["p99"], fill["mean"], fill["p50"] / row["batch"], advance["p50"]]
        out.append([str(row["batch"]), row["pass"], row["engine"], *(f"{number:,.1f}" for number in numbers)])
    return out


def _step_rows(found: Mapping[str, Any]) -> list[list[str]]:
    out = []
    for row in found["processor"]:
        model, times = row["model_us"]["p50"], row["processor_us"]
        numbers = [f"{times[name]:,.0f}" for name in ("p50", "p99", "mean")]
        out.append([str(row["batch"]), f"{model / 1e3:,.1f}", row["which"], *numbers, f"{times['p50'] / model:.2%}"])
    return out


def _tables(found: Mapping[str, Any]) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    run = found["run"]
    clock = "CPU" if run["cpu"] else "wall"
    tables: list[tuple[str, Sequence[str], list[list[str]]]] = []
    if found["fills"]:
        title = f"masks of a batch, us a step ({clock} clock), tokenizer {run['tokenizer']}"
        tables.append((title, _FILLS, _fill_rows(found)))
    if found["processor"]:
        tables.append((f"GuidedLogitsProcessor, us a step ({clock} clock)", _STEPS, _step_rows(found)))
    return tables


def markdown(found: Mapping[str, Any]) -> str:
    """The tables in Markdown."""
    parts = []
    for title, head, rows in _tables(found):
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]
        parts.append(f"{title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def show(found: Mapping[str, Any], console: Console) -> None:
    """The tables on the console."""
    for title, head, rows in _tables(found):
        table = Table(title=title)
        for name in head:
            table.add_column(name, justify="left" if name in ("masks", "engine", "processor") else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
