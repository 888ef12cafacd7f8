"""What a run of :mod:`.laws` came to: tables, a summary as JSON, a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from grammars.errors import GuidedError

from .laws import CONTENDERS, MASKING, REFERENCE, LawRecord
from .tables import Titled, markdown_tables, print_tables
from .toys import distortion

__all__ = ["markdown", "plot", "show", "summary"]

_LEAST = 0.02  # of the plot: methods that have found every text have no error but rounding
PEERS = frozenset(c.name for c in CONTENDERS if c.peer)


def summary(records: Sequence[LawRecord], run: Mapping[str, Any]) -> dict[str, Any]:
    """The run in numbers: every record, and per method and size the means over the cases that all methods took."""
    methods = list(dict.fromkeys(r.method for r in records))
    sizes = sorted({r.n for r in records if r.status == "ok"})
    refused = {(r.method, r.case): r.reason for r in records if r.status != "ok"}
    common = [c for c in dict.fromkeys(r.case for r in records) if not any((m, c) in refused for m in methods)]
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name in methods:
        for n in sizes:
            rows = [r for r in records if r.method == name and r.n == n and r.case in common]
            if rows:
                what = ("distance", "forwards", "asked", "batches", "seconds")
                table.setdefault(name, {})[str(n)] = {key: fmean(getattr(r, key) for r in rows) for key in what}
    return {
        "run": dict(run),
        "sizes": sizes,
        "common cases": common,
        "refused": [{"method": m, "case": c, "reason": why} for (m, c), why in refused.items()],
        "means": table,
        "records": [r.as_dict() for r in records],
    }


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if 1e-9 < abs(value) < 0.01:  # below is rounding
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def _tables(found: Mapping[str, Any]) -> list[Titled]:
    """``(title, head, rows)`` of every table."""
    sizes, means = found["sizes"], found["means"]
    cases = f"{len(found['common cases'])} cases"
    tables: list[Titled] = []
    head = ["method", *(f"n = {n}" for n in sizes), f"forwards, n = {sizes[-1]}", "asked", "ms"]
    rows = []
    for name, by_size in means.items():
        last = by_size[str(sizes[-1])]
        spent = [_number(last["forwards"]), _number(last["asked"]), _number(1e3 * last["seconds"])]
        rows.append([name, *(_number(by_size[str(n)]["distance"]) for n in sizes), *(spent if name != REFERENCE else ["", "", ""])])
    tables.append((f"total variation to the target, mean of {cases}, by number of texts", head, rows))
    known = [r for r in found["records"] if r["case"] == distortion().name and r["n"] == sizes[-1]]
    if known:
        rows = [[r["method"], _number(r["begins_with_a"]), _number(r["distance"])] for r in known]
        tables.append((f"the known distortion: P(begins with a), 0.9 in truth; n = {sizes[-1]}", ["method", "estimate", "distance"], rows))
    for title, entries in found.get("costs", {}).items():
        rows = [[value if isinstance(value, str) else _number(value) for value in entry.values()] for entry in entries]
        tables.append((title, list(entries[0]), rows))
    if found["refused"]:
        rows = [[r["method"], r["case"], r["reason"]] for r in found["refused"]]
        tables.append(("not taken", ["method", "case", "reason"], rows))
    return tables


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints the tables of a :func:`summary`."""
    print_tables(_tables(found), console)


def markdown(found: Mapping[str, Any]) -> str:
    """The tables of a :func:`summary` in Markdown."""
    return markdown_tables(_tables(found))


def plot(found: Mapping[str, Any], path: Path, title: str = "") -> None:
    """Draws total variation against forwards, and against the number of texts, to a PNG file.

    Raises:
        GuidedError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise GuidedError("the plot needs matplotlib: pip install matplotlib (or give --no-plot)") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(15, 6.5), layout="constrained", sharey=True)
    markers, colours = "osv^D<>ph*XP", plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
    for i, (name, by_size) in enumerate(found["means"].items()):
        sizes = [int(n) for n in by_size]
        distances = [row["distance"] for row in by_size.values()]
        line = "--" if name in PEERS else "-"
        style: dict[str, Any] = {"marker": markers[i % len(markers)], "color": colours[i % len(colours)], "linestyle": line}
        if name in (REFERENCE, MASKING):
            style |= {"color": "black", "linestyle": ":" if name == REFERENCE else "-", "linewidth": 2}
        axes[1].plot(sizes, distances, label=name, **style)
        if name != REFERENCE:
            axes[0].plot([row["forwards"] for row in by_size.values()], distances, **style)
    label = "total variation to the target"
    axes[0].set(xlabel="forwards (contexts evaluated), mean of a run", ylabel=label, xscale="log", yscale="log", ylim=(_LEAST, 1))
    axes[1].set(xlabel="texts", xscale="log")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.suptitle(title)
    figure.savefig(path, dpi=75)
    plt.close(figure)
