"""Potentials: what a text is worth, at its end and on the way to it.

A potential gives every prefix a non-negative value ``Phi``.  SMC samples ``p(x) Phi(x) / Z`` over finished texts ``x`` (``p``: the model in
its language), and passes through the intermediate targets ``p(x_1..t) Phi(x_1..t)``.  Weights are multiplied by
``Phi(x_1..t) / Phi(x_1..s)`` from one prefix to the next, so the values on prefixes cancel: they decide how well particles are steered,
never what is sampled (Lew et al. 2023, arXiv:2306.03081; Loula et al. 2025, arXiv:2504.13139).

One condition makes that true: where a finished text has a value above zero, all its prefixes must have one too.

Potentials multiply: ``Reward(target) * InLanguage(automaton) * AtEnd(critic) ** 0.5``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grammars.automaton import Automaton

    from ..target import Target

__all__ = ["AtEnd", "InLanguage", "Potential", "Prefix", "Product", "Reward", "Scaled", "SequencePower", "Twisted", "evaluate"]

_KEPT = 100_000  # states that InLanguage remembers


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a potential is asked about.

    Attributes:
        tokens: generated token ids, without the prompt; with the end-of-sequence token where ``finished``.
        finished: whether it is a text.
        log_prob: natural log-probability of ``tokens`` under the model at the target's temperature.
    """

    tokens: tuple[int, ...]
    finished: bool
    log_prob: float


class Potential(ABC):
    """A non-negative function of prefixes; a function indeed: the same prefix, the same value."""

    @abstractmethod
    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """Natural logarithm of the value of each prefix, ``-inf`` for zero; many at once, so that a critic can batch."""

    def __mul__(self, other: Potential) -> Product:
        return Product(self, other)

    def __pow__(self, exponent: float) -> Scaled:
        return Scaled(self, exponent)


class Product(Potential):
    """The product of potentials. Each is asked only about prefixes to which those before it gave more than zero: put cheap ones first."""

    def __init__(self, *factors: Potential) -> None:
        self.factors: tuple[Potential, ...] = sum((f.factors if isinstance(f, Product) else (f,) for f in factors), ())

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        totals = [0.0] * len(prefixes)
        alive = list(range(len(prefixes)))
        for factor in self.factors:
            for i, value in zip(alive, factor.log_values([prefixes[i] for i in alive]) if alive else ()):
                totals[i] += value
            alive = [i for i in alive if totals[i] > -math.inf]
        return totals


class Scaled(Potential):
    """A potential to a power: ``exponent`` below 1 weakens it, above 1 sharpens it.

    Raises:
        ValueError: ``exponent`` is not a positive finite number.
    """

    def __init__(self, potential: Potential, exponent: float) -> None:
        if not 0 < exponent < math.inf:
            raise ValueError(f"the exponent of a potential must be a positive finite number, not {exponent}")
        self.potential, self.exponent = potential, exponent

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        return [self.exponent * value for value in self.potential.log_values(prefixes)]


class Reward(Potential):
    """The reward of a target: ``exp(reward(tokens, finished))``, 1 where the target has none."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        return [self.target.potential(prefix.tokens, prefix.finished) for prefix in prefixes]


class AtEnd(Potential):
    """A critic of finished texts; 1 on the way there.

    Args:
        critic: from the token ids of a text (end of sequence included) to the natural logarithm of its value.
    """

    def __init__(self, critic: Callable[[tuple[int, ...]], float]) -> None:
        self.critic = critic

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        return [float(self.critic(prefix.tokens)) if prefix.finished else 0.0 for prefix in prefixes]


class InLanguage(Potential):
    """A further constraint: 1 while a text of the automaton's language can still come of the prefix, else 0.

    The constraint of a target is enforced by the proposal, token by token; this one only weighs what was proposed, which is how several
    constraints are intersected without building their product.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self._states: OrderedDict[tuple[int, ...], int] = OrderedDict()

    def _state(self, tokens: tuple[int, ...]) -> int:
        known = len(tokens)
        while known and tokens[:known] not in self._states:
            known -= 1
        state = self._states[tokens[:known]] if known else self.automaton.start
        for end in range(known + 1, len(tokens) + 1):
            state = self._states[tokens[:end]] = self.automaton.advance(state, tokens[end - 1])
        while len(self._states) > _KEPT:
            self._states.popitem(last=False)
        return state

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        values = []
        for prefix in prefixes:
            state = self._state(prefix.tokens)
            good = state == self.automaton.DONE if prefix.finished else state != self.automaton.DEAD
            values.append(0.0 if good else -math.inf)
        return values


class SequencePower(Potential):
    """The model's own probability to a power: with it the target is ``p(x)^exponent`` instead of ``p(x)``.

    Not what a temperature does: that is applied to every token's distribution, this to whole texts.

    Raises:
        ValueError: ``exponent`` is not a positive finite number.
    """

    def __init__(self, exponent: float) -> None:
        if not 0 < exponent < math.inf:
            raise ValueError(f"the exponent must be a positive finite number, not {exponent}")
        self.exponent = exponent

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        return [(self.exponent - 1) * prefix.log_prob for prefix in prefixes]


class Twisted(Potential):
    """Other intermediate targets for the same final one: ``final`` on finished texts, ``twist`` on the way.

    The ideal twist is the expected value of ``final`` over what the model may still write: then every intermediate target is the exact
    marginal of the final one. A learnt value function, or :class:`~samplers.smc.lookahead.Rollouts`, estimates it.
    """

    def __init__(self, final: Potential, twist: Potential) -> None:
        self.final, self.twist = final, twist

    def log_values(self, prefixes: Sequence[Prefix]) -> list[float]:
        """See :meth:`Potential.log_values`."""
        values = [0.0] * len(prefixes)
        for potential, finished in ((self.final, True), (self.twist, False)):
            rows = [i for i, prefix in enumerate(prefixes) if prefix.finished == finished]
            for i, value in zip(rows, potential.log_values([prefixes[i] for i in rows]) if rows else ()):
                values[i] = value
        return values


def evaluate(potential: Potential, prefixes: Sequence[Prefix]) -> list[float]:
    """:meth:`Potential.log_values`, asked once about every different prefix, and checked.

    Raises:
        ValueError: a value is not a number or infinite, or there are too many or too few.
    """
    places: dict[Prefix, int] = {}
    rows = [places.setdefault(prefix, len(places)) for prefix in prefixes]
    values = [float(value) for value in potential.log_values(list(places))] if places else []
    if len(values) != len(places):
        raise ValueError(f"the potential {type(potential).__name__} gave {len(values)} values for {len(places)} prefixes")
    for prefix, value in zip(places, values):
        if math.isnan(value) or value == math.inf:
            raise ValueError(f"the potential of {prefix.tokens[-8:]} (last tokens) is {value}; it must be a finite number or -inf")
    return [values[row] for row in rows]
