"""CoT-decoding: other beginnings than the greedy one, and the confidence with which each comes to its answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ..registry import method
from ..target import Target, require_positive
from .answers import Extractor
from .frontier import Ending, Progress, SearchBudget, SearchResult, Space
from .rollout import Row, begin, run, shortest
from .self_consistency import tally

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["cot_decoding", "margin"]


def margin(logprobs: torch.Tensor) -> float:
    """Probability of the most probable token less that of the second; 1 where there is no second one.

    Args:
        logprobs: ``float64[width]``, of a distribution.
    """
    top = logprobs.topk(min(2, len(logprobs))).values.exp().tolist()
    return top[0] - (top[1] if len(top) > 1 else 0.0)


@method(
    "CoT-decoding",
    law="argmax",
    target="of the answers' mean margin between the two most probable tokens, over k first tokens, each continued greedily",
    cost="k texts, in one batch",
    paper="Wang, Zhou 2024, arXiv:2402.10200",
    use="samplers.search.cot.cot_decoding(target, extract=E, k=K)",
)
def cot_decoding(
    target: Target,
    *,
    extract: Extractor,
    k: int = 10,
    aggregate: bool = True,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The most confident answer among the greedy continuations of the ``k`` most probable first tokens.

    Confidence of a text is the mean of :func:`margin` over the tokens of its answer. Margins are those of the distribution over allowed
    tokens: a token that the constraint forces has margin 1, and says nothing against or for a branch where all are forced alike.

    Args:
        target: what is decoded.
        extract: finds the answer's tokens; see :mod:`.answers`.
        k: branches; fewer where fewer tokens are allowed.
        aggregate: whether confidences of branches with equal answers are added up (the paper's weighted aggregation), so that an answer
            wins, not a branch.
        ending, budget, trace, progress: see :mod:`.frontier`.

    Returns:
        by score: with ``aggregate`` a text for each answer (the most confident one; the score is the sum), else every branch. Branches
        without an answer come last, with score 0. ``details``: ``branches``, ``answers``.

    Raises:
        ValueError: ``k`` below 1.
    """
    require_positive(k=k)
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    root = space.start()
    first = space.rows([root])[0]
    margins: dict[Row, list[float]] = defaultdict(list)
    values, tokens = first.topk(min(k, len(first)))
    children = [space.child(root, t, v, v) for t, v in zip(tokens.tolist(), values.tolist()) if v > float("-inf")]
    rows = begin(children, [1] * len(children), None)
    for row in rows:
        margins[row].append(margin(first - first.logsumexp(0)))
    complete = run(space, rows, on_token=lambda row, logprobs, token: margins[row].append(margin(logprobs)))
    scores: dict[int, float] = {}
    answered = []
    for row in rows:
        answer = extract(row.node.tokens) if row.node.finished else None
        if answer is not None:
            span = margins[row][answer.start : answer.end]
            scores[row.node.number] = sum(span) / len(span) if span else 0.0
            answered.append((row.node, answer.key, scores[row.node.number]))
    nodes = [row.node for row in rows if row.node.finished]
    votes = tally(answered)
    if aggregate:
        best = {key: max((s, -node.number, node) for node, k, s in answered if k == key) for key in (vote.key for vote in votes)}
        sums = {key: sum(s for _, k, s in answered if k == key) for key in best}
        silent = [node for node in nodes if node.number not in scores]
        nodes = [*(node for _, _, node in best.values()), *silent]
        scores |= {best[key][2].number: sums[key] for key in best}
    rest = [row.node for row in rows if not row.node.finished and not row.dead]
    nodes = shortest(space) if complete and not nodes else nodes
    details = {"branches": float(len(rows)), "answers": float(len(votes))}
    return space.result(
        nodes, "CoT-decoding", complete=complete, rest=rest, scores=lambda node: scores.get(node.number, 0.0), details=details
    )
