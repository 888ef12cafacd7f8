"""A mask prover: random schemas, random walks under the masks, random instances, all held against an independent oracle.

For one random schema (:mod:`.grow`):

- *walks*: tokens are drawn from the masks, at random or along a candidate text; wherever a walk stops it is finished, and the
  text must be an instance. A mask without a token, or a text that cannot be finished, is a failure.
- *instances*: candidates (:mod:`.instances`), in any key order and spelling, must be accepted if and only if they are valid.

The oracle is :class:`.oracle.Oracle`. Failures are shrunk (:mod:`.shrink`) to a schema and text that read as a test case.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from grammars.errors import GuidedError, LimitError, VocabularyError

from .engines import Engine, Guided, Refused, make_engine
from .grow import Grower
from .instances import Instances, mutated
from .oracle import Oracle, Unknown
from .shrink import shrink
from .spelling import respelled, shuffled
from .tokenizers import Tokens, load_tokens

__all__ = ["Finding", "Outcome", "Prover", "as_test"]

INSTANCE_OPTIONS = {"order": "any", "format": "annotation"}
"""Of :class:`grammars.JsonSchema` where instances are judged: then it means what the oracle means."""


@dataclass(slots=True)
class Finding:
    """One failure.

    Attributes:
        kind: ``wrong accept``, ``wrong reject``, ``dead end`` (a mask without a token), ``unfinishable``, ``error``,
            or given by the guard: ``timeout``, ``memory``, ``crash``.
        schema, text: what fails; the text is whole for the first two kinds, else what was written so far.
        detail: in words.
        options: of :class:`grammars.JsonSchema`.
    """

    kind: str
    schema: Any
    text: str = ""
    detail: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What came of one schema: ``status`` is ``passed``, ``refused`` or ``failed``; how much was tried."""

    status: str = "passed"
    reason: str = ""
    instances: int = 0
    valid: int = 0
    walks: int = 0
    unknown: int = 0
    findings: list[Finding] = field(default_factory=list)


class _Bad(Exception):
    """A failure on the way, with what was written so far."""

    def __init__(self, kind: str, text: bytes, detail: str = "") -> None:
        super().__init__(kind)
        self.kind, self.text, self.detail = kind, text, detail


