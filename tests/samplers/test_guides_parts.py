"""Guides: what they ask, what they refuse, and how they behave as warpers. Their laws are in ``tests/laws/test_guides.py``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from grammars import Choice, ConstraintError, JsonSchema, ModelError, Regex, Vocabulary
from samplers.guides import (
    ARGS,
    RAD,
    AutoregressiveReward,
    ControlledDecoding,
    DExperts,
    Fudge,
    GeDi,
    GenARM,
    LogLinear,
    Nado,
    NextTokenReward,
    Plugin,
    Tilt,
    WeakToStrong,
    blockwise,
    grace,
    guided_decode,
    with_guide,
)
from samplers.models import HFModel, TabularModel
from samplers.scores import Candidate, ValueBase
from samplers.search.frontier import Progress, SearchBudget
from samplers.search.trace import Trace
from samplers.target import Target
from samplers.warpers import CONSTRAINT, Pipeline, Row, Temperature, TopK, TopP
from tests import tiny

WIDTH = 12
INF = math.inf


class Spy(ValueBase):
    """A value that remembers what it was asked."""

    def __init__(self, function: Callable[[Candidate], float] = lambda candidate: float(candidate.tokens[-1])) -> None:
        self.function = function
        self.asked: list[Candidate] = []
        self.batches: list[int] = []

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        self.asked += candidates
        self.batches.append(len(candidates))
        return [self.function(candidate) for candidate in candidates]


def scores_of(*rows: Sequence[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def model(seed: int = 0) -> TabularModel:
    return TabularModel.random(WIDTH, 99, seed)


# ---------------------------------------------------------------- guides by a value
def test_only_the_best_allowed_tokens_are_asked_about() -> None:
    spy = Spy()
    guide = Tilt(spy, 0.5, top_k=3).ending([4])
    out = guide.warp([Row([7, 8, 2], 2)], scores_of([0.0, -INF, 3.0, -INF, 2.0, 1.0, 2.0]))
    assert [c.tokens for c in spy.asked] == [(2, 2), (2, 4), (2, 6)]
    assert [c.finished for c in spy.asked] == [False, True, False]
    assert [c.prompt for c in spy.asked] == [(7, 8)] * 3
    assert guide.scored == 3
    expected = torch.tensor([3 + 0.5 * 2, 2 + 0.5 * 4, 2 + 0.5 * 6]).softmax(0).tolist()
    assert out[0].softmax(0)[[2, 4, 6]].tolist() == pytest.approx(expected)
    assert out[0].isneginf().tolist() == [True, True, False, True, False, True, False]


def test_of_equal_tokens_the_lower_ids_are_taken() -> None:
    spy = Spy()
    RAD(spy, 1.0, 2).warp([Row([1], 1)], scores_of([0.0, 1.0, 1.0, 1.0]))
    assert [c.tokens[-1] for c in spy.asked] == [1, 2]


def test_all_rows_are_asked_about_in_one_batch() -> None:
    spy = Spy()
    rows = [Row([1], 1), Row([1, 2], 1), Row([3, 1, 2], 3)]
    ControlledDecoding(spy, 1.0).warp(rows, scores_of([0.0, 0, 0], [0, -INF, 0], [-INF, -INF, 1]))
    assert spy.batches == [6]


@pytest.mark.parametrize("weight", [1.0, 0.0, -2.0])
def test_minus_infinity_takes_a_token_out(weight: float) -> None:
    out = Tilt(Spy(lambda c: -INF if c.tokens[-1] == 1 else 0.0), weight).warp([Row([0], 1)], scores_of([1.0, 2.0, 3.0]))
    assert out[0].isneginf().tolist() == [False, True, False]


def test_where_nothing_is_left_the_model_goes_on() -> None:
    """On the tokens that were asked about; the forbidden ones stay forbidden."""
    out = Tilt(Spy(lambda c: -INF), 1.0, top_k=2).warp([Row([0], 1)], scores_of([1.0, 2.0, 3.0, -INF]))
    assert out[0].isneginf().tolist() == [True, False, False, True]
    assert out[0][[1, 2]].softmax(0).tolist() == pytest.approx(torch.tensor([2.0, 3.0]).softmax(0).tolist())


@pytest.mark.parametrize("value", [math.nan, INF])
def test_values_must_be_numbers(value: float) -> None:
    with pytest.raises(ValueError, match=r"text with token 1 is (nan|inf)"):
        Tilt(Spy(lambda c: value if c.tokens[-1] == 1 else 0.0)).warp([Row([0], 1)], scores_of([1.0, 2.0, 3.0]))


def test_probabilities_may_be_stated_in_three_ways() -> None:
    chances = [0.1, 0.5, 0.9]
    told = {
        "probability": lambda c: chances[c.tokens[-1]],
        "logprob": lambda c: math.log(chances[c.tokens[-1]]),
        "logit": lambda c: math.log(chances[c.tokens[-1]] / (1 - chances[c.tokens[-1]])),
    }
    weights = [math.exp(s) * p for s, p in zip([1.0, 2.0, 0.5], chances)]
    for given, function in told.items():
        for guide in (Fudge(Spy(function), given=given), Nado(Spy(function), given=given)):  # type: ignore[arg-type]
            out = guide.warp([Row([0], 1)], scores_of([1.0, 2.0, 0.5]))
            assert out[0].softmax(0).tolist() == pytest.approx([w / sum(weights) for w in weights])


@pytest.mark.parametrize(("given", "value"), [("probability", 1.2), ("probability", -0.1), ("logprob", 0.5)])
def test_what_is_no_probability_is_refused(given: Any, value: float) -> None:
    with pytest.raises(ValueError, match="must stand for probabilities"):
        Fudge(Spy(lambda c: value), given=given).warp([Row([0], 1)], scores_of([1.0, 2.0]))


def test_a_probability_of_zero_takes_a_token_out() -> None:
    out = Nado(Spy(lambda c: float(c.tokens[-1] != 1)), given="probability").warp([Row([0], 1)], scores_of([1.0, 2.0, 0.5]))
    assert out[0].isneginf().tolist() == [False, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Tilt(Spy(), math.nan),
        lambda: Tilt(Spy(), top_k=0),
        lambda: Fudge(Spy(), given="percent"),  # type: ignore[arg-type]
        lambda: Nado(Spy(), top_k=5, audit=True),
        lambda: LogLinear([(model(), INF)]),
        lambda: DExperts(None, None),
        lambda: GenARM(model(), 0.0),
        lambda: GeDi(model(), model(), -1.0),
        lambda: GeDi(model(), model(), drop=1.0),
        lambda: GeDi(model(), model(), alpha=0.0),
        lambda: with_guide(None, [3], ()),  # type: ignore[list-item]
    ],
)
def test_arguments_out_of_range(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|one of"):
        wrong()


# ---------------------------------------------------------------- the reward of all next tokens at once
def test_rewards_of_next_tokens() -> None:
    network = HFModel(tiny.llama(WIDTH, seed=2), eos_token_ids=[0])
    random = torch.Generator().manual_seed(0)
    down, up, base = (torch.randn(shape, generator=random) for shape in ((3, 32), (WIDTH, 3), (32,)))
    reward = NextTokenReward(network, down, up, base)
    candidate = Candidate.of([1, 2], [3])
    (state,) = network.hidden([candidate.context]).double()
    expected = [float(base.double() @ state + up[v].double() @ (down.double() @ state)) for v in range(WIDTH)]
    assert reward.next_values(candidate, [5, 0, 7]).tolist() == pytest.approx([expected[v] for v in (5, 0, 7)])
    assert reward.values([candidate.child(v) for v in range(WIDTH)]) == pytest.approx(expected), "the value of a text is its last token's"
    scores = network.next_logprobs([candidate.context])
    out = AutoregressiveReward(reward, 0.3, None).warp([Row([1, 2, 3], 2)], scores)
    assert out[0].softmax(0).tolist() == pytest.approx((scores[0] + 0.3 * torch.tensor(expected)).softmax(0).tolist())
    for wrong in (lambda: NextTokenReward(network, down, up[:5]), lambda: NextTokenReward(network, down, up, base[:7])):
        with pytest.raises(ModelError, match=r"up|base"):
            wrong()
    with pytest.raises(ModelError, match="before the first token"):
        reward.values([Candidate.of([], [3])])
    with pytest.raises(ModelError, match="made for 16"):
        NextTokenReward(network, down[:, :16], up).values([candidate])


# ---------------------------------------------------------------- guides by models
def guides_by_models() -> dict[str, Callable[[], Any]]:
    return {
        "dexperts": lambda: DExperts(model(1), model(2)),
        "weak to strong": lambda: WeakToStrong(model(1), model(2)),
        "genarm": lambda: GenARM(model(1)),
        "plugin": lambda: Plugin(model(1)),
        "gedi": lambda: GeDi(model(1), model(2), 4.0, desired_code=[3], undesired_code=[4, 5]),
        "args": lambda: ARGS(Spy(lambda c: math.sin(hash(c.tokens)))),
    }


@pytest.mark.parametrize("name", guides_by_models())
def test_state_follows_the_text(name: str) -> None:
    """Rows may be swapped, copied and dropped between two steps, and each step may be the first one that a guide sees."""
    make = guides_by_models()[name]
    steps = [[[1, 2], [1, 3]], [[1, 3, 4], [1, 2, 5], [1, 3, 6]], [[1, 3, 6, 0], [1, 3, 6, 7]]]
    kept = make()
    for number, texts in enumerate(steps):
        rows = [Row(text, 1) for text in texts]
        scores = torch.randn((len(rows), WIDTH), generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        together = kept.warp(rows, scores)
        for i, row in enumerate(rows):
            assert torch.allclose(together[i], make().warp([row], scores[i : i + 1])[0]), (name, number, i)


@pytest.mark.parametrize("name", guides_by_models())
def test_the_type_and_the_input_are_kept(name: str) -> None:
    scores = torch.randn((1, WIDTH), generator=torch.Generator().manual_seed(0))
    scores[0, 3] = -INF
    before = scores.clone()
    out = guides_by_models()[name]().warp([Row([1, 2], 1)], scores)
    assert out.dtype == torch.float32 and out.shape == scores.shape and torch.equal(scores, before)
    assert out[0, 3] == -INF and out.isfinite().any() and not out.isnan().any()


def test_experts_need_the_same_vocabulary() -> None:
    with pytest.raises(ModelError, match="must share a vocabulary"):
        Plugin(TabularModel.random(5, 9, 0)).warp([Row([1], 1)], scores_of([0.0] * WIDTH))
    with pytest.raises(ModelError, match="no language model"):
        DExperts("gpt2", None)


def test_gedi_drops_the_least_desirable_tokens() -> None:
    """Up to a share of the mass, and none that is certain enough."""
    weights, classes = torch.tensor([[0.3, 0.3, 0.2, 0.2]]), torch.tensor([[0.2, 0.1, 0.9, 0.4]])

    def left(drop: float, certain: float) -> list[int]:
        out = GeDi(model(), model(), drop=drop, certain=certain).filtered(weights.log(), classes.log())
        return out[0].isfinite().nonzero()[:, 0].tolist()

    assert left(0.0, 1.0) == [0, 1, 2, 3]
    assert left(0.25, 1.0) == [0, 1, 2, 3], "the least desirable alone holds more"
    assert left(0.5, 1.0) == [0, 2, 3]
    assert left(0.7, 1.0) == [2, 3]
    assert left(0.99, 0.95) == [2]
    assert left(0.99, 0.3) == [2, 3], "0.4 is certain enough to stay"


# ---------------------------------------------------------------- in a pipeline
def test_a_guide_sees_what_the_warpers_and_the_mask_left() -> None:
    spy = Spy()
    pipeline = with_guide([TopK(3)], Tilt(spy, 0.0), [5])
    allowed = torch.tensor([[True, False, True, True, True, False]])
    pipeline.apply([Row([1], 1)], scores_of([5.0, 9, 4, 3, 2, 9]), allowed)
    assert [c.tokens[-1] for c in spy.asked] == [0, 2, 3]


def test_with_guide_keeps_the_place_of_the_mask() -> None:
    guides = [Tilt(Spy()), Plugin(model())]
    pipeline = with_guide(Pipeline([Temperature(2), CONSTRAINT, TopP(0.9)]), guides, [5])
    assert [type(part) for part in pipeline.before] == [Temperature]
    assert list(pipeline.after[1:]) == guides and isinstance(pipeline.after[0], TopP)
    assert [guide.ends for guide in guides] == [{5}, {5}]
    inner = Tilt(Spy())
    with_guide([Pipeline([inner])], None, [3])
    assert inner.ends == {3}, "guides among the warpers are told as well"
    assert "Plugin" in pipeline.target and pipeline.law == "exact"
    assert with_guide(None, ARGS(Spy(), greedy=True), ()).law == "argmax"


# ---------------------------------------------------------------- the loop
VOCABULARY = Vocabulary([b"a", b"b", b"ab", b"{", b"}", b'"', b":", b"1", b"2", b"\n", b"x", b""], eos_token_ids=[11])


def target(constraint: Any = None, **changes: Any) -> Target:
    automaton = None if constraint is None else constraint.compile(VOCABULARY)
    given: dict[str, Any] = {"model": model(3), "prompt": (0, 1), "automaton": automaton, "max_tokens": 12}
    return Target(**(given | changes))


def text(tokens: Sequence[int]) -> bytes:
    return VOCABULARY.decode(tokens)


def test_only_texts_of_the_language_and_only_tokens_of_it_are_scored() -> None:
    schema = JsonSchema({"type": "object", "properties": {"a": {"enum": [1, 2, 12]}}, "required": ["a"], "additionalProperties": False})
    automaton = schema.compile(VOCABULARY)
    spy = Spy()
    found = guided_decode(target(schema), ARGS(spy, 2.0, 4), 6, seed=1, temperature=0.9)
    assert all(s.finished and json.loads(text(s.tokens)) in ({"a": 1}, {"a": 2}, {"a": 12}) for s in found.samples)
    for candidate in spy.asked:
        state = automaton.start
        for token in candidate.tokens:
            state = automaton.advance(state, token)
            assert state != automaton.DEAD
        assert candidate.finished == (candidate.tokens[-1] == 11)
    assert found.details["scored"] == len(spy.asked) > 0
    assert found.forwards <= sum(len(s.tokens) for s in found.samples)


def test_texts_close_in_time() -> None:
    """A reward for anything but an end cannot keep a text from ending."""
    never = ControlledDecoding(Spy(lambda c: -50.0 * c.finished), 1.0)
    found = guided_decode(target(Regex("(ab)*"), max_tokens=7), never, 4)
    assert all(s.finished and len(s.tokens) <= 7 for s in found.samples)
    assert any(len(s.tokens) == 7 for s in found.samples)
    free = guided_decode(target(max_tokens=5), never, 3)
    assert [len(s.tokens) for s in free.samples] == [5, 5, 5] and all(s.finished for s in free.samples)
    cut = guided_decode(target(max_tokens=5), never, 3, ending="cut")
    assert not any(s.finished for s in cut.samples) and all(s.log_weight == -INF for s in cut.samples)


def test_a_row_does_not_depend_on_the_others() -> None:
    many = guided_decode(target(Regex("[ab]{3,8}")), DExperts(model(1), model(2), 0.3), 5, seed=7)
    few = guided_decode(target(Regex("[ab]{3,8}")), DExperts(model(1), model(2), 0.3), 2, seed=7)
    assert [s.tokens for s in many.samples[:2]] == [s.tokens for s in few.samples]
    assert len({s.tokens for s in many.samples}) > 1


def test_records_say_what_the_guide_did() -> None:
    found = guided_decode(target(Choice(["ab", "ba", "x1"])), Tilt(Spy(lambda c: 3.0 * (c.tokens[0] == 10)), 1.0), 30, seed=0)
    first = [records[0] for records in found.records]
    assert {r.kl for r in first} == {first[0].kl} and first[0].kl > 0.1
    gains = {r.token: r.gain for r in first}
    assert gains[10] > 0 > min(gains.values())
    assert found.details["kl"] == pytest.approx(sum(r.kl for records in found.records for r in records) / 30)
    for sample, records in zip(found.samples, found.records):
        assert sample.log_weight == pytest.approx(sample.log_prob - sum(r.log_law for r in records))


def test_the_last_settings_act_on_the_guided_scores() -> None:
    reward = Spy(lambda c: 5.0 * (c.tokens[-1] == 1))
    found = guided_decode(target(Regex("[ab]{3}")), Tilt(reward), 8, top_k=1)
    assert {text(s.tokens) for s in found.samples} == {b"bbb"}


def test_dead_ends_are_reported() -> None:
    found = guided_decode(target(Regex("[ab]{3}"), check=lambda prefix, token: len(prefix) < 2), Tilt(Spy()), 3)
    assert found.details["dead"] == 3 and not any(s.finished for s in found.samples) and found.log_z == -INF
    blocks = blockwise(target(Regex("[ab]{3}"), check=lambda prefix, token: len(prefix) < 2), Spy(), 2, k=3, block=8)
    assert blocks.details["dead"] == 2 and blocks.log_z == -INF


def test_the_loop_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="CONSTRAINT has no place"):
        guided_decode(target(), Pipeline([TopK(3), CONSTRAINT]))
    with pytest.raises(ValueError, match="n must be at least 1"):
        guided_decode(target(), Tilt(Spy()), 0)
    with pytest.raises(ConstraintError, match="needs 9 tokens"):
        guided_decode(target(Regex("a{8}"), max_tokens=5), Tilt(Spy()))


# ---------------------------------------------------------------- blocks
def test_blocks_end_where_lines_do() -> None:
    spy = Spy(lambda c: float(text(c.tokens).count(b"x")))
    found = blockwise(target(Regex("([abx]{1,3}\n){2}"), max_tokens=10), spy, 2, k=4, block="line", seed=2)
    for sample, blocks in zip(found.samples, found.blocks):
        assert sample.finished and [len(block.scores) for block in blocks] == [4] * len(blocks)
        assert [text(block.tokens)[-1:] for block in blocks[:2]] == [b"\n", b"\n"]
        assert sum((block.tokens for block in blocks), ()) == sample.tokens
        for block in blocks:
            assert block.scores[block.chosen] == max(block.scores)
    assert found.details["scored"] == len(spy.asked) == sum(len(blocks) for blocks in found.blocks) * 4


def test_a_judge_that_counts_for_nothing_leaves_the_likeliest_step() -> None:
    class Judge:
        def step_scores(self, candidates: Sequence[Candidate], step_starts: Sequence[int]) -> list[float]:
            return [float(text(c.tokens[start:]).count(b"b")) for c, start in zip(candidates, step_starts)]

    constraint = Regex("[ab]{3}\n[ab]{3}")
    only_judge = grace(target(constraint), Judge(), k=40, beta=1.0, block="line")
    assert text(only_judge.samples[0].tokens) == b"bbb\nbbb"
    likely = grace(target(constraint), Judge(), k=40, beta=0.0, block="line")
    for block in likely.blocks[0]:
        assert block.scores[block.chosen] == max(block.scores) and 0 < max(block.scores) <= 1


def test_a_trace_shows_the_blocks_that_were_not_kept() -> None:
    trace = Trace()
    seen: list[Progress] = []
    spy = Spy(lambda c: float(text(c.tokens).count(b"b")))
    found = blockwise(target(Regex("[ab]{4}")), spy, k=3, block=2, seed=4, trace=trace, progress=seen.append)
    nodes = trace.as_dict()["nodes"]
    pruned = [node for node in nodes if "another block was kept" in str(node)]
    assert len(pruned) == 2 * len(found.blocks[0])
    assert sorted(node["score"] for node in pruned[:2]) == sorted(
        s for i, s in enumerate(found.blocks[0][0].scores) if i != found.blocks[0][0].chosen
    )
    assert len(seen) == found.details["calls"] and seen[-1].forwards == found.forwards
    assert found.details["complete"] == 1


def test_a_budget_stops_a_text() -> None:
    cut = blockwise(target(Regex("[ab]{8}")), Spy(), k=3, block=2, budget=SearchBudget(tokens=5))
    assert cut.details["complete"] == 0 and len(cut.samples[0].tokens) == 2 and cut.samples[0].log_weight == -INF
    short = guided_decode(target(Regex("[ab]{8}")), Tilt(Spy()), 2, budget=SearchBudget(forwards=3))
    assert short.details["complete"] == 0 and not any(s.finished for s in short.samples) and short.forwards <= 4


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: blockwise(target(), Spy(), k=0),
        lambda: blockwise(target(), Spy(), strength=INF),
        lambda: blockwise(target(), Spy(), block=0),
        lambda: blockwise(target(), Spy(lambda c: math.nan)),
        lambda: grace(target(), Spy(), beta=1.5, block=3),
        lambda: grace(target(), Spy(lambda c: INF), block=3),
    ],
)
def test_blocks_refuse(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|a block is"):
        wrong()
