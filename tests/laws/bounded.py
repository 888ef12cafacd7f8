"""Samplers that reject want to know how large a reward can be: binds the bound of a case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.laws.cases import case

__all__ = ["bounded"]


def bounded(sampler: Callable[..., Any], name: str, **arguments: Any) -> Callable[..., Any]:
    """``sampler`` with ``arguments``, and the ``reward_bound`` of the case of that name, should it have a reward."""
    problem = case(name)
    if problem.reward is not None:
        arguments["reward_bound"] = problem.reward_bound
    return partial(sampler, **arguments)
