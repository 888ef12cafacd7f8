"""Token ids and the byte strings that they write: what every other part knows of a tokenizer."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .errors import VocabularyError
from .trie import Trie, build_trie
from .utf8 import partial_tail, unsafe_tails, writable_ranges

if TYPE_CHECKING:
    from .lexer import Lexer
    from .regex.charset import CharSet

__all__ = ["Vocabulary"]

_INVALID = re.compile("([\udc80-\udcff]+)")


class Vocabulary:
    """The tokens of a model as byte strings, with their byte trie.

    Only *text tokens* are in the trie and ever match: not special, added or EOS tokens, not empty ones,
    not ids at or beyond ``logits_size`` (a model that has no logit for them). Where some continuation byte
    (0x80 to 0xBF) has no token of its own, tokens that end inside a character are left out too if the text
    could then not be completed (see :mod:`grammars.utf8`). Several ids may have the same bytes.

    Args:
        tokens: the bytes of every id, ``b""`` for ids that write nothing or do not exist.
        eos_token_ids: the ids that end a text, at least one.
        special_token_ids: further ids that never match as text.
        encode: the tokenizer's own segmentation of a text (no special tokens added, none recognised in
            the text); what it returns is checked, and used only where it writes exactly the text. It has to
            be picklable for the vocabulary to be.
        logits_size: width of the model's logits, where it differs from ``len(tokens)``. Padding ids are never allowed.
        avoid: ids that are chosen last among ids with the same bytes (``<0x41>`` where there is an ``A``). Elsewhere the
            lowest id is preferred. Masks allow all of them.

    Attributes:
        size: number of tokens.
        logits_size: width of a mask in bits, at least ``size``.
        words: int32 words of a mask row, ``ceil(logits_size / 32)``.
        digest: hex digest of the content (tokens, EOS and special ids, width; not of ``encode``). Vocabularies are
            equal if their digests are.
        trie_byte, trie_depth, trie_end, trie_first, trie_tokens: see :class:`grammars.trie.Trie`.
        max_token_bytes: length of the longest text token.

    Raises:
        VocabularyError: no text token, no EOS id, or an id out of range.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        eos_token_ids: Iterable[int],
        special_token_ids: Iterable[int] = (),
        encode: Callable[[str], Sequence[int]] | None = None,
        logits_size: int | None = None,
        avoid: Iterable[int] = (),
    ) -> None:
        self._settle(tokens, eos_token_ids, special_token_ids, encode, logits_size)
        last = frozenset(avoid)
        ids = sorted(self._text_ids(), key=lambda i: (i in last, i))
        unsafe = unsafe_tails({self.tokens[i] for i in ids})
        if unsafe:
            ids = [i for i in ids if partial_tail(self.tokens[i]) not in unsafe]
        if not ids:
            raise VocabularyError("the vocabulary has no text token: every token is special, an end token or empty")
        self._set_trie(build_trie(self.tokens, ids))

    def _settle(
        self,
        tokens: Sequence[bytes],
        eos_token_ids: Iterable[int],
        special_token_ids: Iterable[int],
        encode: Callable[[str], Sequence[int]] | None,
        logits_size: int | None,
    ) -> None:
        """Everything but the trie."""
        self.tokens: list[bytes] = list(tokens)
        self.size = len(self.tokens)
        self.eos_token_ids: list[int] = sorted({int(i) for i in eos_token_ids})
        self.special_token_ids: list[int] = sorted({int(i) for i in special_token_ids})
        self._width = logits_size
        self.logits_size = max(self.size, logits_size or 0)
        self.words = -(-self.logits_size // 32)
        self._encode = encode
        self._lock = threading.RLock()
        self._lexer: Lexer | None = None
        if set(map(type, self.tokens)) - {bytes}:
            for i, token in enumerate(self.tokens):
                if not isinstance(token, bytes):
                    raise VocabularyError(f"token {i} is {type(token).__name__}, not bytes; give the bytes that each id writes")
        if not self.eos_token_ids:
            raise VocabularyError("no end-of-sequence token: give eos_token_ids, a text could never end otherwise")
        for i in (*self.eos_token_ids, *self.special_token_ids):
            if not 0 <= i < self.size:
                raise VocabularyError(f"the EOS or special token id {i} is outside of the vocabulary of {self.size} tokens")

    def _text_ids(self) -> list[int]:
        hidden = {*self.eos_token_ids, *self.special_token_ids}
        end = self.size if self._width is None else min(self.size, self._width)
        return [i for i in range(end) if self.tokens[i] and i not in hidden]

    @property
    def trie_arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The trie as the kernels take it: byte, depth, end, first, tokens."""
        return self.trie_byte, self.trie_depth, self.trie_end, self.trie_first, self.trie_tokens

    def _set_trie(self, trie: Trie) -> None:
        self.trie_byte, self.trie_depth, self.trie_end = trie.byte, trie.depth, trie.end
        self.trie_first, self.trie_tokens = trie.first, trie.tokens
        for array in (trie.byte, trie.depth, trie.end, trie.first, trie.tokens):
            array.flags.writeable = False
        self.max_token_bytes = int(trie.depth.max())

    @property
    def trie(self) -> Trie:
        """The five ``trie_*`` arrays as one object."""
        return Trie(self.trie_byte, self.trie_depth, self.trie_end, self.trie_first, self.trie_tokens)

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, logits_size: int | None = None, eos_token_ids: Iterable[int] | None = None) -> Self:
        """The vocabulary of a Hugging Face tokenizer (see :mod:`grammars.tokenizer_bytes` for the families and their laws).

        Args:
            tokenizer: any tokenizer of ``transformers``, or a ``tokenizers.Tokenizer``.
            logits_size: width of the model's logits (``model.config.vocab_size`` is often larger than the tokenizer).
            eos_token_ids: ids that end a text besides ``tokenizer.eos_token_id`` (those of the model's generation config).

        Raises:
            VocabularyError: the tokenizer's family is unknown, or it has no EOS token and none was given.
        """
        from .tokenizer_bytes import vocabulary_of

        return vocabulary_of(cls, tokenizer, logits_size, eos_token_ids)

    @classmethod
    def from_parts(
        cls,
        tokens: Sequence[bytes],
        eos_token_ids: Iterable[int],
        special_token_ids: Iterable[int],
        trie: Trie,
        encode: Callable[[str], Sequence[int]] | None = None,
        logits_size: int | None = None,
    ) -> Self:
        """A vocabulary whose trie was built before (from the same arguments) and is taken as it is."""
        self = cls.__new__(cls)
        self._settle(tokens, eos_token_ids, special_token_ids, encode, logits_size)
        self._set_trie(trie)
        return self

    # ------------------------------------------------------------ what can be written
    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """Bytes -> the preferred id of the text tokens that write them."""
        return {self.tokens[i]: i for i in reversed(self.trie_tokens.tolist())}

    @cached_property
    def writable_bytes(self) -> int:
        """The bytes that are text tokens of their own, as a 256-bit mask (bit ``b`` for byte ``b``)."""
        return sum(1 << t[0] for t in self._ids if len(t) == 1)

    @cached_property
    def writable(self) -> CharSet:
        """The characters that can be written from one character boundary to the next, whatever was written before."""
        from .regex.charset import CharSet

        return CharSet(writable_ranges(self._ids.keys()))

    def is_text(self, token: int) -> bool:
        """Whether this id is a text token, that is, in the trie."""
        return 0 <= token < self.size and bool(self._text_flags[token])

    @cached_property
    def _text_flags(self) -> npt.NDArray[np.bool_]:
        flags = np.zeros(self.size, np.bool_)
        flags[self.trie_tokens] = True
        return flags

    # ------------------------------------------------------------ text <-> ids
    def encode(self, text: bytes) -> list[int]:
        """Text tokens that write exactly ``text``.

        The tokenizer's own segmentation where there is a tokenizer; the longest match from the left
        where there is none, or for bytes that are not UTF-8, or where the tokenizer would write anything else
        than ``text`` (normalisation); the fewest tokens where the longest match gets stuck.

        Raises:
            VocabularyError: these tokens cannot write ``text``.
        """
        if self._encode is None:
            return self._greedy(text)
        ids: list[int] = []
        for part in _INVALID.split(text.decode("utf-8", "surrogateescape")):
            data = part.encode("utf-8", "surrogateescape")
            canonical = list(self._encode(part)) if part and not _INVALID.match(part) else []
            if canonical and all(map(self.is_text, canonical)) and b"".join(self.tokens[i] for i in canonical) == data:
                ids += canonical
            else:
                ids += self._greedy(data)
        return ids

    def _greedy(self, text: bytes) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(text):
            for end in range(min(len(text), at + self._longest.get(text[at : at + 2], 1)), at, -1):
                found = self._ids.get(text[at:end])
                if found is not None:
                    ids.append(found)
                    at = end
                    break
            else:
                return self.fewest_tokens(text)
        return ids

    @cached_property
    def _longest(self) -> dict[bytes, int]:
        """Length of the longest text token behind each two bytes that one begins with: few of them are nearly as long as the longest."""
        found: dict[bytes, int] = {}
        for token in self._ids:
            length = len(token)
            if length > 1 and length > found.get(token[:2], 1):
                found[token[:2]] = length
        return found

    def fewest_tokens(self, text: bytes) -> list[int]:
        """The segmentation into fewest tokens, by dynamic programming from the end; longer tokens first among equals."""
        n = len(text)
        longest = self._longest
        cost, step = [0.0] * (n + 1), [0] * (n + 1)
        for at in range(n - 1, -1, -1):
            cost[at] = float("inf")
            for end in range(min(n, at + longest.get(text[at : at + 2], 1)), at, -1):
                if cost[end] + 1 < cost[at] and text[at:end] in self._ids:
                    cost[at], step[at] = cost[end] + 1, end
        if cost[0] == float("inf"):
            shown = text if n <= 60 else text[:60] + b"..."
            raise VocabularyError(f"the tokens of this vocabulary cannot write {shown!r}")
        ids, at = [], 0
        while at < n:
            ids.append(self._ids[text[at : step[at]]])
            at = step[at]
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> bytes:
        """The bytes that these ids write; EOS, special and added tokens write nothing unless ``skip_special`` is false."""
        hidden = self._hidden if skip_special else frozenset[int]()
        return b"".join(self.tokens[i] for i in ids if i < self.size and i not in hidden)

    @cached_property
    def _hidden(self) -> frozenset[int]:
        return frozenset((*self.eos_token_ids, *self.special_token_ids))

    # ------------------------------------------------------------ shared lexer, identity
    def lexer(self) -> Lexer:
        """The lexer that every constraint over this vocabulary shares; made on the first call (and anew when full), thread-safe."""
        with self._lock:
            if self._lexer is None or self._lexer.full:
                from .lexer import Lexer

                self._lexer = Lexer(self)
            return self._lexer

    @cached_property
    def digest(self) -> str:
        """See the class."""
        h = hashlib.sha256(b"vocabulary 1")
        for numbers in ([self._width or self.size], self.eos_token_ids, self.special_token_ids, list(map(len, self.tokens))):
            h.update(np.asarray([len(numbers), *numbers], np.int64).tobytes())
        h.update(b"".join(self.tokens))
        return h.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        text, nodes = len(self.trie_tokens), len(self.trie_byte)
        return f"Vocabulary({self.size} tokens, {text} of text, {nodes} trie nodes, eos={self.eos_token_ids})"

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.tokens, self.eos_token_ids, self.special_token_ids, self.trie, self._encode, self._width)
        return type(self).from_parts, arguments
