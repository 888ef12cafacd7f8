r"""The syntax of Rust's ``regex`` crate, with what RE2 adds (``\Q...\E``, octal escapes, ``\p{^...}``)."""

from __future__ import annotations

import re
from dataclasses import replace

from . import ast
from .ast import Node
from .charset import CharSet, fold_closure, property_set
from .parser import Flags, Parser

__all__ = ["RustParser"]

_ASCII = CharSet([(0, 127)])
_SIMPLE = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_POSIX = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\x00\x7f",
    "blank": "\t\t  ",
    "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZaz__",
    "xdigit": "09AFaf",
}
_SPACE = CharSet.of("\t\n\v\f\r ")
_PLACES = {"start": "<", "end": ">", "start-half": "<-", "end-half": "->"}

_CR, _LF = CharSet.of("\r"), CharSet.of("\n")
# Anchors never split CR LF: behind LF, or behind CR if no LF follows; in front of CR, or of LF if no CR precedes.
_CRLF_START = ast.union([ast.LineEdge(True, _LF), ast.sequence([ast.LineEdge(True, _CR), ast.Look(ast.Chars(_LF), True)])])
_NOT_BEHIND_CR = ast.Boundary(frozenset({(False, True), (False, False)}), _CR)
_CRLF_END = ast.union([ast.LineEdge(False, _CR), ast.sequence([_NOT_BEHIND_CR, ast.LineEdge(False, _LF)])])


def posix(name: str) -> CharSet:
    """An ASCII class like ``alpha``."""
    bounds = _POSIX[name]
    return CharSet((ord(bounds[i]), ord(bounds[i + 1])) for i in range(0, len(bounds), 2))


