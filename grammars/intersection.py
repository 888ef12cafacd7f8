"""What several languages have in common, where all of them are regular."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .constraint import Constraint, constraint_of
from .errors import ConstraintError
from .rules import Rule, StaticRule, finish, lexeme

if TYPE_CHECKING:
    from .regex.expr import Pool

__all__ = ["Intersection"]


class Intersection(Constraint):
    """Texts that fit all of the parts; ``a & b`` is short for it.

    The product is never built: its states are made where a text goes, and those from which no text fits all parts are left out, so masks
    stay exact.

    Args:
        parts: regular constraints: :class:`~.patterns.Regex`, :class:`~.patterns.Choice`, :class:`~.lexical.MustInclude`,
            :class:`~.lexical.MustNotInclude`, literal text (a ``str``), and sequences, unions, repetitions and intersections of such.

    Raises:
        ConstraintError: there is no part, or one is not regular (a grammar, a JSON schema).
    """

    is_regular = True

    def __init__(self, parts: Sequence[Constraint | str]) -> None:
        self.parts: list[Constraint] = []
        for part in map(constraint_of, parts):
            self.parts.extend(part.parts if isinstance(part, Intersection) else [part])
        if not self.parts:
            raise ConstraintError("an intersection needs at least one part")
        for part in self.parts:
            if not part.is_regular:
                raise ConstraintError(f"{type(part).__name__} is no regular language: it cannot be intersected with another one")

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts))

    def regular(self, pool: Pool) -> int:
        """See :meth:`Constraint.regular`."""
        return pool.both(*(part.regular(pool) for part in self.parts))

    def build(self, pool: Pool) -> Rule:
        return finish(StaticRule("intersection").define(lexeme(pool, self.regular(pool), name="a text that fits all parts")))
