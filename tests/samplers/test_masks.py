"""The table of packed masks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import torch

from grammars import Automaton, Regex, Vocabulary
from samplers.masks import MaskTable, serial

Mask = tuple[int, Callable[[np.ndarray], None]]


def mask(key: int, tokens: Iterable[int], calls: list[int]) -> Mask:
    def fill(row: np.ndarray) -> None:
        calls.append(key)
        view = row.view(np.uint32)
        for token in tokens:
            view[token >> 5] |= np.uint32(1 << (token & 31))

    return key, fill


def allowed(table: MaskTable, wanted: Sequence[Mask | None]) -> list[list[int]]:
    def fill(i: int, row: np.ndarray) -> None:
        pair = wanted[i]
        assert pair is not None
        pair[1](row)

    selection = table.select([None if pair is None else pair[0] for pair in wanted], fill)
    return [row.nonzero().flatten().tolist() for row in selection.allowed()]


def test_rows_are_filled_once_and_unpacked() -> None:
    calls: list[int] = []
    table = MaskTable(70)
    sets = [[0, 31, 32, 63, 64, 69], [5], []]
    wanted = [mask(i, tokens, calls) for i, tokens in enumerate(sets)]
    assert allowed(table, [wanted[0], None, wanted[1], wanted[0], wanted[2]]) == [sets[0], list(range(70)), sets[1], sets[0], sets[2]]
    assert allowed(table, [wanted[1]]) == [sets[1]]
    assert sorted(calls) == [0, 1, 2]


def test_it_grows_and_stays_within_its_bound() -> None:
    calls: list[int] = []
    table = MaskTable(64, max_bytes=100 * 8)
    for i in range(1_000):
        pair = [mask(i, [i % 64], calls), mask(i // 2, [(i // 2) % 64], calls)]
        assert allowed(table, pair) == [[i % 64], [(i // 2) % 64]]
        assert len(table) <= table.max_rows == 100
    assert len(calls) > 1_000, "rows that were dropped are filled again"


def test_more_ids_than_logits() -> None:
    calls: list[int] = []
    table = MaskTable(40, words=3)
    assert allowed(table, [mask(0, [3, 39, 41, 90], calls)]) == [[3, 39]]


def test_a_selection_stays_good_when_the_table_starts_anew() -> None:
    calls: list[int] = []
    table = MaskTable(64, max_bytes=64 * 8)
    kept = []
    for i in range(300):
        first, second = mask(2 * i, [i % 64], calls), mask(2 * i + 1, [(i + 7) % 64, 3], calls)
        fill = {0: first[1], 1: second[1]}
        kept.append((i, table.select([first[0], None, second[0]], lambda n, row, fill=fill: fill[n // 2](row))))
    logits = torch.ones((3, 64))
    for i, selection in kept:
        expected = [[i % 64], list(range(64)), sorted({(i + 7) % 64, 3})]
        assert [row.nonzero().flatten().tolist() for row in selection.allowed()] == expected
        assert [(row == 1).nonzero().flatten().tolist() for row in selection.apply(logits)] == expected


def test_equal_keys_are_filled_once_in_a_step() -> None:
    filled: list[int] = []

    def fill(i: int, row: np.ndarray) -> None:
        filled.append(i)
        row[0] = 1 << i

    selection = MaskTable(32).select(["a", "b", "a", None, "b"], fill)
    assert len(filled) == 2
    assert selection.allowed().sum(-1).tolist() == [1, 1, 1, 32, 1]
    assert torch.equal(selection.indices[[0, 1]], selection.indices[[2, 4]])


def start_mask(automaton: Automaton, i: int, row: np.ndarray) -> None:
    automaton.fill_mask(automaton.start, row)


def test_a_table_keeps_no_automaton_alive(byte_vocab: Vocabulary) -> None:
    table = MaskTable(byte_vocab.size)
    automaton = Regex("[0-9]+").compile(byte_vocab)
    number = serial(automaton)
    assert serial(automaton) == number
    selection = table.select([(number, automaton.start)], partial(start_mask, automaton))
    assert set(range(48, 58)) <= set(selection.allowed()[0].nonzero().flatten().tolist())
    alive = weakref.ref(automaton)
    del automaton
    gc.collect()
    assert alive() is None
    assert serial(Regex("[0-9]+").compile(byte_vocab)) != number, "another automaton has other keys"
