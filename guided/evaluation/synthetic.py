"""Vocabularies of any size, made of real ones: cut down to their most frequent tokens, or joined and grown by merges.

What is made depends on the size alone, so numbers over these vocabularies can be compared between runs and machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grammars import Vocabulary
from grammars.errors import GuidedError

__all__ = ["synthetic_vocabulary"]

_LONGEST = 24
"""Bytes of a merged token at most; longer ones are rare in real vocabularies."""


def _merged(words: list[bytes]) -> Iterator[bytes]:
    """Concatenations of two words, frequent ones (by their place) first: the merges that byte-pair encoding would come to next."""
    total = 1
    while total < 2 * len(words):
        for i in range(max(0, total - len(words) + 1), min(total + 1, len(words))):
            made = words[i] + words[total - i]
            if len(made) <= _LONGEST:
                yield made
        total += 1


def synthetic_vocabulary(size: int, sources: Iterable[Vocabulary]) -> Vocabulary:
    """A byte-pair-like vocabulary of ``size`` tokens, the last of them the end of sequence.

    All single bytes come first; then the text tokens of ``sources`` in the order of their ids (byte-pair encodings number tokens by
    the order of their merges, so these are the most frequent ones), one source after the other, without repetition; and where that is
    not enough, merges of two of them.

    Raises:
        GuidedError: ``size`` is too small for the single bytes and the end token.
    """
    if size < 257:
        raise GuidedError(f"a synthetic vocabulary has 257 tokens at least, not {size}")
    words = dict.fromkeys(bytes([b]) for b in range(256))
    for source in sources:
        if len(words) >= size - 1:
            break
        words.update(dict.fromkeys(source.tokens[i] for i in sorted(source.trie_tokens.tolist())))
    if len(words) < size - 1:
        letters = [word for word in words if len(word) > 1]
        for made in _merged(letters):
            words[made] = None
            if len(words) == size - 1:
                break
    return Vocabulary([*list(words)[: size - 1], b""], eos_token_ids=[size - 1])
