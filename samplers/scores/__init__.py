"""Scores that steer a search: one protocol, and adapters to it.

Reading order: :mod:`.protocol` (candidates; rewards, values and step scorers), :mod:`.texts` and :mod:`.memory` (what adapters share; the
caching wrapper). Then an adapter a file: :mod:`.function`, :mod:`.validator`, :mod:`.lexicon` (no network); :mod:`.ratio`, :mod:`.head`,
:mod:`.judge` (language models); :mod:`.classifier` (sequence classifiers and reward models of transformers); :mod:`.combined` (their sum).
:mod:`.target` makes a score the reward of a sampler's target.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifier import Classifier
    from .combined import Weighted
    from .function import Function
    from .head import Head
    from .judge import Judge
    from .lexicon import Lexicon
    from .memory import Cached, Memory
    from .protocol import Candidate, Reward, StepScorer, Value, ValueBase, next_values
    from .ratio import Ratio
    from .target import ScorePotential, as_target_reward
    from .validator import Validator

__all__ = [
    "Cached",
    "Candidate",
    "Classifier",
    "Function",
    "Head",
    "Judge",
    "Lexicon",
    "Memory",
    "Ratio",
    "Reward",
    "ScorePotential",
    "StepScorer",
    "Validator",
    "Value",
    "ValueBase",
    "Weighted",
    "as_target_reward",
    "next_values",
]

_LAZY = {
    "Cached": ".memory",
    "Candidate": ".protocol",
    "Classifier": ".classifier",
    "Function": ".function",
    "Head": ".head",
    "Judge": ".judge",
    "Lexicon": ".lexicon",
    "Memory": ".memory",
    "Ratio": ".ratio",
    "Reward": ".protocol",
    "ScorePotential": ".target",
    "StepScorer": ".protocol",
    "Validator": ".validator",
    "Value": ".protocol",
    "ValueBase": ".protocol",
    "Weighted": ".combined",
    "as_target_reward": ".target",
    "next_values": ".protocol",
}


def __getattr__(name: str) -> Any:
    """Loads a public name on its first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
