"""The law of whole texts that are decoded speculatively, against enumeration, with constraints and budgets.

``test_speculative_node.py`` has the power (thousands of draws of single nodes); here nodes are put together: several levels, residuals,
bonus tokens, ends within drafts, ragged batches. What a verifier promises holds whatever drafts; significance as in
``tests/laws/checks.py``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from guided.evaluation.toys import END, TOKENS, Case, Law, Tokens, case, randomly
from samplers.budget import Budget
from samplers.masked import Request
from samplers.models import TabularModel
from samplers.sampling import Settings
from speculative import decode
from speculative.tree import DraftTree
from speculative.verifiers import Cascade, Contrastive, Exact, Greedy, Matching, MultiCandidate, Recursive, SpecInfer, SpecTr, Typical
from speculative.verifiers.cascade import cascade_law
from tests.laws.checks import SIGNIFICANCE, chi_square
from tests.speculative.toy import Branches, Fixed, Mixed, Sampled, Several

DRAWS = 400
SMALL = TabularModel(len(TOKENS), END, randomly(38, 0.9))
OTHER = TabularModel(len(TOKENS), END, randomly(71, 1.5))
PEAKED = TabularModel(len(TOKENS), END, randomly(5, 2.5))

COMBINATIONS: dict[str, tuple[Any, Any, Any]] = {
    "exact, chain": (Exact, lambda: Sampled(SMALL), Branches(1, 1, 1)),
    "exact, fixed chain": (Exact, lambda: Fixed(SMALL), Branches(1, 1)),
    "candidates": (MultiCandidate, lambda: Sampled(SMALL), Branches(2, 2)),
    "without replacement": (Recursive, lambda: Sampled(SMALL), Branches(3, 2)),
    "all at once": (Recursive, lambda: Mixed(SMALL), Branches(2, 1)),
    "fixed tree": (Recursive, lambda: Fixed(SMALL), Branches(2, 2)),
    "several drafters": (SpecInfer, lambda: Several(SMALL, [OTHER]), Branches(1, 1)),
    "transport": (SpecTr, lambda: Sampled(SMALL), Branches(3, 2)),
    "transport, mixed": (SpecTr, lambda: Mixed(SMALL), Branches(2, 1)),
    "coupled": (Matching, lambda: Sampled(SMALL), Branches(2, 2)),
}


@cache
def budget(problem: Case) -> Budget | None:
    return None if problem.automaton is None else Budget(problem.automaton)


def requests(problem: Case, n: int, first: int = 0) -> list[Request]:
    given = (problem.prompt, problem.automaton, problem.max_tokens)
    return [Request(*given, seed, budget(problem)) for seed in range(first, first + n)]


def texts(problem: Case, verifier: Any, drafter: Any, shape: Any, n: int = DRAWS, settings: Settings | None = None) -> list[Tokens]:
    made: list[list[int]] = [[] for _ in range(n)]
    settings = settings or Settings(problem.temperature)
    for step in decode(problem.model, requests(problem, n), drafter, verifier=verifier, shape=shape, settings=settings):
        for one in step:
            made[one.row].append(one.token)
    return [tuple(text) for text in made]


def assert_follows(found: Sequence[Tokens], law: Law) -> None:
    test = chi_square(Counter(found), law)
    assert test.p_value >= SIGNIFICANCE, test


# ---------------------------------------------------------------- every exact verifier, constrained
@pytest.mark.parametrize("name", COMBINATIONS)
def test_texts_follow_the_masked_law(name: str) -> None:
    verifier, drafter, shape = COMBINATIONS[name]
    problem = case("random, grammar")
    assert_follows(texts(problem, verifier(), drafter(), shape), problem.masked)


@pytest.mark.parametrize("problem", ["prompt", "random, regex"])
@pytest.mark.parametrize("name", ["exact, chain", "without replacement", "coupled"])
def test_other_languages(problem: str, name: str) -> None:
    verifier, drafter, shape = COMBINATIONS[name]
    assert_follows(texts(case(problem), verifier(), drafter(), shape), case(problem).masked)


# ---------------------------------------------------------------- free texts, any law of steps
def enumerated(step: Callable[[Tokens], Sequence[float]], max_tokens: int) -> Law:
    """The law of texts of at most so many tokens, cut there, from the law of their steps."""
    found: Law = {}
    todo: list[tuple[Tokens, float]] = [((), 1.0)]
    while todo:
        text, mass = todo.pop()
        for token, p in enumerate(step(text)):
            if not p:
                continue
            longer = (*text, token)
            if token == END or len(longer) == max_tokens:
                found[longer] = mass * p
            else:
                todo.append((longer, mass * p))
    return found


FREE = case("free")


def reference(row: Sequence[float], settings: Settings) -> list[float]:
    """Temperature, top-k, top-p, written out."""
    weights = [p ** (1 / settings.temperature) for p in row]
    kept = sorted(range(len(row)), key=lambda t: -weights[t])
    kept = kept[: settings.top_k]
    total = math.fsum(weights[t] for t in kept)
    if settings.top_p is not None:
        share, nucleus = 0.0, []
        for token in kept:
            if share >= settings.top_p:
                break
            nucleus.append(token)
            share += weights[token] / total
        kept = nucleus
    total = math.fsum(weights[t] for t in kept)
    return [weights[t] / total if t in kept else 0.0 for t in range(len(row))]


WARPED = [
    ("exact, chain", Settings(0.6)),
    ("coupled", Settings(1.3, top_k=3)),
    ("without replacement", Settings(0.8, top_p=0.7)),
    ("transport", Settings(1.0, top_k=4, top_p=0.8)),
]


@pytest.mark.parametrize(("name", "settings"), WARPED, ids=lambda value: str(value))
def test_warped_laws(name: str, settings: Settings) -> None:
    verifier, drafter, shape = COMBINATIONS[name]
    found = texts(FREE, verifier(), drafter(), shape, 400, settings)
    assert_follows(found, enumerated(lambda text: reference(FREE.row(text), settings), FREE.max_tokens))


def small_row(text: Tokens) -> torch.Tensor:
    return SMALL.probabilities(text)


@pytest.mark.parametrize(
    ("rule", "alpha"), [("chow", 0.6), ("diff", 0.05), ("opt", 0.5), ("token-1", 0.1), ("token-2", 0.1), ("token-3", 0.5)]
)
def test_cascades_follow_the_law_of_the_rule(rule: Any, alpha: float) -> None:
    def step(text: Tokens) -> list[float]:
        large, small = torch.tensor(FREE.row(text), dtype=torch.float64), small_row(text)
        return [float(p) for p in cascade_law(large, small, large, small, rule, alpha)]

    law = enumerated(step, FREE.max_tokens)
    plain = enumerated(FREE.row, FREE.max_tokens)
    assert max(abs(law[text] - plain[text]) for text in plain) > 0.005, "the case does not tell the cascade from its large model"
    assert_follows(texts(FREE, Cascade(SMALL, rule, alpha), Sampled(SMALL), Branches(2, 1), 300), law)


def test_the_rules_of_cascades_by_hand() -> None:
    p, q = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.2, 0.5, 0.3])
    for rule, alpha, expected in [
        ("chow", 0.5, [0.2, 0.5, 0.3]),
        ("chow", 0.4, [0.6, 0.3, 0.1]),
        ("diff", 0.11, [0.2, 0.5, 0.3]),
        ("diff", 0.05, [0.6, 0.3, 0.1]),
        ("opt", 0.3, [0.2, 0.5, 0.3]),  # the total variation is 0.4
        ("opt", 0.2, [0.6, 0.3, 0.1]),
        ("token-1", 0.1, [0.5 * 0.6, 0.5 + 0.5 * 0.3, 0.5 * 0.1]),
        ("token-2", 0.1, [0.2 + 0.8 * 0.6, 0.8 * 0.3, 0.8 * 0.1]),
        ("token-3", 0.5, [0.2 + 0.3 * 0.6, 0.5 + 0.3 * 0.3, 0.3 * 0.1]),
    ]:
        torch.testing.assert_close(cascade_law(p, q, p, q, rule, alpha), torch.tensor(expected))  # type: ignore[arg-type]


def test_contrastive_decoding_follows_its_law() -> None:
    alpha, beta = 0.2, 0.7

    def step(text: Tokens) -> list[float]:
        expert, amateur = FREE.row(text), small_row(text).tolist()
        weights = [p ** (1 + beta) / q**beta if p >= alpha * max(expert) else 0.0 for p, q in zip(expert, amateur)]
        return [w / math.fsum(weights) for w in weights]

    found = texts(FREE, Contrastive(SMALL, alpha, beta), Sampled(SMALL), Branches(2, 1))
    assert_follows(found, enumerated(step, FREE.max_tokens))


@pytest.mark.parametrize("make", [lambda: Cascade(SMALL, "token-3", 0.3), lambda: Contrastive(SMALL)], ids=["cascade", "contrastive"])
def test_two_models_stay_in_the_language(make: Any) -> None:
    problem = case("random, grammar")
    assert set(texts(problem, make(), Sampled(SMALL), Branches(2, 1), 150)) <= set(problem.masked)


def test_a_typical_token_is_never_too_improbable() -> None:
    verifier = Typical(epsilon=0.2, delta=0.5)
    found = texts(FREE, verifier, Sampled(SMALL), Branches(2, 2), 200, Settings(1.0))
    ratios = []
    for text in found:
        for i, token in enumerate(text):
            row = torch.tensor(FREE.row(text[:i]), dtype=torch.float64)
            ratios.append(float(row[token]) / verifier.threshold(row))
    assert min(ratios) >= 1
    assert chi_square(Counter(found), enumerated(FREE.row, FREE.max_tokens)).p_value < SIGNIFICANCE, "it should be lossy"


# ---------------------------------------------------------------- what is wrong is found
class Drops(Sampled):
    """Leaves out a drawn token that the draft model finds improbable: what a drafter must not do."""

    def propose(self, tree: DraftTree, node: int, count: int, law: torch.Tensor, how: Any, generator: torch.Generator) -> None:
        before = DraftTree(tree.places[node], tree.rules)
        super().propose(before, 0, count, law, how, generator)
        for draw in before.draws[0]:
            if float(law[before.tokens[draw.node]]) > math.log(0.3):
                tree.add(node, before.tokens[draw.node], law, how)


class NoBonus(Exact):
    """Takes the token behind a whole chain from the draft's last law."""

    def choose(self, tree: DraftTree, draws: Any, law: torch.Tensor, generator: torch.Generator) -> Any:
        if not draws and tree.size:
            parent = tree.parents[len(tree) - 1]
            return None, tree.draws[parent][0].law.exp()
        return super().choose(tree, draws, law, generator)


