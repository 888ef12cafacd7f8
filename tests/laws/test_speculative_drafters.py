"""Drafters, shapes and stop policies put before exact verifiers: the texts follow the target's law, whatever was proposed.

Each cell decodes :data:`DRAWS` texts of a toy problem and compares them, by a chi-square test of significance as in
``tests/laws/checks.py``, with the law of local masking, found by writing out every text.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from grammars import Vocabulary
from guided.evaluation.toys import AB, END, TOKENS, A, B, C, Case, case, randomly, vocabulary
from samplers.masked import Request
from samplers.models import TabularModel
from samplers.sampling import Settings
from speculative import drafters as d
from speculative import shapes as s
from speculative import stops
from speculative.decode import decode
from speculative.verifiers import Exact, Matching, MultiCandidate, Recursive, SpecInfer
from tests.laws.checks import SIGNIFICANCE, chi_square

DRAWS = 400
WIDTH = len(TOKENS)
Law = dict[tuple[int, ...], float]


def law_of(problem: Case) -> Law:
    """Local masking, cut at the bound, by writing out every text."""
    target = problem.target()
    found: Law = {}
    stack: list[tuple[tuple[int, ...], int, float]] = [((), target.start, 1.0)]
    while stack:
        text, state, mass = stack.pop()
        if state == 1 or len(text) == problem.max_tokens:
            found[text] = mass
            continue
        allowed = target.automaton_mask(state).tolist()
        row = [p if ok else 0.0 for p, ok in zip(problem.row(text), allowed)]
        for token, p in enumerate(row):
            if p:
                stack.append(((*text, token), target.advance(state, token), mass * p / sum(row)))
    return found


def near(problem: Case, share: float = 0.6) -> TabularModel:
    """A draft model: the target's law, mixed with another one."""
    other = randomly(77, 1.5)

    def row(prefix: tuple[int, ...]) -> list[float]:
        return [share * p + (1 - share) * q for p, q in zip(problem.table(prefix), other(prefix))]

    return TabularModel(WIDTH, END, row)


OTHER = Vocabulary([b"b", b"<x>", b"ab", b"a", b"", b"c", b"cb"], eos_token_ids=[4], special_token_ids=[1])
"""Another vocabulary, which shares the tokens a, b, c, ab and the end with the toys'."""


def elsewhere() -> TabularModel:
    """A model over :data:`OTHER`."""
    return TabularModel(WIDTH, 4, randomly(5, 1.0))


def texts(problem: Case, drafter: Any, shape: Any, verifier: Any, stop: Any = None, draws: int = DRAWS, first: int = 0) -> Counter[Any]:
    prompt = problem.prompt or (C, A, B)
    requests = [Request(prompt, problem.automaton, problem.max_tokens, seed) for seed in range(first, first + draws)]
    found: list[list[int]] = [[] for _ in requests]
    settings = Settings(problem.temperature)
    for step in decode(problem.model, requests, drafter, verifier=verifier, shape=shape, stop=stop, settings=settings):
        for one in step:
            found[one.row].append(one.token)
    return Counter(map(tuple, found))


def check(problem: Case, found: Counter[Any]) -> None:
    law = law_of(Case(**{**vars_of(problem), "prompt": problem.prompt or (C, A, B)}))
    assert not [text for text in found if text not in law], "a text outside of the language, or of probability zero"
    test = chi_square(found, law)
    assert test.p_value >= SIGNIFICANCE, f"{problem.name}: {test}"


def vars_of(problem: Case) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in Case.__dataclass_fields__}


CASES = ("random, grammar", "prompt")  # in turn
Make = Callable[[Case], Any]

