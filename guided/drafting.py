"""Speculation by name: what ``draft=`` of :func:`guided.generate` may be, and what it stands for.

Texts are those of plain decoding with the same seed (looked-up drafts), or follow its law (drafts that a model draws); see
:mod:`speculative`. The names:

=============  =====================================================================================================================
``auto``       suffix automaton of the text, with Token Recycling where it knows nothing, trees as large as pays
``lookup``     prompt lookup: what followed the last occurrence of the last tokens
``sam``        suffix automaton of the text: what followed the longest match
``recycling``  Token Recycling: what the model considered after a token before, as a tree
``ngrams``     n-gram counts of the text, updated as it grows
``lookahead``  lookahead decoding: n-grams that the model itself guesses
``jacobi``     Jacobi iteration over a block of guesses
``forced``     what the constraint leaves no choice about, and nothing else
=============  =====================================================================================================================

All of them begin with what the constraint forces. Anything else is a model that drafts: a folder or a hub id, what :func:`guided.load`
returns, or a :class:`samplers.models.LanguageModel`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grammars.errors import ModelError

if TYPE_CHECKING:
    from grammars import Vocabulary
    from samplers.masked import Request
    from samplers.models.protocol import LanguageModel
    from samplers.sampling import Settings
    from samplers.warpers import Pipeline
    from speculative.decode import Round
    from speculative.pace import Pace
    from speculative.protocol import Drafter, Shape, Stop, Verifier

    from .model import Model

__all__ = ["DRAFTS", "Parts", "Speculation", "borrowed", "opened", "parts_of", "rounds"]


@dataclass(frozen=True)
class Parts:
    """What :func:`speculative.decode` is called with; holds what drafters and pace learn from text to text.

    Serves one call at a time.
    """

    drafter: Drafter
    shape: Shape
    stop: Stop | None
    verifier: Verifier
    pace: Pace


@dataclass(frozen=True)
class Speculation:
    """How to speculate: a choice on each axis of :mod:`speculative`, any of them left to the defaults of the drafter.

    As ``draft=`` of :func:`guided.generate` and :func:`guided.stream`, and as ``custom_generate=`` of transformers' ``generate``::

        model.generate(**inputs, custom_generate=guided.Speculation("auto"), logits_processor=[processor])

    Attributes:
        drafter: a name (see :mod:`guided.drafting`), a model that drafts, or a drafter of :mod:`speculative.drafters`, which serves one
            call at a time.
        shape, stop, verifier, pace: see :func:`speculative.decode`; ``None``: what goes with the drafter and the temperature.
    """

    drafter: Any = "auto"
    shape: Shape | None = None
    stop: Stop | None = None
    verifier: Verifier | None = None
    pace: Pace | None = None

    @property
    def named(self) -> Any:
        """Itself, or the name alone where it is nothing else."""
        return self.drafter if self == Speculation(self.drafter) else self

    def __call__(
        self,
        model: Any,
        input_ids: Any,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        draft_seed: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Called by ``generate`` of transformers; see :mod:`guided.custom_speculation`."""
        from .custom_speculation import run

        return run(self, model, input_ids, logits_processor, stopping_criteria, generation_config, draft_seed=draft_seed, **kwargs)


# ---------------------------------------------------------------- the names
@dataclass(frozen=True)
class _Made:
    """A drafter with what goes with it.

    Attributes:
        fixed: its proposals are looked up: at a temperature too, the text is that of plain decoding.
        trims: any part of its trees may be left out (drafters that learn from every node of theirs want them whole).
    """

    drafter: Drafter
    shape: Shape
    fixed: bool = True
    trims: bool = True


def _auto(width: int) -> _Made:
    from speculative.drafters import Merged, SamDrafter, Shaped, TokenRecycling
    from speculative.shapes.levels import Chain

    copied = Shaped(SamDrafter(threshold=1), Chain(24))
    recycled = Shaped(TokenRecycling(width), TokenRecycling.tree(32, 6))
    return _Made(Merged(copied, recycled, shares=(0.75, 1.0)), Chain(24))


def _lookup(width: int) -> _Made:
    from speculative.drafters import PromptLookup
    from speculative.shapes.levels import Chain

    return _Made(PromptLookup(), Chain(10))


def _sam(width: int) -> _Made:
    from speculative.drafters import SamDrafter
    from speculative.shapes.levels import Chain

    return _Made(SamDrafter(threshold=1), Chain(24))


def _recycling(width: int) -> _Made:
    from speculative.drafters import TokenRecycling

    return _Made(TokenRecycling(width), TokenRecycling.tree(32, 6))


def _ngrams(width: int) -> _Made:
    from speculative.drafters import NgramDrafter
    from speculative.shapes.opt_tree import OptTree

    return _Made(NgramDrafter(), OptTree(24))


def _lookahead(width: int) -> _Made:
    from speculative.drafters import LookaheadDrafter
    from speculative.shapes.levels import Chain

    return _Made(LookaheadDrafter(), Chain(8), trims=False)


def _jacobi(width: int) -> _Made:
    from speculative.drafters import JacobiDrafter
    from speculative.shapes.levels import Chain

    return _Made(JacobiDrafter(), Chain(8), trims=False)


_NAMES: Mapping[str, Callable[[int], _Made]] = {
    "auto": _auto,
    "lookup": _lookup,
    "sam": _sam,
    "recycling": _recycling,
    "ngrams": _ngrams,
    "lookahead": _lookahead,
    "jacobi": _jacobi,
}

DRAFTS = (*_NAMES, "forced")
"""The names."""


