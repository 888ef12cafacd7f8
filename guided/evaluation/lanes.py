"""One engine's worker, fed one task at a time, and the file of its records: what runs that take engines in turn are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .pool import Guard
from .verdicts import earlier

__all__ = ["Lane"]


class Lane:
    """A guarded worker and its records; what an earlier run with the same header has done is not done again.

    Args:
        path: of the file of records, JSON lines; the first is the header.
        header: of the run: options and versions.
        guard: with one worker.
        wanted: ids of all tasks to come; no worker is hired where all are done.

    Attributes:
        records: by id.
    """

    def __init__(self, path: Path, header: dict[str, Any], guard: Guard, wanted: Iterable[str]) -> None:
        self.records = earlier(path, header)
        self._lines = path.open("w", encoding="utf-8")
        for row in [header, *self.records.values()]:
            self._lines.write(json.dumps(row) + "\n")
        self._todo: list[tuple[str, Any]] = []
        self._answers = guard.run(self._feed()) if set(wanted) - self.records.keys() else None

    def _feed(self) -> Iterator[tuple[str, Any]]:
        while self._todo:
            yield self._todo.pop()

    def take(self, name: str, task: Any, blank: Mapping[str, Any]) -> dict[str, Any]:
        """Has the task done, unless it is; its record, which is ``blank`` with what the worker or the guard answered."""
        if name not in self.records:
            assert self._answers is not None
            self._todo.append((name, task))
            done, answer = next(self._answers)
            assert done == name
            self.put(name, {**blank, **answer})
        return self.records[name]

    def put(self, name: str, row: dict[str, Any]) -> None:
        """Takes a record that needed no worker."""
        self.records[name] = row
        self._lines.write(json.dumps(row) + "\n")
        self._lines.flush()

    def close(self) -> None:
        """Ends the worker."""
        if self._answers is not None:
            close: Callable[[], None] | None = getattr(self._answers, "close", None)
            if close is not None:
                close()
        self._lines.close()
