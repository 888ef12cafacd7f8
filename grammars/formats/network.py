"""Addresses (RFC 2673, 4291), host names (RFC 1123, 5890 to 5892) and mail addresses (RFC 5321, 6531)."""

from __future__ import annotations

import unicodedata
from functools import cache

from ..regex.charset import CharSet, property_set
from .writer import Writer

__all__ = ["IPV4", "IPV6", "email", "hostname", "idn_email", "idn_hostname", "ipv4", "ipv6"]

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"(?:{_OCTET}(?:\.{_OCTET}){{3}})"


def _ipv6() -> str:
    group = "[0-9A-Fa-f]{1,4}"
    forms = [f"(?:{group}:){{7}}{group}", f"(?:{group}:){{6}}{IPV4}"]
    for left in range(8):
        # "::" stands for at least one group, so at most 7 are written.
        head = f"{group}(?::{group}){{{left - 1}}}" if left else ""
        right = 7 - left
        tails = [""]
        if right >= 1:
            tails.append(f"(?:{group}:){{0,{right - 1}}}{group}")
        if right >= 2:
            tails.append(f"(?:{group}:){{0,{right - 2}}}{IPV4}")
        forms.append(f"{head}::(?:{'|'.join(tails)})")
    return f"(?:{'|'.join(forms)})"


IPV6 = _ipv6()

_LETTER_DIGIT = "[A-Za-z0-9]"
_LABEL = f"{_LETTER_DIGIT}(?:[A-Za-z0-9-]{{0,61}}{_LETTER_DIGIT})?"
_WIDE_LABEL = r"[A-Za-z0-9\x80-\U0010ffff](?:[A-Za-z0-9\x80-\U0010ffff-]{0,61}[A-Za-z0-9\x80-\U0010ffff])?"
_MAX_NAME = 253


def ipv4(w: Writer) -> int:
    """Four decimal numbers, without leading zeros."""
    return w.pattern(IPV4)


def ipv6(w: Writer) -> int:
    """All forms of RFC 4291, section 2.2."""
    return w.pattern(IPV6)


def _names(w: Writer, label: int, dot: int, longest: int = _MAX_NAME) -> int:
    """Labels with dots between them, limited in length."""
    pool = w.pool
    names = pool.cat(label, pool.star(pool.cat(dot, label)))
    return pool.both(names, w.pattern(f"(?s:.){{1,{longest}}}"))


def hostname(w: Writer) -> int:
    """Labels of letters, digits and inner hyphens, at most 63 characters each and 253 in all; no Punycode."""
    label = w.pool.minus(w.pattern(_LABEL), w.pattern("[Xx][Nn]--(?s:.)*"))
    return _names(w, label, w.text("."))


def _mail(w: Writer, local: str, quoted: str, label: str) -> int:
    pool = w.pool
    dot_atom = w.pattern(rf"[{local}]+(?:\.[{local}]+)*")
    quotes = w.pattern(rf'"(?:[{quoted}]|\\[\x20-\x7e])*"')
    domain = _names(w, w.pattern(label), w.text("."))
    literal = w.pattern(rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]")
    return pool.cat(pool.alt(dot_atom, quotes), w.text("@"), pool.alt(domain, literal))


_ATEXT = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_QTEXT = r"\x20\x21\x23-\x5b\x5d-\x7e"


def email(w: Writer) -> int:
    """``Mailbox`` of RFC 5321: dot-atom or quoted string, then a domain or an address in brackets."""
    return _mail(w, _ATEXT, _QTEXT, _LABEL)


def idn_email(w: Writer) -> int:
    """The same with characters beyond ASCII (RFC 6531)."""
    return _mail(w, _ATEXT + r"\x80-\U0010ffff", _QTEXT + r"\x80-\U0010ffff", _WIDE_LABEL)


# ---------------------------------------------------------------- internationalised names
_JOINERS = CharSet.of("\u200c\u200d")
_CONTEXT = CharSet.of("\u00b7\u0375\u05f3\u05f4\u30fb") | _JOINERS
_ALLOWED = CharSet.of("\u00df\u03c2\u06fd\u06fe\u0f0b\u3007")
_FORBIDDEN = CharSet([(0x640, 0x640), (0x7FA, 0x7FA), (0x302E, 0x302F), (0x3031, 0x3035), (0x303B, 0x303B)])


