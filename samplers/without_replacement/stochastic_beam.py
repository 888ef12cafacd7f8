"""Stochastic beam search: different texts, drawn without replacement (Kool, van Hoof, Welling 2019, arXiv:1903.06059).

Give every text the score ``log q(x) + Gumbel noise``. The ``n`` texts with the highest scores are a sample of size ``n`` without
replacement from ``q``, in the order in which they would be drawn one by one (the Gumbel-top-k trick). They are found top-down: the
highest score below a prefix is itself ``log q(prefix) + Gumbel noise``, and given that maximum the children's scores are drawn so that the
greatest of them equals it. So a beam search over scores finds them exactly, with ``n`` rows a step.
"""

from __future__ import annotations

import math

import torch

from samplers.registry import method
from samplers.target import Samples, Target, effective_size, require_positive

from .nodes import Node, Tree

__all__ = ["gumbel_with_maximum", "stochastic_beam_search"]

Scored = tuple[float, Node]


def gumbel_with_maximum(locations: torch.Tensor, maxima: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Independent Gumbel variables, given that the greatest of each row is ``maxima`` (appendix B of arXiv:1903.06059).

    Args:
        locations: ``float64[rows, k]``; ``-inf`` gives ``-inf``. Every row has one that is finite.
        maxima: ``float64[rows]``.
    """
    noise = torch.empty_like(locations).exponential_(generator=generator)
    free = (locations - noise.log()).masked_fill(locations == -math.inf, -math.inf)
    highest = free.max(-1, keepdim=True).values
    top = maxima[:, None]
    # top - log(1 + exp(top - free) - exp(top - highest)), in a form in which nothing cancels
    v = top - free + torch.log(-torch.expm1(free - highest))
    return top - v.clamp(min=0) - torch.log1p(torch.exp(-v.abs()))


@method(
    "stochastic beam search",
    law="exact",
    target=(
        "n texts drawn one after the other without replacement from local masking (the product of masked conditionals; with no constraint, "
        "the model); with the weights, sum(weight) / n is unbiased for Z and weighted means are consistent for the model "
        "conditioned on the language (exact where n is all texts)"
    ),
    cost="n + 1 rows a step, in one batch",
    paper="Kool, van Hoof, Welling 2019, arXiv:1903.06059",
    use='guided.sample(..., method="stochastic-beam")',
)
def stochastic_beam_search(target: Target, n: int, *, seed: int) -> Samples:
    """``n`` different texts without replacement, with weights for consistent estimates (section 4.2 of the paper).

    With the score ``kappa`` of the text that comes behind the last one as threshold, a text is among the first ``n`` with probability
    ``P(score > kappa) = 1 - exp(-exp(log q(x) - kappa))``. Dividing by it (Horvitz, Thompson 1952) makes sums over the sample unbiased.

    Args:
        target: what to sample; its reward is in the weights only.
        n: texts; fewer come back where the language has no more. Beginnings that cannot be finished within ``max_tokens`` count as
            texts (of weight 0): local masking runs into them.

    Returns:
        Samples in the order of drawing: the first ``j`` are a sample of size ``j``. ``log_weight`` is
        ``log(len * p(x) exp(reward) / P(score > kappa))``, so that ``mean(weight)`` estimates Z. ``log_z_error`` comes from an unbiased
        estimate of the variance of that (Duffield, Lund, Thorup 2007: given the threshold, terms are uncorrelated).
        ``details["mass"]`` is the sum of ``p(x) exp(reward)`` over the texts found, a lower bound of Z; ``details["threshold"]`` is
        kappa, ``-inf`` where these are all texts there are (then everything is exact).

    Raises:
        ValueError: ``n`` below 1.
    """
    require_positive(n=n)
    tree = Tree(target)
    generator = torch.Generator().manual_seed(seed)
    first = -math.log(float(torch.empty((), dtype=torch.float64).exponential_(generator=generator)))
    beam: list[Scored] = [(first, tree.root)]
    while not all(node.leaf for _, node in beam):
        beam = _step(tree, beam, n + 1, generator)
    threshold = beam[n][0] if len(beam) > n else -math.inf
    return _samples(tree, beam[:n], threshold)


def _step(tree: Tree, beam: list[Scored], width: int, generator: torch.Generator) -> list[Scored]:
    """The ``width`` best of the leaves and of the children of the other nodes, best first."""
    leaves = [pair for pair in beam if pair[1].leaf]
    inner = [pair for pair in beam if not pair[1].leaf]
    logprobs, log_kept = tree.expand([node for _, node in inner])
    alive = log_kept > -math.inf
    leaves += [(score, tree.dead(node)) for (score, node), goes_on in zip(inner, alive.tolist()) if not goes_on]
    inner = [pair for pair, goes_on in zip(inner, alive.tolist()) if goes_on]
    children = _children(tree, inner, logprobs[alive], log_kept[alive], width, generator) if inner else []
    return sorted(leaves + children, key=lambda pair: -pair[0])[:width]


def _children(
    tree: Tree, inner: list[Scored], logprobs: torch.Tensor, log_kept: torch.Tensor, width: int, generator: torch.Generator
) -> list[Scored]:
    """The ``width`` best children of nodes that have some."""
    masked = torch.tensor([node.log_masked for _, node in inner], dtype=torch.float64)
    locations = logprobs - log_kept[:, None] + masked[:, None]
    scores = gumbel_with_maximum(locations, torch.tensor([score for score, _ in inner], dtype=torch.float64), generator)
    best = scores.flatten().topk(min(width, scores.numel()))
    children: list[Scored] = []
    for score, place in zip(best.values.tolist(), best.indices.tolist()):
        if score == -math.inf:
            break
        row, token = divmod(place, scores.shape[1])
        children.append((score, tree.child(inner[row][1], token, float(logprobs[row, token]), float(log_kept[row]))))
    return children


def _samples(tree: Tree, drawn: list[Scored], threshold: float) -> Samples:
    values = torch.tensor([tree.potential(node) for _, node in drawn], dtype=torch.float64)
    inclusion = torch.tensor([_log_inclusion(node.log_masked - threshold) for _, node in drawn], dtype=torch.float64)
    logs = values - inclusion
    log_z = float(logs.logsumexp(0))
    terms = (2 * (logs - log_z)).exp() * -torch.expm1(inclusion)
    error = float(terms.sum().sqrt()) if log_z > -math.inf else math.nan
    weights = (logs + math.log(len(drawn))).tolist()
    samples = [tree.sample(node, weight) for (_, node), weight in zip(drawn, weights)]
    details = {"mass": float(values.exp().sum()), "threshold": threshold}
    kl = None if math.isnan(error) else error**2 / 2
    return Samples(samples, log_z, error, [effective_size(weights)], tree.meter.forwards, kl, "stochastic beam search", details)


def _log_inclusion(above: float) -> float:
    """``log(1 - exp(-exp(above)))``: of a standard Gumbel variable to exceed ``-above``."""
    if above > 6:  # 1 - exp(-403)
        return 0.0
    return above if above < -36 else math.log(-math.expm1(-math.exp(above)))
