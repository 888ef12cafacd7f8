"""The byte trie of a vocabulary, as flat arrays in preorder.

The trie is built from the sorted tokens: what a token adds to the trie are the nodes below the longest
common prefix with its predecessor, and they come out in preorder by themselves. Everything is numpy, so
that 131,072 tokens take a fraction of a second and nothing needs to be compiled first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Trie", "build_trie"]


@dataclass(frozen=True)
class Trie:
    """A byte trie of ``n`` nodes in preorder, children sorted by byte; node 0 is the root.

    Attributes:
        byte: uint8[n], the byte on the edge into the node (0 for the root).
        depth: int32[n], bytes from the root to the node.
        end: int32[n], index after the node's subtree.
        first: int32[n + 1], offsets into ``tokens``.
        tokens: int32[*], the ids whose bytes end at node ``i`` are ``tokens[first[i]:first[i + 1]]``, preferred ones first.
    """

    byte: npt.NDArray[np.uint8]
    depth: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int32]


def build_trie(tokens: Sequence[bytes], ids: Sequence[int]) -> Trie:
    """The trie of ``tokens[i] for i in ids``, none of them empty; ids with equal bytes stay in the order of ``ids``.

    Cost: O(total bytes) numpy work plus one sort.
    """
    order = sorted(ids, key=lambda i: tokens[i])
    words = [tokens[i] for i in order]
    flat = np.frombuffer(b"".join(words), np.uint8)
    length = np.fromiter(map(len, words), np.int64, len(words))
    offset = np.concatenate(([0], np.cumsum(length)))[:-1]
    common = _common_prefix(flat, offset, length)
    position = np.arange(len(flat), dtype=np.int64) - np.repeat(offset, length)
    new = position >= np.repeat(common, length)
    byte = np.concatenate((np.zeros(1, np.uint8), flat[new]))
    depth = np.concatenate((np.zeros(1, np.int32), (position[new] + 1).astype(np.int32)))
    # A token ends at the last node that it added, or, where it added none, at that of its (equal) predecessor.
    last = np.cumsum(length - common)
    count = np.bincount(last, minlength=len(byte)) if len(words) else np.zeros(1, np.int64)
    first = np.concatenate(([0], np.cumsum(count))).astype(np.int32)
    return Trie(byte, depth, _subtree_ends(depth), first, np.asarray(order, np.int32))


def _common_prefix(flat: npt.NDArray[np.uint8], offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """int64[words]: length of the longest common prefix of each word with the word in front of it (0 for the first)."""
    common = np.zeros(len(length), np.int64)
    active = np.arange(1, len(length))
    k = 0
    while len(active):
        active = active[np.minimum(length[active], length[active - 1]) > k]
        active = active[flat[offset[active] + k] == flat[offset[active - 1] + k]]
        k += 1
        common[active] = k
    return common


def _subtree_ends(depth: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """int32[n]: index after each node's subtree, from sizes that are summed level by level from the deepest up."""
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(depth))))
    size = np.ones(len(depth), np.int64)
    for d in range(len(bounds) - 2, 0, -1):
        level, above = by_depth[bounds[d] : bounds[d + 1]], by_depth[bounds[d - 1] : bounds[d]]
        parent = np.searchsorted(above, level) - 1
        size[above] += np.bincount(parent, weights=size[level], minlength=len(above)).astype(np.int64)
    return (np.arange(len(depth)) + size).astype(np.int32)
