r"""llama.cpp's grammar format (GBNF), scannerless::

    root   ::= "[" ws (number ("," ws number)*)? "]"   # a comment
    number ::= "-"? [0-9]{1,15}
    ws     ::= [ \t\n]*

Names are letters, digits and ``-``. Strings and classes know the escapes ``\n \t \r \\ \" \[ \]``,
``\xHH``, ``\uHHHH`` and ``\UHHHHHHHH``; ``.`` is any character; ``* + ? {m} {m,} {m,n}`` repeat the item before them
(a whole string, where it is one). A rule ends with its line, except inside parentheses and after
``::=`` and ``|``. A rule that is defined twice has its last definition, as in llama.cpp.

Differences to llama.cpp: left recursion works; an empty class and a reversed range, which llama.cpp takes to
mean something useless, are refused; so are token references (``<[7]>``, ``<name>``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from .constraint import Constraint
from .errors import GrammarError, LimitError
from .limits import Limits
from .rules import EPSILON, Node, Part, Rule, StaticRule, finish, lexeme, literal, optional, repeat, sequence, union

if TYPE_CHECKING:
    from .regex.expr import Pool

__all__ = ["Gbnf"]

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
_SHORT = {"t": 9, "r": 13, "n": 10, "\\": 92, '"': 34, "[": 91, "]": 93}
_HEX = {"x": 2, "u": 4, "U": 8}
_LAST = 0x10FFFF


# ---------------------------------------------------------------- syntax tree
@dataclass(slots=True)
class _Literal:
    text: str


@dataclass(slots=True)
class _Class:
    ranges: list[tuple[int, int]]
    negated: bool = False


@dataclass(slots=True)
class _Ref:
    name: str
    at: int


@dataclass(slots=True)
class _Repeat:
    item: _Item
    lo: int
    hi: int | None


@dataclass(slots=True)
class _Group:
    """Alternatives, each a sequence; ``depth`` counts the groups around it."""

    alternatives: list[list[_Item]] = field(default_factory=lambda: [[]])
    depth: int = 0
    at: int = 0


_Item = _Literal | _Class | _Ref | _Repeat | _Group


class Gbnf(Constraint):
    """Texts of a grammar in llama.cpp's format.

    Args:
        grammar: the grammar's text.
        start: the rule that a whole text has to match.
        limits: ``nesting`` bounds the depth of parentheses.

    Raises:
        GrammarError: the text is malformed, a rule is undefined, or a feature is not supported; has line and column.
    """

    def __init__(self, grammar: str, start: str = "root", limits: Limits | None = None) -> None:
        self.grammar, self.start = grammar, start
        self.limits = limits or Limits()
        self._rules = _Parser(grammar, self.limits).parse()
        if start not in self._rules:
            known = ", ".join(list(self._rules)[:10]) or "none"
            raise GrammarError(f"the start rule {start!r} is not defined (defined: {known}); define it or name another with start=")

    def build(self, pool: Pool) -> Rule:
        return _Lowering(pool, self._rules).rule(self.start)


# ---------------------------------------------------------------- parser
class _Parser:
    """Reads the text once, without recursion (an explicit stack of open groups)."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text, self.limits, self.i = text, limits, 0
        self.refs: list[_Ref] = []

    def parse(self) -> dict[str, _Group]:
        rules: dict[str, _Group] = {}
        self.space(newlines=True)
        while self.i < len(self.text):
            name = self.name("a rule's name")
            self.space(newlines=False)
            if not self.text.startswith("::=", self.i):
                self.fail(f"expected '::=' after the rule name {name!r}")
            self.i += 3
            self.space(newlines=True)
            rules[name] = self.body()
            if self.i < len(self.text) and self.text[self.i] not in "\r\n":
                self.fail("expected the end of the line" if self.peek() != ")" else "this ')' closes nothing")
            self.space(newlines=True)
        for ref in self.refs:
            if ref.name not in rules:
                self.fail(f"the rule {ref.name!r} is used here but not defined", ref.at)
        return rules

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self.i if at is None else at
        before = self.text[:at]
        raise GrammarError(message, before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1, self.text)

    def peek(self) -> str:
        """The next character, ``""`` at the end."""
        return self.text[self.i : self.i + 1]

    def space(self, *, newlines: bool) -> None:
        blanks = " \t\r\n" if newlines else " \t"
        while c := self.peek():
            if c == "#":
                while self.peek() not in ("", "\r", "\n"):
                    self.i += 1
            elif c in blanks:
                self.i += 1
            else:
                return

    def name(self, what: str) -> str:
        first = self.i
        while self.peek() and self.peek() in _NAME:
            self.i += 1
        if self.i == first:
            self.fail(f"expected {what} (letters, digits and '-')")
        return self.text[first : self.i]

    def body(self) -> _Group:
        """Alternatives up to the end of the line (outside parentheses) or of the text."""
        group = _Group(at=self.i)
        stack: list[_Group] = []
        while True:
            c = self.peek()
            items = group.alternatives[-1]
            if c == "(":
                stack.append(group)
                if len(stack) > self.limits.nesting:
                    raise LimitError("nesting", self.limits.nesting, "by the parentheses of a grammar")
                group = _Group(depth=len(stack), at=self.i)
                self.i += 1
                self.space(newlines=True)
            elif c == ")" and stack:
                self.i += 1
                closed, group = group, stack.pop()
                group.alternatives[-1].append(closed)
                self.space(newlines=bool(stack))
            elif c == "|":
                group.alternatives.append([])
                self.i += 1
                self.space(newlines=True)
            elif not self.item(items, bool(stack)):
                if stack:
                    self.fail("expected ')' for the '(' of " + self.where(group.at) if not c else "expected an item, '|' or ')' here")
                return group

    def where(self, at: int) -> str:
        before = self.text[:at]
        return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"

    def item(self, items: list[_Item], nested: bool) -> bool:
        """Reads one item, or one repetition of the last item; ``False`` if there is none."""
        c = self.peek()
        if c == '"':
            items.append(_Literal(self.string()))
        elif c == "[":
            items.append(self.char_class())
        elif c == ".":
            self.i += 1
            items.append(_Class([(0, _LAST)]))
        elif c and c in "*+?{":
            self.repetition(items, nested)
        elif c and c in _NAME:
            ref = _Ref("", self.i)
            ref.name = self.name("a rule's name")
            self.refs.append(ref)
            items.append(ref)
        elif c == "<" or self.text.startswith("!<", self.i):
            self.fail("token references are not supported; write the token's text as a string")
        else:
            return False
        self.space(newlines=nested)
        return True

    def string(self) -> str:
        first = self.i
        self.i += 1
        out = []
        while self.peek() != '"':
            out.append(chr(self.char("string", first)))
        self.i += 1
        return "".join(out)

    def char(self, what: str, first: int) -> int:
        """One character of the string or class that begins at ``first``, as a code point."""
        at = self.i
        c = self.peek()
        if not c:
            self.fail(f"the text ends inside the {what} that begins at {self.where(first)}")
        self.i += 1
        code = self.escape(at) if c == "\\" else ord(c)
        if 0xD800 <= code <= 0xDFFF or code > _LAST:
            self.fail(f"U+{code:04X} is not a character", at)
        return code

    def escape(self, at: int) -> int:
        c = self.peek()
        self.i += 1
        if c in _HEX:
            digits = self.text[self.i : self.i + _HEX[c]]
            if len(digits) != _HEX[c] or not all(d in "0123456789abcdefABCDEF" for d in digits):
                self.fail(f"expected {_HEX[c]} hexadecimal digits after '\\{c}'", at)
            self.i += len(digits)
            return int(digits, 16)
        if c not in _SHORT or not c:
            self.fail(f"unknown escape '\\{c}'; known are \\n \\t \\r \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH", at)
        return _SHORT[c]

    def char_class(self) -> _Class:
        first = self.i
        self.i += 1
        negated = self.peek() == "^"
        self.i += negated
        out = _Class([], negated)
        while self.peek() != "]":
            at = self.i
            lo = hi = self.char("character class", first)
            if self.peek() == "-" and self.text[self.i + 1 : self.i + 2] != "]":
                self.i += 1
                hi = self.char("character class", first)
                if hi < lo:
                    self.fail("the range is reversed", at)
            out.ranges.append((lo, hi))
        self.i += 1
        if not out.ranges:
            self.fail("the character class is empty; any character is '.'", first)
        return out

    def repetition(self, items: list[_Item], nested: bool) -> None:
        at, c = self.i, self.peek()
        if not items or (isinstance(items[-1], _Literal) and not items[-1].text):
            self.fail(f"there is nothing in front of {c!r} to repeat")
        self.i += 1
        lo, hi = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(c, (0, None))
        if c == "{":
            lo, hi = self.bounds(nested)
        if hi is not None and hi < lo:
            self.fail(f"the repetition {{{lo},{hi}}} is reversed", at)
        items[-1] = _Repeat(items[-1], lo, hi)

    def bounds(self, nested: bool) -> tuple[int, int | None]:
        self.space(newlines=nested)
        lo = hi = self.number(nested)
        if lo is None:
            self.fail("expected a number after '{'")
        if self.peek() == ",":
            self.i += 1
            self.space(newlines=nested)
            hi = self.number(nested)
        if self.peek() != "}":
            self.fail("expected '}' or ',' in the repetition")
        self.i += 1
        return lo, hi

    def number(self, nested: bool) -> int | None:
        first = self.i
        while self.peek() and self.peek() in "0123456789":
            self.i += 1
        digits = self.text[first : self.i]
        if len(digits) > 9:
            self.fail("the number is too large", first)
        self.space(newlines=nested)
        return int(digits) if digits else None


