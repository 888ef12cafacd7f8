"""Regular expressions (ECMA-262 with the ``u`` flag) as a language, approximated from the inside.

Nesting is not regular, nor are references back to groups and names. So groups are nested up to :data:`DEPTH` deep, ranges in
classes stay within ASCII letters of one case or digits, repetition counts have at most three digits (two-sided ones two),
at most one group has a name, and back references are not accepted. Every accepted text is a valid expression.
"""

from __future__ import annotations

from .writer import Writer

__all__ = ["DEPTH", "regex"]

DEPTH = 4

_CATEGORIES = "C|Cc|Cf|Cn|Co|L|Ll|Lm|Lo|Lt|Lu|M|Mc|Me|Mn|N|Nd|Nl|No|P|Pc|Pd|Pe|Pf|Pi|Po|Ps|S|Sc|Sk|Sm|So|Z|Zl|Zp|Zs"
_SCRIPTS = "Latin|Greek|Cyrillic|Arabic|Hebrew|Han|Hiragana|Katakana|Hangul|Thai|Devanagari"
_BINARY = "Alphabetic|ASCII|Any|Emoji|Lowercase|Uppercase|White_Space"
_PROPERTY = (
    rf"[pP]\{{(?:(?:(?:gc|General_Category)=)?(?:{_CATEGORIES})"
    rf"|(?:sc|scx|Script|Script_Extensions)=(?:{_SCRIPTS})|{_BINARY})\}}"
)
_HEX = "[0-9A-Fa-f]"
_ESCAPE = rf"[dDwWsStnrfv^$\\.*+?()\[\]{{}}|/]|c[A-Za-z]|x{_HEX}{{2}}|u{_HEX}{{4}}|u\{{0*(?:{_HEX}{{1,5}}|10{_HEX}{{4}})\}}|{_PROPERTY}"


def _ranges() -> str:
    """Ordered ranges of letters and digits."""
    found = []
    for first, last in ("09", "AZ", "az"):
        found += [f"{chr(c)}-[{chr(c)}-{last}]" for c in range(ord(first), ord(last) + 1)]
    return "|".join(found)


def _counts() -> str:
    """``n,m`` with ``n <= m`` of at most two digits."""
    found = []
    for n in range(10):
        found.append(f"{n},(?:[{n}-9]|[1-9][0-9])")
    for tens in range(1, 10):
        higher = f"|[{tens + 1}-9][0-9]" if tens < 9 else ""
        found += [f"{tens}{ones},(?:{tens}[{ones}-9]{higher})" for ones in range(10)]
    return "|".join(found)


def regex(w: Writer) -> int:
    """Valid regular expressions (not all of them, see the module)."""
    pool = w.pool
    atom = w.pattern(rf"[^\^$\\.*+?()\[\]{{}}|]|\.|\\(?:{_ESCAPE})")
    zero = w.pattern(r"\\0")
    member = w.pattern(rf"[^\\\]\^-]|\\(?:{_ESCAPE}|b|-)")
    ranges = w.pattern(_ranges())
    inside = pool.cat(pool.opt(w.pattern("-")), pool.star(pool.alt(member, ranges)), pool.opt(w.pattern("-")))
    charclass = pool.cat(w.pattern(r"\[\^?"), inside, w.pattern(r"\]"))
    quantifier = w.pattern(rf"(?:[*+?]|\{{(?:[0-9]{{1,3}},?|{_counts()})\}})\??")
    assertion = w.pattern(r"[\^$]|\\[bB]")
    single = pool.alt(atom, charclass)
    name = w.pattern("[A-Za-z_$][A-Za-z0-9_$]*")
    # "\0" must not be followed by a digit; it is accepted at the end of a sequence and in front of a quantifier.
    plain = pool.alt(assertion, pool.cat(single, pool.opt(quantifier)), pool.cat(zero, quantifier))
    unnamed = named = pool.EMPTY  # the parts that hold no named group, or one, up to the depth reached
    for _ in range(DEPTH + 1):
        terms = pool.alt(plain, _groups(w, unnamed, quantifier)) if unnamed != pool.EMPTY else plain
        sequence = pool.cat(pool.star(terms), pool.opt(zero))
        if unnamed != pool.EMPTY:
            bracket = pool.cat(w.text("(?<"), name, w.text(">"), unnamed, w.text(")"), pool.opt(quantifier))
            one = pool.alt(bracket, _groups(w, named, quantifier)) if named != pool.EMPTY else bracket
            bar = w.text("|")
            before, after = pool.star(pool.cat(sequence, bar)), pool.star(pool.cat(bar, sequence))
            named = pool.cat(before, pool.star(terms), one, sequence, after)
        unnamed = pool.cat(sequence, pool.star(pool.cat(w.text("|"), sequence)))
    return pool.alt(unnamed, named)


def _groups(w: Writer, body: int, quantifier: int) -> int:
    """A group or an assertion around ``body``."""
    pool = w.pool
    group = pool.cat(w.pattern(r"\((?:\?:)?"), body, w.text(")"), pool.opt(quantifier))
    return pool.alt(group, pool.cat(w.pattern(r"\(\?<?[=!]"), body, w.text(")")))
