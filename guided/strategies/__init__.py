"""Search strategies as values, for ``guided.generate(..., search=...)`` and for ``generate`` of Hugging Face::

    from guided.strategies import Beam, BestOfN

    guided.generate(model, "Write a headline.", schema, search=Beam(beams=4))
    network.generate(**inputs, custom_generate=Beam(beams=4), max_new_tokens=40)

A strategy names a function of :mod:`samplers.search` (or a block-wise guide of :mod:`samplers.guides`) and holds its arguments, which are
documented there; this module only checks them, and turns what users have (functions of a text, words) into what samplers take.

What scores texts may be: a function of the generated text; :class:`OfValue`, a function of what the text becomes (the parsed object, an
instance of the type); a mapping of words to weights; or any score of :mod:`samplers.scores`.

Reading order: :mod:`.base` (where a strategy runs, and how it is called), :mod:`.beams`, :mod:`.whole` (whole texts, votes, exact
searches), :mod:`.steps` (steps, trees), :mod:`.guides` (token and block guidance, particles).
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from .base import OfValue, Setting, Strategy, score_of
from .beams import Beam, BestFirstBeam, DiverseBeam, DynamicBeamAllocation, GridBeam, NeuroLogic, UidBeam
from .guides import Args, Blockwise, Controlled, Grace, Guide, Rad, Smc
from .steps import AStarSteps, Mcts, Phi, Rebase, WeakToStrong
from .whole import AdaptiveConsistency, AStar, BestOfN, BranchAndBound, Cot, Mbr, SelfConsistency, SpeculativeRejection

__all__ = [
    "STRATEGIES",
    "AStar",
    "AStarSteps",
    "AdaptiveConsistency",
    "Args",
    "Beam",
    "BestFirstBeam",
    "BestOfN",
    "Blockwise",
    "BranchAndBound",
    "Controlled",
    "Cot",
    "DiverseBeam",
    "DynamicBeamAllocation",
    "Grace",
    "GridBeam",
    "Guide",
    "Mbr",
    "Mcts",
    "NeuroLogic",
    "OfValue",
    "Phi",
    "Rad",
    "Rebase",
    "SelfConsistency",
    "Setting",
    "Smc",
    "SpeculativeRejection",
    "Strategy",
    "UidBeam",
    "WeakToStrong",
    "score_of",
    "strategy",
]

STRATEGIES: dict[str, type[Strategy]] = {
    "beam": Beam,
    "best-first-beam": BestFirstBeam,
    "diverse-beam": DiverseBeam,
    "uid-beam": UidBeam,
    "grid-beam": GridBeam,
    "dynamic-beam-allocation": DynamicBeamAllocation,
    "neurologic": NeuroLogic,
    "args": Args,
    "rad": Rad,
    "controlled": Controlled,
    "blockwise": Blockwise,
    "grace": Grace,
    "smc": Smc,
    "best-of-n": BestOfN,
    "speculative-rejection": SpeculativeRejection,
    "mbr": Mbr,
    "self-consistency": SelfConsistency,
    "adaptive-consistency": AdaptiveConsistency,
    "cot": Cot,
    "a-star-steps": AStarSteps,
    "rebase": Rebase,
    "phi": Phi,
    "weak-to-strong": WeakToStrong,
    "mcts": Mcts,
    "a-star": AStar,
    "branch-and-bound": BranchAndBound,
}
"""The strategies by the names that the command line knows."""


def strategy(name: str, options: dict[str, Any]) -> Strategy:
    """The strategy of a name in :data:`STRATEGIES`, with some of its fields.

    Raises:
        ValueError: an unknown name or field, a field that is missing, or a value that it does not take.
    """
    if name not in STRATEGIES:
        raise ValueError(f"there is no strategy {name!r}; there are {', '.join(STRATEGIES)}")
    kind = STRATEGIES[name]
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise ValueError(f"the strategy {name!r} has no field {option!r}; it has {', '.join(known)}")
    for each in known.values():
        if each.name not in options and each.default is MISSING and each.default_factory is MISSING:
            what = "a reward" if each.name in kind.scores else each.name
            raise ValueError(f"the strategy {name!r} needs {what}")
    return kind(**options)
