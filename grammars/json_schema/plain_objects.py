"""Objects without conditions on how their members go together: by far the most, and all of a state is how far their order has got.

The texts are those of :class:`~.objects.ObjectRule`, whose states say more and take longer to make.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from ..rules import Rule, State, Symbol, Terminal
from .effort import bounded
from .normal import NOTHING, Goal

if TYPE_CHECKING:
    from .objects import ObjectPlan
    from .writer import Writer

__all__ = ["PlainObjectRule"]

Edge = tuple[Terminal, Hashable]


class PlainObjectRule(Rule):
    """The texts of the objects of one plain record, at one depth; see :attr:`~.objects.ObjectPlan.is_plain`.

    States: ``start``; ``("members", p, first)``, where the names of the order from ``p`` on may come; ``("key", p)``, the same behind a
    comma; ``("value", i)`` of the i-th name; ``("cell", c, p)``, a value whose key is of the c-th cell; ``end``.
    """

    def __init__(self, writer: Writer, plan: ObjectPlan, depth: int) -> None:
        self.writer, self.plan, self.depth = writer, plan, depth
        self.name = "object"
        self._edges: tuple[dict[int, Edge | None], dict[int, Edge | None]] = ({}, {})
        required, order = plan.record.required, plan.order
        self._stops = [len(order)] * (len(order) + 1)  # by position: where the names that may come next end
        for p in range(len(order) - 1, -1, -1):
            self._stops[p] = p + 1 if order[p] in required else self._stops[p + 1]
        self._cells: list[tuple[int, Goal]] | None = None

    @property
    def start(self) -> Hashable:
        return "start"

    @bounded
    def expand(self, key: Hashable) -> State:
        layout = self.writer.layout
        if key == "start":
            return State([(layout.opening("{"), ("members", 0, True))], ahead=True)
        if key == "end":
            return State([], final=True)
        assert isinstance(key, tuple)
        kind, p = key[0], key[-1]
        if kind == "value":
            goal, to = self.plan.goal(self.plan.order[p]), ("members", p + 1, False)
        elif kind == "cell":
            goal, to = self._others()[key[1]][1], ("members", p, False)
        else:
            return self._between(kind, key[1], kind == "members" and key[2])
        return State([(symbol, to) for symbol in self.writer.symbols(goal, self.depth + 1)], skip=layout.skip, ahead=True)

    def _between(self, kind: str, p: int, first: bool) -> State:
        """The state between two members, or behind the comma there."""
        layout = self.writer.layout
        edges: list[tuple[Symbol, Hashable]]
        if kind == "key":
            edges = [*self._keys(p, False)]
        elif first or not layout.free:
            edges = [*self._keys(p, first)]
        else:
            edges = [(layout.comma, ("key", p))] if self._goes_on(p) else []
        if kind == "members" and p > self.plan.last:
            edges.append((layout.closing("}", self.depth, first), "end"))
        return State(edges, skip=layout.skip, ahead=layout.free and not first)

    def _keys(self, p: int, first: bool) -> list[Edge]:
        """The keys that may come next."""
        known = self._edges[first]
        found = []
        for i in range(p, self._stops[p]):
            edge = known[i] if i in known else self._named(i, first)
            if edge is not None:
                found.append(edge)
        for c, (expr, _) in enumerate(self._others()):
            found.append((self.writer.key(expr, self.depth, first, None), ("cell", c, p)))
        return found

    def _named(self, i: int, first: bool) -> Edge | None:
        """The edge of the i-th name; ``None`` where its value can be nothing."""
        name, found = self.plan.order[i], None
        goal = self.plan.goal(name)
        if goal != NOTHING and self.plan.meaning.alive(goal):
            found = self.writer.key(self.plan.scalars.name(name), self.depth, first, name), ("value", i)
        self._edges[first][i] = found
        return found

    def _others(self) -> list[tuple[int, Goal]]:
        """Expressions of the keys that are no names of the order, and what their values must satisfy."""
        if self._cells is None:
            cells = [cell for cell in self.plan.cells if cell.expr != self.plan.pool.EMPTY and self.plan.meaning.alive(cell.goal)]
            self._cells = [(cell.expr, cell.goal) for cell in cells]
        return self._cells

    def _goes_on(self, p: int) -> bool:
        """Whether another member may come."""
        return bool(self._others()) or any((self._edges[False].get(i) or self._named(i, False)) for i in range(p, self._stops[p]))

    @bounded
    def shortest(self, key: Hashable, state: State) -> Sequence[tuple[Symbol, Hashable]]:
        if not isinstance(key, tuple) or key[0] in ("value", "cell"):
            return state.edges
        p = key[1]
        if p > self.plan.last:
            return state.edges[-1:] if key[0] == "members" else state.edges  # the closing brace
        if key[0] == "members" and not key[2] and self.writer.layout.free:
            return state.edges
        return [edge for edge in state.edges if edge[1] == ("value", self._stops[p] - 1)]
