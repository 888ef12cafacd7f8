"""Delta debugging: the smallest schema and text that still fail in the same way (Zeller, Hildebrandt 2002; here over trees)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .places import children, places, replaced, subschema

__all__ = ["shrink", "smaller_schemas", "smaller_values"]


def _size(value: Any) -> int:
    return len(json.dumps(value))


def smaller_schemas(schema: Any) -> Iterator[Any]:
    """Schemas a step simpler than ``schema``, the boldest steps first."""
    found = places(schema)
    for path in found:
        part = subschema(schema, path)
        for keyword, rest in children(part):
            yield replaced(schema, path, subschema(part, (keyword, *rest)))
    for path in found:
        part = subschema(schema, path)
        if path and part is not True and part != {}:
            yield replaced(schema, path, True)
        if isinstance(part, dict):
            for key in part:
                yield replaced(schema, path, {k: v for k, v in part.items() if k != key})
    for path in found:
        part = subschema(schema, path)
        for key, value in part.items() if isinstance(part, dict) else ():
            yield from (replaced(schema, (*path, key), less) for less in _less(value))


def _less(value: Any) -> Iterator[Any]:
    if isinstance(value, list) and len(value) > 1:
        yield from (value[:i] + value[i + 1 :] for i in range(len(value)))
    elif isinstance(value, dict) and value:
        yield from ({k: v for k, v in value.items() if k != key} for key in value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
        yield from (0, 1, int(value))
    elif isinstance(value, str) and len(value) > 1:
        yield from (value[: len(value) // 2], value[len(value) // 2 :], value[1:], value[:-1])


def smaller_values(value: Any) -> Iterator[Any]:
    """JSON values a step simpler than ``value``."""
    if isinstance(value, list | dict):
        inner = list(value.values()) if isinstance(value, dict) else value
        yield from inner
        if value:
            yield type(value)()
        keys: Any = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            if isinstance(value, dict):
                yield {k: v for k, v in value.items() if k != key}
            else:
                yield value[:key] + value[key + 1 :]
        for key in keys:
            for less in smaller_values(value[key]):
                copy = value.copy()
                copy[key] = less
                yield copy
    elif isinstance(value, str) and value:
        yield from ("", value[: len(value) // 2], value[1:], value[:-1])
    elif value not in (0, None):
        yield from (None, 0)


def _descend(value: Any, simpler: Callable[[Any], Iterator[Any]], fails: Callable[[Any], bool], deadline: float) -> Any:
    """A value that fails, of which nothing simpler does, as far as the time goes."""
    tried: set[str] = set()
    progress = True
    while progress:
        progress = False
        for candidate in simpler(value):
            if time.monotonic() > deadline:
                return value
            key = json.dumps(candidate)
            if key in tried or _size(candidate) > _size(value):
                continue
            tried.add(key)
            if fails(candidate):
                value, progress = candidate, True
                break
    return value


def shrink(schema: Any, text: str, fails: Callable[[Any, str], bool], *, whole: bool, seconds: float = 15.0) -> tuple[Any, str]:
    """A small schema and text with ``fails(schema, text)``.

    Args:
        schema, text: they fail.
        fails: whether two others fail in the same way.
        whole: the text is a JSON text, and shrunk as one; otherwise it is the beginning of one, and cut at its end.
        seconds: that this may take.
    """
    deadline = time.monotonic() + seconds
    before = None
    while (schema, text) != before and time.monotonic() < deadline:
        before = schema, text
        schema = _descend(schema, smaller_schemas, partial(_swapped, fails, text), deadline)
        if whole:
            text = _shorter_text(schema, text, fails, deadline)
        else:
            while text and time.monotonic() < deadline and fails(schema, text[:-1]):
                text = text[:-1]
    return schema, text


def _swapped(fails: Callable[[Any, str], bool], text: str, schema: Any) -> bool:
    return fails(schema, text)


def _shorter_text(schema: Any, text: str, fails: Callable[[Any, str], bool], deadline: float) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    plain = json.dumps(value, ensure_ascii=False)
    if plain != text and not fails(schema, plain):
        return text
    value = _descend(value, smaller_values, lambda v: fails(schema, json.dumps(v, ensure_ascii=False)), deadline)
    return json.dumps(value, ensure_ascii=False)
