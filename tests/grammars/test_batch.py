"""Masks of a batch in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import guided
from grammars import Automaton, Choice, ConstraintError, DeadEnd, Regex, Vocabulary, fill_masks


@pytest.fixture
def automaton(byte_vocab: Vocabulary) -> Automaton:
    return Regex("(the|null|x{1,9}){1,4}").compile(byte_vocab)


def some_states(automaton: Automaton, count: int, seed: int) -> list[int]:
    """States along random texts, some of them several times."""
    generator = np.random.default_rng(seed)
    states = [automaton.start]
    while len(states) < count:
        bits = np.unpackbits(automaton.mask(states[-1]).view(np.uint8), bitorder="little")
        after = automaton.advance(states[-1], int(generator.choice(np.flatnonzero(bits))))
        states += [after, states[int(generator.integers(len(states)))]] if after != automaton.DONE else [after, automaton.start]
    return states[:count]


@pytest.mark.parametrize("count", [0, 1, 5, 8, 9, 64])
@pytest.mark.parametrize("kind", ["list", "int64", "int32"])
def test_rows_of_one_automaton(automaton: Automaton, count: int, kind: str) -> None:
    states: Any = some_states(automaton, count, seed=count)
    rows = np.full((count, automaton.words), 7, np.int32)
    fill_masks(automaton, states if kind == "list" else np.array(states, kind), rows)
    for state, row in zip(states, rows):
        assert np.array_equal(row, automaton.mask(state))
    assert guided.fill_masks is fill_masks


@pytest.mark.parametrize("count", [4, 40])
def test_rows_of_several_automata_and_free_ones(automaton: Automaton, byte_vocab: Vocabulary, count: int) -> None:
    wider = Vocabulary(byte_vocab.tokens, byte_vocab.eos_token_ids, byte_vocab.special_token_ids, logits_size=32 * (automaton.words + 2))
    others = [automaton, None, Choice(["xx", "the"]).compile(byte_vocab), Regex("[a-z]*").compile(wider)]
    owners = [others[i % 4] for i in range(count)]
    states = [-5 if owner is None else owner.start for owner in owners]
    rows = np.full((count, automaton.words + 2), 7, np.int32)
    fill_masks(owners, states, rows)
    for owner, state, row in zip(owners, states, rows):
        if owner is None:
            assert (row == -1).all()
        else:
            assert np.array_equal(row[: owner.words], owner.mask(state)) and not row[owner.words :].any()


def test_rows_that_do_not_lie_together(automaton: Automaton) -> None:
    states = some_states(automaton, 30, seed=3)
    block = np.zeros((30, 2 * automaton.words), np.int32)
    fill_masks(automaton, states, block[:, ::2])
    for state, row in zip(states, block):
        assert np.array_equal(row[::2], automaton.mask(state)) and not row[1::2].any()


def test_what_does_not_fit(automaton: Automaton) -> None:
    start, words = automaton.start, automaton.words
    for states, rows in [
        ([start], np.zeros((2, words), np.int32)),
        ([start], np.zeros(words, np.int32)),
        ([start], np.zeros((1, words), np.int64)),
    ]:
        with pytest.raises(ConstraintError, match="one row of int32 words a state"):
            fill_masks(automaton, states, rows)
    with pytest.raises(ConstraintError, match="2 automata, 1 states"):
        fill_masks([automaton, None], [start], np.zeros((1, words), np.int32))
    with pytest.raises(ConstraintError, match=rf"int32\[{words}\], and the rows have {words - 1} words"):
        fill_masks(automaton, [start], np.zeros((1, words - 1), np.int32))
    with pytest.raises(DeadEnd):
        fill_masks(automaton, [start, automaton.DEAD], np.zeros((2, words), np.int32))
