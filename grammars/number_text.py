"""The automaton of all JSON spellings of a set of numbers.

A state is not the digits read but what they decide: how the significant digits compare with each bound, the *size* of
the number (``0.d1 d2 d3 ... * 10**size``, ``d1 != 0``), and, on a grid, two residues and the number of digits
after the point. Whatever is decided is dropped, so that unbounded numbers are seven states, and integers
between 0 and 100 a few dozen.

With an exponent ``E`` the value is the same digits with size ``size + E``. So every state has a set of exponents
that lead into the set of numbers: an interval from the bounds, cut by the grid (``E`` must give the digits after
the point back). The text may end where 0 is among them, and the exponent's digits are an automaton of their own.

Whether a state can be completed is decided by arithmetic, not by search (:meth:`Mantissa.alive`), so no state is a dead end.

**Refused.** Where an exponent is possible the size is followed up to :data:`~grammars.number_sets.SLACK` (400) digits
beyond what the bounds need; spellings with more zeros or digits *and* such an exponent that this matters are
refused, never accepted wrongly. Numbers without exponent are exact at every length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .number_sets import EQUAL, GREATER, LESS, Magnitudes, Threshold, is_decimal, tens_needed
from .regex.leaves import Leaf

__all__ = ["Magnitudes", "Mantissa", "SignedNumber", "is_decimal"]

Interval = tuple[int | None, int | None]
Exponents = tuple[Interval, ...]
_FINISH = 16  # bytes: a sign, a digit, a point with a digit, an exponent with its sign
Moves = list[tuple[int, Leaf | None]]

_EVERY: Exponents = ((None, None),)
_POINT, _E = 1 << ord("."), 1 << ord("e") | 1 << ord("E")
_DIGIT = tuple(1 << ord(str(d)) for d in range(10))
_DIGITS = sum(_DIGIT)


def _grouped(pairs: Iterable[tuple[int, Leaf | None]]) -> Moves:
    masks: dict[Leaf | None, int] = {}
    for mask, target in pairs:
        masks[target] = masks.get(target, 0) | mask
    return [(mask, target) for target, mask in masks.items()]


# ---------------------------------------------------------------- exponents
def _within(exponents: Exponents, value: int) -> bool:
    return any((lo is None or lo <= value) and (hi is None or value <= hi) for lo, hi in exponents)


def _clip(intervals: Sequence[tuple[int, int | None]], lo: int, hi: int) -> tuple[tuple[int, int], ...]:
    """The part within ``[lo, hi)``, moved so that ``lo`` becomes 0."""
    found = []
    for a, b in intervals:
        first, last = max(a, lo), hi - 1 if b is None else min(b, hi - 1)
        if first <= last:
            found.append((first - lo, last - lo))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _ExponentRest:
    """Digits of an exponent after a digit other than zero.

    Attributes:
        levels: for each count of further digits, their values that lead into the set.
        beyond: whether all longer ones do (or none).
    """

    levels: tuple[tuple[tuple[int, int], ...], ...]
    beyond: bool

    @classmethod
    def of(cls, levels: Sequence[tuple[tuple[int, int], ...]], beyond: bool) -> _ExponentRest | None:
        kept = list(levels)
        while kept and kept[-1] == (((0, 10 ** (len(kept) - 1) - 1),) if beyond else ()):
            kept.pop()
        return cls(tuple(kept), beyond) if kept or beyond else None

    @property
    def nullable(self) -> bool:
        return bool(self.levels[0]) if self.levels else self.beyond

    def transitions(self) -> Moves:
        pairs = []
        for digit in range(10):
            levels = [_clip(level, digit * 10**k, (digit + 1) * 10**k) for k, level in enumerate(self.levels[1:])]
            rest = _ExponentRest.of(levels, self.beyond)
            if rest is not None:
                pairs.append((_DIGIT[digit], rest))
        return _grouped(pairs)


@dataclass(frozen=True, slots=True)
class _ExponentZeros:
    """Digits of an exponent, nothing but zeros read so far; ``values`` are the magnitudes that lead into the set."""

    values: tuple[tuple[int, int | None], ...]
    started: bool

    @property
    def nullable(self) -> bool:
        return self.started and self.values[0][0] == 0

    def transitions(self) -> Moves:
        pairs: list[tuple[int, Leaf | None]] = [(_DIGIT[0], _ExponentZeros(self.values, True))]
        ends = [a if b is None else b + 1 for a, b in self.values]
        for digit in range(1, 10):
            levels: list[tuple[tuple[int, int], ...]] = []
            while digit * 10 ** len(levels) <= max(ends):
                power = 10 ** len(levels)
                levels.append(_clip(self.values, digit * power, (digit + 1) * power))
            rest = _ExponentRest.of(levels, self.values[-1][1] is None)
            if rest is not None:
                pairs.append((_DIGIT[digit], rest))
        return _grouped(pairs)


@dataclass(frozen=True, slots=True)
class _ExponentStart:
    """What follows the ``e``: a sign, or digits."""

    exponents: Exponents

    nullable = False

    def transitions(self) -> Moves:
        positive = tuple((max(lo or 0, 0), hi) for lo, hi in self.exponents if hi is None or hi >= 0)
        mirrored = [(None if hi is None else -hi, None if lo is None else -lo) for lo, hi in reversed(self.exponents)]
        negative = tuple((max(lo or 0, 0), hi) for lo, hi in mirrored if hi is None or hi >= 0)
        found: Moves = []
        if positive:
            zeros = _ExponentZeros(positive, False)
            found = [*zeros.transitions(), (1 << ord("+"), zeros)]
        if negative:
            found.append((1 << ord("-"), _ExponentZeros(negative, False)))
        return found


# ---------------------------------------------------------------- start and zeros
@dataclass(frozen=True, slots=True)
class SignedNumber:
    """The start: the spellings of a whole set, by the magnitudes of its two signs (not both without a member)."""

    positive: Magnitudes
    negative: Magnitudes

    nullable = False

    @property
    def remainder(self) -> int | None:
        """See :class:`~grammars.regex.leaves.Leaf`; ``None`` where divisors or excluded numbers may ask for any number of digits.

        Digits reach a bound with those of the bound, and whatever has been written an exponent finishes, of five digits at most.
        """
        sides = [n for n in (self.positive, self.negative) if n.zero or not n.empty]
        if any(n.step not in (0, 1) or n.scale or n.points or n.others for n in sides):
            return None
        bounds = [t for n in sides for t in (n.low, n.high, n.least) if t is not None]
        return _FINISH + max((abs(t.size) + len(t.digits) for t in bounds), default=0)

    def transitions(self) -> Moves:
        found: Moves = []
        if self.positive.zero or not self.positive.empty:
            found = _Unsigned(self.positive).transitions()
        if self.negative.zero or not self.negative.empty:
            found.append((1 << ord("-"), _Unsigned(self.negative)))
        return found


@dataclass(frozen=True, slots=True)
class _Unsigned:
    """A magnitude, from its first digit on."""

    numbers: Magnitudes

    nullable = False

    def transitions(self) -> Moves:
        n = self.numbers
        pairs: list[tuple[int, Leaf | None]] = []
        if n.zero or _zeros_alive(n, 0):
            pairs.append((_DIGIT[0], _Zeros(n, None)))
        return _grouped(pairs + _first_digits(n, None))


@dataclass(frozen=True, slots=True)
class _Zeros:
    """Only zeros so far: the whole part (``count is None``), or ``count`` of them (0: none yet) after the point."""

    numbers: Magnitudes
    count: int | None
    started: bool = True

    @property
    def nullable(self) -> bool:
        return self.numbers.zero and self.started

    def transitions(self) -> Moves:
        n, count = self.numbers, self.count
        pairs: list[tuple[int, Leaf | None]] = []
        if self.nullable and n.exponents:
            pairs.append((_E, _ExponentStart(_EVERY)))
        if count is None:
            if n.zero or _zeros_alive(n, 0):
                pairs.append((_POINT, _Zeros(n, 0, False)))
            return pairs
        more = min(count + 1, n.max_zeros + 1)
        alive = _zeros_alive(n, more)
        if n.zero or alive:
            counted = not n.empty and (n.sizes is not None or n.residual)
            pairs.append((_DIGIT[0], _Zeros(n, 0 if not counted else more if alive else n.max_zeros + 1)))
        return _grouped(pairs + _first_digits(n, count))


def _zeros_alive(n: Magnitudes, count: int) -> bool:
    """Whether a positive member can be written with ``count`` zeros after the point in front of its first other digit."""
    if n.empty:
        return False
    if n.exponents:
        return count <= n.max_zeros or n.beyond_zeros
    least = n.least
    return least is None or least.size <= -count


def _first_digits(n: Magnitudes, zeros: int | None) -> list[tuple[int, Leaf | None]]:
    if n.empty:
        return []
    starts = [(_DIGIT[digit], Mantissa.first(n, digit, zeros)) for digit in range(1, 10)]
    return [(mask, target) for mask, target in starts if target is not None]


# ---------------------------------------------------------------- mantissa
@dataclass(frozen=True, slots=True)
class _Tail:
    """Digits after the point that decide nothing any more."""

    exponents: Exponents
    with_exponents: bool
    started: bool

    @property
    def nullable(self) -> bool:
        return self.started and _within(self.exponents, 0)

    def transitions(self) -> Moves:
        found: Moves = [(_DIGITS, _Tail(self.exponents, self.with_exponents, True))]
        if self.started and self.with_exponents:
            found.append((_E, _ExponentStart(self.exponents)))
        return found


_WHOLE, _AFTER_POINT, _FRACTION = range(3)


@dataclass(frozen=True, slots=True)
class Mantissa:
    """A number from its first digit other than zero on.

    Attributes:
        numbers: the set.
        phase: in the whole part, right after the point, or in the fraction.
        size: as of the digits read, kept within ``-max_zeros - 1`` (fewer than any bound) and ``max_size + 1`` (more).
        fraction: digits after the point (0 where they do not matter).
        net: ``fraction`` less the zeros at the end of all digits.
        core: residue of the digits without these zeros.
        residue: residue of the digits.
        low, high: comparison of the significant digits with the bounds; ``None``: the bound is kept anyhow.
        points: which excluded points still agree with the digits, and on how many.
    """

    numbers: Magnitudes
    phase: int
    size: int
    fraction: int
    net: int
    core: int
    residue: int
    low: int | None
    high: int | None
    points: tuple[tuple[int, int], ...]

    @classmethod
    def first(cls, numbers: Magnitudes, digit: int, zeros: int | None) -> Leaf | None:
        """The state after the first digit other than zero: of the whole part, or after ``zeros`` zeros behind the point."""
        n = numbers
        core = digit % n.modulus
        low = None if n.low is None else n.low.compare(EQUAL, digit)
        high = None if n.high is None else n.high.compare(EQUAL, digit)
        points = tuple((i, 1) for i, t in enumerate(n.points) if t.digits[0] == digit)
        if zeros is None:
            return cls(n, _WHOLE, 1, 0, 0, core, core, low, high, points)._settled()
        if zeros > n.max_zeros and not n.beyond_zeros:
            return None
        fraction = min(zeros + 1, n.max_fraction) if n.residual else 0
        return cls(n, _FRACTION, -zeros, fraction, fraction, core, core, low, high, points)._settled()

    # -------------------------------------------------------- what the state decides
    def exponents(self) -> Exponents:
        """The exponents with which the digits read so far are a member."""
        n, size = self.numbers, self.size
        lo: list[int] = []
        hi: list[int] = []
        if self.low is not None:
            assert n.low is not None
            reached = self.low == GREATER or (n.low.whole(self.low) and not n.low_open)
            lo.append(n.low.size - size + (not reached))
        if self.high is not None:
            assert n.high is not None
            within = self.high != GREATER and not (n.high.whole(self.high) and n.high_open)
            hi.append(n.high.size - size - (not within))
        if n.sizes is not None and n.exponents:
            if size > n.max_size:
                lo.append(n.sizes[1] - size + 1)
            if size < -n.max_zeros:
                hi.append(n.sizes[0] - size - 1)
        if n.step:
            needed = tens_needed(self.core % n.step, n.step)
            if needed is None:
                return ()
            lo.append(needed + self.net - n.scale)
        for other, scale in n.others:
            needed = tens_needed(self.core % other, other)
            if needed is not None:
                if self.net <= -n.max_trailing:  # at least so many zeros: all that is known is that these exponents are too great
                    return ()
                hi.append(needed + self.net - scale - 1)
        holes = {n.points[i].size - size for i, agreed in self.points if n.points[i].whole(agreed)}
        return _without(max(lo, default=None), min(hi, default=None), holes)

    def _ends(self) -> bool:
        return self.phase != _AFTER_POINT and _within(self.exponents(), 0)

    @property
    def nullable(self) -> bool:
        return self._ends()

    def alive(self) -> bool:
        """Whether some continuation is a member."""
        first, last = self._possible_sizes()
        if last is not None and first is not None and first > last:
            return False
        n = self.numbers
        if not n.step:
            return True
        shortest = self.size + self.net - n.scale  # below it some digit would come to stand behind the grid
        first = shortest if first is None else max(first, shortest)
        if last is None:  # with so many digits every residue can be had, past every excluded point
            last = max(first, self.size + self.fraction - n.scale) + len(str(n.modulus)) + len(n.points) + 2
        return any(self._reaches(size) for size in range(first, last + 1))

    def _possible_sizes(self) -> tuple[int | None, int | None]:
        """The sizes that a member starting with these digits may have, as far as the bounds tell."""
        n = self.numbers
        first: int | None = None
        last: int | None = None
        if not n.exponents:
            first, last = self.size, self.size if self.phase != _WHOLE else None
        if self.low is not None:
            assert n.low is not None
            bound = n.low.size + (self.low == LESS)
            first = bound if first is None else max(first, bound)
        if self.high is not None:
            assert n.high is not None
            possible = self.high != GREATER and not (n.high.whole(self.high) and n.high_open)
            bound = n.high.size - (not possible)
            last = bound if last is None else min(last, bound)
        if n.sizes is not None and n.exponents:
            if self.size > n.max_size:
                first = n.sizes[1] + 1 if first is None else max(first, n.sizes[1] + 1)
            if self.size < -n.max_zeros:
                last = n.sizes[0] - 1 if last is None else min(last, n.sizes[0] - 1)
        return first, last

    def _reaches(self, size: int) -> bool:
        """Whether a member on the grid with this size starts with these digits."""
        n = self.numbers
        digits = size + n.scale - self.size - self.fraction  # that are still to come, when the value is written as a scaled integer
        room = digits if self.phase == _WHOLE else n.max_fraction - self.fraction
        if digits < 0 or digits > room or room == 0:
            return self._reaches_with_zeros(size)
        least, greatest = 0, 10**digits - 1
        if self.low is not None and n.low is not None and size == n.low.size and self.low >= EQUAL:
            least = n.integer(n.low) % 10**digits
        if self.high is not None and n.high is not None and size == n.high.size and self.high >= EQUAL:
            greatest = n.integer(n.high) % 10**digits
        gaps = {n.integer(n.points[i]) % 10**digits for i, _ in self.points if n.points[i].size == size}
        base = self.residue * pow(10, digits, n.modulus) % n.modulus
        u = least + (-base - least) % n.step
        for _ in range(n.modulus // n.step + len(gaps) + 1):
            if u > greatest:
                return False
            if u not in gaps and all((base + u) % other for other, _ in n.others):
                return True
            u += n.step
        return False

    def _reaches_with_zeros(self, size: int) -> bool:
        """The same where only zeros are to come, or some of those read are in the way."""
        n = self.numbers
        zeros = size + n.scale - self.size - self.net
        if zeros < 0:
            return False
        if n.exponents and self.net <= -n.max_trailing and any(tens_needed(self.core % other, other) is not None for other, _ in n.others):
            return False
        value = self.core * pow(10, zeros, n.modulus) % n.modulus
        if value % n.step or not all(value % other for other, _ in n.others):
            return False
        if self.low is not None and n.low is not None and size == n.low.size and not (self.low == GREATER or n.low.whole(self.low)):
            return False
        if self.high is not None and n.high is not None and size == n.high.size and self.high == GREATER:
            return False
        return not any(n.points[i].size == size and n.points[i].whole(agreed) for i, agreed in self.points)

    # -------------------------------------------------------- moves
    def _cuts(self) -> list[int]:
        """Digits from 1 on at which the next state changes; all of them where residues count."""
        n = self.numbers
        if n.modulus > 1:
            return list(range(1, 10))
        wanted: list[tuple[Threshold | None, int | None]] = [(n.low, self.low), (n.high, self.high)]
        wanted += [(n.points[i], agreed) for i, agreed in self.points]
        cuts = {1}
        for threshold, state in wanted:
            if threshold is not None and state is not None and state >= EQUAL:
                digit = threshold.digits[state] if state < len(threshold.digits) else 0
                cuts |= {d for d in (digit, digit + 1) if 1 <= d <= 9}
        return sorted(cuts)

    def transitions(self) -> Moves:
        pairs: list[tuple[int, Leaf | None]] = []
        cuts = [0, *self._cuts()]
        for digit, end in zip(cuts, [*cuts[1:], 10], strict=True):
            target = self._digit(digit)
            if target is not None:
                pairs.append((sum(_DIGIT[digit:end]), target))
        if self.phase == _WHOLE:
            target = replace(self, phase=_AFTER_POINT)._settled()
            if target is not None:
                pairs.append((_POINT, target))
        if self.phase != _AFTER_POINT and self.numbers.exponents:
            exponents = self.exponents()
            if exponents:
                pairs.append((_E, _ExponentStart(exponents)))
        return _grouped(pairs)

    def _digit(self, digit: int) -> Leaf | None:
        n = self.numbers
        size, fraction, net = self.size, self.fraction, self.net
        if self.phase == _WHOLE:
            size += 1
            if size > n.max_size:
                if self.high is not None:
                    return None
                size = n.max_size + 1
            net = max(net - 1, -n.max_trailing) if digit == 0 else 0
        elif n.residual:
            if fraction >= n.max_fraction:
                if digit and n.step:
                    return None
            else:
                fraction += 1
            net = fraction if digit else net
        residue = (10 * self.residue + digit) % n.modulus
        core = residue if digit else self.core
        low = None if self.low is None or n.low is None else n.low.compare(self.low, digit)
        high = None if self.high is None or n.high is None else n.high.compare(self.high, digit)
        compared = ((i, n.points[i].compare(agreed, digit)) for i, agreed in self.points)
        points = tuple(p for p in compared if p[1] >= EQUAL)
        phase = _WHOLE if self.phase == _WHOLE else _FRACTION
        return Mantissa(n, phase, size, fraction, net, core, residue, low, high, points)._settled()

    def _settled(self) -> Leaf | None:
        """The same state in its normal form; ``None`` if nothing can complete it."""
        if not self.alive():
            return None
        n, low, high, size, net, points = self.numbers, self.low, self.high, self.size, self.net, self.points
        if not n.exponents:
            low, high, points = self._undecided(points)
        elif size > n.max_size:
            low, points = None, ()
        elif size < -n.max_zeros:
            high, points = None, ()
        far = n.exponents and (size > n.max_size or size < -n.max_zeros)
        unbounded = not n.exponents or (n.low is None and n.high is None)
        if low is None and high is None and not points and not far and unbounded:
            size = 0
        if not n.residual:
            net = 0
            if self.phase != _WHOLE and not points and (low is None or low < EQUAL) and (high is None or high < EQUAL):
                exponents = replace(self, net=0, low=low, high=high, points=points).exponents() if n.exponents else _EVERY
                return _Tail(exponents, n.exponents, self.phase == _FRACTION)
        return replace(self, size=size, net=net, low=low, high=high, points=points)

    def _undecided(self, points: tuple[tuple[int, int], ...]) -> tuple[int | None, int | None, tuple[tuple[int, int], ...]]:
        """Without exponents: the comparisons that can still matter."""
        n = self.numbers

        def matters(threshold: Threshold | None, state: int | None) -> bool:
            if threshold is None or state is None or self.size > threshold.size:
                return False
            return self.phase == _WHOLE or (self.size == threshold.size and state >= EQUAL)

        low = self.low if matters(n.low, self.low) else None
        high = self.high if matters(n.high, self.high) else None
        return low, high, tuple(p for p in points if matters(n.points[p[0]], p[1]))


def _without(lo: int | None, hi: int | None, holes: set[int]) -> Exponents:
    """The interval without some of its integers."""
    found: list[Interval] = []
    for hole in sorted(holes):
        if (lo is None or hole >= lo) and (hi is None or hole <= hi):
            if lo is None or lo < hole:
                found.append((lo, hole - 1))
            lo = hole + 1
    if lo is None or hi is None or lo <= hi:
        found.append((lo, hi))
    return tuple(found)
