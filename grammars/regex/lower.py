r"""From syntax trees to expressions of a pool.

Trees without assertions translate node by node. The rest is translated in *continuation-passing style*: the
translation of a node is a function from what follows it (an expression) to an expression, so that an assertion
about what follows is an intersection with it (``(?=a)k`` is ``k & a.*``, ``(?!a)k`` is ``k - a.*``,
``$k`` is ``k & ""``). Assertions about what precedes (``^``, ``\b``) need one character of left context: a
continuation is a function of the *context*, the class of the last character read, and characters are split by
class where that matters. A repetition with assertions inside becomes a variable of the pool, defined in terms
of itself; so every assertion translates exactly, wherever it stands.

One character is written by an *encoder*; counts, lengths and classes are about characters, whatever their spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import LimitError, RegexError
from ..limits import Limits
from . import ast
from .alternatives import Encoder
from .ast import Node, Pattern
from .charset import ANY, CharSet
from .lengths import bounded
from .syntax import parse

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["Encoder", "char_length", "to_expr"]

_ANY_STAR = ast.Repeat(ast.Chars(ANY), 0, None)
_COPIES = 2000  # a bounded repetition of something with assertions inside is written out up to this count


def utf8(pool: Pool, chars: CharSet) -> int:
    """The default encoder."""
    return pool.chars(chars)


def char_length(pool: Pool, encoder: Encoder | None, lo: int, hi: int | None) -> int:
    """Any text of ``lo`` to ``hi`` characters."""
    return pool.repeat((encoder or utf8)(pool, ANY), lo, hi)


def to_expr(
    pattern: Pattern | str,
    pool: Pool,
    *,
    dialect: str = "python",
    search: bool = False,
    encoder: Encoder | None = None,
    min_length: int = 0,
    max_length: int | None = None,
) -> int:
    """The language of a pattern as an expression of ``pool``.

    Args:
        pattern: a parsed pattern, or its text (then in ``dialect``).
        search: the pattern may match anywhere in the text; otherwise the whole text must match. Anchors are honoured either way.
        encoder: ``encoder(pool, chars)`` is one character out of ``chars`` as it is written; default UTF-8.
            It must be a prefix-free code that writes different characters differently, monotone in ``chars``.
        min_length, max_length: bounds on the number of characters of the text.

    Returns:
        The expression's id; ``pool.EMPTY``, or an expression whose language is empty, where nothing fits.

    Raises:
        RegexError: the pattern is malformed, or not regular; says where.
        LimitError: the pattern is too large.
    """
    tree = parse(pattern, dialect) if isinstance(pattern, str) else pattern
    lowering = _Lowering(pool, encoder or utf8, tree)
    try:
        return lowering.run(search, min_length, max_length)
    except RecursionError:
        raise LimitError(
            "nesting", Limits().nesting, "or the interpreter's recursion limit before it, by groups in groups of a pattern"
        ) from None
    finally:
        pool.abandon()


# ---------------------------------------------------------------- trees
def _pure(node: Node, memo: dict[int, bool]) -> bool:
    """Whether a tree is free of assertions; remembered by object."""
    found = memo.get(id(node))
    if found is None:
        if isinstance(node, ast.Chars):
            found = True
        elif isinstance(node, (ast.Sequence, ast.Union_)):
            found = all(_pure(item, memo) for item in node.items)
        else:
            found = isinstance(node, ast.Repeat) and _pure(node.body, memo)
        memo[id(node)] = found
    return found


def _open(node: Node, search: bool) -> Node:
    """The tree that must match the whole text: anchors at its two ends become the absence of ``.*`` there."""
    if isinstance(node, ast.Union_):
        return ast.union([_open(item, search) for item in node.items])
    items = list(node.items) if isinstance(node, ast.Sequence) else [node]
    front: list[Node] = [_ANY_STAR] if search else []
    back: list[Node] = [_ANY_STAR] if search else []
    while items and items[0] == ast.START:
        front = []
        items.pop(0)
    while items and items[-1] in (ast.END, ast.LAST_LINE):
        if items.pop() == ast.END:
            back = []
        elif back == [_ANY_STAR]:
            back = [ast.Repeat(ast.Chars(CharSet.of("\n")), 0, 1)]
    return ast.sequence([*front, *items, *back])


def _left_sets(node: Node, found: dict[CharSet, None]) -> None:
    """Collects the sets of characters that assertions about the left ask for."""
    if isinstance(node, (ast.Sequence, ast.Union_)):
        for item in node.items:
            _left_sets(item, found)
    elif isinstance(node, (ast.Repeat, ast.Look, ast.Atomic)):
        _left_sets(node.body, found)
    elif isinstance(node, ast.LineEdge) and node.start:
        found[node.newlines] = None
    elif isinstance(node, ast.Boundary):
        found[node.word] = None


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of the text read so far.

    Attributes:
        last: the last character's class; -1 at the start of the text.
        moved: whether the enclosing repetition has read anything in this round.
    """

    last: int
    moved: bool


Continuation = Callable[[Context], int]


