"""Words with weights: a bag-of-words score that knows the value of every next token without reading the text again."""

from __future__ import annotations

import codecs
import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grammars.errors import ConstraintError

from .memory import Memory
from .protocol import Candidate, ValueBase
from .texts import generated, vocabulary_of

__all__ = ["Lexicon"]

_FEW = 64  # tokens: below it each is looked at by itself


@dataclass(frozen=True, slots=True)
class _State:
    """Of a prefix.

    Attributes:
        total: weight of the words that have ended.
        seen: weighted words that have ended, where each counts once.
        word: what was written of the word under way, folded.
        rest: bytes of a character under way.
    """

    total: float = 0.0
    seen: frozenset[str] = frozenset()
    word: str = ""
    rest: bytes = b""


class Lexicon(ValueBase):
    """The sum of the weights of the words that were generated.

    A word is a longest run of word characters (letters, digits and underscores of any script, as ``\\w``); a word at the end of an
    unfinished candidate counts as if it ended there. PPLM's bag-of-words attribute models are of this kind (Dathathri et al. 2020,
    arXiv:1912.02164).

    Args:
        weights: word -> weight.
        vocabulary: what the tokens write; a tokenizer will do.
        fold: whether case is ignored (full Unicode case folding).
        once: whether a word that comes again counts again.
        joiners: further characters that are parts of words: ``"'-"`` for ``don't`` and ``well-known``.
        size: how many prefixes are remembered.

    Raises:
        ConstraintError: a key is not one word, its weight not finite, or there is none.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        vocabulary: Any,
        *,
        fold: bool = True,
        once: bool = False,
        joiners: str = "",
        size: int = 1 << 16,
    ) -> None:
        self.fold, self.once = fold, once
        self._pattern = re.compile(rf"[\w{re.escape(joiners)}]+")
        self.weights: dict[str, float] = {}
        for word, weight in weights.items():
            if not self._pattern.fullmatch(self._folded(word)):
                raise ConstraintError(f"{word!r} is not one word; name its other characters as joiners, or score phrases with a Function")
            if not math.isfinite(weight):
                raise ConstraintError(f"the weight of {word!r} must be a finite number, not {weight}")
            self.weights[self._folded(word)] = float(weight)
        if not self.weights:
            raise ConstraintError("a lexicon needs at least one word")
        self.vocabulary = vocabulary_of(vocabulary)
        self._hidden = frozenset((*self.vocabulary.eos_token_ids, *self.vocabulary.special_token_ids))
        self._states: Memory[_State] = Memory(size)
        self._sorted = sorted(self.weights)
        self._index()

    # ------------------------------------------------------------ tokens
    def _index(self) -> None:
        """What is known of each token whatever comes before it: the run it begins with, and whether it may say a weighted word itself."""
        tokens = self.vocabulary.tokens
        self._joins = np.zeros(len(tokens), bool)  # begins with a word character
        self._closer = np.zeros(len(tokens), bool)  # must be looked at
        self._heads: dict[str, list[int]] = {}
        for token, data in enumerate(tokens):
            if token in self._hidden or not data:
                continue
            try:
                text = self._folded(data.decode())
            except UnicodeDecodeError:
                self._closer[token] = True
                continue
            runs = self._pattern.findall(text)
            self._closer[token] = not self.weights.keys().isdisjoint(runs)
            head = self._pattern.match(text)
            if head:
                self._joins[token] = True
                self._heads.setdefault(head[0], []).append(token)

    def _folded(self, text: str) -> str:
        return text.casefold() if self.fold else text

    def _beginning(self, word: str) -> list[str]:
        """What is missing, to be a weighted word, behind ``word``."""
        found = []
        for known in self._sorted[bisect_left(self._sorted, word) :]:
            if not known.startswith(word):
                break
            found.append(known[len(word) :])
        return found

    # ------------------------------------------------------------ states
    def _state(self, candidate: Candidate) -> _State:
        tokens = generated(candidate)
        known, state = self._states.nearest(candidate)
        if known is not None and state is not None:
            tokens = tokens[known.length - candidate.start :]
        return self._states.put((candidate.context, candidate.start), self._advanced(state or _State(), tokens))

    def _advanced(self, state: _State, tokens: Sequence[int]) -> _State:
        data = state.rest + self.vocabulary.decode(tokens)
        if not data:
            return state
        reader = codecs.getincrementaldecoder("utf-8")("replace")
        text = state.word + self._folded(reader.decode(data))
        rest = reader.getstate()[0]
        total, seen, word = state.total, state.seen, ""
        for run in self._pattern.finditer(text):
            if run.end() == len(text):
                word = run[0]
            elif run[0] in self.weights and not (self.once and run[0] in seen):
                total += self.weights[run[0]]
                seen = seen | {run[0]} if self.once else seen
        return _State(total, seen, word, rest)

    def _value(self, state: _State) -> float:
        return state.total + (0.0 if state.word in state.seen else self.weights.get(state.word, 0.0))

    # ------------------------------------------------------------ scores
    def values(self, candidates: Sequence[Candidate]) -> list[float]:
        """See :meth:`Value.values`."""
        return [self._value(self._state(candidate)) for candidate in candidates]

    def many_next_values(self, candidates: Sequence[Candidate], tokens: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """See :meth:`ValueBase.many_next_values`; most tokens are answered together, by array."""
        return [self._next(self._state(candidate), after) for candidate, after in zip(candidates, tokens)]

    def _next(self, state: _State, tokens: Sequence[int]) -> torch.Tensor:
        asked = np.asarray(tokens, np.int64).reshape(-1)
        known = asked < len(self._joins)
        place = np.where(known, asked, 0)
        # a token without a weighted word leaves the word under way as it is, or makes another one of it
        found = np.where(known & self._joins[place], state.total, self._value(state))
        if len(asked) <= _FEW or state.rest:
            closer = known
        else:
            closer = known & self._closer[place]
            if state.word:
                # tokens that end the word under way as a weighted one: the only ones besides that are worth something of their own
                completing = [token for head in self._beginning(state.word) for token in self._heads.get(head, ())]
                closer |= known & np.isin(asked, completing)
        for i in np.flatnonzero(closer).tolist():
            found[i] = self._value(self._advanced(state, (int(asked[i]),)))
        return torch.from_numpy(found)
