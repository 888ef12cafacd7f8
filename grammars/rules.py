"""The common form of every front-end: lexemes (:class:`Terminal`) and rules made of states.

A grammar is a graph of :class:`Rule` objects. A rule is an automaton whose edges carry terminals or
other rules (a *recursive transition network*). States are hashable *keys* of the rule's own choosing
and are expanded **lazily**, once each: :meth:`Rule.expand` is asked on the first visit only, so a rule
may describe more states than could ever be listed (objects in any key order, counters, sets of values
already used). What it returns is interned by the parser (:mod:`grammars.parser`).

Front-ends that need no laziness write rules with the combinators here (:func:`sequence`,
:func:`union`, :func:`repeat`, :func:`optional`) and :class:`StaticRule`.

Contract of every rule: from every state that is reachable by edges with a non-empty lexeme, a final
state is reachable (otherwise masks would lead into dead ends); ``nullable`` says truthfully whether
the empty string is in the rule's language; edges never carry an empty or nullable lexeme.
:class:`StaticRule` establishes all three by itself (unproductive parts are removed).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from .errors import ConstraintError

if TYPE_CHECKING:
    from .regex.expr import Pool

__all__ = [
    "Capture", "Node", "RepeatRule", "Rule", "Skip", "State", "StaticRule", "Symbol", "Terminal",
    "finish", "lexeme", "literal", "optional", "repeat", "sequence", "union",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Terminal:
    """A lexeme: a non-empty, non-nullable byte language. Equal content is the same terminal.

    Attributes:
        expr: id of the expression in the pool the grammar is built in (never empty, never nullable).
        priority: among lexemes of one greedy ``group`` that end at the same byte, the highest wins.
        group: 0 for any-match lexing (a lexeme may end wherever its language allows); a positive
            number for greedy lexing: a lexeme may not end where one of the same group can go on to a longer match.
        name: for messages only, not part of the identity.
    """

    expr: int
    priority: float = 0
    group: int = 0
    name: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return self.expr


@dataclass(frozen=True, slots=True)
class Skip:
    """Lexemes that may stand in front of the next one without moving the parser (blanks, comments).

    Attributes:
        terminals: what may be skipped.
        once: at most one of them in a row (a lexeme that carries its own bound on a run of blanks);
            otherwise any number, also where the text may end.
    """

    terminals: tuple[Terminal, ...]
    once: bool = True


@dataclass(frozen=True, slots=True)
class Capture:
    """Where an edge leads when that depends on the lexeme's bytes (a key that must not come again, a value to be remembered).

    Stands in the place of a key in the edges of a :class:`State`, behind a terminal of group 0. The bytes are those of the lexeme
    alone, without what was skipped in front of it.

    Attributes:
        function: from the lexeme's bytes to the key of the next state, defined on the terminal's whole language. Captures are
            equal if their functions are: use a hashable callable (a frozen dataclass with ``__call__``), not a new lambda each time.
    """

    function: Callable[[bytes], Hashable]


class Rule:
    """A nonterminal. Subclass it for lazy rules; identity is object identity.

    Attributes:
        name: for messages.
        nullable: whether the empty string is in the language.
    """

    name: str = "rule"
    nullable: bool = False

    @property
    def start(self) -> Hashable:
        """Key of the first state."""
        raise NotImplementedError

    def expand(self, key: Hashable) -> State:
        """The state behind ``key``; asked once a key."""
        raise NotImplementedError

    def release(self) -> None:
        """Drops references that go in circles, when nobody will ask this rule any more; only asked of a grammar's start.

        What is left is then freed at once and not by a collection of garbage, whose pauses grow with what there is.
        """

    def shortest(self, key: Hashable, state: State) -> Sequence[tuple[Symbol, Hashable]]:
        """Edges of ``state`` among which a shortest way to the rule's end begins.

        Rules whose states branch without bound (any order of n keys) narrow it so that the search for a
        shortest completion stays small. None at all stands for all of them.
        """
        return state.edges


Symbol = Union[Terminal, Rule]


@dataclass(frozen=True, slots=True)
class State:
    """What :meth:`Rule.expand` returns.

    Attributes:
        edges: pairs of a symbol and the key of the state reached by it (or a :class:`Capture`, behind a terminal).
        final: whether the rule may end here.
        skip: what may be skipped in front of the next lexeme after this state, also when that lexeme
            comes out of a rule called from here, or (where the rule ends here) from the rule's caller.
        ahead: whether the states that the edges lead to are to be expanded together with this one: a hint, for states that masks will
            soon ask for and that are cheap. Chains of such states must be short.
    """

    edges: Sequence[tuple[Symbol, Hashable]]
    final: bool = False
    skip: Skip | None = None
    ahead: bool = False


# ---------------------------------------------------------------- combinators
class Node:
    """A part of a rule's right-hand side; made by the functions below."""

    __slots__ = ("children", "hi", "kind", "lo", "symbol")

    def __init__(self, kind: str, children: Sequence[Node] = (), symbol: Symbol | None = None, lo: int = 0, hi: int | None = None) -> None:
        self.kind, self.children, self.symbol, self.lo, self.hi = kind, tuple(children), symbol, lo, hi


