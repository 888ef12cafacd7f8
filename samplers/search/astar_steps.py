"""A*-decoding: best-first search over the steps of a solution, led by a process reward.

A node is a text so far that ends with a step; ``r`` is its process reward. The cost to come is estimated as ``h = -r`` (``1 - r`` for
rewards between 0 and 1: a constant that changes no order), the cost of a step is how much it raises that estimate,
``max(0, r(parent) - r(child))``. So ``f = g + h`` never falls along a path: a solution is as good as its rewards, less what it lost on the
way. The open node of least ``f`` is continued by ``k`` sampled steps, until a whole text is the least.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..registry import method
from ..target import Target, require_positive
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .rollout import sample_steps, shortest, step_scores
from .steps import Delimiter, StepRule

if TYPE_CHECKING:
    from ..scores.protocol import StepScorer
    from .trace import Trace

__all__ = ["astar_decoding"]


@dataclass(order=True, slots=True)
class _Open:
    """A node of the queue: least ``f`` first, of equal ones the longer, then the older."""

    f: float
    shortness: int
    number: int
    node: Node = field(compare=False)
    cost: float = field(compare=False)
    reward: float | None = field(compare=False)  # none of the root, whose steps cost nothing

    def child(self, node: Node, reward: float) -> _Open:
        """A sampled step of this node, with its process reward."""
        cost = self.cost + (0.0 if self.reward is None else max(0.0, self.reward - reward))
        return _Open(cost - reward, -len(node.tokens), node.number, node, cost, reward)


@method(
    "A*-decoding",
    law="lossy",
    target="the first whole text that a best-first search over sampled steps comes to; ordered by process reward and what it lost",
    cost="k sampled steps and their process rewards for every node that is opened",
    paper="Chatziveroglou 2025, arXiv:2505.13672",
    use="samplers.search.astar_steps.astar_decoding(target, scorer=S, rule=R, k=K)",
)
def astar_decoding(
    target: Target,
    *,
    scorer: StepScorer,
    rule: StepRule | None = None,
    k: int = 4,
    n: int = 1,
    batch: int = 1,
    max_step_tokens: int | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Whole texts by ``f``; see this module's docstring.

    Args:
        target: what steps are drawn from, by local masking.
        scorer: the process reward of a candidate's last step.
        rule: what a step is; ``None``: a line.
        k: steps that are sampled after a node; equal ones count once.
        n: whole texts to come to.
        batch: nodes that are opened at a time.
        max_step_tokens: of a step; ``None``: no bound but the rule.
        ending, budget, seed, trace, progress: see :mod:`.frontier`.

    Returns:
        whole texts, least ``f`` first; ``score`` is ``-f``.

    Raises:
        ValueError: an argument out of range.
    """
    require_positive(k=k, n=n, batch=batch, max_step_tokens=1 if max_step_tokens is None else max_step_tokens)
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    cut = rule or Delimiter()
    heap = [_Open(0.0, 0, 0, space.start(), 0.0, None)]
    costs: dict[int, float] = {}
    texts: list[Node] = []
    rest: list[Node] = []
    popped = 0
    while heap and popped < n:
        if space.spent:
            rest = [each.node for each in heap]
            break
        opened: list[_Open] = []
        while heap and len(opened) < batch and popped < n:
            each = heapq.heappop(heap)
            if space.is_leaf(each.node):
                popped += 1
            else:
                opened.append(each)
        if popped >= n:
            break
        parents = [each.node for each in opened]
        found, stopped = sample_steps(space, parents, [k] * len(parents), cut, seed, max_step_tokens)
        different = list({node.tokens: (place, node) for place, node in reversed(found)}.values())[::-1]
        rewards = step_scores(space, scorer, [node for _, node in different], [len(parents[place].tokens) for place, _ in different])
        for (place, node), reward in zip(different, rewards):
            child = opened[place].child(node, reward)
            costs[node.number] = child.f
            heapq.heappush(heap, child)
            if space.is_leaf(node):
                texts.append(node)
        if stopped:
            rest = [*(each.node for each in heap), *stopped]
            break
    complete = not rest
    texts = shortest(space) if complete and not texts else texts
    floor = max(costs.values(), default=0.0)
    rest = [node for node in rest if not space.is_leaf(node)]
    return space.result(texts, "A*-decoding", complete=complete, rest=rest, scores=lambda node: -costs.get(node.number, floor))
