"""From a Hugging Face tokenizer to the byte string of every id.

The bytes of a token are what it adds to the text when it stands **behind other tokens**. Per family,
with ``bytes(ids)`` for the concatenation over ``tokenizer(text, add_special_tokens=False)``:

===================================  ================================================================================
family                               law
===================================  ================================================================================
byte-level BPE (GPT-2, tiktoken,     ``bytes(ids) == text``; with ``add_prefix_space``, a text that does not begin
tekken)                              with a blank gets one in front
SentencePiece (BPE or Unigram with   ``bytes(ids) == text``, with one blank in front where the tokenizer adds a prefix
metaspace)                           space; U+2581 itself reads as a blank; without byte fallback only for text that
                                     consists of known characters (others become the unknown token)
WordPiece, WordLevel                 ``bytes(ids)`` is a blank and the decoded text without clean-up: each word that
                                     does not continue another one brings a blank
word-end BPE (``</w>``)              a blank behind every word
===================================  ================================================================================

A normalizer (lower-casing, NFC, NFKC ...) is applied to the text first. Added tokens, special or not,
keep their content as bytes, but they never match as text; the same holds for the unknown token. Python-only tokenizers are in
:mod:`grammars.tokenizer_python`, the store on disk in :mod:`grammars.tokenizer_store`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from .errors import VocabularyError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from .vocabulary import Vocabulary

    V = TypeVar("V", bound=Vocabulary)

__all__ = ["BYTE_OF_CHARACTER", "Continuation", "Description", "TokenTable", "describe", "table_of_description", "vocabulary_of"]


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 characters stand for their own byte, the other bytes for U+0100 onwards, in order."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(0x100 + i): b for i, b in enumerate(others)}


BYTE_OF_CHARACTER = _byte_level_alphabet()
METASPACE = "▁"
_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass
class TokenTable:
    """What is read off a tokenizer.

    Attributes:
        tokens: bytes of each id, ``b""`` for holes.
        special: ids that never match as text.
        avoid: byte-fallback ids (they repeat what other tokens write).
    """

    tokens: list[bytes]
    special: set[int] = field(default_factory=set)
    avoid: set[int] = field(default_factory=set)


def byte_level(token: str) -> bytes:
    """Bytes of a byte-level BPE token; ``b""`` if it is none (such an entry can never be produced)."""
    try:
        return bytes([BYTE_OF_CHARACTER[c] for c in token])
    except KeyError:
        return b""


# ---------------------------------------------------------------- fast tokenizers: the structure of tokenizer.json
def parts(component: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The members of a normalizer, pre-tokenizer or decoder, sequences taken apart."""
    if component is None:
        return
    if component.get("type") == "Sequence":
        for key in ("normalizers", "pretokenizers", "decoders"):
            for member in component.get(key, ()):
                yield from parts(member)
    else:
        yield component


def _find(component: dict[str, Any] | None, kind: str) -> dict[str, Any] | None:
    return next((part for part in parts(component) if part.get("type") == kind), None)


def _replacements(spec: dict[str, Any]) -> dict[str, str]:
    """What stands for what in tokens: the metaspace, and the fixed strings that the decoder replaces."""
    found: dict[str, str] = {}
    for component in (spec["pre_tokenizer"], spec["decoder"]):
        metaspace = _find(component, "Metaspace")
        if metaspace:
            found[metaspace.get("replacement", METASPACE)] = " "
    for part in parts(spec["decoder"]):
        if part["type"] == "Replace" and part["pattern"].get("String"):
            found[part["pattern"]["String"]] = part["content"]
    for part in parts(spec["normalizer"]):
        if part["type"] == "Replace" and part["pattern"].get("String") == " " and part["content"].strip():
            found.setdefault(part["content"], " ")
    return found


