"""REBASE: reward-balanced search. At every depth a fixed number of samples is shared among the nodes by their process rewards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..registry import method
from ..target import Target, require_positive
from .answers import Extractor
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .rollout import sample_steps, shortest, step_scores
from .self_consistency import elected, tally
from .steps import Delimiter, StepRule

if TYPE_CHECKING:
    from ..scores.protocol import StepScorer
    from .trace import Trace

__all__ = ["rebase", "shares"]


def shares(rewards: Sequence[float], total: int, temperature: float) -> list[int]:
    """``total`` samples, shared in proportion to ``softmax(rewards / temperature)``.

    Rounded by largest remainders (of equal ones the earlier first), so that the sum is ``total``. Nodes of reward
    ``-inf`` must not be and get none, even where all are such.
    """
    if max(rewards, default=-math.inf) == -math.inf:
        return [0] * len(rewards)
    logits = np.asarray(rewards, np.float64) / temperature
    weights = np.exp(logits - logits.max())
    exact = total * weights / weights.sum()
    found = np.floor(exact).astype(int)
    order = np.argsort(-(exact - found), kind="stable")
    found[order[: total - int(found.sum())]] += 1
    return [int(count) for count in found]


@method(
    "REBASE",
    law="lossy",
    target="whole texts of a tree of sampled steps, whose samples at each depth are shared by softmax(process reward / temperature); the "
    "best reward or a weighted vote chooses",
    cost="n sampled steps and their process rewards at each depth, one fewer for every text that has ended",
    paper="Wu et al. 2024, arXiv:2408.00724",
    use="samplers.search.rebase.rebase(target, scorer=S, rule=R, n=N)",
)
def rebase(
    target: Target,
    *,
    scorer: StepScorer,
    rule: StepRule | None = None,
    n: int = 16,
    temperature: float = 0.1,
    extract: Extractor | None = None,
    max_step_tokens: int | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """``n`` texts of a reward-balanced tree.

    ``n`` first steps are sampled and scored. From then on: texts that have ended leave, the rest of the ``n`` samples is shared among the
    other nodes (:func:`shares`; the paper rounds each share by itself, which may give more or fewer in all), each gets so many sampled next
    steps, and those that get none are given up.

    Args:
        target: what steps are drawn from, by local masking.
        scorer: the process reward of a candidate's last step.
        rule: what a step is; ``None``: a line.
        n: samples at each depth: the width of the tree.
        temperature: of the shares: near 0 all samples go to the best node, a large one shares them equally.
        extract: finds the answer of a text; where it is given, texts vote with their last reward (at least 0) as weight.
        max_step_tokens: of a step.
        ending, budget, seed, trace, progress: see :mod:`.frontier`.

    Returns:
        texts by the reward of their last step, or with ``extract`` a text for each answer by its share of the votes.

    Raises:
        ValueError: an argument out of range, or votes of negative weight.
    """
    require_positive(n=n, max_step_tokens=1 if max_step_tokens is None else max_step_tokens)
    if not temperature > 0:
        raise ValueError(f"the temperature of the shares must be above 0, not {temperature}")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    alive, left = [space.start()], n
    rewards: dict[int, float] = {alive[0].number: 0.0}
    texts: list[Node] = []
    complete = True
    while alive and left > 0:
        counts = shares([rewards[node.number] for node in alive], left, temperature)
        space.prune([node for node, count in zip(alive, counts) if not count], "no share of the samples")
        parents, given = [node for node, count in zip(alive, counts) if count], [count for count in counts if count]
        found, stopped = sample_steps(space, parents, given, rule or Delimiter(), seed, max_step_tokens)
        starts = [len(parents[place].tokens) for place, _ in found]
        nodes = [node for _, node in found]
        for node, reward in zip(nodes, step_scores(space, scorer, nodes, starts)):
            rewards[node.number] = reward
        ended = [node for node in nodes if space.is_leaf(node)]
        texts += ended
        left -= len(ended)
        alive = [node for node in nodes if not space.is_leaf(node)]
        if stopped or (alive and space.spent):
            complete = False
            alive = alive or stopped
            break
    rest = [] if complete else alive
    if complete and not texts:
        texts = shortest(space)
        rewards |= {node.number: reward for node, reward in zip(texts, step_scores(space, scorer, texts, [0]))}
    if extract is None:
        least = min(rewards.values())
        return space.result(texts, "REBASE", complete=complete, rest=rest, scores=lambda node: rewards.get(node.number, least))
    answers = [extract(node.tokens) for node in texts]
    voting = [(node, answer.key, rewards[node.number]) for node, answer in zip(texts, answers) if answer is not None]
    if any(weight < 0 for _, _, weight in voting):
        raise ValueError("votes are weighed by process rewards, which must then be at least 0 (probabilities, say); leave `extract` out")
    silent = [node for node, answer in zip(texts, answers) if answer is None]
    return elected(space, "REBASE", tally(voting), silent, rest, complete)
