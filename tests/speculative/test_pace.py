"""Drafting what pays: with costs told by hand, so that nothing here depends on a clock."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from samplers.masked import Request
from samplers.models import Context, TabularModel
from samplers.sampling import Settings
from speculative import Round, decode
from speculative.costs import Costs, Line
from speculative.pace import Adaptive, Seconds
from speculative.protocol import Outcome
from speculative.rules import FREE, Place, Rules
from speculative.tree import DraftTree
from speculative.verifiers import Exact, Greedy
from tests.speculative.toy import Branches, Fixed, Sampled

GREEDY = Settings(temperature=0)


def cycle(step: int) -> TabularModel:
    """Counts modulo 7, in steps; token 7 would end the text."""

    def row(prefix: tuple[int, ...]) -> list[float]:
        best = (prefix[-1] + step) % 7
        return [0.93 if token == best else 0.01 for token in range(8)]

    return TabularModel(8, 7, row, memory=1)


def run(drafter: Any, pace: Adaptive, *, tokens: int = 200, rows: int = 1, shape: Any = None) -> list[Round]:
    requests = [Request([0], None, tokens, seed) for seed in range(rows)]
    shape = shape or Branches(1, 1, 1, 1)
    return list(decode(cycle(1), requests, drafter, verifier=Greedy(), shape=shape, settings=GREEDY, pace=pace))


def drafted(rounds: list[Round]) -> list[int]:
    return [sum(row.drafted for row in one.rows) for one in rounds]


def test_good_drafts_are_made_in_full() -> None:
    rounds = run(Fixed(cycle(1)), Adaptive(costs=Costs.of(1.0, 0.02, 0.01)))
    assert drafted(rounds)[1:-1] == [4] * (len(rounds) - 2)
    assert len(rounds) == 40


def test_bad_free_drafts_are_trimmed_to_nothing() -> None:
    rounds = run(Fixed(cycle(2)), Adaptive(costs=Costs.of(1.0, 0.15, 0.0)))
    assert drafted(rounds)[0] > 0
    assert sum(drafted(rounds)) < 0.15 * len(rounds), "they cost a share of a forward each and are never taken"


def test_bad_dear_drafts_are_not_made() -> None:
    drafter = Fixed(cycle(2))
    rounds = run(drafter, Adaptive(costs=Costs.of(1.0, 0.15, 0.3)))
    assert sum(map(bool, drafted(rounds))) < 0.1 * len(rounds)


def test_what_was_given_up_is_tried_again() -> None:
    class Late(Fixed):
        """Useless at first, then good."""

        def draft(self, places: Any, *rest: Any) -> Any:
            self.model = cycle(1) if places[0].context.length > 300 else cycle(2)
            return super().draft(places, *rest)

    rounds = run(Late(cycle(2)), Adaptive(costs=Costs.of(1.0, 0.05, 0.0)), tokens=1500)
    late = [row for one in rounds[-100:] for row in one.rows]
    assert sum(row.accepted for row in late) > 3 * len(late), "four good drafts a step, found again"


def test_a_budget_is_shared_by_the_rows_that_use_it_best() -> None:
    """Two rows in one forward: only the one whose drafts are taken goes on drafting."""

    class Half(Fixed):
        def propose(self, tree: DraftTree, node: int, count: int, law: torch.Tensor, how: Any, generator: torch.Generator) -> None:
            good = tree.places[0].context.tokens[0] == 0
            last = tree.places[node].context.tokens[-1]
            tree.add(node, (last + (1 if good else 2)) % 7, source="good" if good else "bad")

    requests = [Request([prompt, 0], None, 120, 0) for prompt in (0, 1)]
    pace = Adaptive(costs=Costs.of(1.0, 0.1, 0.0))
    shape = Branches(1, 1, 1, 1)
    rounds = list(decode(cycle(1), requests, Half(cycle(1)), verifier=Greedy(), shape=shape, settings=GREEDY, pace=pace))
    both = [one.rows for one in rounds if len(one.rows) == 2][5:-1]
    assert sum(rows[0].drafted for rows in both) == 4 * len(both)
    assert sum(rows[1].drafted for rows in both) < 0.2 * len(both)


def test_trees_keep_their_most_promising_nodes() -> None:
    """Of two siblings the one that the drafter believes in stays, where tokens are dear."""
    pace = Adaptive(costs=Costs.of(1.0, 0.3, 0.0))
    tree = DraftTree(Place(Context((0,)), FREE, 9, 1), Rules([]))
    tree.add(0, 1, chance=0.1)
    good = tree.add(0, 2, chance=0.9)
    assert good is not None
    tree.add(good, 3, chance=0.8)
    tree.add(good, 4, chance=0.05)
    (kept,) = pace.trim([tree], 1)
    assert kept.tokens == [-1, 2, 3]
    assert kept.parents == [-1, 0, 1]


def test_drawn_proposals_are_never_trimmed() -> None:
    pace = Adaptive(costs=Costs.of(1.0, 10.0, 0.0))
    tree = DraftTree(Place(Context((0,)), FREE, 9, 1), Rules([]))
    tree.add(0, 1, torch.full((8,), 1 / 8, dtype=torch.float64).log(), "with")
    tree.add(0, 2)
    assert pace.trim([tree], 1) == [tree]
    with pytest.raises(ValueError, match="drawn"):
        tree.keep({2})


def test_a_clock_that_would_change_texts_is_refused() -> None:
    requests = [Request([0], None, 5, 0)]
    with pytest.raises(ValueError, match="reproducible=False"):
        next(decode(cycle(1), requests, Sampled(cycle(1)), verifier=Exact(), shape=Branches(1), pace=Adaptive()))
    frozen = Adaptive(costs=Costs.of())
    list(decode(cycle(1), requests, Sampled(cycle(1)), verifier=Exact(), shape=Branches(1), pace=frozen))
    list(decode(cycle(1), requests, Sampled(cycle(1)), verifier=Exact(), shape=Branches(1), pace=Adaptive(reproducible=False)))
    list(decode(cycle(1), requests, Fixed(cycle(1)), verifier=Greedy(), shape=Branches(1), settings=GREEDY, pace=Adaptive()))


@pytest.mark.parametrize("arguments", [{"nodes": 0}, {"depth": 0}])
def test_arguments_are_checked(arguments: Any) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Adaptive(**arguments)


# ---------------------------------------------------------------- costs
def test_a_line_is_found() -> None:
    line = Line()
    assert line(3) == 0 and not line.known
    for size in (1, 5, 3, 9, 1, 17, 2):
        line.observe(size, 2.0 + 0.25 * size)
    for size in (1, 4, 30):
        assert line(size) == pytest.approx(2.0 + 0.25 * size)


def test_a_line_follows_what_was_seen_near() -> None:
    """Steps of the true cost (a kernel that is slow beyond 8 tokens) show where they were measured."""
    line = Line()
    for _ in range(20):
        for size in (1, 4, 12):
            line.observe(size, 5.0 if size > 8 else 1.0)
    assert line(12) == pytest.approx(5.0, abs=0.5)
    assert line(4) == pytest.approx(1.0, abs=0.5)


def test_one_wild_measurement_does_not_count_for_much() -> None:
    line = Line()
    for _ in range(30):
        line.observe(1, 1.0)
        line.observe(4, 1.3)
    line.observe(4, 500.0)
    assert line(4) < 2.5


def test_frozen_costs_stay() -> None:
    costs = Costs.of(1.0, 0.5, 0.2)
    before = costs.target(7), costs.draft(3)
    costs.observe(7, 3, 100.0, 100.0)
    assert (costs.target(7), costs.draft(3)) == before == (pytest.approx(4.0), pytest.approx(0.6))


def test_prompts_are_not_taken_for_steps() -> None:
    """The first step of a row evaluates its prompt, which says nothing of the steps to come."""
    pace = Adaptive()
    pace.begin(True)
    place = Place(Context((0,)), FREE, 9, 1)
    outcome = Outcome(0, DraftTree(place, Rules([])), [], [1], place, [0], torch.zeros(1, 8))
    pace.observe([outcome], Seconds(0.0, 9.0, 0.0))
    assert not pace.costs.target.known
    pace.observe([outcome], Seconds(0.0, 1.0, 0.0))
    assert pace.costs.target(1) == pytest.approx(1.0)


def test_a_first_draft_that_took_long_by_accident_does_not_end_drafting() -> None:
    now, calls = 0.0, 0

    class Slow(Fixed):
        """Compiles something in its second draft; the first one is not measured."""

        def draft(self, *args: Any) -> list[DraftTree]:
            nonlocal now, calls
            calls += 1
            now += 500.0 if calls == 2 else 0.01
            return super().draft(*args)

    class Clocked(TabularModel):
        def next_logprobs(self, contexts: Any) -> torch.Tensor:
            nonlocal now
            now += 1.0 + 0.02 * len(contexts)
            return super().next_logprobs(contexts)

    plain = cycle(1)
    model = Clocked(8, 7, lambda prefix: plain.next_logprobs([plain.context(prefix)])[0].exp().tolist(), memory=1)
    pace = Adaptive(clock=lambda: now)
    requests = [Request([0], None, 200, 0)]
    rounds = list(decode(model, requests, Slow(plain), verifier=Greedy(), shape=Branches(1, 1, 1, 1), settings=GREEDY, pace=pace))
    assert drafted(rounds)[-20:-1] == [4] * 19
    assert pace.costs.draft(4) == pytest.approx(0.01, rel=0.5)


def test_drafts_are_made_about_as_large_as_they_are_kept() -> None:
    class Wide(Fixed):
        limits: list[int] = []

        def draft(self, places: Any, shapes: Any, step: Any, generators: Any) -> list[DraftTree]:
            self.limits += step.limits
            return super().draft(places, shapes, step, generators)

    drafter = Wide(cycle(1))
    run(drafter, Adaptive(64, costs=Costs.of(1.0, 0.02, 0.0)))
    assert drafter.limits[0] == 64 and drafter.limits[-1] <= 16
