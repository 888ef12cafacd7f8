"""The Hugging Face plug-in: a :class:`transformers.LogitsProcessor` that keeps ``model.generate`` inside a language.

It holds no decoder: a row's constraint is a state (an integer) that is found by the row's tokens, so that rows may be reordered,
copied and dropped between steps, as beam search does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import torch
from transformers import LogitsProcessor

from grammars.automaton import Automaton
from grammars.errors import ConstraintError
from grammars.vocabulary import Vocabulary
from samplers.budget import Budget, Plan
from samplers.masks import MaskTable, serial

from .inputs import compile_constraint

__all__ = ["GuidedLogitsProcessor"]

_Place = tuple[int, Plan]  # a row's state and its plan under the budget

_OVER: _Place = (-1, None)  # the text is complete (or the row is a beam that left the language and has probability zero)

_KEPT_STEPS = 32  # places of so many steps are kept for assisted decoding, which goes back by some tokens


class _Group:
    """The constraint of one prompt, shared by its beams and samples."""

    def __init__(self, automaton: Automaton | None, budget: Budget | None, ends: frozenset[int]) -> None:
        self.automaton, self.budget, self.ends = automaton, budget, ends
        self.serial = -1 if automaton is None else serial(automaton)

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

    def key(self, place: _Place, left: int | None) -> Hashable | None:
        """Of the mask, for :meth:`samplers.masks.MaskTable.select`."""
        if self.automaton is None:
            return None
        if place == _OVER:
            return _OVER
        state, plan = place
        return (self.serial, state) if self.budget is None or left is None else self.budget.key(state, left, plan)

    def fill(self, place: _Place, left: int | None, row: np.ndarray) -> None:
        """Writes the mask of a place that is not over."""
        assert self.automaton is not None
        state, plan = place
        if self.budget is None or left is None:
            self.automaton.fill_mask(state, row[: self.automaton.words])
        else:
            self.budget.fill(state, left, plan, row)


class _Rows:
    """The token ids that the rows of the last step had, in a buffer that a step adds one column to."""

    def __init__(self, ids: torch.Tensor) -> None:
        self.prompt = self.length = ids.shape[1]
        self._ids = torch.empty((ids.shape[0], 2 * self.length + 64), dtype=ids.dtype, device=ids.device)
        self._ids[:, : self.length] = ids

    def last_tokens(self, ids: torch.Tensor) -> tuple[list[int], bool, bool]:
        """The last token of each row of ``ids``; whether all before it is as it is here; whether the prompt is. One transfer.

        ``ids`` has as many rows, and at most one token more a row.
        """
        known, prompt = ids.shape[1] - 1, min(self.prompt, ids.shape[1] - 1)
        if ids.device.type == "cpu":
            same = torch.equal(ids[:, :known], self._ids[:, :known])
            return ids[:, -1].tolist(), same, same or torch.equal(ids[:, :prompt], self._ids[:, :prompt])
        differ = ids[:, :known] != self._ids[:, :known]
        facts = torch.stack([differ.any(), differ[:, :prompt].any()])
        *tokens, other, other_prompt = torch.cat([ids[:, -1], facts.to(ids.dtype)]).tolist()
        return tokens, not other, not other_prompt

    def generated(self) -> list[bytes]:
        """What follows the prompt, row by row."""
        return _lines(self._ids[:, self.prompt : self.length])

    def take(self, ids: torch.Tensor, whole: bool) -> None:
        """Makes ``ids`` the rows of the last step; only their last tokens are new unless ``whole``."""
        self.length = ids.shape[1]
        if self.length > self._ids.shape[1]:
            self._ids = torch.cat([self._ids, torch.empty_like(self._ids)], dim=1)
        first = self.prompt if whole else self.length - 1
        self._ids[:, first : self.length] = ids[:, first:]

    def __copy__(self) -> _Rows:
        made = object.__new__(_Rows)
        made.prompt, made.length, made._ids = self.prompt, self.length, self._ids.clone()
        return made

    def fits(self, ids: torch.Tensor) -> bool:
        """Whether ``ids`` could be these rows with another token each, or what they were at an earlier step with another token."""
        shape = self._ids.shape[0] == ids.shape[0] and self.prompt < ids.shape[1] <= self.length + 1
        return shape and self._ids.device == ids.device and self._ids.dtype == ids.dtype


def _lines(ids: torch.Tensor) -> list[bytes]:
    return [row.tobytes() for row in ids.cpu().numpy()]


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
        self._free = all(group.automaton is None for group in self._groups)
        self._end_row = self._pack(self.vocabulary.eos_token_ids)
        self._table: MaskTable | None = None
        self.reset()

    def reset(self) -> None:
        """Forgets the call in progress; the next one starts with its prompts, whatever they are."""
        self._rows: _Rows | None = None
        self._places: deque[list[_Place]] = deque(maxlen=_KEPT_STEPS)  # of the last steps, rows in the order of the last one

    def automaton(self, prompt: int) -> Automaton | None:
        """The compiled constraint of a prompt of the batch, by its number; ``None``: it is free.

        Raises:
            ConstraintError: there are several constraints, and none for it.
        """
        if len(self._groups) == 1:
            return self._groups[0].automaton
        if prompt >= len(self._groups):
            raise ConstraintError(f"{len(self._groups)} constraints, and none for prompt {prompt}: give one, or one a prompt")
        return self._groups[prompt].automaton

    def budget(self, prompt: int) -> Budget | None:
        """What keeps the text of a prompt completable; ``None``: nothing does. See :meth:`automaton`."""
        self.automaton(prompt)
        return self._groups[0 if len(self._groups) == 1 else prompt].budget

    def __copy__(self) -> Self:
        """A processor that goes on from here by itself; what was compiled, and the table of masks, are shared."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._rows, made._places = copy(self._rows), self._places.copy()
        return made

    def _pack(self, tokens: Iterable[int]) -> np.ndarray:
        row = np.zeros(self.vocabulary.words, dtype=np.uint32)
        for token in tokens:
            row[token >> 5] |= np.uint32(1 << (token & 31))
        return row.view(np.int32)

    # ------------------------------------------------------------ states of the rows
    def _groups_of(self, rows: int) -> list[_Group]:
        each, rest = divmod(rows, len(self._groups))
        if rest:
            raise ConstraintError(f"{len(self._groups)} constraints for {rows} rows: give one, or as many as the batch has prompts")
        return [group for group in self._groups for _ in range(each)]

    def _left(self, generated: int) -> int | None:
        """Tokens to go when a row has ``generated`` tokens behind its prompt."""
        return None if self.max_new_tokens is None else self.max_new_tokens - generated

    def _follow(self, ids: torch.Tensor, groups: Sequence[_Group]) -> bool:
        """Goes on with the call in progress, if ``ids`` do; leaves the rows' places in ``_places``.

        They do if they extend the rows of the last step by one token, in any order within a prompt; or an earlier step's, in
        the same order (assisted decoding goes back to the last token that it accepts).
        """
        rows = self._rows
        if rows is None or not rows.fits(ids):
            return False
        tokens, same, same_prompt = rows.last_tokens(ids)
        back = rows.length + 1 - ids.shape[1]
        before: list[_Place] | None
        if same:
            before = self._places[-1 - back] if back < len(self._places) else self._replay(ids[:, rows.prompt : -1], groups)
        else:
            before = self._reordered(ids, rows) if same_prompt and not back else None
        if before is None:
            return False
        places = self._advanced(groups, before, tokens, self._left(ids.shape[1] - rows.prompt))
        if _OVER in places:
            # Rows that left their language at this token: beams of probability zero do. If all do (or any after going back), these are
            # the prompts of a new call that happen to begin like the rows of the last one.
            facts = zip(groups, before, places, tokens)
            lost = [new == _OVER and old != _OVER and token not in group.ends for group, old, new, token in facts]
            if any(lost) if back else all(lost):
                return False
        if not same:
            self._places.clear()
        for _ in range(min(back, len(self._places))):
            self._places.pop()
        self._places.append(places)
        rows.take(ids, whole=not same)
        return True

    @staticmethod
    def _advanced(groups: Sequence[_Group], before: Sequence[_Place], tokens: Sequence[int], left: int | None) -> list[_Place]:
        """Places after ``tokens``; rows of one group that are at one place and take the same token advance once."""
        known: dict[tuple[_Group, _Place, int], _Place] = {}
        places = []
        for case in zip(groups, before, tokens):
            place = known.get(case)
            if place is None:
                group, old, token = case
                place = known[case] = group.advance(old, token, left)
            places.append(place)
        return places

    def _replay(self, ids: torch.Tensor, groups: Sequence[_Group]) -> list[_Place]:
        places = [group.start for group in groups]
        for n, column in enumerate(ids.T.tolist(), 1):
            places = self._advanced(groups, places, column, self._left(n))
        return places

    def _reordered(self, ids: torch.Tensor, rows: _Rows) -> list[_Place] | None:
        """Places before the last token, found by the rows' generated tokens among the last rows of the same constraint."""
        each = ids.shape[0] // len(self._groups)
        known = {(i // each, line): place for i, (line, place) in enumerate(zip(rows.generated(), self._places[-1]))}
        found = [known.get((i // each, line)) for i, line in enumerate(_lines(ids[:, rows.prompt : -1]))]
        places = [place for place in found if place is not None]
        return places if len(places) == len(found) else None

    # ------------------------------------------------------------ the processor
    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """``scores`` (``[rows, width]``) with minus infinity for every token that may not follow ``input_ids`` (``[rows, length]``)."""
        groups = self._groups_of(input_ids.shape[0])
        if not self._follow(input_ids, groups):
            self.reset()
            self._rows = _Rows(input_ids)
            self._places.append([group.start for group in groups])
        assert self._rows is not None
        if self._free:
            return scores
        table = self._table
        if table is None or table.width != scores.shape[-1] or table.device != scores.device:
            table = self._table = MaskTable(scores.shape[-1], scores.device, self.vocabulary.words)
        places, left = self._places[-1], self._left(input_ids.shape[1] - self._rows.prompt)

        def fill(i: int, row: np.ndarray) -> None:
            if places[i] == _OVER:
                row[: self.vocabulary.words] = self._end_row
            else:
                groups[i].fill(places[i], left, row)

        selection = table.select([group.key(place, left) for group, place in zip(groups, places)], fill)
        return selection.apply(scores)  # type: ignore[return-value]
