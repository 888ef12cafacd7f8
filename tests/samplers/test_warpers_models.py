"""Warpers that look at the whole text or ask a model, against slow statements of what they should do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from grammars import Automaton, Gbnf, Vocabulary
from samplers.models import HFModel, TabularModel
from samplers.warpers import (
    CautiousNextToken,
    ClassifierFreeGuidance,
    ContrastiveDecoding,
    ContrastiveSearch,
    FrustratinglySimple,
    FrustratinglySimpleVector,
    InstructiveDecoding,
    LookBack,
    Momentum,
    Row,
)
from samplers.warpers.frustratingly_simple import anti_ngram
from samplers.warpers.momentum import RESISTANCE, loop_depth
from tests import tiny

WIDTH = 24


def winner(out: torch.Tensor) -> int:
    kept = (out[0] > -math.inf).nonzero()[:, 0].tolist()
    assert len(kept) == 1
    return kept[0]


def random_text(seed: int, length: int, ids: int) -> list[int]:
    return torch.randint(0, ids, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def random_scores(seed: int) -> torch.Tensor:
    return 1.5 * torch.randn((1, WIDTH), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------- the text alone
def test_loop_depth() -> None:
    for seed in range(30):
        text = random_text(seed, 30, 4)
        for v in range(6):
            grams = [tuple([*text, v][-n:]) for n in range(1, 6)]
            depth = max((len(g) for g in grams if any(tuple(text[i : i + len(g)]) == g for i in range(len(text)))), default=0)
            assert loop_depth(text, [v], 5) == [depth]


def test_momentum() -> None:
    lost = 0
    for seed in range(30):
        text, scores = random_text(seed, 30, 12), random_scores(seed)
        p = scores.softmax(-1)[0].tolist()
        best = sorted(range(WIDTH), key=lambda v: -p[v])[:5]
        expected = max(best, key=lambda v: p[v] - 0.2 * RESISTANCE[loop_depth(text, [v], 5)[0]])
        got = winner(Momentum().warp([Row(text, 5)], scores))
        assert got == expected
        lost += got != best[0]
        if best[0] not in text:
            assert got == best[0], "a new node is taken as it is"
    assert lost > 3


def slow_anti(text: list[int], v: int, n: int, beta: float) -> float:
    found = Counter(text)[v] / len(text)
    for i in range(1, n):
        suffix = text[-i:]
        after = [text[j + i] for j in range(len(text) - i) if text[j : j + i] == suffix]
        if v in after:
            found = beta * after.count(v) / (len(after) + 1) + (1 - beta) * found
    return found


def test_frustratingly_simple() -> None:
    lost = 0
    for seed in range(30):
        text, scores = random_text(seed, 25, 12), random_scores(seed)
        against = anti_ngram(text, list(range(WIDTH)), 3, 0.9)
        assert against == pytest.approx([slow_anti(text, v, 3, 0.9) for v in range(WIDTH)])
        p = scores.softmax(-1)[0].tolist()
        best = sorted(range(WIDTH), key=lambda v: -p[v])[:6]
        got = winner(FrustratinglySimple(6, 0.6, 3, 0.9).warp([Row(text, 5)], scores))
        assert got == max(best, key=lambda v: 0.4 * p[v] - 0.6 * against[v])
        lost += got != best[0]
    assert lost > 3
    assert anti_ngram([1], [1, 2], 4, 0.9) == [0, 0], "a text too short for the n-grams has no anti-model"


# ---------------------------------------------------------------- hidden states
def all_hidden(model: torch.nn.Module, tokens: Sequence[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([list(tokens)]), output_hidden_states=True).hidden_states[-1][0]


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.dot(a, b) / (a.norm() * b.norm()))


def test_contrastive_search() -> None:
    model = tiny.llama(WIDTH, seed=3, scale=4.0)
    warper = ContrastiveSearch(HFModel(model), k=5, alpha=0.6)
    text, lost = [3, 8, 1, 8], 0
    for _ in range(6):
        with torch.inference_mode():
            logits = model(torch.tensor([text])).logits[:, -1].double()
        scores = logits.clone()
        scores[0, 7] = -math.inf
        p = scores.softmax(-1)[0].tolist()
        best = sorted(range(WIDTH), key=lambda v: -p[v])[:5]
        value = {}
        for v in best:
            states = all_hidden(model, [*text, v])
            value[v] = 0.4 * p[v] - 0.6 * max(cosine(states[-1], one) for one in states[:-1])
        got = winner(warper.warp([Row(text, 4)], scores))
        assert got == max(best, key=value.__getitem__)
        lost += got != best[0]
        text = [*text, got]
    assert lost > 0
    greedy = ContrastiveSearch(HFModel(model), k=5, alpha=0.0).warp([Row(text, 4)], scores)
    assert winner(greedy) == int(scores.argmax())


@pytest.mark.parametrize("n", [2, 3])
def test_frustratingly_simple_with_hidden_states(n: int) -> None:
    model = tiny.gpt2(WIDTH, seed=3, scale=4.0)
    warper = FrustratinglySimpleVector(HFModel(model), k=5, alpha=0.5, n=n)
    text = [3, 8, 1, 8, 2, 8, 3]
    for _ in range(4):
        scores = random_scores(len(text))
        p = scores.softmax(-1)[0].tolist()
        best = sorted(range(WIDTH), key=lambda v: -p[v])[:5]
        states = all_hidden(model, text)
        keys = {j: torch.cat(list(states[j - n + 1 : j])) for j in range(n - 1, len(text) + 1)}
        value = {}
        for v in best:
            matches = [cosine(keys[j], keys[len(text)]) for j in range(n - 1, len(text)) if text[j] == v]
            value[v] = 0.5 * p[v] - 0.5 * min(max([*matches, 0.0]), 1.0)
        got = winner(warper.warp([Row(text, 4)], scores))
        assert got == max(best, key=value.__getitem__)
        text = [*text, got]


# ---------------------------------------------------------------- a second prompt or model
def logprobs(model: TabularModel, tokens: Sequence[int]) -> torch.Tensor:
    return model.probabilities(tokens).log().clamp(min=-100)


def test_second_models_follow_the_generated_text() -> None:
    strong, weak = TabularModel.random(WIDTH, 50, 1), TabularModel.random(WIDTH, 50, 2)
    prompt, noisy = [1, 2, 3], [9, 8]
    warpers = {
        "cd": ContrastiveDecoding(weak, 0.2, 0.7),
        "difference": ContrastiveDecoding(weak, 0.2, None),
        "cfg": ClassifierFreeGuidance(strong, 2.5, negative=noisy),
        "cfg, last": ClassifierFreeGuidance(strong, 2.5),
        "id": InstructiveDecoding(strong, noisy, 0.4),
    }
    made: list[int] = []
    for step in range(4):
        row = Row([*prompt, *made], 3)
        given = logprobs(strong, row.tokens)
        ama, other, last = logprobs(weak, row.tokens), logprobs(strong, [*noisy, *made]), logprobs(strong, [3, *made])
        plausible = given.exp() >= 0.2 * given.exp().max()
        expected = {
            "cd": (1.7 * given - 0.7 * ama).masked_fill(~plausible, -math.inf),
            "difference": (given - ama).masked_fill(~plausible, -math.inf),
            "cfg": other + 2.5 * (given - other),
            "cfg, last": last + 2.5 * (given - last),
            "id": given - 0.4 * other,
        }
        for name, warper in warpers.items():
            out = warper.warp([row], given[None] + 5.0)  # logits are log-probabilities up to a constant
            torch.testing.assert_close(out.softmax(-1)[0], expected[name].softmax(-1), msg=name)
        made.append(step + 4)


def test_a_token_that_the_second_model_rules_out() -> None:
    half = TabularModel(3, 2, lambda prefix: [0.5, 0.5, 0.0])
    even = torch.zeros(1, 3).double()
    for warper in (ContrastiveDecoding(half), ClassifierFreeGuidance(half, 3.0, negative=[0]), InstructiveDecoding(half, [0])):
        out = warper.warp([Row([0], 1)], even)
        assert bool(out.isfinite().all()) and out.argmax() == 2


# ---------------------------------------------------------------- look-back
def test_look_back() -> None:
    model = TabularModel.random(8, 50, 4, concentration=0.8)
    divergence = lambda a, b: float((a.exp() * (a - b)).sum())
    text, prompt, both = [1, 2, 3], 3, set()
    warper = LookBack(model, alpha=0.35, k=4)
    for _ in range(12):
        current = logprobs(model, text)
        past = [logprobs(model, text[:j]) for j in range(1, len(text))]
        repeats = min(divergence(current, one) for one in past) <= 0.35
        both.add(repeats)
        best = current.argsort(descending=True)[:4].tolist()
        expected = torch.zeros(8).double()
        if repeats:
            near = [min(divergence(logprobs(model, [*text, v]), one) for one in past[: prompt - 1]) for v in best]
            expected[best] = (-torch.tensor(near)).softmax(-1).double()
        else:
            expected[best[0]] = 1
        out = warper.warp([Row(text, prompt)], current[None])
        torch.testing.assert_close(out.softmax(-1)[0], expected, rtol=1e-4, atol=1e-5)
        text.append(int(out.argmax()))
    assert both == {True, False}


# ---------------------------------------------------------------- cautious next token prediction
VOCABULARY = Vocabulary([b"a", b"b", b".", b"c", b""], eos_token_ids=[4])


@pytest.fixture(scope="module")
def automaton() -> Automaton:
    return Gbnf('root ::= ([ab]+ ".")+').compile(VOCABULARY)


def test_the_number_of_trials() -> None:
    warper = CautiousNextToken(TabularModel.random(4, 9, 0), [1], low=0.5, high=1.5, trials=11)
    assert [warper.count(h) for h in (0, 0.5, 0.75, 1.0, 1.5, 9)] == [1, 1, 3, 6, 11, 11]


def test_where_the_model_is_sure_nothing_changes() -> None:
    model = TabularModel.random(5, 40, 1)
    scores = torch.tensor([[9.0, 0.0, 0.0, 0.0, 0.0]])
    assert torch.equal(CautiousNextToken(model, [2], low=0.5).warp([Row([0], 1)], scores), scores)


def test_the_likeliest_trial_becomes_the_text(automaton: Automaton) -> None:
    """Its first token is all that is left, then the rest; it stops at the first stop token; no other trial is likelier."""
    model = TabularModel.random(5, 40, 3)
    warper = CautiousNextToken(model, [2], trials=40, high=0.02, automaton=automaton)
    text = [3]
    while len(text) < 30:
        scores = model.probabilities(text).log()[None]
        allowed = [automaton.allows(state_of(automaton, text[1:]), v) for v in range(5)]
        scores = scores.masked_fill(~torch.tensor([allowed]), -math.inf)
        out = warper.warp([Row(text, 1, 7)], scores)
        if bool((out == scores).all()):
            text.append(int(out.argmax()))  # one token is possible, so there is no entropy
        else:
            text.append(winner(out))
        assert automaton.allows(state_of(automaton, text[1:-1]), text[-1])
        if text[-1] == 4:
            break
    assert 2 in text


def state_of(automaton: Automaton, tokens: Sequence[int]) -> int:
    state = automaton.start
    for token in tokens:
        state = automaton.advance(state, token)
    return state


def test_the_choice_is_the_lowest_perplexity() -> None:
    """With very many trials the winner is, nearly surely, the likeliest way of all to the stop token, which enumeration finds."""
    stop = 2
    model = TabularModel(3, 2, lambda prefix: [[0.2, 0.3, 0.5], [0.45, 0.15, 0.4], [0.3, 0.3, 0.4]][len(prefix) % 3])
    ways: dict[tuple[int, ...], float] = {}
    todo: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    while todo:
        way, nats = todo.pop()
        p = model.probabilities((1, *way))
        for v in range(3):
            new, cost = (*way, v), nats - math.log(p[v])
            if v == stop or len(new) == 3:
                ways[new] = cost / len(new)
            else:
                todo.append((new, cost))
    best = min(ways, key=ways.__getitem__)
    warper = CautiousNextToken(model, [stop], trials=400, high=0.02, longest=3)
    text = [1]
    for token in best:
        out = warper.warp([Row(text, 1)], model.probabilities(text).log()[None])
        assert winner(out) == token
        text.append(token)


def test_rows_of_other_seeds_try_other_ways() -> None:
    model = TabularModel.random(20, 60, 8)
    scores = model.probabilities([1]).log()[None]
    firsts = {winner(CautiousNextToken(model, [2], trials=2, high=0.02).warp([Row([1], 1, seed)], scores)) for seed in range(12)}
    assert len(firsts) > 2
    same = [CautiousNextToken(model, [2], trials=2, high=0.02).warp([Row([1], 1, 5)], scores) for _ in range(2)]
    assert torch.equal(*same)


def test_a_plan_that_is_forbidden_is_given_up() -> None:
    model = TabularModel.random(20, 60, 8)
    warper = CautiousNextToken(model, [2], trials=6, high=0.02, longest=9)
    text = [1]
    first = winner(warper.warp([Row(text, 1)], model.probabilities(text).log()[None]))
    text.append(first)
    scores = model.probabilities(text).log()[None]
    planned = winner(warper.warp([Row(text, 1)], scores))
    fresh = CautiousNextToken(model, [2], trials=6, high=0.02, longest=9)
    fresh.warp([Row([1], 1)], model.probabilities([1]).log()[None])
    without = scores.clone()
    without[0, planned] = -math.inf
    assert winner(fresh.warp([Row(text, 1)], without)) != planned
