"""Scores that steer a search: one protocol (:mod:`.protocol`) and adapters to it, one a file.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .protocol import Candidate, Reward, StepScorer, Value, ValueBase, next_values

__all__ = ["Candidate", "Reward", "StepScorer", "Value", "ValueBase", "next_values"]

_LAZY = {
    "Candidate": ".protocol",
    "Reward": ".protocol",
    "StepScorer": ".protocol",
    "Value": ".protocol",
    "ValueBase": ".protocol",
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