class Unmasked(Greedy):
    """Takes what was drafted."""

    def check(self, settings: Settings) -> None:
        pass


@pytest.mark.parametrize(
    ("verifier", "drafter"), [(Exact, Drops), (NoBonus, Sampled), (Unmasked, Sampled)], ids=["drops", "no bonus", "greedy"]
)
def test_a_wrong_law_is_caught(verifier: Any, drafter: Any) -> None:
    found = texts(FREE, verifier(), drafter(PEAKED), Branches(1, 1), 4 * DRAWS)
    law = enumerated(FREE.row, FREE.max_tokens)
    first: Law = {}
    for text, p in law.items():
        first[text[:1]] = first.get(text[:1], 0.0) + p
    tests = chi_square(Counter(found), law), chi_square(Counter(text[:1] for text in found), first)
    assert min(test.p_value for test in tests) < SIGNIFICANCE / 2


def test_a_drafter_that_ignores_the_mask_is_refused() -> None:
    class Unmasking(Sampled):
        def propose(self, tree: DraftTree, node: int, count: int, law: torch.Tensor, how: Any, generator: torch.Generator) -> None:
            super().propose(tree, node, count, torch.full_like(law, -math.log(len(law))), how, generator)

    with pytest.raises(ValueError, match="mask the law"):
        texts(case("distortion"), Exact(), Unmasking(SMALL), Branches(1, 1), 20)


