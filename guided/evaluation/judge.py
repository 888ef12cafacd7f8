"""One schema, one verdict: compile it, run its labelled instances through the automaton, compare with the labels.

Verdicts are taken at byte level (every instance is read as the bytes of its JSON text), so they do not depend on a
tokenizer; times are taken token by token, as generation would.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import referencing.jsonschema
from referencing import Registry, Resource

from grammars import JsonSchema, Vocabulary
from grammars.errors import ConstraintError, GuidedError, LimitError, SchemaError

from .spelling import respelled, shuffled
from .suites import DIALECTS, Case, instance_text
from .tokenizers import load_tokens

if TYPE_CHECKING:
    from grammars import Automaton

__all__ = ["PACKAGED", "Judge", "Record", "WrongVerdict", "byte_vocabulary", "load_vocabulary"]


EMPTY = "no text fits it"
"""What the message of an empty language says."""
PACKAGED = "packaged"
"""Names the tokenizer of the packaged model."""


def byte_vocabulary() -> Vocabulary:
    """The smallest vocabulary that can write everything: a token for each byte, and an end."""
    return load_tokens("bytes").vocabulary


def load_vocabulary(tokenizer: str | None) -> Vocabulary:
    """The vocabulary of a tokenizer (see :func:`.tokenizers.load_tokens`); of single bytes for ``None``."""
    return load_tokens(tokenizer).vocabulary


@dataclass(slots=True)
class WrongVerdict:
    """An instance on which the automaton and the label disagree.

    Attributes:
        index: its place among the case's instances.
        accepted: what the automaton said; the label says the opposite.
        at: for a rejection, the number of bytes that were read before it.
        validator_agrees: whether a validator that takes ``format`` as an annotation says the same as the automaton
            (then it is the label that is doubtful); ``None`` where none is installed or it gave up.
        order_only: a rejection for the order of keys alone: with ``order="any"`` the instance is accepted.
        spelling: the text, where it is not the instance's plain one that is judged wrongly but another spelling of it.
    """

    index: int
    accepted: bool
    at: int | None = None
    validator_agrees: bool | None = None
    order_only: bool = False
    spelling: str | None = None


@dataclass(slots=True)
class Record:
    """What became of one case; ``asdict`` of it is a line of the output.

    Attributes:
        status: ``passed``, ``refused`` (at compile time, with a reason), ``wrong``, ``error`` (not one of the library's
            own), or given by the guard: ``timeout``, ``memory``, ``crash``.
        reason: for a refusal or error, its message; ``kind`` is the same with everything particular taken out.
        pointer, keyword: of a refusal.
        compile_ms, first_mask_ms: milliseconds.
        mask_us: of each mask, in order, microseconds.
    """

    id: str
    split: str
    status: str = "passed"
    reason: str = ""
    kind: str = ""
    pointer: str = ""
    keyword: str | None = None
    instances: int = 0
    wrong: list[WrongVerdict] = field(default_factory=list)
    compile_ms: float | None = None
    first_mask_ms: float | None = None
    mask_us: list[float] = field(default_factory=list)


def _kind(error: Exception) -> str:
    """The message of an error without values, names and places, so that equal causes are counted together."""
    if isinstance(error, LimitError):
        return f"limit {error.limit}"
    text = error.reason if isinstance(error, SchemaError) else str(error)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'…'", text.splitlines()[0] if text else "")
    return re.sub(r"-?\d+(\.\d+)?", "N", text)[:120]


def _read(automaton: Automaton, text: bytes) -> tuple[bool, int | None]:
    """Whether the automaton accepts ``text``, and if not how many bytes of it can be read."""
    state = automaton.advance_bytes(automaton.start, text)
    if state != automaton.DEAD:
        return (True, None) if automaton.accepts(state) else (False, len(text))
    low, high = 0, len(text)  # the longest prefix that is alive is shorter than high
    while high - low > 1:
        middle = (low + high) // 2
        if automaton.advance_bytes(automaton.start, text[:middle]) != automaton.DEAD:
            low = middle
        else:
            high = middle
    return False, low


@lru_cache(maxsize=1)
def _validators() -> Any:
    try:
        import jsonschema.validators
    except ImportError:
        return None
    return jsonschema.validators


def _agrees(case: Case, index: int, accepted: bool) -> bool | None:
    """Whether the ``jsonschema`` package, which leaves ``format`` alone, gives the verdict ``accepted`` too; ``None`` where it has none."""
    validators = _validators()
    if validators is None:
        return None
    try:
        return bool(validators.validator_for(case.schema)(case.schema).is_valid(case.instances[index].data)) == accepted
    except Exception:
        return None  # a schema it cannot process, a reference it cannot follow, a pattern it does not know


_LATER = ("https://json-schema.org/v1",)  # dialects newer than the five drafts


class Judge:
    """Judges cases, one after another, against one vocabulary (so that caches work as they would in a server).

    Args:
        tokenizer: see :func:`load_vocabulary`.
        times: whether to time masks too.
        options: of :class:`grammars.JsonSchema`.
        remotes: documents by URI that references may lead to; read as of the draft that is the case's split.
        spellings: how many other spellings of each instance to judge too: blanks, escapes, and with ``order="any"`` key order.
        seed: of the spellings.
        clock: nanoseconds, monotonic.
    """

    def __init__(
        self,
        tokenizer: str | None = None,
        *,
        times: bool = False,
        options: Mapping[str, Any] | None = None,
        remotes: Mapping[str, Any] | None = None,
        spellings: int = 0,
        seed: int = 0,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.vocabulary = load_vocabulary(tokenizer)
        self.spellings, self.seed = spellings, seed
        self.times, self.options, self.remotes, self.clock = times, dict(options or {}), remotes, clock
        self._registries: dict[str, Registry[Any]] = {}
        self._row = np.zeros((self.vocabulary.logits_size + 31) // 32, dtype=np.int32)
        self(Case("warm-up", "", {"type": "object", "properties": {"a": {"type": "integer"}}}, ()))

    def __call__(self, case: Case) -> dict[str, Any]:
        """The :class:`Record` of a case, as a dict."""
        record = Record(case.id, case.split, instances=len(case.instances))
        try:
            begin = self.clock()
            automaton = JsonSchema(case.schema, registry=self._registry(case.split), **self.options).compile(self.vocabulary)
            record.compile_ms = (self.clock() - begin) / 1e6
        except GuidedError as error:
            if type(error) is ConstraintError and EMPTY in str(error):
                _empty(case, record)
                return asdict(record)
            record.status, record.reason, record.kind = "refused", str(error), _kind(error)
            if isinstance(error, SchemaError):
                record.pointer, record.keyword = error.pointer, error.keyword
        except Exception as error:
            _note(record, error)
        else:
            try:
                self._judge(case, record, automaton)
            except Exception as error:  # one of the library's own too: after compilation nothing may be refused
                _note(record, error)
        return asdict(record)

    def _registry(self, draft: str) -> Registry[Any] | None:
        if not self.remotes:
            return None
        if draft not in self._registries:
            resources = []
            for uri, schema in self.remotes.items():  # those in a folder of a draft are written in that draft
                if isinstance(schema, dict) and str(schema.get("$schema", "")) in _LATER:
                    continue
                own = next((name for name in DIALECTS if f"/{name}/" in uri), draft)
                specification = referencing.jsonschema.specification_with(DIALECTS[own])
                resources.append((uri, Resource.from_contents(schema, specification)))
            self._registries[draft] = Registry().with_resources(resources)
        return self._registries[draft]

    def _judge(self, case: Case, record: Record, automaton: Automaton) -> None:
        if self.times:
            begin = self.clock()
            automaton.fill_mask(automaton.start, self._row)
            record.first_mask_ms = (record.compile_ms or 0.0) + (self.clock() - begin) / 1e6
        for index, instance in enumerate(case.instances):
            text = instance_text(instance.data)
            by_tokens = self._walk(automaton, text, record.mask_us) if self.times else None
            accepted, at = _read(automaton, text)
            if by_tokens is not None and by_tokens != accepted:
                raise AssertionError(f"instance {index}: the masks say {by_tokens}, the bytes say {accepted}")
            if accepted != instance.valid:
                record.wrong.append(WrongVerdict(index, accepted, at, _agrees(case, index, accepted)))
                continue
            for spelling in self._spelled(case, index):
                again, at = _read(automaton, spelling.encode())
                if again != instance.valid:
                    record.wrong.append(WrongVerdict(index, again, at, _agrees(case, index, again), spelling=spelling))
                    break
        if record.wrong:
            record.status = "wrong"
            self._find_order_only(case, record)

    def _spelled(self, case: Case, index: int) -> Iterator[str]:
        """Other spellings of an instance."""
        rng = random.Random(f"{self.seed} {case.id} {index}")
        data = case.instances[index].data
        for _ in range(self.spellings):
            value = shuffled(data, rng) if self.options.get("order") == "any" else data
            yield respelled(value, rng)

    def _find_order_only(self, case: Case, record: Record) -> None:
        rejections = [wrong for wrong in record.wrong if not wrong.accepted]
        if rejections and self.options.get("order") != "any":
            options = {**self.options, "order": "any"}
            try:
                automaton = JsonSchema(case.schema, registry=self._registry(case.split), **options).compile(self.vocabulary)
            except GuidedError:
                return
            for wrong in rejections:
                wrong.order_only = _read(automaton, instance_text(case.instances[wrong.index].data))[0]

    def _walk(self, automaton: Automaton, text: bytes, taken: list[float]) -> bool:
        """Whether the masks on the way let ``text`` through, token by token, and an end after it; adds their microseconds to ``taken``."""
        state, row = automaton.start, self._row
        for token in [*self.vocabulary.encode(text), self.vocabulary.eos_token_ids[0]]:
            begin = self.clock()
            automaton.fill_mask(state, row)
            taken.append((self.clock() - begin) / 1e3)
            if not int(row[token >> 5]) >> (token & 31) & 1:
                return False
            state = automaton.advance(state, token)
        return True


def _empty(case: Case, record: Record) -> None:
    """A schema that is refused since no text fits it has been judged: it rejects everything."""
    record.reason = EMPTY
    record.wrong = [WrongVerdict(i, False, 0, _agrees(case, i, False)) for i, instance in enumerate(case.instances) if instance.valid]
    if record.wrong:
        record.status = "wrong"


def _note(record: Record, error: Exception) -> None:
    if isinstance(error, (MemoryError, TimeoutError)):
        raise error  # the guard's business
    record.status, record.reason = "error", f"{type(error).__name__}: {error}"
    record.kind = f"{type(error).__name__}: {_kind(error)}"
