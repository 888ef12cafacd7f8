"""What else an object could have said: :func:`field_probabilities` of its enum and boolean fields."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.decoder import JSONDecoder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grammars import Automaton, ConstraintError
from samplers.options import PREFIX, After, Measured, measure

from .answers import share_of
from .inputs import target_of
from .model import Model, load
from .prompts import Prompt, prompt_ids
from .result import Result

if TYPE_CHECKING:
    from samplers.models import Context

__all__ = ["Field", "FieldValue", "field_probabilities"]

_DELIMITERS = frozenset(b",]} \t\r\n")
_NUMERIC = frozenset(b"%c" % byte for byte in b"-0123456789")
_OTHER_SPELLINGS = frozenset(b".eE0+-")  # 1 is 1.0, 10e-1 and 0.1e+1 as well


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value that a field may have.

    Attributes:
        value: the value.
        share: its probability, given the text before it and that the field has one of the values that the schema allows.
        logprob: natural logarithm of its probability under the model, given the text before it; a lower bound.
        missed: what tokenisations that were not walked may add to ``exp(logprob)``, at most.
    """

    value: Any
    share: float
    logprob: float
    missed: float

    @property
    def probability(self) -> float:
        """``exp(logprob)``."""
        return math.exp(self.logprob)


@dataclass(frozen=True, slots=True)
class Field:
    """A place of an object.

    Attributes:
        pointer: its JSON pointer.
        value: what is there.
        values: what could be there, in the order of the schema.
    """

    pointer: str
    value: Any
    values: tuple[FieldValue, ...]

    @property
    def mass(self) -> float:
        """Probability under the model that one of the values comes."""
        return math.fsum(value.probability for value in self.values)

    @property
    def share(self) -> float:
        """Of the value that is there."""
        return next((v.share for v in self.values if _same(v.value, self.value)), 0.0)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON values: ``true`` is not ``1``."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


# ---------------------------------------------------------------- where values are
def _places(text: str) -> dict[str, tuple[int, int]]:
    """Start and end of every value of a JSON text, by JSON pointer."""
    found: dict[str, tuple[int, int]] = {}
    decoder = JSONDecoder()

    def skip(at: int) -> int:
        while text[at] in " \t\r\n":
            at += 1
        return at

    def value(at: int, pointer: str) -> int:
        start = at
        if text[at] not in "{[":
            at = decoder.raw_decode(text, at)[1]
        else:
            closing, index, at = "}" if text[at] == "{" else "]", 0, skip(at + 1)
            while text[at] != closing:
                at, name = skip(at + (text[at] == ",")), str(index)
                if closing == "}":
                    key, at = decoder.raw_decode(text, at)
                    at, name = skip(skip(at) + 1), key.replace("~", "~0").replace("/", "~1")
                at, index = skip(value(at, f"{pointer}/{name}")), index + 1
            at += 1
        found[pointer] = (start, at)
        return at

    value(skip(0), "")
    return found