class Prover:
    """Tries engines on random schemas; a picklable task for :class:`.pool.Guard`.

    Args:
        engine: see :data:`.engines.ENGINES`. For engines other than ``guided`` valid instances that are rejected do not count,
            since they fix the order of keys, and nothing but their masks is known of where a text can go.
        tokenizer: see :func:`.tokenizers.load_tokens`.
        seeds: real schemas, each with instances, to start from.
        walks, candidates: a schema.
        length: tokens of a walk before it is finished.
        shrink_seconds: for one failure.
    """

    def __init__(
        self,
        engine: str = "guided",
        tokenizer: str = "small",
        seeds: Sequence[tuple[Any, Sequence[Any]]] = (),
        *,
        walks: int = 6,
        candidates: int = 12,
        length: int = 60,
        shrink_seconds: float = 15.0,
    ) -> None:
        self.engine_name, self.tokens, self.seeds = engine, load_tokens(tokenizer), seeds
        self.walks, self.candidates, self.length, self.shrink_seconds = walks, candidates, length, shrink_seconds
        self.vocabulary = self.tokens.vocabulary
        self.engine: Engine = make_engine(engine, self.tokens)
        self.small: Engine = make_engine(engine, load_tokens("bytes")) if engine == "guided" else self.engine
        self._weights = _weights(self.tokens)

    def __call__(self, seed: int) -> dict[str, Any]:
        """The :class:`Outcome` of the schema of this seed, its findings shrunk, as a dict."""
        schema, instances = self.case(seed)
        outcome = self.prove(schema, random.Random(f"walk {seed}"), instances)
        distinct = {(f.kind, json.dumps(f.options)): f for f in reversed(outcome.findings)}
        outcome.findings = [self.shrunk(finding) for finding in distinct.values()]
        return asdict(outcome)

    def case(self, seed: int) -> tuple[Any, list[Any]]:
        """The schema of a seed, and instances of the real schema that it comes from, if it does."""
        rng = random.Random(f"schema {seed}")
        grower = Grower(rng, [schema for schema, _ in self.seeds])
        schema = grower.schema()
        return schema, list(self.seeds[grower.origin][1]) if grower.origin is not None else []

    # ------------------------------------------------------------ one schema
    def prove(self, schema: Any, rng: random.Random, known: Sequence[Any] = ()) -> Outcome:
        """Tries ``schema``; ``known`` are instances that candidates are made from too."""
        outcome = Outcome()
        try:
            oracle = Oracle(schema)
        except (Unknown, GuidedError) as error:
            if isinstance(error, GuidedError) and "jsonschema" in str(error):
                raise
            oracle = None
        texts = list(self._candidates(schema, rng, known))
        self._judge(schema, oracle, texts, outcome)
        if outcome.status != "refused":
            options = {"order": rng.choice(("schema", "any")), "whitespace": rng.choice(("flexible", "compact", "indent=2"))}
            options["format"] = rng.choice(("assert", "annotation"))
            judge = oracle if options["format"] == "annotation" or '"format"' not in json.dumps(schema) else None
            self._walk_all(schema, judge, texts, options, rng, outcome)
        if outcome.findings:
            outcome.status = "failed"
        return outcome

    def _candidates(self, schema: Any, rng: random.Random, known: Sequence[Any]) -> Iterator[str]:
        source = Instances(schema, rng)
        for _ in range(self.candidates):
            value = rng.choice(known) if known and rng.random() < 0.5 else source.draw()
            for _ in range(rng.choice((0, 0, 1, 1, 2))):
                value = mutated(value, rng)
            value = shuffled(value, rng) if rng.random() < 0.3 else value
            yield respelled(value, rng) if rng.random() < 0.3 else json.dumps(value, ensure_ascii=False)

    def _load(self, engine: Engine, schema: Any, options: dict[str, Any], outcome: Outcome | None = None) -> bool:
        """Compiles; false for a schema without instance.

        Raises:
            Refused: the engine does not take it.
        """
        if isinstance(engine, Guided):
            engine.options = options
        try:
            engine.compile(schema)
        except Refused as refusal:
            if "no instance" in str(refusal) or "no text fits" in str(refusal):
                return False
            raise
        return True

    def _judge(self, schema: Any, oracle: Oracle | None, texts: Sequence[str], outcome: Outcome) -> None:
        try:
            alive = self._load(self.engine, schema, INSTANCE_OPTIONS)
        except Refused as refusal:
            outcome.status, outcome.reason = "refused", str(refusal)
            return
        except Exception as error:
            outcome.findings.append(_surprise(schema, "", error, INSTANCE_OPTIONS))
            return
        for text in texts:
            valid = oracle.valid(text) if oracle else None
            outcome.instances += 1
            outcome.valid += bool(valid)
            outcome.unknown += valid is None
            try:
                accepted = alive and self._accepts(self.engine, text)
            except _Bad as bad:
                outcome.findings.append(Finding(bad.kind, schema, bad.text.decode("utf-8", "replace"), bad.detail, INSTANCE_OPTIONS))
                continue
            if valid is not None and accepted != valid and (accepted or self.engine_name == "guided"):
                kind = "wrong accept" if accepted else "wrong reject"
                outcome.findings.append(Finding(kind, schema, text, f"the oracle says {_WORDS[valid]}", dict(INSTANCE_OPTIONS)))

    def _walk_all(
        self, schema: Any, oracle: Oracle | None, texts: Sequence[str], options: dict[str, Any], rng: random.Random, outcome: Outcome
    ) -> None:
        try:
            if not self._load(self.engine, schema, options):
                return
        except Refused:
            return
        except Exception as error:
            outcome.findings.append(_surprise(schema, "", error, options))
            return
        for _ in range(self.walks):
            target = rng.choice(texts).encode() if rng.random() < 0.6 else b""
            outcome.walks += 1
            try:
                for text in self._walk(rng, target):
                    valid = _valid(oracle, text)
                    outcome.unknown += valid is None
                    if valid is False:
                        shown = text.decode("utf-8", "replace")
                        outcome.findings.append(Finding("wrong accept", schema, shown, "a walk under the masks ended in it", options))
            except _Bad as bad:
                outcome.findings.append(Finding(bad.kind, schema, bad.text.decode("utf-8", "replace"), bad.detail, options))

    # ------------------------------------------------------------ texts
    def _accepts(self, engine: Engine, text: str) -> bool:
        """Whether the masks let ``text`` through, token by token, and an end after it."""
        vocabulary, written = engine.vocabulary, b""
        try:
            engine.begin()
            for token in [*vocabulary.encode(text.encode()), vocabulary.eos_token_ids[0]]:
                engine.fill()
                if not engine.allows(token) or not engine.advance(token):
                    return False
                written += vocabulary.tokens[token]
        except Exception as error:
            raise _bad(error, written) from error
        return True

    def _allowed(self, engine: Engine) -> Any:
        bits = np.unpackbits(engine.row.view(np.uint8), bitorder="little")[: self.vocabulary.size]
        return np.flatnonzero(bits)

    def _walk(self, rng: random.Random, target: bytes) -> Iterator[bytes]:
        """One walk; the whole texts that came of it (from where it ended, and from a place on the way).

        Raises:
            _Bad: it got stuck.
        """
        engine, vocabulary, end = self.engine, self.vocabulary, self.vocabulary.eos_token_ids[0]
        engine.begin()
        tokens: list[int] = []
        text = b""
        stop = rng.randint(1, self.length)
        stray = rng.choice((0.0, 0.05, 0.3))
        try:
            while len(tokens) < self.length:
                engine.fill()
                allowed = self._allowed(engine)
                if not len(allowed):
                    raise _Bad("dead end", text, "the mask is empty")
                if len(tokens) == stop and isinstance(engine, Guided):
                    yield self._finished(engine, tokens, text)
                token = self._choose(allowed, rng, target[len(text) :] if text == target[: len(text)] or rng.random() > stray else b"")
                if not engine.advance(token):
                    raise _Bad("error", text, f"token {token} ({vocabulary.tokens[token]!r}) is in the mask, but cannot be taken")
                if token == end:
                    yield text
                    return
                tokens.append(token)
                text += vocabulary.tokens[token]
        except (_Bad, GeneratorExit):
            raise
        except Exception as error:
            raise _bad(error, text) from error
        if isinstance(engine, Guided):
            yield self._finished(engine, tokens, text)
        else:
            yield from self._closed(engine, text)

    def _choose(self, allowed: Any, rng: random.Random, target: bytes) -> int:
        end = self.vocabulary.eos_token_ids[0]
        if allowed[-1] == end or end in allowed:
            if not target or len(allowed) == 1 or rng.random() < 0.2:
                if len(allowed) == 1 or rng.random() < 0.6:
                    return end
        if target:
            tokens = self.vocabulary.tokens
            fitting = [int(t) for t in allowed if tokens[t] and target.startswith(tokens[t])]
            if fitting:
                return rng.choice(fitting)
        weights = self._weights[allowed]
        return int(rng.choices(allowed.tolist(), weights=weights.tolist())[0])

    def _finished(self, engine: Guided, tokens: Sequence[int], text: bytes) -> bytes:
        """``text`` with its shortest completion."""
        automaton = engine.automaton
        assert automaton is not None
        state = automaton.start
        for token in tokens:
            state = automaton.advance(state, token)
        try:
            rest = automaton.shortest_completion(state)
        except LimitError as error:
            raise _Bad("unfinishable", text, str(error)) from error
        for token in rest:
            if not automaton.allows(state, token):
                raise _Bad("unfinishable", text, f"the completion {self.vocabulary.decode(rest)!r} is not allowed")
            state = automaton.advance(state, token)
        if not automaton.accepts(state):
            raise _Bad("unfinishable", text, f"the text is not complete after its completion {self.vocabulary.decode(rest)!r}")
        return text + self.vocabulary.decode(rest)

    def _closed(self, engine: Engine, text: bytes, most: int = 150) -> Iterator[bytes]:
        """``text`` with tokens that close what is open; nothing where that leads nowhere."""
        end = self.vocabulary.eos_token_ids[0]
        for _ in range(most):
            engine.fill()
            allowed = self._allowed(engine)
            if not len(allowed):
                raise _Bad("dead end", text, "the mask is empty")
            if end in allowed:
                yield text
                return
            token = min((int(t) for t in allowed), key=lambda t: _CLOSING.get(self.vocabulary.tokens[t], 9))
            engine.advance(token)
            text += self.vocabulary.tokens[token]

    # ------------------------------------------------------------ smaller
    def shrunk(self, finding: Finding) -> Finding:
        """The same failure on a smaller schema and text."""

        def fails(schema: Any, text: str) -> bool:
            return self.fails(Finding(finding.kind, schema, text, finding.detail, finding.options))

        if not fails(finding.schema, finding.text):
            return finding  # it depends on what was asked before: as it is
        whole = finding.kind.startswith("wrong")
        schema, text = shrink(finding.schema, finding.text, fails, whole=whole, seconds=self.shrink_seconds)
        return Finding(finding.kind, schema, text, finding.detail, finding.options)

    def fails(self, finding: Finding) -> bool:
        """Whether this schema and text fail in this way."""
        engine = self.engine
        try:
            alive = self._load(engine, finding.schema, finding.options)
        except Refused:
            return False
        except Exception as error:
            return finding.kind == "error" and finding.detail.startswith(type(error).__name__)
        if not finding.kind.startswith("wrong"):
            return alive and self._stuck(engine, finding)
        try:
            valid = Oracle(finding.schema).valid(finding.text)
            accepted = alive and self._accepts(engine, finding.text)
        except (Unknown, _Bad, GuidedError):
            return False
        return valid is not None and accepted != valid and accepted == (finding.kind == "wrong accept")

    def _stuck(self, engine: Engine, finding: Finding) -> bool:
        """Whether the beginning of a text is allowed and cannot be completed."""
        written: list[int] = []
        try:
            engine.begin()
            for token in self.vocabulary.encode(finding.text.encode()):
                engine.fill()
                if not engine.allows(token) or not engine.advance(token):
                    return False
                written.append(token)
            engine.fill()
            if not len(self._allowed(engine)):
                return finding.kind == "dead end"
            if isinstance(engine, Guided):
                self._finished(engine, written, finding.text.encode())
        except _Bad as bad:
            return bad.kind == finding.kind
        except Exception as error:
            return finding.kind == _bad(error, b"").kind and finding.detail.startswith(type(error).__name__)
        return False


