"""Which positions of a key/value cache hold which tokens: a trie of cached tokens over a pool of slots. No tensors here.

Every cached token is a node of one trie, so a prefix that any number of contexts share is there once; forking costs nothing and there is
nothing to copy. A node lives in a *slot*, an index into the tensors of :mod:`.pool`. What a forward needs is kept (nearly) side by side:
it reads a *window* of slots as it lies in memory, and is told by a mask which of them each of its tokens may see. In a generation the
window grows at its end; only when less than half of it is still of use, or a cold prefix is taken up again, are slots swapped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .context import Context

__all__ = ["Moves", "PrefixTree", "Window"]

ROOT = -1
_SLACK = 256  # slots that a window may waste whatever its size
_REMEMBERED = 1024  # contexts and paths whose node is remembered; others are found by walking the trie

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moves:
    """Slots whose contents change places: what is in ``source[i]`` goes to ``target[i]``; with ``swap`` the other way as well."""

    source: Ints
    target: Ints
    swap: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Slots ``low`` to ``high`` (exclusive): those that a forward reads, with what has to be moved before, in this order."""

    low: int
    high: int
    moves: list[Moves]


class PrefixTree:
    """The trie, its slots, and who was used when.

    Nodes are small integers; the empty prefix is ``ROOT``. A node is *placed* when it has a slot.
    """

    def __init__(self) -> None:
        self._child: dict[tuple[int, int], int] = {}
        self._free: list[int] = []
        self._parent = np.zeros(0, np.int64)
        self._token = np.zeros(0, np.int64)
        self._depth = np.zeros(0, np.int64)
        self._slot = np.zeros(0, np.int64)
        self._used = np.zeros(0, np.int64)  # 0 for a node that does not exist
        self._serial = np.zeros(0, np.int64)  # how often the number was given out
        self._occupant = np.zeros(0, np.int64)  # of a slot; ROOT for none
        self._high = 0  # slots from here on have never been occupied since the last compaction
        self._clock = 1
        self._known: OrderedDict[Context, tuple[int, int]] = OrderedDict()
        self._paths: OrderedDict[int, Ints] = OrderedDict()

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._parent) - len(self._free)

    @property
    def slots(self) -> int:
        """Number of slots that must exist."""
        return self._high

    # ------------------------------------------------------------ nodes
    def find(self, context: Context) -> tuple[int, int]:
        """The node of the longest prefix of ``context`` that is in the trie, and that prefix's length."""
        node, length = ROOT, 0
        for ancestor in context.ancestors():
            known = self._known.get(ancestor)
            if known is not None and self._serial[known[0]] == known[1]:
                node, length = known[0], ancestor.length
                break
        for token in context.tokens_from(length):
            child = self._child.get((node, token))
            if child is None:
                break
            node, length = child, length + 1
        if length == context.length:
            self.remember(context, node)
        return node, length

    def remember(self, context: Context, node: int) -> None:
        """Makes the next :meth:`find` of the context, or of an extension of it, quick."""
        if node != ROOT:
            self._known[context] = (node, int(self._serial[node]))
            self._known.move_to_end(context)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def add(self, parent: int, token: int) -> int:
        """A new node, without a slot."""
        if not self._free:
            self._grow()
        node = self._free.pop()
        self._child[parent, token] = node
        self._parent[node], self._token[node], self._slot[node] = parent, token, -1
        self._depth[node] = 0 if parent == ROOT else self._depth[parent] + 1
        self._used[node] = self._clock
        return node

    def _grow(self) -> None:
        old = len(self._parent)
        new = max(1024, 2 * old)
        for name in ("_parent", "_token", "_depth", "_slot", "_used", "_serial"):
            setattr(self, name, np.resize(getattr(self, name), new) if old else np.zeros(new, np.int64))
        self._used[old:] = self._serial[old:] = 0
        self._free.extend(range(new - 1, old - 1, -1))

    def remove(self, nodes: Sequence[int]) -> None:
        """Forgets nodes; whoever descends from one must be among them too."""
        for node in nodes:
            del self._child[int(self._parent[node]), int(self._token[node])]
            slot = self._slot[node]
            if slot >= 0:
                self._occupant[slot] = ROOT
            self._used[node] = 0
            self._serial[node] += 1
            self._paths.pop(node, None)
            self._free.append(node)
        while self._high and self._occupant[self._high - 1] == ROOT:
            self._high -= 1

    def path(self, node: int) -> Ints:
        """The nodes from the first token to ``node``, which is included."""
        if node == ROOT:
            return np.zeros(0, np.int64)
        found = self._paths.get(node)
        if found is None:
            trail, here = [node], int(self._parent[node])
            while here != ROOT and here not in self._paths:
                trail.append(here)
                here = int(self._parent[here])
            above = self._paths[here] if here != ROOT else np.zeros(0, np.int64)
            found = self._paths[node] = np.concatenate([above, np.array(trail[::-1], np.int64)])
            if len(self._paths) > _REMEMBERED:
                self._paths.popitem(last=False)
        self._paths.move_to_end(node)
        return found

    def parents(self, nodes: Sequence[int]) -> Ints:
        return self._parent[np.asarray(nodes, np.int64)]

    def tokens(self, nodes: Sequence[int]) -> Ints:
        return self._token[np.asarray(nodes, np.int64)]

    def depths(self, nodes: Sequence[int] | Ints) -> Ints:
        """Positions: 0 for the first token."""
        return self._depth[np.asarray(nodes, np.int64)]

    def places(self, nodes: Sequence[int] | Ints) -> Ints:
        """Slots; -1 for a node that has none."""
        return self._slot[np.asarray(nodes, np.int64)]

    def occupants(self, window: Window) -> Ints:
        """The node in each slot of the window; ``ROOT`` for none."""
        return self._occupant[window.low : window.high]

    # ------------------------------------------------------------ what to forget
    def tick(self) -> None:
        """Begins a call: what is touched from now on counts as used in it."""
        self._clock += 1

    def touch(self, node: int) -> None:
        """Marks a node and everything that leads to it as used now."""
        if node != ROOT:
            self._used[self.path(node)] = self._clock

    @property
    def touched(self) -> int:
        """Number of nodes that were used in this call."""
        return int((self._used == self._clock).sum())

    def evict(self, count: int, *, spare_touched: bool) -> list[int]:
        """Forgets the ``count`` nodes that were not used for longest (fewer where the others are in use); which those were.

        A node is used whenever a descendant is, so that sorting by use, deepest first, never leaves a node without its parent.
        """
        candidates = np.flatnonzero((self._used > 0) & (self._used < self._clock) if spare_touched else self._used > 0)
        order = np.lexsort((-self._depth[candidates], self._used[candidates]))
        chosen: list[int] = candidates[order[:count]].tolist()
        self.remove(chosen)
        return chosen

    # ------------------------------------------------------------ where to keep it
    def place(self, leaves: Sequence[int], new: Sequence[int], room: int) -> Window:
        """Gives the nodes ``new`` slots, in one window with everything on the paths to ``leaves``.

        Args:
            leaves: nodes whose paths, as far as they are placed, must be in the window.
            new: nodes without a slot; they get the window's last slots, in order.
            room: number of slots that are there anyway; more are asked for (:attr:`slots`) only if that many are occupied.
        """
        moves: list[Moves] = []
        if self._high + len(new) > room and 4 * len(self) < 3 * room:
            moves += self._compact()
        mark = np.zeros(len(self._parent), bool)
        for leaf in leaves:
            mark[self.path(leaf)] = True
        mark[np.asarray(new, np.int64)] = False
        old = np.flatnonzero(mark)
        slots = self._slot[old]
        low, high = (int(slots.min()), int(slots.max()) + 1) if len(old) else (self._high, self._high)
        if high - low > 2 * len(old) + _SLACK:
            moves += self._gather(slots)
            low, high = 0, len(old)
        moves += self._append(high, new)
        return Window(low, high + len(new), moves)

    def _gather(self, slots: Ints) -> list[Moves]:
        """Swaps what is in ``slots`` to the front of the pool."""
        count = len(slots)
        inside = np.zeros(count, bool)
        inside[slots[slots < count]] = True
        source, target = np.sort(slots[slots >= count]), np.flatnonzero(~inside)
        self._carry(source, target, swap=True)
        return [Moves(source, target, True)]

    def _append(self, at: int, new: Sequence[int]) -> list[Moves]:
        """Places ``new`` in the slots from ``at`` on; whoever is there moves to a hole further on, or to the end."""
        end = at + len(new)
        self._room(end)
        moves = []
        source = at + np.flatnonzero(self._occupant[at : min(end, self._high)] != ROOT)
        if len(source):
            holes = end + np.flatnonzero(self._occupant[end : self._high] == ROOT)[: len(source)]
            start = max(end, self._high)
            target = np.concatenate([holes, np.arange(start, start + len(source) - len(holes))])
            self._room(int(target.max()) + 1)
            self._carry(source, target, swap=False)
            moves.append(Moves(source, target, False))
        self._occupant[at:end] = new
        self._slot[np.asarray(new, np.int64)] = np.arange(at, end)
        self._high = max(self._high, end)
        return moves

    def _compact(self) -> list[Moves]:
        """Moves the last occupied slots into the holes, so that there are none."""
        count = int((self._occupant[: self._high] != ROOT).sum())
        source = count + np.flatnonzero(self._occupant[count : self._high] != ROOT)
        target = np.flatnonzero(self._occupant[:count] == ROOT)
        self._carry(source, target, swap=False)
        self._high = count
        return [Moves(source, target, False)] if len(source) else []

    def _carry(self, source: Ints, target: Ints, *, swap: bool) -> None:
        going, coming = self._occupant[source], self._occupant[target]
        self._occupant[target] = going
        self._occupant[source] = coming if swap else ROOT
        self._slot[going] = target
        if swap:
            strangers = coming != ROOT
            self._slot[coming[strangers]] = source[strangers]
        if len(target):
            self._high = max(self._high, int(target.max()) + 1)

    def _room(self, slots: int) -> None:
        if slots > len(self._occupant):
            grown = np.full(max(1024, slots, 2 * len(self._occupant)), ROOT, np.int64)
            grown[: len(self._occupant)] = self._occupant
            self._occupant = grown
