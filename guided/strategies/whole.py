"""Choosing among whole texts: best-of-n, minimum Bayes risk, votes; and exact searches for the best text of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from grammars.errors import ConstraintError

from .base import Setting, Strategy, score_of

if TYPE_CHECKING:
    from samplers.search.frontier import SearchResult

__all__ = ["AStar", "AdaptiveConsistency", "BestOfN", "BranchAndBound", "Cot", "Mbr", "SelfConsistency", "SpeculativeRejection"]


@dataclass(frozen=True)
class BestOfN(Strategy):
    """Best-of-n: the draw with the highest reward; see :func:`samplers.search.best_of_n.best_of_n`."""

    function: ClassVar[str] = "samplers.search.best_of_n:best_of_n"
    scores: ClassVar[tuple[str, ...]] = ("reward",)

    reward: Any
    n: int = 16


@dataclass(frozen=True)
class SpeculativeRejection(Strategy):
    """Best-of-n that gives weak beginnings up early; see :func:`samplers.search.best_of_n.speculative_rejection`."""

    function: ClassVar[str] = "samplers.search.best_of_n:speculative_rejection"
    scores: ClassVar[tuple[str, ...]] = ("reward",)

    reward: Any
    n: int = 64
    alpha: float = 0.5
    room: int | None = None


def utility_of(given: Any) -> Any:
    """A utility: a function of two texts, or the name of one of :mod:`samplers.search.utilities`.

    Raises:
        ConstraintError: there is none of that name.
    """
    if not isinstance(given, str):
        return given
    from samplers.search import utilities

    names = [name for name in utilities.__all__ if name[0].islower()]
    if given not in names:
        raise ConstraintError(f"there is no utility {given!r}; there are {', '.join(names)}, or give a function of two texts")
    return getattr(utilities, given)


@dataclass(frozen=True)
class Mbr(Strategy):
    """Minimum Bayes risk (crowd sampling): the draw that is most like the others; see :func:`samplers.search.mbr.mbr`.

    Attributes:
        utility: a function of two texts, or the name of one of :mod:`samplers.search.utilities`.
    """

    function: ClassVar[str] = "samplers.search.mbr:mbr"
    own: ClassVar[tuple[str, ...]] = ("utility",)

    n: int = 32
    utility: str | Callable[[Any, Any], float] = "chrf"
    symmetric: bool | None = None
    references: int | None = None

    def arguments(self, setting: Setting) -> dict[str, Any]:
        return super().arguments(setting) | {"utility": utility_of(self.utility)}


class _Voting(Strategy):
    """A strategy with an extractor of answers: a JSON pointer (``"/answer"``; ``""`` for all of a JSON text), another text for a regular
    expression whose last match (or its first group) is the answer, or an extractor of :mod:`samplers.search.answers`."""

    own: ClassVar[tuple[str, ...]] = ("extract",)
    extract: Any

    def arguments(self, setting: Setting) -> dict[str, Any]:
        from samplers.search.answers import JsonAnswer, PatternAnswer

        given, extract = super().arguments(setting), self.extract
        if isinstance(extract, str):
            kind = JsonAnswer if extract == "" or extract.startswith("/") else PatternAnswer
            extract = kind(extract, setting.vocabulary("an answer inside of a text"))
        return given | {"extract": extract}


@dataclass(frozen=True)
class SelfConsistency(_Voting):
    """Self-consistency: the answer that most draws come to; see :func:`samplers.search.self_consistency.self_consistency`.

    Attributes:
        extract: finds the answer, see the base.
        weights: ``"equal"``, ``"probability"``, or a reward.
    """

    function: ClassVar[str] = "samplers.search.self_consistency:self_consistency"

    extract: Any
    n: int = 16
    weights: Any = "equal"

    def arguments(self, setting: Setting) -> dict[str, Any]:
        weights = self.weights if isinstance(self.weights, str) else score_of(self.weights, setting)
        return super().arguments(setting) | {"weights": weights}


@dataclass(frozen=True)
class AdaptiveConsistency(_Voting):
    """Self-consistency that stops drawing when the vote is clear; see
    :func:`samplers.search.self_consistency.adaptive_consistency`."""

    function: ClassVar[str] = "samplers.search.self_consistency:adaptive_consistency"

    extract: Any
    n: int = 40
    batch: int = 4
    confidence: float = 0.95


@dataclass(frozen=True)
class Cot(_Voting):
    """CoT-decoding: the greedy continuations of the most probable first tokens, by the margin of their answers; see
    :func:`samplers.search.cot.cot_decoding`."""

    function: ClassVar[str] = "samplers.search.cot:cot_decoding"

    extract: Any
    k: int = 10
    aggregate: bool = True


class _Exact(Strategy):
    """An exact search, for log-probability plus a reward of finished texts."""

    scores: ClassVar[tuple[str, ...]] = ("reward",)
    own: ClassVar[tuple[str, ...]] = ("reward",)
    reward: Any

    def arguments(self, setting: Setting) -> dict[str, Any]:
        given = super().arguments(setting)
        del given["reward"]
        return given | {"ending": "exact" if setting.ending == "cut" else setting.ending}

    def run(self, setting: Setting) -> SearchResult:
        if self.reward is not None:
            from samplers.scores.target import as_target_reward

            target = setting.target
            reward = as_target_reward(score_of(self.reward, setting), target.prompt, target.ends)
            setting = replace(setting, target=replace(target, reward=reward))
        return super().run(setting)


@dataclass(frozen=True)
class AStar(_Exact):
    """Exact A*: the best texts of all, by log-probability plus a reward; see :func:`samplers.search.exact.a_star`.

    Attributes:
        reward: of finished texts; ``None``: none.
        reward_bound: no text has a higher reward; needed with a reward.
    """

    function: ClassVar[str] = "samplers.search.exact:a_star"

    n: int = 1
    reward: Any = None
    reward_bound: float | Callable[[tuple[int, ...]], float] | None = None
    batch: int = 1


@dataclass(frozen=True)
class BranchAndBound(_Exact):
    """Exact branch and bound, depth first; see :func:`samplers.search.exact.branch_and_bound`. Fields as of :class:`AStar`."""

    function: ClassVar[str] = "samplers.search.exact:branch_and_bound"

    n: int = 1
    reward: Any = None
    reward_bound: float | Callable[[tuple[int, ...]], float] | None = None
