"""Tables and the plot of :func:`.run.run_searches`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median

from ..tables import Titled, markdown_tables
from .records import Record

__all__ = ["markdown", "plot", "tables"]

_TITLES = {
    "concepts": "words that must appear (CommonGen)",
    "rewards": "a reward of pleasant words, by what is spent",
    "objects": "summaries under a schema, with a reward of the object",
    "beams": "beam search beside that of transformers",
}


def tables(records: Sequence[Record]) -> list[Titled]:
    """A table for each part that has records."""
    made = {"concepts": _concepts, "rewards": _rewards, "objects": _objects, "beams": _beams}
    found: list[Titled] = []
    for part, title in _TITLES.items():
        rows = [record for record in records if record["part"] == part]
        if rows:
            head, body = made[part](rows)
            found.append((f"{title} ({_prompts(rows)})", head, body))
    return found


def markdown(records: Sequence[Record]) -> str:
    """The tables in Markdown."""
    return markdown_tables(tables(records))


def _cases(rows: Iterable[Record]) -> int:
    return len({row["case"].split()[0] for row in rows})


def _prompts(rows: Iterable[Record]) -> str:
    count = _cases(rows)
    return f"{count} prompt{'s' * (count != 1)}"


def _groups(rows: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by method, in the order of their first one."""
    found: dict[str, list[Record]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


def _mean(rows: Sequence[Record], name: str) -> float:
    return fmean(row[name] for row in rows)


def _spent(rows: Sequence[Record]) -> list[str]:
    """Forwards, tokens made, and seconds per token of the result."""
    pace = sum(row["seconds"] for row in rows) / sum(row["length"] for row in rows)
    return [f"{_mean(rows, 'forwards'):.0f}", f"{_mean(rows, 'made'):.0f}", f"{pace:.2f}"]


_SPENT = ["forwards", "tokens made", "s per token of the result"]


def _concepts(rows: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    head = ["method", "coverage", "all covered", "mean log p of a token", *_SPENT]
    body = []
    for name, group in _groups(rows).items():
        whole = fmean(row["coverage"] == 1 for row in group)
        body.append([name, f"{_mean(group, 'coverage'):.0%}", f"{whole:.0%}", f"{_mean(group, 'fluency'):.2f}", *_spent(group)])
    return head, body


def _rewards(rows: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    head = ["method, size", "reward", "mean log p of a token", *_SPENT]
    groups = sorted(_groups(rows).items(), key=lambda pair: _mean(pair[1], "forwards"))
    return head, [[name, f"{_mean(g, 'reward'):.2f}", f"{_mean(g, 'fluency'):.2f}", *_spent(g)] for name, g in groups]


def _objects(rows: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    head = ["method", "valid", "reward", "mean log p of a token", *_SPENT]
    body = []
    for name, group in _groups(rows).items():
        valid = fmean(row["all_valid"] for row in group)
        body.append([name, f"{valid:.0%}", f"{_mean(group, 'reward'):.2f}", f"{_mean(group, 'fluency'):.2f}", *_spent(group)])
    return head, body


def _beams(rows: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Ours beside theirs, width by width: a ratio is of one prompt, both taken one after the other."""
    head = ["beams", "same text", "largest difference of scores", "ms per token", "of transformers", "ratio (median)"]
    pairs: dict[int, list[tuple[Record, Record]]] = {}
    theirs = {row["case"]: row for row in rows if row["method"] == "transformers"}
    for row in rows:
        if row["method"] == "guided" and row["case"] in theirs:
            pairs.setdefault(row["beams"], []).append((row, theirs[row["case"]]))
    body = []
    for beams, both in sorted(pairs.items()):
        same = sum(a["tokens"] == b["tokens"] for a, b in both)
        differ = max(abs(a["score"] - b["score"]) for a, b in both)
        ratio = median((a["seconds"] / a["length"]) / (b["seconds"] / b["length"]) for a, b in both)
        times = [median(1e3 * row["seconds"] / row["length"] for row in side) for side in zip(*both)]
        body.append([str(beams), f"{same} of {len(both)}", f"{differ:.1e}", f"{times[0]:.0f}", f"{times[1]:.0f}", f"{ratio:.2f}"])
    return head, body


def plot(records: Sequence[Record], path: Path) -> bool:
    """Draws mean reward against mean forwards, a line a method; returns whether there was anything to draw."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    rows = [record for record in records if record["part"] == "rewards"]
    if not rows:
        return False
    lines: dict[str, list[tuple[float, float, int]]] = {}
    for group in _groups(rows).values():
        point = (_mean(group, "forwards"), _mean(group, "reward"), group[0]["size"])
        lines.setdefault(group[0]["name"], []).append(point)
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    markers = "osD^vP*X<>"
    for i, (name, points) in enumerate(lines.items()):
        points.sort()
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], marker=markers[i % len(markers)], label=name, linewidth=1.2)
        for x, y, size in points:
            axes.annotate(str(size), (x, y), textcoords="offset points", xytext=(5, 4), fontsize=7)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(ScalarFormatter())
    axes.set_xlabel("forwards (distinct contexts that the model was asked about)")
    axes.set_ylabel("pleasant words less unpleasant ones, of the result")
    axes.set_title(f"Reward by what is spent ({_prompts(rows)}; numbers: texts, blocks or particles)", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True
