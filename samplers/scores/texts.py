"""What tokens say: decoders for scores that read text."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

from grammars.errors import VocabularyError
from grammars.vocabulary import Vocabulary

from .protocol import Candidate

__all__ = ["Decoder", "decoder", "generated", "vocabulary_of"]

Decoder = Callable[[Sequence[int]], str]
"""From token ids to their text; special tokens write nothing."""


def decoder(source: Any) -> Decoder:
    """How tokens are read.

    Args:
        source: a :class:`~grammars.vocabulary.Vocabulary`, a tokenizer of transformers (anything with ``decode``), or a function from
            token ids to text.

    A character of which only the first bytes are there is left out.

    Raises:
        VocabularyError: it is none of them.
    """
    if isinstance(source, Vocabulary):
        return lambda ids: codecs.getincrementaldecoder("utf-8")("replace").decode(source.decode(ids))
    if hasattr(source, "decode"):
        return lambda ids: str(source.decode(list(ids), skip_special_tokens=True)).rstrip("\ufffd")
    if callable(source):
        return lambda ids: str(source(ids))
    raise VocabularyError(f"to read tokens as text takes a Vocabulary, a tokenizer or a function, not {type(source).__name__}")


def vocabulary_of(source: Any) -> Vocabulary:
    """The vocabulary itself, or that of a tokenizer."""
    return source if isinstance(source, Vocabulary) else Vocabulary.from_tokenizer(source)


def generated(candidate: Candidate, keep_end: bool = False) -> tuple[int, ...]:
    """The generated tokens, without the one that ended the text unless ``keep_end``."""
    tokens = candidate.tokens
    return tokens if keep_end or not candidate.finished else tokens[:-1]
