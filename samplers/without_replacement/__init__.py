"""Several texts at once that are not independent: without replacement, or spread evenly. Any constraint, one batch a step.

Reading order: :mod:`.nodes` (prefixes and local masking), :mod:`.arithmetic` (evenly spread code points), :mod:`.stochastic_beam`
(Gumbel-top-k), :mod:`.design` (conditional Poisson sampling of a set) and :mod:`.conditional_poisson` (beams drawn by it).

All are functions ``sampler(target, n, *, seed) -> Samples``, and all return weights with which estimates are those of the *target*
(the model conditioned on the language, times its reward), though the texts are drawn by local masking.
"""

from __future__ import annotations

from .arithmetic import arithmetic_sampling
from .conditional_poisson import conditional_poisson_beams
from .design import ConditionalPoisson
from .stochastic_beam import stochastic_beam_search

__all__ = ["ConditionalPoisson", "arithmetic_sampling", "conditional_poisson_beams", "stochastic_beam_search"]
