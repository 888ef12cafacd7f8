"""Controlled decoding, block by block."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..registry import method
from ..scores.protocol import Candidate, Value
from ..search.frontier import Ending, Node, Progress, SearchBudget, Space
from ..smc.boundaries import Block as BlockOf
from ..smc.boundaries import boundary
from ..target import Target, require_positive
from .blocks import Blocks, Drawn, best, by_blocks, proportional

if TYPE_CHECKING:
    from grammars.vocabulary import Vocabulary

    from ..search.trace import Trace

__all__ = ["blockwise"]

_NAME = "Controlled Decoding, block-wise"


@method(
    _NAME,
    law="exact",
    target=(
        "each block ~ the best by value of K independent draws of local masking (of equal ones the first); with a strength, one of "
        "the K drawn by exp(strength V)"
    ),
    cost="K blocks drawn and K values asked for each block kept",
    paper="Mudgal et al. 2023, arXiv:2310.17022",
    use="samplers.guides.blockwise(target, value, k=8, block=16)",
)
def blockwise(
    target: Target,
    value: Value,
    n: int = 1,
    *,
    k: int = 4,
    block: BlockOf = 16,
    strength: float | None = None,
    seed: int = 0,
    ending: Ending = "budget",
    vocabulary: Vocabulary | None = None,
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Blocks:
    """Draws ``k`` blocks from the model, keeps the one whose text has the highest value, and goes on from there (Mudgal et al. 2023,
    arXiv:2310.17022). One block as long as the text is best-of-``k``; short ones come near to token-wise control.

    Blocks are drawn from the model under the constraint (token masks that close in time), so every text is in the language.

    Args:
        target: model, prompt, constraint, ``max_tokens`` and temperature; its reward has no part in it.
        value: the prefix scorer.
        n: number of texts.
        k: candidates for each block.
        block: a number of tokens, or where blocks end: see :func:`samplers.smc.boundaries.boundary`.
        strength: keep a candidate drawn in proportion to ``exp(strength V)`` in place of the best one.
        seed: text ``i`` depends on ``seed`` and ``i`` only.
        ending: see :mod:`samplers.search.frontier`.
        vocabulary: what tokens mean, for blocks by text without an automaton.
        budget, trace, progress: see :class:`~samplers.search.frontier.Space`; when the budget is spent the texts stay unfinished
            (``details["complete"]`` is 0).

    Returns:
        :class:`~samplers.guides.blocks.Blocks`; ``details``: ``tokens`` drawn, those of blocks not kept included, ``scored`` candidates,
        ``dead``, ``calls``, ``complete``.

    Raises:
        ValueError: an argument out of range; a value that is not a number or ``+inf``.
        ConstraintError: with ``"budget"``, not even the shortest text fits into ``max_tokens``.
    """
    require_positive(n=n, k=k)
    if strength is not None and not math.isfinite(strength):
        raise ValueError(f"strength must be finite, not {strength}")
    if vocabulary is None and target.automaton is not None:
        vocabulary = target.automaton.vocabulary
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)

    def score(start: Node, drawn: list[Drawn]) -> list[float]:
        texts = [Candidate(one.node.context, len(target.prompt), one.node.finished, target.ends) for one in drawn]
        found = [float(v) for v in value.values(texts)]
        for v in found:
            if math.isnan(v) or v == math.inf:
                raise ValueError(f"the value of a block is {v}; it must be a finite number or -inf")
        return found

    def tilted(scores: list[float], source: random.Random) -> int:
        logs = [-math.inf if s == -math.inf else (strength or 0.0) * s for s in scores]
        top = max(logs)
        return proportional([math.exp(x - top) if x > -math.inf else 0.0 for x in logs], source)

    return by_blocks(space, n, k, boundary(block, vocabulary), score, best if strength is None else tilted, seed=seed, name=_NAME)
