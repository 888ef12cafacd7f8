"""Summaries under a schema, with a reward of the finished object: what a grammar cannot say, a search can prefer.

The object has a title and three points. The reward is the share of the words of the points that stand in the article (a plain measure of
faithfulness), plus the share of the article's frequent words that the points mention, minus one for points that repeat each other.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from .records import Record, Task

if TYPE_CHECKING:
    from guided.model import Model
    from guided.strategies import Strategy

__all__ = ["SCHEMA", "faithful", "tasks"]

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 8, "maxLength": 40},
        "points": {"type": "array", "items": {"type": "string", "minLength": 12, "maxLength": 60}, "minItems": 2, "maxItems": 2},
    },
    "required": ["title", "points"],
    "additionalProperties": False,
}
_FREQUENT = 12


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3]


def faithful(article: str, summary: Any) -> float:
    """The reward of a summary, at most 2; see this module's docstring."""
    known = Counter(_words(article))
    frequent = {word for word, _ in known.most_common(_FREQUENT)}
    points = [set(_words(point)) for point in summary["points"]]
    said = [word for point in summary["points"] for word in _words(point)]
    grounded = sum(word in known for word in said) / len(said) if said else 0.0
    mentioned = len(frequent & set(said)) / max(1, len(frequent))
    pairs = [(a, b) for i, a in enumerate(points) for b in points[:i]]
    repeats = any(len(a & b) > 0.5 * max(1, min(len(a), len(b))) for a, b in pairs)
    return grounded + mentioned - float(repeats)


def methods(reward: Any) -> list[tuple[str, Strategy]]:
    """Name and strategy of what is compared; all but the beam cost about eight texts."""
    from guided import strategies as s

    return [
        ("sampling", s.BestOfN(reward, n=1)),
        ("beam, 4", s.Beam(beams=4)),
        ("best of 8", s.BestOfN(reward, n=8)),
        ("MBR, 8", s.Mbr(n=8)),
    ]


def tasks(model: Model, articles: list[str], *, max_tokens: int = 96, seed: int = 7) -> list[Task]:
    """One task an article and method."""
    from guided.strategies import OfValue

    found = []
    for i, article in enumerate(articles):
        reward = OfValue(lambda value, article=article: faithful(article, value))  # type: ignore[misc]
        for name, strategy in methods(reward):
            found.append(Task("objects", str(i), name, _run(model, article, strategy, max_tokens, seed + i)))
    return found


def _run(model: Model, article: str, strategy: Strategy, max_tokens: int, seed: int) -> Any:
    import jsonschema

    import guided

    def run() -> Record:
        model.language_model.clear()
        prompt = f"Summarise the article as a title and two points, in your own words but with its facts.\n\n{article}"
        result = guided.generate(model, prompt, SCHEMA, search=strategy, max_tokens=max_tokens, seed=seed)
        report = result.search
        valid = [one for one in report.alternatives if _valid(one.text, jsonschema)]
        record: Record = {"reward": faithful(article, result.value), "fluency": result.logprob / len(result.tokens)}
        record |= {"valid": _valid(result.text, jsonschema), "all_valid": len(valid) == len(report.alternatives)}
        record |= {"forwards": report.forwards, "made": report.tokens, "seconds": report.seconds, "length": len(result.tokens)}
        return record | {"text": result.text}

    return run


def _valid(text: str, jsonschema: Any) -> bool:
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True
