"""The law of one node: whatever is proposed, and however it was drawn, the token that comes out follows the target.

A node is the whole of an exact verifier's mathematics; ``test_speculative.py`` puts nodes together. Laws have six tokens, so that each
verdict is cheap and the chi-square test, with :data:`DRAWS` draws, finds a bias of a few percent. Significance as in
``tests/laws/checks.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from samplers.models import Context
from speculative.drawing import children, pick, uniform
from speculative.rules import FREE, Place, Rules
from speculative.tree import DraftTree
from speculative.verifiers import Exact, MultiCandidate, Recursive, SpecInfer, SpecTr
from speculative.verifiers.base import Walk
from speculative.verifiers.rejection import Rejection, conditional, residual
from speculative.verifiers.spectr import accepted_mass, optimal_mass, solve
from tests.laws.checks import SIGNIFICANCE, chi_square

DRAWS = 3_000
WIDTH = 6
Plan = Callable[[DraftTree, torch.Generator], None]


def law(seed: int, *, holes: Sequence[int] = (), spread: float = 1.2) -> torch.Tensor:
    """Random probabilities; ``holes`` have none."""
    scores = torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * spread
    scores[list(holes)] = float("-inf")
    return scores.softmax(-1)


TARGET = law(1, holes=[4])
NEAR = (0.7 * TARGET + 0.3 * law(2)).log()
FAR = law(3, holes=[0]).log()


def drawn(count: int, how: Any, proposal: torch.Tensor = NEAR) -> Plan:
    def plan(tree: DraftTree, generator: torch.Generator) -> None:
        for token in children(proposal, count, how, generator):
            tree.add(0, token, None if how == "fixed" else proposal, how)

    return plan


def then(*plans: Plan) -> Plan:
    def plan(tree: DraftTree, generator: torch.Generator) -> None:
        for one in plans:
            one(tree, generator)

    return plan


def forced(token: int) -> Plan:
    return lambda tree, generator: tree.add(0, token) and None


PLANS: dict[str, Plan] = {
    "one drawn": drawn(1, "with"),
    "one drawn from afar": drawn(1, "with", FAR),
    "one fixed": drawn(1, "fixed"),
    "a fixed one that cannot come": forced(4),
    "nothing": drawn(0, "with"),
    "three with replacement": drawn(3, "with"),
    "three without replacement": drawn(3, "without", FAR),
    "all without replacement": drawn(WIDTH, "without", FAR),
    "two fixed": drawn(2, "fixed"),
    "fixed, then drawn": then(forced(2), drawn(2, "with")),
    "fixed, then without replacement": then(forced(2), drawn(2, "without")),
    "drawn, then fixed": then(drawn(2, "with"), forced(0), forced(5)),
    "of two laws": then(drawn(2, "with", FAR), drawn(2, "with", NEAR)),
    "of two laws, without replacement": then(drawn(2, "without", FAR), drawn(2, "without", NEAR)),
}
CHAINS = ["one drawn", "one drawn from afar", "one fixed", "a fixed one that cannot come", "nothing"]
WITH = ["one drawn from afar", "nothing", "three with replacement", "two fixed", "drawn, then fixed", "of two laws"]
COMBINATIONS = [
    *[(Exact, name) for name in CHAINS],
    *[(MultiCandidate, name) for name in ("three with replacement", "three without replacement", "fixed, then drawn", "of two laws")],
    *[(Recursive, name) for name in PLANS],
    *[(SpecInfer, name) for name in ("three with replacement", "drawn, then fixed", "of two laws")],
    *[(SpecTr, name) for name in WITH],
]


def tokens(verifier: Walk, plan: Plan, seed: int, draws: int = DRAWS) -> tuple[Counter[int], int]:
    """How often each token came, and how often it was a proposal that was taken."""
    generator = torch.Generator().manual_seed(seed)
    rules, place = Rules([]), Place(Context(()), FREE, 9, 0)
    counts: Counter[int] = Counter()
    taken = 0
    for _ in range(draws):
        tree = DraftTree(place, rules)
        plan(tree, generator)
        verifier.accepts(tree)
        node, left = verifier.choose(tree, tree.draws[0], TARGET.clone(), generator)
        counts[pick(left, uniform(generator)) if node is None else tree.tokens[node]] += 1
        taken += node is not None
    return counts, taken


EXPECTED = {token: p for token, p in enumerate(TARGET.tolist()) if p}


@pytest.mark.parametrize(("kind", "name"), COMBINATIONS, ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_a_token_follows_the_target(kind: type[Walk], name: str) -> None:
    counts, _ = tokens(kind(), PLANS[name], seed=5)
    test = chi_square(counts, EXPECTED)
    assert test.p_value >= SIGNIFICANCE, test


# ---------------------------------------------------------------- what is wrong is found
class Keeps(Rejection):
    """Draws from the target itself after a rejection."""

    def choose(self, tree: DraftTree, draws: Any, law: torch.Tensor, generator: torch.Generator) -> Any:
        return super().choose(tree, draws, law, generator)[0], law


class Forgets(Rejection):
    """Judges proposals that were drawn without replacement as if they had been drawn with it."""

    def choose(self, tree: DraftTree, draws: Any, law: torch.Tensor, generator: torch.Generator) -> Any:
        return super().choose(tree, [draw._replace(how="with") for draw in draws], law, generator)


class Trusting(Rejection):
    """Takes the first proposal."""

    def choose(self, tree: DraftTree, draws: Any, law: torch.Tensor, generator: torch.Generator) -> Any:
        return (draws[0].node, law) if draws else (None, law)


class Believes(Rejection):
    """Takes a fixed proposal for one that was drawn from the target."""

    def choose(self, tree: DraftTree, draws: Any, law: torch.Tensor, generator: torch.Generator) -> Any:
        return super().choose(tree, [draw._replace(law=law.log(), how="with") for draw in draws], law, generator)


class Sharp(SpecTr):
    """k-SEQ with the gamma of one candidate: what is taken is more than the target holds."""

    def _sequence(self, tree: DraftTree, draws: Any, law: torch.Tensor, generator: torch.Generator) -> Any:
        proposal = draws[0].law.exp()
        for draw in draws:
            token = tree.tokens[draw.node]
            if uniform(generator) * float(proposal[token]) < float(law[token]):
                return draw.node, law
        return None, residual(law, proposal, 0)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Keeps, "one drawn from afar"),
        (Keeps, "three without replacement"),
        (Forgets, "all without replacement"),
        (Forgets, "three without replacement"),
        (Trusting, "one drawn from afar"),
        (Trusting, "two fixed"),
        (Believes, "one fixed"),
        (Sharp, "three with replacement"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_wrong_verifier_is_caught(kind: type[Walk], name: str) -> None:
    counts, _ = tokens(kind(), PLANS[name], seed=5)
    assert chi_square(counts, EXPECTED).p_value < SIGNIFICANCE


# ---------------------------------------------------------------- how much is taken
def rate(kind: type[Walk], plan: Plan) -> float:
    return tokens(kind(), plan, seed=8)[1] / DRAWS


def near_coin(seen: float, expected: float) -> bool:
    """Whether ``seen`` is a mean of DRAWS coins of that probability: normal approximation, 4.9 deviations come once in a million."""
    return abs(seen - expected) <= 4.9 * (expected * (1 - expected) / DRAWS) ** 0.5 + 1e-12


def test_a_chain_is_taken_as_often_as_it_can_be() -> None:
    assert near_coin(rate(Exact, drawn(1, "with")), float(torch.minimum(TARGET, NEAR.exp()).sum()))


def test_fixed_proposals_are_taken_with_their_probability() -> None:
    best = NEAR.topk(2).indices
    assert near_coin(rate(Recursive, drawn(2, "fixed")), float(TARGET[best].sum()))


def test_all_tokens_without_replacement_always_hold_the_one() -> None:
    assert rate(Recursive, drawn(WIDTH, "without", law(9).log())) == 1.0


def test_spectr_takes_as_often_as_it_says() -> None:
    for k in (1, 2, 3, 5):
        proposal = FAR.exp()
        gamma = solve(TARGET, proposal, k)
        promised = 1 - (1 - accepted_mass(TARGET, proposal, gamma)) ** k
        assert 1 <= gamma <= k
        assert near_coin(rate(SpecTr, drawn(k, "with", FAR)), promised)
        # the bound of theorem 3 of the paper
        assert promised >= (1 - (1 - 1 / k) ** k) * optimal_mass(TARGET, proposal, k) - 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_the_plan_of_spectr_is_a_plan(seed: int) -> None:
    """The balance is found, and what is left of the target is not negative."""
    target, proposal = law(seed, spread=2.0), law(100 + seed, spread=2.0)
    for k in (2, 4, 16):
        gamma = solve(target, proposal, k)
        beta = accepted_mass(target, proposal, gamma)
        assert 1 - (1 - beta) ** k == pytest.approx(gamma * beta, abs=1e-6) or gamma == 1
        left = target - torch.minimum(proposal, target / gamma) * (1 - (1 - beta) ** k) / beta
        assert float(left.min()) >= -1e-12
        assert float(left.sum()) == pytest.approx((1 - beta) ** k, abs=1e-9)


def test_more_candidates_are_taken_more_often() -> None:
    one, three = rate(MultiCandidate, drawn(1, "with", FAR)), rate(MultiCandidate, drawn(3, "with", FAR))
    assert three > one + 0.02


# ---------------------------------------------------------------- edges
def test_conditional_of_draws_without_replacement() -> None:
    tree = DraftTree(Place(Context(()), FREE, 9, 0), Rules([]))
    for token in (1, 3):
        tree.add(0, token, FAR, "without")
    second = conditional(tree.draws[0], 1, tree)
    assert second is not None
    expected = FAR.exp().clone()
    expected[1] = 0
    torch.testing.assert_close(second, expected / expected.sum())


def test_a_proposal_that_only_rounding_refuses_is_taken() -> None:
    point = torch.zeros(WIDTH, dtype=torch.float64)
    point[2] = 1.0
    assert residual(point, None, 2) is None
    assert residual(point, point, 2) is None