_WORDS = {True: "valid", False: "invalid"}
_CLOSING = {b'"': 0, b"}": 1, b"]": 2, b":": 3, b",": 4, b"0": 5, b"1": 6, b"a": 7, b"[": 8, b"{": 8}


def _valid(oracle: Oracle | None, text: bytes) -> bool | None:
    try:
        return oracle.valid(text.decode()) if oracle else None
    except UnicodeDecodeError:
        return False


def _bad(error: Exception, text: bytes) -> _Bad:
    """What an engine's error on the way means."""
    if isinstance(error, MemoryError | TimeoutError):
        raise error  # the guard's business
    return _Bad("dead end" if isinstance(error, VocabularyError) else "error", text, f"{type(error).__name__}: {error}")


def _surprise(schema: Any, text: str, error: Exception, options: dict[str, Any]) -> Finding:
    if isinstance(error, MemoryError | TimeoutError):
        raise error  # the guard's business
    return Finding("error", schema, text, f"{type(error).__name__}: {error}", options)


def _weights(tokens: Tokens) -> Any:
    """How often a token is drawn: structure often, blanks and bytes of other scripts seldom."""
    vocabulary = tokens.vocabulary
    weights = np.ones(vocabulary.size)
    for token, data in enumerate(vocabulary.tokens):
        first = data[:1]
        if not data.strip():
            weights[token] = 0.2
        elif first in b'"}],:{[':
            weights[token] = 8.0
        elif data[0] >= 0x80 or data[0] < 0x20:
            weights[token] = 0.1
    return weights


_CHECKS = {"wrong accept": ("assert not automaton.accepts(state)",), "wrong reject": ("assert automaton.accepts(state)",)}
_FINISHES = (
    "rest = automaton.vocabulary.decode(automaton.shortest_completion(state))",
    "assert automaton.accepts(automaton.advance_bytes(state, rest))",
)


def as_test(finding: Finding, name: str, engine: str = "guided") -> str:
    """The finding as the text of a test."""
    lines = [f"# {finding.kind} ({engine}): {finding.detail}", f"def test_{name}() -> None:", f"    schema = {finding.schema!r}"]
    lines.append(f"    text = {finding.text!r}")
    if engine == "guided":
        options = "".join(f", {key}={value!r}" for key, value in finding.options.items())
        lines.append(f"    automaton = JsonSchema(schema{options}).compile(byte_vocabulary())")
        lines.append("    state = automaton.advance_bytes(automaton.start, text.encode())")
        lines += [f"    {line}" for line in _CHECKS.get(finding.kind, _FINISHES)]
    return "\n".join(lines)
