"""Contexts: token sequences as values that share their prefixes.

A context is what a model is asked about: a prompt and the text so far. It belongs to no model (two models over one vocabulary may be
asked about the same one), holds no tensors and costs no forward. Extending it makes a new one that points to the old one, so a
hundred particles with a common prompt store the prompt once, and a step of a particle costs the same at any length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["Context"]


class Context:
    """An immutable sequence of token ids; equal and of one hash where the tokens are equal, however it was put together.

    ``Context(tokens)`` begins one; :meth:`extend` goes on from it.

    Attributes:
        parent: the context that this one was extended from; ``None`` for one that was made from its tokens.
        tail: the tokens that it adds to its parent.
        length: number of tokens, those of its parents included.
    """

    __slots__ = ("_hash", "length", "parent", "tail")

    def __init__(self, tokens: Sequence[int] = (), parent: Context | None = None) -> None:
        self.parent, self.tail = parent, tuple(tokens)
        self.length: int = (0 if parent is None else parent.length) + len(self.tail)
        # token by token, so that the hash does not depend on how the tokens were split into extensions
        found = 0 if parent is None else parent._hash
        for token in self.tail:
            found = hash((found, token))
        self._hash: int = found

    def extend(self, tokens: int | Sequence[int]) -> Context:
        """This context followed by a token, or by several. Nothing is copied."""
        tail = (tokens,) if isinstance(tokens, int) else tuple(tokens)
        return Context(tail, self) if tail else self

    @property
    def tokens(self) -> tuple[int, ...]:
        """All token ids, from the first one on; takes time in proportion to the length."""
        return self.tokens_from(0)

    def tokens_from(self, start: int) -> tuple[int, ...]:
        """The token ids from position ``start`` on; takes time in proportion to their number."""
        parts: list[tuple[int, ...]] = []
        node: Context | None = self
        while node is not None and node.length > start:
            parts.append(node.tail)
            node = node.parent
        joined = [token for part in reversed(parts) for token in part]
        return tuple(joined[max(start, 0) - (self.length - len(joined)) :])

    def ancestors(self) -> Iterator[Context]:
        """This context, its parent, the parent's parent, and so on."""
        node: Context | None = self
        while node is not None:
            yield node
            node = node.parent

    def __len__(self) -> int:
        return self.length

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Context):
            return NotImplemented
        if self._hash != other._hash or self.length != other.length:
            return False
        if self.parent is not None and self.parent is other.parent:
            return self.tail == other.tail
        return self.tokens == other.tokens

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.tokens_from(max(0, self.length - 8))))
        return f"<Context of {self.length} tokens: {'... ' if self.length > 8 else ''}{shown}>"
