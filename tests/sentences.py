"""Random sentences of Lark's own compiled grammars, random members of expressions, and mutations of texts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from grammars.regex.expr import Pool

__all__ = ["Sentences", "member", "mutate"]


def member(pool: Pool, expr: int, rng: random.Random, length: int = 6) -> bytes:
    """A random member, mostly ASCII, of about ``length`` bytes where the language has such."""
    out = bytearray()
    while True:
        if pool.nullable(expr) and (rng.random() < 0.4 or len(out) >= length):
            return bytes(out)
        moves = pool.transitions(expr)
        if not moves:
            return bytes(out)
        if len(out) >= length:
            rest = pool.shortest(expr)
            assert rest is not None
            return bytes(out) + rest
        mask, target = rng.choice(moves)
        choices = [b for b in range(256) if mask >> b & 1]
        plain = [b for b in choices if 32 <= b < 127]
        byte = rng.choice(plain if plain and rng.random() < 0.95 else choices)
        out.append(byte)
        expr = target


class Sentences:
    """Random sentences from the rules of a ``lark.Lark`` object; terminals are drawn by the caller's samples."""

    def __init__(self, rules: Any, samples: Mapping[str, list[str]], gaps: list[str]) -> None:
        self.samples, self.gaps = samples, gaps
        self.expansions: dict[str, list[list[Any]]] = {}
        for rule in rules:
            self.expansions.setdefault(rule.origin.name, []).append(list(rule.expansion))
        self.heights: dict[str, int] = {}
        changed = True
        while changed:
            changed = False
            for name, expansions in self.expansions.items():
                best = min(map(self._height, expansions))
                if best < self.heights.get(name, 1 << 30):
                    self.heights[name], changed = best, True

    def _height(self, expansion: list[Any]) -> int:
        return 1 + max((0 if s.is_term else self.heights.get(s.name, 1 << 29) for s in expansion), default=0)

    def draw(self, start: str, rng: random.Random, depth: int = 12) -> str:
        parts: list[str] = []
        self._draw(start, rng, depth, parts)
        gap = rng.choice([0.0, 0.3, 1.0]) if self.gaps else 0.0
        return "".join(part + (rng.choice(self.gaps) if rng.random() < gap else "") for part in ["", *parts])

    def _draw(self, name: str, rng: random.Random, depth: int, parts: list[str]) -> None:
        options = self.expansions[name]
        if depth <= 0 or len(parts) > 60:
            best = min(map(self._height, options))
            options = [e for e in options if self._height(e) == best]
        for symbol in rng.choice(options):
            if symbol.is_term:
                parts.append(rng.choice(self.samples[symbol.name]))
            else:
                self._draw(symbol.name, rng, depth - 1, parts)


def mutate(text: str, rng: random.Random, alphabet: str) -> str:
    """One or two random edits: delete, insert, replace, swap, repeat a piece."""
    for _ in range(rng.choice((1, 1, 2))):
        i = rng.randrange(len(text) + 1)
        j = min(len(text), i + rng.choice((1, 1, 2, 4)))
        text = rng.choice(
            [
                text[:i] + text[j:],
                text[:i] + rng.choice(alphabet) + text[i:],
                text[:i] + rng.choice(alphabet) + text[j:],
                text[:i] + text[i:j][::-1] + text[j:],
                text[:j] + text[i:],
            ]
        )
    return text
