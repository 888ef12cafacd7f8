"""Self-consistency: many texts vote for their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ..registry import method
from ..target import Samples, Target, require_positive
from .answers import Extractor
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .pool import Judge, draw_pool
from .rollout import begin, run, shortest

if TYPE_CHECKING:
    from ..scores.protocol import Reward
    from .trace import Trace

__all__ = ["Vote", "adaptive_consistency", "ahead", "self_consistency", "tally"]

Weights = Literal["equal", "probability"]


@dataclass(frozen=True, slots=True)
class Vote:
    """An answer and what was said for it.

    Attributes:
        key: the answer.
        share: of all votes.
        votes: number of texts.
        text: the most probable of them.
    """

    key: Hashable
    share: float
    votes: int
    text: Node


def tally(texts: Iterable[tuple[Node, Hashable, float]]) -> list[Vote]:
    """Votes by answer, most first (of equal ones the answer that came first).

    Args:
        texts: a text, its answer and its weight (at least 0).
    """
    groups: dict[Hashable, list[tuple[Node, float]]] = {}
    for node, key, weight in texts:
        groups.setdefault(key, []).append((node, weight))
    sums = {key: math.fsum(weight for _, weight in group) for key, group in groups.items()}
    total = math.fsum(sums.values()) or 1.0
    found = [
        Vote(key, sums[key] / total, len(group), max((node for node, _ in group), key=lambda node: (node.logprob, -node.number)))
        for key, group in groups.items()
    ]
    return sorted(found, key=lambda vote: -vote.share)


def elected(
    space: Space, name: str, votes: Sequence[Vote], silent: Sequence[Node], rest: Sequence[Node], complete: bool, **details: float
) -> SearchResult:
    """The result of a vote: a text for each answer, then (score 0) texts without an answer, then what was cut."""
    shares = {vote.text.number: vote.share for vote in votes}
    details |= {"answers": float(len(votes)), "unanswered": float(len(silent)), "share": votes[0].share if votes else 0.0}
    nodes = [*(vote.text for vote in votes), *silent]
    return space.result(nodes, name, complete=complete, rest=rest, scores=lambda node: shares.get(node.number, 0.0), details=details)


def per_token(node: Node) -> float:
    """``p(text) ** (1 / length)``."""
    return math.exp(node.logprob / max(1, len(node.tokens)))


@method(
    "self-consistency",
    law="argmax",
    target="of the answers' (weighted) votes among n draws of the masked law: a plug-in estimate of the most probable answer",
    cost="n texts, in one batch",
    paper="Wang et al. 2022, arXiv:2203.11171",
    use="samplers.search.self_consistency.self_consistency(target, extract=E, n=N)",
)
def self_consistency(
    target: Target,
    *,
    extract: Extractor,
    n: int = 16,
    weights: Weights | Reward = "equal",
    samples: Samples | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """The answer that most of ``n`` texts come to, with the most probable text that has it.

    Args:
        target: what is drawn from, by local masking.
        extract: finds the answer in generated token ids; see :mod:`.answers`. Texts without one have no vote.
        n: texts.
        weights: of a vote: 1, the text's probability per token (the paper's normalised weighted sum), or a reward (at least 0) of it.
        samples: what another sampler drew; its weights multiply those of the votes.
        ending, budget, seed, trace, progress: see :mod:`.frontier`.

    Returns:
        a text for each answer, by share of the votes, which is its ``score``; ``details``: ``answers``, ``unanswered`` (texts), ``share``
        (of the best).

    Raises:
        ValueError: an argument out of range, or a negative reward.
        DeadEnd: none of ``samples`` is in the language.
    """
    require_positive(n=n)
    if isinstance(weights, str) and weights not in get_args(Weights):
        raise ValueError(f"weights must be one of {get_args(Weights)} or a reward, not {weights!r}")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    pool = draw_pool(space, n, seed, samples)
    answers = [extract(node.tokens) for node in pool.texts]
    if weights == "equal":
        given = [1.0] * len(answers)
    elif weights == "probability":
        given = [per_token(node) for node in pool.texts]
    else:
        assert not isinstance(weights, str)
        given = Judge(space, weights).many(pool.texts)
        if min(given, default=0.0) < 0:
            raise ValueError(f"a vote cannot weigh {min(given)}: rewards that weigh votes must be at least 0 (probabilities, say)")
    voting = [(node, a.key, w * v) for node, a, w, v in zip(pool.texts, answers, pool.weights, given) if a is not None]
    silent = [node for node, answer in zip(pool.texts, answers) if answer is None]
    return elected(space, "self-consistency", tally(voting), silent, pool.rest, pool.complete)


def ahead(first: int, second: int) -> float:
    """Probability that the answer with ``first`` votes is more probable than the one with ``second``.

    Their split is binomial and its prior uniform: ``P(p > 1/2)`` for ``p ~ Beta(first + 1, second + 1)``.
    """
    n = first + second + 1
    return math.fsum(math.comb(n, j) for j in range(first + 1)) / 2**n


@method(
    "Adaptive-Consistency",
    law="argmax",
    target="as self-consistency with n texts, up to the confidence that it stops at (Beta posterior of the two leading answers)",
    cost="as self-consistency for the texts that are drawn before it stops",
    paper="Aggarwal et al. 2023, arXiv:2305.11860",
    use="samplers.search.self_consistency.adaptive_consistency(target, extract=E, n=N, confidence=C)",
)
def adaptive_consistency(
    target: Target,
    *,
    extract: Extractor,
    n: int = 40,
    batch: int = 4,
    confidence: float = 0.95,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Self-consistency that stops drawing once the leading answer is ahead of the next one with enough confidence.

    Args:
        target, extract, ending, budget, trace, progress: as for :func:`self_consistency`.
        n: texts at most.
        batch: texts that are drawn at a time.
        confidence: it stops where :func:`ahead` of the two leading answers is above it.
        seed: the i-th text is that of :func:`self_consistency`.

    Returns:
        as :func:`self_consistency`, and ``details["texts"]``, how many were drawn.

    Raises:
        ValueError: an argument out of range.
    """
    require_positive(n=n, batch=batch)
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence must be at least 0.5 and below 1, not {confidence}")
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    root = space.start()
    texts: list[Node] = []
    voting: list[tuple[Node, Hashable, float]] = []
    votes: list[Vote] = []
    rest: list[Node] = []
    drawn = 0
    complete = True
    while complete and drawn < n and not (votes and ahead(votes[0].votes, votes[1].votes if len(votes) > 1 else 0) > confidence):
        rows = begin([root], [min(batch, n - drawn)], seed, first=drawn)
        drawn += len(rows)
        complete = run(space, rows)
        rest = [row.node for row in rows if not row.node.finished and not row.dead]
        for node in (row.node for row in rows if row.node.finished):
            texts.append(node)
            answer = extract(node.tokens)
            if answer is not None:
                voting.append((node, answer.key, 1.0))
        votes = tally(voting)
    texts = shortest(space) if complete and not texts else texts
    answered = {node.number for node, _, _ in voting}
    silent = [node for node in texts if node.number not in answered]
    return elected(space, "Adaptive-Consistency", votes, silent, rest, complete, texts=float(drawn))
