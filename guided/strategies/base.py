"""What strategies share: where they run, what they take as scores, and the three ways in which they are called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

from grammars.errors import ConstraintError

if TYPE_CHECKING:
    import torch

    from samplers.search.frontier import Ending, Progress, SearchBudget, SearchResult
    from samplers.search.trace import Trace
    from samplers.target import Target

__all__ = ["OfValue", "Setting", "Strategy", "score_of"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a strategy runs: what it searches, and what is known about its texts.

    Attributes:
        target: what is searched.
        texts: a vocabulary or tokenizer that says what tokens mean; ``None``: nothing does.
        parse: from a complete text to its value, a ``ValueError`` where there is none.
        ending: see :mod:`samplers.search.frontier`; for strategies that know it.
        seed: of the randomness, for strategies that have any.
        budget, trace, progress: see :mod:`samplers.search.frontier`.
    """

    target: Target
    texts: Any = None
    parse: Callable[[str], Any] = str
    ending: Ending = "budget"
    seed: int = 0
    budget: SearchBudget | None = None
    trace: Trace | None = None
    progress: Callable[[Progress], None] | None = None

    def vocabulary(self, purpose: str) -> Any:
        """The vocabulary.

        Raises:
            ConstraintError: nothing says what tokens mean.
        """
        if self.texts is None:
            raise ConstraintError(f"{purpose} needs to know what tokens mean: give a constraint, or the tokenizer (text_tokenizer=...)")
        from samplers.scores.texts import vocabulary_of

        return vocabulary_of(self.texts)


@dataclass(frozen=True, slots=True)
class OfValue:
    """A score of what a finished text becomes: the parsed object, or an instance of the type that was the constraint.

    Attributes:
        function: from the value to a number; larger is better.
        otherwise: the score of a text that has no value yet, or none at all.
    """

    function: Callable[[Any], float]
    otherwise: float = 0.0


def score_of(given: Any, setting: Setting) -> Any:
    """The score of :mod:`samplers.scores` that a function, an :class:`OfValue`, a mapping of words to weights or a score stands for.

    Raises:
        ConstraintError: a function of texts where nothing says what tokens mean; or something else.
    """
    if isinstance(given, Mapping):
        from samplers.scores.lexicon import Lexicon

        return Lexicon(given, setting.vocabulary("a lexicon"))
    if any(hasattr(given, name) for name in ("rewards", "values", "step_scores")):
        return given
    if not callable(given) and not isinstance(given, OfValue):
        raise ConstraintError(f"a score is a function of the text, an OfValue, weighted words, or one of samplers.scores; not {given!r}")
    from samplers.scores.function import Function

    if setting.texts is None:
        setting.vocabulary("a function of the text")
    if isinstance(given, OfValue):
        made = {"on": "object", "parse": setting.parse, "otherwise": given.otherwise, "finished_only": True}
        return Function(given.function, texts=setting.texts, **made)  # type: ignore[arg-type]
    return Function(given, texts=setting.texts)


class Strategy:
    """Base of the strategies: frozen dataclasses whose fields are the arguments of :attr:`function`.

    Attributes:
        function: the function of samplers that is called, as ``"module:name"``.
        scores: fields that hold scores, see :func:`score_of`.
        own: fields that are no arguments by their own names: :meth:`arguments` makes others of them.
    """

    function: ClassVar[str]
    scores: ClassVar[tuple[str, ...]] = ()
    own: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            _check(type(self).__name__, each.name, getattr(self, each.name), str(each.type))

    @classmethod
    def implementation(cls) -> Callable[..., SearchResult]:
        """The function."""
        module, _, name = cls.function.partition(":")
        found: Callable[..., SearchResult] = getattr(import_module(module), name)
        return found

    def arguments(self, setting: Setting) -> dict[str, Any]:
        """What the function is called with, besides the target and what the setting says."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return given | {name: score_of(given[name], setting) for name in self.scores if given[name] is not None}

    def run(self, setting: Setting) -> SearchResult:
        """Searches.

        Raises:
            ConstraintError: not even the shortest text of the language fits into ``max_tokens``; or a field needs to know what tokens mean.
            DeadEnd: nothing was found.
            ValueError: an argument that the function refuses.
        """
        function = self.implementation()
        offered = self.offered(setting, inspect.signature(function).parameters)
        given = self.arguments(setting)
        return function(setting.target, **{name: value for name, value in offered.items() if name not in given}, **given)

    def offered(self, setting: Setting, known: Mapping[str, Any]) -> dict[str, Any]:
        """What the setting says of a function's parameters ``known``.

        Raises:
            ValueError: a budget or a trace that the function does not take.
        """
        for name in ("budget", "trace"):
            if name not in known and getattr(setting, name) is not None:
                raise ValueError(f"{type(self).__name__} knows no search budget and writes no trace: leave them out")
        found = {name: getattr(setting, name) for name in ("ending", "seed", "budget", "trace", "progress") if name in known}
        if "vocabulary" in known and setting.texts is not None:
            found["vocabulary"] = setting.vocabulary("the strategy")
        if "texts" in known and setting.texts is not None:
            found["texts"] = setting.texts
        return found

    def __call__(
        self,
        model: Any,
        input_ids: torch.LongTensor,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        *,
        search_budget: SearchBudget | None = None,
        search_seed: int | None = None,
        search_trace: Trace | None = None,
        text_tokenizer: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """The strategy as ``custom_generate`` of Hugging Face's ``generate``; see :func:`guided.custom_generate.run`."""
        from ..custom_generate import run

        return run(
            self,
            model,
            input_ids,
            logits_processor,
            stopping_criteria,
            generation_config,
            search_budget=search_budget,
            search_seed=search_seed,
            search_trace=search_trace,
            text_tokenizer=text_tokenizer,
            **model_kwargs,
        )


def _check(strategy: str, name: str, value: Any, annotation: str) -> None:
    """Refuses a value that is not of the type of its field; counts (whole numbers) are at least 1, other numbers finite."""
    kinds = {kind.strip() for kind in annotation.split("|")}
    if value is None and "None" in kinds:
        return
    if isinstance(value, bool):
        fine = "bool" in kinds or not kinds & {"int", "float"}
    elif isinstance(value, Integral) and kinds & {"int", "float"}:
        fine = "float" in kinds or int(value) >= 1
    elif isinstance(value, Real) and kinds & {"int", "float"}:
        fine = "float" in kinds and math.isfinite(value)
    else:
        fine = bool(kinds - {"int", "float", "bool", "None"})  # texts, scores and functions are looked at where they are used
    if not fine:
        wanted = "a whole number from 1 on" if "int" in kinds else "a finite number" if "float" in kinds else "true or false"
        raise ValueError(f"{strategy}: {name} must be {wanted}{' or None' * ('None' in kinds)}, not {value!r}")
