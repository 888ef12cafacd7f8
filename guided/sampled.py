"""What :func:`guided.sample` gives back: weighted texts, and how good they are as samples."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group

    from samplers.target import Samples

__all__ = ["Sampled", "WeightedText"]

_SHOWN = 20  # texts of a printed result


@dataclass(frozen=True)
class WeightedText:
    """One text and its weight.

    Attributes:
        text: without end tokens.
        weight: its share, so that the weights of a result sum to 1. 0 for what could not be finished.
        log_weight: natural logarithm of the weight as the method gives it, not normalised; see :func:`guided.sample`.
        log_prob: natural log-probability of the tokens under the model, at the temperature asked for, nothing masked.
        tokens: token ids, the end token included where ``finished``.
        finished: whether it is a whole text of the language.
    """

    text: str
    weight: float
    log_weight: float
    log_prob: float
    tokens: list[int] = field(repr=False)
    finished: bool = field(repr=False)
    _parse: Callable[[str], Any] = field(repr=False, compare=False)

    @cached_property
    def value(self) -> Any:
        """What the constraint makes of the text (see :mod:`guided.inputs`); ``None`` where it is not finished.

        Raises:
            pydantic.ValidationError: the type has validators of its own beyond its schema, and they refuse the value.
        """
        return self._parse(self.text) if self.finished else None


@dataclass(frozen=True)
class Sampled:
    """Weighted texts. ``print`` shows them with their statistics, ``rich`` as a table; :meth:`as_dict` is plain data.

    Attributes:
        texts: one for each particle, in no order; equal texts may come several times (:meth:`distribution` puts them together).
        method: as it was asked for.
        log_z: estimate of the logarithm of ``Z``: of the probability that the model, left alone, writes a text of the language (times the
            mean of ``exp(reward)`` over those that it writes).
        log_z_error: standard error of ``log_z``; ``nan`` where it cannot be told.
        ess: effective number of samples after each step (or block); one entry for methods without steps.
        forwards: different contexts whose next token the model was asked for.
        kl: estimated divergence in nats of the law of a text drawn by weight from the target: 0 for exact methods, ``None`` if not known.
        prompt_tokens: length of the prompt.
        seed: with the same model, prompt and settings it gives the same result.
        seconds: the call took.
        samples: the result as the sampler gave it, with its ``details``.
        listed: the method's name in the table of methods.
    """

    texts: list[WeightedText]
    method: str
    log_z: float
    log_z_error: float
    ess: list[float]
    forwards: int
    kl: float | None
    prompt_tokens: int
    seed: int
    seconds: float
    samples: Samples = field(repr=False)
    listed: str = field(repr=False)

    @property
    def law(self) -> str:
        """Which distribution the weighted texts follow, as the table of methods says it."""
        from samplers.registry import methods

        return next((f"{m.law}: {m.target}" for m in methods() if m.name == self.listed), "")

    @property
    def details(self) -> dict[str, float]:
        """Further numbers of the method."""
        return self.samples.details

    def distribution(self) -> dict[str, float]:
        """The weight of every different text, heaviest first."""
        found: dict[str, float] = {}
        for item in self.texts:
            if item.weight > 0:
                found[item.text] = found.get(item.text, 0.0) + item.weight
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))

    def expectation(self, f: Callable[[WeightedText], float]) -> float:
        """Weighted mean of ``f``: the estimate of its expectation under the target. ``f`` is not asked about texts without weight."""
        return math.fsum(item.weight * f(item) for item in self.texts if item.weight > 0)

    def draw(self, n: int = 1, seed: int | None = None) -> list[WeightedText]:
        """``n`` of the texts, drawn by weight with replacement: unweighted samples, as good as ``kl`` says.

        Args:
            n: how many.
            seed: of the draw; ``None`` takes that of the result, so that the same result always gives the same texts.
        """
        import torch

        generator = torch.Generator().manual_seed(self.seed if seed is None else seed)
        weights = torch.tensor([item.weight for item in self.texts], dtype=torch.float64)
        return [self.texts[i] for i in torch.multinomial(weights, n, replacement=True, generator=generator).tolist()]

    def as_dict(self) -> dict[str, Any]:
        """Plain data: numbers that are not finite are ``None``."""
        return {
            "method": self.method,
            "law": self.law,
            "log_z": _finite(self.log_z),
            "log_z_error": _finite(self.log_z_error),
            "kl": _finite(self.kl),
            "ess": self.ess,
            "forwards": self.forwards,
            "prompt_tokens": self.prompt_tokens,
            "seed": self.seed,
            "seconds": self.seconds,
            "details": {name: _finite(value) for name, value in self.details.items()},
            "texts": [
                {
                    "text": item.text,
                    "weight": item.weight,
                    "log_weight": _finite(item.log_weight),
                    "log_prob": _finite(item.log_prob),
                    "finished": item.finished,
                    "tokens": item.tokens,
                }
                for item in self.texts
            ],
        }

    def to_json(self, indent: int | None = None) -> str:
        """:meth:`as_dict` as JSON text."""
        return json.dumps(self.as_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def summary(self) -> str:
        """The statistics, on one line."""
        error = f" ± {self.log_z_error:.2f}" if math.isfinite(self.log_z_error) else ""
        kl = "not known" if self.kl is None else f"{self.kl:.3g} nats"
        effective = 1 / math.fsum(item.weight**2 for item in self.texts)
        return (
            f"{self.method}: log Z {self.log_z:.2f}{error}, effective {effective:.1f} of {len(self.texts)}, KL from the target {kl}, "
            f"{self.forwards} forwards, {self.seconds:.1f} s, seed {self.seed}"
        )

    def __str__(self) -> str:
        rows = list(self.distribution().items())
        lines = [f"{weight:8.4f}  {text!r}" for text, weight in rows[:_SHOWN]]
        more = [f"          and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
        return "\n".join([*lines, *more, self.summary()])

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table("weight", "log p", "text")
        log_probs = {item.text: item.log_prob for item in self.texts}
        rows = list(self.distribution().items())
        for text, weight in rows[:_SHOWN]:
            table.add_row(f"{weight:.4f}", f"{log_probs[text]:.2f}", Text(text))
        if len(rows) > _SHOWN:
            table.add_row("", "", Text(f"and {len(rows) - _SHOWN} more", style="dim"))
        return Group(table, Text(self.summary()))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
