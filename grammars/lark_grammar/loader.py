"""Lark's own loader, called for what it knows: imports, templates, aliases, ``%extend`` ... become plain rules and terminals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import lark
import regex
from lark.lexer import PatternRE, PatternStr, TerminalDef
from lark.load_grammar import Grammar, load_grammar

from ..errors import GrammarError, LimitError
from ..limits import Limits
from .extent import bound_templates, check_extent
from .properties import expand_properties

__all__ = ["ImportPath", "Loaded", "Place", "Source", "Symbol", "TerminalPattern", "load"]

ImportPath = str | Callable[..., Any]
Place = tuple[int, int]  # line, column; from 1


@dataclass(frozen=True, slots=True)
class Symbol:
    """A terminal or a rule on a right-hand side."""

    name: str
    is_terminal: bool


@dataclass(frozen=True, slots=True)
class TerminalPattern:
    """A terminal as Lark's lexer sees it.

    Attributes:
        regexp: the pattern for Python's ``re``, flags written inline.
        text: the string itself, where the terminal is a string.
        flags: of the string or pattern.
        value_length: length of the pattern's source, by which Lark breaks ties.
        raw: as written in the grammar, for messages.
    """

    name: str
    regexp: str
    text: str | None
    flags: frozenset[str]
    priority: int
    min_width: int
    max_width: int
    value_length: int
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A compiled grammar: ``rules`` maps names to expansions; ``declared`` are the names of ``%declare``."""

    rules: dict[str, list[tuple[Symbol, ...]]]
    terminals: dict[str, TerminalPattern]
    ignore: tuple[str, ...]
    declared: frozenset[str]


_TOKEN = re.compile(r"""(?P<skip>"(?:\\.|[^"\\\n])*"i?|/(?!/)(?:\\/|\\\\|[^/])*?/[imslux]*|//[^\n]*|\#[^\n]*)|(?P<name>[_a-zA-Z]\w*)""")


