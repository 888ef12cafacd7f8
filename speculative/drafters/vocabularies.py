"""Texts between two vocabularies: what a draft model with other tokens is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from grammars.errors import VocabularyError
from grammars.vocabulary import Vocabulary

__all__ = ["Respelled", "Shared"]

_BACK = 8  # tokens at the end of a text that are written anew when it goes on: text to come may merge with them


class Shared:
    """Tokens that two vocabularies have in common: text tokens with the same bytes.

    Args:
        target, draft: the vocabularies.

    Attributes:
        target_ids, draft_ids: ``int64[k]``, the pairs. Of several ids with the same bytes the lowest one stands for all.

    Raises:
        VocabularyError: there is none.
    """

    def __init__(self, target: Vocabulary, draft: Vocabulary) -> None:
        self.target, self.draft = target, draft
        there = _text_ids(draft)
        pairs = [(i, there[data]) for data, i in _text_ids(target).items() if data in there]
        if not pairs:
            raise VocabularyError("the two vocabularies have no token in common: draft by strings instead")
        self.target_ids, self.draft_ids = (np.array(ids, np.int64) for ids in zip(*pairs))

    @cached_property
    def to_draft(self) -> dict[int, int]:
        """The draft vocabulary's id of each shared token of the target's."""
        return dict(zip(self.target_ids.tolist(), self.draft_ids.tolist()))


def _text_ids(vocabulary: Vocabulary) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for i in sorted(vocabulary.trie_tokens.tolist()):
        found.setdefault(vocabulary.tokens[i], i)
    return found


class Respelled:
    """A growing text of the target's tokens, written in the tokens of a draft model.

    Special tokens become the draft vocabulary's special token of the same name, where there is one, otherwise nothing; so does a text that
    the draft vocabulary cannot write at all. (What is lost makes drafts worse, never the output wrong.)

    Args:
        target, draft: the vocabularies.
        prefix: tokens of the draft model that come before every text (its beginning-of-sequence token).

    Attributes:
        tokens: the text in the target's tokens.
    """

    def __init__(self, target: Vocabulary, draft: Vocabulary, prefix: Sequence[int] = ()) -> None:
        self.target, self.draft = target, draft
        self.tokens: list[int] = []
        self._done = list(prefix)  # will not change any more
        self._run: list[int] = []  # text tokens since the last special one
        self._waiting = b""

    def append(self, token: int) -> None:
        """The text's next token."""
        self.tokens.append(token)
        if self.target.is_text(token):
            self._waiting += self.target.tokens[token]
            return
        self._settle()
        self._done += self._run
        self._run = []
        name = self.target.tokens[token] if token < self.target.size else b""
        if name:
            self._done += [i for i in self.draft.special_token_ids if self.draft.tokens[i] == name][:1]

    def ids(self, pending: Sequence[int] = ()) -> list[int]:
        """The draft model's tokens for the text, and for further tokens behind it."""
        self._settle()
        if not pending:
            return [*self._done, *self._run]
        further = Respelled(self.target, self.draft)
        further._run = list(self._run)
        for token in pending:
            further.append(token)
        return [*self._done, *further.ids()]

    def _settle(self) -> None:
        if not self._waiting:
            return
        keep = max(0, len(self._run) - _BACK)
        data = b"".join(self.draft.tokens[i] for i in self._run[keep:]) + self._waiting
        self._waiting = b""
        try:
            self._run[keep:] = self.draft.encode(data)
        except VocabularyError:
            return