class RustParser(Parser):
    """Parses a pattern as ``regex::Regex::new`` would."""

    dialect = "rust"
    lookaround = False
    open_interval = True

    def digit(self) -> CharSet:
        return property_set("Nd") if self.flags.u else posix("digit")

    def space(self) -> CharSet:
        return property_set("White_Space") if self.flags.u else _SPACE

    def word(self) -> CharSet:
        if not self.flags.u:
            return posix("word")
        return property_set("Alphabetic") | property_set("M") | property_set("Nd") | property_set("Pc") | property_set("Join_Control")

    def variants(self, chars: CharSet) -> CharSet:
        return fold_closure(chars) if self.flags.u else chars | (fold_closure(chars & _ASCII) & _ASCII)

    def newlines(self) -> CharSet:
        return CharSet.of("\r\n") if self.flags.crlf else CharSet.of("\n")

    def stacks(self) -> bool:
        return True

    def repeats_anchor(self) -> bool:
        return True

    def atom(self) -> Node | None:
        start = self.at
        if self.flags.crlf and self.flags.m and self.peek() in ("^", "$"):
            self.at += 1
            return self.count(_CRLF_START if self.text[start] == "^" else _CRLF_END)
        if self.eat("\\Q"):
            return self.quoted(start)
        node = super().atom()
        if isinstance(node, ast.Chars):
            self.textual(node.chars, start)
        return node

    def quoted(self, start: int) -> Node:
        r"""What stands between ``\Q`` and ``\E``."""
        end = self.text.find("\\E", self.at)
        text = self.text[self.at :] if end < 0 else self.text[self.at : end]
        self.at = len(self.text) if end < 0 else end + 2
        items = [self.character(ord(c)) for c in text]
        if items and self.peek() in ("*", "+", "?", "{"):  # a repetition is of the last character
            items[-1] = self.quantified(items[-1], start)
        return ast.sequence(items)

    def textual(self, chars: CharSet, position: int) -> None:
        """Refuses what would match raw bytes."""
        if not self.flags.u and self.text[position] in ".[\\" and chars and chars.ranges[-1][1] > 127:
            self.fail("without the u flag this matches raw bytes, which is not supported in text", position)

    def lone_brace(self) -> Node:
        self.fail("nothing to repeat in front of '{'")

    def interval(self) -> tuple[int, int | None] | None:
        found = re.compile(r"\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}").match(self.text, self.at)
        if found is None or not (found[1] or found[3]):
            return None
        self.at = found.end()
        if max(len(found[1]), len(found[3])) > 9:
            self.fail("the count is too large", found.start())
        lo = int(found[1] or 0)
        return lo, lo if not found[2] else int(found[3]) if found[3] else None

    def bounds(self) -> tuple[int, int | None] | None:
        start = self.at
        found = super().bounds()
        if found is None and self.peek() == "{":
            self.fail("a { must begin a count; write \\{ for the character", start)
        return found

    # ------------------------------------------------------------ escapes
    def escape(self) -> Node:
        start = self.at
        self.at += 1
        c = self.peek()
        self.at += 1
        if not c:
            self.fail("a backslash at the end", start)
        if c in "dDsSwWpP":
            return self.count(ast.Chars(self.escaped_set(c, start)))
        if c in "Az":
            return ast.START if c == "A" else ast.END
        if c in "bB":
            found = re.compile(r"\{([a-z-]+)\}").match(self.text, self.at)
            if c == "b" and found is not None:
                if found[1] not in _PLACES:
                    self.fail(f"unknown word boundary {found[1]!r}", start)
                self.at = found.end()
                return self.boundary(_PLACES[found[1]])
            return self.boundary(c)
        if c in "<>":
            return self.boundary(c)
        if c == "C":
            self.fail("\\C matches a raw byte, which is not supported in text", start)
        return self.character(self.code(c, start))

    def escaped_set(self, c: str, start: int) -> CharSet:
        r"""``\d`` and friends, and properties; case variants are added before a complement is taken."""
        if c not in "pP":
            return self.named_set(c)
        negative = c == "P"
        if self.eat("{"):
            name = self.until("}", "the property")
        else:
            name = self.peek()
            self.at += 1
        if name.startswith("^"):
            negative, name = not negative, name[1:]
        if "!=" in name:
            negative, name = not negative, name.replace("!=", "=")
        try:
            chars = property_set(name.strip())
        except KeyError:
            self.fail(f"there is no Unicode property {name!r}", start)
        chars = self.fold(chars)
        return ~chars if negative else chars

    def code(self, c: str, start: int) -> int:
        """The code point of an escape that stands for one character."""
        if c in _SIMPLE:
            return _SIMPLE[c]
        if c in "xuU":
            if self.eat("{"):
                value = self.hex(1, 8, f"\\{c}")
                if not self.eat("}"):
                    self.fail(f"\\{c}{{ is not closed", start)
                return value
            width = {"x": 2, "u": 4, "U": 8}[c]
            return self.hex(width, width, f"\\{c}")
        if c in "01234567":
            digits = c
            while len(digits) < 3 and self.peek() and self.peek() in "01234567":
                digits += self.peek()
                self.at += 1
            if c != "0" and len(digits) == 1:
                self.backreference(start)
            return int(digits, 8)
        if c in "89":
            self.backreference(start)
        if c.isalnum() or not c.isascii():
            self.fail(f"unknown escape \\{c}", start)
        return ord(c)

    # ------------------------------------------------------------ classes
    def char_class(self) -> Node:
        return self.count(ast.Chars(self.bracketed()))

    def bracketed(self) -> CharSet:
        """A class from its ``[`` on; operators bind left to right and weaker than juxtaposition."""
        start = self.at
        self.depth += 1
        if self.depth > self.limits.nesting:
            self.fail("classes are nested too deeply", start)
        self.at += 1
        negative = self.eat("^")
        result = self.class_union(start, leading=True)
        while self.peek() != "]":
            operator = self.peek(2)
            self.at += 2
            right = self.class_union(start)
            result = result & right if operator == "&&" else result - right if operator == "--" else result ^ right
        self.at += 1
        self.depth -= 1
        return ~result if negative else result

    def class_union(self, start: int, leading: bool = False) -> CharSet:
        """Members up to an operator or the closing bracket."""
        chars, ranges = CharSet.EMPTY, []
        first = leading
        while True:
            self.blanks()
            if self.at >= len(self.text):
                self.fail("unterminated character class", start)
            if not first and (self.peek() == "]" or self.peek(2) in ("&&", "~~")):
                break
            if self.peek(2) == "--" and not first and self.peek(3) != "--]":
                break
            low_at = self.at
            first = False
            low = self.class_item()
            self.blanks()
            if self.peek() == "-" and self.peek(2) not in ("-]", "--"):
                self.at += 1
                self.blanks()
                high = self.class_item()
                if isinstance(low, CharSet) or isinstance(high, CharSet) or high < low:
                    self.fail("bad character range", low_at)
                ranges.append((low, high))
            elif isinstance(low, CharSet):
                chars |= low
            else:
                ranges.append((low, low))
        return chars | self.fold(CharSet(ranges))

    def class_item(self) -> CharSet | int:
        start = self.at
        c = self.peek()
        if c == "[":
            found = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.text, self.at)
            if found is None:
                return self.bracketed()
            if found[2] not in _POSIX:
                self.fail(f"unknown class {found[2]!r}", start)
            self.at = found.end()
            chars = self.fold(posix(found[2]))
            return ~chars if found[1] else chars
        self.at += 1
        if c != "\\":
            return ord(c)
        c = self.peek()
        self.at += 1
        if not c:
            self.fail("a backslash at the end", start)
        if c in "dDsSwWpP":
            return self.escaped_set(c, start)
        return 8 if c == "b" else self.code(c, start)

    # ------------------------------------------------------------ groups
    def dialect_group(self, start: int) -> Node | None:
        if self.eat("P<") or self.eat("<"):
            self.name(">", start)
            return self.closed(start)
        found = re.compile(r"([a-zA-Z]*)(-[a-zA-Z]+)?([:)])").match(self.text, self.at)
        if found is None or not (found[1] or found[2]):
            self.fail("unknown kind of group (lookaround and backreferences are not part of this dialect)", start)
        self.at = found.end()
        self.switch(found[1], True, start)
        self.switch((found[2] or "")[1:], False, start)
        return self.closed(start) if found[3] == ":" else None

    def flagged(self, flags: Flags, letter: str, on: bool, position: int) -> Flags:
        if letter == "U":  # lazy and greedy repetitions match the same language
            return flags
        if letter == "u":
            return replace(flags, u=on)
        if letter == "R":
            return replace(flags, crlf=on)
        return super().flagged(flags, letter, on, position)
