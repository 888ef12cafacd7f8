"""The two smallest front-ends: :class:`Regex` and :class:`Choice`. Each is one lexeme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .constraint import Constraint
from .errors import ConstraintError
from .rules import Rule, StaticRule, finish, lexeme

if TYPE_CHECKING:
    from .regex.expr import Pool

__all__ = ["Choice", "Regex"]


class Regex(Constraint):
    """Texts that a regular expression matches.

    Args:
        pattern: the expression; the *whole* text must match it, unless ``search`` is set.
        dialect: ``"python"`` (the ``re`` module), ``"ecma"`` (ECMA-262 with the ``u`` flag, as JSON Schema
            has it) or ``"rust"`` (RE2 and Rust's ``regex``).
        flags: the dialect's inline flags as letters, for instance ``"i"`` or ``"is"``.
        search: the pattern may match anywhere in the text (anchors are honoured either way).

    Raises:
        RegexError: the pattern is malformed, or not regular (backreferences, ...); says where.
    """

    is_regular = True

    def __init__(self, pattern: str, dialect: str = "python", flags: str = "", search: bool = False) -> None:
        from .regex.syntax import parse

        self.pattern, self.dialect, self.flags, self.search = pattern, dialect, flags, search
        self._ast = parse(pattern, dialect, flags)

    def __repr__(self) -> str:
        extra = f", flags={self.flags!r}" * bool(self.flags) + ", search=True" * self.search
        return f"Regex({self.pattern!r}, dialect={self.dialect!r}{extra})"

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`."""
        from .regex.lower import to_expr

        return to_expr(self._ast, pool, dialect=self.dialect, search=self.search)

    def build(self, pool: Pool) -> Rule:
        name = f"/{self.pattern[:40]}/"
        return finish(StaticRule(f"regex {self.pattern[:40]!r}").define(lexeme(pool, self.regular(pool), name=name)))


class Choice(Constraint):
    """Exactly one of some texts.

    Ten thousand options cost a sort; the trie over them is walked where a generation goes, never built.

    Args:
        options: the texts. Duplicates count once; the empty text is allowed.

    Raises:
        ConstraintError: there is no option, or one is not a ``str``.
    """

    is_regular = True

    def __init__(self, options: Sequence[str]) -> None:
        if isinstance(options, (str, bytes)):
            raise ConstraintError("Choice takes a list of options, not one string; write Choice([...])")
        self.options: tuple[str, ...] = tuple(options)
        for option in self.options:
            if not isinstance(option, str):
                raise ConstraintError(f"an option of a Choice is a str, not {type(option).__name__} ({option!r:.80})")
        if not self.options:
            raise ConstraintError("a Choice needs at least one option")
        try:
            self._encoded = tuple(sorted({option.encode() for option in self.options}))
        except UnicodeEncodeError as e:
            raise ConstraintError(f"the option {e.object[:80]!r} holds a lone surrogate, which UTF-8 cannot write") from None

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.options[:5])) + ", ..." * (len(self.options) > 5)
        return f"Choice([{shown}])"

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`."""
        return pool.choice(self._encoded)

    def build(self, pool: Pool) -> Rule:
        return finish(StaticRule("choice").define(lexeme(pool, self.regular(pool), name="choice")))
