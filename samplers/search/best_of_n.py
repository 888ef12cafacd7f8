"""The best of several texts by a reward, and the same with early rejection of weak ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..registry import method
from ..target import Samples, Target, require_positive
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .pool import Judge, draw_pool
from .rollout import Row, begin, run, shortest

if TYPE_CHECKING:
    from ..scores.protocol import Reward
    from .trace import Trace

__all__ = ["best_of_n", "speculative_rejection"]


@method(
    "best of n",
    law="exact",
    target="the text of the highest reward among n draws of the masked law q: P(rank <= r) = q(rank <= r) ** n",
    cost="n texts, in one batch, and their rewards",
    paper="Stiennon et al. 2020, arXiv:2009.01325",
    use="samplers.search.best_of_n.best_of_n(target, reward=R, n=N)",
)
def best_of_n(
    target: Target,
    *,
    reward: Reward | None = None,
    n: int = 16,
    samples: Samples | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The texts of ``n`` draws, the one of the highest reward first; of equal ones that which was drawn first.

    Args:
        target: what is drawn from, by local masking at its temperature.
        reward: of whole texts; ``None``: the target's.
        n: draws.
        samples: what another sampler drew (draws of the conditional law, say); ``n`` and ``seed`` are then not used, and weights only
            tell what is in the language.
        ending, budget, trace, progress: see :mod:`.frontier`.
        seed: the i-th draw is the same for every ``n``.

    Returns:
        all draws; ``score`` is the reward.

    Raises:
        ValueError: ``n`` below 1, or no reward.
        DeadEnd: none of ``samples`` is in the language.
    """
    require_positive(n=n)
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    judge = Judge(space, reward)
    drawn = draw_pool(space, n, seed, samples)
    judge.many(drawn.texts)
    return space.result(drawn.texts, "best of n", complete=drawn.complete, rest=drawn.rest, scores=judge)


@method(
    "speculative rejection",
    law="lossy",
    target="as best of n, without the texts whose reward was among the lowest when memory was full; equal to it for alpha = 0",
    cost="as best of n for as many tokens as fit into the room; from then on a share (1 - alpha) of the texts each time",
    paper="Sun et al. 2024, arXiv:2410.20290",
    use="samplers.search.best_of_n.speculative_rejection(target, reward=R, n=N, alpha=A, room=T)",
)
def speculative_rejection(
    target: Target,
    *,
    reward: Reward | None = None,
    n: int = 64,
    alpha: float = 0.5,
    room: int | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Best of many draws that begin together and do not all go on.

    The texts on their way grow until together they fill ``room``. Then all of them are judged as they are, those whose reward is below
    the ``alpha`` quantile are given up, and the others go on: the fewer there are, the longer until the next time. Texts that have ended
    take no room and are never given up.

    Args:
        target, ending, budget, trace, progress: as for :func:`best_of_n`.
        reward: of whole texts, asked about unfinished ones as well; ``None``: the target's.
        n: texts at the beginning.
        alpha: share that is rejected each time.
        room: generated tokens of all unfinished texts together that memory holds; ``None``: ``16 * n``.
        seed: the i-th text is that of :func:`best_of_n`.

    Returns:
        the finished texts by reward; ``details``: ``rejections`` (how many times) and ``rejected`` (how many texts).

    Raises:
        ValueError: an argument out of range, or no reward.
    """
    require_positive(n=n, room=16 * n if room is None else room)
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha, the share that is rejected, must be at least 0 and below 1, not {alpha}")
    held = 16 * n if room is None else room
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    judge = Judge(space, reward)
    alive = begin([space.start()], [n], seed)
    texts: list[Node] = []
    rejections = 0
    complete = True

    def full() -> bool:
        going = [row.node for row in alive if not space.is_leaf(row.node) and not row.dead]
        return len(going) > 1 and alpha > 0 and sum(len(node.tokens) for node in going) >= held

    while alive:
        run(space, alive, stop=full)
        texts += [row.node for row in alive if space.is_leaf(row.node)]
        alive = [row for row in alive if not space.is_leaf(row.node) and not row.dead]
        if not alive or space.spent:
            complete = not alive
            break
        rejections += 1
        alive = _kept(space, alive, judge, alpha)
    rejected = n - len(texts) - len(alive)
    rest = [row.node for row in alive]
    texts = shortest(space) if complete and not texts else texts
    judge.many([*texts, *rest])
    details = {"rejections": float(rejections), "rejected": float(rejected)}
    return space.result(texts, "speculative rejection", complete=complete, rest=rest, scores=judge, details=details)


def _kept(space: Space, rows: Sequence[Row], judge: Judge, alpha: float) -> list[Row]:
    """Those whose reward is not below the ``alpha`` quantile, and at least one fewer than there were; ties are broken by order."""
    values = judge.many([row.node for row in rows])
    cut = float(np.quantile(np.maximum(values, -1e300), alpha))
    order = sorted(range(len(rows)), key=lambda i: (-values[i], i))
    good = [i for i in order if values[i] >= cut]
    # where many are equal the quantile rejects nobody, and memory would never be free
    good = good[: min(len(good), max(1, min(len(rows) - 1, round((1 - alpha) * len(rows)))))]
    space.prune([rows[i].node for i in order if i not in good], "rejected: its reward is among the lowest")
    return [rows[i] for i in sorted(good)]
