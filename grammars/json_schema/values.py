"""JSON values in a form in which equal means equal: for values that are remembered and compared while they are written.

A number is its digits and its power of ten (``1``, ``1.0`` and ``10e-1`` are one), an object a set of members, a string its
characters however they are spelled. A :data:`Build` is a value of which only the beginning is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, Union

from ..regex.leaves import Leaf

__all__ = [
    "MODERATE", "Build", "Digits", "Open", "Spellings", "Value",
    "aims", "feed", "fraction", "is_scalar", "key_of", "number", "of_fraction", "text",
]  # fmt: skip


class Digits(NamedTuple):
    """The number ``digits * 10**exponent``; ``digits`` has its sign, and no zeros in front or at the end."""

    digits: str
    exponent: int


Value = Union[None, bool, str, Digits, tuple[str, Hashable]]
"""``None``, booleans, strings, :class:`Digits`, ``("[", elements)``, ``("{", frozenset of members)``."""

_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?)(\d+))?")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^\s,:"\[\]{}]+')
MODERATE = 300  # digits and exponents up to which numbers are fractions
_CHUNK = 4000  # digits that Python turns into an integer at once


def _integer(digits: str) -> int:
    value = 0
    for start in range(0, len(digits), _CHUNK):
        piece = digits[start : start + _CHUNK]
        value = value * 10 ** len(piece) + int(piece)
    return value


def _shown(integer: int) -> str:
    """The digits of an integer of any length (``str`` refuses long ones)."""
    return format(Decimal(integer), "f")


def number(spelled: str) -> Digits:
    """The number behind a JSON spelling."""
    match = _NUMBER.fullmatch(spelled)
    assert match is not None, spelled
    sign, whole, fraction_part, minus, exponent = match.groups(default="")
    digits = (whole + fraction_part).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return Digits("0", 0)
    power = _integer(exponent) * (-1 if minus == "-" else 1)
    return Digits(sign + kept, power - len(fraction_part) + len(digits) - len(kept))


def of_fraction(value: Fraction) -> Digits:
    """A number with a finite decimal expansion."""
    scale = 0
    while value.denominator != 1:
        value, scale = value * 10, scale + 1
    found = number(str(value.numerator))
    return found._replace(exponent=found.exponent - scale if value else 0)


def fraction(value: Digits, most: int = MODERATE) -> Fraction | None:
    """The number, unless it has more than ``most`` digits, or its power of ten."""
    if len(value.digits) > most or abs(value.exponent) > most:
        return None
    return int(value.digits) * Fraction(10) ** value.exponent


def is_scalar(value: Value) -> bool:
    """Whether the value is no array and no object."""
    return not isinstance(value, tuple) or isinstance(value, Digits)


def text(value: Value) -> str:
    """A JSON text of the value."""
    if isinstance(value, Digits):
        return value.digits if value.exponent == 0 else f"{value.digits}e{_shown(value.exponent)}"
    if not isinstance(value, tuple):
        return json.dumps(value)
    kind, parts = value
    assert isinstance(parts, (tuple, frozenset))
    if kind == "[":
        return "[" + ",".join(map(text, parts)) + "]"
    return "{" + ",".join(f"{json.dumps(k)}:{text(v)}" for k, v in sorted(parts, key=lambda member: member[0])) + "}"


def key_of(lexeme: bytes) -> str:
    """The name in the lexeme of a key, with whatever stands around it."""
    match = _TOKEN.search(lexeme.decode())
    assert match is not None
    name: str = json.loads(match.group())
    return name


# ---------------------------------------------------------------- values half written
class Open(NamedTuple):
    """An array or object that is not closed yet: elements (a tuple) or members (a frozenset), and a key without its value."""

    parts: tuple[Value, ...] | frozenset[tuple[str, Value]]
    key: str | None = None

    def has(self, name: str) -> bool:
        """Whether there is a member of this name."""
        return any(isinstance(member, tuple) and member[0] == name for member in self.parts)


Build = tuple[Open, ...]
"""The containers that are open, outermost first."""


def feed(build: Build, lexeme: bytes) -> tuple[Build, tuple[Value] | None]:
    """What is written after one more lexeme, and the value, once it is complete."""
    done: tuple[Value] | None = None
    value: Value
    for token in _TOKEN.findall(lexeme.decode()):
        if token in "[{":
            build = (*build, Open(() if token == "[" else frozenset()))
            continue
        if token in "]}":
            parts = build[-1].parts
            build, value = build[:-1], ("[" if isinstance(parts, tuple) else "{", parts)
        else:
            value = _scalar(token)
            if build and isinstance(build[-1].parts, frozenset) and build[-1].key is None:
                assert isinstance(value, str)
                build = (*build[:-1], build[-1]._replace(key=value))
                continue
        if not build:
            done = (value,)
            continue
        build = (*build[:-1], _with(build[-1], value))
    return build, done


def _scalar(token: str) -> Value:
    if token[0] in "-0123456789":
        return number(token)
    value: str | bool | None = json.loads(token)
    return value


def _with(container: Open, value: Value) -> Open:
    if isinstance(container.parts, tuple):
        return Open((*container.parts, value))
    assert container.key is not None
    return Open(container.parts | {(container.key, value)})


def aims(build: Build, wanted: Iterable[Value]) -> tuple[list[Value], list[Value]]:
    """Which of the ``wanted`` values the beginning may still become.

    Returns:
        The parts of these values that stand where the innermost open container does, and those where the next value comes.
    """
    here = list(wanted)
    following = here
    for container in build:
        here, following, before = [], [], following
        for value in before:
            if not isinstance(value, tuple) or isinstance(value, Digits):
                continue
            kind, parts = value
            mine = container.parts
            if isinstance(mine, tuple):
                assert isinstance(parts, (tuple, frozenset))
                if kind == "[" and isinstance(parts, tuple) and parts[: len(mine)] == mine:
                    here.append(value)
                    following += parts[len(mine) : len(mine) + 1]
            elif kind == "{" and isinstance(parts, frozenset) and mine <= parts:
                if container.key is None:
                    here.append(value)
                    continue
                found = [v for k, v in parts if k == container.key]
                if found:
                    here.append(value)
                    following += found
    return here, following


# ---------------------------------------------------------------- spellings of one number
@dataclass(frozen=True, slots=True)
class Spellings:
    """Every JSON spelling of one number, of whatever size (a leaf of the pool), without a sign in front.

    Attributes:
        digits, exponent: the number, not zero.
        read: how many of the digits are written.
        shift: what the exponent must make up for: digits after the point, less zeros written behind all digits.
        phase: ``start``, ``zero`` (a leading one), ``whole``, ``point``, ``fraction``.
    """

    digits: str
    exponent: int
    read: int = 0
    shift: int = 0
    phase: str = "start"

    @property
    def nullable(self) -> bool:
        return self.read == len(self.digits) and self.phase not in ("start", "point") and self.shift + self.exponent == 0

    def transitions(self) -> list[tuple[int, Leaf | None]]:
        found: list[tuple[int, Leaf | None]] = []
        whole = self.phase in ("start", "whole")
        after = "whole" if whole else "fraction"
        step = 0 if whole else 1
        if self.phase != "zero":
            if self.read < len(self.digits):
                digit = ord(self.digits[self.read])
                found.append((1 << digit, Spellings(self.digits, self.exponent, self.read + 1, self.shift + step, after)))
            if self.phase == "start":
                found.append((1 << ord("0"), Spellings(self.digits, self.exponent, 0, 0, "zero")))
            elif self.read == len(self.digits):
                found.append((1 << ord("0"), Spellings(self.digits, self.exponent, self.read, self.shift + step - 1, after)))
            elif self.read == 0:
                found.append((1 << ord("0"), Spellings(self.digits, self.exponent, 0, self.shift + 1, after)))
        if self.phase in ("zero", "whole"):
            found.append((1 << ord("."), Spellings(self.digits, self.exponent, self.read, self.shift, "point")))
        if self.read == len(self.digits) and self.phase in ("whole", "fraction"):
            found.append((1 << ord("e") | 1 << ord("E"), _Exponent(self.shift + self.exponent)))
        return found


@dataclass(frozen=True, slots=True)
class _Exponent:
    """What follows the ``e``, where the exponent must be ``value``."""

    value: int
    phase: str = "sign"
    rest: str = ""

    @property
    def nullable(self) -> bool:
        return (self.phase == "digits" and not self.rest) or (self.phase == "zeros" and self.value == 0)

    def transitions(self) -> list[tuple[int, Leaf | None]]:
        if self.phase == "digits":
            return [(1 << ord(self.rest[0]), _Exponent(self.value, "digits", self.rest[1:]))] if self.rest else []
        digits = _shown(abs(self.value))
        found: list[tuple[int, Leaf | None]] = []
        if self.phase != "sign" or self.value >= 0:
            found.append((1 << ord("0"), _Exponent(self.value, "zeros")))
        if self.phase == "sign":
            signs = (1 << ord("+") if self.value >= 0 else 0) | (1 << ord("-") if self.value <= 0 else 0)
            found.append((signs, _Exponent(self.value, "signed")))
        if self.value and (self.phase != "sign" or self.value > 0):
            found.append((1 << ord(digits[0]), _Exponent(self.value, "digits", digits[1:])))
        return found
