"""Logits on a CUDA device: gather and mask in one Triton kernel, so that a step moves neither masks nor booleans through memory.

Importing this module imports Triton; :mod:`samplers.device` does so only where it is needed. With ``TRITON_INTERPRET=1`` in the
environment the kernels run on the CPU, which is how they are tested without a device.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["mask_rows"]

_BLOCK = 4096  # tokens a program; a row of 131,072 tokens is 32 programs, so that one row already fills part of a device


@triton.jit
def _gather_and_mask(scores, table, rows, out, alive, width, words, stride, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """``out = scores where allowed else -inf``; ``alive[row]`` is raised where an allowed score is above minus infinity."""
    row = tl.program_id(0).to(tl.int64)
    tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = tokens < width
    index = tl.load(rows + row).to(tl.int64)
    bits = tl.load(table + index * words + (tokens >> 5), mask=inside, other=0)
    bits = tl.where(index == 0, -1, bits)
    allowed = inside & (((bits >> (tokens & 31)) & 1) != 0)
    kept = tl.load(scores + row * stride + tokens, mask=allowed, other=float("-inf"))
    tl.store(out + row * width + tokens, kept, mask=inside)
    found = tl.max((kept != float("-inf")).to(tl.int32), axis=0)
    tl.atomic_max(alive + row, found | (index == 0).to(tl.int32))


@triton.jit
def _revive(table, rows, out, alive, width, words, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Zero for every allowed token of the rows that are not alive; the others are left after one load."""
    row = tl.program_id(0).to(tl.int64)
    tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    dead = tokens < tl.where(tl.load(alive + row) == 0, width, 0)
    index = tl.load(rows + row).to(tl.int64)
    bits = tl.load(table + index * words + (tokens >> 5), mask=dead, other=0)
    allowed = dead & (((bits >> (tokens & 31)) & 1) != 0)
    tl.store(out + row * width + tokens, tl.zeros([BLOCK], out.dtype.element_ty), mask=allowed)


def mask_rows(scores: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """``scores`` with minus infinity for every token that the row's mask does not allow, as new memory.

    Where all that is allowed is minus infinity already, the allowed tokens become zero. A row whose mask is number 0 is copied.

    Args:
        scores: ``float[n, width]``, contiguous along the tokens.
        table: ``int32[masks, words]``, contiguous, with ``32 * words >= width``.
        rows: ``int32[n]``, the mask of each row.

    Cost: reads the allowed scores and the masks' words, writes the result; two launches.
    """
    n, width = scores.shape
    out = torch.empty((n, width), dtype=scores.dtype, device=scores.device)
    if not n:
        return out
    alive = torch.zeros(n, dtype=torch.int32, device=scores.device)
    grid: Any = (n, triton.cdiv(width, _BLOCK))
    _gather_and_mask[grid](scores, table, rows, out, alive, width, table.shape[1], scores.stride(0), BLOCK=_BLOCK)
    _revive[grid](table, rows, out, alive, width, table.shape[1], BLOCK=_BLOCK)
    return out
