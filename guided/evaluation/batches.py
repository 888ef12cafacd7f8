"""Masks of whole batches: this library and its peers step by step in one run; and what the Hugging Face processor adds to a model's step.

Each row of a batch writes instances of schemas one after another, token by token. In a *cold* pass every schema is freshly compiled and its
masks are met for the first time; the *warm* pass writes the same texts again. Engines take turns step by step, in one process.
"""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grammars import Automaton, JsonSchema, fill_masks
from grammars.errors import GuidedError, VocabularyError

from .engines import LLGuidance, Refused, XGrammar, XGrammarStrict
from .suites import Case, instance_text
from .tokenizers import Tokens

__all__ = ["BATCHES", "Batch", "Text", "fills", "make_batch", "processor_steps", "texts_of"]

SHORTEST = 16  # tokens of a text that is worth writing


@dataclass(frozen=True, slots=True)
class Text:
    """A schema and the tokens of an instance of it."""

    schema: Any
    tokens: list[int]


def texts_of(cases: Sequence[Case], tokens: Tokens, longest: int = 512) -> list[Text]:
    """The first valid instance of each case, where this vocabulary can write it in a reasonable number of tokens."""
    found = []
    for case in cases:
        valid = next((instance for instance in case.instances if instance.valid), None)
        if valid is None:
            continue
        try:
            ids = tokens.vocabulary.encode(instance_text(valid.data))
        except VocabularyError:
            continue
        if SHORTEST <= len(ids) <= longest:
            found.append(Text(case.schema, ids))
    return found


class Batch(ABC):
    """One engine with a row for each text under way. Rows live in ``rows``, int32[size, words]."""

    name = ""

    def __init__(self, tokens: Tokens, size: int) -> None:
        self.tokens, self.size = tokens, size
        self.rows = np.zeros((size, tokens.vocabulary.words), np.int32)

    @abstractmethod
    def compile(self, schema: Any) -> Any:
        """What :meth:`begin` starts from. Raises :class:`~.engines.Refused`."""

    @abstractmethod
    def begin(self, row: int, compiled: Any) -> None:
        """Goes to the start of a text in one row."""

    @abstractmethod
    def fill(self) -> None:
        """The masks of all rows; what is timed."""

    @abstractmethod
    def advance(self, row: int, token: int) -> bool:
        """Whether the token may come in this row; goes on if so."""

    def allows(self, row: int, token: int) -> bool:
        """Whether the mask that was written last has the token."""
        return bool(int(self.rows[row, token >> 5]) >> (token & 31) & 1)


class GuidedBatch(Batch):
    """:func:`grammars.fill_masks`: every mask copied into its row."""

    name = "guided, rows"

    def __init__(self, tokens: Tokens, size: int) -> None:
        super().__init__(tokens, size)
        self.automata: list[Automaton | None] = [None] * size
        self.states = [0] * size

    def compile(self, schema: Any) -> Automaton:
        try:
            return JsonSchema(schema).compile(self.tokens.vocabulary)
        except GuidedError as error:
            raise Refused(str(error)) from error

    def begin(self, row: int, compiled: Automaton) -> None:
        self.automata[row], self.states[row] = compiled, compiled.start

    def fill(self) -> None:
        fill_masks(self.automata, self.states, self.rows)

    def advance(self, row: int, token: int) -> bool:
        automaton = self.automata[row]
        assert automaton is not None
        self.states[row] = automaton.advance(self.states[row], token)
        return self.states[row] != automaton.DEAD


class GuidedTable(GuidedBatch):
    """:meth:`samplers.MaskTable.select`: masks lie in the table, a step gives one number a row."""

    name = "guided, table"

    def __init__(self, tokens: Tokens, size: int) -> None:
        super().__init__(tokens, size)
        from samplers.masks import MaskTable

        self.table = MaskTable(32 * tokens.vocabulary.words)
        self.serials = [0] * size
        self.selection: Any = None

    def begin(self, row: int, compiled: Automaton) -> None:
        from samplers.masks import serial

        super().begin(row, compiled)
        self.serials[row] = serial(compiled)

    def fill(self) -> None:
        self.selection = self.table.select(list(zip(self.serials, self.states)), self._write)

    def _write(self, row: int, mask: Any) -> None:
        automaton = self.automata[row]
        assert automaton is not None
        automaton.fill_mask(self.states[row], mask)

    def allows(self, row: int, token: int) -> bool:
        return bool(self.selection.allowed()[row, token])


class LLGuidanceBatch(Batch):
    """llguidance: its matchers one by one, each through a kept pointer."""

    name = "llguidance"

    def __init__(self, tokens: Tokens, size: int) -> None:
        super().__init__(tokens, size)
        self.engine = LLGuidance(tokens)
        self.matchers: list[Any] = [None] * size
        self.fills: list[Any] = [None] * size
        self.words = self.rows.shape[1]

    def compile(self, schema: Any) -> Any:
        self.engine.compile(schema)
        return self.engine.matcher()

    def begin(self, row: int, compiled: Any) -> None:
        self.matchers[row] = compiled.deep_copy()
        self.fills[row] = self.matchers[row].unsafe_compute_mask_ptr

    def fill(self) -> None:
        at, step = self.rows.ctypes.data, 4 * self.words
        for fill in self.fills:
            fill(at, step)
            at += step

    def advance(self, row: int, token: int) -> bool:
        return bool(self.matchers[row].consume_token(token))


