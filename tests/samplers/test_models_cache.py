"""The tree of cached prefixes: what lies where after any moves, what is found, what is forgotten first."""

from __future__ import annotations

import random

import numpy as np
import pytest

from samplers.models.cache import ROOT, PrefixTree
from samplers.models.context import Context


class Memory:
    """A tree with the contents of its slots, moved as the tree says."""

    def __init__(self) -> None:
        self.tree = PrefixTree()
        self.held = np.full(0, -1)
        self.stamps: dict[int, int] = {}  # of every node: what its slot must hold
        self.texts: dict[int, tuple[int, ...]] = {ROOT: ()}
        self.moved = 0

    def add(self, text: tuple[int, ...]) -> tuple[int, list[int]]:
        node, matched = self.tree.find(Context(text))
        assert self.texts[node] == text[:matched]
        new = []
        for token in text[matched:]:
            longer = (*self.texts[node], token)
            node = self.tree.add(node, token)
            self.texts[node] = longer
            new.append(node)
        self.tree.touch(node)
        return node, new

    def place(self, leaves: list[int], new: list[int]) -> tuple[int, int]:
        window = self.tree.place(leaves, new, len(self.held))
        if self.tree.slots > len(self.held):
            self.held = np.concatenate([self.held, np.full(self.tree.slots - len(self.held), -1)])
        for moves in window.moves:
            going = self.held[moves.source]
            if moves.swap:
                self.held[moves.source] = self.held[moves.target]
            self.held[moves.target] = going
            self.moved += len(moves.source)
        for node in new:
            self.stamps[node] = max(self.stamps.values(), default=0) + 1
        slots = self.tree.places(new)
        assert slots.tolist() == list(range(window.high - len(new), window.high))
        self.held[slots] = [self.stamps[node] for node in new]
        self.check()
        assert len(self.tree) == len(self.stamps)
        for leaf in leaves:
            path = self.tree.path(leaf)
            assert tuple(self.tree.tokens(path).tolist()) == self.texts[leaf]
            assert self.tree.depths(path).tolist() == list(range(len(path)))
            places = self.tree.places(path)
            assert (places >= window.low).all() and (places < window.high).all()
        return window.low, window.high

    def evict(self, count: int, spare: bool) -> list[int]:
        gone = self.tree.evict(count, spare_touched=spare)
        for node in gone:
            del self.stamps[node], self.texts[node]
        self.check()
        return gone

    def check(self) -> None:
        """Every node is where the tree says, and nodes that remain have their parents."""
        nodes = list(self.stamps)
        assert self.held[self.tree.places(nodes)].tolist() == [self.stamps[node] for node in nodes]
        assert set(self.tree.parents(nodes).tolist()) <= {ROOT, *nodes}


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_where_the_tree_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samplers.models.cache._SLACK", 4)
    monkeypatch.setattr("samplers.models.cache._REMEMBERED", 16)
    rng = random.Random(seed)
    memory = Memory()
    families = [tuple(rng.randrange(5) for _ in range(rng.randrange(1, 40))) for _ in range(4)]
    for _ in range(150):
        memory.tree.tick()
        family = rng.choice(families)
        texts = [(*family, *(rng.randrange(5) for _ in range(rng.randrange(6)))) for _ in range(rng.randrange(1, 5))]
        leaves, new = [], []
        for text in texts:
            leaf, added = memory.add(text)
            leaves.append(leaf)
            new += added
        if len(memory.tree) > 120:
            spared = set(new)
            assert not spared & set(memory.evict(rng.randrange(1, 60), True))
        low, high = memory.place(leaves, new)
        needed = {node for leaf in leaves for node in memory.tree.path(leaf).tolist()}
        assert high - low <= 2 * len(needed) + 4
        if rng.random() < 0.1:
            memory.evict(rng.randrange(100), False)
    assert memory.moved > 0 and len(memory.held) < 400


def test_a_generation_moves_nothing() -> None:
    memory = Memory()
    rows = [(*range(50), i) for i in range(4)]
    for step in range(60):
        memory.tree.tick()
        added = [memory.add(row) for row in rows]
        memory.place([leaf for leaf, _ in added], [node for _, new in added for node in new])
        rows = [(*row, (step + i) % 7) for i, row in enumerate(rows)]
    assert memory.moved == 0


def test_room_is_used_again() -> None:
    memory = Memory()
    for start in range(40):
        memory.tree.tick()
        leaf, new = memory.add(tuple(range(start, start + 30)))
        memory.evict(len(memory.tree) - 60, True)
        memory.place([leaf], new)
    assert len(memory.tree) == 60 and len(memory.held) <= 60 * 4 // 3 + 31


def test_the_least_recently_used_go_first_and_leaves_before_stems() -> None:
    memory = Memory()
    for text in ((1, 2, 3), (1, 2, 4, 5), (6,), (1, 2, 7)):
        memory.tree.tick()
        leaf, new = memory.add(text)
        memory.place([leaf], new)
    memory.tree.tick()
    texts = memory.texts.copy()
    gone = [texts[node] for node in memory.evict(4, True)]
    assert gone == [(1, 2, 3), (1, 2, 4, 5), (1, 2, 4), (6,)]
    assert [texts[node] for node in memory.evict(9, False)] == [(1, 2, 7), (1, 2), (1,)]
    assert memory.tree.find(Context((1, 2))) == (ROOT, 0)


def test_nothing_in_use_is_evicted() -> None:
    memory = Memory()
    memory.tree.tick()
    leaf, new = memory.add((1, 2, 3))
    memory.place([leaf], new)
    assert memory.evict(2, True) == [] and memory.tree.touched == 3
    assert memory.tree.find(Context((1, 2)).extend((3, 4))) == (leaf, 3)
