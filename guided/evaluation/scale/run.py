"""Runs curves on several engines: at each point the engines take turns, each in a guarded worker process of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from ..lanes import Lane
from ..masks import versions
from ..pool import Guard
from ..verdicts import bar_of, code_digest
from .curves import Curve
from .measure import Scaler

__all__ = ["GIVEN_UP", "run_scale"]

GIVEN_UP = ("timeout", "memory", "crash", "skipped")
"""After one of these the bigger points of a curve are not tried."""


def run_scale(
    curves: Sequence[Curve],
    out: Path,
    *,
    engines: Sequence[str],
    tokenizer: str,
    cpu: bool = True,
    points: int = 0,
    repeats: int = 3,
    seconds: float = 60.0,
    megabytes: int = 8192,
    seed: int = 0,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Measures the curves; a record for every curve, size and engine: see :meth:`.measure.Scaler.__call__`.

    Records are kept in ``out/scale-<engine>.jsonl``; a run that was stopped goes on where it was, unless the options (for this
    library: or the code) have changed since.

    Args:
        points: of each curve, from the smallest; 0 for all.
        repeats: each point so many times; see :class:`.measure.Scaler`.
        seconds, megabytes: limits of one point (all its repeats) in one engine. Where it meets a limit its bigger points are ``skipped``.
        seed: of the order of the engines at each point.
        console: where the progress bar goes; ``None`` for none.

    Raises:
        GuidedError: an engine is unknown or not installed.
    """
    known = versions(engines)
    out.mkdir(parents=True, exist_ok=True)
    tasks = [(curve.name, size) for curve in curves for size in (curve.sizes[:points] if points else curve.sizes)]
    lanes: dict[str, Lane] = {}
    for name in engines:
        header: dict[str, Any] = {"engine": name, "version": known[name], "tokenizer": tokenizer, "cpu": cpu, "repeats": repeats}
        header |= {"limits": [seconds, megabytes], "run": code_digest() if name == "guided" else ""}
        guard = Guard(partial(Scaler, name, tokenizer, cpu=cpu, repeats=repeats), workers=1, seconds=seconds, megabytes=megabytes)
        lanes[name] = Lane(out / f"scale-{name}.jsonl", header, guard, [_id(task) for task in tasks])
    rng = random.Random(seed)
    lost: set[tuple[str, str]] = set()
    with bar_of(console) as progress:
        bar = progress.add_task("points", total=len(tasks) * len(lanes))
        try:
            for task in tasks:
                for name in rng.sample(list(lanes), len(lanes)):
                    if _take(lanes[name], name, task, (name, task[0]) in lost)["status"] in GIVEN_UP:
                        lost.add((name, task[0]))
                    progress.advance(bar)
        finally:
            for lane in lanes.values():
                lane.close()
    return [lanes[name].records[_id(task)] for task in tasks for name in engines]


def _id(task: tuple[str, int]) -> str:
    return f"{task[0]} {task[1]}"


def _take(lane: Lane, engine: str, task: tuple[str, int], skip: bool) -> dict[str, Any]:
    name = _id(task)
    blank = {"id": name, "curve": task[0], "size": task[1], "engine": engine}
    if skip and name not in lane.records:
        lane.put(name, {**blank, "status": "skipped", "reason": "a smaller point met a limit"})
    return lane.take(name, task, blank)
