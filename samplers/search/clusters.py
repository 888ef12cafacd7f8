"""Clusters of token sequences: k-means over TF-IDF vectors."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["cluster", "tf_idf"]


def tf_idf(sequences: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Vectors of length 1 (0 for empty sequences): term frequency times ``log((1 + n) / (1 + n_with_term)) + 1``.

    Returns:
        ``float64[len(sequences), different tokens]``.
    """
    places = {token: i for i, token in enumerate(sorted({token for sequence in sequences for token in sequence}))}
    counts = np.zeros((len(sequences), max(1, len(places))))
    for row, sequence in zip(counts, sequences):
        np.add.at(row, [places[token] for token in sequence], 1.0)
    counts *= np.log((1 + len(sequences)) / (1 + (counts > 0).sum(0))) + 1
    norms = np.linalg.norm(counts, axis=1, keepdims=True)
    vectors: NDArray[np.float64] = counts / np.where(norms > 0, norms, 1.0)
    return vectors


def cluster(sequences: Sequence[Sequence[int]], k: int, source: random.Random, rounds: int = 50) -> list[int]:
    """The cluster of each sequence, by k-means (Lloyd's iterations from k-means++ seeds).

    Args:
        k: clusters at most; fewer where fewer sequences differ.
        source: of the seeds.
        rounds: iterations at most.
    """
    vectors = tf_idf(sequences)
    if not len(vectors):
        return []
    centres = [vectors[source.randrange(len(vectors))]]
    while len(centres) < k:
        distances = np.min([((vectors - centre) ** 2).sum(1) for centre in centres], axis=0)
        if distances.max() < 1e-12:
            break
        centres.append(vectors[source.choices(range(len(vectors)), distances.tolist())[0]])
    found = np.full(len(vectors), -1)
    for _ in range(rounds):
        nearest = np.stack([((vectors - centre) ** 2).sum(1) for centre in centres]).argmin(0)
        if (nearest == found).all():
            break
        found = nearest
        centres = [vectors[found == i].mean(0) if (found == i).any() else centre for i, centre in enumerate(centres)]
    return [int(i) for i in found]
