"""Vocabularies: the trie, what can be written, text to ids and back."""

from __future__ import annotations

import pickle
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import VocabularyError
from grammars.trie import build_trie
from grammars.utf8 import character_range, partial_tail, unsafe_tails, writable_ranges
from grammars.vocabulary import Vocabulary
from tests.tokenizers import NASTY, random_vocabulary

SMALL = settings(derandomize=True, max_examples=60, deadline=None)


def paths(vocabulary: Vocabulary) -> list[bytes]:
    """The bytes of every trie node, by the definition of preorder with depths."""
    found = [b""]
    for byte, depth in zip(vocabulary.trie_byte[1:].tolist(), vocabulary.trie_depth[1:].tolist()):
        parent = next(p for p in reversed(found) if len(p) == depth - 1)
        found.append(parent + bytes([byte]))
    return found


# ---------------------------------------------------------------- the trie
@SMALL
@given(st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=40))
def test_trie_is_the_sorted_set_of_prefixes(tokens: list[bytes]) -> None:
    vocabulary = Vocabulary([*tokens, b"</s>"], [len(tokens)])
    kept = [i for i in range(len(tokens)) if vocabulary.is_text(i)]
    nodes = paths(vocabulary)
    assert nodes == sorted({tokens[i][:k] for i in kept for k in range(len(tokens[i]) + 1)})
    for n, path in enumerate(nodes):
        assert vocabulary.trie_depth[n] == len(path)
        ids = vocabulary.trie_tokens[vocabulary.trie_first[n] : vocabulary.trie_first[n + 1]].tolist()
        assert ids == [i for i in kept if tokens[i] == path]
        subtree = [m for m, other in enumerate(nodes) if other.startswith(path)]
        assert (subtree[0], subtree[-1] + 1) == (n, vocabulary.trie_end[n])


def test_trie_dtypes_and_shapes(byte_vocab: Vocabulary) -> None:
    n = len(byte_vocab.trie_byte)
    assert byte_vocab.trie_byte.dtype == np.uint8
    for array in (byte_vocab.trie_depth, byte_vocab.trie_end, byte_vocab.trie_first, byte_vocab.trie_tokens):
        assert array.dtype == np.int32 and array.flags.c_contiguous and not array.flags.writeable
    assert len(byte_vocab.trie_depth) == len(byte_vocab.trie_end) == len(byte_vocab.trie_first) - 1 == n
    assert byte_vocab.trie_first[-1] == len(byte_vocab.trie_tokens)
    assert byte_vocab.trie_end[0] == n


def test_special_eos_empty_and_padding_ids_are_not_text(byte_vocab: Vocabulary) -> None:
    assert not {256, 257, 258, 259} & set(byte_vocab.trie_tokens.tolist())
    assert sorted([*byte_vocab.trie_tokens.tolist(), 256, 257, 258, 259]) == list(range(byte_vocab.size))
    wide = Vocabulary(byte_vocab.tokens, [258], [256], logits_size=1000)
    assert (wide.size, wide.logits_size, wide.words) == (byte_vocab.size, 1000, 32)
    narrow = Vocabulary(byte_vocab.tokens, [258], [256], logits_size=262)
    assert narrow.logits_size == narrow.size and max(narrow.trie_tokens) == 261


def test_duplicates_share_a_node_in_order_of_preference() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"a", b"", b"a"], [3], avoid=[0])
    assert vocabulary.trie_tokens.tolist() == [2, 4, 0, 1]
    assert vocabulary.encode(b"aab") == [2, 2, 1]


@pytest.mark.parametrize(
    ("tokens", "eos", "special", "reason"),
    [
        ([b"a"], [], [], "eos_token_ids"),
        ([b"a"], [1], [], "outside"),
        ([b"a", b"b"], [1], [-1], "outside"),
        ([b"a", b""], [0], [], "no text token"),
        (["a", b""], [1], [], "not bytes"),
    ],
)
def test_bad_arguments(tokens: list[bytes], eos: list[int], special: list[int], reason: str) -> None:
    with pytest.raises(VocabularyError, match=reason):
        Vocabulary(tokens, eos, special)


def test_build_trie_of_nothing_is_a_root() -> None:
    trie = build_trie([b""], [])
    assert (trie.byte.tolist(), trie.depth.tolist(), trie.end.tolist(), trie.first.tolist(), trie.tokens.tolist()) == (
        [0],
        [0],
        [1],
        [0, 0],
        [],
    )


