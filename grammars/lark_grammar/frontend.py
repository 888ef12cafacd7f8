"""The :class:`Lark` front-end: plain rules and terminals to the engine's rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..constraint import Constraint
from ..errors import ConstraintError, GrammarError, RegexError
from ..limits import Limits
from ..rules import NOTHING, Node, Part, Rule, Skip, StaticRule, Terminal, finish, lexeme, repeat, sequence, union
from .backtracking import Match, terminal_match
from .loader import ImportPath, Loaded, Source, Symbol, TerminalPattern, load
from .precedence import Neighbours, Occurrence, cut_by, neighbours, ranks, shadowed
from .properties import expand_properties

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["Lark"]

_GROUP = 1


class Lark(Constraint):
    r"""Texts that a Lark grammar accepts::

        Lark('''
            start: NAME "=" expr
            ?expr: expr "+" term | term
            ?term: NAME | NUMBER | "(" expr ")"
            %import common.CNAME -> NAME
            %import common (NUMBER, WS)
            %ignore WS
        ''')

    The text of a grammar is Lark's: imports, templates, aliases, priorities, ``~n..m``, ``[...]``, ``%extend``,
    ``%override``. Any context-free grammar will do (left and right recursion, ambiguity, empty rules). Options that
    shape trees mean nothing here. Postlexers (indentation) are not supported.

    Args:
        grammar: the grammar's text.
        start: the start rule.
        lexing: ``"greedy"`` as Lark's contextual lexer: among the terminals that the parser can use at a place
            the one that Lark's order prefers, with the match that ``re`` finds. ``"any"`` as Lark's Earley parser
            with the lexer ``dynamic_complete``: a terminal may end wherever its pattern allows.
        terminals: what the names of ``%declare`` stand for: a pattern (``str``) or a constraint each.
        import_paths: where ``%import`` looks for grammars: folders, or loader functions as Lark takes them.
        flags: ``re`` flags for all terminals, as letters out of ``imsx``.
        check_collisions: fill :attr:`warnings` with the pairs of patterns that match a common text with the same priority.
        limits: ``grammar_size`` bounds the symbols of all rules once optional parts are written out.

    Attributes:
        warnings: findings that are no errors; complete once the grammar has been compiled.

    Raises:
        GrammarError: the grammar is malformed, refers to something undefined, or a terminal is not regular; with
            line and column where they are known.
    """

    def __init__(
        self,
        grammar: str,
        start: str = "start",
        *,
        lexing: str = "greedy",
        terminals: Mapping[str, str | Constraint] | None = None,
        import_paths: Sequence[ImportPath] = (),
        flags: str = "",
        check_collisions: bool = False,
        limits: Limits | None = None,
    ) -> None:
        if lexing not in ("greedy", "any"):
            raise ConstraintError(f'lexing is "greedy" or "any", not {lexing!r}')
        if set(flags) - set("imsx"):
            raise ConstraintError(f"flags are letters out of 'imsx', not {flags!r}")
        self.grammar, self.start, self.lexing, self.flags = grammar, start, lexing, flags
        self._source = Source(grammar)
        self.limits = limits or Limits()
        self._loaded = load(grammar, start, import_paths, self.limits)
        self._supplied = dict(terminals or {})
        self._patterns = self._all_patterns()
        self.warnings: list[str] = self._collisions() if check_collisions else []

    def build(self, pool: Pool) -> Rule:
        return pool.metered(self.limits.fuel, lambda: _Lowering(self, pool).start())

    # ------------------------------------------------------------ terminals
    def _all_patterns(self) -> dict[str, TerminalPattern]:
        """The grammar's patterns and those supplied for ``%declare``, flags applied."""
        loaded, source = self._loaded, self._source
        for name in self._supplied:
            if name not in loaded.declared:
                message = f"{name} is supplied in terminals= but the grammar does not %declare it"
                raise source.error(message, source.find(name, defined=True))
        used = {s.name for expansions in loaded.rules.values() for e in expansions for s in e} | set(loaded.ignore)
        for name in sorted(loaded.declared & used - set(self._supplied)):
            message = f"{name} is only declared; say what it is with terminals={{{name!r}: ...}} (a pattern or a constraint)"
            raise source.error(message, source.find(name))
        out = dict(loaded.terminals)
        for name, value in self._supplied.items():
            if isinstance(value, str):
                out[name] = self._supplied_pattern(name, value)
        if self.flags:
            out = {name: _flagged(pattern, self.flags) for name, pattern in out.items()}
        return out

    def _supplied_pattern(self, name: str, pattern: str) -> TerminalPattern:
        from lark.lexer import PatternRE

        try:
            written = expand_properties(pattern)
            re.compile(written)
        except re.error as e:
            raise RegexError(f"{e.msg} (in the terminal {name})", pattern, e.pos or 0) from None
        except ValueError as e:
            raise RegexError(f"{e} (in the terminal {name})", pattern, 0) from None
        made = PatternRE(pattern)
        if made.min_width == 0:
            raise self._source.error(f"the pattern supplied for {name} matches the empty string", self._source.find(name))
        return TerminalPattern(name, written, None, frozenset(), 0, made.min_width, made.max_width, len(pattern), f"/{pattern}/")

    def _match(self, pool: Pool, terminal: TerminalPattern) -> Match:
        if terminal.text is not None and not terminal.flags:
            return Match(pool.literal(terminal.text.encode()), pool.EMPTY)
        try:
            match = terminal_match(pool, terminal.regexp, first_match=self.lexing == "greedy")
        except RegexError as e:
            at = f" (at position {e.position} of its pattern)" if e.position else ""
            raise self._refused(terminal, e.reason + at) from None
        if match.blocked != pool.EMPTY and self.lexing == "any":
            raise self._refused(terminal, "a lookahead (or \\b) at its end needs greedy lexing")
        return match

    def _refused(self, terminal: TerminalPattern, reason: str) -> GrammarError:
        shown = terminal.raw or f"/{terminal.regexp}/"
        return self._source.error(f"the terminal {terminal.name}, {shown}, cannot be used: {reason}", self._source.terminal(terminal))

    def _collisions(self) -> list[str]:
        from ..regex.expr import Pool

        pool = Pool()
        patterns = [t for t in self._patterns.values() if t.text is None]
        exprs = {t.name: self._match(pool, t).expr for t in patterns}
        out = []
        for i, a in enumerate(patterns):
            for b in patterns[i + 1 :]:
                common = pool.shortest(pool.both(exprs[a.name], exprs[b.name])) if a.priority == b.priority else None
                if common is not None:
                    shown = common.decode(errors="replace")
                    out.append(f"{a.name} and {b.name} both match {shown!r} with priority {a.priority}; give one of them a higher priority")
        return out


