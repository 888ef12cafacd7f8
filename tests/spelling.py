"""Random JSON spellings of texts."""

from __future__ import annotations

import random

__all__ = ["spell"]

SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def mixed(rng: random.Random, hexadecimal: str) -> str:
    return "".join(rng.choice([c.lower(), c.upper()]) for c in hexadecimal)


def spell(text: str, seed: int) -> bytes:
    """The text in one of its spellings, without quotes."""
    rng, out = random.Random(seed), []
    for c in text:
        raw = [] if c in '"\\' or c < " " else [c]
        units = c.encode("utf-16-be")
        long = "".join("\\u" + mixed(rng, units[i : i + 2].hex()) for i in range(0, len(units), 2))
        out.append(rng.choice([*raw, *filter(None, [SHORT.get(c)]), long]))
    return "".join(out).encode()
