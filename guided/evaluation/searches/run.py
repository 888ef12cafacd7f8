"""Runs the parts, case by case, so that what a stopped run leaves is a fair sample of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grammars.errors import GuidedError

from . import beams, concepts, objects, prompts, rewards
from .records import Log, Record, Task

if TYPE_CHECKING:
    from rich.console import Console

    from guided.model import Model

__all__ = ["PARTS", "run_searches", "tasks_of"]

PARTS = ("concepts", "rewards", "objects", "beams")


def tasks_of(model: Model, data: Path, part: str, sample: int, seed: int) -> list[Task]:
    """The tasks of a part, over ``sample`` prompts.

    Raises:
        GuidedError: an unknown part, or missing data.
    """
    if part == "beams":
        return beams.tasks(model, prompts.questions(data, sample, seed))
    if part == "concepts":
        return concepts.tasks(model, prompts.concepts(data, sample, seed))
    if part == "rewards":
        return rewards.tasks(model, prompts.questions(data, sample, seed), seed=seed)
    if part == "objects":
        return objects.tasks(model, prompts.articles(data, sample, seed), seed=seed)
    raise GuidedError(f"there is no part {part!r}; there are {', '.join(PARTS)}")


def run_searches(
    model: Model, data: Path, out: Path, *, parts: Sequence[str] = PARTS, sample: int = 4, seed: int = 7, console: Console
) -> list[Record]:
    """All records of the parts; those that are in ``out/search.jsonl`` already are not made again.

    Args:
        data: the folder of the prompts.
        sample: prompts a part.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    log = Log(out / "search.jsonl")
    by_part = [tasks_of(model, data, part, sample, seed) for part in parts]
    found = {task.key for tasks in by_part for task in tasks}
    waiting = log.missing(sorted((task for tasks in by_part for task in tasks), key=_case))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        shown = bar.add_task("", total=len(waiting))
        for task in waiting:
            bar.update(shown, description=f"{task.part} {task.case}: {task.method}")
            log.run(task)
            bar.advance(shown)
    return [record for record in log.records if (record["part"], record["case"], record["method"]) in found]


def _case(task: Task) -> int:
    """The number that a case begins with."""
    return int(task.case.split()[0])
