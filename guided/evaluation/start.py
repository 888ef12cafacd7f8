"""What it takes to begin: imports, commands, a vocabulary from disk, the first mask; every figure from fresh processes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from grammars.errors import GuidedError

__all__ = ["markdown", "run", "show"]

_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "born": {"type": "integer"}}, "required": ["name", "born"]}

_HEAVY = ("numpy", "numba", "torch", "transformers", "pydantic", "lark", "rich", "typer")

_REPORT = f"""
import json as _j, sys as _s
print(_j.dumps({{"times": times, "loaded": [m for m in {_HEAVY!r} if m in _s.modules]}}))
"""

_IMPORT = """
import time as _t
_a, _c = _t.perf_counter(), _t.process_time()
import {module}
times = {{"wall": _t.perf_counter() - _a, "cpu": _t.process_time() - _c}}
"""

_STAGES = """
import json, sys, time
times = {}
def stage(name, begin=[time.perf_counter(), time.process_time()]):
    now = [time.perf_counter(), time.process_time()]
    times[name] = {"wall": now[0] - begin[0], "cpu": now[1] - begin[1]}
    begin[:] = time.perf_counter(), time.process_time()
from guided.evaluation.tokenizers import load_tokens
stage("import of the tokenizer's loader")
if sys.argv[1] not in ("bytes", "small"):
    import transformers.tokenization_utils_tokenizers
stage("import of transformers, for its tokenizers")
import grammars
tokens = load_tokens(sys.argv[1])
stage("tokenizer, and vocabulary from disk")
first = tokens.vocabulary
grammars.Vocabulary.from_tokenizer(tokens.tokenizer) if tokens.tokenizer is not None else None
stage("vocabulary again, alive in the process")
first.lexer()
stage("import of the engine, its kernels from disk")
automaton = grammars.JsonSchema(json.loads(sys.argv[2])).compile(first)
stage("first schema: compile")
automaton.mask(automaton.start)
stage("first schema: first mask")
automaton.mask(automaton.advance(automaton.start, automaton.shortest_completion(automaton.start)[0]))
stage("first schema: shortest completion, second mask")
"""


def _python(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[str, float, float]:
    """The output of ``python ...``, and the seconds it took: wall, and CPU of the process."""
    import resource
    import time

    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **(environment or {})})
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise GuidedError(f"python {' '.join(arguments)[:80]} failed: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _median(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {f"{clock}_ms": round(1e3 * statistics.median(row[clock] for row in rows), 1) for clock in ("wall", "cpu")}


def _imports(repeats: int) -> list[dict[str, Any]]:
    found = []
    for module in ("grammars", "guided", "guided.cli", "grammars.automaton", "guided.processor"):
        outputs = [json.loads(_python(["-c", _IMPORT.format(module=module) + _REPORT])[0]) for _ in range(repeats)]
        found.append({"what": f"import {module}", **_median([row["times"] for row in outputs]), "loads": outputs[0]["loaded"]})
    return found


def _commands(schema: str, repeats: int) -> list[dict[str, Any]]:
    commands = {
        "python -c pass": ["-c", "pass"],
        "guided --help": ["-m", "guided", "--help"],
        "guided methods": ["-m", "guided", "methods"],
        "guided explain SCHEMA": ["-m", "guided", "explain", schema],
        "guided check": ["-m", "guided", "check", "--schema", json.dumps(_SCHEMA), "--text", '{"name": "A", "born": 1}'],
    }
    found = []
    for name, arguments in commands.items():
        times = [dict(zip(("wall", "cpu"), _python(arguments)[1:])) for _ in range(repeats)]
        found.append({"what": name, **_median(times)})
    return found


def _stages(tokenizer: str, schema: str, repeats: int, environment: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    outputs = [json.loads(_python(["-c", _STAGES + _REPORT, tokenizer, schema], environment)[0])["times"] for _ in range(repeats)]
    return [{"what": name, **_median([output[name] for output in outputs])} for name in outputs[0]]


def run(schema: Path | None = None, *, tokenizer: str = "packaged", repeats: int = 5, kernels: bool = False) -> dict[str, Any]:
    """Medians over fresh processes, in milliseconds of the wall and of the CPU.

    Args:
        schema: a file; a small object otherwise.
        tokenizer: see :func:`.tokenizers.load_tokens`.
        repeats: processes a figure.
        kernels: measure the stages also with an empty cache of compiled kernels: what happens once on a machine.

    Raises:
        GuidedError: a process failed.
        OSError: the schema's file cannot be read.
    """
    text = json.dumps(_SCHEMA) if schema is None else schema.read_text(encoding="utf-8")
    _stages(tokenizer, text, 1)  # whatever is made once on a machine is there from here on
    found: dict[str, Any] = {
        "run": {"tokenizer": tokenizer, "repeats": repeats, "schema": str(schema or "a small object")},
        "imports": _imports(repeats),
        "commands": _commands(text, repeats),
        f"stages, {tokenizer}": _stages(tokenizer, text, repeats),
    }
    if kernels:
        with tempfile.TemporaryDirectory() as folder:
            found["stages, no kernel compiled yet"] = _stages(tokenizer, text, 1, {"NUMBA_CACHE_DIR": folder})
    return found


def _rows(found: Mapping[str, Any]) -> dict[str, list[list[str]]]:
    return {
        name: [[row["what"], f"{row['wall_ms']:,.1f}", f"{row['cpu_ms']:,.1f}", ", ".join(row.get("loads", ()))] for row in rows]
        for name, rows in found.items()
        if name != "run"
    }


def markdown(found: Mapping[str, Any]) -> str:
    """The tables in Markdown."""
    parts = []
    for name, rows in _rows(found).items():
        head = [f"{name}", "wall ms", "CPU ms", "loads"]
        width = 4 if any(row[3] for row in rows) else 3
        lines = ["| " + " | ".join(row[:width]) + " |" for row in (head, *rows)]
        parts.append("\n".join([lines[0], "|---|" + "---:|" * 2 + "---|" * (width - 3), *lines[1:]]))
    return "\n\n".join(parts)


def show(found: Mapping[str, Any], console: Console) -> None:
    """The tables on the console."""
    for name, rows in _rows(found).items():
        table = Table(name, "wall ms", "CPU ms", "loads")
        for row in rows:
            table.add_row(*row)
        console.print(table)
