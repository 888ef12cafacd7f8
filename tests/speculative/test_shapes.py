"""Tree shapes: what they grow, and that the best ones are the best ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest

from samplers.models import Context
from speculative.protocol import Outcome
from speculative.rules import FREE, Place, Rules
from speculative.shapes import Acceptance, Branches, Chain, DySpec, OptTree, Puct, Sequoia, Template, best_tree, expected_tokens
from speculative.tree import DraftTree

LAW = (0.6, 0.25, 0.1, 0.05)
"""Chances of the children of every node, by rank."""


def empty() -> DraftTree:
    return DraftTree(Place(Context((1,)), FREE, 50, 1), Rules([99]))


def grown(shape: Any, limit: int = 64, depth: int = 64, law: Sequence[float] = LAW) -> DraftTree:
    """A tree of fixed proposals, token ``r`` being the child of rank ``r``."""
    tree, fresh = empty(), [0]
    for _ in range(1000):
        wanted = shape.grow(tree, fresh, limit, depth)
        if not wanted:
            return shape.finish(tree, limit)
        size = len(tree)
        for node, count in wanted:
            first = len(tree.children(node))
            for rank in range(first, min(first + count, len(law))):
                tree.add(node, rank, chance=law[rank])
            if first + count > len(law):
                tree.closed.add(node)
        fresh = list(range(size, len(tree)))
    raise AssertionError("the shape goes on for ever")


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[n] for n in tree.path(node)) for node in range(1, len(tree))}


def value(tree: DraftTree, law: Sequence[float] = LAW) -> float:
    """Expected number of accepted nodes where a child of rank r is taken with probability law[r]."""
    return sum(math.prod(law[rank] for rank in path) for path in paths(tree))


# ---------------------------------------------------------------- known beforehand
def test_chain() -> None:
    assert paths(grown(Chain(3))) == {(0,), (0, 0), (0, 0, 0)}
    assert grown(Chain(9), limit=4).size == 4
    assert grown(Chain(9), depth=2).size == 2


def test_branches() -> None:
    tree = grown(Branches(3, 2))
    assert paths(tree) == {(a,) for a in range(3)} | {(a, b) for a in range(3) for b in range(2)}
    assert paths(grown(Branches(3, 2), limit=5)) == {(0,), (1,), (2,), (0, 0), (0, 1)}


def test_template_has_what_leads_to_its_paths() -> None:
    shape = Template([(1, 0, 1), (2,)])
    expected = {(0,), (1,), (2,), (1, 0), (1, 0, 0), (1, 0, 1)}
    assert set(shape.paths) == expected and shape.size == 6 and shape.depth == 3
    assert paths(grown(shape)) == expected


@pytest.mark.parametrize("bad", [lambda: Chain(0), lambda: Branches(2, 0), lambda: Template([]), lambda: Template([(-1,)])])
def test_bad_arguments(bad: Any) -> None:
    with pytest.raises(ValueError):
        bad()


# ---------------------------------------------------------------- Sequoia
def all_trees(size: int, ranks: int, depth: int) -> list[frozenset[tuple[int, ...]]]:
    """Every tree of ``size`` nodes, as its paths: whatever has a parent and an elder sibling."""
    found = {frozenset[tuple[int, ...]]()}
    for _ in range(size):
        bigger = set()
        for tree in found:
            for parent in [(), *tree]:
                rank = sum(1 for path in tree if path[:-1] == parent and len(path) == len(parent) + 1)
                if rank < ranks and len(parent) < depth:
                    bigger.add(tree | {(*parent, rank)})
        found = bigger
    return list(found)


@pytest.mark.parametrize(("size", "depth"), [(1, 1), (3, 2), (5, 2), (6, 4)])
@pytest.mark.parametrize("law", [(0.6, 0.25, 0.1), (0.3, 0.29, 0.28), (0.9, 0.01, 0.01)])
def test_sequoia_is_the_best_of_all_trees(size: int, depth: int, law: tuple[float, ...]) -> None:
    best = max(1 + sum(math.prod(law[r] for r in path) for path in tree) for tree in all_trees(size, len(law), depth))
    assert expected_tokens(law, size, depth) == pytest.approx(best)
    tree = best_tree(law, size, depth)
    assert 1 + sum(math.prod(law[r] for r in path) for path in tree) == pytest.approx(best)
    assert len(tree) <= size and max(map(len, tree)) <= depth
    assert paths(grown(Sequoia(size, depth, law), law=law)) == set(tree)


def outcome(tree: DraftTree, path: Sequence[int]) -> Outcome:
    import torch

    return Outcome(0, tree, path, [tree.tokens[n] for n in path], tree.places[0], [], torch.zeros(0, 1))


def test_acceptance_is_measured_by_rank() -> None:
    meter = Acceptance(3, prior=(0.5,), weight=1e-6)
    tree = empty()
    first, second = tree.add(0, 5), tree.add(0, 6)
    assert first and second
    tree.add(second, 7)
    for _ in range(3):
        meter.observe([outcome(tree, [second])])
    meter.observe([outcome(tree, [first])])
    assert meter.vector == pytest.approx((1 / 7, 3 / 4, 0.5), abs=1e-3)


def test_sequoia_follows_what_is_measured() -> None:
    shape = Sequoia(4, 4, Acceptance(4, prior=(0.9, 0.01), weight=1.0), every=10)
    assert set(shape.paths) == {(0,) * n for n in range(1, 5)}
    tree = empty()
    nodes = [tree.add(0, token) for token in range(4)]
    for step in range(40):
        shape.observe([outcome(tree, [nodes[step % 4]])])  # type: ignore[list-item]
    assert {(0,), (1,), (2,), (3,)} == set(shape.paths)


def test_sequoia_for_hardware() -> None:
    free = Sequoia.for_hardware((0.5, 0.3), [1.0] * 20, 0.0)
    dear = Sequoia.for_hardware((0.5, 0.3), [1.0 + 0.5 * n for n in range(20)], 0.0)
    slow = Sequoia.for_hardware((0.5, 0.3), [1.0] * 20, 0.4)
    assert free.size == 19 and dear.size < 5 and slow.depth < free.depth


# ---------------------------------------------------------------- shapes that follow the draft
@pytest.mark.parametrize("size", [3, 6])
def test_trees_that_follow_the_draft_are_the_best_of_all(size: int) -> None:
    best = max(sum(math.prod(LAW[r] for r in path) for path in tree) for tree in all_trees(size, len(LAW), 6))
    assert value(grown(OptTree(size, 6, gain=0.0))) == pytest.approx(best)
    # by the heap, children of a node come one by one; its next draw is worth at least as much as that of any other node
    assert value(grown(DySpec(size, 6))) >= 0.85 * best


def test_opt_tree_stops_where_a_layer_gains_little() -> None:
    assert max(grown(OptTree(32, 10, gain=0.5)).depths) < max(grown(OptTree(32, 10, gain=0.01)).depths)


def test_opt_tree_keeps_to_its_limit() -> None:
    assert grown(OptTree(32), limit=5).size == 5


def test_dyspec_by_threshold_is_the_heap_cut_at_it() -> None:
    heap = grown(DySpec(64, 8))
    layers = grown(DySpec(64, 8, threshold=0.15))
    assert 0 < layers.size < heap.size
    assert paths(layers) <= paths(heap)


def test_puct_adapts_its_size() -> None:
    sure, unsure = grown(Puct(32, 6, least=0.05), law=(0.9, 0.1)), grown(Puct(32, 6, least=0.05), law=(0.2,) * 5)
    assert max(sure.depths) > max(unsure.depths)
    assert len(unsure.children(0)) > len(sure.children(0))
    assert grown(Puct(32, 6), limit=7).size <= 7


@pytest.mark.parametrize("shape", [OptTree(16, 6), DySpec(16, 6), DySpec(16, 6, threshold=0.05), Puct(16, 6)])
def test_nothing_is_grown_where_nothing_can_come(shape: Any) -> None:
    tree = empty()
    tree.closed.add(0)
    assert shape.grow(tree, [0], 16, 16) == []
    for limit, depth in itertools.product((1, 4), (1, 3)):
        tree = grown(shape, limit, depth)
        assert tree.size <= limit and max(tree.depths) <= depth
