"""Logits in main memory: the mask is applied in one pass, over the bit patterns of the floats, so that one function serves every type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["mask_rows"]


@njit(cache=True, nogil=True)
def mask_rows(scores: NDArray[Any], table: NDArray[np.int32], rows: NDArray[np.int32], out: NDArray[Any], lowest: Any) -> None:
    """Writes ``scores`` into ``out``, ``lowest`` in place of every token that the row's mask does not allow.

    Where all that is allowed is ``lowest`` already, the allowed tokens become zero. A row whose mask is number 0 is copied.

    Args:
        scores: ``intN[n, width]``, bit patterns of N-bit floats.
        table: ``int32[masks, words]`` with ``32 * words >= width``, bit ``t % 32`` of word ``t // 32`` for token ``t``.
        rows: ``int32[n]``, the mask of each row.
        out: like ``scores``; other memory than theirs.
        lowest: ``intN``, the bit pattern of minus infinity.

    Cost: a fill, and a masked copy of the 32-token words of which some are allowed (the form that vectorises best).
    """
    width = scores.shape[1]
    full = width // 32
    for r in range(len(rows)):
        source, target, mask = scores[r], out[r], table[rows[r]]
        if rows[r] == 0:
            target[:] = source
            continue
        target[:] = lowest
        for word in range(full):
            bits = mask[word]
            if bits != 0:
                for j in range(32):
                    if (bits >> j) & 1:
                        target[32 * word + j] = source[32 * word + j]
        for c in range(32 * full, width):
            if (mask[full] >> (c & 31)) & 1:
                target[c] = source[c]
        if not _alive(source, mask, lowest):
            for c in range(width):
                if (mask[c >> 5] >> (c & 31)) & 1:
                    target[c] = 0


@njit(cache=True, nogil=True)
def _alive(scores: NDArray[Any], mask: NDArray[np.int32], lowest: Any) -> bool:
    """Whether an allowed token has a score above ``lowest``; nearly always the first one has."""
    for c in range(len(scores)):  # noqa: SIM110 (numba takes no generator)
        if (mask[c >> 5] >> (c & 31)) & 1 and scores[c] != lowest:
            return True
    return False
