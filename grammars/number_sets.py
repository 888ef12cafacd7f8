"""The magnitudes of one sign of a set of numbers, in the form the automaton of their spellings computes with.

Everything is scaled to integers by a power of ten: if members lie on a grid, ``value * 10**scale`` is a multiple of
:attr:`Magnitudes.step`. A *threshold* is a positive number ``0.d1 d2 d3 ... * 10**size`` with ``d1 != 0``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from .errors import ConstraintError

__all__ = ["EQUAL", "GREATER", "LESS", "Magnitudes", "Threshold", "is_decimal", "split_tens"]

# Comparison of the digits read so far with those of a threshold; a count >= EQUAL says how many have agreed.
EQUAL, LESS, GREATER = 0, -1, -2

# Digits, zeros and exponents beyond what the bounds themselves need, up to which spellings with an exponent are followed.
SLACK = 400


def is_decimal(x: Fraction) -> bool:
    """Whether finitely many decimal digits write ``x``."""
    rest = x.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def split_tens(x: Fraction) -> tuple[int, int]:
    """``(n, k)`` with ``x == n / 10**k`` and ``n`` no multiple of ten; ``x`` is a positive decimal number."""
    k = 0
    while x.denominator != 1:
        x, k = x * 10, k + 1
    n = x.numerator
    while n % 10 == 0:
        n, k = n // 10, k - 1
    return n, k


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number to compare with: ``0.digits * 10**size``."""

    size: int
    digits: tuple[int, ...]

    @classmethod
    def of(cls, x: Fraction) -> Threshold:
        if not is_decimal(x):
            raise ConstraintError(f"the bound {x} cannot be written with finitely many digits")
        n, k = split_tens(x)
        text = str(n)
        return cls(len(text) - k, tuple(map(int, text)))

    def compare(self, state: int, digit: int) -> int:
        """The comparison after one more digit."""
        if state < EQUAL:
            return state
        wanted = self.digits[state] if state < len(self.digits) else 0
        if digit != wanted:
            return LESS if digit < wanted else GREATER
        return min(state + 1, len(self.digits))

    def whole(self, state: int) -> bool:
        """Whether the digits read are exactly these (but for zeros at the end)."""
        return state == len(self.digits)


def _power(mod: int) -> int:
    """The smallest ``g`` with which ``10**g`` holds all the twos and fives of ``mod``."""
    counts = []
    for prime in (2, 5):
        count, rest = 0, mod
        while rest % prime == 0:
            rest, count = rest // prime, count + 1
        counts.append(count)
    return max(counts)


@lru_cache(maxsize=1 << 14)
def tens_needed(residue: int, mod: int) -> int | None:
    """The smallest ``g >= 0`` for which ``residue * 10**g`` is a multiple of ``mod``."""
    for g in range(_power(mod) + 1):
        if residue * pow(10, g, mod) % mod == 0:
            return g
    return None


