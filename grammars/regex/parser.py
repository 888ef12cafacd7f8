"""What the pattern parsers of all dialects have in common: alternation, sequences, quantifiers, groups, flags.

A dialect subclasses :class:`Parser` and says what an escape, a class and a ``(?...)`` group mean.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import NoReturn

from ..errors import LimitError, RegexError
from ..limits import Limits
from . import ast
from .ast import Node
from .charset import ANY, CharSet, fold_closure

__all__ = ["Flags", "Parser", "single"]

ANY_CHAR = CharSet.ANY
NEWLINE = CharSet.of("\n")
DIGITS = "0123456789"
_PLACES = {
    "b": frozenset({(True, False), (False, True)}),
    "B": frozenset({(True, True), (False, False)}),
    "<": frozenset({(False, True)}),
    ">": frozenset({(True, False)}),
    "<-": frozenset({(False, True), (False, False)}),
    "->": frozenset({(True, False), (False, False)}),
}


@functools.lru_cache(maxsize=4096)
def single(point: int) -> CharSet:
    """The set of one code point."""
    return CharSet([(point, point)])


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags in force: ignore case, dot matches all, multi-line anchors, verbose, Unicode classes, CRLF lines."""

    i: bool = False
    s: bool = False
    m: bool = False
    x: bool = False
    u: bool = True
    crlf: bool = False


