"""The dialect of Python's ``re`` module (text patterns)."""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import replace

from . import ast
from .ast import Node
from .charset import CharSet, fold_closure, scan
from .parser import DIGITS, Flags, Parser

__all__ = ["PythonParser"]

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_DOTTED = CharSet.of("iI\u0130\u0131")
_ASCII = CharSet([(0, 127)])


@functools.cache
def category(letter: str, unicode: bool) -> CharSet:
    r"""``\d``, ``\s``, ``\w`` as the ``re`` module itself has them."""
    return scan(re.compile(rf"\{letter}+", 0 if unicode else re.ASCII).finditer)


class PythonParser(Parser):
    """Parses a pattern as ``re.compile`` would."""

    dialect = "python"
    open_interval = True

    def digit(self) -> CharSet:
        return category("d", self.flags.u)

    def space(self) -> CharSet:
        return category("s", self.flags.u)

    def word(self) -> CharSet:
        return category("w", self.flags.u)

    def variants(self, chars: CharSet) -> CharSet:
        if not self.flags.u:
            return chars | (fold_closure(chars & _ASCII) & _ASCII)
        closed = fold_closure(chars)
        return closed | _DOTTED if closed & _DOTTED else closed  # the module folds all four letters i together

    def dollar(self) -> Node:
        return ast.LAST_LINE

    def possessive(self) -> bool:
        return True

    def repeats_anchor(self) -> bool:
        return True

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
        if c in "AZ":
            return ast.START if c == "A" else ast.END
        if c in "bB":
            return self.boundary(c)
        if c in DIGITS:
            return self.character(self.octal(c, start))
        return self.character(self.code(c, start))

    def octal(self, c: str, start: int) -> int:
        digits = c
        while len(digits) < 3 and self.peek() and self.peek() in "01234567" and (c == "0" or len(digits) > 0):
            digits += self.peek()
            self.at += 1
        if c == "0" or (len(digits) == 3 and all(d in "01234567" for d in digits)):
            value = int(digits, 8)
            if value > 0o377:
                self.fail(f"the octal escape \\{digits} is beyond \\377", start)
            return value
        self.backreference(start)

    def code(self, c: str, start: int) -> int:
        """The code point of an escape that stands for one character."""
        if c in _SIMPLE:
            return _SIMPLE[c]
        if c in "xuU":
            width = {"x": 2, "u": 4, "U": 8}[c]
            return self.hex(width, width, f"\\{c}")
        if c == "N":
            if not self.eat("{"):
                self.fail("\\N needs a character name in braces", start)
            name = self.until("}", "the character name")
            try:
                return ord(unicodedata.lookup(name))
            except (KeyError, TypeError):
                self.fail(f"there is no character named {name!r}", start)
        if c.isascii() and c.isalnum():
            self.fail(f"bad escape \\{c}", start)
        return ord(c)

    # ------------------------------------------------------------ classes
    def char_class(self) -> Node:
        start = self.at
        self.at += 1
        negative = self.eat("^")
        chars, ranges = CharSet.EMPTY, []
        first = True
        while first or self.peek() != "]":
            if self.at >= len(self.text):
                self.fail("unterminated character class", start)
            first = False
            low_at = self.at
            low = self.class_item()
            if self.peek() == "-" and self.peek(2) != "-]" and self.at + 1 < len(self.text):
                self.at += 1
                high = self.class_item()
                if isinstance(low, CharSet) or isinstance(high, CharSet) or high < low:
                    self.fail("bad character range", low_at)
                ranges.append((low, high))
            elif isinstance(low, CharSet):
                chars |= low
            else:
                ranges.append((low, low))
        self.at += 1
        chars = self.fold(chars | CharSet(ranges))
        return self.count(ast.Chars(~chars if negative else chars))

    def class_item(self) -> CharSet | int:
        """A character or a named set within a class."""
        start = self.at
        c = self.peek()
        self.at += 1
        if c != "\\":
            return ord(c)
        c = self.peek()
        self.at += 1
        if c and c in "dDsSwW":
            return self.named_set(c)
        if not c:
            self.fail("a backslash at the end", start)
        if c in "01234567":
            digits = c
            while len(digits) < 3 and self.peek() and self.peek() in "01234567":
                digits += self.peek()
                self.at += 1
            value = int(digits, 8)
            if value > 0o377:
                self.fail(f"the octal escape \\{digits} is beyond \\377", start)
            return value
        return self.code(c, start)

    # ------------------------------------------------------------ groups
    def dialect_group(self, start: int) -> Node | None:
        if self.eat("P"):
            if self.eat("<"):
                self.name(">", start)
                return self.closed(start)
            if self.eat("="):
                self.backreference(start)
            self.fail("unknown kind of group", start)
        if self.eat("#"):
            self.until(")", "the comment")
            return None
        if self.eat(">"):
            return self.count(ast.Atomic(self.closed(start), start))
        if self.eat("("):
            self.fail("conditional groups are not regular and not supported", start)
        return self.flag_group(start)

    def flag_group(self, start: int) -> Node | None:
        letters = self.letters()
        off = self.letters() if self.eat("-") else ""
        if not letters and not off:
            self.fail("unknown kind of group", start)
        if self.peek() == ")" and off == "":
            if start != 0:
                self.fail("flags for the whole pattern must stand at its start", start)
            self.at += 1
            self.switch(letters, True, start)
            return None
        if not self.eat(":"):
            self.fail("missing : behind the flags", self.at)
        if any(f in "auL" for f in off):
            self.fail("the flags a, u and L cannot be switched off", start)
        self.switch(letters, True, start)
        self.switch(off, False, start)
        return self.closed(start)

    def letters(self) -> str:
        start = self.at
        while self.peek().isalpha():
            self.at += 1
        return self.text[start : self.at]

    def flagged(self, flags: Flags, letter: str, on: bool, position: int) -> Flags:
        if letter in "au":
            return replace(flags, u=letter == "u")
        if letter == "L":
            self.fail("the flag L (locale) does not apply to text", position)
        return super().flagged(flags, letter, on, position)
