"""Best-first beam search: the texts that beam search finds, with fewer expansions.

Beam search expands ``k`` prefixes at every length, whether they can still win or not. Where no score grows when a text gets longer, the
same texts are found by always expanding the best prefix there is, of any length, while each length is granted ``k`` of them: prefixes of
one length come up in the order of their scores, so those that get a place are those of the beam, and the first text that comes up is
the best one: what is still waiting cannot overtake it. Prefixes that beam search would have expanded after that are never looked at.

Of an expanded prefix only the best child that is left waits in the queue, so the queue is as short as the number of expansions (the paper
caps it instead), and nodes are made when a place is given.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..registry import method
from ..target import Target, require_positive
from .beam import BeamRules, Scoring, Slots, only_the_model
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space

if TYPE_CHECKING:
    from ..models.context import Context
    from .trace import Trace

__all__ = ["best_first_beam_search", "run_best_first"]

_UNBOUNDED = 1 << 60


@dataclass(frozen=True, slots=True, eq=False)
class _Brood:
    """The children of a node, best bound first; each list has one entry a child."""

    parent: Node
    tokens: list[int]
    logprobs: list[float]
    scores: list[float]
    bounds: list[float]

    @property
    def length(self) -> int:
        """Number of tokens of a child."""
        return len(self.parent.tokens) + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A child that no node was made for yet."""

    brood: _Brood
    place: int

    @property
    def token(self) -> int:
        return self.brood.tokens[self.place]

    def node(self, space: Space) -> Node:
        """Makes it."""
        brood, i = self.brood, self.place
        return space.child(brood.parent, brood.tokens[i], brood.logprobs[i], brood.scores[i])


class _Places:
    """Which lengths still have places, for prefixes and for texts.

    Args:
        beams: places of every length.
        compete: whether a text that has ended takes a place at its own and every greater length, as in the paper; otherwise texts and
            prefixes are counted apart, by the rules of :func:`~.beam.beam_search`.
    """

    def __init__(self, beams: int, compete: bool) -> None:
        self.beams, self.compete = beams, compete
        self._prefixes: Counter[int] = Counter()
        self._texts: Counter[int] = Counter()
        self._everywhere: list[int] = []  # lengths of the texts that hold places from there on
        self._closed = -1  # shorter prefixes, and those of this length, lead nowhere

    def _taken(self, length: int) -> int:
        return self._prefixes[length] + sum(1 for start in self._everywhere if start <= length)

    def give(self, length: int, is_text: bool, longest: int) -> bool:
        """Gives a place at ``length``, where there is one."""
        if not self.compete:
            taken = self._prefixes[length] + self._texts[length] if is_text else self._prefixes[length]
            (self._texts if is_text else self._prefixes)[length] += 1
            return taken < self.beams
        if length <= self._closed or self._taken(length) >= self.beams:
            return False
        if is_text:
            self._everywhere.append(length)
        else:
            self._prefixes[length] += 1
        for full in range(longest, length - 1, -1):
            if self._taken(full) >= self.beams:
                self._closed = max(self._closed, full)
                break
        return True


class _Search:
    """One search: the queue and what is taken from it. An entry of the queue is (-bound, 0 for a text that is ranked, order, what)."""

    def __init__(self, space: Space, rules: BeamRules, scoring: Scoring, places: _Places, batch: int) -> None:
        self.space, self.rules, self.scoring, self.places, self.batch = space, rules, scoring, places, batch
        self.queue: list[tuple[float, int, int, Node | _Waiting]] = []
        self.found: list[Node] = []
        self.longest = 0
        self._order = 0
        self._known: set[Context] = set()  # that were evaluated together with others

    def _push(self, bound: float, ranked: bool, what: Node | _Waiting) -> None:
        heapq.heappush(self.queue, (-bound, 0 if ranked else 1, self._order, what))
        self._order += 1

    def _bound(self, bound: float, length: int) -> float:
        """The best normalised score of a text whose score is at most ``bound`` and that begins with ``length`` tokens."""
        grows = self.rules.length_penalty > 0
        return self.rules.normalised(bound, self.space.target.max_tokens if grows else length)

    def run(self, n: int) -> bool:
        """Finds ``n`` texts; whether it came to its own end."""
        self._expand(self.space.start())
        while self.queue and len(self.found) < n:
            if self.space.spent:
                return False
            what = heapq.heappop(self.queue)[3]
            if isinstance(what, Node):
                self.found.append(what)
            else:
                self._wait(what.brood, what.place + 1)
                self._take(what)
        return True

    def _wait(self, brood: _Brood, place: int) -> None:
        """Puts a child into the queue, where there is one."""
        if place < len(brood.tokens):
            self._push(self._bound(brood.bounds[place], brood.length), False, _Waiting(brood, place))

    def _is_text(self, what: _Waiting) -> bool:
        target = self.space.target
        return what.token in target.ends or what.brood.length >= target.max_tokens

    def _take(self, what: _Waiting) -> None:
        is_text = self._is_text(what)
        if self.places.give(what.brood.length, is_text, self.longest):
            node = what.node(self.space)
            if is_text:
                self._push(self.rules.text_score(node), True, node)
            else:
                self._expand(node)

    def _expand(self, node: Node) -> None:
        if self.batch > 1:
            self._prefetch(node)
        self.longest = max(self.longest, len(node.tokens) + 1)
        rows = self.space.rows([node])
        scores = self.scoring.children([node], rows)
        bounds = self.scoring.bounds([node], rows, scores)[0]
        # more than these can get no place: each of the others is behind as many as there are
        values, tokens = bounds.topk(min(self.places.beams + len(self.space.target.ends), int((bounds > -math.inf).sum())))
        brood = _Brood(node, tokens.tolist(), rows[0, tokens].tolist(), scores[0, tokens].tolist(), values.tolist())
        self._wait(brood, 0)

    def _prefetch(self, node: Node) -> None:
        """Has the model evaluate ``node``, and with it what is likely to be expanded next; it keeps the answers."""
        if node.context in self._known:
            return
        best = [what for *_, what in heapq.nsmallest(2 * self.batch, self.queue) if isinstance(what, _Waiting) and not self._is_text(what)]
        contexts = [what.brood.parent.context.extend(what.token) for what in best[: self.batch - 1]]
        self._known.update(contexts)
        self.space.meter.logprobs([node.context, *contexts])


