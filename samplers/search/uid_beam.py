"""Search for texts of uniform information density: ``log p(text) - weight * R(surprisals)``.

Human text spreads information evenly, and so do the texts of narrow beams; the regularisers of Meister, Cotterell and Vieira (2020,
arXiv:2010.02650) ask for that openly. With ``u_t = -log p(y_t | y_<t)`` over a text of ``T`` tokens:

* ``variance``: ``1/T sum (u_t - mean u)^2``
* ``local``: ``1/T sum (u_t - u_{t-1})^2`` with ``u_0 = 0``
* ``max``: ``max u_t``
* ``square``: ``sum u_t^2``
* ``greedy``: ``sum (u_t - min over allowed tokens of u_t)^2``

``max``, ``square`` and ``greedy`` never fall when a text grows, so best-first search is exact with them; for ``variance`` and ``local`` the
sum never falls, and divided by the greatest length it bounds the regulariser from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch

from ..registry import method
from ..target import Target
from .beam import BeamRules, EarlyStopping, Scoring, only_the_model, run_beam
from .best_first_beam import run_best_first
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["Regulariser", "UidScoring", "uid_beam_search"]

Regulariser = Literal["variance", "local", "max", "square", "greedy"]


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of a prefix's surprisals: their number, mean, the regulariser's running sum (or maximum), and the last one."""

    count: int = 0
    mean: float = 0.0
    total: float = 0.0
    last: float = 0.0


class UidScoring(Scoring):
    """Scores with a regulariser.

    Args:
        regulariser: see this module's docstring.
        weight: of it.
        max_tokens: of a text, for bounds.
    """

    def __init__(self, regulariser: Regulariser, weight: float, max_tokens: int) -> None:
        self.regulariser, self.weight, self.max_tokens = regulariser, weight, max_tokens
        self.ordered = regulariser not in ("variance", "local")
        self._lowest: dict[int, float] = {}  # least surprisal after a node, by its number
        self._sums: dict[int, _Sums] = {}

    def children(self, nodes: Sequence[Node], logprobs: torch.Tensor) -> torch.Tensor:
        """See :meth:`Scoring.children`."""
        totals = self._totals(nodes, logprobs)
        if not self.ordered:
            totals = totals / torch.tensor([[len(node.tokens) + 1.0] for node in nodes], dtype=torch.float64)
        return self._scores(nodes, logprobs, totals)

    def bounds(self, nodes: Sequence[Node], logprobs: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """See :meth:`Scoring.bounds`."""
        return scores if self.ordered else self._scores(nodes, logprobs, self._totals(nodes, logprobs) / self.max_tokens)

    def _scores(self, nodes: Sequence[Node], logprobs: torch.Tensor, regularisers: torch.Tensor) -> torch.Tensor:
        sums = torch.tensor([[node.logprob] for node in nodes], dtype=torch.float64)
        # infinite surprisals make no number of some regularisers
        return (logprobs + sums - self.weight * regularisers).masked_fill(logprobs == -math.inf, -math.inf)

    def _totals(self, nodes: Sequence[Node], logprobs: torch.Tensor) -> torch.Tensor:
        """The regulariser's running sum (or maximum) for every child."""
        for node, lowest in zip(nodes, (-logprobs).min(-1).values.tolist()):
            self._lowest[node.number] = lowest
        known = [self.sums(node) for node in nodes]
        count, mean, total, last = (
            torch.tensor([[float(getattr(s, name))] for s in known], dtype=torch.float64) for name in ("count", "mean", "total", "last")
        )
        u = -logprobs
        if self.regulariser == "variance":
            return total + (u - mean) ** 2 * count / (count + 1)
        if self.regulariser == "local":
            return total + (u - last) ** 2
        if self.regulariser == "max":
            return torch.maximum(total, u)
        if self.regulariser == "square":
            return total + u**2
        return total + (u - u.min(-1, keepdim=True).values) ** 2

    def sums(self, node: Node) -> _Sums:
        """Those of a prefix; of each node they are computed once."""
        found = self._sums.get(node.number)
        if found is None:
            found = _Sums() if node.parent is None else self._next(node.parent, node)
            self._sums[node.number] = found
        return found

    def _next(self, parent: Node, node: Node) -> _Sums:
        before, u = self.sums(parent), parent.logprob - node.logprob
        delta = u - before.mean
        mean = before.mean + delta / (before.count + 1)
        grown = {
            "variance": before.total + delta * (u - mean),  # Welford
            "local": before.total + (u - before.last) ** 2,
            "max": max(before.total, u),
            "square": before.total + u**2,
            "greedy": before.total + (u - self._lowest.get(parent.number, u)) ** 2,
        }
        return _Sums(before.count + 1, mean, grown[self.regulariser], u)


@method(
    "UID-regularised beam",
    law="argmax",
    target=(
        "of (log p(text) - weight * R(text)) / length ** length_penalty: approximately, with a beam; exactly, with search='exact'; "
        "R is one of five measures of uneven surprisal"
    ),
    cost="as beam search; exact search expands every prefix whose bound is above the best score",
    paper="Meister, Cotterell, Vieira 2020, arXiv:2010.02650",
    use="samplers.search.uid_beam.uid_beam_search(target, regulariser=R, weight=W)",
)
def uid_beam_search(
    target: Target,
    *,
    regulariser: Regulariser = "square",
    weight: float = 0.5,
    search: Literal["beam", "best-first", "exact"] = "beam",
    beams: int = 4,
    length_penalty: float = 0.0,
    early_stopping: EarlyStopping = False,
    patience: float = 1.0,
    n: int = 1,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The best texts under a model and a regulariser of their surprisals.

    Args:
        target: what is searched; it must have no reward.
        regulariser, weight: see this module's docstring.
        search: a beam; best-first beam search (the texts of the beam with ``early_stopping="never"``, fewer rows; not for ``variance``
            and ``local``, whose prefixes do not come up in the order of their scores); or an exact search.
        n: texts that the latter two look for.
        beams, length_penalty, early_stopping, patience: see :mod:`.beam`.
        ending, budget, trace, progress: see :mod:`.frontier`.

    Raises:
        ValueError: an argument out of range, or a target with a reward.
    """
    rules = BeamRules(beams, length_penalty, early_stopping, patience)
    only_the_model(target, "UID-regularised beam search")
    if regulariser not in get_args(Regulariser):
        raise ValueError(f"regulariser must be one of {get_args(Regulariser)}, not {regulariser!r}")
    if not 0 <= weight < math.inf:
        raise ValueError(f"weight must be a finite number of at least 0, not {weight}")
    if search not in ("beam", "best-first", "exact"):
        raise ValueError(f'search must be "beam", "best-first" or "exact", not {search!r}')
    if search != "exact" and not 1 <= n <= beams:
        raise ValueError(f"n must be from 1 to beams ({beams}), not {n}")
    scoring = UidScoring(regulariser, weight, target.max_tokens)
    if search == "best-first" and not scoring.ordered:
        raise ValueError(f'with {regulariser!r} best-first search has no order by length: use search="beam" or "exact"')
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    if search == "beam":
        return run_beam(space, rules, scoring, "UID-regularised beam")
    return run_best_first(space, rules, scoring, "UID-regularised beam", n=n, compete=False, exact=search == "exact")
