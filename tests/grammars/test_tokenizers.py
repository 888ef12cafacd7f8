"""Vocabularies of tokenizers: the law of every family, the store on disk."""

from __future__ import annotations

import pickle
import random
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast

from grammars import tokenizer_bytes, tokenizer_store
from grammars.errors import VocabularyError
from grammars.vocabulary import Vocabulary
from tests.tokenizers import BYTE_OF_CHARACTER, CORPUS, FAMILIES, NASTY, SPECIAL, gpt2, llama, package_file, unigram

TEXT = settings(derandomize=True, max_examples=150, deadline=None)
BLANKS = st.text(" \t\n\r0123456789ab.", max_size=20)
texts = st.one_of(st.text(max_size=30), BLANKS, st.sampled_from(NASTY), st.sampled_from(CORPUS))


@cache
def family(name: str) -> tuple[PreTrainedTokenizerFast, Vocabulary]:
    tokenizer = FAMILIES[name]()
    return tokenizer, Vocabulary.from_tokenizer(tokenizer)


def written(tokenizer: Any, vocabulary: Vocabulary, text: str) -> bytes:
    return b"".join(vocabulary.tokens[i] for i in tokenizer(text, add_special_tokens=False).input_ids)


def plain(text: str) -> bool:
    return not any(token in text for token in SPECIAL)


# ---------------------------------------------------------------- laws
@pytest.mark.parametrize("name", ["tekken", "deepseek"])
@settings(derandomize=True, max_examples=300, deadline=None)
@given(text=texts)
def test_law_of_big_byte_level_tokenizers(name: str, text: str, request: pytest.FixtureRequest) -> None:
    vocabulary, tokenizer = request.getfixturevalue(f"{name}_vocab"), request.getfixturevalue(f"{name}_tokenizer")
    assert written(tokenizer, vocabulary, text) == text.encode()


@settings(derandomize=True, max_examples=300, deadline=None)
@given(text=texts)
def test_law_of_smollm2(smollm2_tokenizer: Any, smollm2_vocab: Vocabulary, text: str) -> None:
    """Bytes without a token are dropped by the tokenizer; everything else comes through."""
    missing = bytes(b for b in range(256) if not smollm2_vocab.writable_bytes >> b & 1)
    data = text.encode()
    assert written(smollm2_tokenizer, smollm2_vocab, text) == data.translate(None, missing)
    if set(missing) & set(data):
        with pytest.raises(VocabularyError, match="cannot write"):
            smollm2_vocab.encode(data)
    else:
        assert smollm2_vocab.decode(smollm2_vocab.encode(data)) == data


@pytest.mark.parametrize("name", ["gpt2", "tiktoken", "llama-never"])
@TEXT
@given(text=texts)
def test_law_exact(name: str, text: str) -> None:
    tokenizer, vocabulary = family(name)
    expected = text.replace("▁", " ") if name.startswith("llama") else text
    assert written(tokenizer, vocabulary, text) == expected.encode()


@TEXT
@given(text=texts)
def test_law_normalised(text: str) -> None:
    tokenizer, vocabulary = family("gpt2-nfc")
    assert written(tokenizer, vocabulary, text) == unicodedata.normalize("NFC", text).encode()


@pytest.mark.parametrize("name", ["gpt2-prefix", "llama-first", "unigram-bytes"])
@TEXT
@given(text=texts.filter(plain))
def test_law_prefix_space_unless_there_is_one(name: str, text: str) -> None:
    """A text that spells the name of a byte token is that byte for Unigram tokenizers; their decoder agrees."""
    tokenizer, vocabulary = family(name)
    if name.startswith("unigram"):
        text = text.replace("<0x", "0x")
    read = text if name.startswith("gpt2") else text.replace("▁", " ")
    expected = read if not read or read.startswith(" ") else " " + read
    assert written(tokenizer, vocabulary, text) == expected.encode()


