"""Probabilities of options against brute force: every token sequence is written out, and those of the event are summed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import pytest

from grammars import Vocabulary, VocabularyError
from grammars.errors import ModelError
from samplers.models import Counting, TabularModel
from samplers.options import COMPLETE, PREFIX, After, measure, overlap

TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"a", b"", b"<x>"]  # "a" twice
END, SPECIAL = 7, 8
LONGEST = 3  # tokens of text: after them the model only ends
PROMPT = (1,)
OPTIONS = [b"abc", b"ab", b"b", b"cab"]
NEXT = After(end=True, bytes=frozenset(b"c"))
NOT_THE_END = After(end=False, bytes=frozenset(b"ab"))


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, eos_token_ids=[END], special_token_ids=[SPECIAL])


@pytest.fixture(scope="module")
def model() -> TabularModel:
    return TabularModel.random(len(TOKENS), LONGEST + len(PROMPT), seed=5, eos=END)


@pytest.fixture(scope="module")
def texts(model: TabularModel) -> list[tuple[bytes, tuple[int, ...], float]]:
    """Everything that the model writes: bytes up to the first token that is no text, the tokens, the probability."""
    found = []
    todo: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while todo:
        tokens, p = todo.pop()
        if tokens[-1:] == (END,):
            written = itertools.takewhile(lambda t: t not in (END, SPECIAL), tokens)
            found.append((b"".join(TOKENS[t] for t in written), tokens, p))
            continue
        row = model.next_logprobs([model.context(PROMPT + tokens)])[0].exp().tolist()
        todo += [((*tokens, t), p * q) for t, q in enumerate(row) if q]
    assert math.fsum(p for _, _, p in found) == pytest.approx(1)
    return found


def counts(option: bytes, after: After) -> Callable[[bytes, tuple[int, ...]], bool]:
    """Whether a text is of the event, told by its bytes."""

    def event(text: bytes, tokens: tuple[int, ...]) -> bool:
        if not text.startswith(option):
            return False
        if after.bytes is None:
            return True
        following = text[len(option) : len(option) + 1]
        if following:
            return following[0] in after.bytes
        ends = tokens[next(i for i, t in enumerate(tokens) if t in (END, SPECIAL))] == END
        return after.end and ends

    return event


@pytest.mark.parametrize("after", [COMPLETE, PREFIX, NEXT, NOT_THE_END], ids=["complete", "prefix", "next byte or end", "next byte"])
def test_probabilities_are_those_of_brute_force(
    model: TabularModel, vocabulary: Vocabulary, texts: list[tuple[bytes, tuple[int, ...], float]], after: After
) -> None:
    found = measure(model, vocabulary, model.context(PROMPT), OPTIONS, after, tolerance=0)
    for option, measured in zip(OPTIONS, found):
        event = counts(option, after)
        truth = math.fsum(p for text, tokens, p in texts if event(text, tokens))
        assert math.exp(measured.logprob) == pytest.approx(truth, rel=1e-9) and truth > 1e-4
        assert measured.log_missed == -math.inf
        assert measured.canonical_logprob <= measured.logprob + 1e-12
    assert any(m.canonical_logprob < m.logprob - 1e-3 for m in found), "one segmentation is not all of it"
    wrong = measure(model, vocabulary, model.context(PROMPT), OPTIONS, COMPLETE if after is not COMPLETE else PREFIX, tolerance=0)
    assert any(abs(w.logprob - m.logprob) > 0.05 for w, m in zip(wrong, found)), "the test can tell events apart"


def segmentations(text: bytes) -> Iterator[tuple[int, ...]]:
    if not text:
        yield ()
    for token, data in enumerate(TOKENS[:END]):
        if text.startswith(data):
            for rest in segmentations(text[len(data) :]):
                yield token, *rest


def test_every_tokenisation_is_in_the_sum_once(model: TabularModel, vocabulary: Vocabulary) -> None:
    option = b"abca"
    (found,) = measure(model, vocabulary, model.context(PROMPT), [option], tolerance=0)
    ways = [(*way, END) for way in segmentations(option)]
    scores = [float(part.sum()) for part in model.score(model.context(PROMPT), ways)]
    assert found.tokenisations == sum(score > -math.inf for score in scores)
    assert found.logprob == pytest.approx(math.log(math.fsum(map(math.exp, scores))))
    assert found.canonical_logprob == pytest.approx(scores[ways.index((*found.canonical, END))])


@pytest.mark.parametrize("after", [COMPLETE, PREFIX, NEXT], ids=["complete", "prefix", "next"])
def test_what_is_missing_is_bounded(model: TabularModel, vocabulary: Vocabulary, after: After) -> None:
    root = model.context(PROMPT)
    truth = measure(model, vocabulary, root, OPTIONS, after, tolerance=0)
    met = set()
    for most in (0, 6, 9, 12, 20, 1000):
        found = measure(model, vocabulary, root, OPTIONS, after, tolerance=0, max_contexts=most)
        for m, t in zip(found, truth):
            low, high = math.exp(m.logprob), math.exp(m.logprob) + math.exp(m.log_missed)
            assert low <= math.exp(t.logprob) * (1 + 1e-12) and math.exp(t.logprob) <= high * (1 + 1e-12)
            assert m.logprob >= m.canonical_logprob > -math.inf, "the tokenizer's own segmentation is always in"
            met.add(m.log_missed > -math.inf)
    assert met == {True, False}
    for m, t in zip(measure(model, vocabulary, root, OPTIONS, after, tolerance=0.2), truth):
        assert math.exp(m.logprob) >= math.exp(t.logprob) / 1.2


def test_beginnings_are_shared(model: TabularModel, vocabulary: Vocabulary) -> None:
    together, alone = Counting(model), 0
    measure(together, vocabulary, model.context(PROMPT), OPTIONS, tolerance=0)
    for option in OPTIONS:
        counter = Counting(model)
        measure(counter, vocabulary, model.context(PROMPT), [option], tolerance=0)
        alone += counter.rows
    assert together.rows < alone and together.hits == 0


def test_events_that_overlap() -> None:
    assert overlap([b"a", b"ab"], COMPLETE) is None
    assert overlap([b"ab", b"c", b"a"], PREFIX) == (2, 0)
    assert overlap([b"a", b"ab", b"a b"], After(bytes=frozenset(b" "))) == (0, 2)
    assert overlap([b"", b"a"], COMPLETE) is None and overlap([b"", b"a"], PREFIX) == (0, 1)


def test_what_cannot_be_measured(model: TabularModel, vocabulary: Vocabulary) -> None:
    root = model.context(PROMPT)
    for options, extra in [([], {}), ([b"a", b"a"], {}), ([b"a"], {"tolerance": -1}), ([b"a"], {"max_contexts": -1})]:
        with pytest.raises(ValueError):
            measure(model, vocabulary, root, options, **extra)
    with pytest.raises(ValueError, match="empty"):
        measure(model, vocabulary, root, [b""], PREFIX)
    with pytest.raises(VocabularyError):
        measure(model, vocabulary, root, [b"z"])
    with pytest.raises(ModelError, match="logits"):
        measure(TabularModel(2, 1, lambda prefix: [0.5, 0.5]), vocabulary, root, [b"abc"])
    (nothing,) = measure(model, vocabulary, root, [b""], tolerance=0)
    assert nothing.logprob == pytest.approx(float(model.next_logprobs([root])[0, END]))
