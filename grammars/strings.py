"""Languages of JSON string texts (RFC 8259, section 7).

A JSON string may write one character in several ways: as itself in UTF-8, as a short escape
(``\\n``), as ``\\uXXXX`` with either case of the hexadecimal digits, or as a surrogate pair of two such
escapes. A language of *characters* (a pattern, a length, a set of names) is turned into the language of
its spellings by an **encoder**, a callable ``encoder(pool, charset) -> expression`` that says how one
character is written; :class:`JsonEncoder` is the one for JSON strings. So lengths and patterns count characters,
however they are spelled. Half a surrogate pair is not a character and is never accepted.

The automata are lazy (:class:`grammars.regex.expr.Leaf` objects): a state is what of the character set is
still possible after the bytes read so far, moved to zero, so that equal remainders are the same state; for
the full set that makes a dozen states. Sets of texts are walked as sorted arrays, with no trie ever built.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

from .errors import ConstraintError
from .regex.charset import CharSet
from .regex.kinds import REPEAT
from .regex.leaves import Leaf, Utf8

if TYPE_CHECKING:
    from .regex.expr import Pool

__all__ = [
    "JsonEncoder",
    "any_string",
    "any_string_except",
    "any_text",
    "complement",
    "json_chars",
    "json_string",
    "literal_string",
    "literal_text",
    "string_set",
    "text_except",
    "text_set",
]

Escapes = Literal["any", "minimal"]
Ranges = tuple[tuple[int, int], ...]

_SHORT = {ord('"'): '"', ord("\\"): "\\", ord("/"): "/", 8: "b", 12: "f", 10: "n", 13: "r", 9: "t"}
_MUST_ESCAPE = CharSet([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
_SURROGATES = CharSet([(0xD800, 0xDFFF)])
_CHARACTERS = CharSet([(0, 0x10FFFF)]) - _SURROGATES
_RAW = _CHARACTERS - _MUST_ESCAPE
_LONGEST_SPELLING = 12  # bytes: two escapes of half a surrogate pair


def _bit(char: str) -> int:
    return 1 << ord(char)


_HEX = tuple(_bit("0123456789abcdef"[d]) | _bit("0123456789ABCDEF"[d]) for d in range(16))
_HEX_LOWER = tuple(_bit("0123456789abcdef"[d]) for d in range(16))


# ---------------------------------------------------------------- one character
def _cut(ranges: Ranges, lo: int, hi: int) -> Ranges:
    """The part of ``ranges`` within ``[lo, hi)``, moved so that ``lo`` becomes 0."""
    first = bisect_right(ranges, lo, key=lambda r: r[1] + 1)
    found = []
    for a, b in ranges[first:]:
        if a >= hi:
            break
        found.append((max(a, lo) - lo, min(b, hi - 1) - lo))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Hex:
    """``digits`` more hexadecimal digits of a ``\\u`` escape.

    Attributes:
        single: the values, relative to the digits read, that are a whole character (or the second half of a pair).
        pairs: the values ``1024 * first half + second half``, relative likewise, of surrogate pairs.
        lower: whether only lower-case digits are written.
    """

    digits: int
    single: Ranges
    pairs: Ranges
    lower: bool

    nullable = False
    prefix_free = True

    def transitions(self) -> list[tuple[int, Leaf | None]]:
        step = 16 ** (self.digits - 1)
        masks: dict[Leaf | None, int] = {}
        for digit, bit in enumerate(_HEX_LOWER if self.lower else _HEX):
            single = _cut(self.single, digit * step, (digit + 1) * step)
            pairs = _cut(self.pairs, digit * step * 1024, (digit + 1) * step * 1024)
            if not single and not pairs:
                continue
            target: Leaf | None
            if self.digits > 1:
                target = _Hex(self.digits - 1, single, pairs, self.lower)
            elif single:
                target = None
            else:  # the second half: 0xDC00 + the lower ten bits
                target = _Second(tuple((a + 0xDC00, b + 0xDC00) for a, b in pairs), False, self.lower)
            masks[target] = masks.get(target, 0) | bit
        return [(mask, target) for target, mask in masks.items()]


@dataclass(frozen=True, slots=True)
class _Second:
    """The backslash (or, after it, the ``u``) of the second half of a surrogate pair."""

    units: Ranges
    after_backslash: bool
    lower: bool

    nullable = False
    prefix_free = True

    def transitions(self) -> list[tuple[int, Leaf | None]]:
        if self.after_backslash:
            return [(_bit("u"), _Hex(4, self.units, (), self.lower))]
        return [(_bit("\\"), _Second(self.units, True, self.lower))]


@dataclass(frozen=True, slots=True)
class _Escape:
    """One character as an escape; ``short`` and ``long`` are what may be written as ``\\n`` and as ``\\uXXXX``."""

    short: Ranges
    long: Ranges
    lower: bool
    after_backslash: bool = False

    nullable = False
    prefix_free = True

    def transitions(self) -> list[tuple[int, Leaf | None]]:
        if not self.after_backslash:
            return [(_bit("\\"), _Escape(self.short, self.long, self.lower, True))]
        found: list[tuple[int, Leaf | None]] = []
        letters = 0
        for a, b in self.short:
            for code in range(a, b + 1):
                letters |= _bit(_SHORT[code])
        if letters:
            found.append((letters, None))
        if self.long:
            single = tuple(r for r in self.long if r[1] < 0x10000)
            # Half-way code points: a pair is 1024 * (0xD800 + upper ten bits) + lower ten bits.
            pairs = tuple((a + 0xD7C0 * 1024, b + 0xD7C0 * 1024) for a, b in self.long if a >= 0x10000)
            found.append((_bit("u"), _Hex(4, single, pairs, self.lower)))
        return found


@dataclass(frozen=True, slots=True)
class _Character:
    """One character, as itself (``raw``) or as an escape."""

    raw: Utf8
    escape: _Escape

    nullable = False
    prefix_free = True
    remainder = _LONGEST_SPELLING

    def transitions(self) -> list[tuple[int, Leaf | None]]:
        return [*self.raw.transitions(), *self.escape.transitions()]


def _ranges(charset: CharSet) -> Ranges:
    """The set's ranges, cut between the basic plane and the others, without surrogates."""
    cut = []
    for a, b in charset & _CHARACTERS:
        if a < 0x10000 <= b:
            cut += [(a, 0xFFFF), (0x10000, b)]
        else:
            cut.append((a, b))
    return tuple(cut)


