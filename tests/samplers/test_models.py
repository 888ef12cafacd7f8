"""Contexts, tabular models and the counting wrapper."""

from __future__ import annotations

import math

import pytest
import torch

from grammars.errors import ModelError
from samplers.models import Context, Counting, LanguageModel, NGramModel, TabularModel


def test_contexts_are_values_however_they_are_put_together() -> None:
    a = Context((1, 2)).extend(3).extend((4, 5))
    b = Context((1,)).extend((2, 3, 4)).extend(5)
    c = Context((1, 2, 3, 4, 5))
    assert a == b == c and len({a, b, c}) == 1
    assert a.tokens == (1, 2, 3, 4, 5) and a.length == len(a) == 5
    assert a != a.extend(1) and a != Context((1, 2, 3, 4, 6)) and a != Context((5, 4, 3, 2, 1))
    assert a.parent == Context((1, 2, 3)) and c.parent is None
    assert a.extend(()) is a
    assert [x.length for x in a.ancestors()] == [5, 3, 2]
    assert Context() == Context(()) and Context().tokens == ()


@pytest.mark.parametrize("start", range(7))
def test_tokens_from_a_position(start: int) -> None:
    context = Context((7, 8)).extend((9, 10)).extend(11).extend(12)
    assert context.tokens_from(start) == (7, 8, 9, 10, 11, 12)[start:]


def test_enumeration_multiplies_the_rows() -> None:
    table = {(): [0.5, 0.25, 0.25], (0,): [0.1, 0.2, 0.7], (1,): [0, 0, 1], (0, 0): [0, 0, 1.0], (0, 1): [0.5, 0, 0.5]}
    model = TabularModel(3, 2, table)
    assert isinstance(model, LanguageModel)
    expected = {(2,): 0.25, (1, 2): 0.25, (0, 2): 0.35, (0, 0, 2): 0.05, (0, 1, 2): 0.05}
    assert model.enumerate(3) == pytest.approx(expected)
    assert model.enumerate(2) == pytest.approx({t: p for t, p in expected.items() if len(t) <= 2})
    assert model.enumerate(2, prompt=(0,)) == pytest.approx({(2,): 0.7, (0, 2): 0.1, (1, 2): 0.1})
    with pytest.raises(ModelError, match="no row for the prefix"):
        model.next_logprobs([model.context((2, 2))])


def test_random_models_are_proper_and_reproducible() -> None:
    model, again, other = (TabularModel.random(4, 3, seed) for seed in (1, 1, 2))
    texts = model.enumerate(4)
    assert math.isclose(sum(texts.values()), 1, rel_tol=1e-12)
    assert len(texts) == 1 + 3 + 9 + 27
    assert list(again.enumerate(4).items()) == list(texts.items()) and other.enumerate(4) != texts
    assert TabularModel.random(4, 3, 1, concentration=0.05).next_logprobs([Context()]).exp().max() > 0.5


def test_score_agrees_with_steps_and_enumeration() -> None:
    model = TabularModel.random(4, 3, 5)
    texts = model.enumerate(4)
    scores = model.score(model.context(()), [*texts, ()])
    assert scores[-1].shape == (0,)
    for p, score, text in zip(texts.values(), scores, texts):
        assert score.shape == (len(text),) and score.dtype == torch.float64
        assert math.isclose(math.exp(float(score.sum())), p, rel_tol=1e-9)
    with pytest.raises(ModelError, match="9 is no token id"):
        model.score(model.context(()), [[9]])


@pytest.mark.parametrize("row", [[0.5, 0.6], [1.5, -0.5], [1.0], [float("nan"), 1.0]])
def test_rows_that_are_no_distributions_are_refused(row: list[float]) -> None:
    with pytest.raises(ModelError, match="probabilities that sum to 1"):
        TabularModel(2, 1, lambda prefix: row).next_logprobs([Context()])


def test_tables_are_checked() -> None:
    with pytest.raises(ValueError, match="end tokens"):
        TabularModel(2, 2, {})
    with pytest.raises(ModelError, match="no hidden states"):
        TabularModel.random(2, 1, 0).hidden([Context()])