@dataclass(frozen=True)
class Magnitudes:
    """The positive members (after normalisation) and whether zero is one.

    Attributes:
        zero: whether zero is a member.
        exponents: whether spellings with an exponent are wanted.
        empty: whether there is no positive member.
        low, low_open, high, high_open: bounds that are not implied by the rest.
        least: where members may not be arbitrarily small: the smallest one, or the lower bound.
        points: single positive numbers that are no members though the rest would allow them.
        scale, step: members are ``n / 10**scale`` with ``n`` a multiple of ``step``; ``step == 0``: no grid.
        others: pairs ``(n, k)``: members are no multiples of ``n / 10**k``; on a grid ``k`` is always ``scale``.
    """

    zero: bool
    exponents: bool
    empty: bool
    low: Threshold | None = None
    low_open: bool = False
    high: Threshold | None = None
    high_open: bool = False
    points: tuple[Threshold, ...] = ()
    scale: int = 0
    step: int = 0
    others: tuple[tuple[int, int], ...] = ()
    least: Threshold | None = None

    @classmethod
    def of(
        cls,
        lower: Fraction | None,
        lower_open: bool,
        upper: Fraction | None,
        upper_open: bool,
        step: Fraction | None,
        others: frozenset[Fraction],
        excluded: frozenset[Fraction],
        zero: bool,
        exponents: bool,
    ) -> Magnitudes:
        """The normal form of the positive numbers within the bounds, on the grid and not excluded."""
        if lower is None or lower <= 0:
            lower, lower_open = None, True
        nothing = cls(zero, exponents, True)
        if upper is not None and upper <= 0:
            return nothing
        grids = [split_tens(x) for x in ([step] if step else [])]
        split = [split_tens(x) for x in sorted(others)]
        scale = max((k for _, k in grids + split), default=0)
        unit = grids[0][0] * 10 ** (scale - grids[0][1]) if grids else 0
        points = frozenset(x for x in excluded if x > 0 and is_decimal(x))
        if unit:
            scaled = tuple(n * 10 ** (scale - k) for n, k in split)
            return cls._on_grid(lower, lower_open, upper, upper_open, unit, scale, scaled, points, nothing)

        def member(x: Fraction) -> bool:
            return x not in points and all((x / s).denominator != 1 for s in others)

        lower_open = lower_open or (lower is not None and not member(lower))
        upper_open = upper_open or (upper is not None and not member(upper))
        if lower is not None and upper is not None and (lower > upper or (lower == upper and (lower_open or upper_open))):
            return nothing
        kept = [
            x
            for x in sorted(points)
            if (lower is None or x > lower) and (upper is None or x < upper) and all((x / s).denominator != 1 for s in others)
        ]
        low = None if lower is None else Threshold.of(lower)
        high = None if upper is None else Threshold.of(upper)
        return cls(zero, exponents, False, low, lower_open, high, upper_open, tuple(map(Threshold.of, kept)), scale, 0, tuple(split), low)

    @classmethod
    def _on_grid(
        cls,
        lower: Fraction | None,
        lower_open: bool,
        upper: Fraction | None,
        upper_open: bool,
        unit: int,
        scale: int,
        others: tuple[int, ...],
        points: frozenset[Fraction],
        nothing: Magnitudes,
    ) -> Magnitudes:
        """Bounds become the first and the last member, both inside."""
        if any(unit % other == 0 for other in others):
            return nothing
        power = Fraction(10) ** scale
        gaps = {int(x * power) for x in points if (x * power / unit).denominator == 1}
        period = math.lcm(unit, *others) // unit

        def seek(n: int, by: int) -> int | None:
            for _ in range(period + len(gaps) + 1):
                if n > 0 and n not in gaps and all(n % other for other in others):
                    return n
                n += by
                if n <= 0:
                    break
            return None

        least = seek(unit, unit)
        first = least
        if lower is not None:
            first = seek(max(math.floor(lower * power / unit) + 1 if lower_open else math.ceil(lower * power / unit), 1) * unit, unit)
        if least is None or first is None:
            return nothing
        last = None
        if upper is not None:
            last = seek((math.ceil(upper * power / unit) - 1 if upper_open else math.floor(upper * power / unit)) * unit, -unit)
            if last is None or last < first:
                return nothing
        low = None if first == least else Threshold.of(first / power)
        high = None if last is None else Threshold.of(last / power)
        within = [n for n in sorted(gaps) if (low is None or n > first) and (last is None or n < last)]
        kept = [n for n in within if all(n % other for other in others)]
        kept_points = tuple(Threshold.of(n / power) for n in kept)
        smallest = Threshold.of(first / power)
        pairs = tuple((n, scale) for n in others)
        return cls(nothing.zero, nothing.exponents, False, low, False, high, False, kept_points, scale, unit, pairs, smallest)

    @cached_property
    def _key(self) -> int:
        bounds = (self.low, self.low_open, self.high, self.high_open)
        return hash((self.zero, self.exponents, self.empty, bounds, self.points, self.scale, self.step, self.others))

    def __hash__(self) -> int:
        return self._key

    @cached_property
    def modulus(self) -> int:
        """Residues by it decide every grid; 1 where there is none."""
        return math.lcm(self.step or 1, *(n for n, _ in self.others))

    @cached_property
    def residual(self) -> bool:
        """Whether the number of digits after the point matters."""
        return bool(self.step or self.others)

    @cached_property
    def sizes(self) -> tuple[int, int] | None:
        """The smallest and the greatest size of a threshold."""
        sizes = [t.size for t in self._thresholds()]
        return (min(sizes), max(sizes)) if sizes else None

    def _thresholds(self) -> Iterator[Threshold]:
        yield from (t for t in (self.low, self.high) if t is not None)
        yield from self.points

    def integer(self, threshold: Threshold) -> int:
        """A threshold on the grid, scaled."""
        return int("".join(map(str, threshold.digits))) * 10 ** (threshold.size + self.scale - len(threshold.digits))

    @cached_property
    def max_size(self) -> int:
        """Sizes of whole parts are counted up to this."""
        return max(self.sizes[1] if self.sizes else 0, 0) + (SLACK if self.exponents else 0)

    @cached_property
    def max_zeros(self) -> int:
        """Zeros after the point, in front of the first other digit, are counted up to this."""
        return max(-self.sizes[0] if self.sizes else 0, self.scale if self.residual else 0, 0) + (SLACK if self.exponents else 0)

    @cached_property
    def beyond_zeros(self) -> bool:
        """Whether a digit may follow more than :attr:`max_zeros` zeros: the number is less than every bound then."""
        return self.low is None and not self.step and not (self.others and self.exponents)

    @cached_property
    def max_fraction(self) -> int:
        """Digits after the point are counted up to this."""
        if not self.exponents:
            return max(self.scale, 0) + 1
        return self.max_size + self.max_zeros + abs(self.scale) + len(str(self.modulus)) + len(self.points) + 10 + SLACK

    @cached_property
    def max_trailing(self) -> int:
        """Zeros at the end of the whole part are counted up to this."""
        coarsest = min((k for _, k in self.others), default=self.scale)
        enough = max(_power(self.modulus) - min(coarsest, self.scale), 0)
        return enough + SLACK if self.exponents else enough
