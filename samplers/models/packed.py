"""Linear layers with their weights packed for a few tokens at once.

A forward of one token reads every weight once, and that is what it costs. For some to a few dozen tokens (drafts, beams, particles) the
weights still are most of the traffic, but the matrix product that torch takes for float32 on a CPU lays them out anew in every call, which
can cost more than the product. oneDNN keeps a copy that is laid out already. So: about twice the memory, and several tokens for little
more than the price of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

__all__ = ["PackedLinears"]

_TOKENS = range(4, 33)  # below, the plain product reads the weights once as well; above, both are bound by arithmetic
_LEAST = 1 << 19  # weights of a layer: smaller ones are laid out in no time


class PackedLinears:
    """Packed copies of a model's large linear layers, used within :meth:`active`.

    Only layers of the plain kind are taken (``nn.Linear`` itself, float32, on the CPU, without a ``forward`` of their own); they are packed
    when they are first used, and again when their weights have changed.

    Args:
        model: any module.
    """

    def __init__(self, model: nn.Module) -> None:
        known = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        self._layers = [_Packed(m) for m in model.modules() if type(m) is nn.Linear] if known else []
        self._layers = [layer for layer in self._layers if layer.module.weight.numel() >= _LEAST]

    @classmethod
    def of(cls, model: nn.Module) -> PackedLinears:
        """Those of ``model``: the same ones each time."""
        found = _made.get(model)
        if found is None:
            found = _made[model] = cls(model)
        return found

    @contextmanager
    def active(self, tokens: int) -> Iterator[None]:
        """Within, the layers use their packed weights if that is likely to be faster for so many tokens. For inference only."""
        if tokens not in _TOKENS:
            yield
            return
        used = [layer for layer in self._layers if layer.ready()]
        for layer in used:
            layer.module.__dict__["forward"] = layer.forward
        try:
            yield
        finally:
            for layer in used:
                del layer.module.__dict__["forward"]


class _Packed:
    """One layer.

    Attributes:
        module: the layer.
        forward: what replaces its ``forward``; made by :meth:`ready`.
    """

    def __init__(self, module: nn.Linear) -> None:
        self.module = module
        self.forward: Callable[[torch.Tensor], torch.Tensor] = module.forward
        self._state: Any = None

    def ready(self) -> bool:
        """Whether it may be used now; packs the weights where that is needed."""
        weight = self.module.weight
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or "forward" in self.module.__dict__ or not weight.is_contiguous():
            return False
        state = (weight.data_ptr(), weight._version)
        if state != self._state:
            self.forward = _forward(weight.detach(), self.module.bias)
            self._state = state
        return True


def _forward(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    product = torch.ops.mkldnn._linear_pointwise
    width = weight.shape[0]

    def forward(states: torch.Tensor) -> torch.Tensor:
        rows = states.reshape(-1, states.shape[-1])
        found: torch.Tensor = product(rows, packed, bias, "none", [], "")
        return found.view(*states.shape[:-1], width)

    return forward


_made: WeakKeyDictionary[nn.Module, PackedLinears] = WeakKeyDictionary()
