"""Diverse beam search: groups of beams that keep away from each other (Vijayakumar et al. 2016, arXiv:1610.02424).

The beam is divided into groups, which choose one after the other at every step. A group sees the scores of its own prefixes, less
``diversity`` times a dissimilarity term of what the groups before it chose at the same step; inside a group it is beam search.

* ``"hamming"`` counts how many prefixes of the groups before took the token as their new last one;
* ``"ngram"`` counts how often they hold the n-gram that the token would complete.

As in the authors' program (and in the group beam search that transformers had) the terms stay in a prefix's score when it is extended.
Finished texts are ranked by their log-probability alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch

from ..registry import method
from ..target import Target, require_positive
from .beam import BeamRules, EarlyStopping, Pool, only_the_model, split
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["Dissimilarity", "diverse_beam_search"]

Dissimilarity = Literal["hamming", "ngram"]


@dataclass(slots=True)
class _Group:
    """Its beam, and its finished texts."""

    beam: list[Node]
    pool: Pool


class _Chosen:
    """What the groups before chose at this step."""

    def __init__(self, kind: Dissimilarity, n: int, before: Iterable[Node]) -> None:
        self.size = 1 if kind == "hamming" else n
        self.counts: Counter[tuple[int, ...]] = Counter()
        for node in before:
            if kind == "hamming":
                self.counts[node.tokens[-1:]] += 1
            else:
                self.counts.update(node.tokens[i : i + n] for i in range(len(node.tokens) - n + 1))

    def penalties(self, nodes: Sequence[Node], width: int) -> torch.Tensor:
        """How often what each child of ``nodes`` would add was chosen: ``float64[len(nodes), width]``."""
        table = torch.zeros((len(nodes), width), dtype=torch.float64)
        for i, node in enumerate(nodes):
            recent = node.tokens[len(node.tokens) - self.size + 1 :] if self.size > 1 else ()
            for gram, count in self.counts.items():
                if gram[:-1] == recent:
                    table[i, gram[-1]] += count
        return table


def _step(space: Space, group: _Group, rows: torch.Tensor, penalties: torch.Tensor, diversity: float, k: int) -> list[Node]:
    """Moves a group on by a token; what it chose, finished texts included."""
    scores = rows + torch.tensor([[node.score] for node in group.beam], dtype=torch.float64) - diversity * penalties
    running, ended = split(space, group.beam, rows, scores, k)
    group.pool.add(ended)
    if running and group.pool.closed(max(node.logprob for node in running), len(running[0].tokens)):
        space.prune(running, "no better than what is finished")
        group.beam = []
    else:
        group.beam = running
    return running + ended


@method(
    "Diverse Beam Search",
    law="argmax",
    target="approximately, of log p(text) less dissimilarity terms that keep the groups of the beam apart; see the module",
    cost="as beam search of the same total width: groups choose one after the other, their rows come in one batch",
    paper="Vijayakumar et al. 2016, arXiv:1610.02424",
    use="samplers.search.diverse_beam.diverse_beam_search(target, beams=K, groups=G)",
)
def diverse_beam_search(
    target: Target,
    *,
    beams: int = 6,
    groups: int = 3,
    diversity: float = 0.5,
    dissimilarity: Dissimilarity = "hamming",
    n: int = 2,
    length_penalty: float = 1.0,
    early_stopping: EarlyStopping = False,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Texts that are good and differ from each other.

    Args:
        target: what is searched; it must have no reward.
        beams: prefixes over all groups; a multiple of ``groups``.
        groups: 1 is beam search.
        diversity: weight of the dissimilarity term; 0 makes all groups equal.
        dissimilarity, n: see this module's docstring.
        length_penalty, early_stopping: of every group; see :mod:`.beam`.
        ending, budget, trace, progress: see :mod:`.frontier`.

    Returns:
        different texts, best first; ``score`` is ``logprob / length ** length_penalty``. ``details["groups"]`` is the number of groups.

    Raises:
        ValueError: an argument out of range, or a target with a reward.
    """
    require_positive(beams=beams, groups=groups, n=n)
    if beams % groups:
        raise ValueError(f"beams must be a multiple of groups: {beams} prefixes are not {groups} equal groups")
    if not 0 <= diversity < math.inf:
        raise ValueError(f"diversity must be a finite number of at least 0, not {diversity}")
    if dissimilarity not in get_args(Dissimilarity):
        raise ValueError(f"dissimilarity must be one of {get_args(Dissimilarity)}, not {dissimilarity!r}")
    rules = BeamRules(beams // groups, length_penalty, early_stopping)
    only_the_model(target, "diverse beam search")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)

    def value(node: Node) -> float:
        return rules.normalised(node.logprob, len(node.tokens))

    root = space.start()
    all_groups = [_Group([root], Pool(rules, target.max_tokens, value)) for _ in range(groups)]
    complete = True
    while any(group.beam for group in all_groups):
        if space.spent:
            complete = False
            break
        rows = iter(space.rows([node for group in all_groups for node in group.beam]).split([len(group.beam) for group in all_groups]))
        before: list[Node] = []
        for group, own in zip(all_groups, rows):
            if group.beam:
                penalties = _Chosen(dissimilarity, n, before).penalties(group.beam, own.shape[1])
                before += _step(space, group, own, penalties, diversity, rules.beams)
    texts = {node.tokens: node for group in all_groups for node in group.pool.texts}
    rest = {node.tokens: node for group in all_groups for node in group.beam}
    details = {"groups": float(groups)}
    return space.result(texts.values(), "Diverse Beam Search", complete=complete, rest=rest.values(), scores=value, details=details)