@TEXT
@given(text=texts.filter(plain))
def test_law_prefix_space_always(text: str) -> None:
    tokenizer, vocabulary = family("llama-legacy")
    assert written(tokenizer, vocabulary, text) == (" " + text.replace("▁", " ") if text else "").encode()


@TEXT
@given(text=st.one_of(texts, st.text("".join(sorted(set("".join(CORPUS)))), max_size=30)))
def test_law_of_unigram_without_fallback(text: str) -> None:
    tokenizer, vocabulary = family("unigram")
    ids = tokenizer(text, add_special_tokens=False).input_ids
    if not set(ids) & set(vocabulary.special_token_ids):
        read = text.replace("▁", " ")
        assert vocabulary.decode(ids) == (read if not read or read.startswith(" ") else " " + read).encode()


@TEXT
@given(text=st.one_of(texts, st.text('the quickbrown12,.!{}": ', max_size=30)))
def test_law_of_word_pieces(text: str) -> None:
    tokenizer, vocabulary = family("wordpiece")
    ids = tokenizer(text, add_special_tokens=False).input_ids
    if ids and not set(ids) & set(vocabulary.special_token_ids):
        decoded = tokenizer.backend_tokenizer.decode(ids)
        assert vocabulary.decode(ids) == b" " + decoded.encode()


@TEXT
@given(words=st.lists(st.sampled_from(["the", "quick", "brown", "fox", "lazy", "dog", "1", "{}", ":"]), max_size=8))
def test_law_of_word_ends(words: list[str]) -> None:
    tokenizer, vocabulary = family("clip")
    ids = tokenizer(" ".join(words), add_special_tokens=False).input_ids
    if not set(ids) & set(vocabulary.special_token_ids):
        assert vocabulary.decode(ids) == "".join(word + " " for word in words).encode()


# ---------------------------------------------------------------- encode: canonical, for text that continues other text
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("clip", "unigram", "wordpiece")])
@TEXT
@given(text=texts)
def test_encode_writes_exactly_the_text(name: str, text: str) -> None:
    _, vocabulary = family(name)
    ids = vocabulary.encode(text.encode())
    assert vocabulary.decode(ids) == text.encode()


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("clip", "wordpiece", "llama-legacy")])
def test_encode_is_the_tokenizers_own_behind_a_blank(name: str) -> None:
    """Where the text begins with a blank no prefix is added, so the tokenizer's own answer is the canonical one."""
    tokenizer, vocabulary = family(name)
    for text in (" the quick brown fox", " lazy dog", ' {"name": "Ada"'):
        assert vocabulary.encode(text.encode()) == tokenizer(text, add_special_tokens=False).input_ids


def test_encode_adds_no_prefix_space() -> None:
    for name in ("llama-legacy", "llama-first", "unigram-bytes", "gpt2-prefix"):
        _, vocabulary = family(name)
        ids = vocabulary.encode(b"the quick")
        assert vocabulary.tokens[ids[0]][:1] == b"t" and vocabulary.decode(ids) == b"the quick"


@pytest.mark.parametrize("name", FAMILIES)
def test_special_tokens_never_match(name: str) -> None:
    tokenizer, vocabulary = family(name)
    for token in SPECIAL:
        i = tokenizer.convert_tokens_to_ids(token)
        assert vocabulary.tokens[i] == token.encode() and not vocabulary.is_text(i)
    assert vocabulary.eos_token_ids == [2]
    if name not in ("clip", "unigram", "wordpiece"):
        ids = vocabulary.encode(b"a</s>b")
        assert 2 not in ids and vocabulary.decode(ids) == b"a</s>b"


