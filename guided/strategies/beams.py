"""Beams: the most probable texts, approximately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Strategy

__all__ = ["Beam", "BestFirstBeam", "DiverseBeam", "UidBeam"]


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
