"""Counting records and printing them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from guided.evaluation.report import counts, percentiles, reasons, show


def record(name: str, split: str, status: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "split": split, "status": status, "reason": "", "kind": "", "wrong": [], **more}


ACCEPT = {"index": 0, "accepted": True, "at": None, "validator_agrees": True, "order_only": False}
REJECT = {"index": 1, "accepted": False, "at": 7, "validator_agrees": False, "order_only": True}
RECORDS = [
    record("1", "b", "passed", compile_ms=2.0, first_mask_ms=3.0, mask_us=[1.0, 3.0]),
    record("2", "b", "wrong", wrong=[ACCEPT]),
    record("3", "a", "wrong", wrong=[ACCEPT, REJECT], compile_ms=4.0),
    record("4", "a", "refused", kind="cannot", keyword="not"),
    record("5", "a", "refused", kind="cannot", keyword="not"),
    record("6", "a", "refused", kind="cannot"),
    record("7", "a", "crash", kind="crash"),
    record("8", "a", "timeout", kind="timeout"),
    record("9", "a", "memory", kind="memory"),
    record("10", "a", "wrong", wrong=[REJECT]),
]


def test_counts() -> None:
    rows = counts(RECORDS)
    assert list(rows) == ["a", "b", "all"]
    total = rows["all"]
    assert (total.schemas, total.passed, total.refused, total.error, total.timeout, total.memory) == (10, 1, 3, 1, 1, 1)
    assert (total.wrong_accept, total.wrong_reject, total.doubtful, total.order_only) == (2, 2, 1, 1)
    assert rows["b"].wrong_accept == 1 and rows["b"].wrong_reject == 0


def test_reasons_are_counted_most_frequent_first() -> None:
    assert reasons(RECORDS, ("refused",)) == [("not: cannot", 2, "4"), ("cannot", 1, "6")]
    assert [kind for kind, _, _ in reasons(RECORDS, ("crash", "timeout"))] == ["crash", "timeout"]


def test_percentiles() -> None:
    mean, median, *_, greatest = percentiles([float(n) for n in range(101)])
    assert (mean, median, greatest) == pytest.approx((50, 50, 100))


def test_tables_show_everything_that_was_counted() -> None:
    out = io.StringIO()
    show(RECORDS, Console(file=out, width=160), title="demo", limit=1)
    text = out.getvalue()
    for part in ("demo: verdicts", "not: cannot", "1 more reasons", "wrong verdicts (the first 1 of 4)", "compile, ms", "mask, us"):
        assert part in text


def test_an_empty_run_prints_too() -> None:
    out = io.StringIO()
    show([], Console(file=out), title="nothing")
    assert "nothing: verdicts" in out.getvalue()
