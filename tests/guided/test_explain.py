"""Where a text leaves its language, and why a token is blocked."""

from __future__ import annotations

import pytest

from grammars import Choice, Constraint, Gbnf, Literal, Regex, Vocabulary
from guided.explain import Misfit, check, describe_bytes, expected, why_blocked

OBJECT = Literal('{"a": ') + (Literal("true") | "false" | Regex("[0-9]+")) + "}"


@pytest.mark.parametrize(
    ("constraint", "text", "place", "found", "wanted"),
    [
        (OBJECT, '{"a": tru}', (9, 1, 10), "'}'", ["'e}'"]),
        (OBJECT, '{"a":\n1}', (5, 1, 6), "a line break", ["a space"]),
        (OBJECT, '{"a": x}', (6, 1, 7), "'x'", ["a digit", "'f'", "'t'"]),
        (OBJECT, '{"a": 1', (7, 1, 8), "the end", ["a digit", "'}'"]),
        (OBJECT, '{"a": 1}\n', (8, 1, 9), "a line break", ["the end"]),
        (Regex("(?s:é.ö)x"), "é\nöy", (5, 2, 2), "'y'", ["'x'"]),
        (Regex("é+"), "éa", (2, 1, 2), "'a'", ["'é'", "the end"]),
        (Choice(["日本"]), "日x", (3, 1, 2), "'x'", ["'本'"]),
        (Choice(["aéx", "aêx", "axy"]), "ab", (1, 1, 2), "'b'", ["'x'", "the byte c3"]),
        (Choice(["日本"]), "日木", (5, 1, 2), "the byte a8", ["the rest of a character"]),
    ],
)
def test_the_place_and_the_reason(constraint: Constraint, text: str, place: tuple[int, int, int], found: str, wanted: list[str]) -> None:
    misfit = check(constraint, text.encode())
    assert misfit is not None
    assert ((misfit.byte, misfit.line, misfit.column), misfit.found, misfit.expected) == (place, found, wanted)


def test_what_fits() -> None:
    assert check(OBJECT, b'{"a": 12}') is None


def test_the_message_points_at_the_place() -> None:
    message = str(check(OBJECT, b'{"a": tru}')).splitlines()
    assert message[1][message[2].index("^")] == "}"
    far = str(Misfit(200, 1, 201, "'y'", ["'x'"], "x" * 200 + "y" + "x" * 200)).splitlines()
    assert far[1][far[2].index("^")] == "y" and len(far[1]) < 120


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (b"0123456789", ["a digit"]),
        (b"0123456789.", ["a digit", "'.'"]),
        (range(0x20, 0x7F), ["any printable ASCII character"]),
        ([b for b in range(0x20, 0x7F) if b not in b'"\\'], ["any printable ASCII character except '\"', '\\'"]),
        (range(0x80, 0xC0), ["the rest of a character"]),
        ([*range(0xC2, 0xF5), 0x0A], ["a non-ASCII character", "a line break"]),
        (b"acegikmoqsuwy", [f"'{chr(c)}'" for c in b"acegikmoqsuw"] + ["one of 1 further bytes"]),
        (b"", []),
    ],
)
def test_bytes_in_words(allowed: bytes, words: list[str]) -> None:
    assert describe_bytes(allowed) == words


def test_why_a_token_is_blocked(byte_vocab: Vocabulary) -> None:
    automaton = Gbnf('root ::= "the" [0-9]+').compile(byte_vocab)
    state = automaton.advance_bytes(automaton.start, b"t")
    find = byte_vocab.tokens.index
    assert expected(automaton, state) == ["'he'"]
    assert why_blocked(automaton, automaton.start, find(b"the")) is None
    assert why_blocked(automaton, state, find(b"the")) == "its byte 1 of 3 is 't', expected 'he'"
    assert why_blocked(automaton, automaton.start, find(b"true")) == "its byte 2 of 4 is 'r', expected 'he'"
    assert why_blocked(automaton, state, ord("x")) == "its only byte is 'x', expected 'he'"
    assert "may not end here" in (why_blocked(automaton, state, 258) or "")
    assert "special token" in (why_blocked(automaton, state, 256) or "")
    assert "padding" in (why_blocked(automaton, state, 4_000) or "")
