"""Which characters a set of byte strings can write, and which of the strings could get stuck inside a character.

A token may end in the middle of a character (byte-level BPE has many such). After it, whatever
character the language wants there has to be completed with the tokens that exist. Two facts keep that
free of dead ends:

* a character is *writable* if a token is exactly that character, or if a token is the beginning of it
  and every byte after its first one is a token of its own;
* a token that ends inside a character is *safe* if no character that begins like its tail is writable
  only as one token; unsafe ones have to be left out.

So, wherever a safe token ends inside a character, each writable character that begins so can be
completed one byte at a time. Vocabularies with all 64 continuation bytes have no unsafe token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

__all__ = ["character_range", "partial_tail", "unsafe_tails", "writable_ranges"]

_CONTINUATION = frozenset(bytes([b]) for b in range(0x80, 0xC0))


def _width(lead: int) -> int:
    """Bytes of the character that begins with ``lead``; 0 where no character does."""
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def character_range(prefix: bytes) -> tuple[int, int] | None:
    """First and last code point of the characters whose UTF-8 form begins with ``prefix``, or ``None`` if there is none.

    Surrogates are not characters; the range of ``b"\\xed"`` ends before them.
    """
    width = _width(prefix[0]) if prefix else 0
    if not width or len(prefix) > width or any(b & 0xC0 != 0x80 for b in prefix[1:]):
        return None
    if width == 1:
        return prefix[0], prefix[0]
    value = prefix[0] & (0x7F >> width)
    for b in prefix[1:]:
        value = value << 6 | b & 0x3F
    free = 6 * (width - len(prefix))
    lo = max(value << free, (0, 0, 0x80, 0x800, 0x10000)[width])
    hi = min((value + 1 << free) - 1, 0x10FFFF)
    if 0xD800 <= lo <= 0xDFFF:
        return None
    if lo < 0xD800 <= hi <= 0xDFFF:
        hi = 0xD7FF
    return (lo, hi) if lo <= hi else None


def partial_tail(data: bytes) -> bytes:
    """The unfinished character at the end of ``data`` (1 to 3 bytes that more bytes could complete), or ``b""``."""
    for k in range(1, min(3, len(data)) + 1):
        tail = data[-k:]
        if tail[0] >= 0xC0:
            return tail if _width(tail[0]) > k and character_range(tail) else b""
        if tail[0] < 0x80:
            return b""
    return b""


def unsafe_tails(tokens: Collection[bytes]) -> frozenset[bytes]:
    """The unfinished characters that a text must not end in, given these tokens (see the module's docstring)."""
    single = {t for t in tokens if len(t) == 1}
    if single >= _CONTINUATION:
        return frozenset()
    unsafe: set[bytes] = set()
    for token in tokens:
        if 2 <= len(token) <= 4 and _width(token[0]) == len(token) and character_range(token):
            cut = max((i for i in range(1, len(token)) if token[i : i + 1] not in single), default=0)
            unsafe.update(token[:k] for k in range(1, cut + 1))
    return frozenset(unsafe)


def writable_ranges(tokens: Collection[bytes]) -> list[tuple[int, int]]:
    """Sorted disjoint code point ranges of the characters that these (safe) tokens can write."""
    continuation = [b for b in range(0x80, 0xC0) if bytes([b]) in tokens]
    available = set(continuation)
    found: list[tuple[int, int]] = []
    for token in {t for t in tokens if 1 <= len(t) <= 4}:
        if character_range(token) is None:
            continue
        missing = _width(token[0]) - len(token)
        if missing == 0 or available.issuperset(token[1:]):
            found.extend(_completions(token, missing, continuation))
    return _merged(found)


def _completions(prefix: bytes, missing: int, continuation: list[int]) -> Iterator[tuple[int, int]]:
    """Code point ranges of the characters that ``missing`` bytes out of ``continuation`` make of ``prefix``."""
    whole = character_range(prefix)
    if whole is None:
        return
    if missing == 0 or len(continuation) == 64:
        yield whole
        return
    for b in continuation:
        yield from _completions(prefix + bytes([b]), missing - 1, continuation)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        if merged and lo <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(hi, merged[-1][1])
        else:
            merged.append((lo, hi))
    return merged