Part = Union[Node, Terminal, Rule]
EPSILON = Node("seq")
NOTHING = Node("alt")


def _node(part: Part) -> Node:
    return part if isinstance(part, Node) else Node("sym", symbol=part)


def sequence(*parts: Part) -> Node:
    """Concatenation."""
    return Node("seq", [_node(p) for p in parts])


def union(*parts: Part) -> Node:
    """Alternation; ``union()`` is the empty language."""
    return Node("alt", [_node(p) for p in parts])


def optional(part: Part) -> Node:
    return union(EPSILON, part)


def repeat(part: Part, lo: int = 0, hi: int | None = None) -> Node:
    """``part`` at least ``lo`` and at most ``hi`` times (``None``: without bound). Big counts cost nothing until visited."""
    if lo < 0 or (hi is not None and hi < lo):
        raise ConstraintError(f"a repetition needs 0 <= lo <= hi, not lo={lo}, hi={hi}")
    return Node("rep", [_node(part)], lo=lo, hi=hi)


def lexeme(pool: Pool, expr: int, *, priority: float = 0, group: int = 0, name: str = "") -> Node:
    """``expr`` as one lexeme; an empty language becomes :data:`NOTHING`, a nullable one is made optional."""
    body = pool.nonnull(expr) if pool.nullable(expr) else expr
    node = NOTHING if pool.is_empty(body) else _node(Terminal(body, priority, group, name))
    return optional(node) if pool.nullable(expr) else node


def literal(pool: Pool, text: str | bytes, name: str = "") -> Node:
    """Fixed text as one lexeme (UTF-8); the empty string is :data:`EPSILON`."""
    data = text.encode() if isinstance(text, str) else text
    return lexeme(pool, pool.literal(data), name=name) if data else EPSILON


