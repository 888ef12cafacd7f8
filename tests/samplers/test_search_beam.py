"""Beam search: equal to transformers where both exist; equal to a plain version of the rules; under constraints and budgets."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
import torch

from grammars import JsonSchema, Regex
from grammars.errors import ConstraintError, DeadEnd
from guided.evaluation.toys import END, case, names, vocabulary
from samplers.models import HFModel, TabularModel
from samplers.search.beam import BeamRules, Pool, beam_search
from samplers.search.frontier import SearchBudget, SearchResult, Space
from samplers.target import Target
from tests import tiny

WIDTH = 40


def theirs(model: Any, prompt: list[int], max_tokens: int, ends: list[int] | None, **settings: Any) -> list[tuple[tuple[int, ...], float]]:
    """What ``generate`` of transformers finds: texts and scores, best first."""
    k = settings["num_beams"]
    ids = torch.tensor([prompt])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max_tokens,
        do_sample=False,
        num_return_sequences=k,
        eos_token_id=ends,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    found = []
    for row, score in zip(out.sequences[:, len(prompt) :].tolist(), out.sequences_scores.tolist()):
        end = next((i + 1 for i, token in enumerate(row) if token in (ends or [])), max_tokens)
        found.append((tuple(row[:end]), score))
    return found


def ours(result: SearchResult) -> list[tuple[tuple[int, ...], float]]:
    return [(f.tokens, f.score) for f in result.found]


def assert_same(mine: list[tuple[tuple[int, ...], float]], other: list[tuple[tuple[int, ...], float]]) -> None:
    assert [tokens for tokens, _ in mine] == [tokens for tokens, _ in other]
    assert [score for _, score in mine] == pytest.approx([score for _, score in other], abs=2e-5, rel=1e-6)


@pytest.fixture(scope="module")
def llama() -> Any:
    return tiny.llama(WIDTH, seed=3, scale=6.0)


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, 2.0, -1.0])
@pytest.mark.parametrize("beams", [2, 5])
def test_equals_transformers(llama: Any, early_stopping: Any, length_penalty: float, beams: int) -> None:
    ends = [3, 17]
    model = HFModel(llama, eos_token_ids=ends)
    for prompt in ([5, 9, 2], [11, 30]):
        result = beam_search(
            Target(model, tuple(prompt), max_tokens=12),
            beams=beams,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
            ending="cut",
        )
        settings = {"num_beams": beams, "length_penalty": length_penalty, "early_stopping": early_stopping}
        assert_same(ours(result)[:beams], theirs(llama, prompt, 12, ends, **settings))
        assert result.complete


def test_the_rules_differ() -> None:
    """A model on which each rule stops elsewhere: without one the test above would show little."""
    model = tiny.llama(WIDTH, seed=1, scale=3.0)
    ends, prompt = [3, 4, 5, 6], [35, 9, 2]
    spent = set()
    for rule in (True, False, "never"):
        target = Target(HFModel(model, eos_token_ids=ends), tuple(prompt), max_tokens=30)
        result = beam_search(target, beams=3, early_stopping=rule, ending="cut")
        assert_same(ours(result), theirs(model, prompt, 30, ends, num_beams=3, early_stopping=rule))
        spent.add(result.expansions)
    assert len(spent) == 3


def test_equals_transformers_on_another_architecture() -> None:
    gpt2 = tiny.gpt2(WIDTH, seed=5, scale=4.0)
    result = beam_search(Target(HFModel(gpt2, eos_token_ids=[7]), (1, 2, 3, 4), max_tokens=10), beams=4, ending="cut")
    assert_same(ours(result), theirs(gpt2, [1, 2, 3, 4], 10, [7], num_beams=4))


# ---------------------------------------------------------------- a plain version of the rules
def plain_beam(problem: Any, beams: int, length_penalty: float, patience: float) -> list[tuple[tuple[int, ...], float]]:
    """The rules with ``early_stopping=True`` on a toy problem, written with lists, its language told by the enumerated law."""
    prefixes = {text[:i] for text in problem.masses for i in range(len(text) + 1)}
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    pool: list[tuple[tuple[int, ...], float]] = []
    while beam and len(pool) < round(patience * beams):
        children = []
        for tokens, score in beam:
            for token, p in enumerate(problem.row(tokens)):
                if p > 0 and (*tokens, token) in prefixes:
                    children.append(((*tokens, token), score + math.log(p)))
        children = sorted(children, key=lambda child: -child[1])[: 2 * beams]
        pool += [(t, s / len(t) ** length_penalty) for t, s in children[:beams] if t[-1] == END]
        beam = [child for child in children if child[0][-1] != END][:beams]
    return sorted(pool, key=lambda text: -text[1])[: round(patience * beams)]


@pytest.mark.parametrize("name", names(reward=False))
@pytest.mark.parametrize(("beams", "patience"), [(1, 1.0), (3, 1.0), (3, 2.0), (4, 0.5)])
def test_equals_the_rules_in_lists(name: str, beams: int, patience: float) -> None:
    """With constraints, prompts, temperatures and checks. The plain version leaves out what cannot be continued, a search that is exact
    about the bound comes to know it later: equal results are asked for where there is no such prefix."""
    problem = case(name)
    result = beam_search(problem.target(), beams=beams, early_stopping=True, patience=patience, ending="exact")
    mine = ours(result)
    if name in ("random, set", "prompt", "free", "checker", "distortion"):
        assert_same(mine, plain_beam(problem, beams, 1.0, patience))
    assert {tokens for tokens, _ in mine} <= set(problem.masses)
    assert [s for _, s in mine] == sorted((s for _, s in mine), reverse=True)


@pytest.mark.parametrize("name", names(reward=False))
def test_a_wide_beam_is_exhaustive(name: str) -> None:
    problem = case(name)
    result = beam_search(problem.target(), beams=4000, length_penalty=0.0, early_stopping="never", ending="exact")
    found = {f.tokens: math.exp(f.logprob) for f in result.found}
    assert found == pytest.approx(problem.masses)
    assert result.best.tokens == max(problem.masses, key=problem.masses.__getitem__)


@pytest.mark.parametrize("name", names(reward=False, free=False))
@pytest.mark.parametrize("finished", ["aside", "compete"])
def test_a_budget_always_closes(name: str, finished: Any) -> None:
    """With the token budget even a beam of one ends with a text of the language."""
    problem = case(name)
    if name in ("checker", "holes"):
        pytest.skip("a check, or a probability of zero, may forbid what the budget counts on")
    result = beam_search(problem.target(), beams=1, length_penalty=0.0, finished=finished)
    assert result.best.finished and problem.target().contains(result.best.tokens)


def test_competing_texts_hold_places() -> None:
    """Two prefixes, one place each: an early end keeps its place while better ones are there, and loses it to two better ones."""
    end, a, b = 0, 1, 2
    rows = {(): [0.3, 0.4, 0.3 - 1e-9], (a,): [0.4, 0.3, 0.3 - 1e-9], (b,): [0.1, 0.6, 0.3 - 1e-9]}
    model = TabularModel(3, end, lambda prefix: _normal(rows.get(prefix, [1.0, 0.0, 0.0])))
    result = beam_search(Target(model, (), max_tokens=3), beams=2, length_penalty=0.0, finished="compete")
    assert [f.tokens for f in result.found] == [(end,), (a, end)]
    aside = beam_search(Target(model, (), max_tokens=3), beams=2, length_penalty=0.0, early_stopping="never")
    assert (b, a, end) not in [f.tokens for f in result.found] and aside.expansions > result.expansions


def _normal(row: list[float]) -> list[float]:
    return [p / sum(row) for p in row]


# ---------------------------------------------------------------- schemas, budgets
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def schema_target(byte_vocab: Any, max_tokens: int = 40, seed: int = 1) -> Target:
    automaton = JsonSchema(SCHEMA).compile(byte_vocab)
    model = tiny.llama(byte_vocab.logits_size, seed=seed, scale=8.0)
    return Target(HFModel(model, eos_token_ids=byte_vocab.eos_token_ids), (65, 66), automaton=automaton, max_tokens=max_tokens)


def assert_valid(target: Target, result: SearchResult) -> None:
    assert target.automaton is not None and result.found
    for found in result.found:
        if found.finished:
            value = json.loads(target.automaton.vocabulary.decode(found.tokens))
            assert set(value) == {"name", "age"} and len(value["name"]) <= 12 and 0 <= value["age"] <= 120
            assert target.contains(found.tokens)
    assert result.best.finished


def test_schema_gives_valid_objects_only(byte_vocab: Any) -> None:
    for beams, tokens in itertools.product((1, 4), (24, 40)):
        target = schema_target(byte_vocab, tokens)
        result = beam_search(target, beams=beams)
        assert_valid(target, result)
        assert result.complete and all(f.finished for f in result.found)


@pytest.mark.parametrize("forwards", [1, 5, 20])
def test_a_budget_cuts_and_the_best_so_far_is_closed(byte_vocab: Any, forwards: int) -> None:
    target = schema_target(byte_vocab)
    result = beam_search(target, beams=4, budget=SearchBudget(forwards=forwards))
    assert not result.complete
    assert_valid(target, result)
    tokens = result.best.tokens
    logprob = sum(
        float(target.logprobs([target.model.context(target.prompt + tokens[:i])])[0, token]) for i, token in enumerate(tokens)
    )
    assert result.best.logprob == pytest.approx(logprob, abs=1e-4)


def test_budgets_of_every_kind_stop(byte_vocab: Any) -> None:
    target = schema_target(byte_vocab)
    full = beam_search(target, beams=4)
    assert full.complete
    for budget in (SearchBudget(forwards=6), SearchBudget(tokens=6), SearchBudget(seconds=1e-9)):
        cut = beam_search(target, beams=4, budget=budget)
        assert not cut.complete and cut.expansions < full.expansions
    assert beam_search(target, beams=4, budget=SearchBudget(forwards=10**6)).complete


def test_progress_and_counts() -> None:
    problem = case("random, regex")
    seen: list[Any] = []
    result = beam_search(problem.target(), beams=3, progress=seen.append)
    assert [p.forwards for p in seen] == sorted(p.forwards for p in seen) and len(seen) > 1
    assert result.forwards == result.expansions == seen[-1].forwards
    assert result.seconds > 0 and result.tokens > 0
    assert seen[-1].depth <= problem.max_tokens


# ---------------------------------------------------------------- refusals
def test_refusals() -> None:
    target = case("random, set").target()
    for wrong in ({"beams": 0}, {"patience": 0.0}, {"length_penalty": math.nan}, {"early_stopping": "sometimes"}, {"ending": "soon"}):
        with pytest.raises(ValueError):
            beam_search(target, **wrong)
    with pytest.raises(ValueError, match="length_penalty=0"):
        beam_search(target, finished="compete")
    with pytest.raises(ValueError, match="reward"):
        beam_search(case("reward").target())
    for bound in ("forwards", "tokens", "seconds"):
        with pytest.raises(ValueError, match=bound):
            SearchBudget(**{bound: 0})
    too_long = Target(target.model, (), automaton=Regex("a{9}").compile(vocabulary()), max_tokens=3)
    with pytest.raises(ConstraintError, match="budget"):
        beam_search(too_long)


def test_nothing_found_is_said() -> None:
    end = 0
    model = TabularModel(2, end, lambda prefix: [0.0, 1.0])  # never ends
    result = beam_search(Target(model, (), max_tokens=3), beams=2)
    with pytest.raises(DeadEnd, match="no text was found"):
        result.best


def test_pool_keeps_the_best() -> None:
    space = Space(case("free").target())
    root = space.start()
    pool = Pool(BeamRules(beams=2, length_penalty=0.0), 3)
    for token, score in ((0, -3.0), (1, -1.0), (2, -2.0)):
        pool.add([space.child(root, token, score, score)])
    assert [node.score for node in pool.texts] == [-1.0, -2.0] and pool.full
    assert pool.closed(-2.0, 1) and not pool.closed(-1.5, 1)
