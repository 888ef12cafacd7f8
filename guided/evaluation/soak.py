"""A long stream of distinct schemas through one process, as a server sees them: its resident size must not grow without end.

Schemas are those of a collection and ones grown from them (:mod:`.grow`). Each is compiled, its instances are run mask by mask, and
a text is walked by tokens drawn from the masks. Nothing of a schema is kept once it is done.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from grammars import Automaton, Limits
from grammars.errors import GuidedError

from .children import resident_bytes
from .engines import Guided, Refused
from .grow import Grower
from .pool import Guard
from .suites import Case, instance_text
from .tokenizers import load_tokens

__all__ = ["Sample", "Soaker", "growth", "run_soak", "stream"]

WALK = 60
"""Tokens of a random walk."""


@dataclass(frozen=True)
class Sample:
    """The process after so many schemas.

    Attributes:
        seconds: since the beginning.
        schemas: done so far, ``refused`` of them refused, ``failed`` ended by a limit.
        masks: made so far.
        resident_mb: memory that the process holds.
        restarts: of the worker (a schema that met a limit of time or memory can cost the process).
    """

    seconds: float
    schemas: int
    refused: int
    failed: int
    masks: int
    resident_mb: float
    restarts: int

    as_dict = asdict


def stream(cases: Sequence[Case], seed: int) -> Iterator[tuple[Any, list[Any]]]:
    """Endless ``(schema, instances)``: the collection's once, in random order, and then ones grown from them; no schema twice."""
    rng = random.Random(seed)
    seen: set[bytes] = set()

    def new(schema: Any) -> bool:
        digest = hashlib.blake2b(json.dumps(schema).encode(), digest_size=8).digest()
        fresh = digest not in seen
        seen.add(digest)
        return fresh

    grower = Grower(rng, [case.schema for case in cases])
    for case in rng.sample(list(cases), len(cases)):
        if new(case.schema):
            yield case.schema, [instance.data for instance in case.instances]
        made = grower.schema()
        if new(made):
            yield made, []
    while True:
        made = grower.schema()
        if new(made):
            yield made, []


class Soaker:
    """Takes schemas one by one; a picklable task for :class:`.pool.Guard`.

    Args:
        tokenizer: see :func:`.tokenizers.load_tokens`.
        seed: of the walks.
        limits: of every schema; the default ones where ``None``.
    """

    def __init__(self, tokenizer: str, seed: int = 0, limits: Limits | None = None) -> None:
        self.engine = Guided(load_tokens(tokenizer), {} if limits is None else {"limits": limits})
        self.rng = np.random.default_rng(seed)

    def __call__(self, task: tuple[Any, list[Any]]) -> dict[str, Any]:
        """``status``, ``masks`` (how many were made) and ``resident`` (bytes) of one schema with its instances."""
        schema, instances = task
        try:
            self.engine.compile(schema)
        except Refused as refusal:
            return self._answer("refused", str(refusal)[:200], 0)
        automaton = self.engine.automaton
        assert automaton is not None
        try:
            masks = sum(self._follow(automaton, instance) for instance in instances) + self._walk(automaton)
        except GuidedError as error:
            return self._answer("refused", str(error)[:200], 0)
        return self._answer("done", "", masks)

    def _answer(self, status: str, reason: str, masks: int) -> dict[str, Any]:
        self.engine.automaton = None
        self.engine.fill = self.engine.advance = _nothing
        return {"status": status, "reason": reason, "masks": masks, "resident": resident_bytes()}

    def _follow(self, automaton: Automaton, instance: Any) -> int:
        state, masks = automaton.start, 0
        for token in automaton.vocabulary.encode(instance_text(instance)):
            automaton.fill_mask(state, self.engine.row)
            masks += 1
            state = automaton.advance(state, token)
            if state == automaton.DEAD:
                break
        return masks

    def _walk(self, automaton: Automaton) -> int:
        state = automaton.start
        for masks in range(WALK):
            automaton.fill_mask(state, self.engine.row)
            allowed = np.flatnonzero(np.unpackbits(self.engine.row.view(np.uint8), bitorder="little"))
            token = int(self.rng.choice(allowed))
            if token in automaton.vocabulary.eos_token_ids:
                return masks + 1
            state = automaton.advance(state, token)
        return WALK


def _nothing(*_: object) -> object:
    """What a closed schema leaves: no reference to its automaton."""
    return None


def run_soak(
    cases: Sequence[Case],
    *,
    tokenizer: str,
    minutes: float,
    every: float = 15.0,
    seconds: float = 20.0,
    megabytes: int = 8192,
    seed: int = 0,
    limits: Limits | None = None,
    told: Callable[[Sample], None] | None = None,
) -> list[Sample]:
    """Runs the stream for so many minutes; a sample of the process every ``every`` seconds.

    Args:
        cases: the collection that the stream is made of.
        seconds, megabytes: limits of one schema.
        seed: of the stream and the walks.
        limits: see :class:`Soaker`.
        told: is given each sample as it is taken.
    """
    guard = Guard(partial(Soaker, tokenizer, seed, limits), workers=1, seconds=seconds, megabytes=megabytes)
    begin = time.monotonic()
    end, due = begin + 60 * minutes, begin + every
    samples: list[Sample] = []
    count = {"done": 0, "refused": 0, "failed": 0}
    masks = restarts = 0

    def tasks() -> Iterator[tuple[str, Any]]:
        for i, task in enumerate(stream(cases, seed)):
            if time.monotonic() >= end:
                return
            yield str(i), task

    for _, answer in guard.run(tasks()):
        status = answer["status"]
        count[status if status in count else "failed"] += 1
        restarts += status in ("memory", "crash") or "without reacting" in answer["reason"]
        masks += answer.get("masks", 0)
        now = time.monotonic()
        if "resident" in answer and now >= due:
            due = now + every
            done = sum(count.values())
            resident = answer["resident"] / 2**20
            samples.append(Sample(now - begin, done, count["refused"], count["failed"], masks, resident, restarts))
            if told is not None:
                told(samples[-1])
    return samples


def growth(samples: Sequence[Sample]) -> float:
    """By what factor the resident size has grown late in a run: the median of its last third by that of its middle third.

    Raises:
        ValueError: fewer than six samples.
    """
    if len(samples) < 6:
        raise ValueError(f"{len(samples)} samples say nothing about growth; run for longer, or sample more often")
    third = len(samples) // 3
    middle, last = samples[third:-third], samples[-third:]
    return median(s.resident_mb for s in last) / median(s.resident_mb for s in middle)
