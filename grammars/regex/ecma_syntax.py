"""ECMA-262 patterns with the ``u`` flag, as JSON Schema asks for, read leniently.

What is an error only because of ``u`` (identity escapes like ``\\-``, lone braces and brackets, octal
escapes) is read as Annex B of the standard reads it, since schemas in the wild are full of it.
"""

from __future__ import annotations

import re

from . import ast
from .ast import Node
from .charset import CharSet, property_set
from .parser import DIGITS, Flags, Parser

__all__ = ["EcmaParser"]

_LINES = CharSet.of("\n\r\u2028\u2029")
_DIGIT = CharSet([(0x30, 0x39)])
_WORD = CharSet([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_FOLDED_WORD = _WORD | CharSet.of("\u017f\u212a")
_SPACE = CharSet.of("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | CharSet([(0x2000, 0x200A)])
_SIMPLE = {"f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_GROUP = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?|(\((?!\?)|\(\?<(?![=!]))", re.DOTALL)


class EcmaParser(Parser):
    """Parses a pattern as ``new RegExp(pattern, "u")`` would, or else as Annex B would."""

    dialect = "ecma"

    def digit(self) -> CharSet:
        return _DIGIT

    def space(self) -> CharSet:
        return _SPACE

    def word(self) -> CharSet:
        return _FOLDED_WORD if self.flags.i else _WORD

    def newlines(self) -> CharSet:
        return _LINES

    def captures(self) -> int:
        """How many capturing groups the whole pattern has."""
        return sum(1 for m in _GROUP.finditer(self.text) if m[1])

    def quantified(self, node: Node, start: int) -> Node:
        if isinstance(node, ast.Boundary) and (self.peek() in ("*", "+", "?") or (self.peek() == "{" and self.is_interval())):
            self.fail("an assertion cannot be repeated")
        return super().quantified(node, start)

    # ------------------------------------------------------------ escapes
    def escape(self) -> Node:
        start = self.at
        self.at += 1
        c = self.peek()
        self.at += 1
        if not c:
            self.fail("a backslash at the end", start)
        if c in "dDsSwW":
            return self.count(ast.Chars(self.named_set(c)))
        if c in "pP":
            return self.count(ast.Chars(self.fold(self.property(c == "P", start))))
        if c in "bB":
            return self.boundary(c)
        if c == "k" and self.peek() == "<":
            self.backreference(start)
        if c in "123456789":
            end = self.at
            while end < len(self.text) and self.text[end] in DIGITS:
                end += 1
            if int(self.text[start + 1 : end]) <= self.captures():
                self.backreference(start)
        return self.character(self.code(c, start))

    def code(self, c: str, start: int) -> int:
        """The code point of an escape that stands for one character."""
        if c in _SIMPLE:
            return _SIMPLE[c]
        if c == "c":
            letter = self.peek()
            if letter and letter.isascii() and letter.isalpha():
                self.at += 1
                return ord(letter) % 32
            self.at -= 1  # Annex B: the backslash stands for itself
            return 0x5C
        if c == "x" and re.match(r"[0-9a-fA-F]{2}", self.peek(2)):
            return self.hex(2, 2, "\\x")
        if c == "u":
            return self.unicode(start)
        if c in "01234567":
            return self.octal(c)
        return ord(c)

    def octal(self, digits: str) -> int:
        """Annex B: as many octal digits as stay within one byte."""
        while self.peek() and self.peek() in "01234567" and int(digits + self.peek(), 8) <= 0o377:
            digits += self.peek()
            self.at += 1
        return int(digits, 8)

    def unicode(self, start: int) -> int:
        if self.peek() == "{":
            found = re.compile(r"\{([0-9a-fA-F]+)\}").match(self.text, self.at)
            if found is None:
                self.fail("\\u{ needs hexadecimal digits and a closing brace", start)
            self.at = found.end()
            return self.point(int(found[1], 16), start)
        if not re.match(r"[0-9a-fA-F]{4}", self.peek(4)):
            return ord("u")
        high = self.hex(4, 4, "\\u")
        low = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self.text, self.at)
        if 0xD800 <= high < 0xDC00 and low is not None:
            self.at = low.end()
            return 0x10000 + ((high - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return high

    def property(self, negative: bool, start: int) -> CharSet:
        r"""``\p{...}``."""
        if not self.eat("{"):
            return CharSet.of("P" if negative else "p")
        name = self.until("}", "the property")
        try:
            chars = property_set(name)
        except KeyError:
            self.fail(f"there is no Unicode property {name!r}", start)
        return ~chars if negative else chars

    # ------------------------------------------------------------ classes
    def char_class(self) -> Node:
        start = self.at
        self.at += 1
        negative = self.eat("^")
        chars, ranges = CharSet.EMPTY, []
        while self.peek() != "]":
            if self.at >= len(self.text):
                self.fail("unterminated character class", start)
            low_at = self.at
            low = self.class_item()
            high: CharSet | int = low
            if self.peek() == "-" and self.peek(2) != "-]" and self.at + 1 < len(self.text):
                self.at += 1
                high = self.class_item()
                if isinstance(low, CharSet) or isinstance(high, CharSet):  # Annex B: the hyphen is a member
                    ranges.append((0x2D, 0x2D))
                    for end in (low, high):
                        chars |= end if isinstance(end, CharSet) else CharSet([(end, end)])
                    continue
                if high < low:
                    self.fail("a character range is out of order", low_at)
            if isinstance(low, CharSet) or isinstance(high, CharSet):
                chars |= low if isinstance(low, CharSet) else CharSet.EMPTY
            else:
                ranges.append((low, high))
        self.at += 1
        chars = self.fold(chars | CharSet(ranges))
        return self.count(ast.Chars(~chars if negative else chars))

    def class_item(self) -> CharSet | int:
        start = self.at
        c = self.peek()
        self.at += 1
        if c != "\\":
            return ord(c)
        c = self.peek()
        self.at += 1
        if not c:
            self.fail("a backslash at the end", start)
        if c in "dDsSwW":
            return self.named_set(c)
        if c in "pP":
            return self.property(c == "P", start)
        if c == "b":
            return 8
        if c == "c" and self.peek() and (self.peek() in DIGITS or self.peek() == "_"):
            self.at += 1
            return ord(self.text[self.at - 1]) % 32
        return self.code(c, start)

    # ------------------------------------------------------------ groups
    def dialect_group(self, start: int) -> Node | None:
        if self.eat("<"):
            self.name(">", start)
            return self.closed(start)
        if self.eat("P<"):
            self.fail("a named group is written (?<name>...) in ECMA-262", start)
        found = re.compile(r"([ims]*)(-[ims]*)?:").match(self.text, self.at)
        if found is None:
            self.fail("unknown kind of group (in ECMA-262, flags need a group of their own: (?i:...))", start)
        self.at = found.end()
        self.switch(found[1], True, start)
        self.switch((found[2] or "")[1:], False, start)
        return self.closed(start)

    def repeats_names(self) -> bool:
        return True

    def flagged(self, flags: Flags, letter: str, on: bool, position: int) -> Flags:
        if letter in "udgy":  # Unicode is always on; indices, global and sticky do not change the language
            return flags
        if letter == "x":
            self.fail("ECMA-262 has no verbose flag", position)
        return super().flagged(flags, letter, on, position)
