"""The Hugging Face plug-in: a :class:`transformers.LogitsProcessor` that keeps ``model.generate`` inside a language.

It holds no decoder: a row's constraint is a state (an integer) that is found by the row's tokens, so that rows may be reordered,
copied and dropped between steps, as beam search does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor

from grammars.automaton import Automaton
from grammars.errors import ConstraintError
from grammars.vocabulary import Vocabulary
from samplers.budget import Budget, Plan, plain_mask
from samplers.masks import Mask, MaskTable

from .inputs import compile_constraint

__all__ = ["GuidedLogitsProcessor"]

_Place = tuple[int, Plan]  # a row's state and its plan under the budget

_OVER: _Place = (-1, None)  # the text is complete (or the row is a beam that left the language and has probability zero)


class _Group:
    """The constraint of one prompt, shared by its beams and samples."""

    def __init__(self, automaton: Automaton | None, budget: Budget | None, ends: frozenset[int]) -> None:
        self.automaton, self.budget, self.ends = automaton, budget, ends

    @property
    def start(self) -> _Place:
        return (0 if self.automaton is None else self.automaton.start), None

    def advance(self, place: _Place, token: int, left: int | None) -> _Place:
        """Where ``token`` leads, with ``left`` tokens to go after it."""
        if self.automaton is None or place == _OVER:
            return place
        if token in self.ends:
            return _OVER
        state, plan = place
        if self.budget is None or left is None or left < 0:
            state = self.automaton.advance(state, token)
        else:
            state, plan = self.budget.advance(state, plan, token, left)
        return _OVER if state == self.automaton.DEAD else (state, plan)

    def mask(self, place: _Place, left: int | None) -> Mask | None:
        if self.automaton is None:
            return None
        state, plan = place
        if self.budget is None or left is None:
            return plain_mask(self.automaton, state)
        return self.budget.mask(state, left, plan)


class GuidedLogitsProcessor(LogitsProcessor):
    """Masks the logits of ``model.generate`` so that every row stays in its language and ends only where the language allows it.

    Works under greedy decoding, sampling, beam search and beam sampling, with ``num_return_sequences`` and left-padded batches. An
    instance can be used for one call after another: a call begins where the rows do not extend those of the last step by one token.

    Args:
        tokenizer: the model's tokenizer.
        constraint: what :func:`guided.constraint_from` takes (a :class:`grammars.Constraint`, a compiled automaton, a schema, a
            type, ...), or a **list** of them, one a prompt of the batch. ``None`` leaves a row free. (A list of strings is a list of
            constraints here; several texts to choose from are ``Choice([...])``.)
        max_new_tokens: the token budget, the ``max_new_tokens`` that ``generate`` is given: when what is left just suffices for the
            shortest completion, only tokens that close in time are allowed, so that the text is always complete. ``None``: no budget.
        eos_token_ids: end tokens besides the tokenizer's own (those of ``model.generation_config``, say).
        vocabulary: the tokenizer's :class:`grammars.Vocabulary`, where it is built already (a compiled automaton brings its own).

    Raises:
        ConstraintError: a constraint is not supported, or ``max_new_tokens`` is too small for its shortest text.
        VocabularyError: the tokenizer cannot be turned into byte strings.

    The order in ``generate`` is: the model's logits, the processors that ``generate`` makes itself (penalties, minimum length, bans),
    this one, then temperature, top-k, top-p and the like, which so act on the allowed tokens only. Where those before have banned all
    that the constraint allows, the constraint wins: the allowed tokens are then equally likely.

    Example::

        processor = GuidedLogitsProcessor(tokenizer, {"type": "integer"}, max_new_tokens=20)
        output = model.generate(**inputs, logits_processor=[processor], max_new_tokens=20)
    """

    supports_continuous_batching = False

    def __init__(
        self,
        tokenizer: Any,
        constraint: Any,
        *,
        max_new_tokens: int | None = None,
        eos_token_ids: Iterable[int] | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        given = list(constraint) if isinstance(constraint, list) else [constraint]
        compiled = next((one.vocabulary for one in given if isinstance(one, Automaton)), None)
        self.vocabulary = vocabulary or compiled or Vocabulary.from_tokenizer(tokenizer, eos_token_ids=eos_token_ids)
        self.max_new_tokens = max_new_tokens
        ends = frozenset(self.vocabulary.eos_token_ids)
        made: dict[int, _Group] = {}
        if not given:
            raise ConstraintError("the list of constraints is empty: give one a prompt, None for a prompt that is free")
        for one in given:
            if id(one) not in made:
                automaton = compile_constraint(one, self.vocabulary)
                budget = Budget(automaton) if automaton is not None and max_new_tokens is not None else None
                if budget is not None and max_new_tokens is not None:
                    budget.check(max_new_tokens)
                made[id(one)] = _Group(automaton, budget, ends)
        self._groups = [made[id(one)] for one in given]
        self._end_row = self._pack(self.vocabulary.eos_token_ids)
        self._table: MaskTable | None = None
        self.reset()

    def reset(self) -> None:
        """Forgets the call in progress; the next one starts with its prompts, whatever they are."""
        self._ids: torch.Tensor | None = None
        self._places: list[_Place] = []
        self._prompt = 0

    def _pack(self, tokens: Iterable[int]) -> np.ndarray:
        row = np.zeros(self.vocabulary.words, dtype=np.uint32)
        for token in tokens:
            row[token >> 5] |= np.uint32(1 << (token & 31))
        return row.view(np.int32)

    # ------------------------------------------------------------ states of the rows
    def _rows_of(self, rows: int) -> list[_Group]:
        each, rest = divmod(rows, len(self._groups))
        if rest:
            raise ConstraintError(f"{len(self._groups)} constraints for {rows} rows: give one, or as many as the batch has prompts")
        return [group for group in self._groups for _ in range(each)]

    def _left(self, length: int) -> int | None:
        """Tokens to go when a row has ``length`` tokens, its prompt included."""
        return None if self.max_new_tokens is None else self.max_new_tokens - (length - self._prompt)

    def _follow(self, ids: torch.Tensor, groups: Sequence[_Group]) -> list[_Place] | None:
        """Places of the rows if they go on with the call in progress, else ``None``.

        They do if they extend the rows of the last step by one token, in any order within a prompt; or an earlier step's, in
        the same order (assisted decoding goes back to the last token that it accepts).
        """
        last, known = self._ids, ids.shape[1] - 1
        if last is None or ids.shape[0] != last.shape[0] or not self._prompt <= known <= last.shape[1]:
            return None
        rewound = known < last.shape[1]
        before: list[_Place] | None
        if torch.equal(ids[:, :known], last[:, :known]):
            before = self._replay(ids[:, self._prompt : known], groups) if rewound else self._places
        else:
            before = None if rewound else self._reordered(ids, last)
        if before is None:
            return None
        tokens, left = ids[:, -1].tolist(), self._left(ids.shape[1])
        places = [group.advance(place, token, left) for group, place, token in zip(groups, before, tokens)]
        # Rows that left their language at this token: beams of probability zero do. If all do (or any after going back), these are
        # the prompts of a new call that happen to begin like the rows of the last one.
        lost = [old != _OVER and new == _OVER and token not in group.ends for group, old, new, token in zip(groups, before, places, tokens)]
        return None if (any(lost) if rewound else all(lost)) else places

    def _replay(self, ids: torch.Tensor, groups: Sequence[_Group]) -> list[_Place]:
        places = [group.start for group in groups]
        for n, column in enumerate(ids.T.tolist(), 1):
            left = self._left(self._prompt + n)
            places = [group.advance(place, token, left) for group, place, token in zip(groups, places, column)]
        return places

    def _reordered(self, ids: torch.Tensor, last: torch.Tensor) -> list[_Place] | None:
        """Places before the last token, found by the rows' tokens among the last rows of the same prompt."""
        each = ids.shape[0] // len(self._groups)
        known = {(i // each, row.tobytes()): place for i, (row, place) in enumerate(zip(last.cpu().numpy(), self._places))}
        found = [known.get((i // each, row.tobytes())) for i, row in enumerate(np.ascontiguousarray(ids[:, :-1].cpu().numpy()))]
        places = [place for place in found if place is not None]
        return places if len(places) == len(found) else None

    def _mask(self, group: _Group, place: _Place, left: int | None) -> Mask | None:
        if place == _OVER:
            return "end", lambda row: np.copyto(row[: self.vocabulary.words], self._end_row)
        return group.mask(place, left)

    # ------------------------------------------------------------ the processor
    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """``scores`` (``[rows, width]``) with minus infinity for every token that may not follow ``input_ids`` (``[rows, length]``)."""
        groups = self._rows_of(input_ids.shape[0])
        places = self._follow(input_ids, groups)
        if places is None:
            places, self._prompt = [group.start for group in groups], input_ids.shape[1]
        self._ids, self._places = input_ids.clone(), places
        if all(group.automaton is None for group in groups):
            return scores
        if self._table is None or self._table.width != scores.shape[-1] or self._table.device != scores.device:
            self._table = MaskTable(scores.shape[-1], scores.device, self.vocabulary.words)
        left = self._left(input_ids.shape[1])
        table = self._table
        allowed = table.allowed(table.indices([self._mask(group, place, left) for group, place in zip(groups, places)]))
        masked = scores.masked_fill(~allowed, float("-inf"))
        empty = (masked.amax(-1, keepdim=True) == float("-inf")) & allowed
        return masked.masked_fill(empty, 0.0)  # type: ignore[return-value]
