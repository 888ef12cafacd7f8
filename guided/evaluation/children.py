"""Work in a child process: it begins with what the parent holds, ends with the work, and cannot harm the parent."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
from collections.abc import Callable
from typing import Any

__all__ = ["in_child", "resident_bytes"]

_PR_SET_PDEATHSIG = 1


def resident_bytes() -> int:
    """Bytes of memory that this process holds, shared pages included."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def _child(work: Callable[[], dict[str, Any]], out: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # where there is no such call, an orphan ends when it has done its work
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        answer = work()
    except MemoryError:
        answer = {"status": "memory", "reason": "the memory limit"}
    except BaseException as error:
        answer = {"status": "error", "reason": f"{type(error).__name__}: {error}"[:300]}
    data = json.dumps(answer).encode()
    while data:
        data = data[os.write(out, data) :]


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``work`` returns (JSON values), run in a fork of this process.

    A child that dies is an answer with the status ``crash``. When the caller is interrupted the child is killed.
    """
    source, sink = os.pipe()
    gc.collect()
    child = os.fork()
    if child == 0:
        os.close(source)
        try:
            _child(work, sink)
        finally:
            os._exit(0)
    os.close(sink)
    status: int | None = None
    try:
        with open(source, "rb") as answers:
            data = answers.read()
        status = os.waitpid(child, 0)[1]
    finally:
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if not data:
        return {"status": "crash", "reason": f"the process ended with code {os.waitstatus_to_exitcode(status)}"}
    answer: dict[str, Any] = json.loads(data)
    return answer