# ---------------------------------------------------------------- seeds, batches
@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_seed_gives_one_text_whatever_is_beside_it(name: str) -> None:
    verifier, drafter, shape = COMBINATIONS[name]
    problem = case("random, grammar")
    many = texts(problem, verifier(), drafter(), shape, 6)
    torch.manual_seed(99)
    assert texts(problem, verifier(), drafter(), shape, 3) == many[:3]
    assert len(set(many)) > 1


def test_coupled_texts_do_not_depend_on_drafts() -> None:
    problem = case("random, grammar")
    plain = texts(problem, Matching(), Sampled(SMALL), Branches(), 30)
    for drafter, shape in [(Sampled(SMALL), Branches(2, 2)), (Fixed(OTHER), Branches(1, 1, 1)), (Mixed(SMALL), Branches(3))]:
        assert texts(problem, Matching(), drafter, shape, 30) == plain


def test_a_good_draft_is_taken() -> None:
    """The target itself as drafter: whole chains are taken, and the number of steps is what it should be."""
    drafter = Sampled(FREE.model)
    rounds = list(decode(FREE.model, requests(FREE, 50), drafter, verifier=Exact(), shape=Branches(1, 1)))
    assert len(rounds) == 1, "three tokens at most: two drafts and the bonus"
    assert all(row.accepted == row.drafted and row.emitted <= row.drafted + 1 for row in rounds[0].rows)
    assert sum(row.emitted for row in rounds[0].rows) == len(rounds[0])