def opened(draft: Any) -> Any:
    """``draft``, with the model loaded where it names one; anything else as it is.

    Raises:
        ModelError: it is none of :data:`DRAFTS`, and no model that can be loaded.
    """
    if isinstance(draft, Speculation):
        return replace(draft, drafter=opened(draft.drafter))
    if not isinstance(draft, str | Path | tuple) or draft in DRAFTS:
        return draft
    from .model import load

    try:
        return load(draft)
    except ModelError as error:
        raise ModelError(f"draft={str(draft)!r} is none of {', '.join(DRAFTS)}, and as a model: {error}") from error


def parts_of(draft: Any, model: LanguageModel, vocabulary: Vocabulary | None, greedy: bool) -> Parts:
    """What a ``draft=`` stands for.

    Args:
        draft: see :class:`Speculation`; or its ``drafter`` alone.
        model: the target.
        vocabulary: of the target; ``None``: a draft model is taken to have the same.
        greedy: whether the temperature is 0.

    Raises:
        ModelError: it is none of :data:`DRAFTS`, and no model or drafter either.
    """
    wanted = draft if isinstance(draft, Speculation) else Speculation(draft)
    made = _made(wanted.drafter, model, vocabulary, greedy)
    verifier = wanted.verifier or _verifier(greedy, made.fixed)
    # clocks may have a say where the text does not depend on what is drafted
    pace = wanted.pace or _pace(made.trims and verifier.invariant)
    return Parts(made.drafter, wanted.shape or made.shape, wanted.stop, verifier, pace)


def _verifier(greedy: bool, fixed: bool) -> Verifier:
    from speculative.verifiers.greedy import Greedy
    from speculative.verifiers.matching import Matching
    from speculative.verifiers.rejection import Recursive

    return Greedy() if greedy else Matching() if fixed else Recursive()


def _pace(adaptive: bool) -> Pace:
    from speculative.pace import Adaptive, Always

    found: Pace = Adaptive(nodes=48, depth=24) if adaptive else Always()
    return found


def _made(wanted: Any, model: LanguageModel, vocabulary: Vocabulary | None, greedy: bool) -> _Made:
    from speculative.drafters import Forced
    from speculative.protocol import Drafter
    from speculative.shapes.levels import Chain

    if isinstance(wanted, str) and wanted == "forced":
        return _Made(Forced(), Chain(64))
    if isinstance(wanted, str) and wanted in _NAMES:
        found = _NAMES[wanted](model.width)
        return _Made(Forced(found.drafter), found.shape, found.fixed, found.trims)
    if not isinstance(wanted, str | Path | tuple) and isinstance(wanted, Drafter):
        return _Made(wanted, Chain(), fixed=False, trims=False)
    return _Made(Forced(_second(wanted, vocabulary)), Chain(5), fixed=greedy, trims=greedy)


def _second(wanted: Any, vocabulary: Vocabulary | None) -> Drafter:
    """A second model as drafter: over the same token ids, or by the strings of its tokens."""
    from samplers.models.protocol import LanguageModel
    from speculative.drafters import ModelDrafter, StringDrafter

    from .model import Model

    wanted = opened(wanted)
    if isinstance(wanted, Model):
        if vocabulary is None or wanted.vocabulary.tokens == vocabulary.tokens:
            return ModelDrafter(wanted.language_model)
        return StringDrafter(wanted.language_model, wanted.vocabulary, vocabulary)
    if isinstance(wanted, LanguageModel):
        return ModelDrafter(wanted)
    raise ModelError(f"draft must be one of {', '.join(DRAFTS)}, a model, a drafter or a Speculation, not {type(wanted).__name__}")


# ---------------------------------------------------------------- running
_idle: weakref.WeakKeyDictionary[Any, dict[tuple[str, bool], list[Parts]]] = weakref.WeakKeyDictionary()


@contextmanager
def borrowed(draft: Any, model: LanguageModel, vocabulary: Vocabulary | None, greedy: bool, owner: Any = None) -> Iterator[Parts]:
    """:func:`parts_of` for one call. Those of a name are kept with the model for the next call, with what they have learned of it.

    What they learn changes the speed and not the text: :func:`parts_of` gives names verifiers that are invariant.

    Args:
        owner: whom they are kept with, where ``model`` is made for one call.
    """
    if not isinstance(draft, str) or draft not in DRAFTS:
        yield parts_of(draft, model, vocabulary, greedy)
        return
    shelf = _idle.setdefault(model if owner is None else owner, {}).setdefault((draft, greedy), [])
    try:
        parts = shelf.pop()
    except IndexError:
        parts = parts_of(draft, model, vocabulary, greedy)
    yield parts
    shelf.append(parts)  # not after an error: who knows what state it left


def rounds(
    model: Model,
    requests: Sequence[Request],
    draft: Any,
    settings: Settings,
    warpers: Pipeline | Iterable[Any] | None = None,
) -> Iterator[Round]:
    """:func:`samplers.masked.decode` with speculation: the tokens of each step, several a row.

    Raises:
        ModelError: see :func:`parts_of`.
        ValueError: see :func:`speculative.decode`.
    """
    from speculative.decode import decode

    target = model.language_model
    target.pack()
    with borrowed(draft, target, model.vocabulary, settings.temperature == 0) as parts:
        yield from decode(
            target,
            requests,
            parts.drafter,
            verifier=parts.verifier,
            shape=parts.shape,
            stop=parts.stop,
            settings=settings,
            warpers=warpers,
            eos_token_ids=model.vocabulary.eos_token_ids,
            table=model.masks,
            pace=parts.pace,
        )
