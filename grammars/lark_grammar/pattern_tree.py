"""Python's own parse tree of a pattern, as the few kinds of nodes that the matcher in :mod:`.backtracking` knows."""

from __future__ import annotations

import re
import re._constants as _op  # type: ignore[import-not-found]  # the parser that ``re`` itself (and Lark) uses
import re._parser as _parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import RegexError
from ..regex.charset import ANY, EMPTY, CharSet, fold_closure, scan

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["Alt", "Cat", "Chars", "Look", "Node", "Rep", "children", "has_lazy", "has_look", "language", "parse_tree"]


def parse_tree(pool: Pool, pattern: str) -> Node:
    """The tree of a pattern; sets of characters are expressions of ``pool``.

    Raises:
        RegexError: the pattern is malformed, or has backreferences, anchors, atomic groups or nested lookarounds.
    """
    try:
        parsed = _parser.parse(pattern)
    except re.error as e:
        raise RegexError(e.msg, pattern, e.pos or 0) from None
    return _Converter(pool, pattern).pattern(parsed, parsed.state.flags)


class Node:
    """A piece of a pattern; identity is object identity."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Chars(Node):
    expr: int  # one character of a set


@dataclass(slots=True, eq=False)
class Cat(Node):
    items: list[Node]


@dataclass(slots=True, eq=False)
class Alt(Node):
    items: list[Node]


@dataclass(slots=True, eq=False)
class Rep(Node):
    item: Node
    lo: int
    hi: int | None
    lazy: bool


@dataclass(slots=True, eq=False)
class Look(Node):
    expr: int  # language of what is looked at
    width: int  # characters it may have (lookbehind)
    behind: bool
    negated: bool


@cache
def _category(name: str, ascii_only: bool) -> CharSet:
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.rsplit("_", 1)[-1]]
    chars = scan(re.compile(rf"\{letter}+", re.ASCII if ascii_only else 0).finditer)
    return ~chars if "_NOT_" in name else chars


class _Converter:
    """``re``'s own parse tree to nodes over one pool."""

    def __init__(self, pool: Pool, pattern: str) -> None:
        self.pool, self.source = pool, pattern

    def refuse(self, what: str) -> RegexError:
        return RegexError(f"{what} not supported in a terminal", self.source, 0)

    def pattern(self, items: Iterable[tuple[Any, Any]], flags: int) -> Node:
        nodes = [self.item(op, arg, flags) for op, arg in items]
        return nodes[0] if len(nodes) == 1 else Cat(nodes)

    def item(self, op: Any, arg: Any, flags: int) -> Node:
        chars = self.charset(op, arg, flags)
        if chars is not None:
            return Chars(self.pool.chars(chars))
        if op is _op.BRANCH:
            return Alt([self.pattern(item, flags) for item in arg[1]])
        if op is _op.SUBPATTERN:
            _, add, remove, item = arg
            return self.pattern(item, (flags | add) & ~remove)
        if op in (_op.MAX_REPEAT, _op.MIN_REPEAT):
            lo, hi, item = arg
            return Rep(self.pattern(item, flags), lo, None if hi is _op.MAXREPEAT else hi, op is _op.MIN_REPEAT)
        if op in (_op.ASSERT, _op.ASSERT_NOT):
            direction, item = arg
            tree = self.pattern(item, flags)
            return self.look(tree, item.getwidth()[1], direction < 0, op is _op.ASSERT_NOT)
        if op is _op.AT:
            return self.anchor(arg, flags)
        if op in (_op.GROUPREF, _op.GROUPREF_EXISTS):
            raise self.refuse("a backreference is")
        raise self.refuse(f"{str(op).lower().replace('_', ' ')} is")

    def look(self, tree: Node, width: int, behind: bool, negated: bool) -> Node:
        if has_look(tree):
            raise self.refuse("a lookaround inside a lookaround is")
        return Look(language(self.pool, tree), width, behind, negated)

    def anchor(self, where: Any, flags: int) -> Node:
        if where not in (_op.AT_BOUNDARY, _op.AT_NON_BOUNDARY):
            raise self.refuse("an anchor (^, $, \\A, \\Z) is")
        word = self.pool.chars(_category("CATEGORY_WORD", bool(flags & re.ASCII)))
        sides = [(False, True), (True, False)] if where is _op.AT_BOUNDARY else [(False, False), (True, True)]
        return Alt([Cat([Look(word, 1, True, before), Look(word, 1, False, after)]) for before, after in sides])

    def charset(self, op: Any, arg: Any, flags: int) -> CharSet | None:
        """The set that a one-character item matches; ``None`` for other items."""
        if op is _op.LITERAL:
            return self.fold(CharSet.of([arg]), flags)
        if op is _op.NOT_LITERAL:
            return ~self.fold(CharSet.of([arg]), flags)
        if op is _op.ANY:
            return ANY if flags & re.DOTALL else ~CharSet.of("\n")
        if op is not _op.IN:
            return None
        chars, negated = EMPTY, False
        for kind, value in arg:
            if kind is _op.NEGATE:
                negated = True
            elif kind is _op.LITERAL:
                chars |= CharSet.of([value])
            elif kind is _op.RANGE:
                chars |= CharSet([value])
            else:
                chars |= _category(str(value), bool(flags & re.ASCII))
        chars = self.fold(chars, flags)
        return ~chars if negated else chars

    @staticmethod
    def fold(chars: CharSet, flags: int) -> CharSet:
        if not flags & re.IGNORECASE:
            return chars
        folded = fold_closure(chars)
        return chars | (folded & CharSet([(0, 127)])) if flags & re.ASCII else folded


def children(node: Node) -> Sequence[Node]:
    if isinstance(node, (Cat, Alt)):
        return node.items
    return (node.item,) if isinstance(node, Rep) else ()


def has_look(node: Node) -> bool:
    return isinstance(node, Look) or any(map(has_look, children(node)))


def has_lazy(node: Node) -> bool:
    return (isinstance(node, Rep) and node.lazy) or any(map(has_lazy, children(node)))


def language(pool: Pool, node: Node) -> int:
    """All texts that match in full (no lookaround in ``node``)."""
    if isinstance(node, Chars):
        return node.expr
    if isinstance(node, Cat):
        return pool.cat(*(language(pool, item) for item in node.items))
    if isinstance(node, Alt):
        return pool.alt(*(language(pool, item) for item in node.items))
    assert isinstance(node, Rep)
    return pool.repeat(language(pool, node.item), node.lo, node.hi)
