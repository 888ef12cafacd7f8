"""Token and block guidance as strategies: texts are drawn, and the best of them by a score is the result."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from .base import Setting, Strategy, score_of

if TYPE_CHECKING:
    from samplers.search.frontier import Node, SearchResult, Space
    from samplers.search.trace import Trace
    from samplers.target import Samples

__all__ = ["Args", "Blockwise", "Controlled", "Grace", "Guide", "Rad", "Smc"]


class _Drawn(Strategy):
    """A strategy whose function returns :class:`~samplers.target.Samples`.

    Attributes:
        ranked: the field that holds the score by which the drawn texts are ordered; where it is ``None``, by the model's log-probability.
    """

    ranked: ClassVar[str]

    def run(self, setting: Setting) -> SearchResult:
        function: Callable[..., Any] = self.implementation()
        offered = self.offered(setting, inspect.signature(function).parameters)
        began = time.perf_counter()
        samples: Samples = function(setting.target, **self.arguments(setting), **offered)
        rank = getattr(self, self.ranked)
        return _as_search(samples, setting, None if rank is None else score_of(rank, setting), time.perf_counter() - began)


def _as_search(samples: Samples, setting: Setting, score: Any, seconds: float) -> SearchResult:
    """Drawn texts as the result of a search, best first; where a budget left none finished, the best beginning is completed."""
    from samplers.scores.protocol import Candidate
    from samplers.search.frontier import Found, Node, SearchResult, Space

    target, number = setting.target, _numbers(setting.trace)
    nodes = []
    for sample in samples.samples:
        context, known = target.root.extend(sample.tokens), number.get(sample.tokens, -1)
        nodes.append(Node(context, target.start, None, sample.tokens, sample.log_prob, 0.0, sample.finished, None, known))
    if setting.ending != "cut":
        done = [node for node in nodes if node.finished]
        nodes = done or _completed(nodes, Space(target, ending=setting.ending, trace=None))
    candidates = [Candidate(node.context, len(target.prompt), node.finished, target.ends) for node in nodes]
    scores = score.rewards(candidates) if hasattr(score, "rewards") else [node.logprob for node in nodes]
    found = [Found(node.tokens, node.logprob, value, node.finished, node) for node, value in zip(nodes, scores)]
    found.sort(key=lambda one: (not one.finished, -one.score))
    made = int(samples.details.get("tokens", sum(len(sample.tokens) for sample in samples.samples)))
    complete = bool(samples.details.get("complete", True))
    spent = samples.forwards
    return SearchResult(found, complete, spent, spent, made, seconds, samples.method, setting.trace, dict(samples.details))


def _completed(nodes: Sequence[Node], space: Space) -> list[Node]:
    """The most probable beginning that a shortest completion can follow, with it; empty where there is none."""
    for node in sorted(nodes, key=lambda one: -one.logprob):
        way = space.start()
        for token in node.tokens:
            way = space.child(way, token, 0.0, 0.0)
        closed = space.close(way)
        if closed is not None:
            return [replace(closed, logprob=closed.logprob + node.logprob)]
    return []


def _numbers(trace: Trace | None) -> dict[tuple[int, ...], int]:
    """The numbers of a trace's nodes by their tokens."""
    paths: dict[int, tuple[int, ...]] = {}
    for node in () if trace is None else trace.nodes.values():
        paths[node.number] = (*paths.get(-1 if node.parent is None else node.parent, ()), *(() if node.token is None else (node.token,)))
    return {tokens: number for number, tokens in paths.items()}


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


@dataclass(frozen=True)
class Smc(_Drawn):
    """Particles by sequential Monte Carlo, weighed by ``exp(scale * reward)``; the particle of the best reward is the result. See
    :func:`samplers.smc.loop.smc`; its weights, and so fair samples, are those of :func:`guided.sample`.

    Attributes:
        reward: a value of prefixes guides on the way, a function of finished texts weighs them at the end.
        n: particles.
        scale: of the reward, as a log-potential.
    """

    function: ClassVar[str] = "samplers.smc.loop:smc"
    scores: ClassVar[tuple[str, ...]] = ("reward",)
    ranked: ClassVar[str] = "reward"
    own: ClassVar[tuple[str, ...]] = ("reward", "scale")

    reward: Any
    n: int = 8
    scale: float = 1.0
    proposal: str = "masked"
    resampling: str = "systematic"
    ess_threshold: float = 0.5
    block: int | str | Callable[..., bool] = "token"

    def arguments(self, setting: Setting) -> dict[str, Any]:
        from samplers.scores.target import ScorePotential

        given = super().arguments(setting)
        reward, scale, target = given.pop("reward"), given.pop("scale"), setting.target
        return given | {"potential": ScorePotential(reward, target.prompt, target.ends, scale)}
