"""What is sampled, and what a sampler returns."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from grammars import Regex, Vocabulary
from grammars.errors import ConstraintError, DeadEnd
from samplers.models import TabularModel
from samplers.target import Meter, Sample, Samples, Target, effective_size, log_mean, relative_error, streams

END = 3
VOCABULARY = Vocabulary([b"a", b"b", b"ab", b""], eos_token_ids=[END])
AUTOMATON = Regex("a*b").compile(VOCABULARY)
MODEL = TabularModel.random(5, 6, seed=1, eos=END)  # one logit more than the vocabulary has tokens


def target(**changes: Any) -> Target:
    return Target(**({"model": MODEL, "prompt": (), "automaton": AUTOMATON, "max_tokens": 3} | changes))


def samples(*weighted: tuple[tuple[int, ...], float]) -> Samples:
    return Samples([Sample(t, w, -1.0, w > -math.inf) for t, w in weighted], 0.0, 0.1, [1.0], 1, None, "some")


def test_masks_and_single_answers_agree() -> None:
    def no_ab(prefix: tuple[int, ...], token: int) -> bool:
        return token != 2

    for one in (target(), target(check=no_ab), target(automaton=None), target(automaton=None, check=no_ab)):
        todo: list[tuple[int, tuple[int, ...]]] = [(one.start, ())]
        texts = 0
        while todo:
            state, prefix = todo.pop()
            allowed = one.allowed(state, prefix).tolist()
            assert allowed == [one.allows(state, prefix, token) for token in range(5)]
            for token in (t for t in range(5) if allowed[t]):
                assert not prefix or prefix[-1] != END
                texts += token == END
                assert one.contains((*prefix, token)) == (token == END)
                todo.append((one.advance(state, token), (*prefix, token)))
        assert texts > 1


def test_texts_end_within_the_bound() -> None:
    assert target().contains((0, 1, END)) and target().contains((2, END))
    assert not target().contains((0, 0, 1, END)), "too long"
    assert not target().contains((0, 1)) and not target().contains((END,)) and not target().contains((1, END, END))
    assert target().allowed(AUTOMATON.advance(AUTOMATON.start, 0), (0, 0)).sum() == 0, "a dead end of the bound"


def test_temperature_is_that_of_each_token() -> None:
    root = MODEL.context(())
    powers = MODEL.next_logprobs([root]).exp() ** 2
    torch.testing.assert_close(target(temperature=0.5).logprobs([root]).exp(), powers / powers.sum())


@pytest.mark.parametrize("changes", [{"max_tokens": 0}, {"temperature": 0.0}, {"temperature": math.inf}])
def test_what_cannot_be_sampled_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        target(**changes)


def test_a_text_must_be_able_to_end() -> None:
    with pytest.raises(ConstraintError, match="end"):
        target(automaton=None, model=TabularModel(2, (), lambda prefix: [0.5, 0.5]))


def test_rewards_are_numbers() -> None:
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="reward"):
            target(reward=lambda tokens, finished, v=value: v).potential((0,), False)
    assert target(reward=lambda tokens, finished: -math.inf).potential((0,), True) == -math.inf
    assert target(reward=lambda tokens, finished: 7.0).potential((), False) == 0.0


def test_estimates() -> None:
    found = samples(((0, END), math.log(3)), ((1, END), 0.0), ((0,), -math.inf))
    assert found.weights.tolist() == pytest.approx([0.75, 0.25, 0.0])
    value, error = found.estimate(lambda tokens: float(tokens[0]))
    assert value == pytest.approx(0.25) and error == pytest.approx(math.hypot(0.75 * 0.25, 0.25 * 0.75))
    assert found.expectation(len) == pytest.approx(2)
    drawn = [s.tokens for s in found.resample(4000, seed=1)]
    assert drawn.count((0, END)) / 4000 == pytest.approx(0.75, abs=0.03) and (0,) not in drawn
    assert [s.tokens for s in found.resample(4000, seed=1)] == drawn


def test_no_text_is_an_error_that_says_so() -> None:
    with pytest.raises(DeadEnd, match="none of the 1 samples"):
        samples(((0,), -math.inf)).expectation(len)


def test_numbers_of_weights() -> None:
    logs = [math.log(w) + 900 for w in (1, 2, 3, 2)]
    assert log_mean(logs) == pytest.approx(900 + math.log(2))
    assert relative_error(logs) == pytest.approx(math.sqrt((1 + 1) / 3 / 4) / 2)
    assert effective_size(logs) == pytest.approx(64 / 18)
    nothing = [-math.inf] * 3
    assert log_mean(nothing) == -math.inf and math.isnan(relative_error(nothing)) and effective_size(nothing) == 0


def test_the_meter_counts_contexts_once() -> None:
    meter = Meter(target())
    root = MODEL.context(())
    rows = meter.logprobs([root, root.extend(0), MODEL.context((0,))])
    assert rows.shape == (3, 5) and torch.equal(rows[1], rows[2])
    meter.logprobs([root])
    assert (meter.forwards, meter.calls) == (2, 2)


def test_streams_do_not_depend_on_their_number() -> None:
    few, many = [[s.random() for s in streams(7, n)] for n in (2, 5)]
    assert few == many[:2] and len(set(many)) == 5
    assert [s.random() for s in streams(7, 2, first=3)] == many[3:]
    assert [s.random() for s in streams(8, 2)] != few
