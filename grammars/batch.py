"""Masks of many states in one call: the rows of a batch, of one constraint or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .errors import ConstraintError

if TYPE_CHECKING:
    from .automaton import Automaton

__all__ = ["fill_masks"]

_FEW = 8  # up to here rows are copied one by one: joining them costs more than it saves


def fill_masks(
    automata: Automaton | Sequence[Automaton | None], states: Sequence[int] | NDArray[np.integer], rows: NDArray[np.int32]
) -> None:
    """Writes the token mask of every state into its row.

    A mask is made once, however many rows ask for it, and kept by its automaton for the next call; rows that are known are copied
    together. (Where a device holds the masks, nothing has to be copied at all: see :class:`samplers.MaskTable`.)

    Args:
        automata: the automaton of all rows; or one a row, ``None`` for a row that is free.
        states: ``int[batch]``, a state of the row's automaton (any number where the row is free).
        rows: int32[batch, words], overwritten: bit ``t % 32`` of word ``t // 32`` for token ``t``. Words beyond an automaton's own
            become zero; a free row is all ones.

    Raises:
        ConstraintError: the shapes or types do not fit together.
        DeadEnd: a row's text has left its language. Rows are then undefined.

    Masks are made in one thread: automata over one vocabulary share tables (and a lock), which is what lets a mask that one request has
    met serve the others.
    """
    numbers = states.tolist() if isinstance(states, np.ndarray) else states
    count = len(numbers)
    owners = automata if isinstance(automata, Sequence) else None
    if rows.ndim != 2 or rows.dtype != np.int32 or len(rows) != count or (owners is not None and len(owners) != count):
        given = f"{len(owners)} automata, " if owners is not None else ""
        raise ConstraintError(f"{given}{count} states and an array of {rows.dtype}{list(rows.shape)}: give one row of int32 words a state")
    width = rows.shape[1]
    if owners is None:
        automaton: Automaton = automata  # type: ignore[assignment]
        masks: list[NDArray[np.int32] | None] = list(map(automaton.mask, numbers))
        exact = automaton.words == width
        longest = automaton.words
    else:
        masks = [None if owner is None else owner.mask(state) for owner, state in zip(owners, numbers)]
        words = {width if mask is None else len(mask) for mask in masks}
        exact, longest = words == {width} and None not in owners, max(words, default=0)
    if longest > width:
        raise ConstraintError(f"a mask row of this vocabulary is int32[{longest}], and the rows have {width} words")
    if exact and count > _FEW and rows.flags.c_contiguous:
        np.concatenate(masks, out=rows.reshape(-1))  # type: ignore[arg-type]
        return
    for row, mask in zip(rows, masks):
        if mask is None:
            row[:] = -1
        else:
            row[: len(mask)] = mask
            row[len(mask) :] = 0
