"""Monte Carlo tree search over tokens: PUCT, with the model's probabilities as priors and a value (or rollouts) at the leaves.

A *simulation* goes down from the root, at every node to the child that maximises::

    Q(child) + c * prior(child) * sqrt(visits) / (1 + visits(child))

with ``Q`` the mean of what was backed up through the child, scaled to 0..1 by the least and greatest value seen so far (so that ``c`` needs
not be fitted to the score's unit); a child without visits is given the mean of its parent. The leaf that it comes to is expanded and
evaluated, and the value is backed up along the path. A whole text is evaluated by its score itself. What has been searched to its end (a
text, or a node all of whose children have) is not selected again, so that simulations are never spent twice and a small tree is searched
through.

The score of a text is its reward plus ``likelihood`` times its log-probability. With ``commit`` a token is chosen by visits after so many
simulations, and its subtree goes on as the tree: how long texts are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..registry import method
from ..target import Target, require_positive
from .frontier import Ending, Expansion, Node, Progress, SearchBudget, SearchResult, Space
from .pool import Judge
from .rollout import begin, run

if TYPE_CHECKING:
    from ..scores.protocol import Reward, Value
    from .trace import Trace

__all__ = ["mcts"]


class _Place:
    """A node of the tree, with the statistics of its children.

    Attributes:
        node: the prefix.
        parent: the node above; ``None`` for the root.
        tokens, logprobs, priors: of its children, the most probable first; ``None`` and empty before it is expanded.
        children: those that were made, by their place in ``tokens``.
        visits, pending: of the node: backed-up simulations, and those on their way.
        total: sum of what was backed up.
        done: it has been searched to its end.
    """

    __slots__ = ("children", "done", "logprobs", "node", "parent", "pending", "priors", "tokens", "total", "visits")

    def __init__(self, node: Node, parent: _Place | None) -> None:
        self.node, self.parent = node, parent
        self.tokens: list[int] | None = None
        self.logprobs: list[float] = []
        self.priors = np.zeros(0)
        self.children: dict[int, _Place] = {}
        self.visits = self.pending = 0
        self.total = 0.0
        self.done = False

    def expand(self, expansion: Expansion, width: int | None) -> None:
        """Lists the children, at most ``width``; a node without any is done."""
        found = expansion.best(len(expansion.allowed) if width is None else width)
        self.tokens, self.logprobs = [token for token, _ in found], [logprob for _, logprob in found]
        logs = np.asarray(self.logprobs)
        self.priors = np.exp(logs - logs.max()) if len(logs) else logs
        self.priors = self.priors / max(self.priors.sum(), 1e-300)
        self.close()

    def close(self) -> None:
        """Marks the node, and those above it, as done where all of their children are."""
        place: _Place | None = self
        while place is not None and place.tokens is not None and not place.done:
            place.done = len(place.children) == len(place.tokens) and all(child.done for child in place.children.values())
            place = place.parent if place.done else None


class _Search:
    """One tree, its scale and what was found."""

    def __init__(
        self, space: Space, judge: Judge | None, value: Value | None, likelihood: float, c: float, width: int | None, seed: int | None
    ) -> None:
        self.space, self.judge, self.value, self.likelihood, self.c, self.width, self.seed = space, judge, value, likelihood, c, width, seed
        self.texts: dict[tuple[int, ...], Node] = {}
        self.least, self.most = math.inf, -math.inf
        self.root = _Place(space.start(), None)
        self.simulations = 0

    # ------------------------------------------------------------ scores
    def score(self, node: Node) -> float:
        """Of a whole text."""
        own = self.likelihood * node.logprob if self.likelihood else 0.0
        return own + (self.judge(node) if self.judge is not None else 0.0)

    def rank(self, node: Node) -> float:
        """What results are ordered by: the score of a text, the log-probability of what is none."""
        return self.score(node) if node.finished else node.logprob

    def keep(self, nodes: Sequence[Node]) -> list[float]:
        """Notes whole texts (all judged in one batch) and gives their scores."""
        if self.judge is not None:
            self.judge.many(nodes)
        self.texts |= {node.tokens: node for node in nodes if node.finished and node.tokens not in self.texts}
        return [self.score(node) for node in nodes]

    # ------------------------------------------------------------ down
    def select(self) -> _Place | None:
        """A leaf for a simulation, made where it is new; ``None`` where every way is taken by simulations that are under way."""
        place = self.root
        while place.tokens is not None:
            index = self._best_child(place)
            if index is None:
                return None
            child = place.children.get(index)
            if child is None:
                token, logprob = place.tokens[index], place.logprobs[index]
                total = place.node.logprob + logprob
                child = place.children[index] = _Place(self.space.child(place.node, token, logprob, total), place)
            place = child
        return None if place.pending else place

    def _best_child(self, place: _Place) -> int | None:
        assert place.tokens is not None
        q = np.full(len(place.tokens), self._scaled(place.total / place.visits) if place.visits else 0.0)
        n = np.zeros(len(place.tokens))
        closed = np.zeros(len(place.tokens), bool)
        for index, child in place.children.items():
            n[index] = child.visits + child.pending
            # a simulation under way counts as one that found the least: the next one goes elsewhere
            if n[index]:
                q[index] = (self._scaled(child.total / child.visits) * child.visits if child.visits else 0.0) / n[index]
            closed[index] = child.done
        if closed.all():
            return None
        worth = q + self.c * place.priors * math.sqrt(max(1.0, n.sum())) / (1 + n)
        worth[closed] = -math.inf
        return int(worth.argmax())

    def _scaled(self, value: float) -> float:
        return (value - self.least) / (self.most - self.least) if self.most > self.least else 0.5

    # ------------------------------------------------------------ up
    def back_up(self, place: _Place, value: float) -> None:
        """A simulation has come back."""
        self.simulations += 1
        # what must not be is the worst that was seen, not infinitely bad: means must stay finite
        value = value if value > -math.inf else (self.least if self.least < math.inf else 0.0)
        self.least, self.most = min(self.least, value), max(self.most, value)
        at: _Place | None = place
        while at is not None:
            at.visits, at.total, at.pending = at.visits + 1, at.total + value, at.pending - 1
            at = at.parent

    def round(self, batch: int) -> bool:
        """Up to ``batch`` simulations with one batch of the model; whether there was anything to do."""
        leaves: list[_Place] = []
        while len(leaves) < batch and not self.root.done:
            leaf = self.select()
            if leaf is None:
                break
            at: _Place | None = leaf
            while at is not None:
                at.pending, at = at.pending + 1, at.parent
            leaves.append(leaf)
        ended = [leaf for leaf in leaves if self.space.is_leaf(leaf.node)]
        inner = [leaf for leaf in leaves if not self.space.is_leaf(leaf.node)]
        for leaf, expansion in zip(inner, self.space.expand([leaf.node for leaf in inner])):
            leaf.expand(expansion, self.width)
        values = [*self.keep([leaf.node for leaf in ended]), *self.evaluate(inner)]
        for leaf, value in zip([*ended, *inner], values):
            self.back_up(leaf, value)
        for leaf in ended:
            leaf.done = True
            if leaf.parent is not None:
                leaf.parent.close()
        return bool(leaves)

    def evaluate(self, leaves: Sequence[_Place]) -> list[float]:
        """Values of prefixes: of the value, or of the texts that rollouts come to."""
        nodes = [leaf.node for leaf in leaves]
        if self.value is not None:
            given = self.value.values([self.space.candidate(node) for node in nodes]) if nodes else []
            return [float(v) + (self.likelihood * node.logprob if self.likelihood else 0.0) for v, node in zip(given, nodes)]
        rows = begin([leaf.node for leaf in leaves], [1] * len(leaves), self.seed)
        run(self.space, rows)
        whole = [row.node for row in rows if self.space.is_leaf(row.node)]
        scores = dict(zip((node.number for node in whole), self.keep(whole)))
        return [scores.get(row.node.number, self.least if self.least < math.inf else 0.0) for row in rows]

    # ------------------------------------------------------------ the end
    def commit(self) -> None:
        """Goes on with the child that was visited most."""
        best = max(self.root.children.values(), key=lambda child: (child.visits, child.total))
        self.space.prune([child.node for child in self.root.children.values() if child is not best], "visited less")
        self.root, best.parent = best, None

    def spare(self) -> list[Node]:
        """Where there is no text: the end of the most visited path, continued greedily as far as the budget goes."""
        place = self.root
        while place.children:
            place = max(place.children.values(), key=lambda child: child.visits)
        rows = begin([place.node], [1], None)
        run(self.space, rows)
        return [row.node for row in rows]


@method(
    "MCTS with value",
    law="argmax",
    target="of reward + likelihood * log p(text), in the limit of simulations (with width=None); the best text seen",
    cost="a row and a value (or a rollout) for every simulation",
    paper="Liu et al. 2023, arXiv:2309.15028 (PPO-MCTS); Silver et al. 2017, arXiv:1712.01815 (PUCT)",
    use="samplers.search.mcts.mcts(target, reward=R, value=V, simulations=N)",
)
def mcts(
    target: Target,
    *,
    reward: Reward | None = None,
    value: Value | None = None,
    likelihood: float = 0.0,
    simulations: int = 200,
    commit: bool = False,
    c: float = 1.25,
    width: int | None = 20,
    batch: int = 1,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int | None = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The best texts that a Monte Carlo tree search comes upon; see this module's docstring.

    Args:
        target: what is searched.
        reward: of whole texts; ``None``: the target's, or none (then ``likelihood`` must be above 0).
        value: of unfinished prefixes, in the reward's unit; ``None``: a rollout is made and its text scored.
        likelihood: weight of the text's log-probability in its score.
        simulations: in all; with ``commit`` before each token.
        commit: whether tokens are chosen one after the other.
        c: how much is explored.
        width: children of a node, the most probable ones; ``None``: all, and the search finds the best text once it has time to.
        batch: simulations that are under way at a time, in one batch of the model; more than one sends each to another leaf.
        ending, budget, trace, progress: see :mod:`.frontier`.
        seed: of the rollouts; ``None``: they are greedy.

    Returns:
        the texts that were come upon, best first; with ``commit`` the committed one is among them. ``complete``: all simulations were
        made, or the tree was searched through, which ``details["solved"]`` tells by 1.

    Raises:
        ValueError: an argument out of range, or nothing to score by.
    """
    require_positive(simulations=simulations, batch=batch, width=1 if width is None else width)
    if not c > 0 or not likelihood >= 0:
        raise ValueError(f"c must be above 0 and likelihood at least 0, not {c} and {likelihood}")
    judged = reward is not None or target.reward is not None
    if not judged and not likelihood > 0:
        raise ValueError("there is nothing to score texts by: give a reward, or a likelihood above 0")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    search = _Search(space, Judge(space, reward) if judged else None, value, likelihood, c, width, seed)
    complete = True
    while complete:
        made = search.simulations + simulations
        while (search.simulations < made or (commit and not search.root.children)) and not search.root.done:
            if space.spent:
                complete = False
                break
            if not search.round(max(1, min(batch, made - search.simulations))):
                break
        if not commit or not complete or search.root.done:
            break
        search.commit()
    rest = [] if search.texts else search.spare()
    texts = [*search.texts.values(), *(node for node in rest if node.finished)]
    rest = [node for node in rest if not node.finished]
    details = {"simulations": float(search.simulations), "solved": float(search.root.done)}
    return space.result(texts, "MCTS with value", complete=complete, rest=rest, scores=search.rank, details=details)
