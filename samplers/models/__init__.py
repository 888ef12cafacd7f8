"""Language models as samplers see them: contexts that share prefixes in, log-probabilities out.

Reading order: :mod:`.context` (a token sequence as a value), :mod:`.protocol` (what a model must answer), :mod:`.tabular` (exact toys,
for tests of laws), :mod:`.ngram`, :mod:`.counting` (what a run cost); then the Hugging Face models: :mod:`.hf` (questions to a model and
its cache), :mod:`.cache` (which tokens are cached, and where), :mod:`.pool` (their states), :mod:`.network` (one forward).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .context import Context
from .counting import Counting, Usage
from .ngram import NGramModel
from .protocol import LanguageModel
from .tabular import TabularModel

if TYPE_CHECKING:
    from .hf import HFModel

__all__ = ["Context", "Counting", "HFModel", "LanguageModel", "NGramModel", "TabularModel", "Usage"]


def __getattr__(name: str) -> Any:
    """Loads what needs transformers on its first use (PEP 562)."""
    if name != "HFModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .hf import HFModel

    globals()[name] = HFModel
    return HFModel
