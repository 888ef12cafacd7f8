"""How a JSON text is laid out: where blanks may or must stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import ConstraintError
from ..rules import Skip, Terminal

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["DEFAULT_BLANKS", "Layout", "Whitespace"]

DEFAULT_BLANKS = 128
"""Longest run of blanks by default: a line break and an indentation of thirty levels of four."""

_BLANKS = sum(1 << b for b in b" \n\r\t")


@dataclass(frozen=True)
class Whitespace:
    """A policy on blanks between tokens.

    Attributes:
        kind: ``"compact"`` (none, as ``json.dumps(separators=(",", ":"))``), ``"flexible"`` (any blanks, each run
            bounded so that a model cannot loop on them) or ``"indent"`` (exactly as ``json.dumps(indent=indent)``).
        max_blanks: the longest run, for ``"flexible"``.
        indent: columns a level, for ``"indent"``.
    """

    kind: str = "flexible"
    max_blanks: int = DEFAULT_BLANKS
    indent: int = 2

    @staticmethod
    def of(value: str | Whitespace, max_blanks: int | None = None) -> Whitespace:
        """The policy behind ``"compact"``, ``"flexible"`` or ``"indent=N"``.

        Raises:
            ConstraintError: it is none of these.
        """
        if isinstance(value, str):
            if value in ("compact", "flexible"):
                value = Whitespace(value)
            elif value.startswith("indent=") and value[7:].isdigit():
                value = Whitespace("indent", indent=int(value[7:]))
        if not isinstance(value, Whitespace) or value.kind not in ("compact", "flexible", "indent"):
            raise ConstraintError(f'whitespace is "compact", "flexible", "indent=N" or a Whitespace, not {value!r}')
        if max_blanks is not None:
            value = Whitespace(value.kind, max_blanks, value.indent)
        if value.max_blanks < 0 or value.indent < 0:
            raise ConstraintError("max_blanks and indent are not negative")
        return Whitespace("compact") if value.kind == "flexible" and value.max_blanks == 0 else value


class Layout:
    """The lexemes of punctuation under one policy.

    Where blanks are free they are skipped in front of a lexeme (:attr:`skip`); under ``indent`` they are part of
    the lexemes, which therefore depend on the depth. Without free blanks a comma is one lexeme with the key behind it.
    """

    def __init__(self, pool: Pool, whitespace: Whitespace) -> None:
        self.pool, self.whitespace = pool, whitespace
        self.free = whitespace.kind == "flexible"
        self.deep = whitespace.kind == "indent"
        self.skip: Skip | None = None
        self._terminals: dict[str, Terminal] = {}
        if self.free:
            blanks = pool.repeat(pool.byteset(_BLANKS), 1, whitespace.max_blanks)
            if not pool.is_empty(blanks):
                self.skip = Skip((Terminal(blanks, name="blanks"),), once=True)

    def _fixed(self, text: str) -> Terminal:
        found = self._terminals.get(text)
        if found is None:
            found = self._terminals[text] = Terminal(self.pool.literal(text.encode()), name=repr(text))
        return found

    def _line(self, depth: int) -> str:
        return "\n" + " " * (self.whitespace.indent * depth) if self.deep else ""

    @cached_property
    def comma(self) -> Terminal:
        """A comma alone (free layout)."""
        return self._fixed(",")

    def opening(self, bracket: str) -> Terminal:
        return self._fixed(bracket)

    def closing(self, bracket: str, depth: int, empty: bool) -> Terminal:
        """The closing bracket of what stands at ``depth``."""
        return self._fixed(bracket if empty else self._line(depth) + bracket)

    def before_element(self, depth: int, first: bool) -> Terminal | None:
        """What stands before an array's element inside of what is at ``depth``; ``None`` for nothing."""
        text = ("" if first else ",") + self._line(depth + 1)
        return self._fixed(text) if text else None

    @cached_property
    def _behind_key(self) -> int:
        """What stands behind a key's text: its quote, the colon and the blanks between."""
        pool = self.pool
        blanks = pool.repeat(pool.byteset(_BLANKS), 0, self.whitespace.max_blanks) if self.free else pool.EPSILON
        return pool.cat(pool.literal(b'"'), blanks, pool.literal(b": " if self.deep else b":"))

    def key(self, content: int, depth: int, first: bool, name: str) -> Terminal:
        """A member's key (``content``: between its quotes) with its colon, and in fixed layouts with the comma before it."""
        before = '"' if self.free else ("" if first else ",") + self._line(depth + 1) + '"'
        return Terminal(self.pool.cat(self._fixed(before).expr, content, self._behind_key), name=name)
