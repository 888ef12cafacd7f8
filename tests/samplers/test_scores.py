"""Scores that need no network, the caching wrapper, and scores as rewards of a target."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from grammars import Vocabulary
from grammars.errors import ConstraintError, ModelError, VocabularyError
from guided.evaluation.toys import END, A, B, C, vocabulary
from samplers import Context, Counting, TabularModel, Target
from samplers.scores import (
    Cached,
    Candidate,
    Function,
    Lexicon,
    Memory,
    Ratio,
    Reward,
    ScorePotential,
    StepScorer,
    Validator,
    Value,
    ValueBase,
    Weighted,
    as_target_reward,
    next_values,
)
from samplers.smc import smc

ENDS = frozenset({END})


def of(*tokens: int, prompt: Sequence[int] = (C,)) -> Candidate:
    return Candidate.of(prompt, tokens, ends=ENDS)


class Length(ValueBase):
    """The number of generated tokens; notes the sizes of its batches."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        self.batches.append(len(candidates))
        return [float(len(c)) for c in candidates]


class Final:
    """A reward only."""

    def rewards(self, candidates: Sequence[Candidate]) -> list[float]:
        return [2.0 * len(c) for c in candidates]


# ------------------------------------------------------------ candidates
def test_candidates_are_values() -> None:
    one, other = of(A, B), of(A).child(B)
    assert one == other and hash(one) == hash(other) and one != of(A, B, prompt=())
    assert one.tokens == (A, B) and one.prompt == (C,) and len(one) == 2 and not one.finished
    assert one.child(END).finished and one.child(END) == of(A, B, END) and not one.child(A).finished
    assert Candidate(Context((C, A)), 1) == of(A)  # which tokens end a text is no part of it


def test_kinds_of_scores() -> None:
    assert isinstance(Length(), Value) and isinstance(Length(), StepScorer) and isinstance(Length(), Reward)
    assert isinstance(Final(), Reward) and not isinstance(Final(), Value)


def test_what_the_base_derives() -> None:
    score = Length()
    assert score.next_values(of(A), [B, END]).tolist() == [2, 2]
    found = next_values(score, [of(), of(A, B)], [[A], [B, C, END]])
    assert [row.tolist() for row in found] == [[1], [3, 3, 3]] and found[0].dtype == torch.float64
    assert score.batches == [2, 4]
    assert next_values(score, [of()], [[]])[0].shape == (0,) and score.batches == [2, 4]
    assert score.step_scores([of(A, B)], [1]) == [2.0] == score.rewards([of(A, B)])


# ------------------------------------------------------------ functions
def test_function_of_text_tokens_and_candidate() -> None:
    assert Function(len, texts=vocabulary()).values([of(A, B, END), of(A)]) == [2, 1]
    assert Function(lambda t: t.count(B), on="tokens").values([of(A, B, B, END)]) == [2]
    assert Function(len, on="tokens").values([of(A, END)]) == [1]  # the end is not given
    assert Function(lambda c: c.finished, on="candidate").values([of(A), of(A, END)]) == [0, 1]
    assert Function(lambda ts: [t == "ab" for t in ts], texts=vocabulary(), batched=True).values([of(A, B), of(A)]) == [1, 0]
    assert Function(len, texts=lambda ids: "x" * 7).values([of(A)]) == [7]


def test_function_of_finished_texts_only() -> None:
    asked: list[str] = []
    score = Function(lambda t: asked.append(t) or 5.0, texts=vocabulary(), finished_only=True, otherwise=-1.0)
    assert score.values([of(A), of(B, END)]) == [-1, 5] and asked == ["b"]
    assert score.rewards([of(A)]) == [5]


def test_function_of_the_object() -> None:
    digits = Vocabulary([b"[", b"1", b",", b"]", b""], eos_token_ids=[4])
    score = Function(sum, on="object", texts=digits, otherwise=-3.0)
    ends = frozenset({4})
    assert score.values([Candidate.of((), (0, 1, 1, 3), ends=ends), Candidate.of((), (0, 1), ends=ends)]) == [11, -3]

    def faulty(_: object) -> float:
        raise ValueError("of the user's own")

    with pytest.raises(ValueError, match="own"):
        Function(faulty, on="object", texts=digits).values([Candidate.of((), (0, 3))])