def _memo(function: Continuation) -> Continuation:
    known: dict[Context, int] = {}

    def remembered(context: Context) -> int:
        found = known.get(context)
        if found is None:
            found = known[context] = function(context)
        return found

    return remembered


class _Lowering:
    """One translation."""

    def __init__(self, pool: Pool, encoder: Encoder, pattern: Pattern) -> None:
        self.pool, self.encoder, self.pattern = pool, encoder, pattern
        self._encoded: dict[CharSet, int] = {}
        self._exprs: dict[int, int] = {}
        self._purity: dict[int, bool] = {}
        self.classes: list[CharSet] = [ANY]
        self.contexts: list[Context] = []
        self.text = pool.star(self.encode(ANY))

    # ------------------------------------------------------------ entry
    def run(self, search: bool, lo: int, hi: int | None) -> int:
        pool, node = self.pool, self.pattern.node
        if hi is not None and hi < lo:
            return pool.EMPTY
        if not self.pure(node):
            node = _open(node, search)
        elif search:
            node = ast.sequence([_ANY_STAR, node, _ANY_STAR])
        if self.pure(node):
            merged = bounded(node, lo, hi)
            if merged is not None:
                return self.expr(merged)
            e = self.expr(node)
        else:
            self.split_contexts(node)
            e = self.lower(node, lambda context: pool.EPSILON)(Context(-1, False))
        if lo == 0 and hi is None:
            return e
        return pool.both(e, char_length(pool, self.encoder, lo, hi))

    def split_contexts(self, node: Node) -> None:
        """Partitions the characters by what the assertions ask about them."""
        sets: dict[CharSet, None] = {}
        _left_sets(node, sets)
        for chars in sets:
            self.classes = [part for c in self.classes for part in (c & chars, c - chars) if part]
        self.contexts = [Context(last, moved) for last in range(-1, len(self.classes)) for moved in (False, True)]
        self._kept = node  # nodes are remembered by object, so they must live

    def encode(self, chars: CharSet) -> int:
        found = self._encoded.get(chars)
        if found is None:
            found = self._encoded[chars] = self.encoder(self.pool, chars) if chars else 0
            if found and self.encoder is not utf8:
                self.pool.note_chars(found, self.encoder, chars)
        return found

    def pure(self, node: Node) -> bool:
        return _pure(node, self._purity)

    # ------------------------------------------------------------ without assertions
    def expr(self, node: Node) -> int:
        """A tree without assertions."""
        if isinstance(node, ast.Chars):
            return self.encode(node.chars)
        if isinstance(node, ast.Sequence):
            return self.pool.cat(*(self.expr(item) for item in node.items))
        if isinstance(node, ast.Union_):
            return self.pool.alt(*(self.expr(item) for item in node.items))
        if isinstance(node, ast.Repeat):
            return self.pool.repeat(self.expr(node.body), node.lo, node.hi)
        raise TypeError(f"{type(node).__name__} is an assertion")

    # ------------------------------------------------------------ with assertions
    def lower(self, node: Node, k: Continuation) -> Continuation:
        """What matches ``node`` and then ``k``, by context."""
        if isinstance(node, ast.Chars):
            return _memo(lambda context: self.read(node.chars, k))
        if isinstance(node, ast.Sequence):
            for item in reversed(node.items):
                k = self.lower(item, k)
            return k
        if isinstance(node, ast.Union_):
            branches = [self.lower(item, k) for item in node.items]
            return _memo(lambda context: self.pool.alt(*(branch(context) for branch in branches)))
        if isinstance(node, ast.Repeat):
            return self.pure_repeat(node, k) if self.pure(node) else self.repeat(node, k)
        if isinstance(node, ast.Look):
            return self.look(node, k)
        if isinstance(node, ast.Atomic):
            return self.atomic(node, k)
        return self.place(node, k)

    def read(self, chars: CharSet, k: Continuation) -> int:
        """One character, then ``k`` in the context of its class."""
        after: dict[int, CharSet] = {}
        for number, part in enumerate(self.classes):
            common = chars & part if len(self.classes) > 1 else chars
            if common:
                rest = k(Context(number, True))
                after[rest] = after[rest] | common if rest in after else common
        return self.pool.alt(*(self.pool.cat(self.encode(part), rest) for rest, part in after.items()))

    def pure_repeat(self, node: ast.Repeat, k: Continuation) -> Continuation:
        pool, e = self.pool, self.expr(node)
        if e in (pool.EMPTY, pool.EPSILON):
            return k if e == pool.EPSILON else lambda context: pool.EMPTY
        body = self.expr(node.body)

        def result(context: Context) -> int:
            ends = {k(Context(number, True)) for number in range(len(self.classes))}
            skipped = k(context) if pool.nullable(e) else pool.EMPTY
            if len(ends) == 1:
                end = ends.pop()
                if not pool.nullable(e) or skipped == end:
                    return pool.cat(e, end)
                return pool.alt(skipped, pool.cat(pool.nonnull(e), end))
            if not pool.nullable(body):  # all rounds but the last, then the last, whose end is split by class
                rounds = pool.repeat(body, max(node.lo - 1, 0), None if node.hi is None else node.hi - 1)
                return pool.alt(skipped, pool.cat(rounds, self.lower(node.body, k)(context)))
            parts = [
                pool.cat(pool.both(pool.nonnull(e), pool.cat(self.text, self.encode(part))), k(Context(number, True)))
                for number, part in enumerate(self.classes)
            ]
            return pool.alt(skipped, *parts)

        return _memo(result)

    def repeat(self, node: ast.Repeat, k: Continuation) -> Continuation:
        """A repetition with assertions inside."""
        optional = 0 if node.hi is None else node.hi - node.lo
        if node.lo + optional > _COPIES:
            raise LimitError("regex_size", _COPIES, "by a repetition that contains assertions, which is written out")
        if node.hi is None:
            k = self.loop(node, k)
        else:
            stop = k
            for _ in range(optional):
                k = self.settle(self.either(stop, self.lower(node.body, k)))
        for _ in range(node.lo):
            k = self.settle(self.lower(node.body, k))
        return k

    def either(self, a: Continuation, b: Continuation) -> Continuation:
        return _memo(lambda context: self.pool.alt(a(context), b(context)))

    def settle(self, k: Continuation) -> Continuation:
        """Computes ``k`` in every context now, so that long chains need no deep recursion."""
        for context in self.contexts:
            k(context)
        return k

    def loop(self, node: ast.Repeat, k: Continuation) -> Continuation:
        """Any number of rounds, as variables: one for each class that a round may end with.

        A round that reads nothing changes nothing, so only rounds that read something lead to the next one.
        """
        pool = self.pool
        meaning = (node.body, self.encoder, *(k(context) for context in self.contexts))

        def again(context: Context) -> int:
            return variable(context.last) if context.moved else pool.EMPTY

        def variable(last: int) -> int:
            number, new = pool.variable((meaning, last), pool.nullable(k(Context(last, True))))
            if new:
                waiting.append((last, number))
            if not building:
                define()
            return number

        def define() -> None:
            while waiting:
                last, number = waiting.pop()
                pool.define(number, pool.alt(k(Context(last, True)), body(Context(last, False))))

        waiting: list[tuple[int, int]] = []
        building = True
        body = self.lower(node.body, _memo(again))
        building = False
        define()
        return _memo(lambda context: pool.alt(k(context), body(Context(context.last, False))))

    def look(self, node: ast.Look, k: Continuation) -> Continuation:
        ahead = self.lower(node.body, lambda context: self.text)
        combine = self.pool.minus if node.negative else self.pool.both
        return _memo(lambda context: combine(k(context), ahead(Context(context.last, False))))

    def place(self, node: Node, k: Continuation) -> Continuation:
        """Anchors and boundaries."""
        pool = self.pool
        if isinstance(node, ast.Edge):
            if node.kind == "start":
                return lambda context: k(context) if context.last < 0 else pool.EMPTY
            rest = pool.EPSILON if node.kind == "end" else pool.opt(self.encode(CharSet.of("\n")))
            return _memo(lambda context: pool.both(k(context), rest))
        if isinstance(node, ast.LineEdge):
            if node.start:
                return lambda context: k(context) if context.last < 0 or self.within(context, node.newlines) else pool.EMPTY
            line = pool.opt(pool.cat(self.encode(node.newlines), self.text))
            return _memo(lambda context: pool.both(k(context), line))
        assert isinstance(node, ast.Boundary)
        word = pool.cat(self.encode(node.word), self.text)
        other = pool.opt(pool.cat(self.encode(~node.word), self.text))

        def result(context: Context) -> int:
            left = context.last >= 0 and self.within(context, node.word)
            right = [e for is_word, e in ((True, word), (False, other)) if (left, is_word) in node.allowed]
            return k(context) if len(right) == 2 else pool.both(k(context), right[0]) if right else pool.EMPTY

        return _memo(result)

    def within(self, context: Context, chars: CharSet) -> bool:
        return bool(self.classes[context.last] & chars)

    # ------------------------------------------------------------ atomic groups
    def atomic(self, node: ast.Atomic, k: Continuation) -> Continuation:
        """An atomic group where it means the same as a plain one; refused elsewhere."""
        plain = self.lower(node.body, k)

        def result(context: Context) -> int:
            if not all(self.committed(node, k(c)) for c in self.contexts if c.moved or c == context):
                raise RegexError(
                    "an atomic group or possessive repetition that changes the language is not supported; write it without",
                    self.pattern.source,
                    node.position,
                )
            return plain(context)

        return _memo(result)

    def committed(self, node: ast.Atomic, rest: int) -> bool:
        """Whether giving up a longer match could never help to match ``rest`` behind the group."""
        pool, body = self.pool, node.body
        if not self.pure(body):
            return False
        e, more = self.expr(body), pool.cat(self.encode(ANY), self.text)
        try:
            if pool.is_empty(pool.both(e, pool.cat(e, more))):
                return True  # at most one way to match
            if isinstance(body, ast.Repeat) and isinstance(body.body, ast.Chars):
                begun = pool.cat(self.encode(body.body.chars), self.text)
                return rest == self.text or pool.is_empty(pool.both(rest, begun))
        except LookupError:  # the rest is a loop that is not defined yet
            return False
        return False