class StaticRule(Rule):
    """A rule whose right-hand side is written with the combinators.

    Create it, refer to it from other rules as needed (recursion), then :meth:`define` it. When every
    rule of a grammar is defined, call :func:`finish` on them (once) to settle ``nullable`` and to remove
    what can never be completed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nullable = False
        self.productive = True
        self.skip: Skip | None = None
        self.body: Node = NOTHING
        self._states: list[State] | None = None

    def define(self, body: Part, skip: Skip | None = None) -> StaticRule:
        """Sets the right-hand side. ``skip`` holds at every state of the rule.

        Before its first lexeme it counts only if the rule is the grammar's start: a called rule begins as its caller's state says.
        """
        self.body, self.skip = _node(body), skip
        return self

    @property
    def start(self) -> Hashable:
        return 0

    def expand(self, key: Hashable) -> State:
        if self._states is None:
            self._states = _build(self)
        assert isinstance(key, int)
        return self._states[key]


class RepeatRule(Rule):
    """``part`` between ``lo`` and ``hi`` times, counted in the state, for counts too big to write out."""

    def __init__(self, symbol: Symbol, lo: int, hi: int | None, skip: Skip | None = None, name: str = "repeat") -> None:
        self.symbol, self.lo, self.hi, self.skip, self.name = symbol, lo, hi, skip, name
        self.nullable = lo == 0 or (isinstance(symbol, Rule) and symbol.nullable)

    @property
    def start(self) -> Hashable:
        return 0

    def expand(self, key: Hashable) -> State:
        count = key
        assert isinstance(count, int)
        lo = 0 if isinstance(self.symbol, Rule) and self.symbol.nullable else self.lo
        edges: list[tuple[Symbol, Hashable]] = []
        if self.hi is None or count < self.hi:
            edges.append((self.symbol, min(count + 1, lo) if self.hi is None else count + 1))
        return State(edges, final=count >= lo, skip=self.skip)


_SMALL = 16


def _nullable(node: Node) -> bool:
    if node.kind == "sym":
        return isinstance(node.symbol, Rule) and node.symbol.nullable
    if node.kind == "seq":
        return all(map(_nullable, node.children))
    if node.kind == "alt":
        return any(map(_nullable, node.children))
    return node.lo == 0 or _nullable(node.children[0])


def _productive(node: Node) -> bool:
    if node.kind == "sym":
        return not isinstance(node.symbol, StaticRule) or node.symbol.productive
    if node.kind == "seq":
        return all(map(_productive, node.children))
    if node.kind == "alt":
        return any(map(_productive, node.children))
    return node.lo == 0 or _productive(node.children[0])


def _symbols(node: Node) -> Iterable[Symbol]:
    stack = [node]
    while stack:
        n = stack.pop()
        if n.symbol is not None:
            yield n.symbol
        stack.extend(n.children)


def reachable(start: Rule) -> list[Rule]:
    """Rules that are reachable from ``start`` through static right-hand sides, ``start`` first."""
    found: dict[Rule, None] = {start: None}
    todo: list[Rule] = [start]
    while todo:
        rule = todo.pop()
        symbols: Iterable[Symbol] = ()
        if isinstance(rule, StaticRule):
            symbols = _symbols(rule.body)
        elif isinstance(rule, RepeatRule):
            symbols = (rule.symbol,)
        for s in symbols:
            if isinstance(s, Rule) and s not in found:
                found[s] = None
                todo.append(s)
    return list(found)


def finish(start: Rule) -> Rule:
    """Settles ``nullable`` and productivity of the static rules that ``start`` reaches; returns ``start``.

    Raises:
        ConstraintError: if ``start`` has no sentence at all.
    """
    rules = [r for r in reachable(start) if isinstance(r, StaticRule)]
    for rule in rules:
        rule.nullable, rule.productive, rule._states = False, False, None
    users: dict[Rule, list[StaticRule]] = {}
    for rule in rules:
        for s in set(_symbols(rule.body)):
            if isinstance(s, Rule):
                users.setdefault(s, []).append(rule)
    todo: dict[StaticRule, None] = dict.fromkeys(rules)
    while todo:
        rule, _ = todo.popitem()  # those reached last first: they are what the others rest on
        nullable, productive = _nullable(rule.body), _productive(rule.body)
        if (nullable, productive) != (rule.nullable, rule.productive):
            rule.nullable, rule.productive = nullable, productive
            todo.update(dict.fromkeys(users.get(rule, ())))
    if isinstance(start, StaticRule) and not start.productive:
        raise ConstraintError(f"{start.name}: the language is empty, no text fits it")
    return start


class _Builder:
    """Thompson construction with explicit empty moves, removed at the end."""

    def __init__(self, skip: Skip | None) -> None:
        self.skip = skip
        self.edges: list[list[tuple[Symbol, int]]] = []
        self.empty: list[list[int]] = []

    def new(self) -> int:
        self.edges.append([])
        self.empty.append([])
        return len(self.edges) - 1

    def add(self, node: Node, a: int, b: int) -> None:
        """Paths from ``a`` to ``b`` that read ``node``."""
        if node.kind == "sym":
            assert node.symbol is not None
            if _productive(node):
                self.edges[a].append((node.symbol, b))
        elif node.kind == "seq":
            for i, child in enumerate(node.children):
                to = b if i == len(node.children) - 1 else self.new()
                self.add(child, a, to)
                a = to
            if not node.children:
                self.empty[a].append(b)
        elif node.kind == "alt":
            for child in node.children:
                if _productive(child):
                    self.add(child, a, b)
        else:
            self.repeat(node, a, b)

    def repeat(self, node: Node, a: int, b: int) -> None:
        child, lo, hi = node.children[0], node.lo, node.hi
        if not _productive(child):
            self.empty[a].append(b)
            return
        if lo > _SMALL or (hi is not None and hi > _SMALL):
            symbol = child.symbol
            if symbol is None:
                inner = StaticRule("repeated").define(child, self.skip)
                inner.nullable, symbol = _nullable(child), inner
            self.edges[a].append((RepeatRule(symbol, lo, hi, self.skip), b))
            return
        for _ in range(lo):
            to = self.new()
            self.add(child, a, to)
            a = to
        if hi is None:
            loop = self.new()
            self.empty[a].append(loop)
            self.add(child, loop, loop)
            self.empty[loop].append(b)
        else:
            for _ in range(hi - lo):
                self.empty[a].append(b)
                to = self.new()
                self.add(child, a, to)
                a = to
            self.empty[a].append(b)

    def closure(self, s: int) -> list[int]:
        seen, todo = {s: None}, [s]
        while todo:
            for t in self.empty[todo.pop()]:
                if t not in seen:
                    seen[t] = None
                    todo.append(t)
        return list(seen)


def _build(rule: StaticRule) -> list[State]:
    builder = _Builder(rule.skip)
    first, last = builder.new(), builder.new()
    builder.add(rule.body, first, last)
    number: dict[int, int] = {first: 0}
    order, states = [first], []
    for s in order:  # grows while it is walked
        closure = builder.closure(s)
        edges: dict[tuple[Symbol, int], None] = {}
        for c in closure:
            for symbol, to in builder.edges[c]:
                if to not in number:
                    number[to] = len(order)
                    order.append(to)
                edges[symbol, number[to]] = None
        states.append(State(list(edges), final=last in closure, skip=rule.skip))
    return states
