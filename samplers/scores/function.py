"""A score that is a Python function of the text, of the tokens, or of the object that the text spells."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from grammars.errors import ConstraintError, ModelError

from .protocol import Candidate, ValueBase
from .texts import decoder, generated

__all__ = ["Function"]

On = Literal["text", "tokens", "object", "candidate"]


class Function(ValueBase):
    """``function(what)`` of each candidate.

    Args:
        function: returns a number (or a truth value); of a list of things a list of numbers where ``batched``.
        on: what it is given: ``"text"`` (what was generated, as a string), ``"tokens"`` (a tuple of token ids, without the one that ended
            the text), ``"object"`` (what the text spells, by ``parse``) or ``"candidate"`` (the :class:`Candidate`).
        texts: a vocabulary, tokenizer or function from token ids to text; needed for ``"text"`` and ``"object"``.
        parse: from text to object. What it refuses with a ``ValueError`` (``json.JSONDecodeError`` is one) is worth ``otherwise``.
        otherwise: the score of candidates whose text spells no object, as that of most unfinished ones.
        finished_only: whether the function is asked about finished candidates only, others being worth ``otherwise``. Rewards are always
            asked for.
        batched: whether the function takes a list.

    Raises:
        ConstraintError: ``texts`` is missing.
        ValueError: ``on`` is none of the four.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        on: On = "text",
        texts: Any = None,
        parse: Callable[[str], Any] = json.loads,
        otherwise: float = 0.0,
        finished_only: bool = False,
        batched: bool = False,
    ) -> None:
        if on not in get_args(On):
            raise ValueError(f"a function is asked on one of {get_args(On)}, not {on!r}")
        if on in ("text", "object") and texts is None:
            raise ConstraintError(f"a function of the {on} needs `texts`: a vocabulary or tokenizer to read the tokens with")
        self.function, self.on, self.parse, self.batched = function, on, parse, batched
        self.otherwise, self.finished_only = otherwise, finished_only
        self._decode = None if texts is None else decoder(texts)

    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`."""
        return self._scores(candidates, [c.finished or not self.finished_only for c in candidates])

    def rewards(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Reward.rewards`: unfinished candidates are judged as if they ended where they do."""
        return self._scores(candidates, [True] * len(candidates))

    def _scores(self, candidates: Sequence[Candidate], asked: Sequence[bool]) -> list[float]:
        found = [self.otherwise] * len(candidates)
        places, inputs = [], []
        for place, candidate in enumerate(candidates):
            if asked[place]:
                try:
                    inputs.append(self._input(candidate))
                except ValueError:
                    if self.on != "object":
                        raise
                else:
                    places.append(place)
        answers = (self.function(inputs) if self.batched else map(self.function, inputs)) if inputs else ()
        numbers = [float(answer) for answer in answers]
        if len(numbers) != len(inputs):
            raise ModelError(f"the score function was given {len(inputs)} things and returned {len(numbers)} numbers")
        for place, number in zip(places, numbers):
            found[place] = number
        return found

    def _input(self, candidate: Candidate) -> Any:
        if self.on == "candidate":
            return candidate
        tokens = generated(candidate)
        if self._decode is None or self.on == "tokens":
            return tokens
        text = self._decode(tokens)
        return self.parse(text) if self.on == "object" else text
