"""Stop policies: whether to draft on at a node. They look at laws, and at tokens that were drawn already; never at the one to come."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from samplers.registry import method

from .protocol import Outcome
from .tree import DraftTree

__all__ = ["BanditStop", "ConfidenceStop", "EntropyStop", "FixedStop", "entropy"]


class FixedStop:
    """Draft on down to a depth.

    Args:
        depth: deepest tokens; ``None``: whatever the shape asks for.
    """

    def __init__(self, depth: int | None = None) -> None:
        if depth is not None and depth < 0:
            raise ValueError(f"depth must not be negative, not {depth}")
        self.depth = depth

    def go_on(self, tree: DraftTree, node: int, law: torch.Tensor | None) -> bool:
        """See :meth:`speculative.protocol.Stop.go_on`."""
        return self.depth is None or tree.depths[node] < self.depth

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing is learned."""


def entropy(law: torch.Tensor) -> float:
    """In nats, of ``float64[width]`` log-probabilities."""
    return -float(torch.special.xlogy(mass := law.exp(), mass).sum())


@method(
    "SVIP",
    law="exact",
    target="a stop policy: the law is the verifier's",
    cost="an entropy a drafted token; no forward is added",
    paper="Zhang et al. 2024, arXiv:2411.18462",
    use="speculative.decode(..., stop=EntropyStop())",
)
class EntropyStop:
    """Stops where the draft is unsure: where a lower bound of the probability that its next token is accepted is below a threshold.

    By Pinsker's inequality a token drawn from ``q`` is accepted with probability ``1 - TV(p, q) >= 1 - sqrt(KL(q, p) / 2)``; the
    divergence is not known while drafting, and the paper takes it to grow with the entropy of ``q``: ``1 - sqrt(scale * H(q))``. Where a
    drafter has no law, the policy goes on.

    Args:
        threshold: least bound, a probability.
        scale: see above.
    """

    def __init__(self, threshold: float = 0.4, scale: float = 0.25) -> None:
        if not 0 <= threshold < 1 or scale <= 0:
            raise ValueError(f"threshold is a probability below 1 and scale above 0, not {threshold} and {scale}")
        self.threshold, self.scale = threshold, scale

    def go_on(self, tree: DraftTree, node: int, law: torch.Tensor | None) -> bool:
        """See :meth:`speculative.protocol.Stop.go_on`."""
        return law is None or 1 - math.sqrt(max(0.0, self.scale * entropy(law))) >= self.threshold

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing is learned."""


class ConfidenceStop:
    """Stops below a token that the draft itself gave little probability.

    Args:
        threshold: least probability.
        path: of the whole path, multiplied; ``False``: of the last token alone.
    """

    def __init__(self, threshold: float = 0.4, *, path: bool = False) -> None:
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold is a probability, not {threshold}")
        self.threshold, self.path = threshold, path

    def go_on(self, tree: DraftTree, node: int, law: torch.Tensor | None) -> bool:
        """See :meth:`speculative.protocol.Stop.go_on`; tokens without an estimate count as certain."""
        nodes = tree.path(node) if self.path else [node]
        known = [chance for n in nodes if (chance := tree.chances[n]) is not None]
        return math.prod(known) >= self.threshold

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing is learned."""


@method(
    "bandit draft lengths",
    law="exact",
    target="a stop policy: the law is the verifier's",
    cost="none",
    paper="Hou et al. 2025, arXiv:2505.15141 (BanditSpec, its upper confidence bounds)",
    use="speculative.decode(..., stop=BanditStop())",
)
class BanditStop:
    """Chooses the draft length of each step by upper confidence bounds, from the tokens that lengths gave for their cost.

    The reward of a row's step is ``emitted / (1 + cost * length)``, tokens for the time of a target forward, scaled to at most 1. The
    choice depends on what was emitted only, never on clocks, so a seed gives one text.

    Args:
        lengths: to choose from; 0 drafts nothing.
        cost: of drafting one token deeper, in forwards of the target.
        width: of the confidence bounds; greater ones try more.
    """

    def __init__(self, lengths: Sequence[int] = (1, 2, 4, 8, 16), cost: float = 0.1, width: float = 0.5) -> None:
        if not lengths or min(lengths) < 0 or cost < 0 or width < 0:
            raise ValueError("a bandit needs lengths, and no cost, width or length below 0")
        self.lengths, self.cost, self.width = tuple(lengths), cost, width
        self._pulls = [0] * len(self.lengths)
        self._gains = [0.0] * len(self.lengths)
        self._best = max((length + 1) / (1 + cost * length) for length in self.lengths)
        self._arm = 0

    @property
    def length(self) -> int:
        """That of the step to come."""
        return self.lengths[self._arm]

    def go_on(self, tree: DraftTree, node: int, law: torch.Tensor | None) -> bool:
        """See :meth:`speculative.protocol.Stop.go_on`."""
        return tree.depths[node] < self.length

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Notes what the length gave, and chooses the next one."""
        length = self.length
        for outcome in outcomes:
            self._pulls[self._arm] += 1
            self._gains[self._arm] += min(len(outcome.tokens), length + 1) / (1 + self.cost * length) / self._best
        if outcomes:
            self._arm = self._choose()

    def _choose(self) -> int:
        if 0 in self._pulls:
            return self._pulls.index(0)
        scale = self.width * math.sqrt(2 * math.log(sum(self._pulls)))
        bounds = [gain / pulls + scale / math.sqrt(pulls) for gain, pulls in zip(self._gains, self._pulls)]
        return bounds.index(max(bounds))
