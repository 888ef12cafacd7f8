"""Samplers whose texts are right with their weights: masking with weights, AWRS, ASAp, DAEMON."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from samplers.asap import asap
from samplers.awrs import AdaptiveRejection, awrs
from samplers.daemon import daemon
from samplers.importance import importance, weighted_walk
from samplers.smc.proposals import Move
from samplers.target import Sample, Samples
from tests.laws.bounded import bounded
from tests.laws.cases import case, names
from tests.laws.checks import check_consistent, check_exact, check_reproducible, check_stated_error, check_unbiased

METHODS: dict[str, Callable[..., Any]] = {
    "masks": importance,
    "AWRS": awrs,
    "AWRS, three draws more": partial(awrs, extra=3),
    "AWRS after the mask": partial(awrs, premask=True),
    "ASAp": partial(asap, batch=2),
    "DAEMON": partial(daemon, candidates=3),
}
MAIN = ["masks", "AWRS", "ASAp"]
HARD = ["dead ends", "reward", "checker"]
PAIRS = [(m, n) for m in METHODS for n in (names() if m in MAIN else HARD[1:])]


def bind(method: str, name: str) -> Callable[..., Any]:
    return bounded(METHODS[method], name) if method == "ASAp" else METHODS[method]


def unweighted(sampler: Callable[..., Samples]) -> Callable[..., Samples]:
    """Texts in the language, all of one weight; dead ends are drawn again."""

    def draw(target: Any, n: int, *, seed: int) -> Samples:
        found: list[Sample] = []
        while len(found) < n:
            found += [Sample(s.tokens, 0.0, s.log_prob, True) for s in sampler(target, n, seed=seed).samples if s.finished]
            seed += 1_000_003
        return Samples(found[:n], math.nan, math.nan, [], 0, None, "unweighted")

    return draw


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_weights_are_unbiased(method: str, name: str) -> None:
    check_unbiased(bind(method, name), case(name), particles=10, runs=80)


@pytest.mark.parametrize("method", [*MAIN, "DAEMON"])
@pytest.mark.parametrize("name", HARD)
def test_the_error_falls_with_the_number_of_texts(method: str, name: str) -> None:
    check_consistent(bind(method, name), case(name), particles=(8, 96), runs=8)


@pytest.mark.parametrize("method", [*MAIN, "DAEMON"])
@pytest.mark.parametrize("name", ["random, set"])
def test_the_stated_error_of_log_z_is_honest(method: str, name: str) -> None:
    check_stated_error(bind(method, name), case(name), particles=64, runs=15)


@pytest.mark.parametrize("method", METHODS)
def test_randomness_comes_from_the_seed(method: str) -> None:
    check_reproducible(METHODS[method], case("random, set"))


@pytest.mark.parametrize("method", [m for m in METHODS if m != "ASAp"])
def test_rows_do_not_depend_on_each_other(method: str) -> None:
    few, many = (METHODS[method](case("random, regex").target(), n, seed=4).samples for n in (3, 9))
    assert few == many[:3]


@pytest.mark.parametrize("name", ["distortion", "random, set", "long range"])
def test_masking_follows_its_own_law_without_weights(name: str) -> None:
    check_exact(unweighted(importance), case(name), draws=800, law=case(name).masked)


@pytest.mark.parametrize("name", ["distortion", "random, set", "long range", "reward"])
def test_asap_comes_to_the_target_without_weights(name: str) -> None:
    check_exact(unweighted(bounded(asap, name, warmup=800)), case(name), draws=800)


def test_asap_unlearnt_is_not_there_yet() -> None:
    with pytest.raises(AssertionError):
        check_exact(unweighted(partial(asap, batch=2)), case("distortion"), draws=600, per_call=2)


def test_many_candidates_come_to_the_target_without_weights() -> None:
    name = "distortion"
    check_exact(unweighted(partial(daemon, candidates=50)), case(name), draws=200)
    with pytest.raises(AssertionError):
        check_exact(unweighted(partial(daemon, candidates=1)), case(name), draws=200)


class OnlyItsOwnMass(AdaptiveRejection):
    """Forgets the mass of the tokens that would have passed as well."""

    def propose(self, *arguments: Any) -> list[Move]:
        return [Move(m.token, m.log_prob, m.log_prob) for m in super().propose(*arguments)]


class OneDrawIsEnough(AdaptiveRejection):
    """Takes the share of checks that passed for the mass that may follow."""

    def propose(self, *arguments: Any) -> list[Move]:
        moves = []
        for node, row, source in zip(*arguments[1:]):
            before = self.details["checks"]
            (move,) = super().propose(arguments[0], [node], row[None], [source])
            moves.append(Move(move.token, move.log_prob, move.log_weight - math.log(self.details["checks"] - before)))
        return moves


@pytest.mark.parametrize("wrong", [OnlyItsOwnMass, OneDrawIsEnough])
def test_wrong_weights_are_found(wrong: type[AdaptiveRejection]) -> None:
    with pytest.raises(AssertionError):
        check_unbiased(lambda target, n, *, seed: weighted_walk(target, n, seed, wrong(), "wrong")[0], case("random, set"), runs=100)