def test_counting_counts_what_was_not_known() -> None:
    model = Counting(TabularModel.random(4, 6, 0))
    root = model.context((1, 2))
    model.next_logprobs([root, root])
    assert (model.forwards, model.rows, model.tokens, model.hits) == (1, 1, 2, 1)
    model.next_logprobs([root.extend(0), model.context((1, 2, 1)), root])
    assert (model.forwards, model.rows, model.tokens, model.hits, model.prefix_hits) == (2, 3, 4, 2, 4)
    model.next_logprobs([root])
    assert (model.forwards, model.hits) == (2, 3)
    model.score(root, [[3, 0, 1], [3, 0, 2]])
    assert (model.forwards, model.tokens) == (3, 6)
    model.next_logprobs([root.extend(3)])
    assert model.forwards == 3
    outer = Counting(model)
    assert outer.forwards == 0 and model.usage.forwards == 3
    outer.next_logprobs([root.extend(2)])
    assert outer.forwards == outer.tokens == 1 and model.forwards == 4


def test_counting_changes_nothing() -> None:
    model = TabularModel.random(4, 6, 0)
    contexts = [model.context((0,)), model.context((1, 2))]
    assert torch.equal(Counting(model).next_logprobs(contexts), model.next_logprobs(contexts))
    assert isinstance(Counting(model), LanguageModel)


def test_a_memory_limits_what_a_table_is_asked_about() -> None:
    asked: list[tuple[int, ...]] = []

    def table(prefix: tuple[int, ...]) -> list[float]:
        asked.append(prefix)
        return [0.5, 0.5]

    model = TabularModel(2, 1, table, memory=2)
    model.next_logprobs([Context(t) for t in ((), (0,), (0, 0), (1, 0, 0), (0, 0, 1))])
    assert asked == [(), (0,), (0, 0), (0, 1)]
    model = TabularModel(2, 1, table, memory=0)
    model.next_logprobs([Context((0, 1))])
    assert asked[-1] == ()


def test_ngram_probabilities_by_hand() -> None:
    model = NGramModel([[0, 1, 0, 1, 2]], 4, 2, order=2)
    # unigrams: 5 seen, 3 kinds; 0 twice, 1 twice, 2 once
    unigram = [(2 + 3 / 4) / 8, (2 + 3 / 4) / 8, (1 + 3 / 4) / 8, (3 / 4) / 8]
    assert model.probabilities([3]).tolist() == pytest.approx(unigram)  # no text goes on from a 3
    after_0 = [(n + 1 * p) / 3 for n, p in zip([0, 2, 0, 0], unigram)]
    assert model.probabilities([0]).tolist() == pytest.approx(after_0)
    assert model.probabilities([1, 2, 0]).tolist() == pytest.approx(after_0)
    start = [(n + 1 * p) / 2 for n, p in zip([1, 0, 0, 0], unigram)]
    assert model.probabilities([]).tolist() == pytest.approx(start)
    after_1 = [(n + 2 * p) / 4 for n, p in zip([1, 0, 1, 0], unigram)]
    assert model.probabilities([1]).tolist() == pytest.approx(after_1)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_ngram_models_are_proper(order: int) -> None:
    texts = [[0, 1, 0, 2, 3], [0, 1, 1, 3], [2, 3]]
    model = NGramModel(texts, 5, 3, order=order)
    for prefix in ([], [0], [0, 1], [4, 4, 4], [0, 1, 0, 2]):
        row = model.probabilities(prefix)
        assert math.isclose(float(row.sum()), 1, rel_tol=1e-12) and bool((row > 0).all())
    mass = sum(model.enumerate(6).values())
    assert 0.5 < mass < 1
    before = float(model.score(Context(), [[4, 3]])[0].sum())
    model.observe([4, 3])
    assert float(model.score(Context(), [[4, 3]])[0].sum()) > before
    with pytest.raises(ModelError, match="9 is no token id"):
        model.observe([9])
    with pytest.raises(ValueError, match="order"):
        NGramModel([], 5, 3, order=0)
