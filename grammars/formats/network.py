"""Addresses (RFC 2673, 4291), host names (RFC 1123) and mail addresses (RFC 5321, 6531)."""

from __future__ import annotations

from .writer import Writer

__all__ = ["IPV4", "IPV6", "email", "hostname", "idn_email", "ipv4", "ipv6"]

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