# ---------------------------------------------------------------- what can be written
def test_character_range_agrees_with_python() -> None:
    prefixes: dict[bytes, tuple[int, int]] = {}
    ends = [code for block in range(0x800, 0x110000, 64) for code in (block, block + 63) if not 0xD800 <= code < 0xE000]
    for code in [*range(0x800), *ends]:  # ranges of longer prefixes begin and end with a block of 64
        data = chr(code).encode()
        for k in range(1, len(data) + 1):
            lo, _ = prefixes.get(data[:k], (code, code))
            prefixes[data[:k]] = lo, code
    assert all(character_range(prefix) == found for prefix, found in prefixes.items())
    for prefix in map(bytes, [*product(range(256)), *product(range(0x80, 256), range(256))]):
        assert (character_range(prefix) is None) == (prefix not in prefixes)


def test_partial_tail() -> None:
    assert [partial_tail(data) for data in (b"", b"a", b"a\xc3", "é".encode(), b"x\xe2\x82", b"\xf0\x9f\x99", b"\x99")] == [
        b"",
        b"",
        b"\xc3",
        b"",
        b"\xe2\x82",
        b"\xf0\x9f\x99",
        b"",
    ]
    assert [partial_tail(data) for data in (b"\xc0", b"\xed\xa0", b"\xe0\x80", b"\xff", b"\xf4\x90", b"\xf5")] == [b""] * 6


def test_writable_of_byte_tokens(byte_vocab: Vocabulary) -> None:
    assert byte_vocab.writable_bytes == (1 << 256) - 1
    assert list(byte_vocab.writable) == [(0, 0xD7FF), (0xE000, 0x10FFFF)]


def test_writable_without_some_bytes() -> None:
    tokens = [bytes([b]) for b in range(256) if b not in (0x04, 0xF1)] + [b"\xf2\x80", b"</s>"]
    vocabulary = Vocabulary([t for t in tokens if t != b"\xf2"], [len(tokens) - 2])
    assert not vocabulary.writable_bytes >> 0x04 & 1 and not vocabulary.writable_bytes >> 0xF1 & 1
    assert writable_ranges(vocabulary._ids.keys()) == [(0, 3), (5, 0xD7FF), (0xE000, 0x3FFFF), (0x80000, 0x80FFF), (0xC0000, 0x10FFFF)]


def test_writable_of_whole_characters_only() -> None:
    vocabulary = Vocabulary([b"a", "é".encode(), "日".encode(), b"a\xc3", b"\xa9", b"</s>"], [5])
    assert writable_ranges(vocabulary._ids.keys()) == [(0x61, 0x61), (0xE9, 0xE9), (0x65E5, 0x65E5)]
    assert vocabulary.is_text(3)  # "é" can be completed behind it
    assert unsafe_tails(["日".encode(), b"\x97"]) == {b"\xe6", b"\xe6\x97"}
    stuck = Vocabulary([b"a", "è".encode(), b"a\xc3", b"\xa9", b"</s>"], [4])
    assert not stuck.is_text(2)  # "è" could not


@pytest.mark.parametrize("seed", range(30))
def test_no_text_gets_stuck_inside_a_character(seed: int) -> None:
    rng = random.Random(seed)
    characters = "aéèê日旦🙂🙃"
    pieces = sorted({c.encode()[a:b] for c in characters for a in range(4) for b in range(a + 1, 5)} - {b""})
    tokens = [
        b"a",
        *rng.sample(pieces, rng.randint(3, 12)),
        *(b"a" + p for p in rng.sample(pieces, 4)),
        *(p + b"a" for p in rng.sample(pieces, 4)),
    ]
    vocabulary = Vocabulary([*tokens, b"</s>"], [len(tokens)])
    text = {vocabulary.tokens[i] for i in vocabulary.trie_tokens.tolist()}
    ranges = writable_ranges(text)
    writable = {c.encode() for c in characters if any(lo <= ord(c) <= hi for lo, hi in ranges)}

    def completable(rest: bytes) -> bool:
        return not rest or any(rest.startswith(t) and completable(rest[len(t) :]) for t in text)

    def pending(data: bytes) -> bytes | None:
        """The unfinished character behind whole writable ones; ``None`` if the text is none."""
        while data:
            whole = next((c for c in writable if data.startswith(c)), None)
            if whole is None:
                return data if any(c.startswith(data) for c in writable) else None
            data = data[len(whole) :]
        return data

    reached, todo = {b""}, [b""]
    while todo:
        before = todo.pop()
        for after in {pending(before + t) for t in text} - {None} - reached:
            assert after is not None
            reached.add(after)
            todo.append(after)
    assert all(completable(c[len(p) :]) for p in reached for c in writable if c.startswith(p))
    assert {t for t in text if t in map(str.encode, characters)} <= writable


# ---------------------------------------------------------------- text <-> ids
@SMALL
@given(st.integers(0, 10**6), st.text('ab01"{}:, é日🙂', max_size=12))
def test_encode_writes_the_text(seed: int, text: str) -> None:
    vocabulary = random_vocabulary(random.Random(seed))
    ids = vocabulary.encode(text.encode())
    assert all(map(vocabulary.is_text, ids))
    assert vocabulary.decode(ids) == text.encode()


