"""Packed masks applied where the logits are: one function, the fastest way there is on their device.

Every way gives the same logits, bit for bit; :func:`mask_logits_reference` says in plain torch what they are.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch

__all__ = ["FREE", "allowed_tokens", "mask_logits", "mask_logits_reference"]

FREE = 0  # number of the mask that leaves a row as it is

_MINUS_INFINITY: dict[torch.dtype, tuple[torch.dtype, np.integer]] = {
    torch.float64: (torch.int64, np.int64(np.float64("-inf").view(np.int64))),
    torch.float32: (torch.int32, np.int32(np.float32("-inf").view(np.int32))),
    torch.float16: (torch.int16, np.int16(np.float16("-inf").view(np.int16))),
    torch.bfloat16: (torch.int16, np.int16(np.float32("-inf").view(np.int32) >> 16)),  # the upper half of a float32
}
"""Integers of a float type's width, and the bit pattern of minus infinity in them."""


@functools.cache
def _bit_numbers(device: torch.device) -> torch.Tensor:
    return torch.arange(8, dtype=torch.uint8, device=device)


def allowed_tokens(table: torch.Tensor, rows: torch.Tensor, width: int) -> torch.Tensor:
    """``bool[len(rows), width]``: what masks allow.

    Args:
        table: ``int32[masks, words]`` with ``32 * words >= width``, bit ``t % 32`` of word ``t // 32`` for token ``t``.
        rows: ``int[n]``, numbers of masks, on the table's device.
        width: number of tokens.

    Cost: one byte a token, and no further memory but the gathered masks.
    """
    packed = table[rows].view(torch.uint8)
    if table.device.type == "cpu":
        return torch.from_numpy(np.unpackbits(packed.numpy(), axis=1, count=width, bitorder="little").view(np.bool_))
    return _expanded(packed)[:, :width]


def _expanded(packed: torch.Tensor) -> torch.Tensor:
    """The bits of ``uint8[n, k]`` as ``bool[n, 8 * k]``, lowest first, in torch: one byte a bit and nothing beside it."""
    bits = packed.unsqueeze(-1) >> _bit_numbers(packed.device)
    return bits.bitwise_and_(1).view(torch.bool).flatten(1)


def mask_logits_reference(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """What :func:`mask_logits` does, in plain torch: for every device, and with gradients."""
    allowed = allowed_tokens(table, rows, logits.shape[-1])
    masked = torch.where(allowed, logits, float("-inf"))
    revived = (masked.amax(-1, keepdim=True) == float("-inf")) & allowed
    return torch.where(rows[:, None] == FREE, logits, masked.masked_fill(revived, 0.0))


def _on_cpu(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    from .kernels.cpu import mask_rows

    integers, lowest = _MINUS_INFINITY[logits.dtype]
    scores = logits.contiguous().view(integers)
    out = torch.empty_like(scores)
    mask_rows(scores.numpy(), table.numpy(), rows.to(torch.int32).numpy(), out.numpy(), lowest)
    return out.view(logits.dtype)


def _on_cuda(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    from .kernels.cuda import mask_rows

    scores = logits if logits.stride(1) == 1 else logits.contiguous()
    with torch.cuda.device(logits.device):  # Triton launches on the current device
        return mask_rows(scores, table, rows.to(torch.int32))


@functools.cache
def _fused(device: str) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] | None:
    """The fused function of a kind of device; ``None`` where there is none."""
    if device == "cpu":
        return _on_cpu
    if device == "cuda" and os.environ.get("GUIDED_TRITON", "1") != "0" and find_spec("triton") is not None:
        return _on_cuda
    return None


def mask_logits(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """``logits`` with minus infinity for every token that the row's mask does not allow; always new memory.

    Where all that is allowed is minus infinity already (something else has banned it), the allowed tokens become zero: equally
    likely. A row whose mask is :data:`FREE` is left as it is.

    Args:
        logits: ``float[n, width]``.
        table: ``int32[masks, words]`` on the same device, contiguous, with ``32 * words >= width``, bit ``t % 32`` of word ``t // 32``
            for token ``t``.
        rows: ``int[n]`` on the same device, the number of each row's mask.

    On a CPU a numba kernel does it in one pass, on a CUDA device a Triton kernel (gather, expand and select in one; plain torch where
    Triton is not installed, or with ``GUIDED_TRITON=0`` in the environment), elsewhere plain torch.
    """
    fused = _fused(logits.device.type)
    if fused is None or logits.dtype not in _MINUS_INFINITY or (logits.requires_grad and torch.is_grad_enabled()):
        return mask_logits_reference(logits, table, rows)
    return fused(logits.detach(), table, rows)
