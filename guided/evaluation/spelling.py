"""The same JSON value in other words: key order, blanks and escapes, drawn at random."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

__all__ = ["respelled", "shuffled"]

_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANKS = ("", "", "", " ", "\n", "\t ", "\r\n  ")


def shuffled(value: Any, rng: random.Random) -> Any:
    """The value with the members of its objects in a random order."""
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    rng.shuffle(keys)
    return {key: shuffled(value[key], rng) for key in keys}


def respelled(value: Any, rng: random.Random, *, blanks: bool = True, escapes: bool = True) -> str:
    """A JSON text of ``value`` with random blanks between its tokens (none around it) and random escapes in its strings."""

    def blank() -> str:
        return rng.choice(_BLANKS) if blanks else ""

    def string(text: str) -> str:
        return _string(text, rng) if escapes else json.dumps(text, ensure_ascii=_lone(text))

    return _spell(value, blank, string)


def _spell(value: Any, blank: Callable[[], str], string: Callable[[str], str]) -> str:
    if isinstance(value, str):
        return string(value)
    if isinstance(value, list):
        inner = ",".join(blank() + _spell(item, blank, string) + blank() for item in value)
        return f"[{inner or blank()}]"
    if isinstance(value, dict):
        inner = ",".join(f"{blank()}{string(key)}{blank()}:{blank()}{_spell(item, blank, string)}{blank()}" for key, item in value.items())
        return f"{{{inner or blank()}}}"
    return json.dumps(value)


def _lone(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


def _string(text: str, rng: random.Random) -> str:
    out = ['"']
    for c in text:
        ways = [_SHORT[c]] if c in _SHORT else []
        if (c not in '"\\' and c >= " ") and not "\ud800" <= c <= "\udfff":
            ways += [c] * 4
        units = c.encode("utf-16-be", "surrogatepass").hex()
        digits = units.upper() if rng.random() < 0.5 else units
        ways.append("".join("\\u" + digits[i : i + 4] for i in range(0, len(digits), 4)))
        out.append(rng.choice(ways))
    return "".join([*out, '"'])
