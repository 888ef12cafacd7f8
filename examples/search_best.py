"""Searching instead of sampling: a beam, the best of several by a reward of the finished object, and the search tree as a page."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import BaseModel, Field

import guided
from guided.strategies import Beam, BestOfN, OfValue

PROMPT = "Invent a friendly café by the sea: its name, and what it is known for."


class Cafe(BaseModel):
    name: str = Field(min_length=3, max_length=24)
    known_for: list[str] = Field(min_length=2, max_length=3)


def varied(cafe: Cafe) -> float:
    """The more different words, the better: nothing that a schema could say."""
    return float(len({word.lower() for thing in cafe.known_for for word in thing.split()}))


def main() -> None:
    model = guided.load()
    page = Path(tempfile.gettempdir()) / "cafe.html"

    beam = guided.generate(model, PROMPT, Cafe, search=Beam(beams=3), max_tokens=60, trace=page)
    print(f"most probable: {beam.value}\n  score {beam.search.score:.2f}, {beam.search.forwards} forwards; the tree: {page}")

    best = guided.generate(model, PROMPT, Cafe, search=BestOfN(OfValue(varied), n=4), max_tokens=60, seed=0)
    print(f"best of four: {best.value}\n  {best.search.score:.0f} different words, {best.search.forwards} forwards")
    for other in best.search.alternatives[1:]:
        print(f"  also found ({other.score:.0f}): {other.text}")

    limit = guided.SearchBudget(forwards=25)
    cut = guided.generate(model, PROMPT, Cafe, search=Beam(beams=3), max_tokens=60, search_budget=limit)
    print(f"after {cut.search.forwards} forwards, valid all the same: {cut.text}")


if __name__ == "__main__":
    main()