@cache
def _valid_characters() -> CharSet:
    """PVALID of RFC 5892: letters, digits and marks that normalisation and case folding leave alone."""
    found = []
    for point in range(0x110000):
        c = chr(point)
        if unicodedata.category(c) in ("Ll", "Lo", "Nd", "Lm", "Mn", "Mc"):
            folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", c).casefold())
            if folded == c:
                found.append((point, point))
    jamo = CharSet([(0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF)])
    ignorable = property_set("Default_Ignorable_Code_Point")
    blocks = CharSet([(0x20D0, 0x20FF), (0x1D100, 0x1D1FF), (0x1D200, 0x1D24F)])
    kept = (CharSet(found) - jamo - ignorable - blocks) | _ALLOWED
    return (kept - _FORBIDDEN - _CONTEXT) | CharSet.of("-")


def _is_virama(point: int) -> bool:
    return unicodedata.combining(chr(point)) == 9


def idn_hostname(w: Writer) -> int:
    """Labels of RFC 5892 characters with its contextual rules, with any of the four dots; ASCII names as in :func:`hostname`.

    Of the rules for right-to-left names (RFC 5893) it takes a stricter form: no label mixes directions. A label that is not
    ASCII has at most 59 characters here; RFC 5891 limits its Punycode.
    """
    pool = w.pool
    valid = _valid_characters()
    every = valid | _CONTEXT

    def one(chars: CharSet) -> int:
        return w.chars(chars & every)

    # What is bad stays bad whatever follows: with every byte string as the rest, such a label is seen to be dead at once.
    rest = pool.negate(pool.EMPTY)

    def anywhere(part: int) -> int:
        return pool.cat(pool.star(one(every)), part, rest)

    def unless_preceded(context: CharSet, by: CharSet) -> int:
        """Labels with a character of ``context`` at the start or not after one of ``by``."""
        return pool.alt(pool.cat(one(context), rest), anywhere(pool.cat(one(every - by), one(context))))

    def unless_followed(context: CharSet, by: CharSet) -> int:
        return pool.alt(pool.cat(pool.star(one(every)), one(context)), anywhere(pool.cat(one(context), one(every - by))))

    marks = property_set("M")
    middle, keraia, hebrew_marks, katakana = (CharSet.of(c) for c in ("\u00b7", "\u0375", "\u05f3\u05f4", "\u30fb"))
    viramas = CharSet((p, p) for p in marks.points() if _is_virama(p))
    kana = property_set("sc=Hiragana") | property_set("sc=Katakana") | property_set("sc=Han")
    arabic, extended = CharSet([(0x660, 0x669)]), CharSet([(0x6F0, 0x6F9)])
    hyphen, digits = CharSet.of("-"), CharSet([(0x30, 0x39)])
    bad = [
        pool.cat(one(marks | hyphen), rest),
        pool.cat(pool.star(one(every)), one(hyphen)),
        pool.cat(one(every), one(every), w.text("--"), rest),
        unless_preceded(middle, CharSet.of("l")),
        unless_followed(middle, CharSet.of("l")),
        unless_followed(keraia, property_set("sc=Greek")),
        unless_preceded(hebrew_marks, property_set("sc=Hebrew")),
        unless_preceded(_JOINERS, viramas),
        pool.both(anywhere(one(katakana)), pool.star(one(every - (kana - katakana)))),
        pool.both(anywhere(one(arabic)), anywhere(one(extended))),
        pool.both(anywhere(one(_right_to_left())), anywhere(one(_left_to_right()))),
        pool.both(anywhere(one(arabic)), anywhere(one(digits))),
    ]
    label = pool.minus(pool.repeat(one(every), 1, 59), pool.alt(*bad))
    ascii_label = pool.minus(w.pattern(_LABEL), w.pattern("(?s:..)--(?s:.)*"))
    dot = w.pattern("[.\u3002\uff0e\uff61]")
    names = _names(w, pool.alt(label, ascii_label), dot)
    # In a name with a label from right to left no label starts with a digit or a mark of its own.
    anything = w.pattern("(?s:.)*")
    starts = pool.cat(pool.opt(pool.cat(anything, dot)), one(digits | arabic | extended), rest)
    return pool.minus(names, pool.both(pool.cat(anything, one(_right_to_left()), rest), starts))


@cache
def _right_to_left() -> CharSet:
    return CharSet((p, p) for p in _valid_characters().points() if unicodedata.bidirectional(chr(p)) in ("R", "AL", "AN"))


@cache
def _left_to_right() -> CharSet:
    return CharSet((p, p) for p in _valid_characters().points() if unicodedata.bidirectional(chr(p)) == "L")
