"""What a run of :mod:`.speculation` came to: tables, a summary, a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grammars.errors import GuidedError

from .speculation import JSON_GROUP
from .tables import Titled, markdown_tables, print_tables

__all__ = ["ALL", "markdown", "plot", "show", "summary"]

ALL = "Spec-Bench"
"""All groups of Spec-Bench together."""


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For each group, and for Spec-Bench as a whole: each way's figures over the tasks that all ways have written.

    Figures: ``tokens/s``; ``speed-up`` over ``plain``, by the seconds of a token; ``tokens a forward``; ``drafted a forward``;
    ``accepted``, the share of proposals that were taken; ``same``, the share of texts that are those of plain decoding.
    """
    ways = list(dict.fromkeys(record["way"] for record in records))
    done: dict[str, set[str]] = {}
    for record in records:
        done.setdefault(record["task"], set()).add(record["way"])
    rows = [record for record in records if done[record["task"]] == set(ways)]
    groups = sorted({record["group"] for record in rows})
    named = {group: [group] for group in groups}
    bench = [group for group in groups if group != JSON_GROUP]
    if bench:
        named = {ALL: bench, **named}
    return {
        "tasks": {name: len({row["task"] for row in rows if row["group"] in some}) for name, some in named.items()},
        "groups": {name: _figures([row for row in rows if row["group"] in some], ways) for name, some in named.items()},
    }


def _figures(rows: Sequence[Mapping[str, Any]], ways: Sequence[str]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for way in ways:
        mine = [row for row in rows if row["way"] == way]
        tokens, seconds = sum(row["timed"] for row in mine), sum(row["seconds"] for row in mine)
        forwards = None if any(row["forwards"] is None for row in mine) else sum(row["forwards"] for row in mine)
        drafted = None if any(row["drafted"] is None for row in mine) else sum(row["drafted"] for row in mine)
        same = [row["same"] for row in mine if row["same"] is not None]
        found[way] = {
            "tokens/s": tokens / seconds if seconds else None,
            "tokens a forward": tokens / forwards if forwards else None,
            "drafted a forward": drafted / forwards if forwards and drafted is not None else None,
            "accepted": sum(row["accepted"] for row in mine) / drafted if drafted else None,
            "same": sum(same) / len(same) if same else None,
        }
    base = (found.get("plain") or {}).get("tokens/s")
    for figures in found.values():
        speed = figures["tokens/s"]
        figures["speed-up"] = speed / base if speed and base else None
    return found


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


_COLUMNS = {"tokens/s": ".1f", "speed-up": ".2f", "tokens a forward": ".2f", "drafted a forward": ".1f", "accepted": ".0%", "same": ".0%"}


def _tables(found: Mapping[str, Any]) -> list[Titled]:
    groups: Mapping[str, Mapping[str, Mapping[str, float | None]]] = found["groups"]
    tables: list[Titled] = []
    for name in (ALL, JSON_GROUP):
        if name in groups:
            rows = [[way, *(_cell(figures[column], form) for column, form in _COLUMNS.items())] for way, figures in groups[name].items()]
            tables.append((f"{name}, {found['tasks'][name]} texts", ["", *_COLUMNS], rows))
    single = [name for name in groups if name not in (ALL, JSON_GROUP)]
    if single:
        ways = list(groups[single[0]])
        rows = [[way, *(_cell(groups[name][way]["speed-up"], ".2f") for name in single)] for way in ways]
        tables.append(("speed-up over plain decoding, by group", ["", *single], rows))
    return tables


def show(found: Mapping[str, Any], console: Any) -> None:
    """Prints a :func:`summary`."""
    print_tables(_tables(found), console)


def markdown(found: Mapping[str, Any]) -> str:
    """A :func:`summary` in Markdown."""
    return markdown_tables(_tables(found))


def plot(found: Mapping[str, Any], path: Path) -> None:
    """The speed-up of each way over plain decoding, Spec-Bench and JSON side by side, as a picture.

    Raises:
        GuidedError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise GuidedError("the plot needs matplotlib: pip install matplotlib (or give --no-plot)") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in found["groups"] if name != ALL]
    shown = [name for name in (ALL, JSON_GROUP) if name in found["groups"]]
    ways = [way for way in next(iter(found["groups"].values())) if way != "plain"]
    figure, axes = plt.subplots(
        1, len(shown), figsize=(6.5 * len(shown), 1.2 + 0.42 * len(ways)), layout="constrained", sharey=True, squeeze=False
    )
    for ax, name in zip(axes[0], shown):
        values = [found["groups"][name][way]["speed-up"] or 0.0 for way in ways]
        ax.barh(range(len(ways)), values, color=["#b0b7c3" if way.startswith("transformers") else "#3b6fb6" for way in ways], height=0.65)
        if name == ALL:
            inner = [group for group in names if group != JSON_GROUP]
            for place, way in enumerate(ways):
                dots = [found["groups"][group][way]["speed-up"] for group in inner]
                ax.plot([dot for dot in dots if dot], [place] * sum(dot is not None and dot > 0 for dot in dots), "o", color="#222", ms=3.5)
        for place, value in enumerate(values):
            ax.annotate(f"{value:.2f}", (value, place), xytext=(4, 9), textcoords="offset points", fontsize=8, va="center")
        ax.axvline(1, color="#c0392b", lw=1, ls="--")
        ax.set_title(f"{name} ({found['tasks'][name]} texts)", fontsize=11)
        ax.set_xlabel("speed over plain decoding")
        ax.set_xlim(0, None)
        ax.margins(x=0.12)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_yticks(range(len(ways)), ways, fontsize=9)
    axes[0][0].invert_yaxis()
    figure.savefig(path, dpi=130)
    plt.close(figure)
