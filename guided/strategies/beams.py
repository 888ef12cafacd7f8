"""Beams: the most probable texts, approximately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Strategy

__all__ = ["Beam", "BestFirstBeam", "DiverseBeam", "DynamicBeamAllocation", "GridBeam", "NeuroLogic", "UidBeam"]


@dataclass(frozen=True)
class Beam(Strategy):
    """Beam search with the rules of transformers; see :func:`samplers.search.beam.beam_search`."""

    function: ClassVar[str] = "samplers.search.beam:beam_search"

    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    patience: float = 1.0
    finished: str = "aside"


@dataclass(frozen=True)
class BestFirstBeam(Strategy):
    """The texts of a beam with fewer expansions; see :func:`samplers.search.best_first_beam.best_first_beam_search`."""

    function: ClassVar[str] = "samplers.search.best_first_beam:best_first_beam_search"

    beams: int | None = 4
    n: int = 1
    length_penalty: float = 0.0
    finished: str = "compete"
    batch: int = 1


@dataclass(frozen=True)
class DiverseBeam(Strategy):
    """Groups of beams that avoid each other's tokens; see :func:`samplers.search.diverse_beam.diverse_beam_search`."""

    function: ClassVar[str] = "samplers.search.diverse_beam:diverse_beam_search"

    beams: int = 6
    groups: int = 3
    diversity: float = 0.5
    dissimilarity: str = "hamming"
    n: int = 2
    length_penalty: float = 1.0
    early_stopping: bool | str = False


@dataclass(frozen=True)
class UidBeam(Strategy):
    """A beam that prefers evenly spread surprisals; see :func:`samplers.search.uid_beam.uid_beam_search`."""

    function: ClassVar[str] = "samplers.search.uid_beam:uid_beam_search"

    regulariser: str = "square"
    weight: float = 0.5
    search: str = "beam"
    beams: int = 4
    length_penalty: float = 0.0
    early_stopping: bool | str = False
    patience: float = 1.0
    n: int = 1


@dataclass(frozen=True)
class GridBeam(Strategy):
    """Texts that have all of some words, by a beam for every number of their tokens; see :mod:`samplers.search.grid_beam`."""

    function: ClassVar[str] = "samplers.search.grid_beam:grid_beam_search"

    words: Any
    forbidden: Any = ()
    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    whole: bool = True
    ignore_case: bool = True


@dataclass(frozen=True)
class DynamicBeamAllocation(Strategy):
    """Texts that have all of some words, by one beam shared out anew at every step; see :mod:`samplers.search.dynamic_beam_allocation`."""

    function: ClassVar[str] = "samplers.search.dynamic_beam_allocation:dynamic_beam_allocation"

    words: Any
    forbidden: Any = ()
    beams: int = 8
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    whole: bool = True
    ignore_case: bool = True


@dataclass(frozen=True)
class NeuroLogic(Strategy):
    """Texts that have all of some words and none of others, with a look ahead; see :mod:`samplers.search.neurologic`."""

    function: ClassVar[str] = "samplers.search.neurologic:neurologic_astar"

    words: Any
    forbidden: Any = ()
    beams: int = 4
    candidates: int = 24
    tolerance: float = 2
    weight: float = 0.5
    lookahead: int = 4
    samples: int | None = None
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    whole: bool = True
    ignore_case: bool = True
