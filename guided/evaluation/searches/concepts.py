"""Words that must appear: CommonGen's concepts, by a prompt alone, by lexically constrained beams, and by a constraint.

The text is one sentence; a concept counts as covered in any inflected form. Fluency is the mean log-probability of a token under the model
given the prompt, nothing masked. The sentence's shape is a constraint for all methods, so that lengths are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .prompts import covered, forms
from .records import Record, Task

if TYPE_CHECKING:
    from guided.model import Model
    from guided.strategies import Strategy

__all__ = ["SENTENCE", "tasks"]

SENTENCE = r"[A-Z][a-z ,']{10,120}\."


def methods(words: tuple[str, ...]) -> list[tuple[str, Strategy, bool]]:
    """For some words: name, strategy, and whether they are part of the constraint."""
    from guided import strategies as s

    wanted = tuple(forms(word) for word in words)

    return [
        ("free, greedy", s.Beam(beams=1), False),
        ("free, beam of 4", s.Beam(beams=4), False),
        ("MustInclude, greedy", s.Beam(beams=1), True),
        ("MustInclude, beam of 4", s.Beam(beams=4), True),
        ("dynamic beam allocation of 16", s.DynamicBeamAllocation(wanted, beams=16), False),
        ("NeuroLogic A*esque, beam of 4", s.NeuroLogic(wanted, beams=4), False),
    ]


def tasks(model: Model, sets: list[tuple[str, ...]], *, max_tokens: int = 32) -> list[Task]:
    """One task a set of concepts and method."""
    found = []
    for i, words in enumerate(sets):
        for name, strategy, included in methods(words):
            found.append(Task("concepts", str(i), name, _run(model, words, strategy, included, max_tokens)))
    return found


def _run(model: Model, words: tuple[str, ...], strategy: Strategy, included: bool, max_tokens: int) -> Any:
    import guided

    def run() -> Record:
        model.language_model.clear()
        constraint: Any = guided.Regex(SENTENCE)
        if included:
            constraint = guided.MustInclude([forms(word) for word in words]) & constraint
        prompt = f"Write one short sentence about an everyday scene. Use all of these words: {', '.join(words)}."
        result = guided.generate(model, prompt, constraint, search=strategy, max_tokens=max_tokens, seed=1)
        report = result.search
        record: Record = {"words": list(words), "coverage": covered(words, result.text), "fluency": result.logprob / len(result.tokens)}
        record |= {"forwards": report.forwards, "made": report.tokens, "seconds": report.seconds, "length": len(result.tokens)}
        return record | {"text": result.text}

    return run
