"""Searches for words: they find texts that have them; the enumerated best with a wide beam; any tokens; nothing forbidden; budgets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from grammars import ConstraintError, JsonSchema, Regex
from grammars.vocabulary import Vocabulary
from guided.evaluation.toys import case
from samplers.models import HFModel, TabularModel
from samplers.search.beam import beam_search
from samplers.search.dynamic_beam_allocation import allocate, dynamic_beam_allocation
from samplers.search.frontier import SearchBudget, SearchResult, Space
from samplers.search.grid_beam import grid_beam_search
from samplers.search.neurologic import neurologic_astar
from samplers.search.trace import Trace
from samplers.search.words import Words
from samplers.target import Target
from tests import tiny

TOKENS = [b"a", b"b", b"c", b" ", b"ab", b" c", b"bc", b""]
VOCABULARY = Vocabulary(TOKENS, eos_token_ids=[7])
WIDTH, DEPTH = len(TOKENS), 5
SEARCHES: dict[str, Callable[..., SearchResult]] = {
    "grid": grid_beam_search,
    "dba": dynamic_beam_allocation,
    "neurologic": neurologic_astar,
    "neurologic, drawn": partial(neurologic_astar, samples=2, seed=3),
}
every = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


def target(seed: int, depth: int = DEPTH) -> Target:
    return Target(TabularModel.random(WIDTH, depth, seed, concentration=0.5), (), max_tokens=depth + 1)


def text_of(tokens: tuple[int, ...]) -> str:
    return b"".join(TOKENS[t] for t in tokens).decode()


def has(text: str, word: str, whole: bool = True) -> bool:
    return word in text.split(" ") if whole else word in text


def best_with(problem: Target, accepts: Callable[[str], bool]) -> float:
    law = problem.model.enumerate(problem.max_tokens)  # type: ignore[attr-defined]
    return max((math.log(p) for tokens, p in law.items() if accepts(text_of(tokens))), default=-math.inf)


@every
def test_finds_words_that_a_beam_does_not(search: Callable[..., SearchResult]) -> None:
    options: dict[str, Any] = {"beams": 12, "vocabulary": VOCABULARY} | ({"candidates": 72} if "neuro" in str(search) else {})
    plain_has = found_has = 0
    for seed in range(8):
        problem = target(seed, depth=7)
        plain = text_of(beam_search(problem, beams=12).best.tokens)
        plain_has += has(plain, "ab") and has(plain, "c")
        result = search(problem, words=["ab", "c"], **options)
        found = text_of(result.best.tokens)
        assert result.complete and result.best.finished
        assert result.details["met"] == has(found, "ab") + has(found, "c")
        found_has += result.details["met"] == 2.0
    # only the look ahead promises nothing: it may lose the words
    assert plain_has <= 1 and found_has >= (7 if "neuro" in str(search) else 8)


WIDE = {"grid": partial(grid_beam_search, beams=4000), "dba": partial(dynamic_beam_allocation, beams=30000)}
WIDE["neurologic"] = partial(neurologic_astar, beams=30000, candidates=30000, tolerance=9, weight=0.0)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("search", WIDE.values(), ids=WIDE)
def test_a_wide_beam_finds_the_best_text_with_the_words(search: Callable[..., SearchResult], whole: bool) -> None:
    for seed in range(3):
        problem = target(seed, depth=4)
        options: dict[str, Any] = {"vocabulary": VOCABULARY, "length_penalty": 0.0, "whole": whole}
        result = search(problem, words=[["ab", "bc"], "c"], forbidden=["b"], **options)

        def accepts(text: str) -> bool:
            return (has(text, "ab", whole) or has(text, "bc", whole)) and has(text, "c", whole) and not has(text, "b", whole)

        expected = best_with(problem, accepts)
        if expected == -math.inf:  # parts of words: "ab" has the forbidden "b"
            assert not whole and all(not has(text_of(f.tokens), "b", whole) for f in result.found)
        else:
            assert result.best.logprob == pytest.approx(expected) and accepts(text_of(result.best.tokens))


def test_tails_follow_the_text_in_any_tokens() -> None:
    space = Space(target(0, depth=9))
    words = Words(space, ["ab c", ["bc", "ca"]], ["b"], vocabulary=VOCABULARY)
    for tokens, met, broken in (
        ((4, 5), 0b01, False),  # ab| c
        ((0, 1, 3, 2), 0b01, False),  # a|b| |c
        ((4, 5, 0), 0b10, False),  # "ab ca": the phrase is part of a longer word
        ((4, 5, 3, 6), 0b11, False),
        ((4, 1), 0b00, False),
        ((1,), 0b00, False),  # "b" may become "bc"
        ((1, 2), 0b10, False),
        ((1, 3), 0b00, True),
        ((1, 7), 0b00, True),
        ((0, 3, 1, 5), 0b00, True),
    ):
        node = space.start()
        for token in tokens:
            node = space.child(node, token, 0.0, 0.0)
        assert words.met(node) == met and words.tail(node).broken == broken, text_of(tokens)


def test_next_tokens_begin_or_go_on() -> None:
    space = Space(target(0, depth=9))
    words = Words(space, ["abb c", "c"], vocabulary=VOCABULARY)

    def after(*tokens: int) -> list[int]:
        node = space.start()
        for token in tokens:
            node = space.child(node, token, 0.0, 0.0)
        return words.next_tokens(node)

    assert after() == [2, 3, 4, 5]
    assert after(4) == [1]  # ab|b c
    assert after(4, 1) == [5]
    assert after(4, 1, 5) == []
    assert words.sizes == [3, 1]


@pytest.mark.parametrize("seed", range(4))
@every
def test_forbidden_words_never(search: Callable[..., SearchResult], seed: int) -> None:
    problem = target(seed)
    free = search(problem, words=["c"], vocabulary=VOCABULARY)
    worst = max(text_of(free.best.tokens).split(" "), key=lambda word: (word != "c", word))
    if worst == "c" or not worst:
        worst = "a"
    result = search(problem, words=["c"], forbidden=[worst], vocabulary=VOCABULARY)
    assert result.found and all(not has(text_of(found.tokens), worst) for found in result.found if found.finished)
    assert has(text_of(result.best.tokens), "c")


def test_places() -> None:
    assert allocate(8, [9, 9, 9]) == [2, 2, 4]
    assert allocate(8, [9, 9, 1]) == [2, 5, 1]
    assert allocate(8, [1, 1, 9]) == [1, 1, 6]
    assert allocate(8, [1, 2, 3]) == [1, 2, 3]
    assert allocate(2, [5, 5, 5, 5]) == [0, 0, 0, 2]


SCHEMA = {
    "type": "object",
    "properties": {"said": {"type": "string", "maxLength": 16}},
    "required": ["said"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("forwards", [None, 5])
@every
def test_schema(byte_vocab: Any, search: Callable[..., SearchResult], forwards: int | None) -> None:
    model = HFModel(tiny.llama(byte_vocab.logits_size, seed=2, scale=8.0), eos_token_ids=byte_vocab.eos_token_ids)
    problem = Target(model, (65,), automaton=JsonSchema(SCHEMA, whitespace="compact").compile(byte_vocab), max_tokens=28)
    budget = None if forwards is None else SearchBudget(forwards=forwards)
    looks = "neuro" in str(search)
    options = {"lookahead": 2, "candidates": 8} if looks else {}
    result = search(problem, words=["ox", "Hi"], forbidden=["no"], whole=False, beams=4 if looks else 10, budget=budget, **options)
    assert result.complete == (forwards is None) and result.best.finished
    said = [json.loads(byte_vocab.decode(found.tokens))["said"] for found in result.found if found.finished]
    assert not any("no" in text.lower() for text in said)
    if forwards is None and not looks:
        assert result.details["met"] == 2.0 and "ox" in said[0].lower() and "hi" in said[0].lower()


@every
def test_budgets_traces_and_repeats(search: Callable[..., SearchResult]) -> None:
    problem, trace = target(3), Trace()
    whole = search(problem, words=["ab", "c"], vocabulary=VOCABULARY, trace=trace)
    again = search(problem, words=["ab", "c"], vocabulary=VOCABULARY)
    assert [f.tokens for f in whole.found] == [f.tokens for f in again.found]
    assert {node.token for node in trace.nodes.values()} > {None}
    steps: list[int] = []
    cut = search(
        problem, words=["ab", "c"], vocabulary=VOCABULARY, budget=SearchBudget(forwards=3), progress=lambda p: steps.append(p.forwards)
    )
    assert not cut.complete and steps == sorted(steps) and steps[-1] == cut.forwards < whole.forwards


@every
def test_refusals(search: Callable[..., SearchResult]) -> None:
    problem = target(0)
    with pytest.raises(ConstraintError, match="needs to know what tokens write"):
        search(problem, words=["a"])
    for wrong, message in (([], "at least one"), ("ab", "not one string"), ([""], "not empty"), (["z"], "can write")):
        with pytest.raises(ConstraintError, match=message):
            search(problem, words=wrong, vocabulary=VOCABULARY)
    with pytest.raises(ValueError):
        search(problem, words=["a"], vocabulary=VOCABULARY, beams=0)
    with pytest.raises(ValueError, match="reward"):
        search(case("reward").target(), words=["a"])


def test_the_vocabulary_of_the_constraint_is_enough() -> None:
    problem = Target(target(1).model, (), automaton=Regex("[abc ]{2,6}").compile(VOCABULARY), max_tokens=6)
    assert has(text_of(dynamic_beam_allocation(problem, words=["bc"]).best.tokens), "bc")


def test_case_is_ignored_by_simple_folding() -> None:
    vocabulary = Vocabulary([bytes([i]) for i in range(256)] + [b""], eos_token_ids=[256])
    space = Space(Target(TabularModel.random(257, 3, 0), (), max_tokens=40))
    for ignore_case, met in ((True, 1), (False, 0)):
        words = Words(space, ["Über"], vocabulary=vocabulary, ignore_case=ignore_case)
        node = space.start()
        for byte in "x über".encode():
            node = space.child(node, byte, 0.0, 0.0)
        assert words.met(node) == met
