"""Weighted texts from speculation: what the weights make of them, against enumeration."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from guided.evaluation.toys import END, TOKENS, case, randomly
from samplers.importance import importance
from samplers.models import TabularModel
from speculative.verifiers import Cascade, Greedy, Matching, Recursive, SpecTr, Typical
from speculative.weighted import speculative_importance
from tests.laws.checks import check_reproducible, check_unbiased, measure
from tests.speculative.toy import Branches, Fixed, Mixed, Sampled

SMALL = TabularModel(len(TOKENS), END, randomly(38, 0.9))
CASES = ["distortion", "random, grammar", "dead ends", "holes", "prompt", "reward", "checker", "free"]


def sampler(drafter: Any = Sampled, verifier: Any = Recursive, shape: Any = None) -> Any:
    def draw(target: Any, n: int, *, seed: int) -> Any:
        return speculative_importance(target, n, seed=seed, drafter=drafter(SMALL), verifier=verifier(), shape=shape or Branches(2, 1))

    return draw


@pytest.mark.parametrize("name", CASES)
def test_weights_are_unbiased(name: str) -> None:
    check_unbiased(sampler(), case(name), particles=4, runs=60)


@pytest.mark.parametrize(("drafter", "verifier"), [(Mixed, SpecTr), (Fixed, Matching)])
def test_other_ways_to_draft_and_verify(drafter: Any, verifier: Any) -> None:
    check_unbiased(sampler(drafter, verifier), case("random, grammar"), particles=4, runs=60)


def test_without_the_masses_the_weights_would_be_wrong() -> None:
    """Masking alone follows another law: the check sees it."""

    def unweighted(target: Any, n: int, *, seed: int) -> Any:
        found = sampler()(target, n, seed=seed)
        found.samples = [type(s)(s.tokens, 0.0 if s.finished else -math.inf, s.log_prob, s.finished) for s in found.samples]
        return found

    with pytest.raises(AssertionError):
        check_unbiased(unweighted, case("distortion"), particles=4, runs=60)


def test_a_seed_gives_one_answer() -> None:
    check_reproducible(sampler(), case("random, grammar"))


@pytest.mark.parametrize("name", ["random, grammar", "dead ends", "checker", "prompt"])
def test_every_text_has_the_weight_of_plain_masking(name: str) -> None:
    """A text's weight is a function of the text: that which it gets without speculation."""
    problem = case(name)
    plain = {s.tokens: (s.log_weight, s.log_prob) for s in importance(problem.target(), 400, seed=1).samples}
    found = sampler()(problem.target(), 60, seed=2)
    shared = [s for s in found.samples if s.tokens in plain and s.finished]
    assert len(shared) > 20 or name == "dead ends"
    for s in shared:
        assert (s.log_weight, s.log_prob) == pytest.approx(plain[s.tokens])
    assert set(measure(found)) <= set(problem.masses)


def test_speculation_asks_less_often() -> None:
    problem = case("random, grammar")
    perfect = partial(speculative_importance, drafter=Sampled(problem.model), shape=Branches(1, 1, 1))
    found = perfect(problem.target(), 40, seed=3, verifier=Recursive())
    assert found.details["calls"] < importance(problem.target(), 40, seed=3).details["calls"]
    assert found.details["accepted"] > 0.3 * found.details["drafted"]


@pytest.mark.parametrize("verifier", [Typical(), Cascade(SMALL), Greedy()], ids=lambda v: type(v).__name__)
def test_a_verifier_of_another_law_is_refused(verifier: Any) -> None:
    with pytest.raises(ValueError, match="exact verifier"):
        speculative_importance(case("distortion").target(), 2, seed=0, drafter=Fixed(SMALL), shape=Branches(1), verifier=verifier)