def _writable(pool: Pool) -> CharSet:
    return _CHARACTERS if pool.writable is None else pool.writable


_SHORT_SET = CharSet([(c, c) for c in _SHORT])
_MINIMAL_SHORT = _SHORT_SET & _MUST_ESCAPE


_KNOWN: weakref.WeakKeyDictionary[Pool, dict[tuple[Escapes, CharSet], int]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class JsonEncoder:
    """How one character is written inside a JSON string; callable as ``encoder(pool, charset) -> expression``.

    Attributes:
        escapes: ``"any"`` accepts every spelling that RFC 8259 allows. ``"minimal"`` accepts one a character, that of
            ``json.dumps(text, ensure_ascii=False)``: raw where JSON allows raw, the short escape where a character must be escaped and
            has one, else ``\\u00xx`` in lower case. A character that the vocabulary of the pool cannot write raw is
            written as its (lower-case) ``\\uXXXX`` escape then, so that no character is lost.
    """

    escapes: Escapes = "any"

    def __post_init__(self) -> None:
        if self.escapes not in ("any", "minimal"):
            raise ConstraintError(f'escapes is "any" or "minimal", not {self.escapes!r}')

    def __call__(self, pool: Pool, charset: CharSet) -> int:
        known = _KNOWN.get(pool)
        if known is None:
            known = _KNOWN[pool] = {}
        found = known.get((self.escapes, charset))
        if found is None:
            found = known[self.escapes, charset] = self._character(pool, charset)
        return found

    def _character(self, pool: Pool, charset: CharSet) -> int:
        charset = charset & _CHARACTERS
        raw = charset & _RAW
        if self.escapes == "any":
            escape = _Escape(_ranges(charset & _SHORT_SET), _ranges(charset), False)
        else:
            long = (charset & _MUST_ESCAPE) - _MINIMAL_SHORT
            long = long | (raw - _writable(pool))
            escape = _Escape(_ranges(charset & _MINIMAL_SHORT), _ranges(long), True)
        raw = raw & _writable(pool)
        if not escape.short and not escape.long:
            return pool.chars(raw)
        return pool.leaf(_Character(Utf8.of(raw), escape) if raw else escape)


ANY_ESCAPES = JsonEncoder("any")
MINIMAL_ESCAPES = JsonEncoder("minimal")


def json_chars(pool: Pool, charset: CharSet) -> int:
    """One character of ``charset`` in any spelling that a JSON string allows."""
    return ANY_ESCAPES(pool, charset)


# ---------------------------------------------------------------- whole strings
def json_string(pool: Pool, content: int) -> int:
    """``content`` (an expression over spelled characters) between quotes."""
    return pool.cat(pool.literal(b'"'), content, pool.literal(b'"'))


def any_text(pool: Pool, encoder: JsonEncoder = ANY_ESCAPES) -> int:
    """Every string's content: spelled characters, any number of them."""
    return pool.star(encoder(pool, _CHARACTERS))


def any_string(pool: Pool, lo: int = 0, hi: int | None = None, encoder: JsonEncoder = ANY_ESCAPES) -> int:
    """Every string of ``lo`` to ``hi`` characters (``None``: without bound); an escape or a surrogate pair is one character."""
    return json_string(pool, pool.repeat(encoder(pool, _CHARACTERS), lo, hi))


def complement(pool: Pool, content: int, encoder: JsonEncoder = ANY_ESCAPES) -> int:
    """The contents that are not in ``content``.

    ``content`` must be closed under respelling by ``encoder``, as everything is that was built with it.
    """
    return pool.minus(any_text(pool, encoder), content)


def literal_text(pool: Pool, text: str, escapes: Escapes = "any") -> int:
    """The spellings of ``text``, without quotes. A text with half a surrogate pair has none (EMPTY)."""
    if not text:
        return pool.EPSILON
    walk = _walk(pool, (text,), escapes)
    return pool.EMPTY if walk is None else pool.leaf(walk)


def literal_string(pool: Pool, text: str, escapes: Escapes = "any") -> int:
    """The string whose value is ``text``."""
    return json_string(pool, literal_text(pool, text, escapes))


def text_except(pool: Pool, texts: Iterable[str], encoder: JsonEncoder = ANY_ESCAPES) -> int:
    """Every string's content but the given texts; the complement of :func:`text_set`, walked as cheaply as that."""
    everything = any_text(pool, encoder)
    walk = _walk(pool, texts, encoder.escapes)
    return everything if walk is None else pool.leaf(Except(walk, everything, pool))


def text_set(pool: Pool, texts: Iterable[str], escapes: Escapes = "any") -> int:
    """The spellings of the given texts, without quotes; like a union of :func:`literal_text`, but cheap for thousands of texts."""
    walk = _walk(pool, texts, escapes)
    return pool.EMPTY if walk is None else pool.leaf(walk)


def _walk(pool: Pool, texts: Iterable[str], escapes: Escapes) -> Walk | None:
    """The start of a walk over those of the texts that can be written."""
    codec = _speller(escapes == "minimal", _writable(pool), pool.writable_bytes)
    kept = tuple(t for t in sorted(set(texts)) if codec.can_spell(t))
    return Walk(TextSet.of(kept, codec), 0, len(kept), 0, b"") if kept else None


def string_set(pool: Pool, texts: Iterable[str], escapes: Escapes = "any") -> int:
    """The strings whose values are the given texts."""
    return json_string(pool, text_set(pool, texts, escapes))


def any_string_except(pool: Pool, texts: Iterable[str], encoder: JsonEncoder = ANY_ESCAPES) -> int:
    """Every string but those whose values are among ``texts``.

    As soon as a spelling has left the given texts, its state is that of :func:`any_string`.
    """
    return json_string(pool, text_except(pool, texts, encoder))


# ---------------------------------------------------------------- sets of texts
@dataclass(frozen=True)
class Speller:
    """The spellings of single characters as byte strings; hexadecimal digits in lower case stand for both."""

    minimal: bool
    writable: CharSet
    writable_bytes: int
    _memo: dict[int, tuple[bytes, ...]] = field(default_factory=dict, compare=False, repr=False)
    _codes: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    _spelt: set[str] = field(default_factory=set, compare=False, repr=False)

    def spellings(self, code: int) -> tuple[bytes, ...]:
        known = self._memo.get(code)
        if known is None:
            known = self._memo[code] = tuple(s for s in self._all(code) if self._can_write(s))
        return known

    def can_spell(self, text: str) -> bool:
        """Whether every character of a text has a spelling."""
        if self._spelt.issuperset(text):
            return True
        self._spelt.update(c for c in text if self.spellings(ord(c)))
        return self._spelt.issuperset(text)

    def codes(self, text: str) -> list[int]:
        """Of each character, the code point and how it may be spelt, in the bits of :mod:`grammars.kernels.texts`."""
        known = self._codes
        for character in set(text).difference(known):
            known[character] = self._code(character)
        return list(map(known.__getitem__, text))

    def _code(self, character: str) -> int:
        from .kernels.texts import LONG, LOWER, RAW, SHORT

        found = ord(character) | (LOWER if self.minimal else 0)
        for spelling in self.spellings(ord(character)):
            found |= RAW if not spelling.startswith(b"\\") else SHORT if len(spelling) == 2 else LONG
        return found

    def _can_write(self, spelling: bytes) -> bool:
        return all(self.writable_bytes >> b & 1 for b in spelling)

    def _all(self, code: int) -> list[bytes]:
        if 0xD800 <= code <= 0xDFFF:
            return []
        raw = [chr(code).encode()] if code in _RAW and code in self.writable else []
        short = [b"\\" + _SHORT[code].encode()] if code in _SHORT else []
        units = [code] if code < 0x10000 else [0xD7C0 + (code >> 10), 0xDC00 | code & 0x3FF]
        long = ["".join(f"\\u{u:04x}" for u in units).encode()]
        if not self.minimal:
            return raw + short + long
        return raw or (short if code in _MUST_ESCAPE else []) or long

    def mask(self, prefix: bytes, byte: int) -> int:
        """The bytes that may stand for ``byte`` after ``prefix`` of a spelling."""
        mask = 1 << byte
        hexadecimal = prefix.startswith(b"\\u") and len(prefix) % 6 >= 2
        if hexadecimal and not self.minimal and byte >= ord("a"):
            mask |= 1 << (byte - 32)
        return mask & self.writable_bytes


@lru_cache(maxsize=64)
def _speller(minimal: bool, writable: CharSet, writable_bytes: int) -> Speller:
    return Speller(minimal, writable, writable_bytes)


class TextSet:
    """Sorted texts, interned by content so that comparing two sets is comparing two references."""

    __slots__ = ("__weakref__", "codec", "texts")

    _interned: ClassVar[weakref.WeakValueDictionary[tuple[object, ...], TextSet]] = weakref.WeakValueDictionary()

    def __init__(self, texts: tuple[str, ...], codec: Speller) -> None:
        self.texts, self.codec = texts, codec

    @classmethod
    def of(cls, texts: tuple[str, ...], codec: Speller) -> TextSet:
        key = (texts, codec)
        found = cls._interned.get(key)
        if found is None:
            cls._interned[key] = found = cls(texts, codec)
        return found

    @property
    def longest(self) -> int:
        """Characters of its longest text."""
        return max(map(len, self.texts))

    def children(self, lo: int, hi: int, depth: int) -> Iterable[tuple[int, int, int]]:
        """``(code point, lo, hi)`` for each character at ``depth`` of the texts ``lo`` to ``hi``."""
        texts = self.texts
        if len(texts[lo]) == depth:
            lo += 1
        while lo < hi:
            char = texts[lo][depth]
            end = bisect_right(texts, char, lo, hi, key=lambda t: t[depth])
            yield ord(char), lo, end
            lo = end


@dataclass(frozen=True, slots=True)
class Walk:
    """The texts ``lo`` to ``hi`` of a set, ``depth`` characters read, and ``prefix`` of the next one's spelling."""

    texts: TextSet
    lo: int
    hi: int
    depth: int
    prefix: bytes

    @property
    def remainder(self) -> int:
        """See :class:`~grammars.regex.leaves.Leaf`: the longest text, every character as short as it can be but for one that has begun."""
        spelt = (min(map(len, self.texts.codec.spellings(ord(c)))) for c in set("".join(self.texts.texts)))
        return self.texts.longest * max(spelt, default=0) + _LONGEST_SPELLING

    @property
    def nullable(self) -> bool:
        return not self.prefix and len(self.texts.texts[self.lo]) == self.depth

    def transitions(self) -> list[tuple[int, Walk | None]]:
        # The children that share a prefix of a spelling lie side by side (UTF-8 and UTF-16 prefixes are ranges of
        # code points), but for "\ud", where those beyond the basic plane lie above the rest: the prefix tells them apart.
        codec, prefix, used = self.texts.codec, self.prefix, len(self.prefix)
        spans: dict[int, tuple[int, int]] = {}
        whole: dict[int, Walk | None] = {}
        for code, lo, hi in self.texts.children(self.lo, self.hi, self.depth):
            for spelling in codec.spellings(code):
                if not spelling.startswith(prefix):
                    continue
                byte = spelling[used]
                if len(spelling) == used + 1:
                    whole[byte] = self._node(lo, hi)
                else:
                    first, last = spans.get(byte, (lo, hi))
                    spans[byte] = (min(first, lo), max(last, hi))
        found = [(codec.mask(prefix, byte), target) for byte, target in whole.items()]
        for byte, (lo, hi) in spans.items():
            found.append((codec.mask(prefix, byte), self._narrowed(lo, hi, self.depth, prefix + bytes([byte]))))
        return found

    def _node(self, lo: int, hi: int) -> Walk | None:
        if hi == lo + 1 and len(self.texts.texts[lo]) == self.depth + 1:
            return None
        return self._narrowed(lo, hi, self.depth + 1, b"")

    def _narrowed(self, lo: int, hi: int, depth: int, prefix: bytes) -> Walk:
        """A later part of the walk; with one text left that of this text alone, whatever set it came from."""
        if hi == lo + 1 and len(self.texts.texts) > 1:
            return Walk(TextSet.of((self.texts.texts[lo],), self.texts.codec), 0, 1, depth, prefix)
        return Walk(self.texts, lo, hi, depth, prefix)


@dataclass(frozen=True, slots=True)
class Except:
    """What is left of ``others`` (an expression of ``pool`` with infinitely many members) without the texts of ``walk``."""

    walk: Walk
    others: int
    pool: Pool

    @property
    def remainder(self) -> float | None:
        """See :class:`~grammars.regex.leaves.Leaf`: any character may follow, and texts longer than the walk's are none of them."""
        pool = self.pool
        if pool.kinds[self.others] != REPEAT:
            return None
        body, lo, hi = pool.args[self.others]
        return None if lo or hi is not None else _LONGEST_SPELLING + (self.walk.texts.longest + 1) * pool.min_length(body)

    @property
    def nullable(self) -> bool:
        return not self.walk.nullable and self.pool.nullable(self.others)

    def _after(self, others: int, walk: Walk | None) -> Leaf | int | None:
        return self.pool.nonnull(others) if walk is None else Except(walk, others, self.pool)

    def transitions(self) -> list[tuple[int, Leaf | int | None]]:
        pool, inside = self.pool, self.walk.transitions()
        merged: dict[Leaf | int | None, int] = {}
        for mask, others in pool.transitions(self.others):
            for shared, walk in inside:
                if mask & shared:
                    target = self._after(others, walk)
                    merged[target] = merged.get(target, 0) | mask & shared
                    mask &= ~shared
            if mask:
                merged[others] = merged.get(others, 0) | mask
        return [(mask, target) for target, mask in merged.items()]
