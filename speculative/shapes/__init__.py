"""Tree shapes: how many proposals, and where. Each is a :class:`~speculative.protocol.Shape`.

Reading order: :mod:`.base`, :mod:`.levels` (chain, branches, template), :mod:`.sequoia` (the best fixed tree for measured acceptance),
:mod:`.opt_tree`, :mod:`.dyspec` and :mod:`.puct` (trees that follow the draft's probabilities).
"""

from __future__ import annotations

from .base import BaseShape
from .dyspec import DySpec
from .levels import Branches, Chain, Template
from .opt_tree import OptTree
from .puct import Puct
from .sequoia import Acceptance, Sequoia, best_tree, expected_tokens

__all__ = [
    "Acceptance",
    "BaseShape",
    "Branches",
    "Chain",
    "DySpec",
    "OptTree",
    "Puct",
    "Sequoia",
    "Template",
    "best_tree",
    "expected_tokens",
]
