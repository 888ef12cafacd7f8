"""Masks applied where the logits are: every way gives what plain torch gives."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from samplers import device

ROOT = Path(__file__).resolve().parent.parent.parent
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def example(dtype: torch.dtype, width: int, spare: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits (a row all banned, one with bans, NaN and infinities among them), a table of masks, and the rows' masks."""
    made = torch.Generator().manual_seed(width)
    logits = torch.randn((7, width), generator=made).to(dtype)
    logits[3] = float("-inf")
    logits[2, ::3] = float("-inf")
    logits[4, 5], logits[4, 6], logits[5, 0] = float("nan"), float("inf"), -0.0
    words = -(-width // 32) + spare
    table = torch.randint(-(2**31), 2**31 - 1, (9, words), dtype=torch.int32, generator=made)
    table[device.FREE], table[1], table[7] = -1, 0, -1
    table[1, 1] = 4
    return logits, table, torch.tensor([0, 1, 2, 3, 4, 7, 8], dtype=torch.int32)


def by_the_book(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The definition, token by token."""
    out = logits.clone()
    for r, mask in enumerate(rows.tolist()):
        if mask == device.FREE:
            continue
        bits = sets(table, [mask], logits.shape[1])[0]
        scores = logits[r].tolist()
        banned = not any(bit and score != float("-inf") for bit, score in zip(bits, scores))
        for t, bit in enumerate(bits):
            if not bit or banned:
                out[r, t] = 0.0 if bit else float("-inf")
    return out


def sets(table: torch.Tensor, masks: list[int], width: int) -> list[list[bool]]:
    words = table.tolist()
    return [[bool(words[mask][t // 32] >> (t % 32) & 1) for t in range(width)] for mask in masks]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and bool(((a == b) | (a.isnan() & b.isnan())).all()) and torch.equal(a.signbit(), b.signbit())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("width", "spare"), [(64, 0), (70, 0), (33, 2), (300, 1)])
def test_every_way_gives_what_the_definition_says(dtype: torch.dtype, width: int, spare: int) -> None:
    logits, table, rows = example(dtype, width, spare)
    before = logits.clone()
    expected = by_the_book(logits, table, rows)
    assert same_bits(device.mask_logits_reference(logits, table, rows), expected)
    masked = device.mask_logits(logits, table, rows)
    assert same_bits(masked, expected)
    assert same_bits(logits, before) and masked.data_ptr() != logits.data_ptr()
    allowed = device.allowed_tokens(table, rows, width)
    assert allowed.tolist() == sets(table, rows.tolist(), width)
    assert torch.equal(device._expanded(table[rows].view(torch.uint8))[:, :width], allowed), "as other devices find it"


def test_a_slice_of_wider_logits() -> None:
    logits, table, rows = example(torch.float32, 100)
    wide = torch.cat([logits, torch.zeros_like(logits)], dim=1)[:, :100]
    assert not wide.is_contiguous()
    assert same_bits(device.mask_logits(wide, table, rows), by_the_book(logits, table, rows))
    assert device.mask_logits(wide[:0], table, rows[:0]).shape == (0, 100)


def test_gradients_pass_through() -> None:
    logits, table, rows = example(torch.float64, 70)
    logits = logits.nan_to_num(0.0, 1.0, -1.0).requires_grad_()
    masked = device.mask_logits(logits, table, rows)
    masked.where(masked.isfinite(), 0.0).sum().backward()
    assert logits.grad is not None
    rest = device.allowed_tokens(table, rows, 70).double()
    assert torch.equal(logits.grad, rest)


def test_where_there_is_no_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIDED_TRITON", "0")
    device._fused.cache_clear()
    assert device._fused("cuda") is None and device._fused("mps") is None
    device._fused.cache_clear()


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_triton_kernel_in_its_interpreter() -> None:
    code = """
import torch
from samplers.kernels.cuda import mask_rows
from tests.samplers.test_device import TYPES, by_the_book, example, same_bits
for dtype in TYPES:
    for width, spare in [(64, 0), (70, 0), (33, 2), (4100, 1)]:
        logits, table, rows = example(dtype, width, spare)
        assert same_bits(mask_rows(logits, table, rows), by_the_book(logits, table, rows)), (dtype, width)
        wide = torch.cat([logits, logits], dim=1)[:, :width]
        assert same_bits(mask_rows(wide, table, rows), by_the_book(logits, table, rows)), (dtype, width)
assert mask_rows(logits[:0], table, rows[:0]).shape == (0, 4100)
print("the same")
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert run.stdout.strip() == "the same", run.stderr[-2000:]
