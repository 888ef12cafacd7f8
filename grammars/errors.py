"""The library's errors: one small tree under :class:`GuidedError`.

Every error says *what* is wrong, *where*, and *what to do next*; ``str(error)`` is one readable
message that a command line can print as it is.
"""

from __future__ import annotations

__all__ = [
    "ConstraintError",
    "DeadEnd",
    "GrammarError",
    "GuidedError",
    "LimitError",
    "ModelError",
    "RegexError",
    "SchemaError",
    "VocabularyError",
]


class GuidedError(Exception):
    """Base class of every error that this library raises on purpose."""


class ConstraintError(GuidedError, ValueError):
    """A constraint cannot be built from what was given (bad input, or beyond what is supported)."""


class RegexError(ConstraintError):
    """A regular expression is malformed or uses unsupported syntax.

    Attributes:
        pattern: the pattern as given.
        position: offset in characters where the trouble starts.
    """

    def __init__(self, message: str, pattern: str, position: int) -> None:
        self.reason, self.pattern, self.position = message, pattern, position
        shown = pattern if len(pattern) <= 200 else pattern[:200] + "..."
        super().__init__(f"{message} at position {position} of the pattern {shown!r}")


class GrammarError(ConstraintError):
    """A grammar text is malformed or unsupported.

    Attributes:
        line, column: 1-based place in the grammar text, or ``None`` where there is none.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None, source: str | None = None) -> None:
        self.reason, self.line, self.column = message, line, column
        text = message
        if line is not None:
            text += f" (line {line}" + (f", column {column}" if column is not None else "") + ")"
            if source is not None:
                lines = source.splitlines()
                if 0 < line <= len(lines):
                    text += "\n    " + lines[line - 1][:200]
                    if column is not None and column <= 200:
                        text += "\n    " + " " * (column - 1) + "^"
        super().__init__(text)


class SchemaError(ConstraintError):
    """A JSON Schema is malformed or uses a keyword (combination) that is not supported.

    Attributes:
        pointer: JSON pointer of the trouble in the schema, ``""`` for its root.
        keyword: the keyword concerned, or ``None``.
    """

    def __init__(self, message: str, pointer: str = "", keyword: str | None = None) -> None:
        self.reason, self.pointer, self.keyword = message, pointer, keyword
        where = f"#{pointer}" if pointer else "# (the schema's root)"
        super().__init__(f"{message} [at {where}]")


class VocabularyError(GuidedError, ValueError):
    """A tokenizer cannot be turned into byte strings, or a language cannot be written with its tokens."""


class LimitError(GuidedError):
    """A size or fuel limit was hit; names the limit so that it can be raised.

    Attributes:
        limit: name of the field of :class:`grammars.limits.Limits`.
    """

    def __init__(self, limit: str, value: int, message: str = "") -> None:
        self.limit, self.value = limit, value
        about = f" {message}" if message else ""
        super().__init__(f"the limit {limit}={value} was reached{about}; raise it with Limits({limit}=...) if this input is meant")


class DeadEnd(GuidedError):
    """No token can continue: the text so far has left the language (or never was in it)."""


class ModelError(GuidedError):
    """A model or tokenizer cannot be loaded or does not fit what is asked of it."""
