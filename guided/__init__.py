"""What users import: constrained generation on any Hugging Face model, in one package.

::

    import guided

    model = guided.load()                                            # or a path, a hub id, (model, tokenizer)
    result = guided.generate(model, "Ada Lovelace was born in 1815.", Person, seed=0)
    result.value                                                     # a Person

    processor = guided.GuidedLogitsProcessor(tokenizer, guided.Regex(r"\\d+"))   # for model.generate

Reading order: :mod:`.inputs` (what may stand for a constraint), :mod:`.model` (a loaded model), :mod:`.prompts` (chat templates),
:mod:`.api` (``generate``, ``stream``) with :mod:`.result` and :mod:`.partial`; :mod:`.drafting` (speculation, by name) with
:mod:`.custom_speculation` (the same in Hugging Face's ``generate``); :mod:`.strategies` (searches, as values) with
:mod:`.searching` (``generate(search=...)``) and :mod:`.custom_generate` (the same in Hugging Face's ``generate``);
:mod:`.sampling` (``sample``) with :mod:`.sampled`;
:mod:`.answers` (``choose``) and :mod:`.fields` (``field_probabilities``); :mod:`.processor` (the Hugging Face plug-in);
:mod:`.packaged` (the demo model); :mod:`.cli` (the command ``guided``); :mod:`.evaluation` (verdicts, times and laws of samplers).

The public names of :mod:`grammars` (constraints, errors, vocabularies) and :mod:`samplers` (decode loops, the table of methods) are here
too. Names are loaded when they are first used: ``import guided`` imports neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import grammars
import samplers

if TYPE_CHECKING:
    from grammars import (
        AnyJson,
        Automaton,
        Choice,
        Constraint,
        ConstraintError,
        DeadEnd,
        Gbnf,
        GrammarError,
        GuidedError,
        Intersection,
        JsonSchema,
        Lark,
        LimitError,
        Limits,
        Literal,
        ModelError,
        MustInclude,
        MustNotInclude,
        Regex,
        RegexError,
        SchemaError,
        Vocabulary,
        VocabularyError,
        english_inflections,
        fill_masks,
    )
    from samplers import Budget, Drawn, Law, MaskTable, Method, Request, Settings, Step, decode, method, methods
    from samplers.search.frontier import SearchBudget
    from samplers.search.trace import Trace

    from . import strategies
    from .answers import Choices, Option, choose
    from .api import generate, stream
    from .drafting import Speculation
    from .fields import Field, FieldValue, field_probabilities
    from .inputs import constraint_from
    from .model import Model, load
    from .partial import partial_json
    from .processor import GuidedLogitsProcessor
    from .result import Alternative, Partial, Result, SearchReport, Timings
    from .sampled import Sampled, WeightedText
    from .sampling import sample

    __version__: str

__all__ = [
    "Alternative",
    "AnyJson",
    "Automaton",
    "Budget",
    "Choice",
    "Choices",
    "Constraint",
    "ConstraintError",
    "DeadEnd",
    "Drawn",
    "Field",
    "FieldValue",
    "Gbnf",
    "GrammarError",
    "GuidedError",
    "GuidedLogitsProcessor",
    "Intersection",
    "JsonSchema",
    "Lark",
    "Law",
    "LimitError",
    "Limits",
    "Literal",
    "MaskTable",
    "Method",
    "Model",
    "ModelError",
    "MustInclude",
    "MustNotInclude",
    "Option",
    "Partial",
    "Regex",
    "RegexError",
    "Request",
    "Result",
    "Sampled",
    "SchemaError",
    "SearchBudget",
    "SearchReport",
    "Settings",
    "Speculation",
    "Step",
    "Timings",
    "Trace",
    "Vocabulary",
    "VocabularyError",
    "WeightedText",
    "__version__",
    "choose",
    "constraint_from",
    "decode",
    "english_inflections",
    "field_probabilities",
    "fill_masks",
    "generate",
    "load",
    "method",
    "methods",
    "partial_json",
    "sample",
    "strategies",
    "stream",
]

_FROM_SAMPLERS = {"SearchBudget": "samplers.search.frontier", "Trace": "samplers.search.trace"}
_LAZY = {
    "Alternative": ".result",
    "Choices": ".answers",
    "Field": ".fields",
    "FieldValue": ".fields",
    "GuidedLogitsProcessor": ".processor",
    "Model": ".model",
    "Option": ".answers",
    "Partial": ".result",
    "Result": ".result",
    "Sampled": ".sampled",
    "SearchReport": ".result",
    "Speculation": ".drafting",
    "Timings": ".result",
    "WeightedText": ".sampled",
    "choose": ".answers",
    "constraint_from": ".inputs",
    "field_probabilities": ".fields",
    "generate": ".api",
    "load": ".model",
    "partial_json": ".partial",
    "sample": ".sampling",
    "stream": ".api",
}


def __getattr__(name: str) -> Any:
    """Loads a public name on its first use (PEP 562)."""
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
    elif name in _FROM_SAMPLERS:
        value = getattr(import_module(_FROM_SAMPLERS[name]), name)
    elif name == "strategies":
        value = import_module(".strategies", __name__)
    elif name in grammars.__all__:
        value = getattr(grammars, name)
    elif name in samplers.__all__:
        value = getattr(samplers, name)
    elif name == "__version__":
        value = _version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes longer than all of the rest

    try:
        return version("guided-decoding")
    except PackageNotFoundError:  # imported from a source tree that is not installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
