"""One point of a curve on one engine, measured in a child process: the process is warm, the schema new, the memory its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from grammars import Vocabulary

from ..children import in_child, resident_bytes
from ..engines import Engine, Refused, make_engine
from ..masks import Meter
from ..suites import Case, Instance, instance_text
from ..synthetic import synthetic_vocabulary
from ..tokenizers import Tokens, load_tokens
from .batches import Batch, make_batch
from .curves import WARM_UP, Point, curve_of

__all__ = ["Scaler"]

SOURCES = ("tekken", "deepseek", "packaged")
"""What synthetic vocabularies are made of, where it is installed."""
STEPS = 48
"""Steps of a batch that are timed, cold and then warm."""


def _statistics(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    p50, p99 = np.percentile(values, (50, 99))
    return {"mean": float(np.mean(values)), "p50": float(p50), "p99": float(p99), "max": float(max(values))}


def _median(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median of every number of several answers alike in form; the rest is the first one's."""
    first = answers[0]
    out: dict[str, Any] = {}
    for key, value in first.items():
        if isinstance(value, dict):
            out[key] = _median([answer[key] for answer in answers])
        else:
            out[key] = median(answer[key] for answer in answers) if isinstance(value, float) else value
    return out


def _synthetic(size: int) -> Tokens:
    sources = (load_tokens(name).vocabulary for name in SOURCES)
    return Tokens(f"synthetic-{size}", synthetic_vocabulary(size, sources))


class Scaler:
    """Measures points; a picklable task for :class:`..pool.Guard`.

    Args:
        engine, tokenizer: see :func:`..engines.make_engine` and :func:`..tokenizers.load_tokens`.
        cpu: count the process's own CPU time instead of the wall clock's. Batches use the wall's always: they may run on several cores.
        repeats: each point so many times, each in a process of its own; what is reported is the median of every number.
    """

    def __init__(self, engine: str, tokenizer: str, *, cpu: bool = True, repeats: int = 3) -> None:
        self.name, self.repeats = engine, repeats
        self.clock: Callable[[], int] = time.process_time_ns if cpu else time.perf_counter_ns
        self.meter = Meter(engine, tokenizer, self.clock)

    def __call__(self, task: tuple[str, int]) -> dict[str, Any]:
        """The answer for ``(curve, size)``: status, reason, ``compile_ms``, ``ttfm_ms``, ``masks`` (how many), ``cold_us`` and ``warm_us``
        (statistics), ``memory_mb`` (what the schema and its masks added to the process)."""
        name, size = task
        point = curve_of(name).make(size)
        answers = []
        for _ in range(self.repeats):
            answers.append(in_child(lambda: self._measure(point)))
            if answers[-1]["status"] != "done":
                return answers[-1]
        return _median(answers)

    def _measure(self, point: Point) -> dict[str, Any]:
        meter = self.meter
        if point.tokens is not None:
            meter = Meter(make_engine(self.name, _synthetic(point.tokens)), clock=self.clock)
        engine = meter.engine
        meter(Case("warm-up", "", WARM_UP.schema, tuple(Instance(data, True) for data in WARM_UP.instances)))
        engine.options = {**engine.options, **point.options.get(self.name, {})}
        gc.collect()
        before = resident_bytes()
        answer = _alone(meter, point) if point.rows is None else _together(engine, point, point.rows)
        gc.collect()
        return {**answer, "memory_mb": max(0.0, (resident_bytes() - before) / 2**20)}


def _alone(meter: Meter, point: Point) -> dict[str, Any]:
    case = Case("point", "", point.schema, tuple(Instance(data, True) for data in point.instances))
    row = meter(case)
    if row["status"] != "passed":
        return {"status": row["status"], "reason": row["reason"] or f"verdicts {sorted(set(row['verdicts']))}"}
    cold = [time for times in row["mask_us"] for time in times]
    warm = [time for times in row["warm_us"] for time in times]
    answer = {"status": "done", "reason": "", "compile_ms": row["compile_ms"], "ttfm_ms": row["first_mask_ms"], "masks": len(cold)}
    return {**answer, "cold_us": _statistics(cold), "warm_us": _statistics(warm)}


def _together(engine: Engine, point: Point, rows: int) -> dict[str, Any]:
    """A batch: row ``i`` begins with the ``i``-th instance, ``i`` tokens ahead, so that no two rows are at the same place."""
    clock = time.perf_counter_ns
    texts = [_tokens(engine.vocabulary, data) for data in point.instances]
    begin = clock()
    try:
        engine.compile(point.schema)
    except Refused as refusal:
        return {"status": "refused", "reason": str(refusal)[:300]}
    compiled = clock() - begin
    batch = make_batch(engine, rows)
    if batch is None:
        return {"status": "refused", "reason": "the engine has no call for a batch"}
    begin = clock()
    batch.fill()
    first = clock() - begin
    cold = _steps(batch, texts)
    answer = {"status": "done", "reason": "", "compile_ms": compiled / 1e6, "ttfm_ms": (compiled + first) / 1e6, "masks": rows * STEPS}
    return {**answer, "cold_us": _statistics(cold), "warm_us": _statistics(_steps(batch, texts))}


def _tokens(vocabulary: Vocabulary, data: Any) -> list[int]:
    return [*vocabulary.encode(instance_text(data)), vocabulary.eos_token_ids[0]]


def _steps(batch: Batch, texts: Sequence[Sequence[int]]) -> list[float]:
    """Microseconds of the masks of each step; a text that has ended begins again."""
    at = [row % len(texts[row]) for row in range(batch.rows)]
    for row, ahead in enumerate(at):
        batch.begin(row)
        for token in texts[row][:ahead]:
            batch.advance(row, token)
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter_ns()
        batch.fill()
        times.append((time.perf_counter_ns() - begin) / 1e3)
        for row, text in enumerate(texts):
            token = text[at[row]]
            if not batch.allows(row, token):
                raise AssertionError(f"row {row} forbids token {at[row]} of a valid instance")
            at[row] = (at[row] + 1) % len(text)
            if at[row] == 0:
                batch.begin(row)
            else:
                batch.advance(row, token)
    return times
