"""The loop beside plain decoding: the same tokens and numbers, on real (tiny) networks; budgets, ends, batches, statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from grammars import Automaton, Gbnf, Regex, Vocabulary
from grammars.errors import ConstraintError, DeadEnd, ModelError
from guided.evaluation.toys import END, TOKENS, case, names, randomly
from samplers import masked
from samplers.budget import Budget
from samplers.masked import Request, Step
from samplers.models import Counting, HFModel, TabularModel
from samplers.sampling import Settings
from samplers.warpers import Mirostat, RepetitionPenalty
from speculative import Round, decode
from speculative.verifiers import Exact, Greedy, Matching, MultiCandidate, Recursive, SpecInfer, SpecTr
from tests import tiny
from tests.speculative.toy import Branches, Fixed, Mixed, Sampled

VOCABULARY = Vocabulary([b"a", b"b", b"c", b"ab", b"bc", b"abc", b"", b"<pad>"], eos_token_ids=[6], special_token_ids=[7])
EOS = 6
PROMPTS = [[3], [0, 1, 2, 3, 4], [5, 5], [2, 0, 2, 0, 2, 0]]


@pytest.fixture(scope="module")
def network() -> Any:
    return tiny.llama(8, seed=4, scale=4.0)


@pytest.fixture(scope="module")
def draft() -> HFModel:
    return HFModel(tiny.llama(8, seed=5, scale=3.0), eos_token_ids=[EOS])


@pytest.fixture(scope="module")
def automata() -> list[Automaton | None]:
    grammar = Gbnf('root ::= "a" ("b" | "bc" "a"? | "bb"){0,9}').compile(VOCABULARY)
    return [grammar, None, Regex("(abc|b)+").compile(VOCABULARY), grammar]


def requests(automata: Sequence[Automaton | None], lengths: Sequence[int] = (12, 9, 14, 3)) -> list[Request]:
    return [
        Request(prompt, automaton, length, seed, None if automaton is None else Budget(automaton))
        for seed, (prompt, automaton, length) in enumerate(zip(PROMPTS, automata, lengths))
    ]


def by_row(steps: Any) -> dict[int, list[Step]]:
    found: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        for one in step:
            found[one.row].append(one)
    return found


def assert_same(found: dict[int, list[Step]], plain: dict[int, list[Step]]) -> None:
    assert found.keys() == plain.keys()
    for row, steps in plain.items():
        assert [(s.token, s.reason) for s in found[row]] == [(s.token, s.reason) for s in steps]
        assert [s.logprob for s in found[row]] == pytest.approx([s.logprob for s in steps], abs=1e-4)
        assert [s.log_kept for s in found[row]] == pytest.approx([s.log_kept for s in steps], abs=1e-4)


DRAFTS = [(Fixed, Branches(1, 1, 1, 1)), (Fixed, Branches(3, 2)), (Mixed, Branches(2, 1)), (Sampled, Branches(2, 2))]


@pytest.mark.parametrize(("drafter", "shape"), DRAFTS)
@pytest.mark.parametrize("warpers", [None, [RepetitionPenalty(1.3)]], ids=["plain", "warped"])
def test_greedy_is_token_for_token_plain_greedy(
    network: Any, draft: HFModel, automata: Any, drafter: Any, shape: Any, warpers: Any
) -> None:
    asked, settings = requests(automata), Settings(temperature=0)
    plain = by_row(masked.decode(network, asked, [EOS], settings, warpers=warpers))
    model = HFModel(network, eos_token_ids=[EOS])
    found = by_row(decode(model, asked, drafter(draft), verifier=Greedy(), shape=shape, settings=settings, warpers=warpers))
    assert_same(found, plain)


SETTINGS = [Settings(), Settings(0.7, top_k=3), Settings(1.4, top_p=0.8)]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("drafter", "shape"), DRAFTS[1:3])
def test_coupled_sampling_is_token_for_token_plain_sampling(
    network: Any, draft: HFModel, automata: Any, drafter: Any, shape: Any, settings: Settings
) -> None:
    asked = requests(automata)
    plain = by_row(masked.decode(network, asked, [EOS], settings))
    model = HFModel(network, eos_token_ids=[EOS])
    assert_same(by_row(decode(model, asked, drafter(draft), verifier=Matching(), shape=shape, settings=settings)), plain)


@pytest.mark.parametrize(("verifier", "how"), [(Exact, 1), (MultiCandidate, 2), (Recursive, 3), (SpecInfer, 2), (SpecTr, 2)])
def test_masses_and_log_probabilities_are_those_of_plain_decoding(
    network: Any, draft: HFModel, automata: Any, verifier: Any, how: int
) -> None:
    """Of the very tokens that came out: forced through plain decoding, they have the same numbers."""
    asked = requests(automata)
    model = HFModel(network, eos_token_ids=[EOS])
    found = by_row(decode(model, asked, Sampled(draft), verifier=verifier(), shape=Branches(how, 1), settings=Settings(0.8)))
    for row, request in enumerate(asked):
        tokens = [step.token for step in found[row]]
        forced = iter(tokens)
        logits = _teacher(network, request, tokens)
        state, plan, left = (request.automaton.start if request.automaton else 0), None, request.max_tokens
        for i, step in enumerate(found[row]):
            token = next(forced)
            scores = logits[i] / 0.8
            kept = 0.0
            if request.automaton is not None:
                assert request.budget is not None
                mask = _bits(request, state, left, plan)
                kept = float(scores[mask].logsumexp(0) - scores.logsumexp(0))
                left -= 1
                state, plan = request.budget.advance(state, plan, token, left)
                assert mask[token]
            assert step.log_kept == pytest.approx(kept, abs=1e-4)
            assert step.logprob == pytest.approx(float(logits[i].log_softmax(0)[token]), abs=1e-4)


def _teacher(network: Any, request: Request, tokens: list[int]) -> torch.Tensor:
    ids = torch.tensor([[*request.prompt, *tokens]])
    with torch.inference_mode():
        return network(ids).logits[0, len(request.prompt) - 1 : -1].double()


def _bits(request: Request, state: int, left: int, plan: Any) -> torch.Tensor:
    import numpy as np

    assert request.budget is not None and request.automaton is not None
    row = np.zeros(request.automaton.words, np.int32)
    request.budget.fill(state, left, plan, row)
    return torch.from_numpy(np.unpackbits(row.view(np.uint8), bitorder="little")[:8].astype(bool))


# ---------------------------------------------------------------- batches
def test_a_row_does_not_depend_on_the_rows_beside_it(network: Any, draft: HFModel, automata: Any) -> None:
    asked = requests(automata)
    model = HFModel(network, eos_token_ids=[EOS])
    together = by_row(decode(model, asked, Sampled(draft), verifier=Recursive(), shape=Branches(2, 1)))
    for row, request in enumerate(asked):
        alone = by_row(decode(model, [request], Sampled(draft), verifier=Recursive(), shape=Branches(2, 1)))
        assert [s.token for s in alone[0]] == [s.token for s in together[row]]


def test_no_request_no_step(draft: HFModel) -> None:
    assert list(decode(draft, [], Fixed(draft), verifier=Greedy(), shape=Branches(1), settings=Settings(temperature=0))) == []


def test_one_forward_a_step_over_all_rows(network: Any, draft: HFModel, automata: Any) -> None:
    model = Counting(HFModel(network, eos_token_ids=[EOS]))
    rounds = list(decode(model, requests(automata), Fixed(draft), verifier=Matching(), shape=Branches(2, 1)))
    assert model.forwards <= len(rounds)
    assert all(step.forwards == 1 for step in rounds)


# ---------------------------------------------------------------- ends, lengths, budgets
def test_lengths_are_kept_whatever_is_drafted() -> None:
    """Free text that never ends: cut exactly at the length, never drafted beyond it."""
    model = TabularModel(4, 3, lambda prefix: [0.5, 0.3, 0.2, 0.0])
    for length in (1, 2, 3, 7):
        drafter = Sampled(model)
        rounds = list(decode(model, [Request([0], None, length, 1)], drafter, verifier=Exact(), shape=Branches(1, 1, 1)))
        steps = by_row(rounds)[0]
        assert [s.reason for s in steps] == [None] * (length - 1) + ["length"]
        assert all(len(o.tree) <= length - (o.place.left + len(o.tokens) - length) for o in drafter.outcomes)
        assert drafter.ended == [0]


def test_an_end_within_a_draft_ends_the_text() -> None:
    model = TabularModel(3, 2, lambda prefix: [0.05, 0.05, 0.9] if len(prefix) == 3 else [0.9, 0.05, 0.05])
    rounds = list(
        decode(model, [Request([0], None, 30, 0)], Fixed(model), verifier=Greedy(), shape=Branches(*[1] * 8), settings=Settings(0))
    )
    assert [s.token for s in by_row(rounds)[0]] == [0, 0, 2]
    assert len(rounds) == 1
    assert rounds[0].rows[0].drafted == 3, "nothing is drafted behind an end"
    assert rounds[0].rows[0].emitted == 3


@pytest.mark.parametrize("length", [5, 6, 9, 15])
def test_budgets_close_texts_in_time(length: int) -> None:
    """A model that never wants to end."""
    model = TabularModel(8, EOS, lambda prefix: [0.2, 0.2, 0.2, 0.2, 0.1, 0.099999, 0.000001, 0.0])
    automaton = Gbnf('root ::= "(" root ")" | "a" root | "b" root "c" | "c"'.replace("(", "a").replace(")", "b")).compile(VOCABULARY)
    asked = [Request([0], automaton, length, seed, Budget(automaton)) for seed in range(40)]
    for verifier in (Exact(), Matching()):
        found = by_row(decode(model, asked, Sampled(model), verifier=verifier, shape=Branches(1, 1, 1)))
        for steps in found.values():
            assert steps[-1].reason == "complete" and len(steps) <= length
            state = automaton.start
            for step in steps:
                state = automaton.advance(state, step.token)
            assert state == automaton.DONE


def test_a_budget_that_is_too_small_is_refused(automata: Any) -> None:
    model = TabularModel(8, EOS, lambda prefix: [0.125] * 8)
    with pytest.raises(ConstraintError, match="shortest text"):
        list(decode(model, [Request([0], automata[0], 1, 0, Budget(automata[0]))], Fixed(model), verifier=Exact(), shape=Branches(1)))


def test_a_dead_end_is_an_error() -> None:
    """The model gives no mass to anything that may follow."""
    automaton = Regex("b+").compile(VOCABULARY)
    model = TabularModel(8, EOS, lambda prefix: [1.0, 0, 0, 0, 0, 0, 0, 0])
    for verifier in (Exact(), Matching()):
        with pytest.raises(DeadEnd, match="row 0"):
            list(decode(model, [Request([0], automaton, 5, 0)], Fixed(model), verifier=verifier, shape=Branches(1)))


def test_a_prompt_that_the_model_cannot_take(draft: HFModel) -> None:
    with pytest.raises(ModelError):
        list(decode(draft, [Request([], None, 5, 0)], Fixed(draft), verifier=Exact(), shape=Branches(1)))


@pytest.mark.parametrize("length", [0, -3])
def test_lengths_below_one_are_refused(draft: HFModel, length: int) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        list(decode(draft, [Request([1], None, length, 0)], Fixed(draft), verifier=Exact(), shape=Branches(1)))


# ---------------------------------------------------------------- what does not go together
def test_greedy_verification_is_for_temperature_zero(draft: HFModel) -> None:
    with pytest.raises(ValueError, match="temperature 0"):
        next(decode(draft, [Request([1], None, 3, 0)], Fixed(draft), verifier=Greedy(), shape=Branches(1)))


def test_a_chain_verifier_refuses_trees(draft: HFModel) -> None:
    with pytest.raises(ValueError, match="chain"):
        list(decode(draft, [Request([1], None, 9, 0)], Sampled(draft), verifier=Exact(), shape=Branches(3)))


def test_draws_that_a_verifier_does_not_take_are_refused(draft: HFModel) -> None:
    with pytest.raises(ValueError, match="without"):
        list(decode(draft, [Request([1], None, 9, 0)], Sampled(draft, "without"), verifier=SpecTr(), shape=Branches(3)))


def test_warpers_with_a_memory_are_refused(draft: HFModel) -> None:
    with pytest.raises(ValueError, match="Mirostat"):
        list(decode(draft, [Request([1], None, 9, 0)], Fixed(draft), verifier=Exact(), shape=Branches(1), warpers=[Mirostat()]))


# ---------------------------------------------------------------- statistics, drafters' view
def test_statistics_add_up(network: Any, draft: HFModel, automata: Any) -> None:
    drafter = Sampled(draft)
    model = HFModel(network, eos_token_ids=[EOS])
    rounds: list[Round] = list(decode(model, requests(automata), drafter, verifier=Recursive(), shape=Branches(2, 2)))
    for step in rounds:
        assert len(step) == sum(row.emitted for row in step.rows)
        for row in step.rows:
            assert row.accepted <= row.emitted <= row.accepted + 1
            assert row.accepted <= row.drafted <= 6
            assert [one.row for one in step].count(row.row) == row.emitted
        assert min(step.seconds) >= 0
    assert sorted(drafter.ended) == [0, 1, 2, 3]


def test_drafters_see_what_came_out_and_the_scores(network: Any, draft: HFModel) -> None:
    drafter = Sampled(draft)
    model = HFModel(network, eos_token_ids=[EOS])
    steps = by_row(decode(model, [Request(PROMPTS[1], None, 12, 3)], drafter, verifier=Recursive(), shape=Branches(2, 2)))[0]
    told = [token for outcome in drafter.outcomes for token in outcome.tokens]
    assert told == [s.token for s in steps]
    for outcome in drafter.outcomes:
        assert outcome.scores.shape == (len(outcome.nodes), 8)
        contexts = [outcome.tree.places[node].context for node in outcome.nodes]
        torch.testing.assert_close(outcome.scores.double().log_softmax(-1), model.next_logprobs(contexts))
        assert [outcome.tree.tokens[node] for node in outcome.path] == list(outcome.tokens[: len(outcome.path)])


# ---------------------------------------------------------------- walks
def walks(count: int) -> int:
    """Random texts over the toy languages with every verifier; how many left their language."""
    small = TabularModel(len(TOKENS), END, randomly(77, 1.2))
    ways = [(Exact, Sampled, (1, 1, 1)), (MultiCandidate, Mixed, (2, 1)), (Recursive, Sampled, (3, 2)), (SpecInfer, Mixed, (2,))]
    ways += [(SpecTr, Sampled, (2, 2)), (Matching, Fixed, (2, 2)), (Matching, Mixed, (2, 1))]
    problems = [case(name) for name in names(reward=False, free=False) if case(name).check is None and name != "holes"]
    wrong = 0
    for i, problem in enumerate(problems):
        for k, (verifier, drafter, counts) in enumerate(ways):
            budget = Budget(problem.automaton)  # type: ignore[arg-type]
            n = -(-count // (len(problems) * len(ways)))
            asked = [Request(problem.prompt, problem.automaton, problem.max_tokens, 1000 * k + i + s, budget) for s in range(n)]
            rounds = decode(problem.model, asked, drafter(small), verifier=verifier(), shape=Branches(*counts))
            for steps in by_row(rounds).values():
                text = b"".join(TOKENS[s.token] for s in steps[:-1])
                wrong += not (steps[-1].token == END and problem.accepts(text) and len(steps) <= problem.max_tokens)
    return wrong


def test_random_walks_stay_in_the_language() -> None:
    assert walks(600) == 0


@pytest.mark.slow
def test_ten_thousand_random_walks_stay_in_the_language() -> None:
    assert walks(10_000) == 0


def test_replace_keeps_a_request_apart() -> None:
    """Requests are values: the same one twice gives the same text twice."""
    problem = case("random, grammar")
    request = Request(problem.prompt, problem.automaton, problem.max_tokens, 5, Budget(problem.automaton))  # type: ignore[arg-type]
    found = by_row(decode(problem.model, [request, replace(request)], Sampled(problem.model), verifier=Recursive(), shape=Branches(2)))
    assert [s.token for s in found[0]] == [s.token for s in found[1]]
