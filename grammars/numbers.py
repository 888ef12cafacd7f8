"""Exact sets of numbers, and the language of all their JSON spellings.

:class:`NumberSet` is a set that JSON Schema can describe: an interval, a grid (``multipleOf``, and ``integer`` as the
grid of step 1), excluded grids and excluded points. Everything is computed with fractions, never with
floats: ``0.1`` is one tenth. :meth:`NumberSet.to_expr` gives *every* JSON spelling (RFC 8259, section 6) of
*exactly* its members: ``1``, ``1.0``, ``10E-1`` and ``0.1e+1`` are one number, ``-0`` is zero. See
:mod:`grammars.number_text` for the automaton and for what it refuses of spellings with hundreds of digits.

A set without bounds has spellings without end: a budget of tokens, not the language, keeps a model from writing them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Union

from .errors import ConstraintError
from .number_text import Magnitudes, SignedNumber, is_decimal

if TYPE_CHECKING:
    from .regex.expr import Pool

__all__ = ["ANY_NUMBER", "INTEGERS", "Number", "NumberSet", "exact"]

Number = Union[int, float, Decimal, Fraction]

_MAX_EXPONENT = 5000


def exact(value: Number) -> Fraction:
    """The number that a JSON text means: a float is read through its shortest decimal form, so ``0.1`` is 1/10.

    Raises:
        ConstraintError: it is not finite, or has thousands of digits.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        raise ConstraintError(f"a number is needed, not {value!r}")
    if isinstance(value, (int, Fraction)):
        result = Fraction(value)
    else:
        decimal = Decimal(repr(value)) if isinstance(value, float) else value
        if not decimal.is_finite():
            raise ConstraintError(f"a finite number is needed, not {value!r}")
        if decimal and abs(decimal.adjusted()) > _MAX_EXPONENT:
            raise ConstraintError(f"the number {value!r} is out of range; use one between 1e-{_MAX_EXPONENT} and 1e{_MAX_EXPONENT}")
        result = Fraction(decimal)
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > 4 * _MAX_EXPONENT:
        raise ConstraintError(f"a number with more than {_MAX_EXPONENT} digits is not supported")
    return result


def _step(value: Number) -> Fraction:
    step = exact(value)
    if step <= 0:
        raise ConstraintError(f"a step of multiples must be greater than zero, not {value!r}")
    # A decimal number is a multiple of a/b exactly if it is one of a/b', with b' the part of b made of twos and fives.
    kept, rest = 1, step.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            kept, rest = kept * prime, rest // prime
    return Fraction(step.numerator, kept)


def _lcm(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.lcm(a.numerator, b.numerator), math.gcd(a.denominator, b.denominator))


