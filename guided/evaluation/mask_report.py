"""What a run of :mod:`.masks` came to: tables, a summary as JSON, a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from grammars.errors import GuidedError

from .figures import TIMES, LikeForLike, Records, compare, figures, like_for_like
from .report import PERCENTILES, percentiles
from .tables import Titled, markdown_tables, print_tables

__all__ = ["figure_table", "markdown", "number", "plot", "pyplot", "show", "summary"]

COUNTS = ("schemas", "passed", "wrong accept", "wrong reject", "refused", "error", "crash", "timeout", "memory")
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
        "warm mask us": [time for row in rows for times in row["warm_us"] for time in times],
    }


def _statistics(values: Sequence[float]) -> dict[str, float]:
    return {"n": len(values), **(dict(zip(_STATISTICS, percentiles(values))) if values else {})}


def summary(records: Records, run: Mapping[str, Any]) -> dict[str, Any]:
    """The run in numbers: per engine the counts by split, the times of all it did, and of what every engine did; ours beside the peers."""
    common = like_for_like(records)
    found = figures(common)
    engines = {}
    for name, rows in records.items():
        splits = sorted({row["split"] for row in rows})
        engines[name] = {
            "counts": {"all": _counts(rows)} | {split: _counts(row for row in rows if row["split"] == split) for split in splits},
            "times": {what: _statistics(values) for what, values in _series(rows).items()},
            "like for like": {what: _statistics(values) for what, values in common.series[name].items()},
            "figures": found[name],
        }
    return {
        "run": dict(run),
        "common": {"schemas": common.schemas, "instances": common.instances},
        "engines": engines,
        "comparison": [row.as_dict() for row in compare(found)],
    }


def number(value: float | None) -> str:
    """For tables: three digits or so; nothing for ``None``."""
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figure_table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the figures that speed is judged by, of a :func:`summary`; no rows where no peer ran."""
    engines = found["engines"]
    rows = []
    for row in found["comparison"]:
        values = [number(e["figures"][row["figure"]]) for e in engines.values()]
        ratio = f"{row['ratio']:.2f}x {row['peer']}"
        rows.append([f"{row['figure']}, {row['unit']}", *values, ratio, f"{row['floor']:g}x", f"{row['aim']:g}x", row["met"]])
    return ["figure", *engines, "ratio to the better peer", "floor", "aim", "met"], rows


def _rows(found: Mapping[str, Any]) -> list[Titled]:
    """``(title, head, rows)`` of every table."""
    engines = found["engines"]
    total = [[name, *(str(e["counts"]["all"][c] or "") for c in COUNTS)] for name, e in engines.items()]
    tables: list[Titled] = [("verdicts: schemas", ["engine", *COUNTS], total)]
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
        rows = [[name, what, str(values["n"]), *(number(values.get(s)) for s in _STATISTICS)] for name, what, values in cells]
        if key == "times" or len(engines) > 1:
            tables.append((title, ["engine", "what", "n", *_STATISTICS], rows))
    head, rows = figure_table(found)
    if rows:
        tables.append(("ratios, like for like", head, rows))
    return tables


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints the tables of a :func:`summary`."""
    print_tables(_rows(found), console)


def markdown(found: Mapping[str, Any]) -> str:
    """The tables of a :func:`summary` in Markdown."""
    return markdown_tables(_rows(found))


def plot(records: Records, path: Path, title: str = "") -> None:
    """Draws what became of the schemas, and how the times of what every engine did are distributed, to a PNG file.

    The curves say what share of the masks (schemas) is done within a time; one further to the left is faster.

    Raises:
        GuidedError: matplotlib is not installed.
    """
    plt = pyplot()
    names = list(records)
    figure, axes = plt.subplots(2, 2, figsize=(12, 8.5), layout="constrained")
    colours = dict(zip(names, plt.rcParams["axes.prop_cycle"].by_key()["color"]))
    _bars(axes[0, 0], {name: _counts(rows) for name, rows in records.items()})
    common = like_for_like(records)
    panels = {
        "first mask ms": (axes[0, 1], "schema to first mask, ms"),
        "mask us": (axes[1, 0], "mask, cold, µs"),
        "warm mask us": (axes[1, 1], "mask, warm, µs"),
    }
    for what, (axis, label) in panels.items():
        _distribution(axis, common, what, label, colours)
    axes[1, 0].legend()
    if title:
        figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def pyplot() -> Any:
    """``matplotlib.pyplot``, drawing to files.

    Raises:
        GuidedError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise GuidedError("the plot needs matplotlib: pip install matplotlib (or give --no-plot)") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _share(values: Any) -> Any:
    """So that a quantile and its tail both have room: 0, 50, 90, 99, 99.9 % at equal distances."""
    return -np.log10(np.maximum(1 - np.asarray(values, dtype=float), 1e-5))


def _distribution(axis: Any, common: LikeForLike, what: str, label: str, colours: Mapping[str, str]) -> None:
    """Cumulative distributions of one series of times; the axis of shares is stretched towards 100 %."""
    for name, series in common.series.items():
        values = np.sort(np.asarray(series[what], dtype=float))
        if len(values):
            share = np.arange(1, len(values) + 1) / (len(values) + 1)
            axis.plot(np.maximum(values, 1e-2), _share(share), label=name, color=colours[name])
    ticks = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
    axis.set_yticks(_share(ticks), [f"{100 * tick:g} %" for tick in ticks])
    axis.set(xscale="log", xlabel=label, ylabel="share done within the time")
    axis.grid(True, which="major", alpha=0.3)
    schemas = what == "first mask ms"
    axis.set_title(f"{common.schemas} schemas that all compile" if schemas else f"{common.instances} instances that all accept")


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
