"""Automata over characters, written by hand, as expressions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .charset import CharSet

if TYPE_CHECKING:
    from .expr import Pool

__all__ = ["CharAutomaton", "charwise"]


class CharAutomaton(Protocol):
    """States are hashable; from every state that can be reached an accepting one can be reached."""

    def accepts(self, state: Hashable) -> bool:
        """Whether the text may end."""
        ...

    def moves(self, state: Hashable) -> Iterable[tuple[CharSet, Hashable]]:
        """Disjoint sets of characters and the state after each."""
        ...


@dataclass(frozen=True)
class _At:
    automaton: CharAutomaton
    state: Hashable
    pool: Pool = field(compare=False, repr=False)
    encoder: Callable[[Pool, CharSet], int]

    @property
    def nullable(self) -> bool:
        return self.automaton.accepts(self.state)

    def transitions(self) -> list[tuple[int, int]]:
        ways = [
            self.pool.cat(self.encoder(self.pool, chars), charwise(self.pool, self.automaton, to, self.encoder))
            for chars, to in self.automaton.moves(self.state)
        ]
        return list(self.pool.transitions(self.pool.alt(*ways)))


def charwise(pool: Pool, automaton: CharAutomaton, state: Hashable, encoder: Callable[[Pool, CharSet], int]) -> int:
    """The texts that ``automaton`` accepts from ``state`` on, each character written by ``encoder``. States are made by need.

    The characters of every move must be ones that can be written.
    """
    return pool.leaf(_At(automaton, state, pool, encoder))
