"""Warpers: what shapes a step's distribution. Each is a Hugging Face logits processor and works on its own.

::

    model.generate(..., logits_processor=[MinP(0.05)], do_sample=True)
    guided.generate(model, prompt, constraint, warpers=[RepetitionPenalty(1.1), CONSTRAINT, Temperature(0.7), MinP(0.05)])

Reading order: :mod:`.base` (what a warper is), :mod:`.pipeline` (several in order, and where the constraint's mask stands),
:mod:`.memory` (state that follows a row's text). Then one method a file:

- truncation: :mod:`.temperature`, :mod:`.top_k`, :mod:`.top_p`, :mod:`.min_p`, :mod:`.cutoff` (epsilon, eta), :mod:`.typical`,
  :mod:`.top_n_sigma`, :mod:`.mirostat`;
- decoders that solve a problem on the simplex: :mod:`.simplex`, :mod:`.best_of_k`, :mod:`.bregman`;
- against repetition: :mod:`.penalties`, :mod:`.penalty_decoding`, :mod:`.no_repeat`, :mod:`.momentum`, :mod:`.frustratingly_simple`;
- with a model that reads along (:mod:`.second`, :mod:`.hidden_states`): :mod:`.contrastive_decoding`, :mod:`.guidance`,
  :mod:`.contrastive_search`, :mod:`.look_back`, :mod:`.cautious`.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Row, Warper
    from .best_of_k import BestOfK
    from .bregman import Bregman
    from .cautious import CautiousNextToken
    from .contrastive_decoding import ContrastiveDecoding
    from .contrastive_search import ContrastiveSearch
    from .cutoff import EpsilonCutoff, EtaCutoff
    from .frustratingly_simple import FrustratinglySimple, FrustratinglySimpleVector
    from .guidance import ClassifierFreeGuidance, InstructiveDecoding
    from .look_back import LookBack
    from .min_p import MinP
    from .mirostat import Mirostat
    from .momentum import Momentum
    from .no_repeat import NoRepeatNGram
    from .penalties import OccurrencePenalty, RepetitionPenalty
    from .penalty_decoding import PenaltyDecoding
    from .pipeline import CONSTRAINT, Pipeline, as_pipeline
    from .simplex import Entropy, Simplex, Tsallis
    from .temperature import Temperature
    from .top_k import TopK
    from .top_n_sigma import TopNSigma
    from .top_p import TopP
    from .typical import Typical

_LAZY = {
    "CONSTRAINT": "pipeline",
    "BestOfK": "best_of_k",
    "Bregman": "bregman",
    "CautiousNextToken": "cautious",
    "ClassifierFreeGuidance": "guidance",
    "ContrastiveDecoding": "contrastive_decoding",
    "ContrastiveSearch": "contrastive_search",
    "Entropy": "simplex",
    "EpsilonCutoff": "cutoff",
    "EtaCutoff": "cutoff",
    "FrustratinglySimple": "frustratingly_simple",
    "FrustratinglySimpleVector": "frustratingly_simple",
    "InstructiveDecoding": "guidance",
    "LookBack": "look_back",
    "MinP": "min_p",
    "Mirostat": "mirostat",
    "Momentum": "momentum",
    "NoRepeatNGram": "no_repeat",
    "OccurrencePenalty": "penalties",
    "PenaltyDecoding": "penalty_decoding",
    "Pipeline": "pipeline",
    "RepetitionPenalty": "penalties",
    "Row": "base",
    "Simplex": "simplex",
    "Temperature": "temperature",
    "TopK": "top_k",
    "TopNSigma": "top_n_sigma",
    "TopP": "top_p",
    "Tsallis": "simplex",
    "Typical": "typical",
    "Warper": "base",
    "as_pipeline": "pipeline",
}

__all__ = [
    "CONSTRAINT",
    "BestOfK",
    "Bregman",
    "CautiousNextToken",
    "ClassifierFreeGuidance",
    "ContrastiveDecoding",
    "ContrastiveSearch",
    "Entropy",
    "EpsilonCutoff",
    "EtaCutoff",
    "FrustratinglySimple",
    "FrustratinglySimpleVector",
    "InstructiveDecoding",
    "LookBack",
    "MinP",
    "Mirostat",
    "Momentum",
    "NoRepeatNGram",
    "OccurrencePenalty",
    "PenaltyDecoding",
    "Pipeline",
    "RepetitionPenalty",
    "Row",
    "Simplex",
    "Temperature",
    "TopK",
    "TopNSigma",
    "TopP",
    "Tsallis",
    "Typical",
    "Warper",
    "as_pipeline",
]


def __getattr__(name: str) -> Any:
    """Loads a public name on its first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
