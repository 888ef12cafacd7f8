"""Regex and Choice as front-ends."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.constraint import Constraint
from grammars.errors import ConstraintError, RegexError
from grammars.patterns import Choice, Regex
from grammars.vocabulary import Vocabulary


def accepts(constraint: Constraint, vocabulary: Vocabulary, *texts: str) -> list[bool]:
    automaton = constraint.compile(vocabulary)
    return [automaton.accepts(automaton.advance_bytes(automaton.start, text.encode())) for text in texts]


@pytest.mark.parametrize(
    ("pattern", "options", "good", "bad"),
    [
        (r"\d{3}-\d{4}", {}, ["555-1234"], ["555-123", "x555-1234", "555-12345"]),
        (r"a|bc*", {}, ["a", "b", "bccc"], ["", "ab"]),
        ("", {}, [""], ["a"]),
        ("(ab)?", {}, ["", "ab"], ["a"]),
        ("straße", {"flags": "i"}, ["STRAßE", "straẞe"], ["strasse"]),
        ("b+", {"search": True}, ["b", "abba", "ab"], ["", "aca"]),
        ("^b+$", {"search": True, "dialect": "ecma"}, ["b", "bb"], ["ab", ""]),
        (r"\p{Lu}\p{Ll}*", {"dialect": "ecma"}, ["Éa", "A"], ["éA"]),
        (r"[[:alpha:]]+", {"dialect": "rust"}, ["ab"], ["a1", ""]),
        (".", {}, ["é", "日", "😀"], ["\n", "ab"]),
        (".", {"flags": "s"}, ["\n"], ["\n\n"]),
    ],
)
def test_regex(pattern: str, options: dict, good: list[str], bad: list[str], byte_vocab: Vocabulary) -> None:
    verdicts = accepts(Regex(pattern, **options), byte_vocab, *good, *bad)
    assert verdicts == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize("pattern", ["(", "a**", r"(a)\1", "[z-a]"])
def test_bad_patterns_are_refused_at_once(pattern: str) -> None:
    with pytest.raises(RegexError) as info:
        Regex(pattern)
    assert info.value.pattern == pattern


def test_a_pattern_without_a_match_is_refused(byte_vocab: Vocabulary) -> None:
    with pytest.raises(ConstraintError, match="empty"):
        Regex("a(?!b)b").compile(byte_vocab)


def test_choice(byte_vocab: Vocabulary) -> None:
    options = ["yes", "yesterday", "no", "né", "", "no", "日本", "日"]
    good = accepts(Choice(options), byte_vocab, *options)
    bad = accepts(Choice(options), byte_vocab, "ye", "yest", "noo", "n", "yesno", "\u65e5\u672c\u8a9e")
    assert all(good) and not any(bad)


def test_a_choice_of_the_empty_text_alone(byte_vocab: Vocabulary) -> None:
    assert accepts(Choice([""]), byte_vocab, "", "a") == [True, False]


@pytest.mark.parametrize("options", [[], "yes", ["a", 1], ["\ud800"]])
def test_bad_choices(options: object) -> None:
    with pytest.raises(ConstraintError):
        Choice(options)  # type: ignore[arg-type]


def test_ten_thousand_options(byte_vocab: Vocabulary) -> None:
    rng = random.Random(0)
    options = ["".join(rng.choices("abcde", k=rng.randint(1, 12))) for _ in range(10_000)]
    begun = time.process_time()
    automaton = Choice(options).compile(byte_vocab)
    state = automaton.start
    automaton.mask(state)
    assert time.process_time() - begun < 5  # seconds would mean that the whole trie is built; it takes tens of milliseconds
    known = set(options)
    for text in [*rng.sample(options, 300), *("".join(rng.choices("abcde", k=rng.randint(1, 8))) for _ in range(300))]:
        assert automaton.accepts(automaton.advance_bytes(state, text.encode())) == (text in known)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.text("abé", max_size=4), min_size=1, max_size=20), st.lists(st.text("abé", max_size=4)))
def test_choice_is_membership(byte_vocab: Vocabulary, options: list[str], others: list[str]) -> None:
    assert accepts(Choice(options), byte_vocab, *options, *others) == [t in set(options) for t in [*options, *others]]


def test_the_mask_is_what_continues(byte_vocab: Vocabulary) -> None:
    options = ["alpha", "alps", "beta"]
    automaton = Choice(options).compile(byte_vocab)
    for prefix in ["", "al", "alp", "alph", "b"]:
        state = automaton.advance_bytes(automaton.start, prefix.encode())
        for t, token in enumerate(byte_vocab.tokens):
            special = t in byte_vocab.eos_token_ids or t in byte_vocab.special_token_ids
            if not special:
                want = bool(token) and any(o.encode().startswith(prefix.encode() + token) for o in options)
                assert automaton.allows(state, t) == want, (prefix, token)


def test_repr_shows_how_to_make_it() -> None:
    assert repr(Regex("a", flags="i", search=True)) == "Regex('a', dialect='python', flags='i', search=True)"
    assert repr(Choice(["a", "b"])) == "Choice(['a', 'b'])"
    assert re.fullmatch(r"Choice\(\[.*, \.\.\.\]\)", repr(Choice(list("abcdefgh"))))
