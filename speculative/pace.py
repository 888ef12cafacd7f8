"""How much to draft, step by step: always the same, or what pays by measured costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

from samplers.registry import method

from .costs import Costs

if TYPE_CHECKING:
    from .protocol import Outcome
    from .rules import Place
    from .tree import DraftTree

__all__ = ["Adaptive", "Always", "Bound", "Pace", "Seconds"]


class Bound(NamedTuple):
    """What a row may draft in a step: so many nodes, so deep."""

    nodes: int
    depth: int


class Seconds(NamedTuple):
    """Time that a step took: drafting, the target's forward, verifying."""

    draft: float
    target: float
    verify: float


class Pace(Protocol):
    """Decides how much is drafted.

    What it decides before a draft may depend on anything; what it trims afterwards may be ``fixed`` proposals only (see
    :class:`~speculative.tree.DraftTree`).
    """

    def begin(self, invariant: bool) -> None:
        """New texts; ``invariant``: whatever is drafted, the verifier gives the same text (see :class:`~speculative.protocol.Verifier`)."""
        ...

    def bounds(self, rows: Sequence[int], places: Sequence[Place]) -> list[Bound]:
        """For each row, before drafting; ``Bound(0, 0)`` skips the drafter."""
        ...

    def trim(self, trees: Sequence[DraftTree], rows: int) -> list[DraftTree]:
        """The part of each drafted tree that is worth the target's time; ``rows``: how many rows the forward will hold."""
        ...

    def observe(self, outcomes: Sequence[Outcome], seconds: Seconds) -> None:
        """What a step gave, and what it cost."""
        ...


@dataclass(frozen=True, slots=True)
class Always:
    """The same bound at every step, whatever it pays.

    Attributes:
        nodes, depth: see :class:`Bound`.
    """

    nodes: int = 64
    depth: int = 64

    def begin(self, invariant: bool) -> None:
        """See :meth:`Pace.begin`."""

    def bounds(self, rows: Sequence[int], places: Sequence[Place]) -> list[Bound]:
        """See :meth:`Pace.bounds`."""
        return [Bound(self.nodes, self.depth)] * len(rows)

    def trim(self, trees: Sequence[DraftTree], rows: int) -> list[DraftTree]:
        """See :meth:`Pace.trim`."""
        return list(trees)

    def observe(self, outcomes: Sequence[Outcome], seconds: Seconds) -> None:
        """See :meth:`Pace.observe`."""


class _Rates:
    """Frequencies by key, with forgetting: what was not seen for long is believed less, so that it is tried again by and by."""

    def __init__(self, memory: float = 0.96, prior: float = 2.0) -> None:
        self._memory, self._prior = memory, prior
        self._known: dict[object, tuple[float, float, int]] = {}  # trials, successes, and the step they were noted at
        self.step = 0

    def observe(self, key: object, success: bool) -> None:
        trials, successes = self._now(key)
        self._known[key] = (trials + 1, successes + success, self.step)

    def _now(self, key: object) -> tuple[float, float]:
        trials, successes, step = self._known.get(key, (0.0, 0.0, self.step))
        faded = self._memory ** (self.step - step)
        return trials * faded, successes * faded

    def __call__(self, key: object, expected: float) -> float:
        """The rate at a key; ``expected`` is what is believed without observations."""
        trials, successes = self._now(key)
        return (successes + self._prior * expected) / (trials + self._prior)


_CHEAP = 0.03  # drafts that cost less than this share of a forward are always made, and trimmed afterwards
_DEAR = 0.2  # a share of a forward from which on a draft that can be cut afterwards is not made whole
_FREE = 0.01  # a share of a forward below which drafts are made at every step, whether they are used or not
_LONGEST_PAUSE, _LONGEST_PATIENCE = 16, 64  # steps
_ROOM, _FADE, _SMALLEST = 2.0, 0.9, 4  # a draft has twice the nodes that were kept of one lately, and twice these at least
_HOPE = 0.5  # chance of a proposal about which nothing is known


