"""Exact search: the best texts there are, and the proof that there is no better one.

The score of a text is ``log p(text)``, plus the target's reward where it has one. A score is bounded from above on every prefix: a prefix
is at least as probable as what begins with it, and rewards have a bound that the caller gives. The children of a node come out of it
best first, one at a time (so a vocabulary of 100,000 tokens makes only the nodes that are looked at), and what cannot beat the best
texts so far is never made. Over long texts of a large model the search may take for ever: give it a budget there.

:func:`a_star` opens the prefix with the best bound: fewest nodes, but nothing is finished until late. :func:`branch_and_bound` dives: a
text early, better ones from then on, memory for one path only. Both stop when no bound is above what was found. Where a budget stops them
``details["upper_bound"]`` still says how good the best text could be, and ``details["gap"]`` how far the one found may be from it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..registry import method
from ..target import Target, require_positive
from .frontier import Ending, Expansion, Node, Progress, SearchBudget, SearchResult, Space

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["RewardBound", "a_star", "branch_and_bound"]

RewardBound = float | Callable[[tuple[int, ...]], float]
"""An upper bound of the reward of every text that begins with a prefix: one number for all, or a function of the prefix."""

_LISTED = 64  # children that a node lists at first; eight times as many whenever they are used up


class _Branch:
    """The children of a node, best first.

    Attributes:
        node: whose.
        reward: bound of the rewards below it.
        cap: bound of the scores below it.
    """

    __slots__ = ("_at", "_listed", "_more", "_seen", "cap", "node", "reward")

    def __init__(self, node: Node, reward: float, cap: float) -> None:
        self.node, self.reward, self.cap = node, reward, cap
        self._listed: list[tuple[int, float]] = []
        self._at = self._seen = 0
        self._more = True

    @property
    def wanting(self) -> bool:
        """Whether the model has to be asked before the next child is known."""
        return self._at == len(self._listed) and self._more

    @property
    def bound(self) -> float:
        """No text below that is still to come has a higher score; ``-inf`` where none is to come."""
        if self._at < len(self._listed):
            return min(self.cap, self.node.logprob + self._listed[self._at][1] + self.reward)
        return self.cap if self._more else -math.inf

    def fill(self, expansion: Expansion) -> None:
        """Lists the next children. Few are kept, since a row of a model is large: where more are needed it is asked again."""
        values, places = expansion.logprobs.sort(descending=True, stable=True)
        end = self._seen + (8 * self._seen or _LISTED)
        found = zip(expansion.allowed[places[self._seen : end]].tolist(), values[self._seen : end].tolist())
        self._listed = [(token, value) for token, value in found if value > -math.inf]
        self._more = end < len(values) and len(self._listed) == end - self._seen
        self._seen, self._at = end, 0
        if self._listed:
            self.cap = self.bound

    def take(self) -> tuple[int, float]:
        """The next child: its token and log-probability."""
        self._at += 1
        child = self._listed[self._at - 1]
        if self.wanting:
            self.cap = min(self.cap, self.node.logprob + child[1] + self.reward)
        return child


class _Search:
    """What both orders share: the best texts so far, and the making of children."""

    def __init__(self, space: Space, n: int, reward_bound: RewardBound | None) -> None:
        self.space, self.n, self._given = space, n, reward_bound
        self.texts: list[Node] = []
        self.root = self.branch(space.start(), math.inf, math.inf)

    def branch(self, node: Node, reward: float, cap: float) -> _Branch:
        """An inner node and its bounds, which are not above those of its parent."""
        reward = min(reward, self._reward_bound(node.tokens))
        return _Branch(node, reward, min(cap, node.logprob + reward))

    def _reward_bound(self, tokens: tuple[int, ...]) -> float:
        if self._given is None:
            return 0.0
        return float(self._given(tokens)) if callable(self._given) else float(self._given)

    @property
    def least(self) -> float:
        """What a text must beat: the score of the worst of the ``n`` best."""
        return self.texts[-1].score if len(self.texts) == self.n else -math.inf

    def next_child(self, branch: _Branch) -> _Branch | None:
        """Makes the next child: a text goes to the others, anything else becomes a branch (``None`` where it has no use)."""
        token, logprob = branch.take()
        total = branch.node.logprob + logprob
        if token not in self.space.target.ends:
            child = self.branch(self.space.child(branch.node, token, logprob, total + branch.reward), branch.reward, branch.cap)
            if child.cap > self.least and not self.space.is_leaf(child.node):
                return child
            self.space.prune([child.node], "its bound is not above what was found")
            return None
        reward = self.space.target.potential((*branch.node.tokens, token), True)
        if reward > branch.reward + 1e-9:
            raise ValueError(
                f"a text has the reward {reward}, above the bound {branch.reward} of its prefix: with a reward_bound that is too low "
                "the best text may be missed; raise it"
            )
        text = self.space.child(branch.node, token, logprob, total + reward)
        if text.score > -math.inf:
            self.texts = sorted([*self.texts, text], key=lambda node: (-node.score, node.number))[: self.n]
        return None

    def result(self, name: str, complete: bool, rest: list[_Branch]) -> SearchResult:
        """What was found; ``rest`` is what is still open."""
        # where there is no text yet, the most promising prefix is completed
        spare = [] if self.texts or not rest else [max(rest, key=lambda branch: branch.bound).node]
        result = self.space.result(self.texts, name, complete=complete, rest=spare, scores=self._score)
        best = result.found[0].score if result.found and result.found[0].finished else -math.inf
        upper = max([best, *(branch.bound for branch in rest)])
        result.details |= {"upper_bound": upper, "gap": upper - best if upper > best else 0.0}
        return result

    def _score(self, node: Node) -> float:
        return node.logprob + self.space.target.potential(node.tokens, True) if node.finished else node.score


def _prepared(
    target: Target,
    n: int,
    reward_bound: RewardBound | None,
    ending: Ending,
    budget: SearchBudget | None,
    trace: Trace | None,
    progress: Callable[[Progress], None] | None,
) -> _Search:
    require_positive(n=n)
    if target.reward is not None and reward_bound is None:
        raise ValueError("a target with a reward needs reward_bound, which no text's reward exceeds: a number, or a function of a prefix")
    if target.reward is None and reward_bound is not None:
        raise ValueError("reward_bound bounds the target's reward, and the target has none")
    if isinstance(reward_bound, float | int) and not math.isfinite(reward_bound):
        raise ValueError(f"reward_bound must be a finite number, not {reward_bound}")
    if ending == "cut":
        raise ValueError('exact search ranks texts, and ending "cut" has prefixes that are none: use "exact" or "budget"')
    return _Search(Space(target, ending=ending, budget=budget, trace=trace, progress=progress), n, reward_bound)


@method(
    "exact A* search",
    law="argmax",
    target="of log p(text) + reward(text) over all texts of the language, exactly: the n best ones in order, unless a budget ends it",
    cost="a row for every prefix whose bound is above the score of the n-th best text; memory for all of them",
    paper="Meister, Vieira, Cotterell 2020, arXiv:2007.03909 (best-first, beam without bound)",
    use="samplers.search.exact.a_star(target, n=N, reward_bound=B)",
)
def a_star(
    target: Target,
    *,
    n: int = 1,
    reward_bound: RewardBound | None = None,
    batch: int = 1,
    ending: Ending = "exact",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The ``n`` best texts, the most promising prefix first.

    Args:
        target: what is searched; texts are ranked by log-probability plus its reward on finished texts.
        n: texts.
        reward_bound: see :data:`RewardBound`; needed where the target has a reward. The tighter, the fewer nodes.
        batch: prefixes of one batch of the model; more than one opens some that strict A* would not.
        ending: ``"exact"``, or ``"budget"`` for the texts that a token budget leaves (see :mod:`.frontier`).
        budget, trace, progress: see :mod:`.frontier`.

    Returns:
        the texts, best first; ``details``: ``upper_bound`` (no text has a higher score) and ``gap`` (between it and the best found).

    Raises:
        ValueError: an argument out of range, a missing bound, or a reward above it.
    """
    require_positive(batch=batch)
    search = _prepared(target, n, reward_bound, ending, budget, trace, progress)
    space, heap, complete, pushed = search.space, [(-search.root.bound, 0, search.root)], True, 1
    while heap and -heap[0][0] > search.least:
        if space.spent:
            complete = False
            break
        asked: list[_Branch] = []
        while heap and len(asked) < batch and -heap[0][0] > search.least:
            _, _, branch = heapq.heappop(heap)
            if branch.wanting:
                asked.append(branch)
                continue
            child = search.next_child(branch)
            for each in (branch, child):
                if each is not None and each.bound > search.least:
                    # of equal bounds the newer one first: it is the deeper one
                    heapq.heappush(heap, (-each.bound, -pushed, each))
                    pushed += 1
        for branch, expansion in zip(asked, space.expand([branch.node for branch in asked])):
            branch.fill(expansion)
            if branch.bound > search.least:
                heapq.heappush(heap, (-branch.bound, -pushed, branch))
                pushed += 1
    return search.result("exact A* search", complete, [] if complete else [branch for _, _, branch in heap])


@method(
    "branch and bound",
    law="argmax",
    target="of log p(text) + reward(text) over all texts of the language, exactly: the n best ones in order, unless a budget ends it",
    cost="a row for every prefix whose bound is above the best score at the time it is reached; memory for one path",
    paper="Stahlberg, Byrne 2019, arXiv:1908.10090",
    use="samplers.search.exact.branch_and_bound(target, n=N, reward_bound=B)",
)
def branch_and_bound(
    target: Target,
    *,
    n: int = 1,
    reward_bound: RewardBound | None = None,
    ending: Ending = "exact",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The ``n`` best texts, depth first: the most probable child first, what cannot beat the best so far not at all.

    Arguments, result and errors are those of :func:`a_star`; every batch of the model is one prefix.
    """
    search = _prepared(target, n, reward_bound, ending, budget, trace, progress)
    space, path, complete = search.space, [search.root], True
    while path:
        branch = path[-1]
        if branch.bound <= search.least:
            path.pop()
        elif branch.wanting:
            if space.spent:
                complete = False
                break
            branch.fill(space.expand([branch.node])[0])
        else:
            child = search.next_child(branch)
            if child is not None:
                path.append(child)
    return search.result("branch and bound", complete, path)
