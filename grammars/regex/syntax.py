"""``parse``: from a pattern in one of three dialects to a syntax tree.

The dialects are in :mod:`.python_syntax`, :mod:`.ecma_syntax` and :mod:`.rust_syntax`; what they share is in
:mod:`.parser`; the trees are in :mod:`.ast`. ``docs/regex.md`` has the table of what is supported.
"""

from __future__ import annotations

from ..errors import ConstraintError, RegexError
from ..limits import Limits
from .ast import Pattern
from .ecma_syntax import EcmaParser
from .parser import Flags, Parser
from .python_syntax import PythonParser
from .rust_syntax import RustParser

__all__ = ["DIALECTS", "Pattern", "parse"]

DIALECTS: dict[str, type[Parser]] = {"python": PythonParser, "ecma": EcmaParser, "rust": RustParser}


def parse(pattern: str, dialect: str = "python", flags: str = "", limits: Limits | None = None) -> Pattern:
    """The syntax tree of a pattern.

    Args:
        pattern: the pattern's text, without delimiters.
        dialect: ``"python"``, ``"ecma"`` or ``"rust"``.
        flags: flags in force from the start, as letters of the dialect (``"i"``, ``"ms"``, ``"i-u"``).
        limits: bounds on size and nesting.

    Raises:
        RegexError: malformed, or beyond what is supported; says where.
        LimitError: the pattern is too large or nested too deeply.
        ConstraintError: there is no such dialect.
    """
    if dialect not in DIALECTS:
        raise ConstraintError(f"unknown regex dialect {dialect!r}; known are {', '.join(DIALECTS)}")
    if not isinstance(pattern, str):
        raise RegexError("a pattern is text (str)", repr(pattern), 0)
    parser = DIALECTS[dialect](pattern, Flags(), limits)
    on, _, off = flags.partition("-")
    parser.switch(on, True, 0)
    parser.switch(off, False, 0)
    return Pattern(parser.parse(), pattern, dialect)