class LLGuidanceExecutor(LLGuidanceBatch):
    """llguidance: all its matchers in one call of ``LLExecutor``, with as many threads as the machine has cores for it."""

    name = "llguidance, executor"

    def __init__(self, tokens: Tokens, size: int) -> None:
        super().__init__(tokens, size)
        import llguidance

        self.executor = llguidance.LLExecutor()

    def fill(self) -> None:
        pairs = [(matcher, i) for i, matcher in enumerate(self.matchers)]
        self.executor.unsafe_compute_mask_ptr(pairs, self.rows.ctypes.data, 4 * self.words, self.size)


class XGrammarBatch(Batch):
    """xgrammar: its matchers one by one."""

    name = "xgrammar"
    kind: type[XGrammar] = XGrammar

    def __init__(self, tokens: Tokens, size: int) -> None:
        super().__init__(tokens, size)
        import torch

        self.engine = self.kind(tokens)
        self.matchers: list[Any] = [None] * size
        self.tensor = torch.from_numpy(self.rows)

    def compile(self, schema: Any) -> Any:
        self.engine.compile(schema)
        return self.engine.matcher()

    def begin(self, row: int, compiled: Any) -> None:
        self.matchers[row] = compiled.fork()

    def fill(self) -> None:
        for i, matcher in enumerate(self.matchers):
            matcher.fill_next_token_bitmask(self.tensor, i)

    def advance(self, row: int, token: int) -> bool:
        return bool(self.matchers[row].accept_token(token))


class XGrammarTogether(XGrammarBatch):
    """xgrammar: all its matchers in one call of ``BatchGrammarMatcher``, with the threads it chooses."""

    name = "xgrammar, batch"

    def __init__(self, tokens: Tokens, size: int) -> None:
        super().__init__(tokens, size)
        self.together = self.engine.library.BatchGrammarMatcher()

    def fill(self) -> None:
        self.together.batch_fill_next_token_bitmask(self.matchers, self.tensor)


class XGrammarStrictBatch(XGrammarBatch):
    name, kind = "xgrammar-strict", XGrammarStrict


class XGrammarStrictTogether(XGrammarTogether):
    name, kind = "xgrammar-strict, batch", XGrammarStrict


BATCHES: dict[str, tuple[type[Batch], ...]] = {
    "guided": (GuidedBatch, GuidedTable),
    "llguidance": (LLGuidanceBatch, LLGuidanceExecutor),
    "xgrammar": (XGrammarBatch, XGrammarTogether),
    "xgrammar-strict": (XGrammarStrictBatch, XGrammarStrictTogether),
}
"""The ways of each engine to fill a batch, one row after another and all at once."""


def make_batch(name: str, tokens: Tokens, size: int) -> list[Batch]:
    """An engine's ways; raises :class:`GuidedError` for a name it does not know, or an engine that is not installed."""
    if name not in BATCHES:
        raise GuidedError(f"there is no engine {name!r} for batches; there are {', '.join(BATCHES)}")
    return [kind(tokens, size) for kind in BATCHES[name]]


def _writable(batches: Sequence[Batch], texts: Sequence[Text], count: int) -> list[Text]:
    """The first ``count`` texts that every engine compiles and accepts; found without asking for a mask."""

    def takes(batch: Batch, text: Text) -> bool:
        try:
            batch.begin(0, batch.compile(text.schema))
        except Refused:
            return False
        return all(batch.advance(0, token) for token in text.tokens)

    distinct = {(type(batch).compile, getattr(batch, "kind", None)): batch for batch in batches}.values()
    found: list[Text] = []
    for text in texts:
        if len(found) == count:
            break
        if all(takes(batch, text) for batch in distinct):
            found.append(text)
    return found


class _Writer:
    """The rows of one engine: row ``r`` writes text ``r``, then ``r + size``, ... round and round."""

    def __init__(self, batch: Batch, texts: Sequence[Text], compiled: Sequence[Any]) -> None:
        self.batch, self.texts, self.compiled = batch, texts, compiled
        self.text, self.at = [row % len(texts) for row in range(batch.size)], [0] * batch.size
        for row, text in enumerate(self.text):
            batch.begin(row, compiled[text])

    def step(self) -> None:
        """The next token of every row, which its mask has to have."""
        for row in range(self.batch.size):
            token = self.texts[self.text[row]].tokens[self.at[row]]
            if not self.batch.advance(row, token):
                raise GuidedError(f"{self.batch.name} refuses token {self.at[row]} of a text that it took before")
            self.at[row] += 1
            if self.at[row] == len(self.texts[self.text[row]].tokens):
                self.text[row], self.at[row] = (self.text[row] + self.batch.size) % len(self.texts), 0
                self.batch.begin(row, self.compiled[self.text[row]])

    def check(self) -> None:
        """Raises a :class:`GuidedError` unless the masks of the first rows have the tokens that come next."""
        for row in range(min(4, self.batch.size)):
            if not self.batch.allows(row, self.texts[self.text[row]].tokens[self.at[row]]):
                raise GuidedError(f"{self.batch.name}: the mask of row {row} lacks the token that comes next")


