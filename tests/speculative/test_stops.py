"""Stop policies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from samplers.models import Context
from speculative.protocol import Outcome
from speculative.rules import FREE, Place, Rules
from speculative.stops import BanditStop, ConfidenceStop, EntropyStop, FixedStop, entropy
from speculative.tree import DraftTree


def chain(*chances: float | None) -> DraftTree:
    tree = DraftTree(Place(Context((1,)), FREE, 50, 1), Rules([99]))
    node = 0
    for token, chance in enumerate(chances):
        found = tree.add(node, token, chance=chance)
        assert found is not None
        node = found
    return tree


def law(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def test_fixed() -> None:
    tree = chain(0.5, 0.5, 0.5)
    assert [FixedStop(2).go_on(tree, node, None) for node in range(4)] == [True, True, False, False]
    assert FixedStop().go_on(tree, 3, None)


def test_entropy_of_laws_with_holes() -> None:
    assert entropy(law(0.5, 0.5, 0.0)) == pytest.approx(math.log(2))
    assert entropy(law(1.0, 0.0)) == 0


def test_entropy_stops_where_the_draft_is_unsure() -> None:
    stop = EntropyStop(0.5, 0.25)  # goes on up to an entropy of one nat
    assert stop.go_on(chain(), 0, law(0.9, 0.05, 0.05))
    assert not stop.go_on(chain(), 0, law(*[0.2] * 5))
    assert stop.go_on(chain(), 0, None)


def test_confidence() -> None:
    tree = chain(0.9, 0.5, None, 0.5)
    assert [ConfidenceStop(0.6).go_on(tree, node, None) for node in range(5)] == [True, True, False, True, False]
    assert [ConfidenceStop(0.3, path=True).go_on(tree, node, None) for node in range(5)] == [True, True, True, True, False]


def play(stop: BanditStop, accepted: int, steps: int) -> list[int]:
    """Steps of a target that accepts up to ``accepted`` tokens."""
    lengths = []
    for _ in range(steps):
        lengths.append(stop.length)
        tokens = [0] * (min(accepted, stop.length) + 1)
        tree = chain(*[None] * stop.length)
        stop.observe([Outcome(0, tree, [], tokens, tree.places[0], [], torch.zeros(0, 1))])
    return lengths


@pytest.mark.parametrize(("accepted", "best"), [(0, 0), (3, 3), (12, 12)])
def test_the_bandit_finds_the_length(accepted: int, best: int) -> None:
    lengths = play(BanditStop((0, 1, 3, 6, 12), cost=0.2, width=0.1), accepted, 400)
    assert lengths[:5] == [0, 1, 3, 6, 12]
    assert lengths[200:].count(best) > 150


def test_the_bandit_goes_down_to_its_length() -> None:
    stop = BanditStop((2,))
    assert [stop.go_on(chain(0.5, 0.5), node, None) for node in range(3)] == [True, True, False]


@pytest.mark.parametrize("lengths", [(), (-1,)])
def test_bad_arguments(lengths: Sequence[int]) -> None:
    with pytest.raises(ValueError):
        BanditStop(lengths)
    with pytest.raises(ValueError):
        EntropyStop(1.5)
    with pytest.raises(ValueError):
        ConfidenceStop(-0.1)
