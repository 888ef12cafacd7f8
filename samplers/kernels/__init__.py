"""Compiled functions over logits and packed masks, one module a device; :mod:`samplers.device` chooses between them.

:mod:`.cpu` (numba), :mod:`.cuda` (Triton; imported only where there is a CUDA device). Arrays in, arrays out: nothing here knows a
grammar, a model or a request.
"""

__all__: list[str] = []
