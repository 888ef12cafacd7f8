"""Token and block guidance as strategies: texts are drawn, and the best of them by a score is the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from .base import Setting, Strategy, score_of

if TYPE_CHECKING:
    from samplers.search.frontier import SearchResult
    from samplers.target import Samples

__all__ = ["Args", "Blockwise", "Controlled", "Grace", "Guide", "Rad"]


class _Drawn(Strategy):
    """A strategy whose function returns :class:`~samplers.target.Samples`; it has neither budget nor trace.

    Attributes:
        ranked: the field that holds the score by which the drawn texts are ordered; where it is ``None``, by the model's log-probability.
    """

    ranked: ClassVar[str]

    def run(self, setting: Setting) -> SearchResult:
        import time

        if setting.budget is not None or setting.trace is not None:
            raise ValueError(f"{type(self).__name__} draws whole texts: it knows no search budget and writes no trace")
        module, _, name = self.function.partition(":")
        function: Callable[..., Samples] = getattr(import_module(module), name)
        offered = {"seed": setting.seed, "ending": setting.ending}
        if setting.texts is not None and "vocabulary" in inspect.signature(function).parameters:
            offered["vocabulary"] = setting.vocabulary("the strategy")
        began = time.perf_counter()
        samples = function(setting.target, **self.arguments(setting), **offered)
        rank = getattr(self, self.ranked)
        return _as_search(samples, setting, None if rank is None else score_of(rank, setting), time.perf_counter() - began)


def _as_search(samples: Samples, setting: Setting, score: Any, seconds: float) -> SearchResult:
    """Drawn texts as the result of a search, best first."""
    from samplers.scores.protocol import Candidate
    from samplers.search.frontier import Found, Node, SearchResult

    target, found = setting.target, []
    kept = [sample for sample in samples.samples if sample.finished or setting.ending == "cut"]
    candidates = [Candidate(target.root.extend(s.tokens), len(target.prompt), s.finished, target.ends) for s in kept]
    scores = score.rewards(candidates) if hasattr(score, "rewards") else [s.log_prob for s in kept]
    for number, (sample, candidate, value) in enumerate(zip(kept, candidates, scores)):
        node = Node(candidate.context, 1, None, sample.tokens, sample.log_prob, value, sample.finished, None, number)
        found.append(Found(sample.tokens, sample.log_prob, value, sample.finished, node))
    found.sort(key=lambda one: (not one.finished, -one.score, one.node.number))
    made = int(samples.details.get("tokens", sum(len(sample.tokens) for sample in samples.samples)))
    return SearchResult(found, True, samples.forwards, samples.forwards, made, seconds, samples.method, None, dict(samples.details))


@dataclass(frozen=True)
class Guide(_Drawn):
    """Token guidance (ARGS, RAD, controlled decoding, DExperts ...): draws ``n`` texts by a guide and takes the best; see
    :func:`samplers.guides.decode.guided_decode`.

    Attributes:
        guide: one of :mod:`samplers.guides`, or warpers and guides in order.
        reward: orders the ``n`` texts; ``None``: the model's log-probability does.
    """

    function: ClassVar[str] = "samplers.guides.decode:guided_decode"
    scores: ClassVar[tuple[str, ...]] = ("reward",)
    ranked: ClassVar[str] = "reward"
    own: ClassVar[tuple[str, ...]] = ("reward",)

    guide: Any
    n: int = 1
    reward: Any = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def arguments(self, setting: Setting) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "reward"}


class _ByValue(_Drawn):
    """Token guidance by a value: the fields besides ``value``, ``n`` and ``temperature`` are arguments of :attr:`guide`."""

    function: ClassVar[str] = "samplers.guides.decode:guided_decode"
    scores: ClassVar[tuple[str, ...]] = ("value",)
    ranked: ClassVar[str] = "value"
    guide: ClassVar[str]

    def arguments(self, setting: Setting) -> dict[str, Any]:
        given = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        common = {name: given.pop(name) for name in ("n", "temperature")}
        value = score_of(given.pop("value"), setting)
        module, _, name = self.guide.partition(":")
        return {"guide": getattr(import_module(module), name)(value, **given), **common}


@dataclass(frozen=True)
class Args(_ByValue):
    """ARGS: each token by the model's log-probability plus the weighted reward of the text with it; see
    :class:`samplers.guides.args.ARGS`."""

    guide: ClassVar[str] = "samplers.guides.args:ARGS"
    own: ClassVar[tuple[str, ...]] = ("value", "weight", "top_k", "greedy")

    value: Any
    weight: float = 1.0
    top_k: int = 10
    greedy: bool = False
    n: int = 1
    temperature: float = 1.0


@dataclass(frozen=True)
class Rad(_ByValue):
    """RAD: the logits of the most probable tokens are raised by the reward of the text with them; see :class:`samplers.guides.rad.RAD`."""

    guide: ClassVar[str] = "samplers.guides.rad:RAD"
    own: ClassVar[tuple[str, ...]] = ("value", "beta", "top_k")

    value: Any
    beta: float = 10.0
    top_k: int = 20
    n: int = 1
    temperature: float = 1.0


@dataclass(frozen=True)
class Controlled(_ByValue):
    """Controlled decoding, token by token: the model tilted by a value of prefixes; see
    :class:`samplers.guides.controlled.ControlledDecoding`."""

    guide: ClassVar[str] = "samplers.guides.controlled:ControlledDecoding"
    own: ClassVar[tuple[str, ...]] = ("value", "strength", "top_k")

    value: Any
    strength: float = 1.0
    top_k: int | None = None
    n: int = 1
    temperature: float = 1.0


@dataclass(frozen=True)
class Blockwise(_Drawn):
    """Block-wise controlled decoding: of ``k`` drawn blocks the one of the best value goes on; see
    :func:`samplers.guides.blockwise.blockwise`."""

    function: ClassVar[str] = "samplers.guides.blockwise:blockwise"
    scores: ClassVar[tuple[str, ...]] = ("value",)
    ranked: ClassVar[str] = "value"

    value: Any
    n: int = 1
    k: int = 4
    block: int | str | Callable[..., bool] = 16
    strength: float | None = None


@dataclass(frozen=True)
class Grace(_Drawn):
    """GRACE: steps are drawn, scored by a step scorer and by the model, and the best goes on; see :func:`samplers.guides.grace.grace`."""

    function: ClassVar[str] = "samplers.guides.grace:grace"
    scores: ClassVar[tuple[str, ...]] = ("scorer",)
    ranked: ClassVar[str] = "scorer"

    scorer: Any
    n: int = 1
    k: int = 20
    beta: float = 0.1
    block: int | str | Callable[..., bool] = "line"
    sample: bool = False
