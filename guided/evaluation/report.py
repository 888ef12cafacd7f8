"""Tables of a judged collection: verdicts per split, reasons of refusals, wrong verdicts, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

__all__ = ["Counts", "counts", "percentiles", "reasons", "show"]

PERCENTILES = (50, 90, 99, 99.9)


@dataclass(slots=True)
class Counts:
    """What became of the schemas of one split.

    Attributes:
        wrong_accept, wrong_reject: schemas with at least one such instance (a schema may count in both).
        doubtful: schemas whose every wrong verdict is also that of a validator that takes ``format`` as an annotation.
        order_only: schemas whose every wrong verdict is a rejection for the order of keys alone.
        failed: errors, crashes, time-outs and memory.
    """

    schemas: int = 0
    passed: int = 0
    refused: int = 0
    wrong_accept: int = 0
    wrong_reject: int = 0
    doubtful: int = 0
    order_only: int = 0
    error: int = 0
    timeout: int = 0
    memory: int = 0

    def add(self, record: dict[str, Any]) -> None:
        self.schemas += 1
        status, wrong = record["status"], record.get("wrong", ())
        self.passed += status == "passed"
        self.refused += status == "refused"
        self.wrong_accept += any(w["accepted"] for w in wrong)
        self.wrong_reject += any(not w["accepted"] for w in wrong)
        self.doubtful += bool(wrong) and all(w["validator_agrees"] for w in wrong)
        self.order_only += bool(wrong) and all(w["order_only"] for w in wrong)
        self.error += status in ("error", "crash")
        self.timeout += status == "timeout"
        self.memory += status == "memory"


def counts(records: Iterable[dict[str, Any]]) -> dict[str, Counts]:
    """Counts by split, sorted, with the sum under ``"all"`` at the end."""
    by_split: dict[str, Counts] = {}
    total = Counts()
    for record in records:
        by_split.setdefault(record["split"], Counts()).add(record)
        total.add(record)
    return {**dict(sorted(by_split.items())), "all": total}


def reasons(records: Iterable[dict[str, Any]], status: Sequence[str]) -> list[tuple[str, int, str]]:
    """``(kind, schemas, id of an example)`` of the records with that status, most frequent first."""
    count: Counter[str] = Counter()
    example: dict[str, str] = {}
    for record in records:
        if record["status"] in status:
            kind = record["kind"] or record["reason"]
            if record.get("keyword"):
                kind = f"{record['keyword']}: {kind}"
            count[kind] += 1
            example.setdefault(kind, record["id"])
    return [(kind, number, example[kind]) for kind, number in count.most_common()]


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """Mean, the percentiles 50, 90, 99 and 99.9, and the greatest value."""
    array = np.asarray(values, dtype=float)
    return (float(array.mean()), *(float(v) for v in np.percentile(array, PERCENTILES)), float(array.max()))


def _verdict_table(records: Sequence[dict[str, Any]], title: str) -> Table:
    table = Table(title=f"{title}: verdicts")
    table.add_column("split")
    for name in Counts.__slots__:
        table.add_column(name.replace("_", " "), justify="right")
    rows = counts(records)
    for split, row in rows.items():
        if split == "all":
            table.add_section()
        table.add_row(split, *(str(getattr(row, name) or "") for name in Counts.__slots__))
    return table


def _reason_table(records: Sequence[dict[str, Any]], status: Sequence[str], title: str, limit: int) -> Table | None:
    rows = reasons(records, status)
    if not rows:
        return None
    table = Table(title=title)
    table.add_column("schemas", justify="right")
    table.add_column("reason", overflow="fold")
    table.add_column("for example", overflow="fold")
    for kind, number, example in rows[:limit]:
        table.add_row(str(number), kind, example)
    if len(rows) > limit:
        table.add_row(str(sum(number for _, number, _ in rows[limit:])), f"{len(rows) - limit} more reasons", "")
    return table


def _wrong_table(records: Sequence[dict[str, Any]], limit: int) -> Table | None:
    rows = [(record["id"], wrong) for record in records for wrong in record.get("wrong", ())]
    if not rows:
        return None
    rows.sort(key=lambda row: (bool(row[1]["validator_agrees"]), row[1]["order_only"], row[0]))
    table = Table(title=f"wrong verdicts (the first {min(limit, len(rows))} of {len(rows)})")
    for name in ("schema", "instance", "verdict", "bytes read", "a validator says so too", "key order only"):
        table.add_column(name, overflow="fold")
    for name, wrong in rows[:limit]:
        agrees = {True: "yes", False: "no", None: "-"}[wrong["validator_agrees"]]
        at = "" if wrong["at"] is None else str(wrong["at"])
        verdict, order = "accepted" if wrong["accepted"] else "rejected", "yes" if wrong["order_only"] else ""
        table.add_row(name, str(wrong["index"]), verdict, at, agrees, order)
    return table


def _time_table(records: Sequence[dict[str, Any]]) -> Table | None:
    series = {
        "compile, ms": [r["compile_ms"] for r in records if r.get("compile_ms") is not None],
        "first mask, ms": [r["first_mask_ms"] for r in records if r.get("first_mask_ms") is not None],
        "mask, us": [value for r in records for value in r.get("mask_us", ())],
    }
    if not series["compile, ms"]:
        return None
    table = Table(title="times")
    table.add_column("")
    for name in ("number", "mean", *(f"p{p:g}" for p in PERCENTILES), "max"):
        table.add_column(name, justify="right")
    for name, values in series.items():
        if values:
            table.add_row(name, str(len(values)), *(f"{v:,.0f}" if v >= 100 else f"{v:.2f}" for v in percentiles(values)))
    return table


def show(records: Sequence[dict[str, Any]], console: Console, *, title: str, limit: int = 20) -> None:
    """Prints the tables of ``records``; at most ``limit`` rows of reasons and of wrong verdicts."""
    tables = [
        _verdict_table(records, title),
        _reason_table(records, ("refused",), "refusals", limit),
        _reason_table(records, ("error", "crash", "timeout", "memory"), "failures", limit),
        _wrong_table(records, limit),
        _time_table(records),
    ]
    for table in tables:
        if table is not None:
            console.print(table)
