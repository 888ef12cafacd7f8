"""Beam search: at every length keep the best few prefixes.

The rules are those of ``generate(num_beams=k)`` of transformers, so that results are equal where both exist:

* of all children of the beam the best ``(1 + number of end tokens) * k`` are looked at; those that end, and are among the best ``k``, go to
  the *pool* of finished texts with the score ``logprob / length ** length_penalty``; of the others the best ``k`` are the next beam;
* the pool keeps the best ``k`` texts; ``patience`` (Kasai et al. 2022) makes room for ``patience * k``, and the search goes on until they
  are there;
* ``early_stopping`` says when to stop with a full pool: ``True`` at once; ``False`` when the best prefix of the beam, scored at its own
  length, is not better than the worst text of the pool; ``"never"`` as ``False``, but at the length at which its score could become best.

``finished="compete"`` is the beam of textbooks (and of the analysis of best-first beam search): texts that have ended stay in the beam and
hold a place of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from ..registry import method
from ..target import Target, require_positive
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["BeamRules", "EarlyStopping", "Pool", "Scoring", "beam_search", "best_children", "only_the_model", "run_beam"]

EarlyStopping = bool | Literal["never"]
Slots = Literal["aside", "compete"]


class Scoring:
    """How prefixes are scored: here by their log-probability. One object serves one search.

    Attributes:
        ordered: whether prefixes of one length have the order of their :meth:`bounds`.
    """

    ordered = True

    def children(self, nodes: Sequence[Node], logprobs: torch.Tensor) -> torch.Tensor:
        """Scores of all children of ``nodes``: ``float64[len(nodes), width]``, ``-inf`` where ``logprobs`` (of the same shape) is."""
        return logprobs + torch.tensor([[node.score] for node in nodes], dtype=torch.float64)

    def bounds(self, nodes: Sequence[Node], logprobs: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Upper bounds of the scores of all texts that begin with a child; never above the bound of the node.

        Args:
            scores: what :meth:`children` gave.
        """
        return scores


@dataclass(frozen=True, slots=True)
class BeamRules:
    """The numbers of a beam search; see this module's docstring.

    Raises:
        ValueError: one of them is out of range.
    """

    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False
    patience: float = 1.0

    def __post_init__(self) -> None:
        require_positive(beams=self.beams)
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length_penalty must be a finite number, not {self.length_penalty}")
        if not 0 < self.patience < math.inf:
            raise ValueError(f"patience must be a finite number above 0, not {self.patience}")
        if self.early_stopping not in (True, False, "never"):
            raise ValueError(f'early_stopping must be True, False or "never", not {self.early_stopping!r}')

    def normalised(self, score: float, length: int) -> float:
        """``score / length ** length_penalty``."""
        return score / length**self.length_penalty if length else score

    def text_score(self, node: Node) -> float:
        """The score of a whole text."""
        return self.normalised(node.score, len(node.tokens))


class Pool:
    """Finished texts, the best ones first.

    Args:
        rules: of the beam.
        max_tokens: of a text.
        value: score of a text; ``None``: :meth:`BeamRules.text_score`.
    """

    def __init__(self, rules: BeamRules, max_tokens: int, value: Callable[[Node], float] | None = None) -> None:
        self.rules, self.max_tokens = rules, max_tokens
        self.value = value or rules.text_score
        self.room = max(1, round(rules.patience * rules.beams))
        self.texts: list[Node] = []

    @property
    def full(self) -> bool:
        """Whether it has as many texts as there is room for."""
        return len(self.texts) >= self.room

    def add(self, nodes: Sequence[Node]) -> None:
        """Takes texts in; the worst go where there are too many."""
        if nodes:
            self.texts = sorted([*self.texts, *nodes], key=self.value, reverse=True)[: self.room]

    def closed(self, best: float, length: int) -> bool:
        """Whether the search may stop.

        Args:
            best: score of the best prefix that is still running, not normalised.
            length: its number of tokens.
        """
        if not self.full:
            return False
        if self.rules.early_stopping is True:
            return True
        grows = self.rules.early_stopping == "never" and self.rules.length_penalty > 0
        return self.rules.normalised(best, self.max_tokens if grows else length) <= self.value(self.texts[-1])


def only_the_model(target: Target, name: str) -> None:
    """Refuses a target whose reward a search would leave out.

    Raises:
        ValueError: it has one.
    """
    if target.reward is not None:
        raise ValueError(f"{name} follows the model alone and would leave the target's reward out: search with a value, or drop the reward")