def test_function_refuses() -> None:
    with pytest.raises(ConstraintError, match="texts"):
        Function(len)
    with pytest.raises(ValueError, match="one of"):
        Function(len, on="bytes")  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="not int"):
        Function(len, texts=3)
    with pytest.raises(ModelError, match="returned 1 numbers"):
        Function(lambda ts: [1.0], on="tokens", batched=True).values([of(A), of(B)])


def test_validator() -> None:
    digits = Vocabulary([b"[", b"1", b",", b"]", b""], eos_token_ids=[4])
    ends = frozenset({4})
    good, bad, broken, open_ = (
        Candidate.of((), tokens, ends=ends) for tokens in ((0, 1, 3, 4), (0, 1, 1, 3, 4), (0, 1, 4), (0, 1, 1, 3))
    )
    check = Validator(lambda numbers: sum(numbers) < 5, texts=digits)
    assert check.values([good, bad, broken, open_]) == [0, -math.inf, -math.inf, 0]
    assert check.rewards([open_, good]) == [-math.inf, 0]
    arrays = Validator(lambda numbers: np.sum(numbers) < 5, texts=digits)  # NumPy has truth values of its own
    assert arrays.values([good, bad]) == [0, -math.inf]
    graded = Validator(lambda numbers: -0.5 * sum(numbers), texts=digits, penalty=7)
    assert graded.values([good, broken]) == [-0.5, -7]
    assert Validator(lambda t: t == "[1]", texts=digits, parse=str, penalty=1).values([good, bad]) == [0, -1]
    with pytest.raises(ValueError, match="penalty"):
        Validator(bool, texts=digits, penalty=-1)


# ------------------------------------------------------------ lexicon
WORDS = ["good", " good", "go", "od", "d", " ", "ness", ", ", "bad", " BAD!", "é", "straße", " STRASSE", "don", "'", "t", "_", "g", ""]
WEIGHTS = {"good": 1.0, "bad": -2.0, "goodness": 0.25, "Straße": 4.0, "é": 8.0, "d": 0.5}


def lexicon_vocabulary() -> Vocabulary:
    encoded = [w.encode() for w in WORDS] + [b"\xc3", b"\xa9", b""]
    return Vocabulary(encoded, eos_token_ids=[len(encoded) - 1])


def brute(text: str, *, fold: bool, once: bool, weights: dict[str, float] = WEIGHTS) -> float:
    change = str.casefold if fold else str
    table = {change(word): weight for word, weight in weights.items()}
    words = re.findall(r"\w+", change(text))
    return sum(table.get(word, 0.0) for word in (set(words) if once else words))


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("once", [True, False])
def test_lexicon_against_a_reading_of_the_text(fold: bool, once: bool) -> None:
    vocab = lexicon_vocabulary()
    score = Lexicon(WEIGHTS, vocab, fold=fold, once=once)
    everything = [t for t in range(len(vocab.tokens)) for _ in range(4)]  # more than are looked at one by one
    source, seen = random.Random(5), set()
    for _ in range(60):
        candidate = Candidate.of((0,), ends=frozenset(vocab.eos_token_ids))
        for _ in range(source.randrange(1, 9)):
            candidate = candidate.child(source.randrange(len(vocab.tokens) - 1))
        expected = []
        for token in everything:
            data = vocab.decode([*candidate.tokens, token])
            while data and data[-1] == 0xC3:
                data = data[:-1]  # the beginning of a character
            expected.append(brute(data.decode(errors="replace"), fold=fold, once=once))
        found = score.next_values(candidate, everything)
        assert found.tolist() == pytest.approx(expected), vocab.decode(candidate.tokens)
        assert score.next_values(candidate, everything[:8]).tolist() == found[:8].tolist()
        assert score.values([candidate.child(everything[5])]) == [found[5]]
        seen.update(expected)
    assert len(seen) > 8


def test_lexicon_of_whole_words() -> None:
    vocab = lexicon_vocabulary()
    score = Lexicon(WEIGHTS, vocab)
    good, ness, blank = WORDS.index("good"), WORDS.index("ness"), WORDS.index(" ")
    start = Candidate.of((good,))  # the prompt does not count
    assert score.values([start, start.child(good), start.child(good).child(ness)]) == [0, 1, 0.25]
    assert score.values([start.child(good).child(ness).child(blank).child(good)]) == [1.25]


