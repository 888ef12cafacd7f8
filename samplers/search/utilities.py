"""Utilities of texts: how good ``candidate`` is where ``reference`` is what was meant. All are between 0 and 1, and 1 for equal texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

__all__ = ["SYMMETRIC", "Utility", "bleu", "chrf", "edit_similarity", "exact_match", "token_f1"]

Utility = Callable[[Any, Any], float]


def exact_match(candidate: Hashable, reference: Hashable) -> float:
    """Whether they are equal; of anything that can be compared."""
    return float(candidate == reference)


def token_f1(candidate: str, reference: str) -> float:
    """Harmonic mean of the shares of words (split at blanks, folded, counted) that the texts have in common (Rajpurkar et al. 2016)."""
    a, b = Counter(candidate.casefold().split()), Counter(reference.casefold().split())
    common = (a & b).total()
    if not a or not b:
        return float(a == b)
    return 2 * common / (a.total() + b.total())


def edit_similarity(candidate: Sequence[Any], reference: Sequence[Any]) -> float:
    """``1 - distance / length of the longer one``, with Levenshtein's distance; of strings, or any sequences."""
    if len(candidate) < len(reference):
        candidate, reference = reference, candidate
    if not candidate:
        return 1.0
    row = list(range(len(reference) + 1))
    for i, a in enumerate(candidate, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(reference, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return 1 - row[-1] / len(candidate)


def chrf(candidate: str, reference: str, *, order: int = 6, beta: float = 2.0) -> float:
    """Character n-gram F-score (Popović 2015): mean precision and recall over n = 1 .. ``order``, blanks left out.

    As sacreBLEU's ``chrF2`` for one sentence pair, divided by 100: orders for which either text has no n-gram are left out.
    """
    a, b = "".join(candidate.split()), "".join(reference.split())
    if a == b:
        return 1.0
    precision = recall = 0.0
    orders = 0
    for n in range(1, order + 1):
        mine, theirs = _ngrams(a, n), _ngrams(b, n)
        if not mine or not theirs:
            continue
        common = (mine & theirs).total()
        precision += common / mine.total()
        recall += common / theirs.total()
        orders += 1
    if not orders or precision + recall == 0:
        return 0.0
    precision, recall = precision / orders, recall / orders
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def bleu(candidate: str, reference: str, *, order: int = 4) -> float:
    """Sentence BLEU over words split at blanks: brevity penalty times the geometric mean of n-gram precisions.

    Orders above 1 have one added to both counts (Lin, Och 2004), so that short texts are not all worth 0; ``order`` is at most the
    length of the candidate.
    """
    a, b = candidate.split(), reference.split()
    if a == b:
        return 1.0
    if not a or not b:
        return 0.0
    logs = 0.0
    orders = min(order, len(a))
    for n in range(1, orders + 1):
        mine = _ngrams(a, n)
        common, extra = (mine & _ngrams(b, n)).total(), float(n > 1)
        if not common + extra:
            return 0.0
        logs += math.log((common + extra) / (mine.total() + extra))
    return math.exp(min(0.0, 1 - len(b) / len(a)) + logs / orders)


def _ngrams(items: Sequence[Any], n: int) -> Counter[Any]:
    return Counter(tuple(items[i : i + n]) if not isinstance(items, str) else items[i : i + n] for i in range(len(items) - n + 1))


SYMMETRIC: frozenset[Utility] = frozenset({exact_match, token_f1, edit_similarity})
"""Utilities that do not tell the two texts apart: half of the matrix is enough."""
