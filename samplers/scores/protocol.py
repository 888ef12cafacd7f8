"""What steers a search: scores of whole texts, of prefixes, of steps.

A score sees a :class:`Candidate`, a text so far. A :class:`Reward` judges whole texts, a :class:`Value` prefixes as well (and, where it
can, all next tokens of a prefix at once), a :class:`StepScorer` the step that a candidate ends with. Larger is better; the unit is the
score's own (natural logarithms where a method reads it as a log-potential). A score is a function of what it is asked about: same
candidate, same number.

Whoever asks names the tokens, and names only tokens that the constraint allows: no score ever looks at others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch

from ..models.context import Context

__all__ = ["Candidate", "Reward", "StepScorer", "Value", "ValueBase", "next_values"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text so far.

    Attributes:
        context: the tokens of the prompt and those that were generated.
        start: how many of them are the prompt.
        finished: whether the last token ends the text.
        ends: tokens that end a text, so that :meth:`child` knows; not part of what a candidate equals.
    """

    context: Context
    start: int
    finished: bool = False
    ends: frozenset[int] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, prompt: Sequence[int], tokens: Sequence[int] = (), *, ends: frozenset[int] = frozenset()) -> Candidate:
        """The candidate of a prompt and generated tokens; finished where the last of them is one of ``ends``."""
        context = Context(prompt).extend(tuple(tokens))
        return cls(context, len(prompt), bool(tokens) and tokens[-1] in ends, ends)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The generated token ids, the one that ends the text included."""
        return self.context.tokens_from(self.start)

    @property
    def prompt(self) -> tuple[int, ...]:
        """The token ids of the prompt."""
        return self.context.tokens[: self.start]

    def __len__(self) -> int:
        """Number of generated tokens."""
        return self.context.length - self.start

    def child(self, token: int) -> Candidate:
        """This candidate and one more token; finished where it is one of :attr:`ends`."""
        return Candidate(self.context.extend(int(token)), self.start, token in self.ends, self.ends)


@runtime_checkable
class Reward(Protocol):
    """A score of whole texts."""

    def rewards(self, candidates: Sequence[Candidate]) -> list[float]:
        """One number a candidate; ``-inf`` for one that must not be. Unfinished candidates are judged as if they ended where they do."""
        ...


@runtime_checkable
class Value(Protocol):
    """A score of prefixes: what comes of them, or what they are worth so far. It is a reward of finished ones."""

    def rewards(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Reward.rewards`."""
        ...

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """One number a candidate, finished or not, all in one batch where the score is computed by a network."""
        ...

    def next_values(self, candidate: Candidate, tokens: Sequence[int]) -> torch.Tensor:
        """The values of ``candidate.child(token)`` for each of ``tokens``: ``float64[len(tokens)]`` on the CPU."""
        ...


@runtime_checkable
class StepScorer(Protocol):
    """A process reward: how good the last step of a candidate is, given what came before it."""

    def step_scores(self, candidates: Sequence[Candidate], step_starts: Sequence[int]) -> list[float]:
        """One number a candidate, for its generated tokens from ``step_starts[i]`` on (an index into :attr:`Candidate.tokens`)."""
        ...


class ValueBase:
    """Derives from :meth:`values` what else a :class:`Value` and a :class:`StepScorer` must have."""

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`."""
        raise NotImplementedError

    def rewards(self, candidates: Sequence[Candidate]) -> list[float]:
        """The values."""
        return self.values(candidates)

    def next_values(self, candidate: Candidate, tokens: Sequence[int]) -> torch.Tensor:
        """See :meth:`Value.next_values`; asks for the values of the children, in one batch."""
        return self.many_next_values([candidate], [tokens])[0]

    def many_next_values(self, candidates: Sequence[Candidate], tokens: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """:meth:`next_values` of several candidates, in one batch."""
        children = [candidate.child(token) for candidate, after in zip(candidates, tokens) for token in after]
        found = torch.tensor(self.values(children) if children else [], dtype=torch.float64)
        return list(found.split([len(after) for after in tokens]))

    def step_scores(self, candidates: Sequence[Candidate], step_starts: Sequence[int]) -> list[float]:
        """The values where the steps end: the usual reading of a process reward model's score at a step's last token."""
        return self.values(candidates)


def next_values(value: Value, candidates: Sequence[Candidate], tokens: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """:meth:`Value.next_values` of several candidates, in one batch where the score can: a ``float64[len(tokens[i])]`` for each."""
    many = getattr(value, "many_next_values", None)
    if many is not None:
        found: list[torch.Tensor] = many(candidates, tokens)
        return found
    return [value.next_values(candidate, after) for candidate, after in zip(candidates, tokens)]
