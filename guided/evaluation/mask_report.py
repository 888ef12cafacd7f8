"""What a run of :mod:`.masks` came to: tables, a summary as JSON, a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from grammars.errors import GuidedError

from .report import PERCENTILES, percentiles

__all__ = ["markdown", "plot", "show", "summary"]

Records = Mapping[str, Sequence[Mapping[str, Any]]]
"""Records (see :class:`.masks.MaskRecord`) by engine, the same schemas in each."""
COUNTS = ("schemas", "passed", "wrong accept", "wrong reject", "refused", "error", "crash", "timeout", "memory")
TIMES = ("compile ms", "first mask ms", "mask us")
_STATISTICS = ("mean", *(f"p{p:g}" for p in PERCENTILES), "max")


def _counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        found["schemas"] += 1
        found[row["status"]] += 1
        pairs = list(zip(row["valid"], row["verdicts"]))
        found["wrong accept"] += any(verdict == "accept" and not valid for valid, verdict in pairs)
        found["wrong reject"] += any(verdict == "reject" and valid for valid, verdict in pairs)
    return {name: found[name] for name in COUNTS}


def _series(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    rows = list(rows)
    return {
        "compile ms": [row["compile_ms"] for row in rows if row["compile_ms"] is not None],
        "first mask ms": [row["first_mask_ms"] for row in rows if row["first_mask_ms"] is not None],
        "mask us": [time for row in rows for times in row["mask_us"] for time in times],
    }


def _common(records: Records) -> tuple[dict[str, dict[str, list[float]]], int, int]:
    """The times of each engine on what all can do: schemas that all compile, valid instances that all accept; and how many."""
    by_id = {name: {row["id"]: row for row in rows} for name, rows in records.items()}
    ids = [i for i in next(iter(by_id.values()), {}) if all(rows[i]["compile_ms"] is not None for rows in by_id.values())]
    accepted = [
        (i, k)
        for i in ids
        for k, valid in enumerate(next(iter(by_id.values()))[i]["valid"])
        if valid and all(len(rows[i]["verdicts"]) > k and rows[i]["verdicts"][k] == "accept" for rows in by_id.values())
    ]
    series = {
        name: {
            "compile ms": [rows[i]["compile_ms"] for i in ids],
            "first mask ms": [rows[i]["first_mask_ms"] for i in ids],
            "mask us": [time for i, k in accepted for time in rows[i]["mask_us"][k]],
        }
        for name, rows in by_id.items()
    }
    return series, len(ids), len(accepted)


def _statistics(values: Sequence[float]) -> dict[str, float]:
    return {"n": len(values), **(dict(zip(_STATISTICS, percentiles(values))) if values else {})}


def summary(records: Records, run: Mapping[str, Any]) -> dict[str, Any]:
    """The run in numbers: per engine the counts by split, the times of all it did, and of what every engine did."""
    common, schemas, instances = _common(records)
    engines = {}
    for name, rows in records.items():
        splits = sorted({row["split"] for row in rows})
        engines[name] = {
            "counts": {"all": _counts(rows)} | {split: _counts(row for row in rows if row["split"] == split) for split in splits},
            "times": {what: _statistics(values) for what, values in _series(rows).items()},
            "like for like": {what: _statistics(values) for what, values in common[name].items()},
        }
    return {"run": dict(run), "common": {"schemas": schemas, "instances": instances}, "engines": engines}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _rows(found: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """``(title, head, rows)`` of every table."""
    engines = found["engines"]
    total = [[name, *(str(e["counts"]["all"][c] or "") for c in COUNTS)] for name, e in engines.items()]
    tables = [("verdicts: schemas", ["engine", *COUNTS], total)]
    splits = [split for split in next(iter(engines.values()))["counts"] if split != "all"] if engines else []
    if len(splits) > 1:
        head = ["split", "schemas", *(f"{name}: passed" for name in engines), *(f"{name}: wrong accept" for name in engines)]
        rows = []
        for split in splits:
            here = [e["counts"][split] for e in engines.values()]
            rows.append([split, str(here[0]["schemas"]), *(str(c["passed"]) for c in here), *(str(c["wrong accept"] or "") for c in here)])
        tables.append(("verdicts by split", head, rows))
    common = found["common"]
    alike = f"like for like: {common['schemas']} schemas that all compile, {common['instances']} valid instances that all accept"
    for title, key in (("times of each engine on what it did", "times"), (alike, "like for like")):
        cells = [(name, what, e[key][what]) for what in TIMES for name, e in engines.items()]
        rows = [[name, what, str(values["n"]), *(_number(values.get(s)) for s in _STATISTICS)] for name, what, values in cells]
        if key == "times" or len(engines) > 1:
            tables.append((title, ["engine", "what", "n", *_STATISTICS], rows))
    return tables


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints the tables of a :func:`summary`."""
    for title, head, rows in _rows(found):
        table = Table(title=title)
        for i, name in enumerate(head):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def markdown(found: Mapping[str, Any]) -> str:
    """The tables of a :func:`summary` in Markdown."""
    lines = []
    for title, head, rows in _rows(found):
        lines += [f"{title[0].upper()}{title[1:]}:", "", f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
        lines += [f"| {' | '.join(row)} |" for row in rows] + [""]
    return "\n".join(lines).rstrip()


def plot(records: Records, path: Path, title: str = "") -> None:
    """Draws what became of the schemas, and how the times of what every engine did are distributed, to a PNG file.

    Raises:
        GuidedError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise GuidedError("the plot needs matplotlib: pip install matplotlib (or give --no-plot)") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(records)
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    colours = dict(zip(names, plt.rcParams["axes.prop_cycle"].by_key()["color"]))
    _bars(axes[0], {name: _counts(rows) for name, rows in records.items()})
    series, schemas, instances = _common(records)
    for axis, what, unit in ((axes[1], "first mask ms", "schema to first mask, ms"), (axes[2], "mask us", "mask, µs")):
        for name in names:
            values = np.sort(np.asarray(series[name][what], dtype=float))
            if len(values):
                beyond = 1 - np.arange(len(values)) / len(values)
                axis.plot(np.maximum(values, 1e-2), beyond, label=name, color=colours[name], drawstyle="steps-post")
        axis.set(xscale="log", yscale="log", xlabel=unit, ylabel="share that takes at least as long")
        axis.grid(True, which="major", alpha=0.3)
        axis.set_title(f"{schemas} schemas that all compile" if axis is axes[1] else f"{instances} instances that all accept")
    axes[2].legend()
    if title:
        figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _bars(axis: Any, counts: Mapping[str, Mapping[str, int]]) -> None:
    """A stacked bar an engine, in percent of the schemas."""
    names = list(counts)
    left = np.zeros(len(names))
    failed = ("error", "crash", "timeout", "memory")
    parts = {
        "passed": [c["passed"] for c in counts.values()],
        "refused": [c["refused"] for c in counts.values()],
        "invalid accepted": [c["wrong accept"] for c in counts.values()],
        "failed": [sum(c[f] for f in failed) for c in counts.values()],
    }
    total = np.array([max(1, c["schemas"]) for c in counts.values()], dtype=float)
    shades = {"passed": "#4c9a6a", "refused": "#c9c9c9", "invalid accepted": "#c0392b", "valid rejected": "#e6a23c", "failed": "#333333"}
    parts["valid rejected"] = [int(t - sum(column)) for t, column in zip(total, zip(*parts.values()))]
    for label in shades:
        share = 100 * np.array(parts[label]) / total
        axis.barh(names, share, left=left, label=label, color=shades[label])
        left += share
    axis.set(xlim=(0, 100), xlabel="% of the schemas")
    axis.invert_yaxis()
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3, fontsize="small", frameon=False)
