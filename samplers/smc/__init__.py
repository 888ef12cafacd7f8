"""Sequential Monte Carlo: particles that are weighed and resampled while they are written, so that what comes out follows the *model given
the language* (and a reward), not the model masked token by token.

Reading order: :mod:`.potentials` (what a text is worth), :mod:`.proposals` (how a token is drawn, and its weight), :mod:`.boundaries`
(where particles are weighed), :mod:`.particles` (texts that grow), :mod:`.resampling`, :mod:`.loop` (the sampler), :mod:`.lookahead`
(twisted targets), :mod:`.rejuvenation` (moves).
"""

from __future__ import annotations

from .boundaries import Block, Boundary, boundary
from .lookahead import Rollouts
from .loop import log_z_variance, smc
from .potentials import AtEnd, InLanguage, Potential, Prefix, Product, Reward, Scaled, SequencePower, Twisted
from .proposals import Masked, Move, Proposal
from .resampling import Scheme, resample

__all__ = [
    "AtEnd",
    "Block",
    "Boundary",
    "InLanguage",
    "Masked",
    "Move",
    "Potential",
    "Prefix",
    "Product",
    "Proposal",
    "Reward",
    "Rollouts",
    "Scaled",
    "Scheme",
    "SequencePower",
    "Twisted",
    "boundary",
    "log_z_variance",
    "resample",
    "smc",
]