@method(
    "adaptive drafting",
    law="exact",
    target="how much is drafted at each step: the law is the verifier's",
    cost="none to speak of; it exists so that drafting that does not pay is given up",
    use="speculative.decode(..., pace=Adaptive())",
)
class Adaptive:
    """Drafts what raises the tokens a second: a cost model measured as decoding goes, and the acceptance measured by source of the drafts.

    Before drafting, where drafting costs something: the depth ``d`` that is best by ``(rows + accepted down to d) / (draft(d) + forward)``;
    0 skips the drafter. After drafting, where all proposals are fixed: of all nodes of all rows the most promising ones, as many as are
    best by the same measure. Old observations fade, so what has been given up is tried again from time to time.

    Measured times make the choice depend on a clock. That changes no law, and with an invariant verifier (greedy, matching) not even the
    text; with others a seed would not give one text any more, which is refused unless asked for.

    Args:
        nodes, depth: most of a row and step, see :class:`Bound`.
        costs: costs to begin with, frozen ones (:meth:`Costs.freeze`, :meth:`Costs.of`) stay as they are; ``None``: measured.
        reproducible: refuse what would make the text depend on measured times.
        clock: seconds.

    Raises:
        ValueError: ``nodes`` or ``depth`` below 1; or (when decoding begins) see ``reproducible``.
    """

    def __init__(
        self,
        nodes: int = 64,
        depth: int = 16,
        *,
        costs: Costs | None = None,
        reproducible: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if nodes < 1 or depth < 1:
            raise ValueError(f"nodes and depth must be at least 1, not {nodes} and {depth}")
        self.nodes, self.depth, self.reproducible, self.clock = nodes, depth, reproducible, clock
        self.costs = Costs() if costs is None else costs
        self._reach = _Rates()  # of a depth: whether so many drafts in a row were taken
        self._taken = _Rates()  # of a kind of proposal: whether it was taken where its parent was
        self._sizes = 1.0  # nodes for each token of depth, on average
        self._seen: set[int] = set()
        self._asked = False  # whether there was a draft in this step, even one of nothing
        self._cuts = False  # whether drafts are cut to size
        self._largest = float(nodes)  # what was kept of one lately, at most
        self._skipped, self._patience = 0, 4  # steps for which drafting is given up, and how many of them are let pass
        self._pause = self._wait = 0  # steps without drafts: of the last pause, and still to come

    def begin(self, invariant: bool) -> None:
        """See :meth:`Pace.begin`."""
        if self.reproducible and not invariant and not self.costs.frozen:
            raise ValueError(
                "with this verifier the text of a seed depends on how much is drafted, so on measured times: give Adaptive frozen costs "
                "(costs=Costs.of(...)), or say reproducible=False"
            )
        self._seen = set()

    # ------------------------------------------------------------ before drafting
    def bounds(self, rows: Sequence[int], places: Sequence[Place]) -> list[Bound]:
        """See :meth:`Pace.bounds`."""
        if self._wait:
            self._wait -= 1
            self._asked = False
            return [Bound(0, 0)] * len(rows)
        # what is cut to size afterwards may as well be drafted whole, unless that takes long
        whole = self._cuts and self.costs.draft(self.depth) < _DEAR * self.costs.target(len(rows))
        depth = self.depth if whole else self._best_depth(len(rows)) or self._retried()
        self._asked = depth > 0 and any(place.left > 1 for place in places)
        nodes = min(self.nodes, math.ceil(_ROOM * self._largest)) if whole else self.nodes
        return [Bound(nodes, depth) if depth else Bound(0, 0)] * len(rows)

    def _retried(self) -> int:
        """The depth of another try after drafting was given up, 0 meanwhile: what was measured may have been an accident."""
        self._skipped += 1
        if self._skipped <= self._patience:
            return 0
        self._skipped, self._patience = 0, min(2 * self._patience, _LONGEST_PATIENCE)
        return self.depth

    def _best_depth(self, rows: int) -> int:
        """How deep to draft; all the depth there is where nothing is known, or drafting costs nothing to speak of."""
        target, draft = self.costs.target, self.costs.draft
        if not (target.known and draft.known) or draft(self.depth) < _CHEAP * target(rows):
            return self.depth
        best, best_rate, accepted = 0, rows / target(rows), 0.0
        for depth in range(1, self.depth + 1):
            accepted += rows * self._reach(depth, 0.8**depth)
            nodes = min(self.nodes, math.ceil(self._sizes * depth))
            rate = (rows + accepted) / (draft(depth) + target(rows * (1 + nodes)))
            if rate > best_rate:
                best, best_rate = depth, rate
        return best

    # ------------------------------------------------------------ after drafting
    def trim(self, trees: Sequence[DraftTree], rows: int) -> list[DraftTree]:
        """See :meth:`Pace.trim`."""
        target = self.costs.target
        if not target.known:
            return list(trees)
        fixed = [tree.fixed for tree in trees]
        whole = rows + sum(tree.size for tree, cut in zip(trees, fixed) if not cut)
        values = sorted(((-value, i, node) for i, tree in enumerate(trees) if fixed[i] for node, value in self._values(tree)), key=_order)
        gains = accumulate((-value for value, _, _ in values), initial=float(rows))
        rates = [gain / target(whole + n) for n, gain in enumerate(gains)]
        count = max(range(len(rates)), key=rates.__getitem__)
        self._cuts = all(fixed)
        if values and self._cuts:
            self._rest(count)
            self._largest = max(_FADE * self._largest, count / len(trees), _SMALLEST)
        if count == len(values):
            return list(trees)
        kept: list[set[int]] = [set() for _ in trees]
        for _, i, node in values[:count]:
            kept[i].add(node)
        return [tree.keep(nodes) if cut and len(nodes) < tree.size else tree for tree, nodes, cut in zip(trees, kept, fixed)]

    def _rest(self, count: int) -> None:
        """Leaves out drafts for longer and longer while nothing of them is kept, where they cost something."""
        if count or self.costs.draft(self.depth) < _FREE * self.costs.target(1):
            self._pause = 0
        else:
            self._pause = min(max(1, 2 * self._pause), _LONGEST_PAUSE)
        self._wait = self._pause

    def _values(self, tree: DraftTree) -> list[tuple[int, float]]:
        """Each node with the estimated probability that it is accepted; no node has more than its parent."""
        values = [1.0] * len(tree)
        ranks = _ranks(tree)
        for node in range(1, len(tree)):
            values[node] = values[tree.parents[node]] * self._chance(tree, node, ranks[node])
        return list(enumerate(values))[1:]

    def _chance(self, tree: DraftTree, node: int, rank: int) -> float:
        fine, coarse = _kind(tree, node, rank)
        told = tree.chances[node]
        return self._taken(fine, self._taken(coarse, _HOPE / (1 + rank) if told is None else told))

    # ------------------------------------------------------------ afterwards
    def observe(self, outcomes: Sequence[Outcome], seconds: Seconds) -> None:
        """See :meth:`Pace.observe`."""
        self._reach.step += 1
        self._taken.step += 1
        deepest = 0
        for outcome in outcomes:
            tree = outcome.tree
            depth = max(tree.depths)
            deepest = max(deepest, depth)
            if not depth:
                continue
            self._sizes = 0.95 * self._sizes + 0.05 * tree.size / depth
            for level in range(1, depth + 1):
                self._reach.observe(level, len(outcome.path) >= level)
            ranks, path = _ranks(tree), set(outcome.path)
            for parent in (0, *outcome.path):
                for node in tree.children(parent):
                    for key in _kind(tree, node, ranks[node]):
                        self._taken.observe(key, node in path)
        rows = {outcome.row for outcome in outcomes}
        if rows <= self._seen:  # the first step of a row evaluates its prompt as well
            tokens = sum(len(outcome.nodes) for outcome in outcomes)
            self.costs.observe(tokens, max(deepest, int(self._asked)), seconds.target + seconds.verify, seconds.draft)
        self._seen |= rows


def _order(entry: tuple[float, int, int]) -> tuple[float, int, int]:
    """Most promising first; of equal ones those nearer to the root, so that parents come before their children."""
    value, tree, node = entry
    return value, node, tree


def _ranks(tree: DraftTree) -> list[int]:
    """How many siblings were proposed before each node."""
    seen = [0] * len(tree)
    ranks = [0] * len(tree)
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        ranks[node] = seen[parent]
        seen[parent] += 1
    return ranks


def _kind(tree: DraftTree, node: int, rank: int) -> tuple[object, object]:
    """What proposals are counted together: finely, and coarsely."""
    coarse = (tree.sources[node], min(rank, 4))
    told = tree.chances[node]
    return (*coarse, min(tree.depths[node], 6), -1 if told is None else int(told * 8)), coarse
