"""The machinery of sequential Monte Carlo: what it asks for, where it weighs, what it refuses. Its laws are in ``tests/laws``."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from grammars import ConstraintError, DeadEnd, Regex, Vocabulary
from samplers.models import Context, Counting, TabularModel
from samplers.registry import methods
from samplers.smc import AtEnd, Masked, Move, Potential, Prefix, SequencePower, boundary, log_z_variance, smc
from samplers.smc.particles import Walker
from samplers.smc.potentials import Product, evaluate
from samplers.target import Meter, Target, log_mean, relative_error, streams

TOKENS = [b"a", b"b", b" ", b"\n", b"ab ", b"", b"<pad>"]
A, B, BLANK, LINE, AB, END, PAD = range(7)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, eos_token_ids=[END], special_token_ids=[PAD])


class Recording(TabularModel):
    """Remembers which contexts it was asked for, call by call."""

    calls: list[list[tuple[int, ...]]]

    def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        self.calls = [*getattr(self, "calls", []), [c.tokens for c in contexts]]
        return super().next_logprobs(contexts)


def recording(seed: int = 0) -> Recording:
    base = TabularModel.random(7, 9, seed)
    return Recording(7, END, lambda prefix: base.probabilities(prefix))


def target(vocabulary: Vocabulary, pattern: str = "[ab \n]*", **options: Any) -> Target:
    options = {"model": recording(), "prompt": (B,), "max_tokens": 6} | options
    return Target(automaton=Regex(pattern).compile(vocabulary), **options)


# ---------------------------------------------------------------- forwards
def test_one_batched_forward_a_token_and_none_for_finished_particles(vocabulary: Vocabulary) -> None:
    problem = target(vocabulary)
    found = smc(problem, 32, seed=1)
    calls = problem.model.calls  # type: ignore[attr-defined]
    longest = max(len(s.tokens) for s in found.samples)
    assert len(calls) == longest == found.details["calls"]
    assert calls[0] == [(B,)], "32 particles with the same prefix are one context"
    for length, call in enumerate(calls):
        assert len(set(call)) == len(call) and all(len(c) == length + 1 and END not in c for c in call)
    assert found.forwards == sum(map(len, calls))
    assert len(calls[-1]) < 32


def test_moves_ask_for_suffixes_only(vocabulary: Vocabulary) -> None:
    problem = target(vocabulary)
    counted = Counting(problem.model)
    plain = smc(Target(counted, problem.prompt, problem.automaton, 6), 16, seed=3, ess_threshold=1.0, moves=3)
    assert plain.details["moves"] > 0 and 0 < plain.details["moves_accepted"] <= plain.details["moves"]
    assert counted.rows == plain.forwards, "no context is asked for twice but for free"


# ---------------------------------------------------------------- weights
def test_weights_are_absolute_and_unfinished_texts_have_none(vocabulary: Vocabulary) -> None:
    found = smc(target(vocabulary, "a[ab]{3,}", max_tokens=5), 64, seed=2)
    assert log_mean(s.log_weight for s in found.samples) == pytest.approx(found.log_z)
    assert all(s.finished == (s.log_weight > -math.inf) for s in found.samples)
    assert all(s.tokens[-1] == END for s in found.samples if s.finished)
    assert all(math.isfinite(s.log_prob) and s.log_prob < 0 for s in found.samples if s.finished)


def test_log_prob_is_the_models(vocabulary: Vocabulary) -> None:
    problem = target(vocabulary, temperature=0.7)
    for found in smc(problem, 8, seed=0, moves=1, ess_threshold=1.0).samples:
        steps = [problem.logprobs([problem.model.context((B, *found.tokens[:i]))])[0, t] for i, t in enumerate(found.tokens)]
        assert found.log_prob == pytest.approx(float(sum(steps)))


def test_nothing_fits(vocabulary: Vocabulary) -> None:
    found = smc(target(vocabulary, "a{9}", max_tokens=4), 8, seed=0)
    assert found.log_z == -math.inf and math.isnan(found.log_z_error) and found.kl is None
    with pytest.raises(DeadEnd, match="none of the 8 samples"):
        found.weights


def test_particles_without_a_weight_are_not_extended(vocabulary: Vocabulary) -> None:
    problem = target(vocabulary, reward=lambda tokens, finished: 0.0 if tokens[0] == A else -math.inf)
    found = smc(problem, 32, seed=0, ess_threshold=0.0)
    assert all(c[1] == A for call in problem.model.calls[1:] for c in call)  # type: ignore[attr-defined]
    assert any(s.log_weight == -math.inf for s in found.samples) and found.log_z > -math.inf


def test_resampling_happens_when_it_is_asked_for(vocabulary: Vocabulary) -> None:
    never, sometimes, always = (smc(target(vocabulary), 16, seed=5, ess_threshold=t).details["resampled"] for t in (0.0, 0.5, 1.0))
    assert never == 0 and never <= sometimes <= always and always >= 2
    assert smc(target(vocabulary), 1, seed=5, ess_threshold=1.0).details["resampled"] == 0


def test_one_particle_cannot_tell_its_error(vocabulary: Vocabulary) -> None:
    found = smc(target(vocabulary), 1, seed=0)
    assert math.isnan(found.log_z_error) and found.kl is None and found.log_z < 0


def test_variance_from_one_run() -> None:
    source = random.Random(0)
    logs = [source.gauss(0, 1) for _ in range(50)]
    assert math.sqrt(log_z_variance([logs], list(range(50)))) == pytest.approx(relative_error(logs))
    assert log_z_variance([logs, logs], [7] * 50) == 1, "one ancestor: nothing is known"
    alone = 2 * relative_error(logs) ** 2
    assert log_z_variance([logs, logs], list(range(50))) == pytest.approx(max(alone, 1 - (50 / 49) * (1 - relative_error(logs) ** 2)))
    assert log_z_variance([[0.0] * 4], [0, 1, 2, 3]) == pytest.approx(0)
    assert math.isnan(log_z_variance([[0.0]], [0]))


# ---------------------------------------------------------------- blocks
def test_boundaries(vocabulary: Vocabulary) -> None:
    def ends(block: Any, tokens: Sequence[int]) -> list[int]:
        inside = boundary(block, vocabulary)
        return [i for i in range(len(tokens)) if inside(tuple(tokens[: i + 1]))]

    text = [A, BLANK, B, AB, LINE, LINE, A, PAD]
    assert ends("token", text) == list(range(8))
    assert ends("word", text) == [1, 3, 4, 5]
    assert ends("line", text) == [4, 5]
    assert ends("step", text) == [5]
    assert ends(3, text) == [2, 5]
    assert ends(lambda tokens: tokens[-1] == A, text) == [0, 6]


@pytest.mark.parametrize("block", ["sentence", 0, True, -2])
def test_unknown_blocks(block: Any, vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="'token', 'word', 'line', 'step', a number"):
        boundary(block, vocabulary)


def test_blocks_of_text_need_a_vocabulary(vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintError, match="give a constraint, a vocabulary"):
        smc(Target(recording(), (B,), None, 4), 4, seed=0, block="line")
    assert smc(Target(recording(), (B,), None, 4), 4, seed=0, block="line", vocabulary=vocabulary).samples


class Asked(Potential):
    def __init__(self) -> None:
        self.prefixes: list[Prefix] = []

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        self.prefixes += prefixes
        return [0.1 * len(p.tokens) for p in prefixes]


def test_a_critic_is_asked_at_the_ends_of_blocks_only(vocabulary: Vocabulary) -> None:
    critic = Asked()
    found = smc(target(vocabulary), 32, seed=1, potential=critic, block="word")
    assert any(not p.finished for p in critic.prefixes)
    assert all(p.finished or p.tokens[-1] in (BLANK, LINE, AB) for p in critic.prefixes)
    assert len(found.ess) <= 6
    assert all(p.log_prob < 0 for p in critic.prefixes)
    fine = Asked()
    smc(target(vocabulary), 32, seed=1, potential=fine)
    assert len(fine.prefixes) > len(critic.prefixes)


# ---------------------------------------------------------------- potentials, proposals
def test_potentials_compose() -> None:
    prefix, whole = Prefix((A,), False, -1.0), Prefix((A, END), True, -2.0)
    critic = AtEnd(lambda tokens: 3.0)
    assert critic.log_values([prefix, whole]) == [0.0, 3.0]
    assert (critic**2).log_values([whole]) == [6.0]
    assert SequencePower(3.0).log_values([prefix, whole]) == [-2.0, -4.0]
    product = critic * SequencePower(2.0) * critic
    assert len(product.factors) == 3 and product.log_values([prefix, whole]) == [-1.0, 4.0]
    assert Product().log_values([prefix]) == [0.0]
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive finite"):
            SequencePower(bad)
        with pytest.raises(ValueError, match="positive finite"):
            critic**bad


class Broken(Potential):
    def __init__(self, values: list[float]) -> None:
        self.values = values

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        return self.values


def test_values_are_checked_and_asked_once() -> None:
    prefix = Prefix((A,), False, -1.0)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="must be a finite number or -inf"):
            evaluate(Broken([bad]), [prefix])
    with pytest.raises(ValueError, match="gave 2 values for 1 prefixes"):
        evaluate(Broken([0.0, 0.0]), [prefix])
    critic = Asked()
    assert evaluate(critic, [prefix, prefix, prefix]) == [0.1] * 3
    assert len(critic.prefixes) == 1


class Scripted:
    """Writes a text that is given, whatever the model says."""

    name = "scripted"

    def __init__(self, text: Sequence[int]) -> None:
        self.text, self.details = text, {"asked": 0.0}

    def propose(self, target: Target, nodes: Sequence[Any], logprobs: torch.Tensor, sources: Sequence[random.Random]) -> list[Move]:
        self.details["asked"] += len(nodes)
        tokens = [self.text[len(node.tokens)] for node in nodes]
        return [Move(t, float(row[t]), float(row[t])) for t, row in zip(tokens, logprobs)]


def test_a_proposal_of_ones_own(vocabulary: Vocabulary) -> None:
    found = smc(target(vocabulary), 4, seed=0, proposal=Scripted([A, B, END]))
    assert {s.tokens for s in found.samples} == {(A, B, END)}
    assert found.details["asked"] == 12
    assert found.log_z == pytest.approx(found.samples[0].log_prob), "a proposal that is certain has the text's probability for a weight"


def test_dead_ends_of_masks_have_weight_zero(vocabulary: Vocabulary) -> None:
    problem = target(vocabulary, "aaaa", max_tokens=3)
    walker = Walker(problem, Meter(problem), Masked(), lambda tokens: True)
    (node,) = walker.run([walker.root()], 3, streams(0, 1))
    assert not node.alive and not node.finished and node.tokens == (A, A)


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ess_threshold": 1.5}, "from 0 to 1"),
        ({"resampling": "best"}, "multinomial, stratified, systematic, residual"),
        ({"moves": -1}, "moves must be at least 0"),
        ({"move_depth": 0}, "move_depth at least 1"),
        ({"proposal": "magic"}, "'masked', 'awrs'"),
        ({"lookahead": -1}, "lookahead must be at least 0"),
        ({"lookahead": 1, "twist": SequencePower(2.0)}, "excludes a twist"),
        ({"block": "verse"}, "a block is"),
    ],
)
def test_arguments_out_of_range(options: dict[str, Any], message: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match=message):
        smc(target(vocabulary), 4, seed=0, **options)
    with pytest.raises(ValueError, match="n must be at least 1"):
        smc(target(vocabulary), 0, seed=0)


def test_names_in_the_table_of_methods(vocabulary: Vocabulary) -> None:
    laws = {m.name: m.law for m in methods()}
    reward = {"reward": lambda tokens, finished: 0.0}
    for options, more in (({}, {}), ({"proposal": "awrs"}, {}), ({"moves": 1}, {}), ({}, reward), ({"lookahead": 1}, {})):
        found = smc(target(vocabulary, **more), 4, seed=0, **options)  # type: ignore[arg-type]
        assert laws[found.method] == "exact in the limit"
