"""Where in a text the answer is, and which answers are the same.

An :data:`Extractor` is any function from generated token ids to an :class:`Answer` (``None``: the text has none); those here read text.
``texts`` is a vocabulary, or the byte strings of the tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.errors import ConstraintError

__all__ = ["Answer", "Extractor", "JsonAnswer", "PatternAnswer", "whole_text"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in a text.

    Attributes:
        key: what answers are compared by.
        start, end: the generated tokens that write it are those from ``start`` to before ``end``.
    """

    key: Hashable
    start: int
    end: int


Extractor = Callable[[tuple[int, ...]], "Answer | None"]


def whole_text(tokens: tuple[int, ...]) -> Answer:
    """The text itself, token by token."""
    return Answer(tokens, 0, len(tokens))


class _Reader:
    """Generated tokens as text, and from places in it back to tokens."""

    def __init__(self, texts: Any) -> None:
        self._table: Sequence[bytes] = getattr(texts, "tokens", texts)
        self._special = set(getattr(texts, "special_token_ids", ())) | set(getattr(texts, "eos_token_ids", ()))

    def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        return [b"" if token in self._special or token >= len(self._table) else self._table[token] for token in tokens]

    def answer(self, pieces: Sequence[bytes], key: Hashable, start: int, end: int) -> Answer:
        """The tokens that write a part of the bytes ``start .. end``."""
        at, first, last = 0, len(pieces), 0
        for i, piece in enumerate(pieces):
            if piece and at < end and at + len(piece) > start:
                first, last = min(first, i), i + 1
            at += len(piece)
        return Answer(key, first, max(first, last))


class PatternAnswer:
    """What a regular expression finds.

    Args:
        pattern: Python's syntax, matched against the text's bytes in UTF-8. The answer is its first group where it has groups.
        texts: see this module's docstring.
        last: whether the last match counts, not the first.
        key: what answers are compared by, from their text.

    ``PatternAnswer(r"-?[0-9][0-9,]*(?:[.][0-9]+)?", vocabulary)`` is the last number of a text.
    """

    def __init__(self, pattern: str, texts: Any, *, last: bool = True, key: Callable[[str], Hashable] = str.strip) -> None:
        self._pattern = re.compile(pattern.encode())
        self._reader, self._last, self._key = _Reader(texts), last, key

    def __call__(self, tokens: tuple[int, ...]) -> Answer | None:
        pieces = self._reader.pieces(tokens)
        found = list(self._pattern.finditer(b"".join(pieces)))
        if not found:
            return None
        match, group = found[-1 if self._last else 0], 1 if self._pattern.groups else 0
        if match.start(group) < 0:
            return None
        return self._reader.answer(pieces, self._key(match[group].decode("utf-8", "replace")), *match.span(group))


class JsonAnswer:
    """A value inside of a text that is JSON.

    Args:
        pointer: where it is, a JSON pointer (RFC 6901); ``""``: the whole.
        texts: see this module's docstring.

    Equal values are one answer, however they are written. Texts that are not JSON, or have no such value, have no answer.

    Raises:
        ConstraintError: ``pointer`` is no JSON pointer.
    """

    def __init__(self, pointer: str, texts: Any) -> None:
        if pointer and not pointer.startswith("/"):
            raise ConstraintError(f"a JSON pointer is empty or begins with a slash, {pointer!r} does not")
        self._path = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        self._reader = _Reader(texts)

    def __call__(self, tokens: tuple[int, ...]) -> Answer | None:
        pieces = self._reader.pieces(tokens)
        try:
            text = b"".join(pieces).decode()
            json.loads(text)
            found = _locate(text, _blank(text, 0), self._path)
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            return None
        if found is None:
            return None
        value, start, end = found
        key = json.dumps(value, sort_keys=True, ensure_ascii=False)
        return self._reader.answer(pieces, key, len(text[:start].encode()), len(text[:end].encode()))


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _locate(text: str, at: int, path: Sequence[str]) -> tuple[Any, int, int] | None:
    """The value at ``path`` below the value that begins at ``at`` of valid JSON, with its beginning and end."""
    if not path:
        value, end = json.JSONDecoder().raw_decode(text, at)
        return value, at, end
    if text[at] not in "{[":
        return None
    mapping, found, place = text[at] == "{", None, 0
    at = _blank(text, at + 1)
    while text[at] not in "}]":
        name = str(place)
        if mapping:
            name, at = json.JSONDecoder().raw_decode(text, at)
            at = _blank(text, _blank(text, at) + 1)
        if name == path[0]:
            found = _locate(text, at, path[1:])  # of a name that comes twice the last one counts, as for json.loads
        _, at = json.JSONDecoder().raw_decode(text, at)
        at, place = _blank(text, at), place + 1
        if text[at] == ",":
            at = _blank(text, at + 1)
    return found
