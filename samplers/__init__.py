"""A model + states -> text: decode loops, their token masks on the device, and the table of methods with their laws.

Reading order: :mod:`.registry` (what a method declares: its law), :mod:`.sampling` (one step: logits in, tokens out), :mod:`.masks`
(packed masks on the logits' device), :mod:`.budget` (closing in time), :mod:`.masked` (the batched decode loop); :mod:`.models` (the
language models that samplers ask: contexts in, log-probabilities out); :mod:`.warpers` (what shapes a step's distribution);
:mod:`.guides` (what steers a step by a score or by other models).

Sampling from the model *given* a language, which masking is not: :mod:`.target` (what is to be sampled, and what samplers return), then
a method a file: :mod:`.importance` (masks, corrected by weights), :mod:`.rejection`, :mod:`.prefix_tree` (what failures teach) with
:mod:`.cars` and :mod:`.asap`, :mod:`.awrs`, :mod:`.smc`, :mod:`.mcmc`, :mod:`.daemon`, :mod:`.without_replacement`. Probabilities of given
texts, without sampling: :mod:`.options`.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .budget import Budget
    from .masked import Request, Step, decode
    from .masks import MaskTable
    from .models import Context, Counting, HFModel, LanguageModel, NGramModel, TabularModel, Usage
    from .registry import Law, Method, method, methods
    from .sampling import Drawn, Settings, choose
    from .target import Sample, Samples, Target
    from .warpers import CONSTRAINT, Pipeline, Warper

__all__ = [
    "CONSTRAINT",
    "Budget",
    "Context",
    "Counting",
    "Drawn",
    "HFModel",
    "LanguageModel",
    "Law",
    "MaskTable",
    "Method",
    "NGramModel",
    "Pipeline",
    "Request",
    "Sample",
    "Samples",
    "Settings",
    "Step",
    "TabularModel",
    "Target",
    "Usage",
    "Warper",
    "choose",
    "decode",
    "method",
    "methods",
]

_LAZY = {
    "CONSTRAINT": ".warpers",
    "Budget": ".budget",
    "Context": ".models",
    "Counting": ".models",
    "Drawn": ".sampling",
    "HFModel": ".models",
    "LanguageModel": ".models",
    "Law": ".registry",
    "MaskTable": ".masks",
    "Method": ".registry",
    "NGramModel": ".models",
    "Pipeline": ".warpers",
    "Request": ".masked",
    "Sample": ".target",
    "Samples": ".target",
    "Settings": ".sampling",
    "Step": ".masked",
    "TabularModel": ".models",
    "Target": ".target",
    "Usage": ".models",
    "Warper": ".warpers",
    "choose": ".sampling",
    "decode": ".masked",
    "method": ".registry",
    "methods": ".registry",
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
