"""The Hugging Face plug-in under every mode of ``model.generate``."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from grammars import Automaton, Choice, ConstraintError, Gbnf, Regex, Vocabulary
from guided import GuidedLogitsProcessor
from tests import tiny

WIDTH = 300
PAD = 257
LIST = Gbnf('root ::= "[" ("the" | item ("," " "? item)*)? "]"\nitem ::= [0-9]+ | "\\"" [a-zé]* "\\"" | root')
WORD = Regex("(the|null|x{1,9}){1,4}")


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def model(request: pytest.FixtureRequest) -> Any:
    made = getattr(tiny, request.param)(WIDTH, scale=8.0)
    made.generation_config.eos_token_id, made.generation_config.pad_token_id = 258, PAD
    return made


@pytest.fixture
def make(byte_vocab: Vocabulary) -> Any:
    def processor(constraint: Any, **options: Any) -> GuidedLogitsProcessor:
        return GuidedLogitsProcessor(None, constraint, vocabulary=byte_vocab, **options)

    return processor


def prompts(count: int, padded: bool = True) -> dict[str, torch.Tensor]:
    """Left-padded prompts of different lengths."""
    rows = [[10 + i] * (1 + (2 * i if padded else 3)) for i in range(count)]
    length = max(map(len, rows))
    ids = torch.tensor([[PAD] * (length - len(r)) + r for r in rows])
    return {"input_ids": ids, "attention_mask": torch.tensor([[0] * (length - len(r)) + [1] * len(r) for r in rows])}


def texts(output: torch.Tensor, inputs: dict[str, torch.Tensor]) -> list[list[int]]:
    """Generated ids up to the first end token; all that follows it has to be padding."""
    rows = []
    for row in output[:, inputs["input_ids"].shape[1] :].tolist():
        end = row.index(258) if 258 in row else len(row)
        assert set(row[end + 1 :]) <= {258, PAD}
        rows.append(row[: end + 1])
    return rows


def fits(automaton: Automaton, ids: list[int]) -> bool:
    state = automaton.start
    for token in ids:
        state = automaton.advance(state, token)
    return state == automaton.DONE


MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True},
    "sampling, warped": {"do_sample": True, "temperature": 3.0, "top_k": 7, "top_p": 0.8},
    "several samples": {"do_sample": True, "num_return_sequences": 4, "temperature": 2.0},
    "beams": {"do_sample": False, "num_beams": 4},
    "beams, all returned": {"do_sample": False, "num_beams": 5, "num_return_sequences": 5, "early_stopping": True},
    "beam sampling": {"do_sample": True, "num_beams": 3, "num_return_sequences": 2, "temperature": 2.0},
    "penalised": {"do_sample": True, "repetition_penalty": 1.7, "no_repeat_ngram_size": 2},
    "without a cache": {"do_sample": False, "use_cache": False},
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_stays_in_the_language(model: Any, make: Any, byte_vocab: Vocabulary, mode: str) -> None:
    torch.manual_seed(0)
    processor = make(LIST, max_new_tokens=24)
    inputs = prompts(3)
    automaton = LIST.compile(byte_vocab)
    for _ in range(2):  # the same instance again
        output = model.generate(**inputs, logits_processor=[processor], max_new_tokens=24, **MODES[mode])
        rows = texts(output, inputs)
        assert len(rows) == 3 * MODES[mode].get("num_return_sequences", 1)
        for row in rows:
            assert fits(automaton, row), byte_vocab.decode(row)


@pytest.mark.parametrize("mode", ["greedy", "several samples", "beams", "beam sampling"])
def test_one_constraint_a_row(model: Any, make: Any, byte_vocab: Vocabulary, mode: str) -> None:
    torch.manual_seed(1)
    inputs, options = prompts(3), MODES[mode]
    each = options.get("num_return_sequences", 1)
    processor = make([LIST, WORD, Choice(["the", "null"])], max_new_tokens=20)
    rows = texts(model.generate(**inputs, logits_processor=[processor], max_new_tokens=20, **options), inputs)
    for i, constraint in enumerate([LIST, WORD, Choice(["the", "null"])]):
        automaton = constraint.compile(byte_vocab)
        assert all(fits(automaton, row) for row in rows[i * each : (i + 1) * each])


@pytest.mark.parametrize("mode", ["greedy", "several samples", "beams", "beam sampling", "penalised"])
def test_none_leaves_a_row_as_it_is(model: Any, make: Any, byte_vocab: Vocabulary, mode: str) -> None:
    inputs, options = prompts(2), MODES[mode]
    each = options.get("num_return_sequences", 1)
    torch.manual_seed(2)
    free = model.generate(**inputs, max_new_tokens=9, **options)
    torch.manual_seed(2)
    assert torch.equal(model.generate(**inputs, logits_processor=[make(None)], max_new_tokens=9, **options), free)
    if not options["do_sample"]:  # a mixed batch: the free row is not touched by the other one
        mixed = model.generate(**inputs, logits_processor=[make([None, LIST], max_new_tokens=9)], max_new_tokens=9, **options)
        start = inputs["input_ids"].shape[1]
        assert texts(mixed, inputs)[0] == texts(free, inputs)[0] or torch.equal(mixed[0, start:], free[0, start : mixed.shape[1]])
        assert all(fits(LIST.compile(byte_vocab), row) for row in texts(mixed, inputs)[each:])


def reference(model: Any, prompt: list[int], automaton: Automaton, most: int) -> list[int]:
    state, ids = automaton.start, list(prompt)
    while len(ids) < len(prompt) + most:
        with torch.inference_mode():
            logits = model(torch.tensor([ids])).logits[0, -1]
        ids.append(max((t for t in range(WIDTH) if automaton.allows(state, t)), key=lambda t: logits[t].item()))
        state = automaton.advance(state, ids[-1])
        if state == automaton.DONE:
            break
    return ids[len(prompt) :]


def test_greedy_equals_brute_force(model: Any, make: Any, byte_vocab: Vocabulary) -> None:
    automaton = WORD.compile(byte_vocab)
    inputs = prompts(3)
    rows = texts(model.generate(**inputs, logits_processor=[make(automaton)], max_new_tokens=12, do_sample=False), inputs)
    for i, row in enumerate(rows):
        prompt = inputs["input_ids"][i][inputs["attention_mask"][i].bool()].tolist()
        assert row == reference(model, prompt, automaton, 12)


def test_beam_search_finds_the_best_of_a_small_language(model: Any, make: Any, byte_vocab: Vocabulary) -> None:
    """With as many beams as there are sequences the best one is found; its score is that of the model."""
    automaton = Choice(["the", "null", "12", "00x"]).compile(byte_vocab)
    prompt = [20, 21]
    scores: dict[tuple[int, ...], float] = {}
    todo: list[tuple[list[int], int, float]] = [([], automaton.start, 0.0)]
    while todo:
        ids, state, score = todo.pop()
        with torch.inference_mode():
            logprobs = model(torch.tensor([prompt + ids])).logits[0, -1].double().log_softmax(-1)
        for token in (t for t in range(byte_vocab.size) if automaton.allows(state, t)):
            if token == 258:
                scores[(*ids, token)] = score + logprobs[token].item()
            else:
                todo.append(([*ids, token], automaton.advance(state, token), score + logprobs[token].item()))
    output = model.generate(
        torch.tensor([prompt]),
        logits_processor=[make(automaton, max_new_tokens=8)],
        max_new_tokens=8,
        num_beams=32,
        do_sample=False,
        length_penalty=0.0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    best = max(scores, key=lambda ids: scores[ids])
    assert tuple(texts(output.sequences, {"input_ids": torch.tensor([prompt])})[0]) == best
    assert output.sequences_scores[0].item() == pytest.approx(scores[best], abs=1e-3)


def test_more_beams_than_the_language_has_texts(model: Any, make: Any, byte_vocab: Vocabulary) -> None:
    """Most rows have probability zero: no crash, no NaN, and the best text is right."""
    torch.manual_seed(3)
    automaton = Choice(["the"]).compile(byte_vocab)
    for options in ({"do_sample": False}, {"do_sample": True}):
        output = model.generate(
            **prompts(2), logits_processor=[make(automaton, max_new_tokens=6)], max_new_tokens=6, num_beams=6, output_scores=True,
            return_dict_in_generate=True, **options,
        )  # fmt: skip
        assert all(fits(automaton, row) for row in texts(output.sequences, prompts(2)))
        assert not any(scores.isnan().any() for scores in output.scores)


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 9])
def test_a_budget_always_closes(model: Any, make: Any, byte_vocab: Vocabulary, budget: int) -> None:
    deep = Gbnf('root ::= "x" | "(" root root ")"')
    automaton = deep.compile(byte_vocab)
    least = 2
    if budget < least:
        with pytest.raises(ConstraintError, match="at least 2 tokens"):
            make(deep, max_new_tokens=budget)
        return
    torch.manual_seed(budget)
    inputs = prompts(2)
    processor = make(deep, max_new_tokens=budget)
    output = model.generate(
        **inputs, logits_processor=[processor], max_new_tokens=budget, do_sample=True, temperature=9.0, num_return_sequences=8
    )
    assert all(fits(automaton, row) and len(row) <= budget for row in texts(output, inputs))


def test_assisted_decoding_goes_back_and_stays_right(make: Any, byte_vocab: Vocabulary) -> None:
    target, draft = tiny.llama(WIDTH, seed=0, scale=8.0), tiny.llama(WIDTH, seed=0, scale=7.0)
    with torch.no_grad():  # like the target, but not equal to it
        draft.get_output_embeddings().weight.add_(0.05 * torch.randn(draft.get_output_embeddings().weight.shape))
    for one in (target, draft):
        one.generation_config.eos_token_id, one.generation_config.pad_token_id = 258, PAD
    inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
    options: dict[str, Any] = {"max_new_tokens": 20, "do_sample": False}
    plain = target.generate(**inputs, logits_processor=[make(LIST, max_new_tokens=20)], **options)
    assisted = target.generate(**inputs, logits_processor=[make(LIST, max_new_tokens=20)], assistant_model=draft, **options)
    assert fits(LIST.compile(byte_vocab), texts(plain, inputs)[0])
    assert texts(assisted, inputs) == texts(plain, inputs)


def test_a_new_call_is_noticed(make: Any, byte_vocab: Vocabulary) -> None:
    processor = make(Choice(["the", "xx"]))
    zeros = torch.zeros((1, WIDTH))

    def allowed(*ids: int) -> list[int]:
        return (processor(torch.tensor([ids]), zeros) == 0).nonzero()[:, 1].tolist()

    start = allowed(1, 2)
    assert start == sorted(t for t in range(byte_vocab.size) if Choice(["the", "xx"]).compile(byte_vocab).allows(2, t)) or ord("x") in start
    assert allowed(1, 2, ord("x")) == [ord("x")]
    assert allowed(1, 2, ord("x"), ord("x")) == [258]
    assert allowed(1, 2, ord("x"), ord("x"), 258) == [258]
    assert allowed(7, 8) == start, "another prompt"
    assert allowed(7, 8, 9) == start, "a prompt that begins with the last one, where the language does not go on so"
    assert allowed(7, 8, 9, ord("x")) == [ord("x")]
    processor.reset()
    assert allowed(7, 8, 9, ord("x"), ord("x")) == start


def test_when_other_processors_forbid_all_that_may_come(make: Any) -> None:
    processor = make(Choice(["the", "xx"]))
    scores = torch.full((1, WIDTH), float("-inf"))
    scores[0, 5] = 1.0
    out = processor(torch.tensor([[1]]), scores)
    assert (out[0] > float("-inf")).sum() >= 2 and out[0, ord("x")] == 0 and out[0, 5] == float("-inf")


def test_what_it_is_given(make: Any, byte_vocab: Vocabulary) -> None:
    with pytest.raises(ConstraintError, match="2 constraints for 3 rows"):
        make([LIST, None])(torch.zeros((3, 1), dtype=torch.long), torch.zeros((3, WIDTH)))
    with pytest.raises(ConstraintError, match="empty"):
        make([])
    other = Vocabulary([*byte_vocab.tokens, b"more"], byte_vocab.eos_token_ids, byte_vocab.special_token_ids)
    with pytest.raises(ConstraintError, match="another vocabulary"):
        make(LIST.compile(other))
    automaton = LIST.compile(byte_vocab)
    assert GuidedLogitsProcessor(None, automaton).vocabulary is byte_vocab
    narrow = GuidedLogitsProcessor(None, automaton)(torch.tensor([[1]]), torch.zeros((1, 100)))
    assert (narrow == 0).nonzero()[:, 1].tolist() == [ord("[")], "fewer logits than tokens"


def test_it_can_be_copied(make: Any) -> None:
    processor = make(WORD)
    first = processor(torch.tensor([[1]]), torch.zeros((1, WIDTH)))
    assert torch.equal(copy.copy(processor)(torch.tensor([[1]]), torch.zeros((1, WIDTH))), first)


def test_a_copy_goes_on_by_itself(make: Any, byte_vocab: Vocabulary) -> None:
    processor = make(Choice(["xyz", "xab"]))
    zeros = torch.zeros((1, WIDTH))

    def allowed(which: GuidedLogitsProcessor, *ids: int) -> list[int]:
        return (which(torch.tensor([ids]), zeros) == 0).nonzero()[:, 1].tolist()

    assert allowed(processor, 1) and allowed(processor, 1, ord("x")) == [ord("a"), ord("y")]
    fork = copy.copy(processor)
    assert allowed(processor, 1, ord("x"), ord("y")) == [ord("z")]
    assert allowed(fork, 1, ord("x"), ord("a")) == [ord("b")]
    assert allowed(processor, 1, ord("x"), ord("y"), ord("z")) == [258]
    assert allowed(fork, 1, ord("x"), ord("a"), ord("b")) == [258]


@pytest.mark.parametrize("back", [1, 5, 31, 32, 33, 60])
def test_going_back_by_any_number_of_tokens(make: Any, byte_vocab: Vocabulary, back: int) -> None:
    """Also farther than the places that are kept, and after rows have changed places."""
    automaton = Gbnf('root ::= "[" root? "]"').compile(byte_vocab)
    processor = make(automaton)
    zeros = torch.zeros((2, WIDTH))
    opened = [ord("[")] * 70
    for n in range(71):
        mask = processor(torch.tensor([[1, 2, *opened[:n]]] * 2), zeros)
    rows = [[1, 2, *opened[: 70 - back], ord("]")], [1, 2, *opened[: 70 - back], ord("]")]]
    mask = processor(torch.tensor(rows), zeros)
    assert (mask == 0).nonzero()[:, 1].tolist() == [ord("]")] * 2
    for n in range(70 - back - 1):
        mask = processor(torch.tensor([[*row, *[ord("]")] * (n + 1)] for row in rows]), zeros)
    assert (mask == 0).nonzero()[:, 1].tolist() == [258, 258], "as many brackets closed as were left open"


def test_rows_that_change_places(make: Any, byte_vocab: Vocabulary) -> None:
    """As beams do, within their prompt; each row's mask is that of its own tokens."""
    generator = torch.Generator().manual_seed(4)
    automaton = WORD.compile(byte_vocab)
    processor = make([automaton, None, automaton])
    rows = [[7 + i // 3, 9] for i in range(9)]
    for step in range(14):
        mask = processor(torch.tensor(rows), torch.zeros((9, WIDTH)))
        for row, allowed in zip(rows, mask):
            state = automaton.start
            for token in row[2:]:
                state = automaton.advance(state, token)
            expected = range(WIDTH) if row[0] == 8 else [258] if state == automaton.DONE else [
                t for t in range(byte_vocab.size) if automaton.allows(state, t)
            ]  # fmt: skip
            assert (allowed == 0).nonzero().flatten().tolist() == list(expected), step
        source = [3 * (i // 3) + int(torch.randint(3, (), generator=generator)) for i in range(9)]
        chosen = [int(torch.multinomial((mask[i] == 0).float(), 1, generator=generator)) for i in source]
        rows = [[*rows[i], token] for i, token in zip(source, chosen)]