LOOKED_UP: dict[str, tuple[Make, Any]] = {
    "prompt lookup": (lambda p: d.PromptLookup(), s.Chain(3)),
    "prompt lookup, branches": (lambda p: d.PromptLookup(), s.Branches(2, 2, 1)),
    "references": (lambda p: d.ReferenceCopy([(A, B, A, B), (C, A, AB, B)], match=1), s.Chain(3)),
    "suffix automata": (lambda p: d.SamDrafter([(A, B, A, B, C)], threshold=1, bias=0), s.Chain(3)),
    "suffix automata, fallback": (lambda p: d.SamDrafter(fallback=d.TokenRecycling(WIDTH, 3), threshold=2), s.Branches(2, 2)),
    "recycled": (lambda p: d.TokenRecycling(WIDTH, 4), d.TokenRecycling.tree(12, 3)),
    "trigrams": (lambda p: d.NgramDrafter(candidates=2), s.Puct(8, 3)),
    "lookahead": (lambda p: d.LookaheadDrafter(3, 3, 3), s.Chain(3)),
    "jacobi": (lambda p: d.JacobiDrafter(3), s.Chain(3)),
    "gauss-seidel": (lambda p: d.JacobiDrafter(2, sliding=False), s.Chain(3)),
    "forced": (lambda p: d.Forced(), s.Chain(3)),
    "strings": (lambda p: d.StringDrafter(elsewhere(), OTHER, vocabulary(), length=3), s.Chain(3)),
}
DRAWN: dict[str, tuple[Make, Any, Any]] = {
    "model, chain": (lambda p: d.ModelDrafter(near(p)), s.Chain(3), Exact()),
    "model, branches": (lambda p: d.ModelDrafter(near(p)), s.Branches(3, 2, 1), MultiCandidate()),
    "model, without replacement": (lambda p: d.ModelDrafter(near(p), temperature=1.5), s.Branches(2, 2, 2), Recursive()),
    "model, several trials": (lambda p: d.ModelDrafter(near(p)), s.Branches(2, 2, 1), SpecInfer()),
    "model, sequoia": (lambda p: d.ModelDrafter(near(p)), s.Sequoia(10, 3), Recursive()),
    "model, opt-tree": (lambda p: d.ModelDrafter(near(p)), s.OptTree(8, 3, gain=0.05), Recursive()),
    "model, dyspec": (lambda p: d.ModelDrafter(near(p)), s.DySpec(8, 3), Recursive()),
    "model, dyspec, candidates": (lambda p: d.ModelDrafter(near(p)), s.DySpec(8, 3), MultiCandidate()),
    "model, dyspec by threshold": (lambda p: d.ModelDrafter(near(p)), s.DySpec(8, 3, threshold=0.1), Recursive()),
    "model, search": (lambda p: d.ModelDrafter(near(p)), s.Puct(8, 3), Recursive()),
    "staged": (lambda p: d.StagedDrafter(near(p), d.PromptLookup(), shape=s.Chain(2)), s.Branches(2, 1, 1), MultiCandidate()),
    "shared tokens": (lambda p: d.IntersectionDrafter(elsewhere(), OTHER, vocabulary()), s.Branches(2, 1, 1), Recursive()),
    "forced, then a model": (lambda p: d.Forced(d.ModelDrafter(near(p))), s.Branches(2, 1), Recursive()),
    "copied and drawn": (lambda p: d.Merged(d.PromptLookup(), d.ModelDrafter(near(p))), s.Branches(2, 1), Recursive()),
    "drawn and copied": (lambda p: d.Merged(d.ModelDrafter(near(p)), d.PromptLookup()), s.Branches(2, 1), MultiCandidate()),
    "the first that knows": (lambda p: d.FirstOf(d.PromptLookup(2, 3), d.ModelDrafter(near(p))), s.Chain(2), Exact()),
    "a relay": (lambda p: d.Relay(d.Shaped(d.ModelDrafter(near(p)), s.Chain(1)), d.NgramDrafter()), s.Chain(2), Exact()),
}
STOPS = {
    "fixed": lambda: stops.FixedStop(2),
    "entropy": lambda: stops.EntropyStop(0.35),
    "confidence": lambda: stops.ConfidenceStop(0.3, path=True),
    "bandit": lambda: stops.BanditStop((0, 1, 3)),
}


@pytest.mark.parametrize(("name", "problem"), list(zip(LOOKED_UP, itertools.cycle(CASES))))
def test_looked_up(name: str, problem: str) -> None:
    make, shape = LOOKED_UP[name]
    check(case(problem), texts(case(problem), make(case(problem)), shape, Recursive()))


@pytest.mark.parametrize(("name", "problem"), list(zip(DRAWN, itertools.cycle(CASES[::-1]))))
def test_drawn(name: str, problem: str) -> None:
    make, shape, verifier = DRAWN[name]
    check(case(problem), texts(case(problem), make(case(problem)), shape, verifier))


@pytest.mark.parametrize("name", STOPS)
def test_stops(name: str) -> None:
    problem = case("free")
    found = texts(problem, d.ModelDrafter(near(problem)), s.Branches(2, 1, 1), Recursive(), STOPS[name](), draws=1500)
    check(problem, found)


@pytest.mark.parametrize("name", ["recycled", "lookahead", "trigrams"])
def test_invariant_verification_gives_the_texts_of_plain_decoding(name: str) -> None:
    problem = case("random, grammar")
    make, shape = LOOKED_UP[name]
    with_drafts = texts(problem, make(problem), shape, Matching(), draws=60)
    without = texts(problem, d.Forced(), s.Chain(1), Matching(), draws=60)
    assert with_drafts == without


def test_shapes_that_adapt_are_refused_by_verifiers_without_order() -> None:
    problem = case("free")
    for shape in (s.DySpec(8, 3), s.Puct(8, 3)):
        with pytest.raises(ValueError, match="not 'without'"):
            texts(problem, d.ModelDrafter(near(problem)), shape, SpecInfer(), draws=4)


def test_a_biased_draft_is_found() -> None:
    """The tests can fail: a drafter that states another law than it drew from is caught."""

    class Wrong(d.ModelDrafter):
        def laws(self, places: Any, rules: Any, step: Any, which: Any) -> Any:
            law = super().laws(places, rules, step, which)
            return (0.2 * law).log_softmax(-1)

        def _add(self, tree: Any, node: int, count: int, law: Any, shape: Any, step: Any, generator: Any) -> None:
            before = len(tree.draws[node])
            super()._add(tree, node, count, (5 * law).log_softmax(-1), shape, step, generator)
            tree.draws[node][before:] = [draw._replace(law=law) for draw in tree.draws[node][before:]]

    problem = case("free")
    with pytest.raises(AssertionError):
        check(problem, texts(problem, Wrong(near(problem)), s.Chain(2), Exact(), draws=1500))