# ---------------------------------------------------------------- details
def test_added_tokens_and_holes() -> None:
    tokenizer = gpt2()
    tokenizer.add_tokens([AddedToken("    ", normalized=False), AddedToken("plain")])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end|>"]})
    size = len(tokenizer)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, logits_size=size + 37, eos_token_ids=[size - 1])
    assert vocabulary.size == size and vocabulary.logits_size == size + 37
    assert vocabulary.eos_token_ids == [2, size - 1]
    assert [vocabulary.is_text(i) for i in range(size - 3, size)] == [False] * 3
    assert written(tokenizer, vocabulary, "x    plain") == b"x    plain"
    assert all(map(vocabulary.is_text, vocabulary.encode(b"x    plain")))

    gap = Tokenizer(models.BPE(vocab={"a": 0, "b": 5, "</s>": 9}, merges=[]))
    found = Vocabulary.from_tokenizer(gap, eos_token_ids=[9])
    assert found.size == 10 and found.trie_tokens.tolist() == [0, 5]


def test_byte_tokens_come_after_the_characters_that_they_repeat() -> None:
    for tokenizer in (llama(), unigram()):
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        plain_id, fallback = tokenizer.convert_tokens_to_ids("a"), tokenizer.convert_tokens_to_ids("<0x61>")
        assert vocabulary.tokens[plain_id] == vocabulary.tokens[fallback] == b"a"
        assert vocabulary._greedy(b"a") == [plain_id]
        assert vocabulary.is_text(fallback)
        assert vocabulary.writable_bytes == (1 << 256) - 1


def test_byte_names_are_text_without_byte_fallback() -> None:
    backend = Tokenizer(models.BPE(vocab={"<0x41>": 0, "A": 1, "</s>": 2}, merges=[]))
    assert Vocabulary.from_tokenizer(backend, eos_token_ids=[2]).tokens[0] == b"<0x41>"


def test_word_level_words_bring_a_blank() -> None:
    backend = Tokenizer(models.WordLevel(vocab={"a": 0, "b": 1, "<unk>": 2}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    vocabulary = Vocabulary.from_tokenizer(backend, eos_token_ids=[2])
    assert vocabulary.decode(backend.encode("a  b").ids) == b" a b"


def test_no_eos_and_unknown_decoder_are_refused() -> None:
    backend = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    with pytest.raises(VocabularyError, match="eos_token_ids"):
        Vocabulary.from_tokenizer(backend)
    backend.decoder = decoders.CTC()
    with pytest.raises(VocabularyError, match="CTC"):
        Vocabulary.from_tokenizer(backend, eos_token_ids=[1])


def test_vocabulary_with_its_tokenizer_can_be_pickled() -> None:
    _, vocabulary = family("llama-first")
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert copy == vocabulary
    for text in NASTY:
        assert copy.encode(text.encode()) == vocabulary.encode(text.encode())


# ---------------------------------------------------------------- the store on disk
@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path))
    monkeypatch.setattr(tokenizer_store, "_live", type(tokenizer_store._live)())
    return tmp_path


def again(tokenizer: Any, **options: Any) -> Vocabulary:
    tokenizer_store._live.clear()
    return Vocabulary.from_tokenizer(tokenizer, **options)


def test_store_hands_back_the_same_content(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for make in (gpt2, llama, lambda: family("wordpiece")[0]):
        tokenizer = make()
        built = again(tokenizer)
        monkeypatch.setattr(tokenizer_bytes, "table_of_description", lambda spec: pytest.fail("built again"))
        loaded = again(tokenizer)
        monkeypatch.undo()
        monkeypatch.setenv("GUIDED_CACHE", str(store))
        assert loaded is not built and loaded == built and loaded.special_token_ids == built.special_token_ids
        for name in ("trie_byte", "trie_depth", "trie_end", "trie_first", "trie_tokens"):
            a, b = getattr(loaded, name), getattr(built, name)
            assert a.dtype == b.dtype and a.tolist() == b.tolist()
        assert loaded.encode(b"the quick brown") == built.encode(b"the quick brown")


def test_store_shares_what_is_alive(store: Path) -> None:
    tokenizer = gpt2()
    first = Vocabulary.from_tokenizer(tokenizer)
    assert Vocabulary.from_tokenizer(tokenizer) is first
    assert Vocabulary.from_tokenizer(tokenizer, logits_size=700) is not first
    assert Vocabulary.from_tokenizer(tokenizer, eos_token_ids=[1]) is not first
    tokenizer.add_tokens(["new"])
    assert Vocabulary.from_tokenizer(tokenizer).size == first.size + 1
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert Vocabulary.from_tokenizer(tokenizer) is not first


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive", None])
def test_damaged_files_are_made_anew(store: Path, damage: bytes | None) -> None:
    tokenizer = gpt2()
    built = again(tokenizer)
    (file,) = (store / "vocabulary").iterdir()
    good = file.read_bytes()
    middle = len(good) // 2
    file.write_bytes(good[:middle] + bytes(64) + good[middle + 64 :] if damage is None else damage)
    assert again(tokenizer) == built
    assert file.read_bytes() == good


def test_no_place_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "file" / "below"))
    tokenizer = gpt2()
    assert again(tokenizer).size == len(tokenizer)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# ---------------------------------------------------------------- tokenizers in Python
