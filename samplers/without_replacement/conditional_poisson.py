"""Conditional Poisson stochastic beams: beam search that draws its beam instead of taking the best (Meister et al. 2021, arXiv:2109.11034).

At each step the candidates are the texts of the beam that have ended and the beam's other prefixes with every token behind them. ``n``
of them are drawn without replacement by conditional Poisson sampling (:mod:`.design`) with the paper's weights ``p / (1 - p)``, ``p`` the
candidate's probability.

Estimates. A text is in the last beam if it is drawn at every step, so the product of its inclusion probabilities, each given the
beam before, is a Horvitz-Thompson weight: by induction over the steps ``E[sum over the beam of g(x) / prod_t pi_t(x)] = sum over all
texts of g(x)``, for any ``g``. (The paper's ``1 / pi(x)`` is the expectation of ``1 / prod_t pi_t(x)`` given that ``x`` is drawn; its
section 4 estimates the former by averaging the latter.)
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
import torch

from samplers.registry import method
from samplers.target import Samples, Target, effective_size, require_positive

from .design import ConditionalPoisson
from .nodes import Node, Tree

__all__ = ["conditional_poisson_beams"]


@dataclass(frozen=True, slots=True)
class _Member:
    """A prefix in the beam; ``inclusions`` are the logarithms of its inclusion probabilities, one a step."""

    node: Node
    inclusions: tuple[float, ...] = ()


@method(
    "CPSBS conditional-Poisson beams",
    law="exact in the limit",
    target=(
        "n different texts; with the weights, sum(weight) / n is unbiased for Z, and weighted means converge to the model conditioned "
        "on the language as n grows (exact where n is all texts) and over independent beams"
    ),
    cost="n rows a step, in one batch, and n operations for every token of the vocabulary and row",
    paper="Meister, Amini, Vieira, Cotterell 2021, arXiv:2109.11034",
    use='guided.sample(..., method="poisson-beam")',
)
def conditional_poisson_beams(target: Target, n: int, *, seed: int) -> Samples:
    """A beam of ``n`` different texts that is drawn, not maximised, with weights for consistent estimates.

    Args:
        target: what to sample; its reward is in the weights only. A prefix's weight in the draw is that of its probability under the
            model, not renormalised by the mask, so prefixes that the language makes improbable are drawn less.
        n: texts; fewer come back where the language has no more, or where some of the beam cannot be finished within ``max_tokens``.

    Returns:
        Samples, best first by the model's probability. ``log_weight`` is ``log(len * p(x) exp(reward) / prod_t pi_t(x))``, so that
        ``mean(weight)`` estimates Z without bias. ``log_z_error`` is what independent inclusions with the same probabilities would
        give (texts that share a beginning share its inclusion); a fixed size only makes the true one smaller. ``details["mass"]``
        is the sum of ``p(x) exp(reward)`` over the texts found, a lower bound of Z.

    Raises:
        ValueError: ``n`` below 1.
    """
    require_positive(n=n)
    tree, source = Tree(target), random.Random(f"conditional poisson/{seed}")
    beam = [_Member(tree.root)]
    while not all(member.node.leaf for member in beam):
        beam = _step(tree, beam, n, source)
    return _samples(tree, sorted(beam, key=lambda member: -member.node.log_prob))


def _step(tree: Tree, beam: list[_Member], n: int, source: random.Random) -> list[_Member]:
    """The beam after one more token. Prefixes that cannot be finished have no candidates and drop out."""
    leaves = [member for member in beam if member.node.leaf]
    inner = [member for member in beam if not member.node.leaf]
    logprobs, log_kept = tree.expand([member.node for member in inner])
    rows, tokens = logprobs.isfinite().nonzero(as_tuple=True)
    parents = torch.tensor([member.node.log_prob for member in inner], dtype=torch.float64)
    ended = torch.tensor([member.node.log_prob for member in leaves], dtype=torch.float64)
    scores = torch.cat([ended, logprobs[rows, tokens] + parents[rows]]).numpy()
    chosen, inclusions = _draw(scores, n, source)
    after = []
    for at, inclusion in zip(chosen, inclusions):
        if at < len(leaves):
            node, before = leaves[at].node, leaves[at].inclusions
        else:
            row, token = int(rows[at - len(leaves)]), int(tokens[at - len(leaves)])
            node = tree.child(inner[row].node, token, float(logprobs[row, token]), float(log_kept[row]))
            before = inner[row].inclusions
        after.append(_Member(node, (*before, inclusion)))
    return after


def _draw(log_probs: np.ndarray, n: int, source: random.Random) -> tuple[list[int], list[float]]:
    """``n`` of the candidates, and the logarithms of their inclusion probabilities; all of them where there are no more."""
    if len(log_probs) <= n:
        return list(range(len(log_probs))), [0.0] * len(log_probs)
    # log(p / (1 - p)); rounding may make a certain prefix slightly more than certain
    log_weights = log_probs - np.log(np.maximum(-np.expm1(log_probs), 2.0**-53))
    design = ConditionalPoisson(log_weights, n)
    chosen = design.sample(source)
    return chosen, [math.log(design.inclusion(item)) for item in chosen]


def _samples(tree: Tree, beam: list[_Member]) -> Samples:
    values = torch.tensor([tree.potential(member.node) for member in beam], dtype=torch.float64)
    logs = values - torch.tensor([math.fsum(member.inclusions) for member in beam], dtype=torch.float64)
    log_z = float(logs.logsumexp(0))
    error = _error(beam, (logs - log_z).exp()) if log_z > -math.inf else math.nan
    weights = (logs + math.log(max(1, len(beam)))).tolist()
    samples = [tree.sample(member.node, weight) for member, weight in zip(beam, weights)]
    kl = None if math.isnan(error) else error**2 / 2
    details = {"mass": float(values.exp().sum())}
    return Samples(samples, log_z, error, [effective_size(weights)], tree.meter.forwards, kl, "CPSBS conditional-Poisson beams", details)


def _error(beam: list[_Member], shares: torch.Tensor) -> float:
    """Relative standard error of the sum, as if every inclusion were independent of the others.

    Then two texts are both there with probability ``pi(x) pi(y) / s``, ``s`` the product of inclusion probabilities of the beginning that
    they share, and ``sum over x, y of g(x) g(y) (1 - s) / (pi(x) pi(y))`` is an unbiased estimate of the variance.
    """
    members = [(member, share) for member, share in zip(beam, shares.tolist()) if share]
    total = 0.0
    for i, (one, share) in enumerate(members):
        total += share**2 * -math.expm1(math.fsum(one.inclusions))
        for other, another in members[:i]:
            common = 0.0
            for inclusion, a, b in zip(one.inclusions, one.node.tokens, other.node.tokens):
                if a != b:
                    break
                common += inclusion
            total += 2 * share * another * -math.expm1(common)
    return math.sqrt(total)
