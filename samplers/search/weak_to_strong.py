"""Weak-to-strong search: the log-likelihood ratio of a small tuned and a small untuned model steers a large one, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..registry import method
from ..target import Target, require_positive
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .rollout import sample_steps, shortest
from .steps import StepRule, Tokens

if TYPE_CHECKING:
    from ..models.protocol import LanguageModel
    from .trace import Trace

__all__ = ["weak_to_strong_search"]


class _Ratio:
    """``log p_tuned(text) - log p_untuned(text)`` of nodes, added up chunk by chunk."""

    def __init__(self, tuned: LanguageModel, untuned: LanguageModel) -> None:
        self._tuned, self._untuned = tuned, untuned
        self.known: dict[int, float] = {}

    def add(self, parent: Node, children: list[Node]) -> None:
        """Ratios of continuations of ``parent``, whose own is known."""
        chunks = [child.tokens[len(parent.tokens) :] for child in children]
        after = zip(children, self._tuned.score(parent.context, chunks), self._untuned.score(parent.context, chunks))
        for child, plus, minus in after:
            self.known[child.number] = self.known[parent.number] + float(plus.sum()) - float(minus.sum())


@method(
    "Weak-to-strong search",
    law="lossy",
    target="approximately the text of the highest log p_tuned - log p_untuned that the large model samples: a beam search over chunks",
    cost="w * k sampled chunks at each depth, and two small models over them",
    paper="Zhou et al. 2024, arXiv:2405.19262",
    use="samplers.search.weak_to_strong.weak_to_strong_search(target, tuned=M, untuned=M, beams=W, k=K)",
)
def weak_to_strong_search(
    target: Target,
    *,
    tuned: LanguageModel,
    untuned: LanguageModel,
    beams: int = 4,
    k: int = 4,
    rule: StepRule | None = None,
    max_step_tokens: int | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Chunk-level beam search (the paper's CBS): ``k`` chunks are sampled after each of ``beams`` texts, the best ``beams`` of all stay.

    Texts that have ended hold their place among the best; the search ends when all of them have. ``beams=1, rule=Tokens(max_tokens)`` is
    best of ``k``.

    Args:
        target: whose model writes the chunks, by local masking.
        tuned, untuned: models over the target's tokens; their ratio is the implicit reward of the tuning.
        beams: texts that stay (the paper's W).
        k: chunks that are sampled after each (its K).
        rule: what a chunk is; ``None``: 30 tokens (its L).
        max_step_tokens: of a chunk, where the rule has no bound.
        ending, budget, seed, trace, progress: see :mod:`.frontier`.

    Returns:
        the last beam, best first; ``score`` is the ratio.

    Raises:
        ValueError: an argument out of range.
        ModelError: a token that a small model does not have.
    """
    require_positive(beams=beams, k=k, max_step_tokens=1 if max_step_tokens is None else max_step_tokens)
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    ratio = _Ratio(tuned, untuned)
    root = space.start()
    ratio.known[root.number] = 0.0
    beam, complete = [root], True
    while not all(map(space.is_leaf, beam)):
        if space.spent:
            complete = False
            break
        inner = [node for node in beam if not space.is_leaf(node)]
        # the root stands for a whole beam of itself
        counts = [k * beams if node is root else k for node in inner]
        found, stopped = sample_steps(space, inner, counts, rule or Tokens(30), seed, max_step_tokens)
        for place, parent in enumerate(inner):
            ratio.add(parent, [node for at, node in found if at == place])
        options = [node for node in beam if space.is_leaf(node)] + [node for _, node in found]
        different = list({node.tokens: node for node in reversed(options)}.values())[::-1]
        different.sort(key=lambda node: (-ratio.known[node.number], node.number))
        if stopped:
            beam, complete = different or stopped, False
            break
        space.prune(different[beams:], "better ones took the places")
        beam = different[:beams]
    least = min(ratio.known.values())
    leaves = [node for node in beam if space.is_leaf(node)]
    leaves = shortest(space) if complete and not leaves else leaves
    rest = [node for node in beam if not space.is_leaf(node)]
    return space.result(
        leaves, "Weak-to-strong search", complete=complete, rest=rest, scores=lambda node: ratio.known.get(node.number, least)
    )