class WordTokenizer(PreTrainedTokenizer):
    """A Python tokenizer with pieces of its own; ``style`` says how it writes word starts or ends."""

    def __init__(self, style: str, **options: Any) -> None:
        self.style = style
        words = re.findall(
            r"\w+|[^\w\s]",
            " ".join(CORPUS) + " cat sat on mat man and house it is 12 or 345 Hello World yes x naïve café 中文 🙂 a in !(),;=[]",
        )
        letters = sorted({c for word in words for c in word})
        strings = [token for unit in [*words, *letters] for token in (self.mark(unit, True), self.mark(unit, False))]
        self.vocab = {token: i for i, token in enumerate(dict.fromkeys(["<unk>", "</s>", *strings]))}
        super().__init__(unk_token="<unk>", eos_token="</s>", **options)

    def mark(self, unit: str, whole: bool) -> str:
        """``unit`` as a whole word, or as a piece of the word inside which it stands."""
        if self.style == "##":
            return unit if whole else "##" + unit
        if self.style == "▁":
            return "▁" + unit if whole else unit
        if self.style == "</w>":
            return unit + "</w>" if whole else unit
        return unit if whole else unit + "@@"

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.vocab)

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        tokens = []
        for chunk in text.split():
            units = re.findall(r"\w+|[^\w\s]", chunk)
            whole = 0 if self.style in ("##", "▁") else len(units) - 1
            tokens += [self.mark(unit, i == whole) for i, unit in enumerate(units)]
        return tokens

    def _convert_token_to_id(self, token: str) -> int:
        return self.vocab.get(token, 0)

    def _convert_id_to_token(self, index: int) -> str:
        return next(token for token, i in self.vocab.items() if i == index)


@pytest.mark.parametrize("style", ["##", "▁", "</w>", "@@"])
def test_python_tokenizers_are_read_by_trial(style: str) -> None:
    tokenizer = WordTokenizer(style)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    text = "Hello World! (the quick fox)"
    data = vocabulary.decode(tokenizer.encode(text, add_special_tokens=False))
    assert data.strip() == text.encode() and len(data) == len(text) + 1
    assert vocabulary.eos_token_ids == [1] and not vocabulary.is_text(0)


def test_byt5() -> None:
    from transformers import ByT5Tokenizer

    tokenizer = ByT5Tokenizer()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, logits_size=384)
    assert vocabulary.writable_bytes == (1 << 256) - 1 and vocabulary.eos_token_ids == [1]
    for text in NASTY:
        if plain(text):
            assert written(tokenizer, vocabulary, text) == text.encode()
            assert vocabulary.encode(text.encode()) == tokenizer.encode(text, add_special_tokens=False)


def test_unreadable_tokenizers_are_refused() -> None:
    class Secret(WordTokenizer):
        def mark(self, unit: str, whole: bool) -> str:
            return unit[::-1] + "~"

    with pytest.raises(VocabularyError, match="cannot tell which bytes"):
        Vocabulary.from_tokenizer(Secret("##"))
    with pytest.raises(VocabularyError, match="is not a tokenizer"):
        Vocabulary.from_tokenizer(object(), eos_token_ids=[0])


