"""Guarded worker processes: every task has a time and a memory limit, and nothing a task does can stop the run.

A task that runs out of time is interrupted, and its process killed if it does not react; one that runs out of memory
or crashes costs its process too. A new process takes over, and the run goes on with the next task.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, NoReturn

__all__ = ["Guard"]

GRACE = 5.0
"""Seconds between the interruption of a task and the end of its process."""
START = 300.0
"""Seconds that a worker has to get ready."""

Work = Callable[[Any], dict[str, Any]]


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    where = traceback.extract_stack(frame, limit=1)[0] if frame else None
    raise TimeoutError(f"in {where.name} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})" if where else "")


def _limit_memory(megabytes: int) -> None:
    """Lets the address space grow by ``megabytes`` over what the worker holds when it is ready."""
    with open("/proc/self/statm") as statm:
        held = int(statm.read().split()[0]) * resource.getpagesize()
    limit = held + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _serve(link: Connection, make: Callable[[], Work], seconds: float, megabytes: int) -> None:
    """The worker's life: make the work function, then answer tasks until the link closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _interrupt)
    work = make()
    with contextlib.suppress(OSError):  # without /proc there is a time limit only
        _limit_memory(megabytes)
    link.send(None)
    while True:
        try:
            task = link.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            answer = work(task)
        except TimeoutError as error:
            answer = {"status": "timeout", "reason": f"more than {seconds:g} s, {error}", "kind": f"timeout {error}"}
        except MemoryError:
            answer = {"status": "memory", "reason": f"more than {megabytes} MB", "kind": "memory"}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        link.send(answer)
        if answer["status"] == "memory":
            return  # what is left of the heap is not to be trusted


class _Worker:
    """A process with at most one task in hand."""

    def __init__(self, make: Callable[[], Work], seconds: float, megabytes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.link, far = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(far, make, seconds, megabytes), daemon=True)
        self.process.start()
        far.close()
        self.ready, self.name = False, ""
        self.deadline = time.monotonic() + START

    def give(self, name: str, task: Any, seconds: float) -> None:
        self.name, self.deadline = name, time.monotonic() + seconds + GRACE
        self.link.send(task)

    def end(self) -> int | None:
        """Ends the process; its exit code if it had ended by itself."""
        code = self.process.exitcode
        self.link.close()
        self.process.kill()
        self.process.join()
        return code


class Guard:
    """Runs tasks in guarded workers.

    Args:
        make: called once in each worker, gives the function that does a task; it must be picklable.
        workers: number of processes.
        seconds: of one task.
        megabytes: of address space that a worker may add to what it holds when it is ready.
    """

    def __init__(self, make: Callable[[], Work], *, workers: int = 2, seconds: float = 10.0, megabytes: int = 4096) -> None:
        self.make, self.workers, self.seconds, self.megabytes = make, workers, seconds, megabytes

    def run(self, tasks: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields ``(name, answer)`` for every ``(name, task)``, in the order in which they finish.

        An answer is what the work function returned, or a dict with ``status`` (``timeout``, ``memory`` or ``crash``),
        ``reason`` and ``kind``.

        Raises:
            RuntimeError: a worker cannot get ready.
        """
        todo = iter(tasks)
        crew = [self._hire() for _ in range(self.workers)]
        try:
            while crew:
                links = {worker.link: worker for worker in crew}
                patience = max(0.0, min(worker.deadline for worker in crew) - time.monotonic())
                for link in wait(list(links), timeout=patience):
                    assert isinstance(link, Connection)
                    yield from self._hear(links[link], crew, todo)
                for worker in [w for w in crew if time.monotonic() > w.deadline]:
                    yield from self._replace(worker, crew, "timeout", f"more than {self.seconds + GRACE:g} s without reacting")
        finally:
            for worker in crew:
                worker.end()

    def _hire(self) -> _Worker:
        return _Worker(self.make, self.seconds, self.megabytes)

    def _hear(self, worker: _Worker, crew: list[_Worker], todo: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            answer = worker.link.recv()
        except (EOFError, OSError):
            worker.process.join(timeout=GRACE)
            yield from self._replace(worker, crew, "crash", f"the process ended with code {worker.process.exitcode}")
            return
        if worker.ready:
            yield worker.name, answer
        worker.ready = True
        if answer is not None and answer["status"] == "memory":
            crew.remove(worker)
            worker.end()
            crew.append(self._hire())
            return
        task = next(todo, None)
        if task is None:
            crew.remove(worker)
            worker.end()
        else:
            worker.give(*task, self.seconds)

    def _replace(self, worker: _Worker, crew: list[_Worker], status: str, reason: str) -> Iterator[tuple[str, dict[str, Any]]]:
        crew.remove(worker)
        worker.end()
        if not worker.ready:
            raise RuntimeError(f"a worker cannot get ready: {reason}")
        yield worker.name, {"status": status, "reason": reason, "kind": status}
        crew.append(self._hire())
