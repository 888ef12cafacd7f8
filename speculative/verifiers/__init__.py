"""Verifiers: what is kept of a draft tree, each with its law.

Reading order: :mod:`.base` (the walk down a tree), :mod:`.greedy`, :mod:`.matching` (the text depends on the seed alone), :mod:`.rejection`
(exact for chains, candidates with and without replacement, and any mixture), :mod:`.specinfer`, :mod:`.spectr` (optimal transport),
:mod:`.typical` (lossy), :mod:`.second` (targets of two models) with :mod:`.cascade` and :mod:`.contrastive`.
"""

from __future__ import annotations

from .cascade import Cascade
from .contrastive import Contrastive
from .greedy import Greedy
from .matching import Matching
from .rejection import Exact, MultiCandidate, Recursive
from .specinfer import SpecInfer
from .spectr import SpecTr
from .typical import Typical

__all__ = ["Cascade", "Contrastive", "Exact", "Greedy", "Matching", "MultiCandidate", "Recursive", "SpecInfer", "SpecTr", "Typical"]
