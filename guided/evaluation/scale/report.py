"""What a run of :mod:`.run` came to: tables in Markdown, and a plot for each curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..mask_report import number, pyplot
from .curves import curve_of

__all__ = ["MEASURES", "markdown", "plots", "table"]

Rows = Sequence[Mapping[str, Any]]
MEASURES: tuple[tuple[str, str, str | None], ...] = (
    ("compile, ms", "compile_ms", None),
    ("schema to first mask, ms", "ttfm_ms", None),
    ("mask, cold, mean, µs", "cold_us", "mean"),
    ("mask, cold, p99, µs", "cold_us", "p99"),
    ("mask, warm, mean, µs", "warm_us", "mean"),
    ("memory, MB", "memory_mb", None),
)
"""Title, and where the value is in a record."""


def _value(row: Mapping[str, Any], key: str, part: str | None) -> float | None:
    found = row.get(key)
    return found if part is None or found is None else found.get(part)


def _curves(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["curve"] for row in rows))


def table(rows: Rows, curve: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a row for each size; for each engine all of :data:`MEASURES` but the first, or why there are none."""
    here = [row for row in rows if row["curve"] == curve]
    engines = list(dict.fromkeys(row["engine"] for row in here))
    by_place = {(row["size"], row["engine"]): row for row in here}
    lines = []
    for size in dict.fromkeys(row["size"] for row in here):
        cells = [f"{size:,}"]
        for engine in engines:
            row = by_place[size, engine]
            values = [number(_value(row, key, part)) for _, key, part in MEASURES[1:]]
            cells.append(" / ".join(values) if row["status"] == "done" else row["status"])
        lines.append(cells)
    return [curve_of(curve).axis, *engines], lines


def markdown(rows: Rows) -> str:
    """The tables of all curves."""

    def lines() -> Iterator[str]:
        for curve in _curves(rows):
            head, cells = table(rows, curve)
            yield from (f"### {curve}", "", f"| {' | '.join(head)} |", "|--:|" + "--:|" * (len(head) - 1))
            yield from (f"| {' | '.join(row)} |" for row in cells)
            yield ""

    return "\n".join(lines()).rstrip()


def plots(rows: Rows, folder: Path) -> list[Path]:
    """Draws ``scale-<curve>.png`` for each curve: a panel a measure, a line an engine. A cross marks the size that an engine gave up at.

    Raises:
        GuidedError: matplotlib is not installed.
    """
    return [_plot([row for row in rows if row["curve"] == curve], curve, folder / f"scale-{curve}.png") for curve in _curves(rows)]


def _plot(rows: Rows, curve: str, path: Path) -> Path:
    plt = pyplot()
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    colours = dict(zip(engines, plt.rcParams["axes.prop_cycle"].by_key()["color"]))
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    for axis, (title, key, part) in zip(axes.flat, MEASURES):
        for engine in engines:
            done = [row for row in rows if row["engine"] == engine and row["status"] == "done"]
            points = [(row["size"], max(value, 1e-2)) for row in done if (value := _value(row, key, part)) is not None]
            axis.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=engine, color=colours[engine])
        axis.set(xscale="log", yscale="log", title=title, xlabel=curve_of(curve).axis)
        axis.grid(True, which="major", alpha=0.3)
    for engine in engines:
        lost = [row["size"] for row in rows if row["engine"] == engine and row["status"] in ("timeout", "memory", "crash")]
        for size in lost:
            axes[0, 1].plot([size], [axes[0, 1].get_ylim()[1]], marker="x", color=colours[engine], clip_on=False)
    axes[0, 0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path
