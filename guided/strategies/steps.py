"""Searches that go step by step, chunk by chunk, or through a tree of tokens with a value.

Where a step ends, the field ``rule``: a number of tokens; ``"line"``, ``"sentence"``, ``"field"`` (of JSON); another text, which ends a
step; or a rule of :mod:`samplers.search.steps`. ``None`` is the function's own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from grammars.errors import ConstraintError

from .base import Setting, Strategy

__all__ = ["AStarSteps", "Mcts", "Phi", "Rebase", "WeakToStrong", "rule_of"]


def rule_of(given: Any, setting: Setting) -> Any:
    """The rule that the field stands for; ``None`` where the function's own can tell where a step ends.

    Raises:
        ConstraintError: it stands for none, or nothing says what tokens mean.
    """
    from samplers.search.steps import Delimiter, Field, Sentence, Tokens

    if isinstance(given, int) and not isinstance(given, bool):
        return Tokens(given)
    if given is not None and not isinstance(given, str):
        if not hasattr(given, "ends"):
            raise ConstraintError(f"a rule of steps is a number of tokens, a text, or one of samplers.search.steps; not {given!r}")
        return given
    if given is None and setting.target.automaton is not None:
        return None
    texts = setting.vocabulary("steps that are told by their text")
    if given == "sentence":
        return Sentence(texts)
    if given == "field":
        return Field(texts)
    return Delimiter(b"\n" if given in (None, "line") else given.encode(), texts)


class _Steps(Strategy):
    """A strategy with a rule of steps."""

    rule: Any

    def arguments(self, setting: Setting) -> dict[str, Any]:
        return super().arguments(setting) | {"rule": rule_of(self.rule, setting)}


@dataclass(frozen=True)
class AStarSteps(_Steps):
    """A*-decoding: whole texts by a process reward of their steps; see :func:`samplers.search.astar_steps.astar_decoding`."""

    function: ClassVar[str] = "samplers.search.astar_steps:astar_decoding"
    scores: ClassVar[tuple[str, ...]] = ("scorer",)

    scorer: Any
    rule: Any = None
    k: int = 4
    n: int = 1
    batch: int = 1
    max_step_tokens: int | None = None


@dataclass(frozen=True)
class Rebase(_Steps):
    """REBASE: a tree of steps whose branches share the samples by their rewards; see :func:`samplers.search.rebase.rebase`."""

    function: ClassVar[str] = "samplers.search.rebase:rebase"
    scores: ClassVar[tuple[str, ...]] = ("scorer",)

    scorer: Any
    rule: Any = None
    n: int = 16
    temperature: float = 0.1
    max_step_tokens: int | None = None


@dataclass(frozen=True)
class Phi(_Steps):
    """phi-decoding: steps chosen by foresight, without a reward; see :func:`samplers.search.phi.phi_decoding` and its ``PhiRules``."""

    function: ClassVar[str] = "samplers.search.phi:phi_decoding"
    own: ClassVar[tuple[str, ...]] = ("beams", "k", "clusters", "temperature_a", "temperature_c", "sigma", "agreement", "least_steps")

    rule: Any = None
    beams: int = 4
    k: int = 4
    clusters: int = 3
    temperature_a: float = 0.6
    temperature_c: float = 0.6
    sigma: float = 1.0
    agreement: float = 0.7
    least_steps: int = 4
    max_step_tokens: int | None = None

    def arguments(self, setting: Setting) -> dict[str, Any]:
        from samplers.search.phi import PhiRules

        numbers = {each.name: getattr(self, each.name) for each in fields(self) if each.name in self.own}
        given = {name: value for name, value in super().arguments(setting).items() if name not in self.own}
        return given | {"rules": PhiRules(**numbers)}


@dataclass(frozen=True)
class WeakToStrong(_Steps):
    """Weak-to-strong search: chunks by the log-ratio of two small models; see
    :func:`samplers.search.weak_to_strong.weak_to_strong_search`.

    Attributes:
        tuned, untuned: language models over the target's vocabulary: of :func:`guided.load`, or :class:`samplers.models.LanguageModel`.
    """

    function: ClassVar[str] = "samplers.search.weak_to_strong:weak_to_strong_search"

    tuned: Any
    untuned: Any
    beams: int = 4
    k: int = 4
    rule: Any = 30
    max_step_tokens: int | None = None

    own: ClassVar[tuple[str, ...]] = ("rule",)

    def arguments(self, setting: Setting) -> dict[str, Any]:
        given = super().arguments(setting)
        return given | {name: getattr(given[name], "language_model", given[name]) for name in ("tuned", "untuned")}


@dataclass(frozen=True)
class Mcts(Strategy):
    """Monte Carlo tree search over tokens, with the model as prior; see :func:`samplers.search.mcts.mcts`."""

    function: ClassVar[str] = "samplers.search.mcts:mcts"
    scores: ClassVar[tuple[str, ...]] = ("reward", "value")

    reward: Any = None
    value: Any = None
    likelihood: float = 0.0
    simulations: int = 200
    commit: bool = False
    c: float = 1.25
    width: int | None = 20
    batch: int = 1
