"""Guidance: each step's distribution is reshaped by a score of where its tokens lead, or by other models.

A guide is a warper (:mod:`samplers.warpers`): it stands in a pipeline, in ``guided.generate(..., guide=...)``, and in the
``logits_processor`` of Hugging Face's ``generate``; :func:`guided_decode` runs it over a :class:`~samplers.target.Target` and keeps a
record of every token. The constraint's mask comes first, so no score is ever asked about a token that cannot come.

Reading order: :mod:`.guide` (what they share), :mod:`.decode` (the loop). By a value of prefixes (:mod:`samplers.scores`): :mod:`.tilt`
(the common law), then :mod:`.args`, :mod:`.rad`, :mod:`.arm`, :mod:`.controlled`, :mod:`.fudge`, :mod:`.nado`. By other models:
:mod:`.log_linear` (products of experts: DExperts, GenARM, weak-to-strong, Plugin), :mod:`.gedi`. Whole blocks: :mod:`.blocks`
(what they share), :mod:`.blockwise`, :mod:`.grace`.
"""

from .args import ARGS
from .arm import AutoregressiveReward, NextTokenReward
from .blocks import Block, Blocks
from .blockwise import blockwise
from .controlled import ControlledDecoding
from .decode import Guided, TokenRecord, guided_decode
from .fudge import Fudge
from .gedi import GeDi
from .grace import grace
from .guide import Guide, with_guide
from .log_linear import DExperts, GenARM, LogLinear, Plugin, WeakToStrong
from .nado import Nado
from .rad import RAD
from .tilt import Tilt

__all__ = [
    "ARGS",
    "RAD",
    "AutoregressiveReward",
    "Block",
    "Blocks",
    "ControlledDecoding",
    "DExperts",
    "Fudge",
    "GeDi",
    "GenARM",
    "Guide",
    "Guided",
    "LogLinear",
    "Nado",
    "NextTokenReward",
    "Plugin",
    "Tilt",
    "TokenRecord",
    "WeakToStrong",
    "blockwise",
    "grace",
    "guided_decode",
    "with_guide",
]
