"""Internationalised host names: RFC 5890 to 5893, as an automaton over characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable
from functools import cache
from typing import NamedTuple

from ..regex.charset import CharSet, property_set
from ..regex.charwise import charwise
from .writer import Writer

__all__ = ["idn_hostname"]

_JOINERS = CharSet.of("\u200c\u200d")
_CONTEXT = CharSet.of("\u00b7\u0375\u05f3\u05f4\u30fb") | _JOINERS
_ALLOWED = CharSet.of("\u00df\u03c2\u06fd\u06fe\u0f0b\u3007")
_FORBIDDEN = CharSet([(0x640, 0x640), (0x7FA, 0x7FA), (0x302E, 0x302F), (0x3031, 0x3035), (0x303B, 0x303B)])
_DOTS = CharSet.of(".\u3002\uff0e\uff61")
_UPPER = CharSet([(0x41, 0x5A)])
_LONGEST, _ASCII_LABEL, _WIDE_LABEL = 253, 63, 59


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


class _Kind(NamedTuple):
    """What the rules ask of a character."""

    ascii: bool = False
    valid: bool = False
    l: bool = False  # noqa: E741 (the letter of the middle dot's rule)
    middle: bool = False
    keraia: bool = False
    greek: bool = False
    hebrew: bool = False
    hebrew_mark: bool = False
    joiner: bool = False
    virama: bool = False
    mark: bool = False
    katakana: bool = False
    kana: bool = False
    arabic: bool = False
    extended: bool = False
    digit: bool = False
    hyphen: bool = False
    right: bool = False
    left: bool = False


@cache
def _kinds() -> tuple[tuple[CharSet, _Kind], ...]:
    """The characters of labels, by what the rules ask of them."""
    valid = _valid_characters()
    marks, katakana = property_set("M"), CharSet.of("\u30fb")
    sets = {
        "ascii": CharSet([(0x2D, 0x2D), (0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)]),
        "valid": valid | _CONTEXT,
        "l": CharSet.of("l"),
        "middle": CharSet.of("\u00b7"),
        "keraia": CharSet.of("\u0375"),
        "greek": property_set("sc=Greek"),
        "hebrew": property_set("sc=Hebrew"),
        "hebrew_mark": CharSet.of("\u05f3\u05f4"),
        "joiner": _JOINERS,
        "virama": CharSet((p, p) for p in marks.points() if unicodedata.combining(chr(p)) == 9),
        "mark": marks,
        "katakana": katakana,
        "kana": (property_set("sc=Hiragana") | property_set("sc=Katakana") | property_set("sc=Han")) - katakana,
        "arabic": CharSet([(0x660, 0x669)]),
        "extended": CharSet([(0x6F0, 0x6F9)]),
        "digit": CharSet([(0x30, 0x39)]),
        "hyphen": CharSet.of("-"),
        "right": CharSet((p, p) for p in valid.points() if unicodedata.bidirectional(chr(p)) in ("R", "AL", "AN")),
        "left": CharSet((p, p) for p in valid.points() if unicodedata.bidirectional(chr(p)) == "L"),
    }
    parts: list[tuple[CharSet, dict[str, bool]]] = [(valid | _CONTEXT | _UPPER, {})]
    for name, chars in sets.items():
        split = [(part & chars, {**known, name: True}) for part, known in parts] + [(part - chars, known) for part, known in parts]
        parts = [(part, known) for part, known in split if part]
    return tuple((part, _Kind(**known)) for part, known in parts)


class _State(NamedTuple):
    """A prefix of a name: its label under way, and what the labels before it were.

    ``wide`` and ``ascii``: whether the label may yet be one of RFC 5891, or an ASCII one. ``needs`` is what must come next
    ("l", "greek", or "more" after a hyphen), ``last`` what the last character was where a rule looks back at it, ``kana`` whether
    a character of the Japanese scripts is still wanted (1) or was there (2).
    """

    total: int = 0
    size: int = 0
    wide: bool = True
    ascii: bool = True
    needs: str = ""
    last: str = ""
    kana: int = 0
    arabic: bool = False
    extended: bool = False
    digit: bool = False
    direction: str = ""
    right: bool = False  # some label of the name reads from right to left
    figures: bool = False  # some label starts with a digit


class _Names:
    """The automaton; one serves all pools."""

    def accepts(self, state: Hashable) -> bool:
        assert isinstance(state, _State)
        return self._label_ends(state)

    def _label_ends(self, s: _State) -> bool:
        return s.size > 0 and not s.needs and (s.ascii or s.kana != 1)

    def moves(self, state: Hashable) -> Iterable[tuple[CharSet, Hashable]]:
        assert isinstance(state, _State)
        for chars, kind in _kinds():
            after = self._after(state, kind)
            if after is not None:
                yield chars, after
        if self._label_ends(state) and state.total + 2 <= _LONGEST:
            yield _DOTS, _State(total=state.total + 1, right=state.right, figures=state.figures)

    def _after(self, s: _State, k: _Kind) -> _State | None:
        if (s.needs == "greek" and not k.greek) or (s.needs == "l" and not k.l):
            return None
        if k.hyphen and (s.size == 0 or (s.size == 3 and s.last == "hyphen")):
            return None
        starts = s.size == 0 and (k.digit or k.arabic or k.extended)
        right, figures = s.right or k.right, s.figures or starts
        if right and figures:
            return None
        ascii, wide = s.ascii and k.ascii, s.wide and self._fits(s, k)
        plain = _State(s.total + 1, s.size + 1, False, ascii, "more" if k.hyphen else "", "hyphen" if k.hyphen else "")
        plain = plain._replace(right=right, figures=figures)
        after = plain._replace(wide=wide)
        if wide:
            last = next((name for name in ("l", "hebrew", "virama", "hyphen") if getattr(k, name)), "")
            needs = "greek" if k.keraia else "l" if k.middle else after.needs
            kana = 2 if k.kana else max(s.kana, k.katakana)
            direction = s.direction or ("R" if k.right else "L" if k.left else "")
            after = after._replace(
                needs=needs, last=last, kana=kana, direction=direction,
                arabic=s.arabic or k.arabic, extended=s.extended or k.extended, digit=s.digit or k.digit,
            )  # fmt: skip
            more = (needs != "") + (kana == 1 and needs != "more")
            if after.size + more > _WIDE_LABEL or after.total + more > _LONGEST:
                after = plain
        if not after.wide and not after.ascii:
            return None
        if after.wide:
            return after
        more = after.needs != ""
        return after if after.size + more <= _ASCII_LABEL and after.total + more <= _LONGEST else None

    def _fits(self, s: _State, k: _Kind) -> bool:
        """Whether a label of RFC 5891 may go on with this character (and be completed)."""
        if not k.valid or (s.size == 0 and k.mark) or (k.middle and s.last != "l") or (k.hebrew_mark and s.last != "hebrew"):
            return False
        if (k.joiner and s.last != "virama") or (k.arabic and (s.extended or s.digit)) or ((k.extended or k.digit) and s.arabic):
            return False
        if (k.right and (s.direction == "L" or s.kana == 1)) or (k.left and s.direction == "R"):
            return False
        return not (s.direction == "R" and (k.keraia or (k.katakana and s.kana != 2)))


_NAMES = _Names()


def idn_hostname(w: Writer) -> int:
    """Labels of RFC 5892 characters with its contextual rules, with any of the four dots; ASCII names as in ``hostname``.

    Of the rules for right-to-left names (RFC 5893) it takes a stricter form: no label mixes directions, and in a name with a
    label from right to left no label starts with a digit. A label that is not ASCII has at most 59 characters here; RFC 5891
    limits its Punycode. Labels in Punycode are not accepted.
    """
    return charwise(w.pool, _NAMES, _State(), w.encoder)
