"""The token budget against its definition."""

from __future__ import annotations

import random

import numpy as np
import pytest

from grammars import Automaton, Choice, ConstraintError, Gbnf, Regex, Vocabulary
from samplers.budget import Budget, Plan

GRAMMARS = [
    Regex(r"(ab|a(the)*c){2,4}|\{.{0,6}\}"),
    Choice(["the", "the the", "12", "1200120012", "null", "x"]),
    Gbnf('root ::= "(" root* ")" | "12" [0-9]*'),
]


def tokens_of(row: np.ndarray) -> set[int]:
    return {t for t in range(len(row) * 32) if row[t >> 5] >> (t & 31) & 1}


@pytest.mark.parametrize("constraint", GRAMMARS, ids=str)
def test_the_mask_is_the_definition(byte_vocab: Vocabulary, constraint: Regex) -> None:
    automaton = constraint.compile(byte_vocab)
    budget, rng = Budget(automaton), random.Random(0)
    for _ in range(30):
        left = budget.need(automaton.start) + rng.randrange(6)
        state: int = automaton.start
        plan: Plan = None
        while state != automaton.DONE:
            row = np.zeros(automaton.words, np.int32)
            budget.fill(state, left, plan, row)
            found = tokens_of(row)
            assert found == definition(automaton, state, left, plan), (state, left)
            token = rng.choice(sorted(found))
            left -= 1
            state, plan = budget.advance(state, plan, token, left)
            assert left >= 0


def definition(automaton: Automaton, state: int, left: int, plan: Plan) -> set[int]:
    ends = set(automaton.vocabulary.eos_token_ids)
    allowed = {t for t in range(automaton.vocabulary.size) if automaton.allows(state, t)}
    first = (automaton.shortest_completion(state) if plan is None else list(plan))[:1]
    return {
        t for t in allowed if t in ends or t in first or len(automaton.shortest_completion(automaton.advance(state, t))) + 1 <= left - 1
    }


def test_a_plan_is_carried_where_the_shortest_completion_does_not_fit() -> None:
    """Two shortest texts of one length: after ``x`` the second is proposed, which takes more tokens; the first one's plan must hold."""
    vocabulary = Vocabulary([b"x", b"a", b"b", b"c", b"d", b"ab", b""], eos_token_ids=[6])

    class Awkward:
        """The automaton of ``xab|xcd`` that proposes ``x ab`` at the start and ``c d`` after ``x``."""

        DEAD, DONE, start, words = 0, 1, 2, 1
        edges = {2: {0: 3}, 3: {1: 4, 5: 5, 3: 6}, 4: {2: 5}, 6: {4: 5}, 5: {6: 1}}
        shortest = {2: [0, 5], 3: [3, 4], 4: [2], 5: [], 6: [4]}

        def advance(self, state: int, token: int) -> int:
            return self.edges[state].get(token, 0)

        def fill_mask(self, state: int, row: np.ndarray) -> None:
            row[0] = sum(1 << t for t in self.edges[state])

        def completion_costs(self, state: int) -> tuple[np.ndarray, np.ndarray]:
            pairs = [(t, len(self.shortest[s])) for t, s in self.edges[state].items() if t != 6]
            return np.array([t for t, _ in pairs], np.int32), np.array([n for _, n in pairs], np.int64)

        def completion_bound(self, state: int) -> float:
            return float("inf")

        def shortest_completion(self, state: int) -> list[int]:
            return self.shortest[state]

    automaton: Automaton = Awkward()  # type: ignore[assignment]
    assert vocabulary.decode(automaton.shortest_completion(2)) == b"xab"
    budget, state, left = Budget(automaton), 2, 3
    plan: Plan = None
    budget.check(left)
    taken = []
    while state != automaton.DONE:
        row = np.zeros(1, np.int32)
        budget.fill(state, left, plan, row)
        (token,) = tokens_of(row)
        left -= 1
        state, plan = budget.advance(state, plan, token, left)
        taken.append(token)
    assert taken == [0, 5, 6] and left == 0


def test_too_small_a_budget_names_the_least(byte_vocab: Vocabulary) -> None:
    budget = Budget(Choice(["12the", "the12 the"]).compile(byte_vocab))
    assert budget.need(budget.automaton.start) == 3
    budget.check(3)
    with pytest.raises(ConstraintError, match=r"needs 3 tokens .* at least 3 tokens"):
        budget.check(2)
