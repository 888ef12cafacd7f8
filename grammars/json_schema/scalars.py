"""The languages of a schema's numbers and strings, each made once: keywords in, sets or expressions out.

Numbers stay exact sets (:class:`~grammars.numbers.NumberSet`, a union of them) until a lexeme is made of them. Strings are
expressions over the text between the quotes that hold every spelling of their values (``"a"`` is ``"\\u0061"``), so set operations on
expressions are set operations on values.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import heappop, heappush
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import formats, strings
from ..errors import ConstraintError, RegexError, SchemaError
from ..numbers import ANY_NUMBER, INTEGERS, NumberSet, exact
from ..regex.charset import ANY
from .values import Digits, Spellings, Value, fraction, of_fraction

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["NUMBER_KEYWORDS", "STRING_KEYWORDS", "Numbers", "Part", "Scalars", "Texts"]

NUMBER_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
STRING_KEYWORDS = frozenset({"minLength", "maxLength", "pattern", "format"})

Numbers = tuple[NumberSet, ...]
"""A union of number sets, none of them empty."""


# ---------------------------------------------------------------- numbers
def all_numbers(*, integer: bool = False) -> Numbers:
    return (INTEGERS,) if integer else (ANY_NUMBER,)


def number_set(keywords: Mapping[str, Any], draft: str) -> NumberSet:
    """What the numeric keywords of one schema say together."""
    low, high = keywords.get("minimum"), keywords.get("maximum")
    above, below = keywords.get("exclusiveMinimum"), keywords.get("exclusiveMaximum")
    if draft == "4":  # flags there, which turn the bound next to them
        low, above = (None, low) if above else (low, None)
        high, below = (None, high) if below else (high, None)
    step = [keywords["multipleOf"]] if "multipleOf" in keywords else []
    return NumberSet.of(minimum=low, maximum=high, exclusive_minimum=above, exclusive_maximum=below, multiple_of=step)


def points(values: Iterable[float | Decimal]) -> Numbers:
    """Exactly the given numbers."""
    return tuple(NumberSet(lower=x, upper=x) for x in sorted({exact(v) for v in values}))


def both_numbers(a: Numbers, b: Numbers) -> Numbers:
    """Intersection."""
    if a == (ANY_NUMBER,) or a == b:
        return b
    if b == (ANY_NUMBER,):
        return a
    found = dict.fromkeys(x.intersect(y) for x in a for y in b)
    return tuple(s for s in found if not s.is_empty())


def either_numbers(parts: Iterable[Numbers]) -> Numbers:
    """Union."""
    found = dict.fromkeys(s for part in parts for s in part)
    return (ANY_NUMBER,) if ANY_NUMBER in found else tuple(found)


def other_numbers(a: Numbers) -> Numbers:
    """Complement."""
    single = frozenset(s.lower for s in a if s.lower is not None and s.lower == s.upper)
    result: Numbers = (NumberSet(excluded=single),)
    for s in a:
        if s.lower is None or s.lower != s.upper:
            result = both_numbers(result, _outside(s))
    return result


def _outside(s: NumberSet) -> Numbers:
    parts = []
    if s.lower is not None:
        parts.append(NumberSet(upper=s.lower, upper_open=not s.lower_open))
    if s.upper is not None:
        parts.append(NumberSet(lower=s.upper, lower_open=not s.upper_open))
    if s.step is not None:
        parts.append(NumberSet(not_multiple_of=frozenset({s.step})))
    parts += [NumberSet(step=step) for step in sorted(s.not_multiple_of)]
    parts += [NumberSet(lower=x, upper=x) for x in sorted(s.excluded)]
    return tuple(parts)


# ---------------------------------------------------------------- strings
@dataclass(frozen=True, slots=True)
class Texts:
    """A set of strings: a finite one, or a language without finitely many strings.

    Attributes:
        expr: the language of the spellings, quotes excluded (not used for a finite set).
        only: the members of a finite set, else ``None``.
        but: strings that are not members although they are in the language.
    """

    expr: int = 0
    only: frozenset[str] | None = None
    but: frozenset[str] = frozenset()


class Part(NamedTuple):
    """The scalars of a place; ``gone`` are numbers of hundreds of digits that are not among them."""

    null: bool
    booleans: frozenset[bool]
    numbers: Numbers
    texts: Texts
    gone: frozenset[Digits] = frozenset()


class Scalars:
    """Strings, and the lexemes of scalars, over one pool.

    Args:
        pool: where the expressions live.
        encoder: how a character of a string is written.
        assert_format: whether ``format`` asserts.
        plain_integers: whether integers must be written without fraction and exponent (draft 4).
    """

    def __init__(self, pool: Pool, encoder: strings.JsonEncoder, assert_format: bool, plain_integers: bool) -> None:
        self.pool, self.encoder, self.assert_format, self.plain_integers = pool, encoder, assert_format, plain_integers
        self.any_text = strings.any_text(pool, encoder)
        self.all_texts = Texts(self.any_text)
        self.no_texts = Texts(only=frozenset())
        self._memo: dict[Hashable, Any] = {}
        self._excepts: dict[int, Texts] = {}

    def both(self, a: Texts, b: Texts) -> Texts:
        """Intersection."""
        if a == self.all_texts or a == b:
            return b
        if b == self.all_texts:
            return a
        if a.only is None and b.only is not None:
            a, b = b, a
        if a.only is not None:
            return Texts(only=frozenset(text for text in a.only if self.has(b, text)))
        return Texts(self._both(a.expr, b.expr), but=a.but | b.but)

    def _both(self, a: int, b: int) -> int:
        full = self.any_text
        return b if a in (full, b) else a if b == full else self.pool.both(a, b)

    def either(self, parts: Iterable[Texts]) -> Texts:
        """Union."""
        distinct = dict.fromkeys(parts)
        finite = frozenset[str]().union(*(t.only for t in distinct if t.only is not None))
        open_ended = [t for t in distinct if t.only is None]
        if not open_ended:
            return Texts(only=finite)
        if len(open_ended) == 1 and open_ended[0].expr == self.any_text:
            return Texts(self.any_text, but=open_ended[0].but - finite)
        if self.all_texts in distinct:
            return self.all_texts
        return Texts(self.pool.alt(*map(self.expression, open_ended), self.expression(Texts(only=finite))))

    def without(self, a: Texts) -> Texts:
        """The strings that are not in ``a``."""
        if a.only is not None:
            return Texts(self.any_text, but=a.only)
        if a.expr == self.any_text:
            return Texts(only=a.but)
        outside = strings.complement(self.pool, a.expr, self.encoder)
        return Texts(self.pool.alt(outside, self.expression(Texts(only=a.but)))) if a.but else Texts(outside)

    def has(self, a: Texts, text: str) -> bool:
        """Whether a string is a member."""
        if a.only is not None:
            return text in a.only
        return text not in a.but and (a.expr == self.any_text or self.contains(a.expr, text))

    def is_empty(self, a: Texts) -> bool:
        """Whether no member can be written."""
        if a.only is not None:
            return not any(self.name(text) for text in a.only)
        if not a.but or a.expr == self.any_text:
            return self.pool.is_empty(a.expr)
        return self.pool.is_empty(self.expression(a))

    def expression(self, a: Texts) -> int:
        """The spellings of the members, quotes excluded."""
        found: int | None = self._memo.get(a)
        if found is None:
            if a.only is not None:
                found = strings.text_set(self.pool, a.only, self.encoder.escapes)
            elif a.but and a.expr == self.any_text:
                found = strings.text_except(self.pool, a.but, self.encoder)
            elif a.but:
                found = self.pool.minus(a.expr, strings.text_set(self.pool, a.but, self.encoder.escapes))
            else:
                found = a.expr
            self._memo[a] = found
        return found

    def text(self, keywords: Mapping[str, Any], draft: str, pointer: str) -> Texts:
        """What the string keywords of one schema say together.

        Raises:
            SchemaError: a pattern is malformed or not regular.
        """
        key = ("text", draft, *sorted(keywords.items()))
        found: int | None = self._memo.get(key)
        if found is None:
            pool = self.pool
            found = self.any_text
            if "minLength" in keywords or "maxLength" in keywords:
                lo, hi = int(keywords.get("minLength", 0)), keywords.get("maxLength")
                hi = None if hi is None else int(hi)
                found = pool.EMPTY if hi is not None and hi < lo else pool.repeat(self.encoder(pool, ANY), lo, hi)
            if "pattern" in keywords:
                found = self._both(found, self.pattern(keywords["pattern"], f"{pointer}/pattern"))
            if "format" in keywords and self.assert_format:
                found = self._both(found, self.format(keywords["format"]))
            self._memo[key] = found
        return Texts(found) if found != self.pool.EMPTY else self.no_texts

    def pattern(self, pattern: str, pointer: str) -> int:
        """The strings in which ``pattern`` (ECMA-262) matches somewhere."""
        from ..regex.lower import to_expr

        key = ("pattern", pattern)
        found: int | None = self._memo.get(key)
        if found is None:
            try:
                found = to_expr(pattern, self.pool, dialect="ecma", search=True, encoder=self.encoder)
            except RegexError as e:
                raise SchemaError(f"this pattern is not supported: {e}", pointer, "pattern") from None
            self._memo[key] = found
        return found

    def format(self, name: str) -> int:
        """The strings of a format; every string, where the format is unknown."""
        found = formats.format_language(self.pool, name, self.encoder)
        return self.any_text if found is None else found

    # ------------------------------------------------------------ keys
    def name(self, name: str) -> int:
        """The spellings of one key (EMPTY if it holds half a surrogate pair)."""
        key = ("name", name)
        found: int | None = self._memo.get(key)
        if found is None:
            found = self._memo[key] = strings.literal_text(self.pool, name, self.encoder.escapes)
        return found

    def names_except(self, names: tuple[str, ...]) -> int:
        """Every key but these."""
        key = ("except", names)
        found: int | None = self._memo.get(key)
        if found is None:
            texts = Texts(self.any_text, but=frozenset(names))
            found = self._memo[key] = self.expression(texts)
            self._excepts[found] = texts
        return found

    def contains(self, expr: int, name: str) -> bool:
        """Whether the key ``name`` is in the set ``expr``."""
        key = ("contains", expr, name)
        found: bool | None = self._memo.get(key)
        if found is None:
            try:
                spelled = json.dumps(name, ensure_ascii=False)[1:-1].encode()
            except UnicodeEncodeError:
                return False
            found = self._memo[key] = self.pool.matches(expr, spelled) or self.pool.matches(expr, json.dumps(name)[1:-1].encode())
        return found

    # ------------------------------------------------------------ lexemes
    def lexeme(self, null: bool, booleans: Iterable[bool], numbers: Numbers, texts: Texts) -> int:
        """One expression for all the scalars of a place."""
        pool = self.pool
        parts = [pool.literal(b"null")] if null else []
        parts += [pool.literal(b"true" if value else b"false") for value in booleans]
        parts += [self._spelled(s) for s in numbers]
        if texts != self.no_texts:
            parts.append(strings.json_string(pool, self.expression(texts)))
        return pool.alt(*parts)

    # ------------------------------------------------------------ single values
    def part_has(self, part: Part, value: Value) -> bool:
        """Whether a scalar is in a part; numbers of thousands of digits are in every set without end."""
        if value is None:
            return part.null
        if isinstance(value, bool):
            return value in part.booleans
        if isinstance(value, str):
            return self.has(part.texts, value)
        if not isinstance(value, Digits):
            return False
        exactly = fraction(value, 4000)
        if exactly is None:
            return any(s.members(0) is None for s in part.numbers)
        return any(s.contains(exactly) for s in part.numbers)

    def part_without(self, part: Part, values: Iterable[Value]) -> Part:
        """A part without some values."""
        values = list(values)
        booleans = frozenset(v for v in values if isinstance(v, bool))
        digits = {v: fraction(v) for v in values if isinstance(v, Digits)}
        points = frozenset(f for f in digits.values() if f is not None)
        texts = frozenset(v for v in values if isinstance(v, str))
        return Part(
            part.null and None not in values,
            part.booleans - booleans,
            both_numbers(part.numbers, (NumberSet(excluded=points),)) if points else part.numbers,
            self.both(part.texts, Texts(self.any_text, but=texts)) if texts else part.texts,
            part.gone | {v for v, f in digits.items() if f is None},
        )

    def part_is_empty(self, part: Part) -> bool:
        """Whether nothing is left of a part."""
        return not (part.null or part.booleans or part.numbers) and self.is_empty(part.texts)

    def spelled(self, part: Part) -> int:
        """The spellings of the scalars of a part."""
        found = self.lexeme(part.null, sorted(part.booleans), part.numbers, part.texts)
        if part.gone and part.numbers:
            spellings = [self._one_number(value) for value in sorted(part.gone)]
            found = self.pool.minus(found, self.pool.alt(*spellings))
        return found

    def _one_number(self, value: Digits) -> int:
        sign = self.pool.literal(b"-") if value.digits.startswith("-") else self.pool.EPSILON
        return self.pool.cat(sign, self.pool.leaf(Spellings(value.digits.lstrip("-"), value.exponent)))

    def few(self, part: Part, most: int) -> frozenset[Value] | None:
        """The values of a part, or ``None`` if there are more than ``most``."""
        found: set[Value] = {None} if part.null else set()
        found |= part.booleans
        for s in part.numbers:
            members = s.members(most + 1)
            if members is None:
                return None
            found.update(of_fraction(x) for x in members)
        texts = self.few_texts(part.texts, most)
        if texts is None or len(found) + len(texts) > most:
            return None
        return frozenset(found | texts)

    def few_texts(self, texts: Texts, most: int) -> frozenset[str] | None:
        """The strings of a set, or ``None`` if there are more than ``most``."""
        if texts.only is not None:
            only = frozenset(text for text in texts.only if self.name(text))
            return only if len(only) <= most else None
        if texts.expr == self.any_text:
            return None
        key = ("few", texts)
        known: tuple[int, frozenset[str] | None] | None = self._memo.get(key)
        if known is None or (known[1] is None and known[0] < most):
            known = self._memo[key] = most, self._enumerated(texts, most)
        return known[1] if known[1] is None or len(known[1]) <= most else None

    def _enumerated(self, texts: Texts, most: int) -> frozenset[str] | None:
        """Words are taken shortest first, so that each costs little more than its length."""
        pool = self.pool
        expr = pool.both(self.expression(texts), strings.any_text(pool, strings.JsonEncoder("minimal")))
        found: set[str] = set()
        serial = count()
        heap = [] if pool.is_empty(expr) else [(pool.min_length(expr), 0, next(serial), b"", expr)]
        while heap:
            _, _, _, text, state = heappop(heap)
            if pool.nullable(state):
                found.add(json.loads(b'"' + text + b'"'))
                if len(found) > most:
                    return None
            for mask, target in pool.transitions(state):
                length = len(text) + 1 + pool.min_length(target)
                for byte in islice((b for b in range(256) if mask >> b & 1), most + 1):
                    heappush(heap, (length, -len(text), next(serial), text + bytes([byte]), target))
        return frozenset(found)

    def key_without(self, content: int, names: frozenset[str]) -> int:
        """The keys of a set but for ``names`` (EMPTY where there are no others)."""
        if not names:
            return content
        known = self.key_texts(content)
        texts = Texts(known.expr, but=known.but | names)
        found = self.expression(texts)
        if texts.expr == self.any_text:
            self._excepts[found] = texts
        return self.pool.EMPTY if self.is_empty(texts) else found

    def key_texts(self, content: int) -> Texts:
        """The set behind an expression for keys."""
        return self._excepts.get(content, Texts(content))

    def _spelled(self, s: NumberSet) -> int:
        key = ("number", s)
        found: int | None = self._memo.get(key)
        if found is None:
            try:
                found = s.to_expr(self.pool, exponents=not (self.plain_integers and s.integer))
            except ConstraintError as e:
                raise SchemaError(f"a number of the schema is out of range: {e}") from None
            if self.plain_integers and s.integer and found != self.pool.EMPTY:
                found = self.pool.leaf(_WithoutPoint(found, self.pool))
            self._memo[key] = found
        return found


_POINT = 1 << ord(".")


@dataclass(frozen=True, slots=True)
class _WithoutPoint:
    """Numbers of a set of integers that are written without exponent anyway, without fraction as well (a leaf of the pool).

    Every state keeps a text: digits that may be followed by a point and zeros are a member by themselves.
    """

    expr: int
    pool: Pool = field(compare=False, repr=False)

    @property
    def nullable(self) -> bool:
        return self.pool.nullable(self.expr)

    def transitions(self) -> list[tuple[int, _WithoutPoint | None]]:
        found: list[tuple[int, _WithoutPoint | None]] = []
        for mask, target in self.pool.transitions(self.expr):
            if mask & ~_POINT:
                found.append((mask & ~_POINT, None if target == self.pool.EPSILON else _WithoutPoint(target, self.pool)))
        return found