class Parser:
    """A recursive-descent parser of one pattern."""

    dialect = ""
    lookaround = True
    open_interval = False  # `{,n}` is a quantifier

    def __init__(self, pattern: str, flags: Flags, limits: Limits | None = None) -> None:
        self.text, self.flags, self.limits = pattern, flags, limits or Limits()
        self.at, self.depth, self.size = 0, 0, 0
        self.names: set[str] = set()

    # ------------------------------------------------------------ reading
    def fail(self, message: str, position: int | None = None) -> NoReturn:
        raise RegexError(message, self.text, self.at if position is None else position)

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def eat(self, expected: str) -> bool:
        """Skips ``expected`` if it comes next."""
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def until(self, closing: str, what: str) -> str:
        """Text up to ``closing``, which is skipped."""
        end = self.text.find(closing, self.at)
        if end < 0:
            self.fail(f"{what} is not closed by {closing!r}")
        found = self.text[self.at : end]
        self.at = end + len(closing)
        return found

    def hex(self, least: int, most: int, what: str) -> int:
        """A hexadecimal number of ``least`` to ``most`` digits."""
        start = self.at
        while self.at < len(self.text) and self.at - start < most and self.peek() in "0123456789abcdefABCDEF":
            self.at += 1
        if self.at - start < least:
            self.fail(f"{what} needs {least} hexadecimal digits", start)
        return self.point(int(self.text[start : self.at], 16), start)

    def point(self, value: int, position: int) -> int:
        if value > 0x10FFFF:
            self.fail(f"there is no code point {value:#x}", position)
        return value

    def count(self, node: Node) -> Node:
        """Counts a new node against the size limit."""
        self.size += 1
        if self.size > self.limits.regex_size:
            raise LimitError("regex_size", self.limits.regex_size, "in a pattern")
        return node

    # ------------------------------------------------------------ structure
    def parse(self) -> Node:
        try:
            node = self.alternation()
        except RecursionError:
            raise LimitError(
                "nesting", self.limits.nesting, "or the interpreter's recursion limit before it, by groups in groups of a pattern"
            ) from None
        if self.at < len(self.text):
            self.fail("unbalanced )")
        return node

    def alternation(self) -> Node:
        branches = [self.sequence()]
        while self.eat("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else self.count(ast.union(branches))

    def sequence(self) -> Node:
        items: list[Node] = []
        while True:
            self.blanks()
            if self.at >= len(self.text) or self.peek() in "|)":
                break
            start = self.at
            node = self.atom()
            if node is not None:
                items.append(self.quantified(node, start))
        return self.count(ast.sequence(items))

    def blanks(self) -> None:
        """Skips blanks and comments where the verbose flag is set."""
        while self.flags.x and self.at < len(self.text):
            if self.peek() in " \t\n\r\f\v":
                self.at += 1
            elif self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end + 1
            else:
                break

    def atom(self) -> Node | None:
        """One factor without its quantifier; ``None`` where nothing is matched (a comment, flags)."""
        c = self.peek()
        if c == "(":
            return self.group()
        if c == "[":
            return self.char_class()
        if c == "\\":
            return self.escape()
        if c in "*+?":
            self.fail(f"nothing to repeat in front of {c!r}")
        if c == "{":
            return self.lone_brace()
        self.at += 1
        if c == ".":
            return self.count(ast.Chars(self.dot()))
        if c == "^":
            return ast.LineEdge(True, self.newlines()) if self.flags.m else ast.START
        if c == "$":
            return ast.LineEdge(False, self.newlines()) if self.flags.m else self.dollar()
        return self.character(ord(c))

    def lone_brace(self) -> Node:
        """A ``{`` where an atom is expected."""
        start = self.at
        if self.interval() is not None:
            self.fail("nothing to repeat in front of the count", start)
        self.at = start + 1
        return self.character(ord("{"))

    def character(self, point: int) -> Node:
        return self.count(ast.Chars(self.fold(single(point))))

    def fold(self, chars: CharSet) -> CharSet:
        return self.variants(chars) if self.flags.i else chars

    def variants(self, chars: CharSet) -> CharSet:
        """``chars`` with their case variants in this dialect."""
        return fold_closure(chars)

    def dot(self) -> CharSet:
        return ANY if self.flags.s else ~self.newlines()

    def newlines(self) -> CharSet:
        return NEWLINE

    def dollar(self) -> Node:
        return ast.END

    # ------------------------------------------------------------ quantifiers
    def quantified(self, node: Node, start: int) -> Node:
        while True:
            self.blanks()
            position = self.at
            bounds = self.bounds()
            if bounds is None:
                return node
            if isinstance(node, (ast.Edge, ast.LineEdge)) and not self.repeats_anchor():
                self.fail("an anchor cannot be repeated", position)
            lo, hi = bounds
            if hi is not None and hi < lo:
                self.fail(f"the count {{{lo},{hi}}} has its bounds in the wrong order", position)
            node = self.count(ast.Repeat(node, lo, hi))
            if self.eat("?"):  # lazy: the same language
                pass
            elif self.possessive() and self.eat("+"):
                node = self.count(ast.Atomic(node, position))
            if not self.stacks() and self.at < len(self.text) and (self.peek() in "*+?" or (self.peek() == "{" and self.is_interval())):
                self.fail("a repetition cannot be repeated; put a group around it")

    def bounds(self) -> tuple[int, int | None] | None:
        c = self.peek()
        if c and c in "*+?":
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[c]
        return self.interval() if c == "{" else None

    def is_interval(self) -> bool:
        start = self.at
        found = self.interval() is not None
        self.at = start
        return found

    def interval(self) -> tuple[int, int | None] | None:
        """``{n}``, ``{n,}``, ``{n,m}``; leaves the place alone if there is none."""
        start = self.at
        self.at += 1
        lo = self.number()
        if lo is None and not (self.open_interval and self.peek() == ","):
            self.at = start
            return None
        hi = lo
        if self.eat(","):
            hi = self.number()
        if not self.eat("}"):
            self.at = start
            return None
        return lo or 0, hi

    def number(self) -> int | None:
        start = self.at
        while self.at < len(self.text) and self.peek() in DIGITS:
            self.at += 1
        if self.at == start:
            return None
        if self.at - start > 9:
            self.fail("the count is too large", start)
        return int(self.text[start : self.at])

    def possessive(self) -> bool:
        return False

    def stacks(self) -> bool:
        """Whether ``a**`` is allowed."""
        return False

    def repeats_anchor(self) -> bool:
        return False

    # ------------------------------------------------------------ groups
    def group(self) -> Node | None:
        start = self.at
        self.depth += 1
        if self.depth > self.limits.nesting:
            raise LimitError("nesting", self.limits.nesting, "in a pattern (groups in groups)")
        self.at += 1
        kept = self.flags
        node = self.special(start) if self.eat("?") else self.closed(start)
        if node is not None:
            self.flags = kept
        self.depth -= 1
        return node

    def closed(self, start: int) -> Node:
        """The inside of a group up to its parenthesis."""
        node = self.alternation()
        if not self.eat(")"):
            self.fail("missing )", start)
        return node

    def special(self, start: int) -> Node | None:
        """What follows ``(?``; ``None`` for flags that hold from here on, and comments."""
        if self.eat(":"):
            return self.closed(start)
        if self.peek(2) in ("<=", "<!"):
            self.fail("lookbehind is not supported; rewrite the pattern without it", start)
        if self.peek() in ("=", "!"):
            if not self.lookaround:
                self.fail("lookaround is not part of this dialect", start)
            negative = self.peek() == "!"
            self.at += 1
            return self.count(ast.Look(self.closed(start), negative))
        return self.dialect_group(start)

    def dialect_group(self, start: int) -> Node | None:
        self.fail("unknown kind of group", start)

    def name(self, closing: str, start: int) -> str:
        """A group's name, which must be new."""
        name = self.until(closing, "the group name")
        if not name.isidentifier():
            self.fail(f"bad group name {name!r}", start)
        if name in self.names and not self.repeats_names():
            self.fail(f"the group name {name!r} is used twice", start)
        self.names.add(name)
        return name

    def repeats_names(self) -> bool:
        return False

    def switch(self, letters: str, on: bool, position: int) -> None:
        """Sets or clears flags."""
        for letter in letters:
            self.flags = self.flagged(self.flags, letter, on, position)

    def flagged(self, flags: Flags, letter: str, on: bool, position: int) -> Flags:
        if letter in "ismx":
            return replace(flags, **{letter: on})
        self.fail(f"unknown flag {letter!r}", position)

    # ------------------------------------------------------------ dialects
    def escape(self) -> Node:
        raise NotImplementedError

    def char_class(self) -> Node:
        raise NotImplementedError

    def word(self) -> CharSet:
        raise NotImplementedError

    def boundary(self, kind: str) -> Node:
        return self.count(ast.Boundary(_PLACES[kind], self.word()))

    def named_set(self, letter: str) -> CharSet:
        r"""``\d``, ``\s``, ``\w`` and their complements."""
        base = {"d": self.digit, "s": self.space, "w": self.word}[letter.lower()]()
        return ~base if letter.isupper() else base

    def digit(self) -> CharSet:
        raise NotImplementedError

    def space(self) -> CharSet:
        raise NotImplementedError

    def backreference(self, position: int) -> NoReturn:
        self.fail("backreferences are not regular and not supported", position)
