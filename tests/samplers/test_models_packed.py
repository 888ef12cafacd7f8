"""Packed linear layers: the same answers to rounding, and never those of other weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from samplers.models import HFModel
from samplers.models.packed import PackedLinears
from tests import tiny

SIZE = 1024  # weights of a layer that is large enough


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE // 2, bias=False), nn.Linear(SIZE // 2, 8))


def forwards(network: nn.Module) -> list[bool]:
    """Which layers have a ``forward`` of their own."""
    return ["forward" in layer.__dict__ for layer in network.children()]


@torch.inference_mode()
def test_answers_are_the_same(network: nn.Module) -> None:
    packed = PackedLinears(network)
    for shape in ((4, SIZE), (1, 4, SIZE), (4, 1, SIZE), (32, SIZE)):
        states = torch.randn(shape)
        expected = network(states)
        with packed.active(states.numel() // SIZE):
            assert forwards(network) == [True, True, False]  # the last one is small
            found = network(states)
        assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)
        assert forwards(network) == [False] * 3


def test_only_for_some_tokens_and_weights(network: nn.Module) -> None:
    packed = PackedLinears(network)
    for tokens in (1, 3, 33, 1000):
        with packed.active(tokens):
            assert forwards(network) == [False] * 3
    with packed.active(8), packed.active(8):  # within another use of the same layers
        assert forwards(network) == [True, True, False]
    network.double()
    with packed.active(8):
        assert forwards(network) == [False] * 3


@torch.inference_mode()
def test_changed_weights_are_packed_again(network: nn.Module) -> None:
    packed, states = PackedLinears(network), torch.randn(8, SIZE)
    with packed.active(8):
        before = network(states)
    network[0].weight.mul_(2)  # type: ignore[index]
    expected = network(states)
    with packed.active(8):
        found = network(states)
    assert torch.allclose(found, expected, atol=1e-5) and not torch.allclose(found, before, atol=1e-3)


@torch.inference_mode()
def test_an_error_leaves_the_layers_as_they_were(network: nn.Module) -> None:
    with pytest.raises(RuntimeError), PackedLinears(network).active(8):
        network(torch.randn(8, 3))
    assert forwards(network) == [False] * 3


def test_a_language_model_with_packed_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samplers.models.packed._LEAST", 1)
    network = tiny.llama(40, seed=2, scale=3.0)
    plain, packed = HFModel(network), HFModel(network)
    packed.pack()
    assert PackedLinears.of(network) is PackedLinears.of(network)
    contexts = [plain.context([1, 2, 3, *range(4, 4 + n)]) for n in range(1, 12)]
    assert torch.allclose(plain.next_logprobs(contexts), packed.next_logprobs(contexts), atol=1e-4)
