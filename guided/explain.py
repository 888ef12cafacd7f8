"""Why a text does not fit, and what may follow where: the reasons behind ``guided check`` and ``guided mask``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from grammars import Automaton, Constraint, Vocabulary

__all__ = ["Misfit", "byte_vocabulary", "check", "describe_bytes", "expected", "misfit", "why_blocked"]

_NAMES = {0x20: "a space", 0x09: "a tab", 0x0A: "a line break", 0x0D: "a carriage return", 0x27: '"\'"', 0x7F: "the control byte 7f"}
_GROUPS = (
    ("a digit", frozenset(b"0123456789")),
    ("a lower-case letter", frozenset(range(0x61, 0x7B))),
    ("an upper-case letter", frozenset(range(0x41, 0x5B))),
    ("a non-ASCII character", frozenset(range(0xC2, 0xF5))),
)
_PRINTABLE = frozenset(range(0x20, 0x7F))


@cache
def byte_vocabulary() -> Vocabulary:
    """One token a byte and an end token: enough to ask whether a text fits, and no tokenizer is needed."""
    return Vocabulary([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])


@dataclass(frozen=True, slots=True)
class Misfit:
    """Where a text leaves its language.

    Attributes:
        byte: offset in bytes (UTF-8), from 0.
        line, column: the same place from 1, the column in characters.
        found: what stands there, in words.
        expected: what might have stood there, in words.
        context: the line.
    """

    byte: int
    line: int
    column: int
    found: str
    expected: list[str]
    context: str

    def __str__(self) -> str:
        wanted = " or ".join(self.expected) or "nothing"
        start = max(0, self.column - 61)
        shown = ("..." if start else "") + self.context[start : start + 90]
        arrow = " " * (self.column - 1 - start + (3 if start else 0)) + "^"
        return f"byte {self.byte}, line {self.line}, column {self.column}: found {self.found}, expected {wanted}\n    {shown}\n    {arrow}"


def _byte_name(byte: int) -> str:
    if byte in _NAMES:
        return _NAMES[byte]
    if byte in _PRINTABLE:
        return f"'{chr(byte)}'"
    return f"the byte {byte:02x}"


def describe_bytes(allowed: Iterable[int], most: int = 12) -> list[str]:
    """A set of bytes in words: ``["a digit", "'.'", "'e'"]``; the rest is counted where there are more than ``most``."""
    left = set(allowed)
    missing = _PRINTABLE - left
    words: list[str] = []
    if len(missing) <= len(_PRINTABLE) // 4 and len(_PRINTABLE) - len(missing) > most:
        but = f" except {', '.join(_byte_name(b) for b in sorted(missing)[:most])}{', ...' * (len(missing) > most)}" if missing else ""
        words.append(f"any printable ASCII character{but}")
        left -= _PRINTABLE
    for name, group in _GROUPS:
        if group <= left or (name == "a non-ASCII character" and len(group & left) > 8):
            words.append(name)
            left -= group
    if left and min(left) >= 0x80 and max(left) < 0xC0:
        return [*words, "the rest of a character"]
    singles = [_byte_name(b) for b in sorted(left)]
    return words + singles[:most] + ([f"one of {len(singles) - most} further bytes"] if len(singles) > most else [])


def expected(automaton: Automaton, state: int) -> list[str]:
    """What may follow in ``state``, in words: fixed text where there is only one way to go on, else characters, and the end."""
    following = automaton.next_bytes(state)
    end = ["the end"] if automaton.accepts(state) else []
    if len(following) == 1 and not end:
        text = automaton.forced_bytes(state)[:60].decode("utf-8", "ignore")
        if len(text) > 1:
            return [repr(text)]
    leads = [byte for byte in following if byte >= 0xC2]
    if not 0 < len(leads) <= 4:
        return describe_bytes(following) + end
    return describe_bytes(byte for byte in following if byte < 0xC2) + [_character(automaton, state, lead) for lead in leads] + end


def _character(automaton: Automaton, state: int, lead: int) -> str:
    """The character that begins with the byte ``lead``, where there is only one, else the byte."""
    first = bytes([lead])
    rest = automaton.forced_bytes(automaton.advance_bytes(state, first))
    text = (first + rest)[:4].decode("utf-8", "ignore")
    return repr(text[0]) if text else _byte_name(lead)


def misfit(automaton: Automaton, data: bytes) -> tuple[int, Misfit | None]:
    """The state after ``data`` and where ``data`` leaves the language, if it does (the text may go on after it)."""
    state = automaton.advance_bytes(automaton.start, data)
    if state != automaton.DEAD:
        return state, None
    state = automaton.start
    for at in range(len(data)):
        after = automaton.advance_bytes(state, data[at : at + 1])
        if after == automaton.DEAD:
            return automaton.DEAD, _place(data, at, expected(automaton, state))
        state = after
    raise AssertionError("a text that is refused as a whole is refused at one of its bytes")


def check(constraint: Constraint, data: bytes) -> Misfit | None:
    """Where the text ``data`` (UTF-8) does not fit ``constraint``; ``None`` if it fits.

    Raises:
        ConstraintError: the constraint cannot be built.
    """
    automaton = constraint.compile(byte_vocabulary())
    state, found = misfit(automaton, data)
    if found is None and not automaton.accepts(state):
        return _place(data, len(data), expected(automaton, state))
    return found


def _place(data: bytes, at: int, wanted: list[str]) -> Misfit:
    before = data[:at].decode("utf-8", "replace")
    line = before.count("\n") + 1
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    whole = data[start : end if end >= 0 else len(data)].decode("utf-8", "replace")
    column = len(data[start:at].decode("utf-8", "replace").rstrip("\ufffd")) + 1
    if at == len(data):
        found = "the end"
    else:
        character = data[at : at + 4].decode("utf-8", "ignore")[:1]
        found = _byte_name(data[at]) if data[at] < 0x80 or not character else repr(character)
    return Misfit(at, line, column, found, wanted, whole)


def why_blocked(automaton: Automaton, state: int, token: int) -> str | None:
    """Why ``token`` may not come next, in words; ``None`` if it may."""
    vocabulary = automaton.vocabulary
    if automaton.allows(state, token):
        return None
    if token in vocabulary.eos_token_ids:
        return f"the text may not end here: expected {' or '.join(expected(automaton, state))}"
    if not 0 <= token < vocabulary.size:
        return "it is no token of the tokenizer (a padding id of the logits)"
    if not vocabulary.is_text(token):
        return "it is a special token or writes nothing, and such tokens are never text"
    data = vocabulary.tokens[token]
    for at in range(len(data)):
        after = automaton.advance_bytes(state, data[at : at + 1])
        if after == automaton.DEAD:
            where = f"its byte {at + 1} of {len(data)}" if len(data) > 1 else "its only byte"
            return f"{where} is {_byte_name(data[at])}, expected {' or '.join(expected(automaton, state))}"
        state = after
    raise AssertionError("a token that is refused is refused at one of its bytes")
