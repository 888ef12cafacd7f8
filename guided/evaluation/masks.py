"""MaskBench on several engines in one run: verdicts and times of each, like for like.

Each engine lives in a guarded worker process of its own. The engines take turns, schema by schema, so what else happens on
the machine meets all of them alike. A schema is compiled, its instances are run token by token (mask, look up the token's
bit, advance), and the end must be allowed after the last. The mask call alone is timed. Once all instances of a schema have been
run (*cold*: the process is warm, the schema new), those that were accepted are run a second time (*warm*).
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from grammars.errors import VocabularyError

from .engines import Engine, Refused, make_engine
from .lanes import Lane
from .pool import Guard
from .suites import Case, Instance, instance_text
from .tokenizers import load_tokens
from .verdicts import bar_of, code_digest

__all__ = ["MaskRecord", "Meter", "run_masks", "versions"]


@dataclass(slots=True)
class MaskRecord:
    """What became of one schema in one engine; ``asdict`` of it is a line of the output.

    Attributes:
        status: ``passed``, ``wrong``, ``refused``, ``error`` (on an instance), or by the guard ``timeout``, ``memory``, ``crash``.
        verdicts: per instance ``accept``, ``reject``, ``error`` or ``unwritable`` (the vocabulary cannot write it).
        valid: per instance its label.
        compile_ms: of the schema, up to a matcher that is ready; ``first_mask_ms`` with the first mask.
        mask_us: per instance the microseconds of its masks, the last one that of the end.
        warm_us: the same of the second pass; empty for instances that are not accepted.
    """

    id: str
    split: str
    status: str = "passed"
    reason: str = ""
    verdicts: list[str] = field(default_factory=list)
    valid: list[bool] = field(default_factory=list)
    compile_ms: float | None = None
    first_mask_ms: float | None = None
    mask_us: list[list[float]] = field(default_factory=list)
    warm_us: list[list[float]] = field(default_factory=list)


class Meter:
    """Judges and times one engine; a picklable task for :class:`.pool.Guard`.

    Args:
        engine: one that is made already, or its name: see :func:`.engines.make_engine`.
        tokenizer: for a name; see :func:`.tokenizers.load_tokens`.
        clock: nanoseconds, monotonic.
    """

    def __init__(self, engine: str | Engine, tokenizer: str = "bytes", clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.engine = engine if isinstance(engine, Engine) else make_engine(engine, load_tokens(tokenizer))
        self.clock = clock
        self.warm_up()
        gc.collect()
        gc.freeze()

    def warm_up(self) -> None:
        """A small schema, so that what is read or compiled on first use is there."""
        small = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        self(Case("warm-up", "", small, (Instance({"a": 12}, True),)))

    def __call__(self, case: Case) -> dict[str, Any]:
        """The :class:`MaskRecord` of a case, as a dict."""
        record = MaskRecord(case.id, case.split, valid=[instance.valid for instance in case.instances])
        engine, clock = self.engine, self.clock
        begin = clock()
        try:
            engine.compile(case.schema)
            compiled = clock() - begin
            engine.begin()
            begin = clock()
            engine.fill()
            first = clock() - begin
            if problem := engine.error():
                raise Refused(f"first mask: {problem}")
        except Refused as refusal:
            return self._refused(record, str(refusal))
        except (MemoryError, TimeoutError):
            raise  # the guard's business
        except Exception as error:  # a peer's own exception on a schema is a refusal, ours is a bug
            record.status = "error" if self.engine.ours else "refused"
            record.reason = f"{type(error).__name__}: {error}"[:300]
            return asdict(record)
        record.compile_ms, record.first_mask_ms = compiled / 1e6, (compiled + first) / 1e6
        texts = [instance_text(instance.data) for instance in case.instances]
        for text in texts:
            record.mask_us.append([])
            record.verdicts.append(self._run(text, record.mask_us[-1], record))
        for text, verdict in zip(texts, record.verdicts):
            record.warm_us.append([])
            if verdict == "accept":
                self._run(text, record.warm_us[-1], record)
        wrong = [valid != (verdict == "accept") for valid, verdict in zip(record.valid, record.verdicts)]
        if "error" in record.verdicts:
            record.status = "error"
        elif any(wrong):
            record.status = "wrong"
        return asdict(record)

    def _refused(self, record: MaskRecord, reason: str) -> dict[str, Any]:
        """A schema without instance is no refusal but a verdict: it rejects everything."""
        record.reason = reason[:300]
        if self.engine.ours and "no text fits" in reason:
            record.verdicts = ["reject"] * len(record.valid)
            record.mask_us, record.warm_us = [[] for _ in record.valid], [[] for _ in record.valid]
            record.status = "wrong" if any(record.valid) else "passed"
        else:
            record.status = "refused"
        return asdict(record)

    def _run(self, text: bytes, times: list[float], record: MaskRecord) -> str:
        engine, clock = self.engine, self.clock
        try:
            tokens = [*engine.vocabulary.encode(text), engine.vocabulary.eos_token_ids[0]]
        except VocabularyError:
            return "unwritable"
        try:
            engine.begin()
            fill, allows, advance = engine.fill, engine.allows, engine.advance
            for token in tokens:
                begin = clock()
                fill()
                times.append((clock() - begin) / 1e3)
                if not allows(token):
                    break
                if token == tokens[-1] and len(times) == len(tokens):
                    return "accept"
                if not advance(token):
                    break
            problem = engine.error()
        except (MemoryError, TimeoutError):
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            record.reason = record.reason or problem[:300]
            return "error"
        return "reject"


def versions(engines: Sequence[str]) -> dict[str, str]:
    """The version of each engine.

    Raises:
        GuidedError: one is unknown or not installed.
    """
    return {name: make_engine(name, load_tokens("small")).version for name in engines}


def run_masks(
    cases: Sequence[Case],
    out: Path,
    *,
    tokenizer: str,
    engines: Sequence[str],
    cpu: bool = True,
    seconds: float = 30.0,
    megabytes: int = 8192,
    seed: int = 0,
    console: Console | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Runs ``cases`` on every engine; records by engine, in the order of ``cases``.

    They are kept in ``out/masks-<engine>.jsonl``; a run that was stopped goes on where it was, unless the options (for this
    library: or the code) have changed since.

    Args:
        tokenizer, engines: see :class:`Meter`.
        cpu: count the process's own CPU time, which a busy machine disturbs less, instead of the wall clock's.
        seconds, megabytes: limits of one schema in one engine; memory over what the engine holds when it is ready.
        seed: of the order of the engines at each schema.
        console: where the progress bar goes; ``None`` for none.

    Raises:
        GuidedError: an engine is unknown or not installed.
    """
    known = versions(engines)
    out.mkdir(parents=True, exist_ok=True)
    clock = time.process_time_ns if cpu else time.perf_counter_ns
    lanes = {}
    for name in engines:
        make = partial(Meter, name, tokenizer, clock)
        limits: dict[str, Any] = {"engine": name, "tokenizer": tokenizer, "cpu": cpu, "passes": 2, "limits": [seconds, megabytes]}
        limits["version"] = known[name]
        header = limits | {"run": code_digest() if name == "guided" else ""}
        guard = Guard(make, workers=1, seconds=seconds, megabytes=megabytes)
        lanes[name] = Lane(out / f"masks-{name}.jsonl", header, guard, [case.id for case in cases])
    rng = random.Random(seed)
    with bar_of(console) as progress:
        bar = progress.add_task("masks", total=len(cases) * len(lanes))
        try:
            for case in cases:
                blank = asdict(MaskRecord(case.id, case.split, valid=[instance.valid for instance in case.instances]))
                for name in rng.sample(list(lanes), len(lanes)):
                    lanes[name].take(case.id, case, blank)
                    progress.advance(bar)
        finally:
            for lane in lanes.values():
                lane.close()
    return {name: [lane.records[case.id] for case in cases] for name, lane in lanes.items()}