# ---------------------------------------------------------------- lowering
_INLINE = 24  # groups nested deeper than a multiple of this become rules of their own, to keep trees shallow


class _Lowering:
    """Syntax trees to rules over one pool."""

    def __init__(self, pool: Pool, rules: dict[str, _Group]) -> None:
        self.pool, self.trees = pool, rules
        self.rules: dict[str, StaticRule] = {}
        self.todo: list[tuple[StaticRule, _Group]] = []

    def rule(self, start: str) -> Rule:
        first = self.ref(start)
        while self.todo:
            rule, group = self.todo.pop()
            rule.define(self.alternatives(group))
        return finish(first)

    def ref(self, name: str) -> StaticRule:
        if name not in self.rules:
            self.rules[name] = StaticRule(name)
            self.todo.append((self.rules[name], self.trees[name]))
        return self.rules[name]

    def alternatives(self, group: _Group) -> Node:
        parts = [self.items(items) for items in group.alternatives]
        return parts[0] if len(parts) == 1 else union(*parts)

    def items(self, items: list[_Item]) -> Node:
        """A sequence; neighbouring strings become one lexeme."""
        parts: list[Part] = []
        text = ""
        for item in items:
            if isinstance(item, _Literal):
                text += item.text
                continue
            if text:
                parts.append(literal(self.pool, text, name=repr(text)))
            text = ""
            parts.append(self.item(item))
        if text:
            parts.append(literal(self.pool, text, name=repr(text)))
        return sequence(*parts) if parts else EPSILON

    def item(self, item: _Item) -> Part:
        if isinstance(item, _Repeat):
            return self.repetition(item)
        if isinstance(item, _Group):
            if item.depth % _INLINE:
                return self.alternatives(item)
            rule = StaticRule("group")
            self.todo.append((rule, item))
            return rule
        if isinstance(item, _Ref):
            return self.ref(item.name)
        if isinstance(item, _Class):
            return self.char_class(item)
        return literal(self.pool, item.text, name=repr(item.text))

    def repetition(self, item: _Repeat) -> Node:
        inner: _Item = item
        bounds: list[tuple[int, int | None]] = []
        while isinstance(inner, _Repeat):  # a chain such as x*?+ may be long
            bounds.append((inner.lo, inner.hi))
            inner = inner.item
        part = self.item(inner)
        for lo, hi in reversed(bounds):
            if (lo, hi) == (0, 1):
                part = optional(part)
            else:
                part = repeat(part, lo, hi)
            if len(bounds) > 1:
                part = StaticRule("repetition").define(part)
        return part if isinstance(part, Node) else sequence(part)

    def char_class(self, item: _Class) -> Node:
        from .regex.charset import CharSet

        chars = CharSet(item.ranges)
        if item.negated:
            chars = ~chars
        return lexeme(self.pool, self.pool.chars(chars), name=_show_class(item))


def _show_class(item: _Class) -> str:
    show: Callable[[int], str] = lambda code: repr(chr(code))[1:-1]  # noqa: E731
    shown = "".join(show(lo) if lo == hi else f"{show(lo)}-{show(hi)}" for lo, hi in item.ranges[:20])
    return f"[{'^' * item.negated}{shown}]"
