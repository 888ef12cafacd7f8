"""Runs :class:`.prover.Prover` on one seed after another, in guarded workers."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .engines import make_engine
from .grow import usable
from .pool import Guard
from .prover import Finding, Prover
from .suites import maskbench
from .tokenizers import load_tokens

__all__ = ["Summary", "fuzz", "real_schemas"]

_SPLITS = ("Github_easy", "Github_medium", "Github_trivial", "Handwritten", "Synthesized", "Snowplow", "MCPspec")


@dataclass(slots=True)
class Summary:
    """What a run came to.

    Attributes:
        schemas, passed, refused, failed: schemas.
        instances, valid, walks, unknown: how much was tried; ``unknown`` are texts on which the oracle had no verdict.
        reasons: refusals by the beginning of their message.
        findings: ``(seed, finding)``.
    """

    schemas: int = 0
    passed: int = 0
    refused: int = 0
    failed: int = 0
    instances: int = 0
    valid: int = 0
    walks: int = 0
    unknown: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, Finding]] = field(default_factory=list)


def real_schemas(data: Path | None, count: int = 300, seed: int = 7) -> list[tuple[Any, list[Any]]]:
    """Small real schemas out of MaskBench in the folder ``data``, each with its valid instances; none without a folder."""
    if data is None:
        return []
    present = {path.name.removesuffix(".jsonl.gz") for path in (data / "maskbench").glob("*.jsonl.gz")}
    cases = [case for case in maskbench(data, [s for s in _SPLITS if s in present]) if usable(case.schema, 2500)]
    chosen = random.Random(seed).sample(cases, min(count, len(cases)))
    return [(case.schema, [i.data for i in case.instances if i.valid]) for case in chosen]


def fuzz(
    *,
    engine: str = "guided",
    tokenizer: str = "small",
    data: Path | None = None,
    seed: int = 0,
    count: int | None = None,
    seconds: float | None = None,
    workers: int = 1,
    case_seconds: float = 30.0,
    shrink_seconds: float = 10.0,
    megabytes: int = 4096,
    report: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Tries ``count`` schemas, or as many as fit into ``seconds``.

    Args:
        engine, tokenizer: see :class:`.prover.Prover`.
        data: folder with MaskBench, to grow schemas from real ones; ``None`` grows all from nothing.
        seed: of the first schema; the others follow on. The same seed is the same schema and the same walks (given the same data).
        workers, megabytes: see :class:`.pool.Guard`.
        case_seconds: of one schema; more is a failure of the kind ``timeout``.
        shrink_seconds: for making one failure smaller.
        report: called after every schema.

    Raises:
        GuidedError: the engine is unknown or not installed, the tokenizer or the data are not there.
    """
    make_engine(engine, load_tokens("small"))  # says what is missing before workers are hired
    summary = Summary()
    deadline = None if seconds is None else time.monotonic() + seconds
    real = real_schemas(data)
    make = partial(Prover, engine, tokenizer, real, shrink_seconds=shrink_seconds)

    def tasks() -> Iterator[tuple[str, int]]:
        at = seed
        while (count is None or at < seed + count) and (deadline is None or time.monotonic() < deadline):
            yield str(at), at
            at += 1

    prover: Prover | None = None
    for name, answer in Guard(make, workers=workers, seconds=case_seconds + 3 * shrink_seconds, megabytes=megabytes).run(tasks()):
        if "findings" not in answer:  # the guard's verdict
            prover = prover or make()
            kind = answer["status"]
            answer = {"status": "failed", "findings": [{"kind": kind, "schema": prover.case(int(name))[0], "detail": answer["reason"]}]}
        _add(summary, int(name), answer)
        report(summary)
    summary.findings.sort(key=lambda pair: pair[0])
    return summary


def _add(summary: Summary, seed: int, answer: dict[str, Any]) -> None:
    status = answer["status"]
    summary.schemas += 1
    summary.passed += status == "passed"
    summary.refused += status == "refused"
    summary.failed += status == "failed"
    for name in ("instances", "valid", "walks", "unknown"):
        setattr(summary, name, getattr(summary, name) + answer.get(name, 0))
    if status == "refused":
        summary.reasons[answer["reason"].partition(" [at ")[0][:100]] += 1
    summary.findings += [(seed, Finding(**found)) for found in answer["findings"]]
