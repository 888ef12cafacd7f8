"""String texts: every spelling of exactly the right characters."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.errors import ConstraintError
from grammars.regex.charset import CharSet
from grammars.regex.expr import Pool
from grammars.strings import (
    Escapes,
    JsonEncoder,
    any_string,
    any_string_except,
    complement,
    json_chars,
    json_string,
    literal_string,
    string_set,
    text_set,
)
from tests.spelling import spell

TRICKY = '"\\/\b\f\n\r\t\x00\x1f\x7f aAé߿ࠀ\ud7ff\ue000�￿𐀀😀\U0010ffff'
DAMAGE = list(b'"\\/uUdD89cCeEfF0abn\x1f\xed\xa0\x80')
RANGES = st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 3000)), max_size=4)
TEXTS = st.text(st.one_of(st.sampled_from(TRICKY), st.characters(exclude_categories=["Cs"])), max_size=6)
POLICIES: tuple[Escapes, ...] = ("any", "minimal")
SEEDS = st.integers(0, 2**32)


def quoted(text: str, seed: int) -> bytes:
    return b'"' + spell(text, seed) + b'"'


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool()


@settings(derandomize=True, max_examples=300)
@given(text=TEXTS, seed=SEEDS)
def test_every_spelling_of_a_text_is_in_its_language(pool: Pool, text: str, seed: int) -> None:
    data = quoted(text, seed)
    assert json.loads(data) == text
    assert pool.matches(literal_string(pool, text), data)
    assert pool.matches(any_string(pool, len(text), len(text)), data)
    assert not pool.matches(any_string(pool, len(text) + 1), data)
    assert not text or not pool.matches(any_string(pool, 0, len(text) - 1), data)


@settings(derandomize=True, max_examples=300)
@given(texts=st.lists(TEXTS, max_size=8), other=TEXTS, seed=SEEDS)
def test_sets_and_their_complements(pool: Pool, texts: list[str], other: str, seed: int) -> None:
    inside, outside = string_set(pool, texts), any_string_except(pool, texts)
    for i, text in enumerate([*texts, other]):
        data = quoted(text, seed + i)
        assert pool.matches(inside, data) == (text in texts)
        assert pool.matches(outside, data) == (text not in texts)


@settings(derandomize=True, max_examples=200)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5), seed=SEEDS, where=st.integers(0, 200), byte=st.sampled_from(DAMAGE))
def test_damaged_spellings_agree_with_the_json_parser(pool: Pool, texts: list[str], seed: int, where: int, byte: int) -> None:
    data = bytearray(quoted(texts[0], seed))
    data[where % len(data)] = byte
    try:
        value = json.loads(bytes(data).decode())
        value.encode()  # half a surrogate pair is no text
        valid = isinstance(value, str)
    except (ValueError, AttributeError):
        valid, value = False, None
    assert pool.matches(any_string(pool), bytes(data)) == valid
    assert pool.matches(string_set(pool, texts), bytes(data)) == (valid and value in texts)
    assert pool.matches(any_string_except(pool, texts), bytes(data)) == (valid and value not in texts)


@settings(derandomize=True, max_examples=200)
@given(text=TEXTS, seed=SEEDS)
def test_minimal_escapes_are_those_of_the_standard_library(pool: Pool, text: str, seed: int) -> None:
    expected = json.dumps(text, ensure_ascii=False).encode()
    other = quoted(text, seed)
    minimal = JsonEncoder("minimal")
    for expr in (literal_string(pool, text, "minimal"), string_set(pool, [text, "zz"], "minimal"), any_string(pool, encoder=minimal)):
        assert pool.matches(expr, expected)
        assert pool.matches(expr, other) == (other == expected)


@settings(derandomize=True, max_examples=150)
@given(ranges=RANGES, probe=st.characters(exclude_categories=["Cs"]), seed=SEEDS)
def test_one_character_of_a_set(pool: Pool, ranges: list[tuple[int, int]], probe: str, seed: int) -> None:
    charset = CharSet([(a, min(a + n, 0x10FFFF)) for a, n in ranges])
    expr = json_chars(pool, charset)
    edges = [c for a, n in ranges for c in (a - 1, a, min(a + n, 0x10FFFF), a + n + 1)]
    for i, c in enumerate([probe, *(chr(c) for c in edges if 0 <= c < 0xD800 or 0xDFFF < c <= 0x10FFFF)]):
        assert pool.matches(expr, spell(c, seed + i)) == (c in charset)


def states(pool: Pool, expr: int) -> int:
    seen, todo = {expr}, [expr]
    while todo:
        for _, target in pool.transitions(todo.pop()):
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return len(seen)


def test_the_full_set_is_a_small_automaton(pool: Pool) -> None:
    assert states(pool, json_chars(pool, CharSet.ANY)) <= 25
    assert states(pool, any_string(pool)) <= 28


def test_leaving_a_set_of_names_leads_to_the_common_state(pool: Pool) -> None:
    def after(expr: int, data: bytes) -> int:
        for byte in data:
            expr = pool.derivative(expr, byte)
        return expr

    assert after(any_string_except(pool, ["name", "nothing"]), b'"nam_') == after(any_string(pool), b'"x')


@pytest.mark.parametrize(
    "data",
    [
        b'"\\ud800"',
        b'"\\udc00"',
        b'"\\ud800\\u0041"',
        b'"\\udc00\\ud800"',
        b'"\\ud800\\ud800"',
        b'"\xed\xa0\x80"',
        b'"\\u12"',
        b'"\\x41"',
        b'"\n"',
    ],
)
def test_what_is_no_string(pool: Pool, data: bytes) -> None:
    assert not pool.matches(any_string(pool), data)


def test_texts_without_a_spelling(pool: Pool) -> None:
    assert pool.is_empty(literal_string(pool, "a\ud800"))
    assert pool.is_empty(text_set(pool, []))
    assert pool.matches(string_set(pool, ["\ud800", "ok"]), b'"ok"')
    assert pool.is_empty(string_set(pool, ["\ud800", "\udfffx"]))


def test_character_complement_counts_characters(pool: Pool) -> None:
    content = pool.repeat(json_chars(pool, CharSet.ANY), 2, 2)
    other = json_string(pool, complement(pool, content))
    assert not pool.matches(other, b'"\\ud83d\\ude00\\n"')
    assert pool.matches(other, b'"\\ud83d\\ude00"')
    assert pool.matches(other, b'"abc"')


def test_ten_thousand_texts(pool: Pool) -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choices("abcdefghij/é😀\n", k=rng.randrange(1, 12))) for _ in range(10_000)]
    inside, outside = string_set(pool, texts), any_string_except(pool, texts)
    known = set(texts)
    for i, text in enumerate(rng.sample(texts, 50)):
        for probe in (text, text + "a", text[:-1]):
            data = quoted(probe, i)
            assert pool.matches(inside, data) == (probe in known)
            assert pool.matches(outside, data) == (probe not in known)


def test_characters_that_cannot_be_written_raw_keep_their_escapes() -> None:
    pool = Pool(writable=CharSet([(0, 0x7F)]), writable_bytes=(1 << 128) - 1)
    for escapes in POLICIES:
        everything = any_string(pool, encoder=JsonEncoder(escapes))
        for expr in (literal_string(pool, "é😀", escapes), string_set(pool, ["é😀", "b"], escapes), everything):
            assert pool.matches(expr, b'"\\u00e9\\ud83d\\ude00"')
            assert not pool.matches(expr, '"é😀"'.encode())


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConstraintError, match="minimal"):
        JsonEncoder("most")  # type: ignore[arg-type]