def _scalars(schema: Any) -> Iterator[Any]:
    """Every scalar that an ``enum`` or ``const`` of a schema names, anywhere in it."""
    if isinstance(schema, Mapping):
        named = schema.get("enum", [])
        for value in [*(named if isinstance(named, list) else []), *([schema["const"]] if "const" in schema else [])]:
            if value is None or isinstance(value, str | int | float):
                yield value
        for inner in schema.values():
            yield from _scalars(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _scalars(inner)


def _spelt(schema: Any) -> dict[bytes, Any]:
    """Scalars of the schema and the literals of JSON, by their text."""
    values = [*_scalars(schema), False, True, None]
    return {json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"): value for value in values}


def _allowed(automaton: Automaton, state: int, spelt: Mapping[bytes, Any]) -> list[bytes] | None:
    """Those of the texts that may be the value at ``state``; ``None`` where other values may be there, too.

    Other spellings of the same values (escapes, exponents) are passed over.
    """
    beginnings = {text[:k] for text in spelt for k in range(1, len(text) + 1)}
    # 0.5 is 5e-1, and 12 is 0.12e2: other spellings of a number go on with 0, a sign or the first digit of one of them
    starts = {byte for text in spelt if text[:1] in _NUMERIC for byte in b"0-" + text.lstrip(b"-0.")[:1]}
    found: set[bytes] = set()
    todo = [(state, b"")]
    while todo:
        here, text = todo.pop()
        number = text[:1] in _NUMERIC
        following = automaton.next_bytes(here)
        if text in spelt and (not number or not _DELIMITERS.isdisjoint(following) or automaton.accepts(here)):
            found.add(text)
            if not number:
                continue
        if text[:1] == b'"':
            escaping = (len(text) - len(text.rstrip(b"\\"))) % 2 == 1
            passed = frozenset(range(256)) if escaping else frozenset(b"\\")
        else:
            passed = _DELIMITERS | starts | (_OTHER_SPELLINGS if number else frozenset())
        for byte in following:
            longer = text + bytes([byte])
            if longer in beginnings:
                todo.append((automaton.advance_bytes(here, bytes([byte])), longer))
            elif byte not in passed:
                return None
    return [text for text in spelt if text in found]


# ---------------------------------------------------------------- the call
@dataclass(frozen=True)
class _Written:
    """An object as the model wrote it, or would have written it."""

    data: bytes
    tokens: Sequence[int]

    def before(self, model: Model, start: int) -> tuple[list[int], bytes]:
        """The tokens that end before byte ``start``, and the bytes between them and it."""
        taken, at = [], 0
        for token in self.tokens:
            after = at + len(model.vocabulary.decode([token]))
            if after > start:
                break
            taken.append(token)
            at = after
        return taken, self.data[at:start]


def _written(model: Model, generated: Any) -> _Written:
    if isinstance(generated, Result):
        ends = set(model.vocabulary.eos_token_ids)
        return _Written(model.vocabulary.decode(generated.tokens), [token for token in generated.tokens if token not in ends])
    text = generated if isinstance(generated, str) else json.dumps(generated, ensure_ascii=False)
    return _Written(text.encode(), model.vocabulary.encode(text.encode()))


def field_probabilities(
    model: Model | str | Path | tuple[Any, Any] | None,
    prompt: Prompt,
    generated: Any,
    constraint: Any,
    pointers: str | Sequence[str] | None = None,
    *,
    tolerance: float = 1e-3,
    max_contexts: int = 512,
    chat: bool = True,
    instruct: bool = True,
) -> dict[str, Field]:
    """For enum and boolean fields of an object: the probability of every value that could stand there, given the text before it.

    The probability of a value is the model's, of writing it (in its shortest spelling, strings with the escapes they need) and then a
    comma, a bracket, a blank or the end, so that ``1`` is not taken for the beginning of ``12``. It is summed over the tokenisations of the
    value; the text before it stays in the tokens that it was written in, but for those that reach into the value: a token like ``": "`` and
    the first letters is one of several ways to go on, and all count.

    Args:
        model: what :func:`guided.load` returns (or takes).
        prompt: that the object was written for.
        generated: a :class:`guided.Result`; or the JSON text of the object, or its value (written as :func:`json.dumps` does), which are
            cut into tokens as the tokenizer would.
        constraint: the schema, type or function that it was generated for; see :mod:`guided.inputs`.
        pointers: JSON pointers of fields; ``None``: all that have more than one value to choose from.
        tolerance, max_contexts: see :func:`guided.choose`; for each field.
        chat, instruct: as they were given to :func:`guided.generate`.

    Returns:
        JSON pointer -> :class:`Field`.

    Raises:
        ConstraintError: the constraint is no JSON schema, the object does not fit it, or a pointer leads nowhere or to a field
            that has not only values of an ``enum`` or ``const``, ``true``, ``false`` or ``null``.
    """
    loaded = model if isinstance(model, Model) else load(model)
    target = target_of(constraint)
    automaton = loaded.compile(constraint, target).automaton
    if target.schema is None or automaton is None:
        raise ConstraintError("fields are those of a JSON schema: give the schema, type or function that the object was generated for")
    written = _written(loaded, generated)
    places = _read(automaton, written)
    spelt = _spelt(target.schema)
    root = loaded.language_model.context(prompt_ids(loaded, prompt, target, chat=chat, instruct=instruct))
    asked = [pointers] if isinstance(pointers, str) else pointers
    found: dict[str, Field] = {}
    for pointer in sorted(places, key=lambda p: places[p]) if asked is None else asked:
        if pointer not in places:
            raise ConstraintError(f"the object has nothing at {pointer!r}; it has {', '.join(map(repr, sorted(places)))}")
        start, end = places[pointer]
        texts = _allowed(automaton, automaton.advance_bytes(automaton.start, written.data[:start]), spelt)
        if texts and (asked is not None or len(texts) > 1):
            rows = _measured(loaded, root, written, start, {text: spelt[text] for text in texts}, tolerance, max_contexts)
            found[pointer] = Field(pointer, json.loads(written.data[start:end]), rows)
        elif asked is not None:
            raise ConstraintError(
                f"the schema allows values at {pointer!r} that are not listed: only enum, const and boolean fields have a list"
            )
    return found


def _measured(
    model: Model, root: Context, written: _Written, start: int, spelt: Mapping[bytes, Any], tolerance: float, max_contexts: int
) -> tuple[FieldValue, ...]:
    """Probabilities of the values at byte ``start``."""
    tokens, tail = written.before(model, start)

    def ask(texts: Sequence[bytes], after: After) -> list[Measured]:
        at = root.extend(tokens)
        return measure(model.language_model, model.vocabulary, at, texts, after, tolerance=tolerance, max_contexts=max_contexts)

    measured = ask([tail + text for text in spelt], After(bytes=_DELIMITERS))
    least = most = 0.0  # of the logarithm of the probability that the model writes the tail
    if tail:
        found = ask([tail], PREFIX)[0]
        least, most = found.logprob, float(np.logaddexp(found.logprob, found.log_missed))
    shares = share_of([m.logprob for m in measured])
    return tuple(
        FieldValue(value, share, m.logprob - most, math.exp(np.logaddexp(m.logprob, m.log_missed) - least) - math.exp(m.logprob - most))
        for value, m, share in zip(spelt.values(), measured, shares)
    )


def _read(automaton: Automaton, written: _Written) -> dict[str, tuple[int, int]]:
    """Places of all values, in bytes.

    Raises:
        ConstraintError: this is no text of the language.
    """
    if not automaton.accepts(automaton.advance_bytes(automaton.start, written.data)):
        raise ConstraintError("the object does not fit the schema (with its keys in this order): `guided check` shows where")
    text = written.data.decode()
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode()))
    return {pointer: (offsets[start], offsets[end]) for pointer, (start, end) in _places(text).items()}