def _reader(spec: dict[str, Any]) -> Callable[[str], bytes]:
    """The function from the vocabulary's strings to bytes that this tokenizer.json implies."""
    model, decoder = spec["model"], spec["decoder"]
    suffix = model.get("end_of_word_suffix") or (_find(decoder, "BPEDecoder") or {}).get("suffix") or ""
    if _find(decoder, "CTC"):
        raise VocabularyError("the tokenizer has a CTC decoder (speech recognition): its tokens have no byte strings of their own")
    if _find(decoder, "ByteLevel") or _find(spec["pre_tokenizer"], "ByteLevel"):
        return lambda token: byte_level(token.removesuffix(suffix)) + b" " if suffix and token.endswith(suffix) else byte_level(token)
    pieces = _find(decoder, "WordPiece")
    if pieces or model["type"] == "WordPiece":
        prefix = (pieces or {}).get("prefix") or model.get("continuing_subword_prefix") or "##"
        return lambda token: token.removeprefix(prefix).encode() if token.startswith(prefix) else b" " + token.encode()
    if model["type"] == "WordLevel" and decoder is None:
        return lambda token: b" " + token.encode()
    return _piece_reader(_replacements(spec), _falls_back(spec), suffix)


def _falls_back(spec: dict[str, Any]) -> bool:
    return bool(spec["model"].get("byte_fallback")) or _find(spec["decoder"], "ByteFallback") is not None


def _piece_reader(replacements: dict[str, str], fallback: bool, suffix: str) -> Callable[[str], bytes]:
    def read(token: str) -> bytes:
        match = _FALLBACK.fullmatch(token) if fallback else None
        if match:
            return bytes([int(match[1], 16)])
        for old, new in replacements.items():
            token = token.replace(old, new)
        if suffix and token.endswith(suffix):
            token = token.removesuffix(suffix) + " "
        return token.encode("utf-8", "surrogatepass")

    return read


def table_of_description(spec: dict[str, Any]) -> TokenTable:
    """The token table of a parsed ``tokenizer.json``."""
    model, read = spec["model"], _reader(spec)
    entries = model["vocab"]
    vocab: dict[str, int] = entries if isinstance(entries, dict) else {piece: i for i, (piece, _) in reversed(list(enumerate(entries)))}
    repeated = [] if isinstance(entries, dict) else [(piece, i) for i, (piece, _) in enumerate(entries) if vocab[piece] != i]
    size = 1 + max([*vocab.values(), *(i for _, i in repeated), *(a["id"] for a in spec["added_tokens"])], default=-1)
    table = TokenTable([b""] * size)
    fallback = _falls_back(spec)
    for piece, i in [*vocab.items(), *repeated]:
        table.tokens[i] = read(piece)
        if fallback and _FALLBACK.fullmatch(piece):
            table.avoid.add(i)
    unknown = model.get("unk_id") if model["type"] == "Unigram" else vocab.get(model.get("unk_token") or "")
    if unknown is not None:
        table.special.add(unknown)
    for added in spec["added_tokens"]:
        table.tokens[added["id"]] = added["content"].encode("utf-8", "surrogatepass")
        table.special.add(added["id"])
    return table


def _without_prefix(component: dict[str, Any] | None) -> dict[str, Any] | None:
    """The normalizer or pre-tokenizer without what it puts in front of a text."""
    if component is None or component["type"] == "Prepend":
        return None
    edited = dict(component)
    if component["type"] == "Sequence":
        key = next(k for k in ("normalizers", "pretokenizers") if k in component)
        edited[key] = [member for member in map(_without_prefix, component[key]) if member is not None]
    elif component["type"] == "Metaspace":
        edited["prepend_scheme"] = "never"
    elif component["type"] == "ByteLevel":
        edited["add_prefix_space"] = False
    return edited