def test_lexicon_joiners_and_refusals() -> None:
    vocab = lexicon_vocabulary()
    parts = [WORDS.index(w) for w in ("don", "'", "t")]
    assert Lexicon({"don't": 3.0, "don": 1.0}, vocab, joiners="'-").values([Candidate.of((), parts)]) == [3]
    assert Lexicon({"don": 1.0}, vocab).values([Candidate.of((), parts)]) == [1]
    for weights, reason in (({"a b": 1.0}, "one word"), ({}, "at least one"), ({"a": math.nan}, "finite")):
        with pytest.raises(ConstraintError, match=reason):
            Lexicon(weights, vocab)


# ------------------------------------------------------------ ratio
def models() -> tuple[TabularModel, TabularModel]:
    return TabularModel.random(7, 12, 1, eos=END), TabularModel.random(7, 12, 2, eos=END)


def plain_ratio(a: TabularModel, b: TabularModel, tokens: Sequence[int], pa: tuple[int, ...], pb: tuple[int, ...]) -> float:
    def log_prob(model: TabularModel, prompt: tuple[int, ...]) -> float:
        return sum(float(model.probabilities((*prompt, *tokens[:i])).log()[t]) for i, t in enumerate(tokens))

    return log_prob(a, pa) - log_prob(b, pb)


@pytest.mark.parametrize("prompts", [(None, None), ((A, A), (B,))])
def test_ratio_is_the_difference_of_log_probabilities(prompts: tuple[tuple[int, ...] | None, tuple[int, ...] | None]) -> None:
    a, b = models()
    score = Ratio(a, b, prompt_a=prompts[0], prompt_b=prompts[1], scale=2.0)
    pa, pb = (prompt or (C,) for prompt in prompts)
    texts = [(), (A,), (A, B), (A, B, C, A, B, C, A, B, C, A), (A, B, END)]
    expected = [2 * plain_ratio(a, b, tokens, pa, pb) for tokens in texts]
    assert score.values([of(*tokens) for tokens in texts]) == pytest.approx(expected)
    after = [A, C, END]
    found = score.next_values(of(A, B, C), after)
    assert found.tolist() == pytest.approx([2 * plain_ratio(a, b, (A, B, C, t), pa, pb) for t in after])
    assert score.values([of(A, B, C, C)])[0] == pytest.approx(float(found[1]))


def test_ratio_asks_only_for_what_is_new() -> None:
    a, b = (Counting(model) for model in models())
    score = Ratio(a, b)
    candidate = of(A, B, C)
    score.next_values(candidate, range(7))
    rows = a.rows
    score.next_values(candidate.child(A), range(7))
    assert a.rows == rows + 1  # the child's own row: that of its parent was asked for, and its sum is known


def test_ratio_without_the_end_and_of_impossible_tokens() -> None:
    a, b = models()
    short = Ratio(a, b, keep_end=False)
    assert short.values([of(A, END)]) == pytest.approx([plain_ratio(a, b, (A,), (C,), (C,))])
    assert short.next_values(of(A), [END, B]).tolist() == pytest.approx([short.values([of(A)])[0], short.values([of(A, B)])[0]])
    never = TabularModel(7, END, lambda _: [0.5, 0, 0, 0, 0, 0.5, 0])
    assert Ratio(never, a).values([of(B)]) == [-math.inf]
    assert Ratio(a, never).values([of(B)]) == pytest.approx([float(a.probabilities((C,)).log()[B]) + 100])
    assert Ratio(never, never).next_values(of(), [A, B]).tolist() == [0, -math.inf]
    with pytest.raises(ValueError, match="wide"):
        Ratio(a, TabularModel.random(6, 3, 1))
    with pytest.raises(ValueError, match="swap"):
        Ratio(a, b, scale=-1.0)


# ------------------------------------------------------------ caching
def test_cached_asks_once_and_in_one_batch() -> None:
    inner = Length()
    score = Cached(inner)
    assert score.values([of(A), of(B), of(A)]) == [1, 1, 1] and inner.batches == [2]
    assert (score.asked, score.hits) == (3, 1)
    assert score.next_values(of(), [A, B, C]).tolist() == [1, 1, 1] and inner.batches == [2, 1]
    found = score.many_next_values([of(A), of(), of(B)], [[A], [C], [A, END]])
    assert [row.tolist() for row in found] == [[2], [1], [2, 2]] and inner.batches == [2, 1, 3]
    assert (score.asked, score.hits) == (10, 4)
    assert score.step_scores([of(A, B)] * 2, [0, 1]) == [2, 2] and inner.batches[-1] == 2  # another step, another question