@pytest.mark.slow
def test_mistral_common_backend(tekken_tokenizer: Any, tekken_vocab: Vocabulary) -> None:
    from transformers.tokenization_mistral_common import MistralCommonBackend

    tokenizer = MistralCommonBackend(str(package_file("mistral_common", "data/tekken_240911.json")))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.eos_token_ids == tekken_vocab.eos_token_ids
    assert vocabulary.trie_tokens.tolist() == tekken_vocab.trie_tokens.tolist()
    assert vocabulary.tokens[1000:] == tekken_vocab.tokens[1000:]
    for text in NASTY:
        if plain(text):
            assert vocabulary.encode(text.encode()) == tekken_vocab.encode(text.encode())


def test_tiktoken_engine() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    entries = gpt2().backend_tokenizer.get_vocab(with_added_tokens=False)
    words = [bytes(BYTE_OF_CHARACTER[c] for c in t) for t, _ in sorted(entries.items(), key=lambda e: e[1]) if t not in SPECIAL]
    ranks = {word: i for i, word in enumerate(words)}
    engine = tiktoken.Encoding("test", pat_str=r"\s?\w+|\s+|[^\s\w]+", mergeable_ranks=ranks, special_tokens={"<|end|>": len(words) + 5})
    vocabulary = Vocabulary.from_tokenizer(engine, eos_token_ids=[len(words) + 5])
    assert vocabulary.size == len(words) + 6 and not any(vocabulary.is_text(i) for i in range(len(words), len(words) + 6))
    for text in [*NASTY, "a<|end|>b"]:
        assert vocabulary.encode(text.encode()) == engine.encode_ordinary(text)
        assert vocabulary.decode(engine.encode_ordinary(text)) == text.encode()


class Pieces:
    """What a SentencePiece model answers, for a fixed list of pieces."""

    pieces = ("<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁a", "b", "▁", "unused")

    def get_piece_size(self) -> int:
        return len(self.pieces)

    def id_to_piece(self, i: int) -> str:
        return self.pieces[i]

    def is_byte(self, i: int) -> bool:
        return 3 <= i < 259

    def is_unknown(self, i: int) -> bool:
        return i == 0

    def is_control(self, i: int) -> bool:
        return i in (1, 2)

    def is_unused(self, i: int) -> bool:
        return i == 262


class SentencePieces:
    """A tokenizer around such a model."""

    sp_model = Pieces()
    eos_token_id = 2
    added_tokens_decoder = {263: AddedToken("<extra>")}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [259, 260] if text == " ab" else [0]


def test_sentencepiece_models() -> None:
    vocabulary = Vocabulary.from_tokenizer(SentencePieces())
    assert vocabulary.tokens[259:262] == [b" a", b"b", b" "] and vocabulary.tokens[3 + 0xE9] == b"\xe9"
    assert [i for i in range(vocabulary.size) if not vocabulary.is_text(i)] == [0, 1, 2, 262, 263]
    assert vocabulary.encode(b" ab") == [259, 260] and vocabulary.encode(b"b ") == [260, 261]


def test_random_orders_of_ids_do_not_matter(byte_vocab: Vocabulary) -> None:
    order = list(range(byte_vocab.size))
    random.Random(1).shuffle(order)
    where = {old: new for new, old in enumerate(order)}
    shuffled = Vocabulary([byte_vocab.tokens[i] for i in order], [where[258]], [where[256], where[257]])
    assert sorted(order[i] for i in shuffled.trie_tokens.tolist()) == sorted(byte_vocab.trie_tokens.tolist())
    assert shuffled.trie_byte.tolist() == byte_vocab.trie_byte.tolist() and shuffled.writable_bytes == byte_vocab.writable_bytes
