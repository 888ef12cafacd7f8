"""GRACE: steps chosen by the model and a judge of steps together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ..registry import method
from ..scores.protocol import Candidate, StepScorer
from ..search.frontier import Ending, Node, Progress, SearchBudget, Space
from ..smc.boundaries import Block as BlockOf
from ..smc.boundaries import boundary
from ..target import Target, require_positive
from .blocks import Blocks, Drawn, best, by_blocks, proportional

if TYPE_CHECKING:
    from grammars.vocabulary import Vocabulary

    from ..search.trace import Trace

__all__ = ["grace"]

_NAME = "GRACE"


@method(
    _NAME,
    law="exact",
    target=(
        "each step ~ of J independent draws of local masking the one with the highest (1 - beta) p(step)^(1 / length) + beta D(step), "
        "D the softmax of the judge's scores over the J; sample=True: one drawn in proportion to that"
    ),
    cost="J steps drawn and J judged for each step kept",
    paper="Khalifa et al. 2023, arXiv:2305.14934",
    use='samplers.guides.grace(target, scorer, k=20, block="line")',
)
def grace(
    target: Target,
    scorer: StepScorer,
    n: int = 1,
    *,
    k: int = 20,
    beta: float = 0.1,
    block: BlockOf = "line",
    sample: bool = False,
    seed: int = 0,
    ending: Ending = "budget",
    vocabulary: Vocabulary | None = None,
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Blocks:
    """Draws ``k`` candidate steps from the model, adds to each one's likelihood the score of a discriminator that tells correct steps from
    wrong ones, keeps the best and goes on (GRACE; Khalifa et al. 2023, arXiv:2305.14934)::

        (1 - beta) exp(mean log-probability of the step's tokens) + beta softmax(scores of the k steps)

    as in the authors' program: both terms lie in [0, 1]. The log-probabilities are those the step was drawn with, so under a constraint
    the masked, renormalised ones.

    Args:
        target: model, prompt, constraint, ``max_tokens`` and temperature; its reward has no part in it.
        scorer: the discriminator, see :mod:`samplers.scores`.
        n: number of texts.
        k: the paper's ``J``.
        beta: weight of the discriminator, in [0, 1].
        block: where steps end: see :func:`samplers.smc.boundaries.boundary`.
        sample: draw a step in proportion to the sum in place of the best one.
        seed: text ``i`` depends on ``seed`` and ``i`` only.
        ending: see :mod:`samplers.search.frontier`.
        vocabulary: what tokens mean, where there is no automaton that knows.
        budget, trace, progress: see :class:`~samplers.search.frontier.Space`; when the budget is spent the texts stay unfinished
            (``details["complete"]`` is 0).

    Returns:
        :class:`~samplers.guides.blocks.Blocks`; ``details``: ``tokens`` drawn, those of steps not kept included, ``scored``
        steps, ``dead``, ``calls``, ``complete``.

    Raises:
        ValueError: an argument out of range; a score that is not a number or ``+inf``.
        ConstraintError: with ``"budget"``, not even the shortest text fits into ``max_tokens``.
    """
    require_positive(n=n, k=k)
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must be in [0, 1], not {beta}")
    if vocabulary is None and target.automaton is not None:
        vocabulary = target.automaton.vocabulary
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)

    def score(start: Node, drawn: list[Drawn]) -> list[float]:
        candidates = [Candidate(o.node.context, len(target.prompt), o.node.finished, target.ends) for o in drawn]
        judged = torch.tensor(scorer.step_scores(candidates, [len(start)] * len(drawn)), dtype=torch.float64)
        if bool(judged.isnan().any()) or bool((judged == math.inf).any()):
            raise ValueError(f"the scores of steps are {judged.tolist()}; they must be finite numbers or -inf")
        shares = judged.softmax(-1).nan_to_num(nan=0.0).tolist()
        likely = [math.exp(o.log_masked / (len(o.node) - len(start))) for o in drawn]
        return [(1 - beta) * p + beta * d for p, d in zip(likely, shares)]

    return by_blocks(space, n, k, boundary(block, vocabulary), score, proportional if sample else best, seed=seed, name=_NAME)
