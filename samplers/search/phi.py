"""phi-decoding: steps are chosen by what a short look ahead says of them.

At every step the beams propose candidates. Those that the model itself finds unlikely are dropped (*in-width pruning*); each of the others
is rolled out by one step more, its *foresight*. Two distributions over the candidates are made of the foresights:

* *advantage* ``A = F - F(parent)``, with ``F`` the mean log-probability of the tokens of the foresight;
* *alignment* ``C``, the share of the candidates whose foresights fall into the same cluster (k-means over TF-IDF vectors).

The next beams are drawn without replacement from ``(softmax(A / T_a) + softmax(C / T_c)) / 2``. When one cluster holds most of the
foresights, looking ahead has nothing more to say: the beams are then written to their ends as they are (*in-depth pruning*).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..registry import method
from ..target import Target, pick, require_positive
from .clusters import cluster
from .frontier import Ending, Node, Progress, SearchBudget, SearchResult, Space
from .rollout import begin, run, sample_steps, shortest
from .steps import Delimiter, StepRule

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["PhiRules", "joint", "likely", "phi_decoding"]


@dataclass(frozen=True, slots=True)
class PhiRules:
    """The numbers of phi-decoding.

    Attributes:
        beams: texts that go on.
        k: candidates that each proposes.
        clusters: of the foresights, at most.
        temperature_a, temperature_c: of the two distributions.
        sigma: in-width pruning: candidates whose mean log-probability is more than so many standard deviations below the mean are
            dropped; ``inf`` drops none.
        agreement: in-depth pruning: share of the largest cluster from which on nothing is looked ahead; above 1: never.
        least_steps: steps before in-depth pruning may act.

    Raises:
        ValueError: one of them is out of range.
    """

    beams: int = 4
    k: int = 4
    clusters: int = 3
    temperature_a: float = 0.6
    temperature_c: float = 0.6
    sigma: float = 1.0
    agreement: float = 0.7
    least_steps: int = 4

    def __post_init__(self) -> None:
        require_positive(beams=self.beams, k=self.k, clusters=self.clusters)
        for name in ("temperature_a", "temperature_c", "agreement"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not self.sigma >= 0 or self.least_steps < 0:
            raise ValueError(f"sigma and least_steps must be at least 0, not {self.sigma} and {self.least_steps}")


def likely(values: Sequence[float], sigma: float) -> list[int]:
    """Places of values that are not more than ``sigma`` standard deviations below their mean; never none."""
    logs = np.asarray(values, np.float64)
    if sigma == np.inf or not len(logs):
        return list(range(len(logs)))
    bound = logs.mean() - sigma * logs.std() - 1e-12
    return [i for i, value in enumerate(logs) if value >= bound]


def joint(advantage: Sequence[float], alignment: Sequence[float], rules: PhiRules) -> NDArray[np.float64]:
    """What candidates are drawn from: ``float64[candidates]``, summing to 1."""

    def softmax(values: Sequence[float], temperature: float) -> NDArray[np.float64]:
        logits = np.asarray(values, np.float64) / temperature
        weights = np.exp(logits - logits.max())
        found: NDArray[np.float64] = weights / weights.sum()
        return found

    return (softmax(advantage, rules.temperature_a) + softmax(alignment, rules.temperature_c)) / 2


def _draw(probabilities: NDArray[np.float64], count: int, source: random.Random) -> list[int]:
    """``count`` different places, drawn one after the other."""
    left, found = probabilities.copy(), []
    for _ in range(min(count, len(left))):
        place = pick(left.cumsum(), source)
        found.append(place)
        left[place] = 0.0
        if left.sum() <= 0:
            break
    return found


def _mean(node: Node, before: Node) -> float:
    """Mean log-probability of the tokens of ``node`` behind ``before``."""
    return (node.logprob - before.logprob) / max(1, len(node.tokens) - len(before.tokens))


class _Phi:
    """One run."""

    def __init__(self, space: Space, rules: PhiRules, rule: StepRule, seed: int, max_step_tokens: int | None) -> None:
        self.space, self.rules, self.rule, self.seed, self.max_step_tokens = space, rules, rule, seed, max_step_tokens
        self.source = random.Random(f"{seed}/phi")
        root = space.start()
        self.beams: list[Node] = [root]
        self.texts: list[Node] = []
        self.foresight: dict[int, float] = {root.number: 0.0}
        self.steps = self.pruned = 0
        self.complete = True

    def candidates(self) -> list[tuple[Node, Node]] | None:
        """Sampled next steps with their parents, those left by in-width pruning; ``None`` where the budget ended it."""
        wanted = self.rules.beams - len(self.texts)
        counts = [max(1, self.rules.k * wanted // len(self.beams))] * len(self.beams)
        found, stopped = sample_steps(self.space, self.beams, counts, self.rule, self.seed, self.max_step_tokens)
        if stopped:
            return None
        pairs = [(self.beams[place], node) for place, node in found]
        kept = likely([_mean(node, parent) for parent, node in pairs], self.rules.sigma)
        self.pruned += len(pairs) - len(kept)
        dropped = set(range(len(pairs))) - set(kept)
        self.space.prune([pairs[i][1] for i in sorted(dropped)], "in-width: an unlikely step")
        return [pairs[i] for i in kept]

    def step(self) -> bool:
        """One step of all beams; whether to look ahead on."""
        pairs = self.candidates()
        if pairs is None:
            self.complete = False
            return False
        if not pairs:
            self.beams = []
            return False
        nodes = [node for _, node in pairs]
        rows = begin(nodes, [1] * len(nodes), f"{self.seed}/foresight")
        if not run(self.space, rows, rule=self.rule, max_tokens=self.max_step_tokens):
            # nothing was said of the candidates: the beams stay as they are
            self.complete = False
            return False
        advantage, ahead = [], []
        for (parent, node), row in zip(pairs, rows):
            # of a text that has ended there is nothing ahead: its last step speaks for it
            base = node if len(row.node.tokens) > len(node.tokens) else parent
            end = row.node if base is node else node
            self.foresight[node.number] = _mean(end, base)
            advantage.append(self.foresight[node.number] - self.foresight[parent.number])
            ahead.append(end.tokens[len(base.tokens) :])
        labels = cluster(ahead, self.rules.clusters, self.source)
        sizes = Counter(labels)
        alignment = [sizes[label] / len(labels) for label in labels]
        chosen = _draw(joint(advantage, alignment, self.rules), self.rules.beams - len(self.texts), self.source)
        self.space.prune([node for i, node in enumerate(nodes) if i not in chosen], "not drawn")
        self.texts += [nodes[i] for i in chosen if self.space.is_leaf(nodes[i])]
        self.beams = [nodes[i] for i in chosen if not self.space.is_leaf(nodes[i])]
        self.steps += 1
        return self.steps < self.rules.least_steps or max(sizes.values()) / len(labels) < self.rules.agreement

    def run(self) -> SearchResult:
        looking = True
        while self.beams and looking and len(self.texts) < self.rules.beams:
            if self.space.spent:
                self.complete = False
                break
            looking = self.step()
        if self.beams and self.complete:
            rows = begin(self.beams, [1] * len(self.beams), f"{self.seed}/rest")
            self.complete = run(self.space, rows)
            self.beams = [row.node for row in rows if not row.dead]
        self.texts += [node for node in self.beams if self.space.is_leaf(node)]
        rest = [node for node in self.beams if not self.space.is_leaf(node)]
        if self.complete and not self.texts and not rest:
            self.texts = shortest(self.space)
        details = {"steps": float(self.steps), "pruned": float(self.pruned)}
        return self.space.result(
            self.texts,
            "phi-Decoding",
            complete=self.complete,
            rest=rest,
            scores=lambda node: node.logprob / max(1, len(node.tokens)),
            details=details,
        )


@method(
    "phi-Decoding",
    law="lossy",
    target="texts whose every step was drawn by the gain in likelihood of its foresight and by how many foresights agree with it",
    cost="beams * k sampled steps and as many foresights at each depth, until they agree",
    paper="Xu et al. 2025, arXiv:2503.13288",
    use="samplers.search.phi.phi_decoding(target, rule=R, rules=PhiRules(...))",
)
def phi_decoding(
    target: Target,
    *,
    rule: StepRule | None = None,
    rules: PhiRules | None = None,
    max_step_tokens: int | None = None,
    ending: Ending = "budget",
    budget: SearchBudget | None = None,
    seed: int = 0,
    trace: Trace | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Texts by foresight sampling; see this module's docstring.

    Vectors of foresights count tokens, not words. A candidate that ends its text has no foresight; its last step stands for it.

    Args:
        target: what steps are drawn from, by local masking.
        rule: what a step is, for candidates and foresights; ``None``: a line.
        rules: the numbers; ``None``: their defaults.
        max_step_tokens: of a step.
        ending, budget, seed, trace, progress: see :mod:`.frontier`.

    Returns:
        the beams' texts by mean log-probability of a token, which is their ``score``; ``details``: ``steps`` (that looked ahead) and
        ``pruned`` (candidates, in width).

    Raises:
        ValueError: an argument out of range.
    """
    require_positive(max_step_tokens=1 if max_step_tokens is None else max_step_tokens)
    space = Space(target, ending=ending, budget=budget, trace=trace, progress=progress)
    return _Phi(space, rules or PhiRules(), rule or Delimiter(), seed, max_step_tokens).run()
