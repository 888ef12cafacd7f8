"""The base of every front-end: a constraint is built into rules, compiled against a vocabulary, and composes.

``constraint.compile(vocabulary)`` gives an :class:`~grammars.automaton.Automaton`. Constraints compose
with ``+`` (sequence; plain strings are literal text), ``|`` (union), ``&`` (both, for regular ones), :meth:`Constraint.repeat`
and :meth:`Constraint.optional`::

    "Answer: " + Choice(["yes", "no"]) + "." + Regex(r"\\n.*").optional()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import ConstraintError
from .limits import Limits
from .rules import Node, Rule, StaticRule, finish, literal, optional, repeat, sequence, union

if TYPE_CHECKING:
    from .automaton import Automaton
    from .intersection import Intersection
    from .regex.expr import Pool
    from .vocabulary import Vocabulary

__all__ = ["Constraint", "Literal", "Repeat", "Sequence", "Union"]


class Constraint:
    """A language, not yet bound to a vocabulary. Subclasses implement :meth:`build`."""

    limits: Limits = Limits()

    def build(self, pool: Pool) -> Rule:
        """The rules of this language over the expressions of ``pool``; the start rule."""
        raise NotImplementedError

    @property
    def is_regular(self) -> bool:
        """Whether the language is one expression, so that it can be intersected with others: whether :meth:`regular` is of use."""
        return False

    def regular(self, pool: Pool) -> int:
        """The language as an expression of ``pool``.

        Raises:
            ConstraintError: it is not regular, or not known to be.
        """
        raise ConstraintError(f"{type(self).__name__} is no regular language: it cannot be intersected with another one")

    def compile(self, vocabulary: Vocabulary, limits: Limits | None = None) -> Automaton:
        """Binds the language to a vocabulary.

        Raises:
            ConstraintError: the constraint is malformed, unsupported or has no sentence.
            VocabularyError: no sentence of the language can be written with these tokens.
            LimitError: it is bigger than ``limits`` allow.
        """
        from .automaton import Automaton

        return Automaton(self, vocabulary, limits or self.limits)

    def __add__(self, other: Constraint | str) -> Sequence:
        return Sequence([self, other])

    def __radd__(self, other: Constraint | str) -> Sequence:
        return Sequence([other, self])

    def __or__(self, other: Constraint | str) -> Union:
        return Union([self, other])

    def __ror__(self, other: Constraint | str) -> Union:
        return Union([other, self])

    def __and__(self, other: Constraint | str) -> Intersection:
        from .intersection import Intersection

        return Intersection([self, other])

    def __rand__(self, other: Constraint | str) -> Intersection:
        from .intersection import Intersection

        return Intersection([other, self])

    def repeat(self, lo: int = 0, hi: int | None = None) -> Repeat:
        """This constraint ``lo`` to ``hi`` times (``None``: without bound)."""
        return Repeat(self, lo, hi)

    def optional(self) -> Repeat:
        """This constraint or nothing."""
        return Repeat(self, 0, 1)


def constraint_of(value: Constraint | str) -> Constraint:
    """``value`` itself, or a string as literal text."""
    if isinstance(value, Constraint):
        return value
    if isinstance(value, str):
        return Literal(value)
    raise ConstraintError(f"a part of a constraint is a Constraint or a str, not {type(value).__name__}")


class Literal(Constraint):
    """Exactly this text."""

    is_regular = True

    def __init__(self, text: str) -> None:
        self.text = text

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`."""
        return pool.literal(self.text.encode()) if self.text else pool.EPSILON

    def build(self, pool: Pool) -> Rule:
        return finish(StaticRule(f"literal {self.text[:40]!r}").define(literal(pool, self.text)))


class _Composite(Constraint):
    def __init__(self, parts: list[Constraint | str]) -> None:
        self.parts: list[Constraint] = []
        for part in map(constraint_of, parts):
            self.parts.extend(part.parts if type(part) is type(self) and isinstance(part, _Composite) else [part])

    @property
    def is_regular(self) -> bool:
        """Whether all parts are."""
        return all(part.is_regular for part in self.parts)

    def node(self, rules: list[Rule]) -> Node:
        raise NotImplementedError

    def build(self, pool: Pool) -> Rule:
        return finish(StaticRule(type(self).__name__.lower()).define(self.node([part.build(pool) for part in self.parts])))


class Sequence(_Composite):
    """The parts one after another."""

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`."""
        return pool.cat(*(part.regular(pool) for part in self.parts))

    def node(self, rules: list[Rule]) -> Node:
        return sequence(*rules)


class Union(_Composite):
    """Any one of the parts."""

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`."""
        return pool.alt(*(part.regular(pool) for part in self.parts))

    def node(self, rules: list[Rule]) -> Node:
        return union(*rules)


class Repeat(Constraint):
    """A part between ``lo`` and ``hi`` times."""

    def __init__(self, part: Constraint | str, lo: int = 0, hi: int | None = None) -> None:
        self.part, self.lo, self.hi = constraint_of(part), lo, hi
        repeat(StaticRule("check"), lo, hi)  # refuses bad bounds here, not at compile time

    @property
    def is_regular(self) -> bool:
        """Whether the part is."""
        return self.part.is_regular

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`."""
        return pool.repeat(self.part.regular(pool), self.lo, self.hi)

    def build(self, pool: Pool) -> Rule:
        part = self.part.build(pool)
        body = optional(part) if (self.lo, self.hi) == (0, 1) else repeat(part, self.lo, self.hi)
        return finish(StaticRule("repeat").define(body))
