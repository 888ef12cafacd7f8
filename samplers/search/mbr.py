"""Minimum Bayes risk: the text that agrees best with all the others."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ..registry import method
from ..target import Samples, Target, require_positive
from .frontier import Ending, Progress, SearchBudget, SearchResult, Space
from .pool import draw_pool, reader
from .utilities import SYMMETRIC, Utility, chrf

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["expected_utilities", "mbr"]


def expected_utilities(
    candidates: Sequence[Any],
    references: Sequence[tuple[int, float]],
    utility: Utility,
    *,
    symmetric: bool,
) -> list[float]:
    """Mean utility of each candidate.

    Args:
        candidates: different texts.
        references: places in ``candidates`` with weights that sum to 1.
        utility: asked once for every pair (once for both orders where ``symmetric``).
    """
    known: dict[tuple[int, int], float] = {}
    found = []
    for i, candidate in enumerate(candidates):
        total = 0.0
        for j, weight in references:
            pair = (min(i, j), max(i, j)) if symmetric else (i, j)
            if pair not in known:
                known[pair] = float(utility(candidate, candidates[j]))
            total += weight * known[pair]
        found.append(total)
    return found


@method(
    "Crowd sampling / MBR",
    law="argmax",
    target="of the mean utility against the pool, over its texts: a Monte Carlo estimate of E[utility(text, Y)], Y ~ the sampler's law",
    cost="n texts, in one batch; a utility for every pair of different texts (of texts and references where those are fewer)",
    paper="Suzgun, Melas-Kyriazi, Jurafsky 2022, arXiv:2211.07634; Eikema, Aziz 2022, arXiv:2108.04718 (fewer references)",
    use="samplers.search.mbr.mbr(target, n=N, utility=U)",
)
def mbr(
    target: Target,
    *,
    n: int = 32,
    utility: Utility = chrf,
    symmetric: bool | None = None,
    references: int | None = None,
    texts: Any = None,
    read: Callable[[tuple[int, ...]], Hashable] | None = None,
    samples: Samples | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The text of a pool with the highest mean utility against the pool (the text itself among them).

    Args:
        target: what is drawn from, by local masking.
        n: texts of the pool.
        utility: ``utility(candidate, reference)``; see :mod:`.utilities`. With :func:`~.utilities.exact_match` this is a majority vote.
        symmetric: whether ``utility(a, b) == utility(b, a)``; ``None``: it is one of those known to be.
        references: so many of the pool, drawn without replacement, are references; ``None``: all.
        texts: how tokens are read: a vocabulary, tokenizer or function; ``None``: the vocabulary of the target's automaton.
        read: what ``utility`` compares, as a function of generated token ids (an answer that is taken out, say); ``None``: the text.
        samples: what another sampler drew: the pool, with its weights.
        ending, budget, trace, progress: see :mod:`.frontier`.
        seed: of the texts and of the references.

    Returns:
        one text for each that differs (the most probable of equals), by mean utility, which is its ``score``; ``details``:
        ``different`` and ``utilities`` (how many were computed).

    Raises:
        ValueError: an argument out of range.
        ConstraintError: texts cannot be read.
        DeadEnd: none of ``samples`` is in the language.
    """
    require_positive(n=n, references=1 if references is None else references)
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    view = read or reader(space, texts)
    pool = draw_pool(space, n, seed, samples)
    places: dict[Hashable, int] = {}
    groups: list[list[int]] = []
    for i, node in enumerate(pool.texts):
        at = places.setdefault(view(node.tokens), len(places))
        groups[at:] = groups[at:] or [[]]
        groups[at].append(i)
    chosen = list(range(len(pool.texts)))
    if references is not None and references < len(chosen):
        chosen = random.Random(f"{seed}/references").sample(chosen, references)
    total = sum(pool.weights[i] for i in chosen) or 1.0
    kept = set(chosen)
    shares = [(at, sum(pool.weights[i] for i in group if i in kept) / total) for at, group in enumerate(groups)]
    against = [(at, share) for at, share in shares if share > 0]
    asked = 0

    def counted(candidate: Any, reference: Any) -> float:
        nonlocal asked
        asked += 1
        return utility(candidate, reference)

    both = utility in SYMMETRIC if symmetric is None else symmetric
    means = expected_utilities(list(places), against, counted, symmetric=both)
    nodes = [max((pool.texts[i] for i in group), key=lambda node: (node.logprob, -node.number)) for group in groups]
    scores = {node.number: mean for node, mean in zip(nodes, means)}
    details = {"different": float(len(groups)), "utilities": float(asked)}
    name = "Crowd sampling / MBR"
    return space.result(
        nodes, name, complete=pool.complete, rest=pool.rest, scores=lambda node: scores.get(node.number, 0.0), details=details
    )
