"""Drafters, trees and verifiers: several tokens for one pass of the model, with the output's law unchanged.

A method is a choice of *drafter* (what proposes tokens), *tree shape*, *stop policy* and *verifier*; every proposal carries its grammar
state (:mod:`grammars`), so drafts never leave the language and nothing is rolled back.

Reading order: :mod:`.rules` (places of a text, and what may follow), :mod:`.tree` (what was proposed, and how it was drawn),
:mod:`.protocol` (the four axes), :mod:`.shaping` (the target's law), :mod:`.verifiers`, :mod:`.drafters`, :mod:`.shapes`, :mod:`.stops`,
:mod:`.pace` (how much to draft), :mod:`.decode` (the loop).
"""

from .decode import Round, RowRound, decode
from .protocol import Drafter, Outcome, Shape, StepInfo, Stop, Verdict, Verifier
from .rules import Place, Rules
from .tree import DraftTree

__all__ = [
    "DraftTree",
    "Drafter",
    "Outcome",
    "Place",
    "Round",
    "RowRound",
    "Rules",
    "Shape",
    "StepInfo",
    "Stop",
    "Verdict",
    "Verifier",
    "decode",
]
