"""The suffix automaton of a text: for every string that occurs in it a state, in amortised constant time a token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["SuffixAutomaton"]


class SuffixAutomaton:
    """Blumer et al. 1985. State 0 is the empty string; a *cursor* is a state and the length of the string that was read to come to it.

    Documents are put behind one another with -1 between them, which no text can contain.

    Args:
        documents: token ids of each.

    Attributes:
        tokens: the text.
    """

    def __init__(self, documents: Iterable[Sequence[int]] = ()) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._end = [-1]  # position of the last token of the first occurrence
        self._last = 0
        for i, document in enumerate(documents):
            if i:
                self.append(-1)
            for token in document:
                self.append(int(token))

    def __len__(self) -> int:
        """Number of states."""
        return len(self._link)

    def append(self, token: int) -> None:
        """The text's next token."""
        here = self._state({}, -1, self._length[self._last] + 1, len(self.tokens))
        self.tokens.append(token)
        at = self._last
        self._last = here
        while at >= 0 and token not in self._next[at]:
            self._next[at][token] = here
            at = self._link[at]
        if at < 0:
            self._link[here] = 0
            return
        to = self._next[at][token]
        if self._length[to] == self._length[at] + 1:
            self._link[here] = to
            return
        copy = self._state(dict(self._next[to]), self._link[to], self._length[at] + 1, self._end[to])
        while at >= 0 and self._next[at].get(token) == to:
            self._next[at][token] = copy
            at = self._link[at]
        self._link[to] = self._link[here] = copy

    def _state(self, following: dict[int, int], link: int, length: int, end: int) -> int:
        self._next.append(following)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        return len(self._link) - 1

    def step(self, state: int, matched: int, token: int) -> tuple[int, int]:
        """Moves a cursor by a token: to the longest suffix of what was read that occurs in the text."""
        # states that were split since the cursor came to one: the string that it stands for may belong to the part split off
        while state and matched <= self._length[self._link[state]]:
            state = self._link[state]
        while state and token not in self._next[state]:
            state = self._link[state]
            matched = self._length[state]
        to = self._next[state].get(token)
        return (0, 0) if to is None else (to, matched + 1)

    def behind(self, state: int, matched: int) -> int:
        """The position behind the first occurrence of a cursor's string."""
        while state and matched <= self._length[self._link[state]]:
            state = self._link[state]
        return self._end[state] + 1
