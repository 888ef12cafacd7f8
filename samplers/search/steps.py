"""What a *step* is: where a text is cut into the pieces that step-wise searches sample, score and choose.

A :class:`StepRule` looks at what was generated and says whether a step ends with the last token. Texts also end a step where they end, and
where ``max_tokens`` is reached; no rule needs to see to that.

Rules that read text take ``texts``: the byte strings of the tokens, or a vocabulary; ``None``: the vocabulary of the automaton.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from grammars.errors import ConstraintError

from ..target import require_positive

if TYPE_CHECKING:
    from .frontier import Node, Space

__all__ = ["Delimiter", "Field", "Sentence", "StepRule", "Tokens", "When", "written"]


class StepRule(Protocol):
    """Where steps end."""

    def ends(self, space: Space, node: Node, start: int) -> bool:
        """Whether the step that begins with token ``start`` of ``node`` (an index into ``node.tokens``) ends with its last token."""
        ...


def written(space: Space, tokens: Sequence[int], texts: Any = None) -> bytes:
    """The bytes that generated tokens write; end tokens write nothing.

    Args:
        texts: a vocabulary or byte strings by token id; ``None``: the vocabulary of the target's automaton.

    Raises:
        ConstraintError: there is neither.
    """
    if texts is None:
        if space.target.automaton is None:
            raise ConstraintError("steps that are told by their text need `texts` (a vocabulary) where the target has no constraint")
        texts = space.target.automaton.vocabulary
    table: Sequence[bytes] = getattr(texts, "tokens", texts)
    return b"".join(table[token] for token in tokens if token < len(table) and token not in space.target.ends)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Steps of ``count`` tokens.

    Raises:
        ValueError: ``count`` below 1.
    """

    count: int

    def __post_init__(self) -> None:
        require_positive(count=self.count)

    def ends(self, space: Space, node: Node, start: int) -> bool:
        """See :class:`StepRule`."""
        return len(node.tokens) - start >= self.count


@dataclass(frozen=True, slots=True)
class Delimiter:
    """A step ends with the token that completes a delimiter, a line's end by default.

    Delimiters before anything else do not count: ``"\\n\\n"`` is one end.

    Attributes:
        delimiter: bytes, not empty.
        texts: see this module's docstring.
    """

    delimiter: bytes = b"\n"
    texts: Any = None

    def __post_init__(self) -> None:
        if not self.delimiter:
            raise ValueError("a delimiter must not be empty; Tokens(n) cuts by length")

    def ends(self, space: Space, node: Node, start: int) -> bool:
        """See :class:`StepRule`."""
        data, before = written(space, node.tokens[start:], self.texts), b""
        while data != before:
            before, data = data, data.removeprefix(self.delimiter).lstrip()
        return self.delimiter in data


_SENTENCE = re.compile(rb"(?:(?<![0-9])[.]|[!?]|\xe2\x80\xa6|\xe3\x80\x82)[\"')\]]*(?:\s|\Z)|\n")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A step ends with a sentence: a full stop (not one behind a digit), ``!``, ``?``, an ellipsis, or a line's end.

    The mark ends the step though the next token might go on with it (``...``); there is no dictionary of abbreviations.

    Attributes:
        texts: see this module's docstring.
    """

    texts: Any = None

    def ends(self, space: Space, node: Node, start: int) -> bool:
        """See :class:`StepRule`."""
        data = written(space, node.tokens[start:], self.texts).lstrip()
        return bool(data) and _SENTENCE.search(data) is not None


@dataclass(frozen=True, slots=True)
class Field:
    """A step ends with a member or element of JSON: behind a comma or a closing bracket that is not inside of a string.

    Attributes:
        texts: see this module's docstring.
    """

    texts: Any = None

    def ends(self, space: Space, node: Node, start: int) -> bool:
        """See :class:`StepRule`."""
        before = written(space, node.tokens[:start], self.texts)
        quoted = escaped = False
        for place, byte in enumerate(before + written(space, node.tokens[start:], self.texts)):
            if quoted:
                quoted = escaped or byte != ord('"')
                escaped = byte == ord("\\") and not escaped
            elif byte == ord('"'):
                quoted = True
            elif byte in b",}]" and place >= len(before):
                return True
        return False


@dataclass(frozen=True, slots=True)
class When:
    """A step ends where ``predicate(tokens, state)`` says so: of the generated tokens and the automaton's state after them.

    ``When(lambda tokens, state: automaton.accepts(state))``, say, cuts wherever the text could end.
    """

    predicate: Callable[[tuple[int, ...], int], bool]

    def ends(self, space: Space, node: Node, start: int) -> bool:
        """See :class:`StepRule`."""
        return bool(self.predicate(node.tokens, node.state))
