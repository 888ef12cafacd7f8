"""Grid beam search: phrases that must appear, by a beam for every number of their tokens (Hokamp and Liu 2017, arXiv:1704.07138).

The grid has a cell for every length ``t`` and every number ``c`` of tokens of wanted phrases that a prefix covers; a cell keeps the best
``beams`` prefixes. A prefix is extended by three moves:

* *generate*: any token, the most probable ``beams`` of them;
* *start*: a token that begins a phrase it does not have;
* *continue*: the next token of the phrase that it is within, and nothing else while the constraint allows that.

A text may end only in the cells that cover everything. Differences from the paper: phrases may have alternatives (any one will do) and are
followed in the text (:mod:`.words`), so that a phrase counts in whichever tokens it comes, also by a *generate* move; and where the same
token is both a *generate* and a *start* move, the prefix is not bound to go on with the phrase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..registry import method
from ..target import Target
from .beam import BeamRules, EarlyStopping, Pool, only_the_model
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .words import Phrases, Words

if TYPE_CHECKING:
    import torch

    from grammars.vocabulary import Vocabulary

    from .trace import Trace

__all__ = ["Option", "Step", "children", "grid_beam_search", "run_banks"]

Option = tuple[float, int, int, bool]
"""A child that may be made: its log-probability, the row of its parent, the token, and whether it is bound to go on with a phrase."""
Step = list[tuple[Node, bool]]
"""The children that were made, and whether they are bound."""
Chooser = Callable[[Sequence[Node], "torch.Tensor", set[int]], Step]


def children(space: Space, beam: Sequence[Node], rows: torch.Tensor, options: Sequence[Option]) -> Step:
    """Makes the children of some options; their scores are their log-probabilities."""
    return [(space.child(beam[i], token, float(rows[i, token]), score), within) for score, i, token, within in options]


def run_banks(words: Words, rules: BeamRules, choose: Chooser, name: str) -> SearchResult:
    """A beam search whose steps are chosen by ``choose`` from banks: what ends is set aside, complete texts in a pool of their own.

    Args:
        choose: from the beam, its rows and the numbers of nodes that are within a phrase to what it makes of them.
    """
    space = words.space
    pool = Pool(rules, space.target.max_tokens)
    lacking: list[Node] = []
    beam, bound, complete = [space.start()], set[int](), True
    while beam:
        if space.spent:
            complete = False
            break
        rows = words.only_when_met(beam, space.rows(beam))
        running: list[Node] = []
        inside = set[int]()
        for child, within in choose(beam, rows, bound):
            if not space.is_leaf(child):
                running.append(child)
                inside |= {child.number} if within else set()
            elif words.met(child) == words.all:
                pool.add([child])
            else:
                lacking.append(child)
        best = max(running, key=lambda node: node.score, default=None)
        if best is not None and pool.closed(best.score, len(best.tokens)):
            space.prune(running, "no better than what is finished")
            running = []
        beam, bound = running, inside
    lacking = sorted(lacking, key=lambda node: (-words.count(node), -rules.text_score(node), node.number))[: pool.room]
    details = {"clauses": float(len(words.clauses))}
    return words.conclude([*pool.texts, *lacking], beam, name, rules.text_score, complete=complete, details=details)


@method(
    "Grid Beam Search",
    law="argmax",
    target="approximately, of log p(text) / length ** length_penalty over the allowed texts that have all wanted phrases",
    cost="k * (1 + tokens of the phrases) rows a step, in one batch",
    paper="Hokamp and Liu 2017, arXiv:1704.07138",
    use="samplers.search.grid_beam.grid_beam_search(target, words=[...], beams=K)",
)
def grid_beam_search(
    target: Target,
    *,
    words: Phrases,
    forbidden: Sequence[str] = (),
    beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: EarlyStopping = False,
    whole: bool = True,
    ignore_case: bool = True,
    vocabulary: Vocabulary | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Good texts that have all of some words, with a beam for every number of their tokens.

    Args:
        target: what is searched; it must have no reward.
        words, forbidden, whole, ignore_case, vocabulary: see :class:`samplers.search.words.Words`.
        beams: ``k``, prefixes that a cell keeps.
        length_penalty, early_stopping: see :mod:`.beam`.
        ending, budget, trace, progress: see :mod:`.frontier`.

    Returns:
        texts with the most clauses first, then by ``score``, which is ``logprob / length ** length_penalty``. Texts that lack one are there
        only if ``max_tokens``, the constraint or the budget ended them. ``details["met"]``: clauses of the first one, of
        ``details["clauses"]``.

    Raises:
        ValueError: an argument out of range, or a target with a reward.
        ConstraintError: see :class:`samplers.search.words.Words`.
    """
    rules = BeamRules(beams, length_penalty, early_stopping)
    only_the_model(target, "grid beam search")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    followed = Words(space, words, forbidden, whole=whole, ignore_case=ignore_case, vocabulary=vocabulary)

    def choose(beam: Sequence[Node], rows: torch.Tensor, bound: set[int]) -> Step:
        cells: dict[int, list[Option]] = {}
        for i, (node, row) in enumerate(zip(beam, rows)):
            starts = followed.possible(node, row)
            free = [] if starts and node.number in bound else [token for token, _ in followed.best(node, row, beams)]
            moves = dict.fromkeys(free, False) | {token: followed.inside(node, token) for token in starts if token not in free}
            for token, within in moves.items():
                option = (node.score + float(row[token]), i, token, within)
                cells.setdefault(followed.covered(node, token), []).append(option)
        chosen = [option for _, cell in sorted(cells.items()) for option in sorted(cell, key=lambda o: (-o[0], o[1:]))[:beams]]
        return children(space, beam, rows, chosen)

    return run_banks(followed, rules, choose, "Grid Beam Search")