@dataclass(frozen=True)
class NumberSet:
    """The decimal numbers within the bounds, on the grid, and not excluded. Make it with :meth:`of`.

    Attributes:
        lower, upper: the bounds, ``None`` where there is none.
        lower_open, upper_open: whether the bound itself is outside.
        step: members are multiples of it (``None``: any decimal number); a whole number for sets of integers.
        not_multiple_of: members are multiples of none of these.
        excluded: these are no members.
    """

    lower: Fraction | None = None
    lower_open: bool = False
    upper: Fraction | None = None
    upper_open: bool = False
    step: Fraction | None = None
    not_multiple_of: frozenset[Fraction] = frozenset()
    excluded: frozenset[Fraction] = frozenset()

    @classmethod
    def of(
        cls,
        *,
        integer: bool = False,
        minimum: Number | None = None,
        maximum: Number | None = None,
        exclusive_minimum: Number | None = None,
        exclusive_maximum: Number | None = None,
        multiple_of: Number | Iterable[Number] = (),
        not_multiple_of: Number | Iterable[Number] = (),
        excluded: Iterable[Number] = (),
    ) -> NumberSet:
        """The set with the meaning of the JSON Schema keywords of these names.

        Raises:
            ConstraintError: a bound is not finite, or a step is not positive.
        """
        result = INTEGERS if integer else ANY_NUMBER
        steps = [multiple_of] if isinstance(multiple_of, (int, float, Decimal, Fraction)) else multiple_of
        others = [not_multiple_of] if isinstance(not_multiple_of, (int, float, Decimal, Fraction)) else not_multiple_of
        parts = [cls(step=_step(m)) for m in steps]
        if minimum is not None:
            parts.append(cls(lower=exact(minimum)))
        if exclusive_minimum is not None:
            parts.append(cls(lower=exact(exclusive_minimum), lower_open=True))
        if maximum is not None:
            parts.append(cls(upper=exact(maximum)))
        if exclusive_maximum is not None:
            parts.append(cls(upper=exact(exclusive_maximum), upper_open=True))
        parts.append(cls(not_multiple_of=frozenset(map(_step, others)), excluded=frozenset(map(exact, excluded))))
        for part in parts:
            result = result.intersect(part)
        return result

    @property
    def integer(self) -> bool:
        """Whether every member is an integer because of the grid."""
        return self.step is not None and self.step.denominator == 1

    def intersect(self, other: NumberSet) -> NumberSet:
        """The numbers in both sets."""
        lower, lower_open = self.lower, self.lower_open
        if other.lower is not None and (lower is None or (other.lower, other.lower_open) > (lower, lower_open)):
            lower, lower_open = other.lower, other.lower_open
        upper, upper_open = self.upper, self.upper_open
        if other.upper is not None and (upper is None or (-other.upper, other.upper_open) > (-upper, upper_open)):
            upper, upper_open = other.upper, other.upper_open
        steps = [s for s in (self.step, other.step) if s is not None]
        step = _lcm(*steps) if len(steps) == 2 else steps[0] if steps else None
        return NumberSet(
            lower, lower_open, upper, upper_open, step, self.not_multiple_of | other.not_multiple_of, self.excluded | other.excluded
        )

    def contains(self, value: Number) -> bool:
        """Whether the number is a member."""
        x = exact(value)
        if self.lower is not None and (x < self.lower or (self.lower_open and x == self.lower)):
            return False
        if self.upper is not None and (x > self.upper or (self.upper_open and x == self.upper)):
            return False
        if not is_decimal(x) or x in self.excluded or (self.step is not None and (x / self.step).denominator != 1):
            return False
        return all((x / step).denominator != 1 for step in self.not_multiple_of)

    def is_empty(self) -> bool:
        """Whether there is no member; exact."""
        return not self.contains(0) and self._half(False).empty and self._half(True).empty

    def members(self, most: int) -> list[Fraction] | None:
        """The members, at most ``most`` of them in ascending order; ``None`` if there are infinitely many."""
        if self.is_empty():
            return []
        if self.lower is not None and self.lower == self.upper:
            return [self.lower]
        if self.step is None or self.lower is None or self.upper is None:
            return None
        found: list[Fraction] = []
        at, last = math.ceil(self.lower / self.step), math.floor(self.upper / self.step)
        while at <= last and len(found) < most:
            if self.contains(at * self.step):
                found.append(at * self.step)
            at += 1
        return found

    def to_expr(self, pool: Pool, *, exponents: bool = True) -> int:
        """The JSON spellings of the members, as an expression of ``pool``; ``exponents=False`` leaves out those with an exponent."""
        if self.is_empty():
            return pool.EMPTY
        return pool.leaf(SignedNumber(self._half(False, exponents), self._half(True, exponents)))

    def _half(self, negative: bool, exponents: bool = True) -> Magnitudes:
        """The magnitudes of the members of one sign."""
        bounds = [(self.lower, self.lower_open), (self.upper, self.upper_open)]
        excluded = self.excluded
        if negative:
            bounds = [(None if value is None else -value, is_open) for value, is_open in reversed(bounds)]
            excluded = frozenset(-x for x in excluded)
        return Magnitudes.of(*bounds[0], *bounds[1], self.step, self.not_multiple_of, excluded, self.contains(0), exponents)


ANY_NUMBER = NumberSet()
INTEGERS = NumberSet(step=Fraction(1))