class Source:
    """A grammar's text, to find places in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def place(self, offset: int) -> Place:
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def names(self) -> Iterator[tuple[str, int, bool]]:
        """Names outside strings, patterns and comments: (name, offset, whether it is being defined)."""
        for match in _TOKEN.finditer(self.text):
            if match["name"]:
                rest = self.text[match.end() : match.end() + 200]
                yield match["name"], match.start(), re.match(r"(\{[^}]*\})?(\.-?\d+)?[ \t]*:", rest) is not None

    def find(self, name: str, *, defined: bool | None = None, last: bool = False) -> Place | None:
        """First (or last) place of a name (``defined``: of its definition, or of a use); any place where there is none of that kind."""
        found = [(offset, is_definition) for n, offset, is_definition in self.names() if n == name]
        for offset, is_definition in reversed(found) if last else found:
            if defined is None or is_definition == defined:
                return self.place(offset)
        return self.place(found[0][0]) if found else None

    def terminal(self, terminal: TerminalPattern) -> Place | None:
        """Where a terminal is defined, or where an anonymous one is used."""
        place = self.find(terminal.name, defined=True)
        if place is None and terminal.raw and terminal.raw in self.text:
            place = self.place(self.text.index(terminal.raw))
        return place

    def error(self, message: str, place: Place | None = None) -> GrammarError:
        line, column = place or (None, None)
        return GrammarError(message, line, column, self.text)


def load(text: str, start: str, import_paths: Sequence[ImportPath], limits: Limits | None = None) -> Loaded:
    """Loads and compiles a grammar.

    Raises:
        LimitError: written out it is bigger than ``limits`` allow.
        GrammarError: whatever Lark finds wrong with it, with the place where that can be told.
    """
    source = Source(text)
    try:
        grammar, _ = load_grammar(text, "<string>", list(import_paths), False)
        declared = {name for name, (tree, _) in grammar.term_defs if tree is None}
        declared |= {name for name, _, tree, _ in grammar.rule_defs if tree is None}
        defined = {name for name, *_ in grammar.rule_defs}
        if start not in defined:
            known = ", ".join(sorted(defined)[:10]) or "none"
            raise source.error(f"the start rule {start!r} is not defined (rules: {known}); define it or name another with start=")
        limits = limits or Limits()
        check_extent(grammar.rule_defs, limits)
        rule_defs = bound_templates([r for r in grammar.rule_defs if r[2] is not None], limits)
        compiled = Grammar(rule_defs, grammar.term_defs, grammar.ignore)
        terminals, rules, ignore = compiled.compile([start], set())
        patterns = {t.name: _pattern(t, source) for t in terminals}
    except (lark.exceptions.LarkError, AssertionError, OSError, ValueError, ImportError, RecursionError, re.error, regex.error) as e:
        if isinstance(e, GrammarError):
            raise
        if isinstance(e, lark.exceptions.VisitError) and isinstance(e.orig_exc, LimitError):
            raise e.orig_exc from None
        _translate(e, source)
    out: dict[str, list[tuple[Symbol, ...]]] = {}
    for rule in rules:
        out.setdefault(rule.origin.name, []).append(tuple(Symbol(s.name, s.is_term) for s in rule.expansion))
    return Loaded(out, patterns, tuple(ignore), frozenset(declared))


def _pattern(terminal: TerminalDef, source: Source) -> TerminalPattern:
    pattern = terminal.pattern
    assert isinstance(pattern, (PatternStr, PatternRE))
    raw = pattern.raw or ""
    text = pattern.value if isinstance(pattern, PatternStr) else None
    try:
        lo, hi = pattern.min_width, pattern.max_width
    except (ValueError, re.error, regex.error):
        lo, hi = 1, 1  # malformed; what is wrong is said where the pattern is compiled
    flags, value = frozenset(pattern.flags), pattern.value
    found = TerminalPattern(terminal.name, pattern.to_regexp(), text, flags, terminal.priority, lo, hi, len(value), raw)
    if text is None:
        try:
            found = replace(found, regexp=expand_properties(found.regexp))
        except ValueError as e:
            raise source.error(f"{e} (in the terminal {found.name})", source.terminal(found)) from None
    if lo == 0:
        message = f"the terminal {terminal.name} ({raw or value!r}) matches the empty string; make what uses it optional instead"
        raise source.error(message, source.terminal(found))
    return found


_AT = re.compile(r",? at line (\d+),? col(?:umn)? (\d+)(?: in [^:]*: *)?")


def _translate(error: Exception, source: Source) -> NoReturn:
    """Lark's exception as a :class:`GrammarError` with the place it concerns."""
    message = str(error)
    place: Place | None = None
    if isinstance(error, OSError):
        message = f"cannot import {error.filename or error}: no such grammar; give its folder with import_paths="
        name = re.split(r"[./\\]", str(error.filename or ""))[-2:]
        place = source.find(name[0]) if name else None
    elif isinstance(error, RecursionError):
        message = "the grammar is nested too deeply"
    elif isinstance(error, lark.exceptions.UnexpectedInput):
        message, place = _unexpected(error)
    elif at := _AT.search(message):
        place = int(at[1]), int(at[2])
        message = message[: at.start()]
    else:
        message = message.strip() or "Lark cannot compile this grammar (a %declare'd terminal inside another terminal?)"
        place = _named(message, source)
    raise source.error(message.strip(), place) from None


def _unexpected(error: lark.exceptions.UnexpectedInput) -> tuple[str, Place | None]:
    token = getattr(error, "token", None)
    what = f"unexpected {str(token)!r}" if token is not None and str(token) else "unexpected input"
    line, column = getattr(error, "line", -1), getattr(error, "column", -1)
    known = isinstance(line, int) and isinstance(column, int) and line > 0 and column > 0
    return f"{what} in the grammar", (line, column) if known else None


def _named(message: str, source: Source) -> Place | None:
    """The place of the first name in a message that the text knows; a use rather than a definition where something is undefined."""
    quoted = re.findall(r"'(\w+)'|used for (\w+)", message)
    plain = re.findall(r"[A-Z_][A-Z_0-9]+|(?<=: )\w+|\w+(?=[,)] )|\w+$", message)
    twice = "more than once" in message
    for name in [*("".join(pair) for pair in quoted), *plain]:
        place = source.find(name, defined=False if "used" in message else True if twice else None, last=twice)
        if place is not None:
            return place
    return None
