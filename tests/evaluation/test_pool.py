"""The guard: whatever a task does, the run goes on."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from guided.evaluation.pool import Guard


def make() -> Any:
    return work


def make_broken() -> Any:
    raise ValueError("not today")


def work(task: Any) -> dict[str, Any]:
    what, value = task
    if what == "square":
        return {"status": "passed", "value": value * value}
    if what == "sleep":
        time.sleep(value)
    elif what == "stubborn":
        end = time.monotonic() + value
        while time.monotonic() < end:
            try:
                time.sleep(value)
            except TimeoutError:
                continue
    elif what == "eat":
        return {"status": "passed", "value": len(bytearray(value << 20))}
    elif what == "die":
        os._exit(value)
    return {"status": "passed"}


def run(tasks: list[tuple[str, int]], **options: Any) -> dict[str, dict[str, Any]]:
    named = [(f"{what} {value} #{i}", (what, value)) for i, (what, value) in enumerate(tasks)]
    answers = list(Guard(make, **options).run(named))
    assert sorted(name for name, _ in answers) == sorted(name for name, _ in named)
    return {name.split(" #")[0]: answer for name, answer in answers}


def test_every_task_is_answered_once_and_rightly() -> None:
    answers = run([("square", n) for n in range(40)])
    assert {name: answer["value"] for name, answer in answers.items()} == {f"square {n}": n * n for n in range(40)}


def test_failures_do_not_stop_the_run() -> None:
    tasks = [("square", 2), ("sleep", 60), ("die", 7), ("square", 3), ("eat", 5000), ("eat", 10), ("square", 4)]
    answers = run(tasks, workers=1, seconds=0.5, megabytes=1000)
    assert [answers[f"square {n}"]["value"] for n in (2, 3, 4)] == [4, 9, 16]
    assert answers["sleep 60"]["status"] == "timeout"
    assert answers["die 7"]["status"] == "crash" and "7" in answers["die 7"]["reason"]
    assert answers["eat 5000"]["status"] == "memory"
    assert answers["eat 10"]["value"] == 10 << 20


def test_a_task_that_ignores_its_interruption_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guided.evaluation.pool.GRACE", 0.3)
    answers = run([("stubborn", 60), ("square", 5)], workers=1, seconds=0.2)
    assert answers["stubborn 60"]["status"] == "timeout"
    assert answers["square 5"]["value"] == 25


def test_a_worker_that_cannot_start_is_reported() -> None:
    with pytest.raises(RuntimeError, match="cannot get ready"):
        list(Guard(make_broken).run([("a", ("square", 1))]))


def test_no_tasks() -> None:
    assert list(Guard(make, workers=1).run([])) == []