def _flagged(t: TerminalPattern, flags: str) -> TerminalPattern:
    return TerminalPattern(
        t.name, f"(?{flags}:{t.regexp})", t.text, t.flags | set(flags), t.priority, t.min_width, t.max_width, t.value_length, t.raw
    )


def _same(a: Node, b: Node) -> bool:
    if a.kind != b.kind or a.symbol != b.symbol or len(a.children) != len(b.children):
        return False
    return all(map(_same, a.children, b.children))


class _Lowering:
    """One grammar over one pool."""

    def __init__(self, front: Lark, pool: Pool) -> None:
        self.front, self.pool = front, pool
        self.loaded: Loaded = front._loaded
        self.greedy = front.lexing == "greedy"
        patterns = list(front._patterns.values())
        self.matches = {t.name: front._match(pool, t) for t in patterns}
        self.ranks = ranks(patterns, self.loaded.ignore) if self.greedy else {}
        self.shadows = shadowed(pool, patterns, self.matches) if self.greedy else {}
        looking = any(match.blocked != pool.EMPTY for match in self.matches.values())
        self.near = neighbours(self.loaded.rules, front.start) if self.shadows or looking else {}
        self._terminals: dict[tuple[str, tuple[str, ...]], Node] = {}
        self._rules: dict[str, Rule] = {}
        self._looked: set[tuple[str, frozenset[str]]] = set()

    def start(self) -> Rule:
        front = self.front
        skip = self.skip()
        for name, value in front._supplied.items():
            if isinstance(value, Constraint):
                self._rules[name] = value.build(self.pool)
        own = {name: StaticRule(name) for name in self.loaded.rules}
        self._rules.update(own)
        for name, rule in own.items():
            rule.define(self.body(name), skip)
        first = self._rules[front.start]
        if skip is not None:  # in front of the first lexeme too, wherever the grammar is embedded
            first = StaticRule(front.start).define(sequence(repeat(union(*skip.terminals)), first))
        return finish(first)

    def skip(self) -> Skip | None:
        terminals = []
        for name in dict.fromkeys(self.loaded.ignore):
            if name not in self.matches:
                raise GrammarError(f"{name} is ignored, so that terminals= must give it as a pattern, not as a constraint")
            earlier = tuple(n for n in self.shadows.get(name, ()) if n in self.loaded.ignore)
            self.check_lookahead(name, frozenset(self.loaded.ignore))
            for other in self.shadows.get(name, ()):
                if other not in self.loaded.ignore:
                    self.warn(name, other, "where it is not to be ignored")
            symbol = self.terminal(name, earlier).symbol
            if isinstance(symbol, Terminal):
                terminals.append(symbol)
        return Skip(tuple(terminals), once=False) if terminals else None

    def terminal(self, name: str, earlier: tuple[str, ...]) -> Node:
        """The lexeme of a terminal without the texts that the ``earlier`` ones cut off."""
        node = self._terminals.get((name, earlier))
        if node is None:
            pool, expr = self.pool, self.matches[name].expr
            for other in earlier:
                expr = pool.minus(expr, cut_by(pool, self.matches[other]))
            if earlier and pool.is_empty(expr):  # what only this terminal could complete is dead; Lark would still be drawn into it
                self.warn(name, earlier[-1], "so that it never matches")
            node = lexeme(pool, expr, priority=self.ranks.get(name, 0), group=_GROUP if self.greedy else 0, name=self.shown(name))
            self._terminals[name, earlier] = node
        return node

    def shown(self, name: str) -> str:
        pattern = self.front._patterns[name]
        return repr(pattern.text) if pattern.text is not None else pattern.raw if name.startswith("__") and pattern.raw else name

    # ------------------------------------------------------------ rules
    def symbol(self, symbol: Symbol, at: Occurrence) -> Part:
        name = symbol.name
        if name in self._rules:
            return self._rules[name]
        if self.greedy and name in self.loaded.ignore:
            return NOTHING  # the lexer drops it before the parser could see it
        ignored = frozenset(self.loaded.ignore)
        near = Neighbours(frozenset(self.matches)) if self.near is None else self.near.get(at, Neighbours())
        self.check_lookahead(name, ignored | near.every)
        earlier = tuple(other for other in self.shadows.get(name, ()) if other in near.some | ignored)
        for other in earlier:
            if other not in near.every | ignored:
                self.warn(name, other, "in some places")
        return self.terminal(name, earlier)

    def warn(self, name: str, earlier: str, where: str) -> None:
        message = (
            f"Lark prefers {self.shown(earlier)} to longer matches of {self.shown(name)} {where}; "
            "there the texts accepted may differ from Lark's: make their priorities equal, or their patterns disjoint"
        )
        if message not in self.front.warnings:
            self.front.warnings.append(message)

    def check_lookahead(self, name: str, near: frozenset[str]) -> None:
        """A negative lookahead at a terminal's end holds by itself where its neighbours match what it forbids: they win, being longer."""
        pool, blocked = self.pool, self.matches[name].blocked
        if blocked == pool.EMPTY or (name, near) in self._looked:
            return
        self._looked.add((name, near))
        others = pool.alt(*(self.matches[other].expr for other in near if other != name and other in self.matches))
        rest = pool.shortest(pool.minus(blocked, others))
        if rest is not None:
            text = rest.decode(errors="replace")
            reason = f"its lookahead (or \\b) forbids {text!r}, which no other terminal takes there"
            raise self.front._refused(self.front._patterns[name], reason)

    def body(self, name: str) -> Node:
        """Direct left recursion (Lark's ``*`` and ``+`` among it) becomes a loop: ``a: b | a c`` is ``b c*``."""
        first: list[Node] = []
        more: list[Node] = []
        for n, expansion in enumerate(self.loaded.rules[name]):
            parts = [self.symbol(s, (name, n, i)) for i, s in enumerate(expansion)]
            if expansion and expansion[0].name == name:
                if len(parts) > 1:
                    more.append(sequence(*parts[1:]))
            else:
                first.append(sequence(*parts))
        whole = union(*first)
        if not more:
            return whole
        if len(first) == len(more) == 1 and _same(first[0], more[0]):
            return repeat(first[0], 1)
        return sequence(whole, repeat(union(*more)))
