"""Vocabularies of tokenizers on disk, so that the byte table and the trie are built once per tokenizer and machine.

A file is keyed by the tokenizer's whole content (its tokenizer.json), the EOS ids, the width of the logits
and the version of this format. Files that cannot be read are made anew; where nothing can be written,
nothing is.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from .storage import cache_directory, write_atomically
from .tokenizer_bytes import Continuation
from .trie import Trie

if TYPE_CHECKING:
    from .tokenizer_bytes import Description
    from .vocabulary import Vocabulary

    V = TypeVar("V", bound=Vocabulary)

__all__ = ["stored"]

_FORMAT = 1
_live: weakref.WeakValueDictionary[tuple[type, str], Vocabulary] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def stored(cls: type[V], description: Description, eos: list[int], logits_size: int | None) -> V:
    """The vocabulary of this tokenizer: the one that is alive in the process, or from disk, or built (and then kept on disk)."""
    key = hashlib.sha256(f"{_FORMAT} {eos} {logits_size} {description.digest}".encode()).hexdigest()
    with _lock:
        live = _live.get((cls, key))
        if isinstance(live, cls):
            return live
        directory = cache_directory("vocabulary")
        path = directory / f"{key}.npz" if directory else None
        encode = Continuation(description.backend)
        vocabulary = _load(cls, path, eos, logits_size, encode) if path else None
        if vocabulary is None:
            made = description.table()
            vocabulary = cls(made.tokens, eos, made.special, encode, logits_size, made.avoid)
            if path:
                _save(vocabulary, path)
        _live[cls, key] = vocabulary
        return vocabulary


def _save(vocabulary: Vocabulary, path: Path) -> None:
    trie = vocabulary.trie
    arrays = {
        "bytes": np.frombuffer(b"".join(vocabulary.tokens), np.uint8),
        "length": np.fromiter(map(len, vocabulary.tokens), np.int32, vocabulary.size),
        "special": np.asarray(vocabulary.special_token_ids, np.int32),
        **{name: getattr(trie, name) for name in ("byte", "depth", "end", "first", "tokens")},
    }

    def write(file: IO[bytes]) -> None:
        np.savez(file, **arrays)

    write_atomically(path, write)


def _load(cls: type[V], path: Path, eos: list[int], logits_size: int | None, encode: Continuation) -> V | None:
    """The vocabulary in ``path``, or ``None`` if there is none that can be used."""
    try:
        with np.load(path, allow_pickle=False) as file:
            data: dict[str, npt.NDArray[np.int32]] = {name: file[name] for name in file.files}
        flat, ends = data["bytes"].astype(np.uint8).tobytes(), np.cumsum(data["length"]).tolist()
        tokens = [flat[a:b] for a, b in zip([0, *ends], ends)]
        trie = Trie(data["byte"].astype(np.uint8), data["depth"], data["end"], data["first"], data["tokens"])
        if ends[-1] != len(flat) or len(trie.first) != len(trie.byte) + 1 or trie.first[-1] != len(trie.tokens):
            return None
        return cls.from_parts(tokens, eos, data["special"].tolist(), trie, encode, logits_size)
    except (OSError, EOFError, KeyError, IndexError, ValueError, zipfile.BadZipFile):
        return None