class Continuation:
    """``encode`` of a fast tokenizer for text that continues other text.

    Nothing is put in front (no prefix space), no special token is added, and none is recognised in the text.
    It shares the model of the tokenizer; whether the result writes the text is for the caller to check.
    """

    def __init__(self, backend: Tokenizer) -> None:
        self.backend = backend

    @cached_property
    def _bare(self) -> Tokenizer:
        from tokenizers import Tokenizer

        normalizer, pre_tokenizer = (_state(part) for part in (self.backend.normalizer, self.backend.pre_tokenizer))
        if not _find(pre_tokenizer, "WhitespaceSplit"):  # after it, the prefix stands for the blank between words
            normalizer, pre_tokenizer = _without_prefix(normalizer), _without_prefix(pre_tokenizer)
        empty: dict[str, Any] = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "vocab": {}, "merges": []}
        shell: dict[str, Any] = {"version": "1.0", "added_tokens": [], "post_processor": None, "decoder": None, "model": empty}
        described = Tokenizer.from_str(json.dumps(shell | {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}))
        bare = Tokenizer(self.backend.model)
        if described.normalizer is not None:
            bare.normalizer = described.normalizer
        if described.pre_tokenizer is not None:
            bare.pre_tokenizer = described.pre_tokenizer
        return bare

    def __call__(self, text: str) -> list[int]:
        return list(self._bare.encode(text, add_special_tokens=False).ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return Continuation, (self.backend,)


def _state(component: Any) -> dict[str, Any] | None:
    """A component's part of tokenizer.json, which is what it is pickled as."""
    return None if component is None else json.loads(_dump(component))


# ---------------------------------------------------------------- any tokenizer
class Description:
    """The content of a fast tokenizer: a digest of its tokenizer.json, and the JSON itself when it is needed.

    Writing the JSON out takes a large part of a second, so the digest is kept for as long as the tokenizer
    lives and its size and small parts stay as they are.
    """

    _digests: ClassVar[WeakKeyDictionary[Tokenizer, tuple[tuple[Any, ...], str]]] = WeakKeyDictionary()

    def __init__(self, backend: Tokenizer) -> None:
        self.backend = backend
        small = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
        stamp = (backend.get_vocab_size(), backend.get_vocab_size(False), type(backend.model), *map(_dump, small))
        known = self._digests.get(backend)
        self._text: str | None = None
        if known is None or known[0] != stamp:
            self._text = backend.to_str()
            known = stamp, hashlib.sha256(self._text.encode("utf-8", "surrogatepass")).hexdigest()
            self._digests[backend] = known
        self.digest = known[1]

    def table(self) -> TokenTable:
        """The token table, read off the JSON."""
        return table_of_description(json.loads(self._text or self.backend.to_str()))


def _dump(component: Any) -> bytes:
    return b"" if component is None else component.__getstate__()


def describe(tokenizer: Any) -> Description | None:
    """What is behind a fast tokenizer, or ``None`` for a tokenizer that is written, also in part, in Python."""
    from tokenizers import Tokenizer

    candidates = (tokenizer, getattr(tokenizer, "backend_tokenizer", None), getattr(tokenizer, "_tokenizer", None))
    backend = next((c for c in candidates if isinstance(c, Tokenizer)), None)
    if backend is None:
        return None
    try:
        return Description(backend)
    except Exception:  # parts written in Python cannot be serialised; tokenizers raises plain Exception
        return None


def _ids(value: Any) -> list[int]:
    if value is None:
        return []
    return [int(i) for i in value] if isinstance(value, Iterable) else [int(value)]


def vocabulary_of(cls: type[V], tokenizer: Any, logits_size: int | None, eos_token_ids: Iterable[int] | int | None) -> V:
    """See :meth:`grammars.vocabulary.Vocabulary.from_tokenizer`."""
    from .tokenizer_python import encoder_of, table_of_python
    from .tokenizer_store import stored

    eos = sorted({*_ids(getattr(tokenizer, "eos_token_id", None)), *_ids(eos_token_ids)})
    if not eos:
        raise VocabularyError(f"{type(tokenizer).__name__} has no EOS token: give eos_token_ids")
    fast = describe(tokenizer)
    if fast is not None:
        return stored(cls, fast, eos, logits_size)
    table = table_of_python(tokenizer)
    return cls(table.tokens, eos, table.special, encoder_of(tokenizer), logits_size, table.avoid)