def fills(
    texts: Sequence[Text],
    tokens: Tokens,
    engines: Sequence[str],
    size: int,
    *,
    steps: int = 64,
    schemas: int = 64,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Iterator[dict[str, Any]]:
    """Times of filling a batch of ``size`` rows: for each engine's ways, cold and warm, one dict.

    Keys: ``engine``, ``batch``, ``pass``, ``schemas``, and ``fill_us`` and ``advance_us``, a list with one number a step (of the whole
    batch). ``schemas`` is how many distinct ones the rows write.
    """
    batches = [batch for name in engines for batch in make_batch(name, tokens, size)]
    chosen = _writable(batches, texts, schemas)
    if not chosen:
        raise GuidedError("no text of this sample is taken by every engine: take a larger sample or fewer engines")
    compiled = [[batch.compile(text.schema) for text in chosen] for batch in batches]
    for which in ("cold", "warm"):
        writers = [_Writer(batch, chosen, made) for batch, made in zip(batches, compiled)]
        times: list[tuple[list[float], list[float]]] = [([], []) for _ in batches]
        for step in range(steps):
            for i in range(len(writers)):
                turn = (i + step) % len(writers)
                writer, (fill, advance) = writers[turn], times[turn]
                begin = clock()
                writer.batch.fill()
                middle = clock()
                if step % 8 == 0:
                    writer.check()
                after = clock()
                writer.step()
                fill.append((middle - begin) / 1e3)
                advance.append((clock() - after) / 1e3)
        for batch, (fill, advance) in zip(batches, times):
            yield {
                "engine": batch.name, "batch": size, "pass": which, "schemas": len(chosen), "fill_us": fill, "advance_us": advance,
            }  # fmt: skip


# ---------------------------------------------------------------- what the processor adds to a step
def processor_steps(
    texts: Sequence[Text],
    model: Any,
    size: int,
    *,
    steps: int = 48,
    forwards: int = 5,
    prompt: int = 32,
    schemas: int = 64,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, Any]:
    """What :class:`guided.GuidedLogitsProcessor` costs a step, cold and warm, with a token budget and without, and a model's own step.

    Keys: ``batch``, ``model_us`` (one number a forward pass of one token a row behind ``prompt`` tokens), and ``processor_us`` with a list
    for each of ``cold``, ``warm``, ``cold, budget``, ``warm, budget`` (one number a step of the whole batch).

    Args:
        texts: what the rows write, over the model's vocabulary (row ``r`` text ``r``, round and round).
        model: a :class:`guided.Model`.
        schemas: how many of the texts are used; those whose schemas are refused are passed over.
    """
    import torch

    from guided.processor import GuidedLogitsProcessor

    vocabulary, device = model.vocabulary, model.model.device
    chosen = _writable([GuidedBatch(Tokens("model", vocabulary), 1)], texts, schemas)
    texts = [chosen[row % len(chosen)] for row in range(size)]
    end = vocabulary.eos_token_ids[0]
    written = torch.tensor([(text.tokens + [end] * steps)[:steps] for text in texts], device=device)
    ids = torch.cat([torch.full((size, prompt), end, device=device), written], dim=1)
    logits = torch.randn((size, model.masks.width), generator=torch.Generator().manual_seed(size)).to(device)
    found: dict[str, Any] = {"batch": size, "model_us": _forward_times(model, ids[:, :prompt], forwards, clock), "processor_us": {}}
    for budget in (False, True):
        made = [JsonSchema(text.schema).compile(vocabulary) for text in chosen[:size]]
        automata = [made[row % len(made)] for row in range(size)]
        limit = max(len(text.tokens) for text in texts) + 64 if budget else None
        processor = GuidedLogitsProcessor(None, automata, vocabulary=vocabulary, max_new_tokens=limit)
        for which in ("cold", "warm"):
            times = []
            for length in range(prompt, prompt + steps):
                rows = ids[:, :length].clone()
                begin = clock()
                processor(rows, logits)  # type: ignore[arg-type]
                times.append((clock() - begin) / 1e3)
            processor.reset()
            found["processor_us"][which + ", budget" * budget] = times
    return found


def _forward_times(model: Any, prompt: Any, count: int, clock: Callable[[], int]) -> list[float]:
    """Microseconds of forward passes of one token a row, with a cache."""
    import torch

    network = model.model
    cache = "cache" if "cache" in inspect.signature(network.forward).parameters else "past_key_values"  # renamed in transformers 5
    times = []
    with torch.inference_mode():
        out = network(input_ids=prompt, use_cache=True, logits_to_keep=1)
        for _ in range(count):
            begin = clock()
            out = network(input_ids=prompt[:, -1:], use_cache=True, logits_to_keep=1, **{cache: out[cache]})
            if network.device.type == "cuda":
                torch.cuda.synchronize(network.device)
            times.append((clock() - begin) / 1e3)
    return times