def test_cached_keeps_apart_what_differs() -> None:
    score = Cached(Function(lambda c: 10 * c.finished + c.start, on="candidate"))
    whole, short = Candidate(Context((C, A)), 1), Candidate(Context((C, A)), 2)
    assert score.values([whole, short, Candidate(Context((C, A)), 1, True)]) == [1, 2, 11]


def test_cached_forgets_and_refuses() -> None:
    inner = Length()
    score = Cached(inner, size=2)
    score.values([of(A), of(B), of(C)])
    assert score.values([of(C), of(A)]) == [1, 1] and inner.batches == [3, 1]
    with pytest.raises(ConstraintError, match="Final has no values"):
        Cached(Final()).values([of(A)])
    assert Cached(Final()).rewards([of(A)]) == [2]
    with pytest.raises(ValueError, match="size"):
        Cached(inner, size=0)


def test_memory_finds_the_nearest_ancestor() -> None:
    memory: Memory[str] = Memory(8)
    candidate = of(A, B)
    assert memory.nearest(candidate) == (None, None)
    memory.put((Context((C,)), 1), "prompt")
    memory.put((Context(()), 1), "never")
    assert memory.nearest(Candidate.of((C,)).child(A).child(B)) == (Context((C,)), "prompt")


# ------------------------------------------------------------ sums
def test_weighted_sum() -> None:
    score = Weighted((Length(), 2.0), (Final(), 10.0))
    assert score.values([of(A), of(A, END)]) == [2, 4 + 40] and score.rewards([of(A)]) == [2 + 20]
    assert score.next_values(of(A), [B, END]).tolist() == [4, 44]
    forbid, after = Function(lambda t: 0.0 if B not in t else -math.inf, on="tokens"), Length()
    both = Weighted((forbid, 1.0), (after, 1.0))
    assert both.next_values(of(A), [A, B, C]).tolist() == [2, -math.inf, 2] and after.batches == [2]  # not asked about what is forbidden
    assert both.values([of(B), of(A)]) == [-math.inf, 1] and after.batches == [2, 1]
    with pytest.raises(ConstraintError):
        Weighted()
    with pytest.raises(ValueError, match="Length"):
        Weighted((Length(), math.inf))


# ------------------------------------------------------------ targets
def target(reward: object, prompt: tuple[int, ...] = (C,)) -> Target:
    return Target(TabularModel.random(7, 5, 3, eos=END), prompt, max_tokens=6, reward=reward)  # type: ignore[arg-type]


def test_reward_of_a_target() -> None:
    value = Lexicon({"b": 1.0, "ab": 3.0}, vocabulary())
    reward = as_target_reward(value, (C,), [END], scale=0.5)
    assert reward((A, B), False) == 1.5 and reward((A, B, END), True) == 1.5 and reward((), False) == 0
    final = as_target_reward(Final(), (C,), [END])
    assert final((A,), False) == 0 and final((A, END), True) == 4
    with pytest.raises(ValueError, match="finite"):
        as_target_reward(value, (), [END], scale=math.inf)


def test_smc_with_a_score_weighs_as_the_enumeration_says() -> None:
    score = Function(lambda t: 1.5 * (B in t), on="tokens")
    aim = target(as_target_reward(score, (C,), [END]))
    texts = aim.model.enumerate(6, (C,))  # type: ignore[attr-defined]
    weights = {tokens: p * math.exp(1.5 * (B in tokens)) for tokens, p in texts.items()}
    z = sum(weights.values())
    expected = sum(w for tokens, w in weights.items() if B in tokens) / z
    found = smc(aim, 400, seed=1)
    assert found.log_z == pytest.approx(math.log(z), abs=0.1)
    assert found.expectation(lambda tokens: B in tokens) == pytest.approx(expected, abs=0.08)


def test_potential_asks_about_all_particles_at_once() -> None:
    inner = Length()
    found = smc(target(None), 20, potential=ScorePotential(inner, (C,), [END], scale=0.1), seed=2)
    assert len(found.samples) == 20 and max(inner.batches) > 5


def test_scores_are_read_as_json_by_default() -> None:
    spelt = Vocabulary([c.encode() for c in '{"a":1}'] + [b""], eos_token_ids=[7])
    tokens = tuple(range(7))
    score = Function(lambda thing: thing["a"], on="object", texts=spelt)
    assert score.rewards([Candidate.of((), (*tokens, 7), ends=frozenset({7}))]) == [1]
