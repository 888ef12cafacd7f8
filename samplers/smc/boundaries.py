"""Where a block ends: particles are weighed, and may be resampled, at the end of blocks.

A block of one token is the finest. Longer ones ask a critic less often and compare particles at places where they can be compared: at
the end of words, lines or steps (Loula et al. 2025, arXiv:2504.13139; Markovic-Voronov et al. 2026, arXiv:2604.16453).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grammars.errors import ConstraintError

if TYPE_CHECKING:
    from grammars.vocabulary import Vocabulary

__all__ = ["Block", "Boundary", "boundary"]

Boundary = Callable[[tuple[int, ...]], bool]
"""Whether a block ends with the last of these tokens (generated ones, never empty). Must depend on the tokens only."""

Block = str | int | Boundary
_NAMES = ("token", "word", "line", "step")
_BLANKS = b" \t\r\n"


def boundary(block: Block, vocabulary: Vocabulary | None = None) -> Boundary:
    """The boundary that ``block`` stands for.

    Args:
        block: ``"token"``; ``"word"``: a token with a blank in it; ``"line"``: a token with a line feed; ``"step"``: a token that completes
            a blank line; a number of tokens; or a function.
        vocabulary: what the tokens mean; needed by words, lines and steps.

    Raises:
        ValueError: it stands for none.
        ConstraintError: there is no vocabulary where one is needed.
    """
    if callable(block):
        return block
    if isinstance(block, int) and not isinstance(block, bool) and block >= 1:
        return lambda tokens: len(tokens) % block == 0
    if block not in _NAMES:
        known = ", ".join(map(repr, _NAMES))
        raise ValueError(f"a block is {known}, a number of tokens from 1 on, or a function of the tokens; not {block!r}")
    if block == "token":
        return lambda tokens: True
    if vocabulary is None:
        raise ConstraintError(f"blocks of a {block} need to know what tokens mean: give a constraint, a vocabulary, or blocks of tokens")

    def written(token: int) -> bytes:
        return vocabulary.tokens[token] if vocabulary.is_text(token) else b""

    if block == "word":
        return lambda tokens: any(byte in _BLANKS for byte in written(tokens[-1]))
    if block == "line":
        return lambda tokens: b"\n" in written(tokens[-1])
    return lambda tokens: b"\n\n" in (written(tokens[-2])[-1:] if len(tokens) > 1 else b"") + written(tokens[-1])
