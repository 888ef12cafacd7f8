r"""Unicode properties (``\p{Lu}``), which Lark knows with its option ``regex=True``, written out for Python's ``re``."""

from __future__ import annotations

import re

from ..regex.charset import CharSet, property_set

__all__ = ["expand_properties"]

_PIECE = re.compile(r"\\([pP])\{(\^?)([^}]*)\}|\\.|\[\^?\]?|\]|.", re.DOTALL)


def expand_properties(pattern: str) -> str:
    r"""``pattern`` with each ``\p{...}`` and ``\P{...}`` replaced by the characters it stands for.

    Raises:
        ValueError: there is no such property.
    """
    if "\\p{" not in pattern and "\\P{" not in pattern:
        return pattern
    out: list[str] = []
    inside = False
    for piece in _PIECE.finditer(pattern):
        text = piece.group()
        if piece[1]:
            try:
                chars = property_set(piece[3])
            except KeyError:
                raise ValueError(f"there is no Unicode property {piece[3]!r}") from None
            written = _ranges(~chars if (piece[1] == "P") != bool(piece[2]) else chars)
            out.append(written if inside else f"[{written}]")
            continue
        if not inside and text[0] == "[":
            inside = True
        elif inside and text == "]":
            inside = False
        elif inside and text[0] == "[" and text.endswith("]"):
            inside = False  # "[]" inside a class is a bracket and the class's end
        out.append(text)
    return "".join(out)


def _ranges(chars: CharSet) -> str:
    return "".join(f"\\U{lo:08x}" if lo == hi else f"\\U{lo:08x}-\\U{hi:08x}" for lo, hi in chars)