def run_best_first(
    space: Space, rules: BeamRules, scoring: Scoring, name: str, *, n: int, compete: bool, batch: int = 1, exact: bool = False
) -> SearchResult:
    """A best-first search over a space; ``exact``: without a bound on the prefixes of a length."""
    search = _Search(space, rules, scoring, _Places(_UNBOUNDED if exact else rules.beams, compete), batch)
    complete = search.run(n)
    waiting = [what for *_, what in sorted(search.queue, key=lambda entry: entry[:3])] if not complete else []
    ranked = [what for what in waiting if isinstance(what, Node)]
    rest: list[Node] = []
    if not search.found and not ranked and waiting:
        rest = [next(what for what in waiting if isinstance(what, _Waiting)).node(space)]
    return space.result([*search.found, *ranked], name, complete=complete, rest=rest, scores=rules.text_score)


@method(
    "Best-First Beam Search",
    law="argmax",
    target="the text that beam search of the same width finds",
    cost="at most the rows of beam search, usually fewer; a row at a time unless batch > 1",
    paper="Meister, Vieira, Cotterell 2020, arXiv:2007.03909",
    use="samplers.search.best_first_beam.best_first_beam_search(target, beams=K)",
)
def best_first_beam_search(
    target: Target,
    *,
    beams: int | None = 4,
    n: int = 1,
    length_penalty: float = 0.0,
    finished: Slots = "compete",
    batch: int = 1,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The ``n`` best texts of :func:`~.beam.beam_search` with the same ``beams`` and ``finished`` (and ``early_stopping="never"``).

    Args:
        target: what is searched; it must have no reward.
        beams: places of every length; ``None``: as many as there are prefixes, an exact search for the best texts.
        n: texts that are looked for, at most ``beams``; the fewer, the sooner it ends.
        length_penalty: as in beam search; prefixes are ordered by the best score that a text can reach from them (section 4 of the
            paper): that of ``max_tokens`` tokens where the penalty is above 0.
        finished: whether texts hold places of all greater lengths (``"compete"``, as in the paper; needs ``length_penalty=0``) or are
            set aside.
        batch: prefixes that are evaluated together: the best one and those next in the queue. Fewer, larger calls of the model, and
            some rows in vain.
        ending, budget, trace, progress: see :mod:`.frontier`.

    Raises:
        ValueError: an argument out of range, or a target with a reward.
    """
    rules = BeamRules(beams=1 if beams is None else beams, length_penalty=length_penalty)
    only_the_model(target, "best-first beam search")
    require_positive(n=n, batch=batch)
    if n > (math.inf if beams is None else beams):
        raise ValueError(f"a beam of {beams} has no {n} texts: n must be at most beams")
    if finished not in ("aside", "compete"):
        raise ValueError(f'finished must be "aside" or "compete", not {finished!r}')
    if finished == "compete" and length_penalty != 0 and beams is not None:
        raise ValueError(f'finished="compete" compares prefixes with texts, which needs length_penalty=0, not {length_penalty}')
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    return run_best_first(
        space, rules, Scoring(), "Best-First Beam Search", n=n, compete=finished == "compete", batch=batch, exact=beams is None
    )
