"""The table of methods: what works, whose idea it is, and **which distribution its output follows**.

A method registers itself where it is written::

    @method("local masking", law="exact", target="...", cost="...", paper="...")
    def decode(...): ...

``guided methods`` prints the table. A name that is in the project's list of systems is spelt as there, and a method is in the
table only when it works. What a law claims is tested in ``tests/laws``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Literal, TypeVar, get_args

__all__ = ["Law", "Method", "method", "methods"]

Law = Literal["exact", "exact in the limit", "argmax", "bounded", "lossy"]
T = TypeVar("T", bound=Callable[..., object])

_METHODS: dict[str, Method] = {}
_WARPERS = (
    "bregman",
    "cautious",
    "contrastive_decoding",
    "contrastive_search",
    "cutoff",
    "frustratingly_simple",
    "guidance",
    "look_back",
    "min_p",
    "mirostat",
    "momentum",
    "no_repeat",
    "penalties",
    "penalty_decoding",
    "simplex",
    "top_n_sigma",
    "typical",
)
_SEARCHES: tuple[str, ...] = (
    "astar_steps",
    "beam",
    "best_first_beam",
    "best_of_n",
    "cot",
    "diverse_beam",
    "dynamic_beam_allocation",
    "exact",
    "grid_beam",
    "mbr",
    "mcts",
    "neurologic",
    "phi",
    "rebase",
    "self_consistency",
    "uid_beam",
    "weak_to_strong",
)
_GUIDES = (
    "args",
    "arm",
    "blockwise",
    "controlled",
    "fudge",
    "gedi",
    "grace",
    "log_linear",
    "nado",
    "rad",
)
_DRAFTERS = (
    "drafters.copying",
    "drafters.forced",
    "drafters.jacobi",
    "drafters.lookahead",
    "drafters.ngrams",
    "drafters.other_vocabulary",
    "drafters.recycling",
    "drafters.sam",
    "drafters.self_drafting",
    "drafters.staged",
    "pace",
    "shapes",
    "stops",
    "verifiers",
    "weighted",
)
_MODULES = (
    "samplers.sampling",
    "samplers.budget",
    "samplers.masked",
    "samplers.smc.loop",
    "samplers.importance",
    "samplers.rejection",
    "samplers.cars",
    "samplers.asap",
    "samplers.awrs",
    "samplers.mcmc",
    "samplers.daemon",
    "samplers.without_replacement",
    "samplers.options",
    *(f"samplers.warpers.{name}" for name in _WARPERS),
    *(f"samplers.guides.{name}" for name in _GUIDES),
    *(f"samplers.search.{name}" for name in _SEARCHES),
    *(f"speculative.{name}" for name in _DRAFTERS),
)


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table.

    Attributes:
        name: what it is called.
        package: the import package it lives in.
        law: ``exact`` (the output follows ``target``), ``exact in the limit`` (of samples or particles), ``argmax`` (of ``target``),
            ``bounded`` (``target`` says the bound) or ``lossy``.
        target: the law in one sentence.
        cost: what it costs over plain sampling.
        paper: whose idea it is; empty where there is no paper to name.
        use: where it is called, as a dotted name with the arguments that switch it on.
    """

    name: str
    package: str
    law: Law
    target: str
    cost: str
    paper: str
    use: str

    def as_dict(self) -> dict[str, str]:
        """The row as plain data."""
        return asdict(self)


def method(name: str, *, law: Law, target: str, cost: str, paper: str = "", use: str | None = None) -> Callable[[T], T]:
    """Registers what it decorates; a function may carry several methods.

    Raises:
        ValueError: the name is taken or the law is none of :data:`Law`.
    """

    def register(function: T) -> T:
        if name in _METHODS:
            raise ValueError(f"a method named {name!r} is registered already")
        if law not in get_args(Law):
            raise ValueError(f"law must be one of {get_args(Law)}, not {law!r}")
        where = f"{function.__module__}.{getattr(function, '__qualname__', name)}"
        _METHODS[name] = Method(name, where.split(".")[0], law, target, cost, paper, use or where)
        return function

    return register


def methods() -> list[Method]:
    """Every method there is, sorted by package and name."""
    for module in _MODULES:
        import_module(module)
    return sorted(_METHODS.values(), key=lambda m: (m.package, m.name))
