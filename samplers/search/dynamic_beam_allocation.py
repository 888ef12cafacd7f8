"""Dynamic beam allocation: phrases that must appear, by one beam that is shared out anew at every step (Post and Vilar 2018,
arXiv:1804.06609).

Where grid beam search has a beam for every number of covered tokens, here ``beams`` places in all are divided evenly among these numbers
(*banks*), so that the cost does not grow with the number of phrases. The candidates of a step are

* the best ``beams`` children of the whole beam,
* of every prefix the tokens that begin a phrase it does not have, or go on with the one it is within,
* of every prefix its best child.

Places that do not divide evenly go to the bank that covers most; places that a bank has no candidates for go to the banks below it, the
nearest first, then to those above, from the top. A prefix that leaves a phrase loses its tokens from the count. A text may end only with
all phrases. They are followed in the text (:mod:`.words`) and may have alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..registry import method
from ..target import Target
from .beam import BeamRules, EarlyStopping, only_the_model
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .grid_beam import Option, Step, children, run_banks
from .words import Phrases, Words

if TYPE_CHECKING:
    import torch

    from grammars.vocabulary import Vocabulary

    from .trace import Trace

__all__ = ["allocate", "dynamic_beam_allocation"]


def allocate(places: int, candidates: Sequence[int]) -> list[int]:
    """How many places each bank gets.

    Args:
        candidates: how many each bank has, by what it covers, ascending.
    """
    banks = len(candidates)
    given = [places // banks] * banks
    given[-1] += places % banks
    over = 0
    for bank in 2 * [*range(banks - 1, -1, -1)]:
        room = given[bank] + over
        given[bank] = min(room, candidates[bank])
        over = room - given[bank]
    return given


@method(
    "Dynamic Beam Allocation",
    law="argmax",
    target="approximately, of log p(text) / length ** length_penalty over the allowed texts that have all wanted phrases",
    cost="k rows a step, in one batch, however many phrases there are",
    paper="Post and Vilar 2018, arXiv:1804.06609",
    use="samplers.search.dynamic_beam_allocation.dynamic_beam_allocation(target, words=[...], beams=K)",
)
def dynamic_beam_allocation(
    target: Target,
    *,
    words: Phrases,
    forbidden: Sequence[str] = (),
    beams: int = 8,
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
    """Good texts that have all of some words, with one beam.

    Args:
        target: what is searched; it must have no reward.
        words, forbidden, whole, ignore_case, vocabulary: see :class:`samplers.search.words.Words`.
        beams: ``k``, places of the beam over all banks; best more than the phrases have tokens.
        length_penalty, early_stopping: see :mod:`.beam`.
        ending, budget, trace, progress: see :mod:`.frontier`.

    Returns:
        as :func:`samplers.search.grid_beam.grid_beam_search`.

    Raises:
        ValueError: an argument out of range, or a target with a reward.
        ConstraintError: see :class:`samplers.search.words.Words`.
    """
    rules = BeamRules(beams, length_penalty, early_stopping)
    only_the_model(target, "dynamic beam allocation")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    followed = Words(space, words, forbidden, whole=whole, ignore_case=ignore_case, vocabulary=vocabulary)
    banks = 1 + sum(followed.sizes)

    def choose(beam: Sequence[Node], rows: torch.Tensor, bound: set[int]) -> Step:
        picked = set(followed.children(beam, rows, beams))
        for i, (node, row) in enumerate(zip(beam, rows)):
            picked |= {(i, token) for token, _ in followed.best(node, row, 1)}
            picked |= {(i, token) for token in followed.possible(node, row)}
        cells: list[list[Option]] = [[] for _ in range(banks)]
        for i, token in picked:
            cells[followed.covered(beam[i], token)].append((beam[i].score + float(rows[i, token]), i, token, False))
        given = allocate(beams, [len(cell) for cell in cells])
        chosen = [option for cell, k in zip(cells, given) for option in sorted(cell, key=lambda o: (-o[0], o[1:]))[:k]]
        return children(space, beam, rows, chosen)

    return run_banks(followed, rules, choose, "Dynamic Beam Allocation")
