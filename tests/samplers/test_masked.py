"""The decode loop, with real (tiny) models."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grammars import Automaton, Choice, ConstraintError, Gbnf, ModelError, Regex, Vocabulary
from samplers.budget import Budget
from samplers.masked import Request, Step, decode
from samplers.sampling import Settings
from tests import tiny

PLAIN = Settings()
WIDTH = 300  # more than the vocabulary's ids
LIST = 'root ::= "[" ("the" | item ("," " "? item)*)? "]"\nitem ::= [0-9]+ | "\\"" [a-zé]* "\\"" | root'


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def model(request: pytest.FixtureRequest) -> Any:
    return getattr(tiny, request.param)(WIDTH, scale=8.0)


@pytest.fixture(scope="module")
def automaton(byte_vocab: Vocabulary) -> Automaton:
    return Gbnf(LIST).compile(byte_vocab)


def run(model: Any, requests: list[Request], vocab: Vocabulary, settings: Settings = PLAIN) -> list[list[Step]]:
    rows: list[list[Step]] = [[] for _ in requests]
    for steps in decode(model, requests, vocab.eos_token_ids, settings):
        for step in steps:
            assert not rows[step.row] or rows[step.row][-1].reason is None, "a row goes on after its end"
            rows[step.row].append(step)
    return rows


def text(vocab: Vocabulary, steps: list[Step]) -> bytes:
    return vocab.decode(step.token for step in steps)


def greedy_reference(model: Any, prompt: list[int], automaton: Automaton, most: int) -> list[int]:
    """No cache, no batch, no packed masks: every token is asked for."""
    ids, state = list(prompt), automaton.start
    for _ in range(most):
        with torch.inference_mode():
            logits = model(torch.tensor([ids])).logits[0, -1]
        order = [t for t in logits.argsort(descending=True, stable=True).tolist() if automaton.allows(state, t)]
        ids.append(order[0])
        if order[0] in automaton.vocabulary.eos_token_ids:
            break
        state = automaton.advance(state, order[0])
    return ids[len(prompt) :]


def test_greedy_equals_brute_force(model: Any, byte_vocab: Vocabulary, automaton: Automaton) -> None:
    prompts = [[1, 2, 3], [200], [65] * 9]
    rows = run(model, [Request(p, automaton, 12) for p in prompts], byte_vocab, Settings(temperature=0))
    for prompt, steps in zip(prompts, rows):
        assert [s.token for s in steps] == greedy_reference(model, prompt, automaton, 12)


def test_free_rows_are_plain_sampling(model: Any, byte_vocab: Vocabulary) -> None:
    prompts = torch.tensor([[1, 2, 3], [4, 5, 6]])
    expected = model.generate(prompts, max_new_tokens=8, do_sample=False, pad_token_id=0)[:, 3:]
    rows = run(model, [Request(p, max_tokens=8) for p in prompts.tolist()], byte_vocab, Settings(temperature=0))
    assert [[s.token for s in steps] for steps in rows] == expected.tolist()
    assert all(s.log_kept == 0 for steps in rows for s in steps)


def test_a_row_does_not_depend_on_its_batch(model: Any, byte_vocab: Vocabulary, automaton: Automaton) -> None:
    requests = [Request([i + 1] * (1 + 3 * i), automaton if i % 3 else None, 20, seed=i) for i in range(6)]
    together = run(model, requests, byte_vocab)
    for request, steps in zip(requests, together):
        alone = run(model, [request], byte_vocab)[0]
        assert [s.token for s in alone] == [s.token for s in steps]
        assert [s.logprob for s in alone] == pytest.approx([s.logprob for s in steps], abs=1e-4)
    seeds = run(model, [Request([1], automaton, 20, seed=i) for i in range(8)], byte_vocab)
    assert len({tuple(s.token for s in steps) for steps in seeds}) > 4


def test_log_probabilities_are_those_of_the_model(model: Any, byte_vocab: Vocabulary, automaton: Automaton) -> None:
    prompt = [9, 8, 7]
    steps = run(model, [Request([3, 3, 3, 3, 3], None, 30), Request(prompt, automaton, 20, seed=3)], byte_vocab)[1]
    ids = prompt + [s.token for s in steps]
    with torch.inference_mode():
        logprobs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    state = automaton.start
    for i, step in enumerate(steps):
        row = logprobs[len(prompt) + i - 1]
        assert step.logprob == pytest.approx(row[step.token].item(), abs=1e-4)
        kept = torch.tensor([automaton.allows(state, t) for t in range(WIDTH)])
        assert step.log_kept == pytest.approx(row[kept].logsumexp(0).item(), abs=1e-4)
        state = automaton.advance(state, step.token)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_a_budget_always_closes(model: Any, byte_vocab: Vocabulary, automaton: Automaton, temperature: float) -> None:
    least = Budget(automaton).need(automaton.start)
    requests = [Request([seed], automaton, least + seed, seed, Budget(automaton)) for seed in range(12)]
    for request, steps in zip(requests, run(model, requests, byte_vocab, Settings(temperature=temperature))):
        assert steps[-1].reason == "complete" and len(steps) <= request.max_tokens
        assert automaton.accepts(automaton.advance_bytes(automaton.start, text(byte_vocab, steps)))


def test_without_a_budget_a_text_is_cut(model: Any, byte_vocab: Vocabulary) -> None:
    automaton = Regex("(the ?){40}").compile(byte_vocab)
    steps = run(model, [Request([1], automaton, 5)], byte_vocab)[0]
    assert len(steps) == 5 and steps[-1].reason == "length"
    with pytest.raises(ConstraintError, match="at least 41 tokens"):
        run(model, [Request([1], automaton, 40, budget=Budget(automaton))], byte_vocab)
    assert run(model, [Request([1], automaton, 41, budget=Budget(automaton))], byte_vocab)[0][-1].reason == "complete"


def test_special_and_padding_ids_never_come(model: Any, byte_vocab: Vocabulary) -> None:
    automaton = Regex("(?s:.)*").compile(byte_vocab)
    rows = run(model, [Request([1], automaton, 40, seed) for seed in range(8)], byte_vocab, Settings(temperature=50.0))
    ids = {s.token for steps in rows for s in steps}
    assert max(ids) < byte_vocab.size and not ids & {*byte_vocab.special_token_ids, 259}


def test_nothing_to_do_and_nothing_to_go_on(model: Any, byte_vocab: Vocabulary) -> None:
    assert run(model, [], byte_vocab) == []
    with pytest.raises(ModelError, match="no tokens"):
        run(model, [Request([], Choice(["a"]).compile(byte_vocab))], byte_vocab)