@SMALL
@given(st.binary(max_size=20))
def test_encode_of_any_bytes(byte_vocab: Vocabulary, data: bytes) -> None:
    assert byte_vocab.decode(byte_vocab.encode(data)) == data


def test_encode_takes_the_longest_match_and_recovers_where_it_gets_stuck() -> None:
    vocabulary = Vocabulary([b"ab", b"a", b"bc", b"abcd", b"</s>"], [4])
    assert vocabulary.encode(b"ababcd") == [0, 3]
    assert vocabulary.encode(b"abc") == [1, 2]
    with pytest.raises(VocabularyError, match="cannot write"):
        vocabulary.encode(b"c")


def test_encode_uses_the_given_segmentation_only_where_it_is_right() -> None:
    answers = {"ab": [0, 1], "ba": [2], "bb": [4], "aa": [0]}
    vocabulary = Vocabulary([b"a", b"b", b"ba", b"ab", b"b b"], [4], encode=lambda text: answers.get(text, []))
    assert vocabulary.encode(b"ab") == [0, 1]  # not the longest match
    assert vocabulary.encode(b"bb") == [1, 1]  # the answer is an end token
    assert vocabulary.encode(b"aa") == [0, 0]  # the answer writes less
    assert vocabulary.encode(b"") == []


def test_encode_of_bytes_around_text() -> None:
    tokens = [bytes([b]) for b in range(256)] + [b"ab", b"</s>"]
    vocabulary = Vocabulary(tokens, [257], encode=lambda text: list(text.encode()))
    assert vocabulary.encode(b"ab\xff\xfeab\xf0\x9f") == [97, 98, 255, 254, 97, 98, 240, 159]


def test_decode_skips_what_is_no_text(byte_vocab: Vocabulary) -> None:
    ids = [256, 97, 259, 258]
    assert byte_vocab.decode(ids) == b"a"
    assert byte_vocab.decode(ids, skip_special=False) == b"<bos>a</s>"


@pytest.mark.parametrize("name", ["tekken", "deepseek", "smollm2"])
def test_encode_is_canonical(name: str, request: pytest.FixtureRequest) -> None:
    vocabulary, tokenizer = request.getfixturevalue(f"{name}_vocab"), request.getfixturevalue(f"{name}_tokenizer")
    for text in NASTY:
        if "</s>" in text:
            continue
        data = text.encode()
        if all(vocabulary.writable_bytes >> b & 1 for b in data):
            assert vocabulary.encode(data) == tokenizer(text, add_special_tokens=False).input_ids, text
    for i in (*vocabulary.special_token_ids[:5], *vocabulary.eos_token_ids):
        ids = vocabulary.encode(b"x" + vocabulary.tokens[i] + b"y")
        assert i not in ids and vocabulary.decode(ids) == b"x" + vocabulary.tokens[i] + b"y"


# ---------------------------------------------------------------- identity
def test_digest_equality_and_pickle(byte_vocab: Vocabulary) -> None:
    copy = pickle.loads(pickle.dumps(byte_vocab))
    assert copy == byte_vocab and hash(copy) == hash(byte_vocab) and copy.digest == byte_vocab.digest
    assert all(
        np.array_equal(getattr(copy, name), getattr(byte_vocab, name)) for name in ("trie_byte", "trie_end", "trie_first", "trie_tokens")
    )
    others = [
        Vocabulary([*byte_vocab.tokens[:-1], b"tha"], [258], [256, 257]),
        Vocabulary(byte_vocab.tokens, [258, 257], [256]),
        Vocabulary(byte_vocab.tokens, [258], [256]),
        Vocabulary(byte_vocab.tokens, [258], [256, 257], logits_size=300),
    ]
    assert len({byte_vocab, *others}) == 5


def test_digest_does_not_depend_on_where_tokens_are_cut() -> None:
    assert Vocabulary([b"ab", b"c", b""], [2]).digest != Vocabulary([b"a", b"bc", b""], [2]).digest


def test_lexer_is_made_once_and_anew_when_full(byte_vocab: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        full = False

        def __init__(self, vocabulary: Vocabulary) -> None:
            self.vocabulary = vocabulary
            time.sleep(0.05)

    monkeypatch.setitem(sys.modules, "grammars.lexer", SimpleNamespace(Lexer=Slow))
    vocabulary = Vocabulary(byte_vocab.tokens, [258], [256])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: vocabulary.lexer(), range(4)))
    assert len(set(map(id, found))) == 1 and found[0].vocabulary is vocabulary
    found[0].full = True
    assert vocabulary.lexer() is not found[0]
