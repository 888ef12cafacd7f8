"""Probabilities of answers: :func:`choose` between some texts, and :func:`field_probabilities` of a generated object.

Both sum over the ways to write a text in tokens (:mod:`samplers.options`), so they are probabilities of *texts*, and both say what may
be missing from the sum. ``guided.choose`` is the function; the module has another name so that the two cannot be taken for each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from grammars import ConstraintError
from samplers.options import COMPLETE, PREFIX, After, Measured, measure, overlap

from .inputs import target_of
from .model import Model, load
from .prompts import Prompt, is_single, prompt_ids

__all__ = ["Bias", "Choices", "Event", "Option", "choose", "share_of"]

Event = Literal["complete", "prefix", "word"]
Bias = Literal["none", "per_token", "per_byte", "pmi"]

# a letter, a digit, an underscore, or a part of a character beyond ASCII goes on with a word
_WORD = frozenset(range(0x80, 0x100)) | frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_EVENTS: Mapping[str, After] = {"complete": COMPLETE, "prefix": PREFIX, "word": After(bytes=frozenset(range(256)) - _WORD)}


@dataclass(frozen=True, slots=True)
class Option:
    """One answer and its probability.

    Attributes:
        text: the answer.
        logprob: natural logarithm of the probability of the event that was asked for; a lower bound, see ``missed``.
        missed: the probability is at most ``exp(logprob) + missed``: what the tokenisations that were not walked may add.
        share: the probability, given that it is one of the options.
        score: what the options are ordered by, see :func:`choose`.
        tokens: the tokenizer's own segmentation (of answer and terminator, where there is one).
        canonical_logprob: the part of ``logprob`` that is written in that segmentation: what a score of one token sequence would give.
        tokenisations: number of token sequences in the sum.
    """

    text: str
    logprob: float
    missed: float
    share: float
    score: float
    tokens: tuple[int, ...]
    canonical_logprob: float
    tokenisations: int

    @property
    def probability(self) -> float:
        """``exp(logprob)``."""
        return math.exp(self.logprob)


@dataclass(frozen=True, slots=True)
class Choices:
    """The answers to one prompt.

    Attributes:
        options: in the order in which they were given.
        event: what was measured, in words.
        bias: what ``score`` is.
        contexts: contexts that the model was asked about.
    """

    options: tuple[Option, ...]
    event: str
    bias: Bias
    contexts: int

    @property
    def ranked(self) -> list[Option]:
        """Best score first."""
        return sorted(self.options, key=lambda option: -option.score)

    @property
    def best(self) -> Option:
        """The option with the best score; the first one of equals."""
        return self.ranked[0]

    @property
    def mass(self) -> float:
        """Probability that the model gives one of the options: how much ``share`` is conditioned on."""
        return math.fsum(option.probability for option in self.options)

    def __getitem__(self, text: str) -> Option:
        for option in self.options:
            if option.text == text:
                return option
        raise KeyError(text)

    def __iter__(self) -> Iterator[Option]:
        return iter(self.options)


def _encoded(options: Sequence[str]) -> list[bytes]:
    if isinstance(options, str) or not options or not all(isinstance(option, str) for option in options):
        raise ConstraintError("the options are a list of texts, at least one")
    if len(set(options)) < len(options):
        raise ConstraintError(f"an option is given twice: {sorted({o for o in options if options.count(o) > 1})}")
    try:
        return [option.encode() for option in options]
    except UnicodeEncodeError as error:
        raise ConstraintError(f"the option {error.object[:80]!r} holds a lone surrogate, which UTF-8 cannot write") from None


def _asked(options: Sequence[str], event: Event, terminator: str | None) -> tuple[list[bytes], After, str]:
    """The texts to be measured, what has to come after them, and the event in words.

    Raises:
        ConstraintError: the options are no options, or one text could be two of them at once.
    """
    if event not in get_args(Event):
        raise ValueError(f"event must be one of {get_args(Event)}, not {event!r}")
    data = _encoded(options)
    after, words = _EVENTS[event], {"complete": "the option, then the end", "prefix": "begins with the option"}.get(event)
    if terminator is not None:
        if event != "complete" or not terminator:
            raise ValueError("a terminator is a text that is not empty, and goes without an event of its own")
        data, after = [option + terminator.encode() for option in data], PREFIX
        words = f"begins with the option and {terminator!r}"
    if after.bytes is None and not all(data):
        raise ConstraintError("every text begins with the empty option: leave it out, or ask for complete answers")
    both = overlap(data, after)
    if both is not None:
        one, other = (options[i] for i in both)
        raise ConstraintError(
            f"an answer that begins with {other!r} would count for {one!r} as well, so these are no alternatives: "
            "ask for complete answers (event='complete'), or give a terminator that is in none of the options"
        )
    return data, after, words or "the option as a whole word (what follows is no letter, digit, underscore or non-ASCII byte)"


def _scores(bias: Bias, data: Sequence[bytes], after: After, found: Sequence[Measured], without: Sequence[Measured] | None) -> list[float]:
    if bias == "pmi" and without is not None:
        return [m.logprob - u.logprob for m, u in zip(found, without)]
    if bias == "per_token":
        return [m.logprob / max(1, len(m.canonical) + (after == COMPLETE)) for m in found]
    if bias == "per_byte":
        return [m.logprob / max(1, len(option)) for m, option in zip(found, data)]
    return [m.logprob for m in found]


def choose(
    model: Model | str | Path | tuple[Any, Any] | None,
    prompt: Prompt | Sequence[Prompt],
    options: Sequence[str],
    *,
    event: Event = "complete",
    terminator: str | None = None,
    bias: Bias = "none",
    unconditional: Prompt = "",
    tolerance: float = 1e-3,
    max_contexts: int = 512,
    chat: bool = True,
) -> Any:
    """The probability that the model answers with each of some texts. Nothing is sampled.

    What is measured:

    - ``event="complete"``: the answer is the option and nothing else, that is, an end token follows. The events exclude each other, also
      where one option is the beginning of another.
    - ``terminator="..."``: the answer begins with the option and the terminator (a line break, a full stop, ...).
    - ``event="word"``: the answer begins with the option, and what follows is not a letter, digit, underscore or non-ASCII character
      (the end will do).
    - ``event="prefix"``: the answer begins with the option, whatever follows.

    Where one answer could be two options at once in that sense, the call is refused. Options are taken as they are: after a prompt
    without a chat template most models write a blank first, and then it belongs to the option.

    Longer options have more to lose, and some texts are likely whatever the question is. ``bias`` says what ``score`` makes of it:

    - ``"none"``: ``log P(option | prompt)``; ordering by it is ordering by probability.
    - ``"per_token"``: divided by the number of tokens in the tokenizer's own segmentation (terminator or end token included; Brown et al.
      2020, arXiv:2005.14165).
    - ``"per_byte"``: divided by the number of UTF-8 bytes (terminator included), which does not depend on the tokenizer.
    - ``"pmi"``: ``log P(option | prompt) - log P(option | unconditional)`` (Holtzman et al. 2021, arXiv:2104.08315).

    Args:
        model: what :func:`guided.load` returns (or takes: but then it is loaded on each call).
        prompt: a text, messages, or a list of such prompts.
        options: the texts.
        unconditional: the prompt that ``"pmi"`` compares with: a neutral question of the same form; by default an empty one.
        tolerance: tokenisations are walked until what may be missing is at most this share of what was found, for each option; 0: all.
        max_contexts: or until the model was asked about so many contexts (for each prompt).
        chat: put texts into the model's chat template, where it has one.

    Returns:
        :class:`Choices`, or a list of them for a list of prompts.

    Raises:
        ConstraintError: no options, one twice, or two that one answer could be at once.
        ModelError: the model cannot be loaded, or does not take this prompt.
        ValueError: another argument out of range.
        VocabularyError: the model's tokens cannot write an option.
    """
    if bias not in get_args(Bias):
        raise ValueError(f"bias must be one of {get_args(Bias)}, not {bias!r}")
    data, after, words = _asked(options, event, terminator)
    loaded = model if isinstance(model, Model) else load(model)

    def ask(given: Prompt) -> list[Measured]:
        network = loaded.language_model
        root = network.context(prompt_ids(loaded, given, target_of(None), chat=chat, instruct=False))
        return measure(network, loaded.vocabulary, root, data, after, tolerance=tolerance, max_contexts=max_contexts)

    without = ask(unconditional) if bias == "pmi" else None
    single = is_single(prompt)
    prompts: Sequence[Any] = [prompt] if single else prompt
    made = []
    for given in prompts:
        found = ask(given)
        made.append(_choices(options, found, _scores(bias, data, after, found, without), words, bias))
    return made[0] if single else made


def _choices(options: Sequence[str], found: Sequence[Measured], scores: Sequence[float], words: str, bias: Bias) -> Choices:
    shares = share_of([m.logprob for m in found])
    rows = [
        Option(text, m.logprob, math.exp(m.log_missed), share, score, m.canonical, m.canonical_logprob, m.tokenisations)
        for text, m, share, score in zip(options, found, shares, scores)
    ]
    return Choices(tuple(rows), words, bias, found[0].contexts)


def share_of(logprobs: Sequence[float]) -> list[float]:
    """Probabilities that sum to 1; all ``nan`` where every one is 0."""
    top = max(logprobs)
    if top == -math.inf:
        return [math.nan] * len(logprobs)
    parts = [math.exp(logprob - top) for logprob in logprobs]
    total = math.fsum(parts)
    return [part / total for part in parts]
