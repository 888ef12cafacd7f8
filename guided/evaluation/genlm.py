"""genlm-control's samplers (SMC, AWRS; Loula et al. 2025, arXiv:2504.13139, Lipkin et al. 2025, arXiv:2504.05410) as contenders.

They get the same model, constraint, reward, checker and bound as this library's: a :class:`~samplers.target.Target` becomes their
*potentials*. Masks are this library's too, so that what is compared is the sampling. The package is optional: without it importing this
module raises ``ImportError``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from genlm.control import AWRS, EOS, Potential
from genlm.control.sampler.token import DirectTokenSampler

from samplers.target import Sample, Samples, Target, effective_size, log_mean, relative_error

if TYPE_CHECKING:
    from samplers.models import Context

__all__ = ["Language", "Model", "Rewards", "awrs", "awrs_smc", "own_model", "run", "smc"]

Ids = Sequence[Any]


class _OfTarget(Potential):
    """A potential over a target's tokens without its ends, which are one end of sequence for them.

    Args:
        target: what is sampled.
        tokens: their tokens, with an attribute ``token_id``; ``None``: the ids themselves are the tokens.
    """

    def __init__(self, target: Target, tokens: Sequence[Any] | None = None) -> None:
        self.target = target
        self.end = min(target.ends)
        ids = [t for t in range(target.model.width) if t not in target.ends]
        known = ids if tokens is None else list(tokens)
        self._order = torch.tensor([*map(id_of, known), self.end])
        super().__init__(known)


def id_of(token: Any) -> int:
    """The id of one of their tokens."""
    return token.token_id if hasattr(token, "token_id") else int(token)


class Model(_OfTarget):
    """The model after the prompt, at the target's temperature."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._contexts: dict[tuple[int, ...], Context] = {(): target.root}

    def _context(self, tokens: Sequence[int]) -> Context:
        key = tuple(tokens)
        found = self._contexts.get(key)
        if found is None:
            found = self._contexts[key] = self._context(key[:-1]).extend(key[-1])
        return found

    async def prefix(self, context: Ids) -> float:
        """Log-probability of the tokens."""
        return sum(self.target.logprobs([self._context(context[:i])])[0, t].item() for i, t in enumerate(context))

    async def complete(self, context: Ids) -> float:
        """Log-probability of the tokens and the end after them."""
        return await self.prefix(context) + self.target.logprobs([self._context(context)])[0, self.end].item()

    async def logw_next(self, context: Ids) -> Any:
        """Log-probabilities of the next token."""
        return self.make_lazy_weights(self.target.logprobs([self._context(context)])[0, self._order])

    async def batch_logw_next(self, contexts: Sequence[Ids]) -> Any:
        """The same for several contexts, in one forward; equal ones are evaluated once."""
        keys = [tuple(c) for c in contexts]
        places = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        rows = self.target.logprobs([self._context(key) for key in places])[:, self._order]
        return self.make_lazy_weights(rows[[places[key] for key in keys]])


class Language(_OfTarget):
    """The constraint (automaton, checker and bound) as 0 and ``-inf``."""

    def __init__(self, target: Target, tokens: Sequence[Any] | None = None) -> None:
        super().__init__(target, tokens)
        self._states: dict[tuple[int, ...], int] = {(): target.start}

    def _state(self, tokens: tuple[int, ...]) -> int:
        """The automaton's state after ``tokens``; 0 where they are not allowed."""
        found = self._states.get(tokens)
        if found is None:
            before = self._state(tokens[:-1])
            good = before != 0 and self.target.allows(before, tokens[:-1], tokens[-1])
            found = self._states[tokens] = self.target.advance(before, tokens[-1]) if good else 0
        return found

    async def prefix(self, context: Ids) -> float:
        """0 where the tokens are allowed."""
        return 0.0 if self._state(tuple(map(id_of, context))) != 0 else -math.inf

    async def complete(self, context: Ids) -> float:
        """0 where the text may end after them."""
        return 0.0 if self._state((*map(id_of, context), self.end)) != 0 else -math.inf

    async def logw_next(self, context: Ids) -> Any:
        """The mask."""
        key = tuple(map(id_of, context))
        allowed = self.target.allowed(self._state(key), key)[self._order]
        return self.make_lazy_weights(torch.zeros(len(allowed), dtype=torch.float64).masked_fill(~allowed, -math.inf))


class Rewards(_OfTarget):
    """The target's reward."""

    async def prefix(self, context: Ids) -> float:
        """Log-potential of a prefix."""
        return self.target.potential(tuple(context), False)

    async def complete(self, context: Ids) -> float:
        """Log-potential of a finished text."""
        return self.target.potential((*context, self.end), True)


def smc(target: Target, n: int, *, seed: int) -> Samples:
    """Their SMC with fully masked proposals; systematic resampling below half of the particles."""
    return run(target, DirectTokenSampler(Model(target) * Language(target)), n, seed, 0.5, "genlm-control SMC")


def awrs(target: Target, n: int, *, seed: int) -> Samples:
    """Their AWRS, without resampling."""
    return run(target, AWRS(Model(target), Language(target), seed=seed), n, seed, 0.0, "genlm-control AWRS")


def awrs_smc(target: Target, n: int, *, seed: int) -> Samples:
    """Their SMC with AWRS as the proposal."""
    return run(target, AWRS(Model(target), Language(target), seed=seed), n, seed, 0.5, "genlm-control AWRS-SMC")


def own_model(hf_model: Any, tokenizer: Any, target: Target, batch: int) -> Any:
    """The target's model run by their own Hugging Face backend, ``batch`` queries at a time, as a potential; its caches are empty."""
    from genlm.backend.llm import AsyncTransformer
    from genlm.control.potential.built_in.llm import PromptedLLM

    backend = AsyncTransformer(hf_model, tokenizer, batch_size=batch)
    ends = [backend.byte_vocab[t].byte_string for t in sorted(target.ends)]
    return PromptedLLM(backend, prompt_ids=list(target.prompt), eos_byte_strings=ends, temperature=target.temperature)


def run(target: Target, sampler: Any, n: int, seed: int, threshold: float, name: str) -> Samples:
    """Their SMC loop with the token sampler ``sampler``, resampling below ``threshold * n`` effective particles."""
    # their randomness is that of the global generators: seeded here, and put back afterwards
    critic = None if target.reward is None else Rewards(target)
    state = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        np.random.seed(seed % 2**32)  # noqa: NPY002
        torch.manual_seed(seed)
        options = {"ess_threshold": threshold, "max_tokens": target.max_tokens, "resampling_method": "systematic"}
        found = asyncio.run(sampler.smc(n_particles=n, critic=critic, **options))
    np.random.set_state(state)  # noqa: NPY002
    return samples_of(found, min(target.ends), name)


def samples_of(found: Any, end: int, name: str) -> Samples:
    """Their sequences as :class:`~samplers.target.Samples`."""
    samples = []
    for context, weight in found:
        finished = bool(context) and context[-1] is EOS
        tokens = tuple(end if t is EOS else id_of(t) for t in context)
        samples.append(Sample(tokens, float(weight) if finished else -math.inf, math.nan, finished))
    logs = [s.log_weight for s in samples]
    return Samples(samples, log_mean(logs), relative_error(logs), [effective_size(logs)], 0, None, name)
