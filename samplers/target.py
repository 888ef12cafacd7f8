"""What is to be sampled, and what a sampler returns.

A :class:`Target` names a distribution over texts: the model's, restricted to a language, times the exponential of a reward.  Every
sampler of this package is a function ``sampler(target, n, *, seed, ...) -> Samples`` and says in the table of methods how the texts in
its :class:`Samples` relate to that distribution.

A *text* is a tuple of generated token ids that ends with an end-of-sequence token, has at most ``max_tokens`` tokens (that one
included) and does not contain the prompt.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from grammars.errors import ConstraintError, DeadEnd

if TYPE_CHECKING:
    from grammars.automaton import Automaton

    from .models.protocol import Context, LanguageModel

__all__ = [
    "Check",
    "Meter",
    "Reward",
    "Sample",
    "Samples",
    "Target",
    "effective_size",
    "log_mean",
    "pick",
    "relative_error",
    "require_positive",
    "streams",
]

Check = Callable[[tuple[int, ...], int], bool]
Reward = Callable[[tuple[int, ...], bool], float]
_FREE = 2  # the one state of a text without an automaton that has not ended; DEAD and DONE are those of Automaton


@dataclass(frozen=True)
class Target:
    """The distribution to sample: ``pi(x) = p(x) 1[x in L] exp(reward(x, True)) / Z``.

    ``p(x)`` is the product of the model's next-token probabilities at ``temperature``, after the prompt; the language ``L`` holds the
    texts (see this module's docstring) whose every token the automaton and ``check`` allow; ``Z`` makes the sum 1, and ``log Z`` is
    what samplers estimate (without a reward it is the log-probability that the model writes a text of the language).

    Attributes:
        model: see :mod:`samplers.models`.
        prompt: token ids that come before the text.
        automaton: the constraint; ``None`` allows every token.
        max_tokens: length of the longest text, its end-of-sequence token included.
        temperature: the model's log-probabilities are divided by it and normalised again.
        reward: log-potential of a prefix, ``reward(tokens, finished)``; ``-inf`` forbids.  Only its values on finished texts are part
            of the target.  Those on unfinished prefixes are guidance for samplers that work with intermediate targets
            ``p(x_1..t) exp(reward(x_1..t, False))``: from one prefix to the next the weight is multiplied by the exponential of the
            difference, so that the differences telescope to ``reward(x, True)``, the empty prefix counting as 0.
        check: a constraint beyond automata, ``check(prefix, token)``: whether ``token`` may follow the generated tokens ``prefix``
            (it is asked about end-of-sequence tokens as well, and only about tokens that the automaton allows).  It may be slow:
            samplers that look at single tokens ask it about few of them.

    Raises:
        ValueError: ``max_tokens`` below 1, or a temperature that is not a positive finite number.
        ConstraintError: no token ends a text.
    """

    model: LanguageModel
    prompt: tuple[int, ...]
    automaton: Automaton | None = None
    max_tokens: int = 64
    temperature: float = 1.0
    reward: Reward | None = None
    check: Check | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", tuple(self.prompt))
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {self.max_tokens}")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature must be a positive finite number, not {self.temperature}")
        if not self.ends:
            raise ConstraintError("no text can end: give the model (or the constraint's vocabulary) its end-of-sequence token ids")

    # ------------------------------------------------------------ states
    @cached_property
    def ends(self) -> frozenset[int]:
        """Token ids that end a text: the vocabulary's of the automaton, without one the model's."""
        return frozenset(self.model.eos_token_ids if self.automaton is None else self.automaton.vocabulary.eos_token_ids)

    @property
    def start(self) -> int:
        """The automaton's state of the empty text."""
        return _FREE if self.automaton is None else self.automaton.start

    @property
    def root(self) -> Context:
        """The model's context of the empty text: the prompt."""
        return self.model.context(self.prompt)

    def advance(self, state: int, token: int) -> int:
        """The automaton's state after ``token``; 0 (``Automaton.DEAD``) where it is not allowed, 1 (``DONE``) after the end.

        ``check`` has no part in it, nor has ``max_tokens``: see :meth:`allows`.
        """
        if self.automaton is None:
            return 1 if token in self.ends else state
        return self.automaton.advance(state, token)

    def allows(self, state: int, prefix: tuple[int, ...], token: int) -> bool:
        """Whether ``token`` may come after the generated tokens ``prefix``, which lead to ``state``.

        The last of ``max_tokens`` tokens must end the text; the automaton is asked first, then ``check``.
        """
        if state in (0, 1) or len(prefix) >= self.max_tokens or (len(prefix) == self.max_tokens - 1 and token not in self.ends):
            return False
        if self.advance(state, token) == 0:
            return False
        return self.check is None or bool(self.check(prefix, token))

    def allowed(self, state: int, prefix: tuple[int, ...]) -> torch.Tensor:
        """What may come after ``prefix``: ``bool[model.width]``, the answers of :meth:`allows` for every token.

        May be all ``False``: a dead end (of ``max_tokens`` or ``check``; an automaton alone has none).  Costs a mask, and with a
        ``check`` one call of it for every token of the mask.
        """
        width = self.model.width
        if len(prefix) >= self.max_tokens or state in (0, 1):
            return torch.zeros(width, dtype=torch.bool)
        if len(prefix) == self.max_tokens - 1:
            mask = torch.zeros(width, dtype=torch.bool)
            mask[[t for t in self.ends if t < width and self.advance(state, t) != 0]] = True
        else:
            mask = self.automaton_mask(state)
        if self.check is not None:
            for token in mask.nonzero()[:, 0].tolist():
                mask[token] = bool(self.check(prefix, token))
        return mask

    def automaton_mask(self, state: int) -> torch.Tensor:
        """What the automaton alone allows in ``state``, which must not be 0 (dead): ``bool[model.width]``, the caller's to change."""
        if self.automaton is None:
            return torch.ones(self.model.width, dtype=torch.bool)
        bits = np.unpackbits(self.automaton.mask(state).view(np.uint8), bitorder="little")[: self.model.width]
        mask = torch.zeros(self.model.width, dtype=torch.bool)
        mask[: len(bits)] = torch.from_numpy(bits.astype(np.bool_))
        return mask

    def contains(self, tokens: Sequence[int]) -> bool:
        """Whether ``tokens`` is a text of the language."""
        state = self.start
        for i, token in enumerate(tokens):
            if not self.allows(state, tuple(tokens[:i]), token):
                return False
            state = self.advance(state, token)
        return state == 1

    # ------------------------------------------------------------ numbers
    def logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        """The model's next-token log-probabilities at the target's temperature: ``float64[len(contexts), width]`` on the CPU."""
        rows = self.model.next_logprobs(contexts).to("cpu", torch.float64)
        return rows if self.temperature == 1 else (rows / self.temperature).log_softmax(-1)

    def potential(self, tokens: tuple[int, ...], finished: bool) -> float:
        """``reward(tokens, finished)``, 0 without a reward and for the empty prefix.

        Raises:
            ValueError: the reward is not a number, or ``+inf``.
        """
        if self.reward is None or (not tokens and not finished):
            return 0.0
        value = float(self.reward(tokens, finished))
        if math.isnan(value) or value == math.inf:
            raise ValueError(f"the reward of {tokens[-8:]} (last tokens) is {value}; it must be a finite number or -inf")
        return value


@dataclass(frozen=True, slots=True)
class Sample:
    """One text, or the beginning of one that could not be finished.

    Attributes:
        tokens: generated token ids, the end-of-sequence token included where ``finished``.
        log_weight: natural logarithm of its importance weight; ``-inf`` for what is not in the language.  What weights mean (relative
            to each other, or absolute with ``mean(weight) = Z``) is said by the sampler.
        log_prob: natural log-probability of the tokens under the model, at the target's temperature.
        finished: whether it is a text.
    """

    tokens: tuple[int, ...]
    log_weight: float
    log_prob: float
    finished: bool


@dataclass
class Samples:
    """What a sampler returns: weighted texts and how good they are.

    Attributes:
        samples: in the order of the rows.
        log_z: estimate of ``log Z``; ``-inf`` where no text was found.
        log_z_error: standard error of ``log_z`` (delta method: the relative standard error of the estimate of ``Z``); ``nan`` where it
            cannot be told.
        ess: effective sample size ``(sum w)^2 / sum w^2`` after each step; one entry for methods without steps.
        forwards: contexts whose next-token distribution was needed; the same context twice counts once.
        kl: estimated bound of the Kullback-Leibler divergence ``KL(law of one text drawn by weight || target)`` in nats, 0 for exact
            methods, ``None`` where it is not known.  For weighted samples it is ``log Z - E[log Z^]``, to second order half the
            squared relative standard error of ``Z^``.
        method: the sampler's name in the table of methods.
        details: further numbers, named by the sampler (``removed_mass``, ``acceptance``, ``checks`` ...).
    """

    samples: list[Sample]
    log_z: float
    log_z_error: float
    ess: list[float]
    forwards: int
    kl: float | None
    method: str
    details: dict[str, float] = field(default_factory=dict)

    @property
    def weights(self) -> torch.Tensor:
        """Weights that sum to 1: ``float64[len(samples)]``.

        Raises:
            DeadEnd: no sample has a weight.
        """
        logs = torch.tensor([s.log_weight for s in self.samples], dtype=torch.float64)
        if not len(logs) or logs.max() == -math.inf:
            raise DeadEnd(
                f"{self.method}: none of the {len(self.samples)} samples is a text of the language; draw more, or allow more tokens"
            )
        return logs.softmax(0)

    def expectation(self, f: Callable[[tuple[int, ...]], float]) -> float:
        """Weighted mean of ``f(tokens)``: the estimate of its expectation under the target."""
        return self.estimate(f)[0]

    def estimate(self, f: Callable[[tuple[int, ...]], float]) -> tuple[float, float]:
        """Weighted mean of ``f(tokens)`` and its standard error (delta method; assumes independent samples)."""
        weights = self.weights
        values = torch.tensor([f(s.tokens) if s.log_weight > -math.inf else 0.0 for s in self.samples], dtype=torch.float64)
        mean = float(weights @ values)
        return mean, float((weights**2 @ (values - mean) ** 2).sqrt())

    def resample(self, n: int, seed: int) -> list[Sample]:
        """``n`` samples drawn by weight, with replacement; their own weights are 1."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.multinomial(self.weights, n, replacement=True, generator=generator).tolist()
        return [Sample(s.tokens, 0.0, s.log_prob, s.finished) for s in (self.samples[i] for i in drawn)]


class Meter:
    """The target's model for the length of one call of a sampler: batches the rows asked for and counts the contexts.

    Attributes:
        forwards: distinct contexts asked for so far.
        calls: batched calls so far.
    """

    def __init__(self, target: Target) -> None:
        self.target, self.calls = target, 0
        self._seen: set[int] = set()

    @property
    def forwards(self) -> int:
        return len(self._seen)

    def distinct(self, contexts: Sequence[Context]) -> tuple[torch.Tensor, list[int]]:
        """As :meth:`Target.logprobs`, with one row for all equal contexts, and the row of each context."""
        places: dict[Context, int] = {}
        rows = [places.setdefault(c, len(places)) for c in contexts]
        self._seen.update(map(hash, places))  # numbers, so that contexts (and what a model keeps for them) are not kept alive
        self.calls += 1
        return self.target.logprobs(list(places)), rows

    def logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        """As :meth:`Target.logprobs`; equal contexts are computed once."""
        out, rows = self.distinct(contexts)
        return out if len(out) == len(rows) else out[torch.tensor(rows)]


def require_positive(**values: int) -> None:
    """Raises a ``ValueError`` for the first of the named numbers that is below 1."""
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")


def streams(seed: int, n: int, first: int = 0) -> list[random.Random]:
    """Independent sources of randomness for rows ``first .. first + n - 1``; a row's source does not depend on how many there are."""
    return [random.Random(f"{seed}/{row}") for row in range(first, first + n)]


def pick(cumulative: NDArray[np.float64], source: random.Random) -> int:
    """A place, drawn in proportion to how much the cumulative sums (``float64[k]``, the last one above zero) grow there."""
    place = int(np.searchsorted(cumulative, source.random() * cumulative[-1], side="right"))
    # at most the last place where the sum grows: rounding must not lead to one of weight zero
    return min(place, int(np.searchsorted(cumulative, cumulative[-1])))


def log_mean(log_weights: Iterable[float]) -> float:
    """Logarithm of the mean of the weights."""
    logs = torch.tensor(list(log_weights), dtype=torch.float64)
    return float(logs.logsumexp(0)) - math.log(len(logs))


def relative_error(log_weights: Iterable[float]) -> float:
    """Relative standard error of the mean of independent weights; ``nan`` for fewer than two, or where all are zero."""
    logs = torch.tensor(list(log_weights), dtype=torch.float64)
    if len(logs) < 2 or logs.max() == -math.inf:
        return math.nan
    weights = (logs - logs.max()).exp()
    return float(weights.std() / weights.mean()) / math.sqrt(len(logs))


def effective_size(log_weights: Iterable[float]) -> float:
    """``(sum w)^2 / sum w^2``; 0 where all weights are zero."""
    logs = torch.tensor(list(log_weights), dtype=torch.float64)
    if not len(logs) or logs.max() == -math.inf:
        return 0.0
    return float((2 * logs.logsumexp(0) - (2 * logs).logsumexp(0)).exp())
