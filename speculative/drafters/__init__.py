"""Drafters: what proposes tokens. Each is a :class:`~speculative.protocol.Drafter`; they combine.

Reading order: :mod:`.base` (rounds of growing; drafts below drafts), :mod:`.texts` (what is kept of a row's text), then

- looked up: :mod:`.copying` (prompt lookup, references), :mod:`.suffix_automaton` and :mod:`.sam`, :mod:`.ngrams`, :mod:`.recycling`;
- guessed, and improved by the target: :mod:`.guesses`, :mod:`.lookahead`, :mod:`.jacobi`;
- drawn from a model: :mod:`.model`, :mod:`.staged`, :mod:`.vocabularies` and :mod:`.other_vocabulary`, :mod:`.layers`, :mod:`.skips` and
  :mod:`.self_drafting`;
- of other drafters: :mod:`.combined`, :mod:`.forced`.
"""

from __future__ import annotations

from .base import BaseDrafter, Lookup
from .combined import FirstOf, Merged, Relay, Shaped
from .copying import PromptLookup, ReferenceCopy
from .forced import Forced
from .jacobi import JacobiDrafter
from .lookahead import LookaheadDrafter
from .model import ModelDrafter
from .ngrams import NgramDrafter, NgramTable
from .other_vocabulary import IntersectionDrafter, StringDrafter
from .recycling import TokenRecycling
from .sam import SamDrafter
from .self_drafting import LayerSkipDrafter, SwiftDrafter
from .staged import StagedDrafter
from .suffix_automaton import SuffixAutomaton

__all__ = [
    "BaseDrafter",
    "FirstOf",
    "Forced",
    "IntersectionDrafter",
    "JacobiDrafter",
    "LayerSkipDrafter",
    "LookaheadDrafter",
    "Lookup",
    "Merged",
    "ModelDrafter",
    "NgramDrafter",
    "NgramTable",
    "PromptLookup",
    "ReferenceCopy",
    "Relay",
    "SamDrafter",
    "Shaped",
    "StagedDrafter",
    "StringDrafter",
    "SuffixAutomaton",
    "SwiftDrafter",
    "TokenRecycling",
]
