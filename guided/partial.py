"""The value of the beginning of a JSON text, for showing an object while it grows.

What is there is given as far as it is certain:

- an open array or object has the elements and members that have a value so far; a key without a value is left out;
- an open string is given as far as it goes (an unfinished escape is left out), so that text can be shown as it is written;
- a number, ``true``, ``false`` or ``null`` counts only when something follows it (``12`` may become ``125``), a key only when it is closed;
- where nothing is certain yet the value is :data:`NOTHING`.

So the values of growing prefixes only grow, and the value of the whole text (plus any character) is that of ``json.loads``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["NOTHING", "partial_json"]


class _Nothing:
    """The type of :data:`NOTHING`; there is one instance, and it is false."""

    def __repr__(self) -> str:
        return "NOTHING"

    def __bool__(self) -> bool:
        return False


NOTHING: Final = _Nothing()

_BLANKS = re.compile(r"[ \t\n\r]*")
_ATOM = re.compile(r"[^\s,\]}\[{\":]+")
_STRING = re.compile(r'"((?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*)("?)')
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")


class _Reader:
    """One left-to-right pass with its own stack, so that depth costs no recursion."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.root: Any = NOTHING
        self.stack: list[Any] = []  # open arrays and objects
        self.key: str | None = None  # of the member whose value is expected

    def peek(self) -> str:
        match = _BLANKS.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def place(self, value: Any) -> None:
        if not self.stack:
            self.root = value
        elif isinstance(self.stack[-1], list):
            self.stack[-1].append(value)
        elif self.key is not None:
            self.stack[-1][self.key] = value
            self.key = None

    def string(self) -> tuple[str, bool] | None:
        match = _STRING.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        body, closed = match[1], bool(match[2])
        return json.loads(f'"{body if closed else _HALF_PAIR.sub("", body)}"', strict=False), closed

    def value(self, char: str) -> bool:
        """Reads a value or its opening; false where the text ends inside of it."""
        if char in "[{":
            self.at += 1
            opened: Any = [] if char == "[" else {}
            self.place(opened)
            self.stack.append(opened)
            return True
        if char == '"':
            read = self.string()
            if read is None:
                return False
            self.place(read[0])
            return read[1]
        atom = _ATOM.match(self.text, self.at)
        if atom is None or atom.end() == len(self.text):
            return False
        self.at = atom.end()
        self.place(json.loads(atom[0]))
        return True

    def member(self) -> bool:
        """Reads a key and its colon; false where the text ends before."""
        read = self.string()
        if read is None or not read[1] or self.peek() != ":":
            return False
        self.key = read[0]
        self.at += 1
        return True

    def run(self) -> Any:
        while char := self.peek():
            if char in "]}":
                if not self.stack:
                    break
                self.stack.pop()
                self.at += 1
            elif char == ",":
                self.at += 1
            elif self.stack and isinstance(self.stack[-1], dict) and self.key is None:
                if char != '"' or not self.member():
                    break
            elif not self.value(char):
                break
        return self.root


def partial_json(text: str) -> Any:
    """The value of ``text``, the beginning of a JSON text; :data:`NOTHING` if there is none yet.

    The rules are those of :mod:`guided.partial`. What does not begin a JSON text is read as far as it makes sense.
    """
    try:
        return _Reader(text).run()
    except ValueError:
        return NOTHING
