"""NeuroLogic A*esque: words that must appear or must not, with a look ahead (Lu et al. 2022, arXiv:2112.08726).

The constraint is a conjunction of clauses, each phrases of which any one will do (:mod:`.words`), and of phrases that must not occur. At
every step, as in NeuroLogic decoding (Lu et al. 2021, arXiv:2010.12884),

1. children that write a forbidden phrase go, and of the others all but the ``candidates`` most probable, and those that have more than
   ``tolerance`` clauses less than the best of them;
2. the rest are grouped by the set of clauses that they have;
3. the beam is filled from the groups in turn: the best of every group, then the second best, ... .

*Best* is by ``log p(prefix) + weight * h``, A*esque's estimate of what is to come: ``h`` is the greatest log-probability that a phrase of a
clause the prefix lacks gets at any of the next ``lookahead`` positions, in a continuation that the model writes: greedily, or the best of
``samples`` drawn ones. A prefix with all clauses has ``h = 0``. ``h`` is of the phrase's first token (of what is left of it, where one is
under way), in any of its spellings, where the paper scores all tokens of the phrase; its beam and its soft continuations are not offered.
Continuations follow the constraint of the target.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..registry import method
from ..target import Target, pick, require_positive
from .beam import BeamRules, EarlyStopping, only_the_model
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .grid_beam import Step, children, run_banks
from .words import Phrases, Words

if TYPE_CHECKING:
    import torch

    from grammars.vocabulary import Vocabulary

    from .trace import Trace

__all__ = ["neurologic_astar"]


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The look ahead."""

    words: Words
    length: int
    samples: int
    source: random.Random | None

    def estimates(self, nodes: Sequence[Node]) -> list[float]:
        """``h`` of every node; see this module's docstring."""
        words, space = self.words, self.words.space
        found = [0.0 if words.met(node) == words.all or space.is_leaf(node) else -math.inf for node in nodes]
        running = [(i, node) for i, node in enumerate(nodes) if found[i] < 0 for _ in range(self.samples)]
        for step in range(self.length):
            if not running or space.spent:
                break
            rows = words.only_when_met([node for _, node in running], space.rows([node for _, node in running]))
            further = []
            for (i, node), row in zip(running, rows):
                found[i] = max([found[i], *(float(row[token]) for token in words.possible(node, row))])
                token = self._token(node, row) if step + 1 < self.length else None
                if token is not None:
                    child = space.child(node, token, float(row[token]), node.score + float(row[token]))
                    space.prune([child], "look ahead")
                    further += [] if space.is_leaf(child) or words.met(child) == words.all else [(i, child)]
            running = further
        return found

    def _token(self, node: Node, row: torch.Tensor) -> int | None:
        """What the model writes next, if anything may follow."""
        if self.source is None:
            return next((token for token, _ in self.words.best(node, row, 1)), None)
        weights = row.exp().numpy().copy()
        while weights.sum() > 0:
            token = pick(weights.cumsum(), self.source)
            if not self.words.forbids(node, token):
                return token
            weights[token] = 0.0
        return None


def _in_turn(words: Words, nodes: Sequence[Node], scores: Sequence[float], k: int) -> list[Node]:
    """The best of every group of nodes with the same clauses, then the second best, ..., at most ``k``."""
    order = sorted(range(len(nodes)), key=lambda i: (-scores[i], -nodes[i].score, i))
    seen: Counter[int] = Counter()
    turns = []
    for rank, i in enumerate(order):
        group = words.met(nodes[i])
        turns.append((seen[group], rank, nodes[i]))
        seen[group] += 1
    return [node for _, _, node in sorted(turns, key=lambda turn: turn[:2])[:k]]


@method(
    "NeuroLogic A*esque",
    law="argmax",
    target="approximately, of log p(text) / length ** length_penalty over the allowed texts that have all wanted phrases, no forbidden one",
    cost="a step: k rows, and up to candidates * samples * lookahead for the look ahead",
    paper="Lu et al. 2022, arXiv:2112.08726; Lu et al. 2021, arXiv:2010.12884",
    use="samplers.search.neurologic.neurologic_astar(target, words=[...], beams=K, lookahead=L)",
)
def neurologic_astar(
    target: Target,
    *,
    words: Phrases,
    forbidden: Sequence[str] = (),
    beams: int = 4,
    candidates: int = 24,
    tolerance: int = 2,
    weight: float = 0.5,
    lookahead: int = 4,
    samples: int | None = None,
    length_penalty: float = 1.0,
    early_stopping: EarlyStopping = False,
    whole: bool = True,
    ignore_case: bool = True,
    vocabulary: Vocabulary | None = None,
    ending: Ending = "budget",
    seed: int = 0,
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Good texts that have all of some words and none of others, by a beam that looks ahead for the words.

    Args:
        target: what is searched; it must have no reward.
        words, forbidden, whole, ignore_case, vocabulary: see :class:`samplers.search.words.Words`.
        beams: ``k``, prefixes that are kept.
        candidates: children of the beam that are looked at: the paper's alpha.
        tolerance: how many clauses less than the best of them they may have; the paper's beta. From 0 on.
        weight: of the estimate; 0 looks not ahead.
        lookahead: tokens.
        samples: continuations drawn for every candidate; ``None``: a greedy one.
        length_penalty, early_stopping: see :mod:`.beam`.
        seed: of the continuations that are drawn.
        ending, budget, trace, progress: see :mod:`.frontier`.

    Returns:
        as :func:`samplers.search.grid_beam.grid_beam_search`.

    Raises:
        ValueError: an argument out of range, or a target with a reward.
        ConstraintError: see :class:`samplers.search.words.Words`.
    """
    rules = BeamRules(beams, length_penalty, early_stopping)
    require_positive(candidates=candidates, lookahead=lookahead, samples=1 if samples is None else samples)
    if candidates < beams:
        raise ValueError(f"candidates must be at least the number of beams, {beams}, not {candidates}")
    if tolerance < 0 or not 0 <= weight < math.inf:
        raise ValueError(f"tolerance and weight must be at least 0, and finite, not {tolerance} and {weight}")
    only_the_model(target, "NeuroLogic A*esque")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    followed = Words(space, words, forbidden, whole=whole, ignore_case=ignore_case, vocabulary=vocabulary)
    ahead = _Ahead(followed, lookahead, samples or 1, None if samples is None else random.Random(seed))

    def choose(beam: Sequence[Node], rows: torch.Tensor, bound: set[int]) -> Step:
        picked = followed.children(beam, rows, candidates)
        most = max((followed.met_after(beam[i], token).bit_count() for i, token in picked), default=0)
        kept = [(i, token) for i, token in picked if followed.met_after(beam[i], token).bit_count() >= most - tolerance]
        options = [(beam[i].score + float(rows[i, token]), i, token, False) for i, token in kept]
        made = [node for node, _ in children(space, beam, rows, options)]
        hopes = ahead.estimates(made) if weight else [0.0] * len(made)
        scores = [node.score + weight * hope if weight else node.score for node, hope in zip(made, hopes)]
        chosen = _in_turn(followed, made, scores, beams)
        numbers = {node.number for node in chosen}
        space.prune([node for node in made if node.number not in numbers], "others have better hopes of the words")
        return [(node, False) for node in chosen]

    return run_banks(followed, rules, choose, "NeuroLogic A*esque")
