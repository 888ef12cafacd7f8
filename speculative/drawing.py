"""Draws from laws given as rows of log-probabilities: of one token, and of the children of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .tree import How

__all__ = ["children", "pick", "uniform"]


def uniform(generator: torch.Generator) -> float:
    """A number in [0, 1), as plain decoding draws one for a token."""
    return float(torch.rand((), dtype=torch.float64, generator=generator))


def pick(law: torch.Tensor, point: float) -> int:
    """The token whose interval of the cumulative law holds ``point`` of its mass; never one of probability zero.

    Args:
        law: ``float64[width]``, not negative, not all zero; need not be normalised.
        point: in [0, 1).
    """
    cumulative = law.cumsum(-1)
    total = cumulative[-1:]
    place = torch.searchsorted(cumulative, point * total, right=True)
    # at most the last token where the sum still grows: rounding must not lead past it
    return int(torch.minimum(place, torch.searchsorted(cumulative, total)).clamp(max=law.shape[-1] - 1))


def children(law: torch.Tensor, count: int, how: How, generator: torch.Generator) -> list[int]:
    """Children of a node, in the order in which they are to be added to a tree.

    ``with``: ``count`` independent draws. ``without``: one after the other without replacement, by the Gumbel-top-k trick (Kool, van Hoof,
    Welling 2019, arXiv:1903.06059); fewer where the law has no more tokens. ``fixed``: the most probable ones (of equal ones the lower id).

    Args:
        law: ``float64[width]``, log-probabilities.
    """
    possible = min(count, int((law > float("-inf")).sum()))
    if possible < 1:
        return []
    if how == "with":
        points = torch.rand(count, dtype=torch.float64, generator=generator).tolist()
        mass = law.exp()
        return [pick(mass, point) for point in points]
    if how == "fixed":
        return law.topk(possible).indices.tolist() if possible > 1 else [int(law.argmax())]
    noise = torch.empty(law.shape, dtype=torch.float64).exponential_(generator=generator).log().to(law.device)
    return (law - noise).topk(possible).indices.tolist()
