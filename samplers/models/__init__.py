"""Language models as samplers see them: contexts that share prefixes in, log-probabilities out.

Reading order: :mod:`.context` (a token sequence as a value), :mod:`.protocol` (what a model must answer), :mod:`.tabular` (exact toys,
for tests of laws), :mod:`.counting` (what a run cost).
"""

from __future__ import annotations

from .context import Context
from .counting import Counting, Usage
from .protocol import LanguageModel
from .tabular import TabularModel

__all__ = ["Context", "Counting", "LanguageModel", "TabularModel", "Usage"]
