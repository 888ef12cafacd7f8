"""Records of single searches, a line of JSON each, so that a run which was stopped goes on where it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Log", "Record", "Task", "finite"]

Record = dict[str, Any]
"""``part``, ``case``, ``method`` (a key together), and what was measured."""


@dataclass(frozen=True)
class Task:
    """One search to run.

    Attributes:
        part, case, method: its key.
        run: does it, and returns what is measured.
    """

    part: str
    case: str
    method: str
    run: Callable[[], Record]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.part, self.case, self.method


class Log:
    """A file of records.

    Args:
        path: made where it is not there; a last line that was cut is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[Record] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    self.records.append(json.loads(line))
                except json.JSONDecodeError:
                    break
            path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in self.records), encoding="utf-8")
        self._known = {(r["part"], r["case"], r["method"]) for r in self.records}

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks that have no record yet."""
        return [task for task in tasks if task.key not in self._known]

    def run(self, task: Task) -> Record:
        """Runs a task and writes its record."""
        part, case, method = task.key
        record = {"part": part, "case": case, "method": method, **finite(task.run())}
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        self.records.append(record)
        self._known.add(task.key)
        return record


def finite(record: Record) -> Record:
    """The record with ``None`` for numbers that JSON does not have."""
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in record.items()}
