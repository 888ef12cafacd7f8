"""The table of packed masks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from samplers.masks import Mask, MaskTable


def mask(key: int, tokens: Iterable[int], calls: list[int]) -> Mask:
    def fill(row: np.ndarray) -> None:
        calls.append(key)
        view = row.view(np.uint32)
        for token in tokens:
            view[token >> 5] |= np.uint32(1 << (token & 31))

    return key, fill


def allowed(table: MaskTable, indices: torch.Tensor) -> list[list[int]]:
    return [row.nonzero().flatten().tolist() for row in table.allowed(indices)]


def test_rows_are_filled_once_and_unpacked() -> None:
    calls: list[int] = []
    table = MaskTable(70)
    sets = [[0, 31, 32, 63, 64, 69], [5], []]
    wanted = [mask(i, tokens, calls) for i, tokens in enumerate(sets)]
    indices = table.indices([wanted[0], None, wanted[1], wanted[0], wanted[2]])
    assert allowed(table, indices) == [sets[0], list(range(70)), sets[1], sets[0], sets[2]]
    assert allowed(table, table.indices([wanted[1]])) == [sets[1]]
    assert sorted(calls) == [0, 1, 2]


def test_it_grows_and_stays_within_its_bound() -> None:
    calls: list[int] = []
    table = MaskTable(64, max_bytes=100 * 8)
    for i in range(1_000):
        pair = [mask(i, [i % 64], calls), mask(i // 2, [(i // 2) % 64], calls)]
        assert allowed(table, table.indices(pair)) == [[i % 64], [(i // 2) % 64]]
        assert len(table) <= table.max_rows == 100
    assert len(calls) > 1_000, "rows that were dropped are filled again"


def test_more_ids_than_logits() -> None:
    calls: list[int] = []
    table = MaskTable(40, words=3)
    assert allowed(table, table.indices([mask(0, [3, 39, 41, 90], calls)])) == [[3, 39]]