def best_children(scores: torch.Tensor, k: int) -> list[tuple[int, int, float]]:
    """The ``k`` best entries of ``float64[rows, width]`` as (row, token, score), best first; fewer where the others are ``-inf``."""
    values, places = scores.flatten().topk(min(k, scores.numel()))
    width = scores.shape[1]
    found = zip(places.tolist(), values.tolist())
    return [(place // width, place % width, value) for place, value in found if value > -math.inf]


def run_beam(space: Space, rules: BeamRules, scoring: Scoring, name: str) -> SearchResult:
    """A beam search over a space, finished texts aside."""
    pool = Pool(rules, space.target.max_tokens)
    beam = [space.start()]
    complete = True
    while beam:
        if space.spent:
            complete = False
            break
        rows = space.rows(beam)
        running, ended = split(space, beam, rows, scoring.children(beam, rows), rules.beams)
        pool.add(ended)
        if running and pool.closed(running[0].score, len(running[0].tokens)):
            space.prune(running, "no better than what is finished")
            running = []
        beam = running
    return space.result(pool.texts, name, complete=complete, rest=beam, scores=rules.text_score)


def split(space: Space, beam: Sequence[Node], rows: torch.Tensor, scores: torch.Tensor, k: int) -> tuple[list[Node], list[Node]]:
    """One step: the next beam, at most ``k`` nodes, and the texts that ended now, both best first.

    Args:
        rows: the model's log-probabilities, ``scores`` those by which is chosen, both ``float64[len(beam), width]``.
    """
    ends, last = space.target.ends, len(beam[0].tokens) + 1 >= space.target.max_tokens
    picked = best_children(scores, (1 + max(1, len(ends))) * k)
    running: list[Node] = []
    ended: list[Node] = []
    for rank, (row, token, score) in enumerate(picked):
        over = last or token in ends
        if rank < k if over else len(running) < k:
            child = space.child(beam[row], token, float(rows[row, token]), score)
            (ended if over else running).append(child)
    return running, ended


def _run_competing(space: Space, rules: BeamRules, scoring: Scoring, name: str) -> SearchResult:
    """A beam search in which finished texts hold places of the beam."""
    beam = [space.start()]
    complete = True
    while not all(map(space.is_leaf, beam)):
        if space.spent:
            complete = False
            break
        if rules.early_stopping is True and space.is_leaf(beam[0]):
            break
        leaves = [node for node in beam if space.is_leaf(node)]
        inner = [node for node in beam if not space.is_leaf(node)]
        rows = space.rows(inner)
        picked = best_children(scoring.children(inner, rows), rules.beams)
        # leaves come first, so that they win ties; sorting is stable
        options: list[tuple[float, Node | tuple[int, int]]] = [(node.score, node) for node in leaves]
        options += [(score, (row, token)) for row, token, score in picked]
        options.sort(key=lambda option: -option[0])
        chosen = options[: rules.beams]
        space.prune([node for _, node in options[rules.beams :] if isinstance(node, Node)], "better ones took the places")
        beam = [
            option if isinstance(option, Node) else space.child(inner[option[0]], option[1], float(rows[option]), score)
            for score, option in chosen
        ]
    leaves = [node for node in beam if space.is_leaf(node)]
    rest = [node for node in beam if not space.is_leaf(node)]
    return space.result(leaves, name, complete=complete, rest=rest)


@method(
    "beam search",
    law="argmax",
    target="approximately, of log p(text) / length ** length_penalty over the allowed texts: the best text of a beam of k prefixes",
    cost="k rows a step, in one batch",
    paper="Lowerre 1976; Wu et al. 2016, arXiv:1609.08144 (length penalty)",
    use="samplers.search.beam.beam_search(target, beams=K)",
)
@method(
    "Patience-factor beam",
    law="argmax",
    target="as beam search, which goes on until there are patience * k finished texts",
    cost="as beam search, for more steps",
    paper="Kasai et al. 2022, arXiv:2204.05424",
    use="samplers.search.beam.beam_search(target, beams=K, early_stopping=True, patience=P)",
)
def beam_search(
    target: Target,
    *,
    beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: EarlyStopping = False,
    patience: float = 1.0,
    finished: Slots = "aside",
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The best texts that a beam of ``beams`` prefixes comes upon; see this module's docstring for the rules.

    Args:
        target: what is searched; it must have no reward.
        beams: ``k``, prefixes that are kept.
        length_penalty: above 0 longer texts are preferred, 0 ranks by probability.
        early_stopping: when to stop with a full pool.
        patience: room of the pool, as a multiple of ``beams``.
        finished: whether finished texts are set aside or hold places in the beam; ``"compete"`` needs ``length_penalty=0`` and ignores
            ``patience``, and ``early_stopping=True`` then stops when the best of the beam is finished.
        ending: see :mod:`.frontier`. With ``"cut"`` and no automaton results are those of transformers.
        budget, trace, progress: see :mod:`.frontier`.

    Returns:
        the pool, best first; ``score`` is ``logprob / length ** length_penalty``.

    Raises:
        ValueError: an argument out of range, or a target with a reward.
    """
    rules = BeamRules(beams, length_penalty, early_stopping, patience)
    only_the_model(target, "beam search")
    if finished not in ("aside", "compete"):
        raise ValueError(f'finished must be "aside" or "compete", not {finished!r}')
    if finished == "compete" and length_penalty != 0:
        raise ValueError(f'finished="compete" compares prefixes with texts, which needs length_penalty=0, not {length_penalty}')
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    return (run_beam if finished == "aside" else _run_competing)(space, rules, Scoring(), "beam search")
