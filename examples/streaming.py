"""Streaming: the object while it grows, then the finished result."""

from __future__ import annotations

from typing import TypedDict

import guided


class Recipe(TypedDict):
    title: str
    minutes: int
    ingredients: list[str]


def main() -> None:
    model = guided.load()
    for part in guided.stream(model, "Write a very short recipe for an omelette.", Recipe, temperature=0, max_tokens=90):
        if isinstance(part, guided.Partial):
            print(part.value)
        else:
            recipe: Recipe = part.value
            print(f"done ({part.finish_reason}, {len(part.tokens)} tokens): {recipe['title']}, {recipe['minutes']} minutes")


if __name__ == "__main__":
    main()
