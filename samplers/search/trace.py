"""The record of a search: every prefix that was made, what became of it, and what the constraint blocked.

A :class:`Trace` is handed to a strategy (``trace=Trace()``) and filled by :class:`~.frontier.Space`. It is written as JSON, or as one HTML
page (:mod:`.trace_page`) that needs nothing but a browser::

    trace = Trace()
    result = beam_search(target, beams=4, trace=trace)
    trace.conclude(result)
    trace.to_html("search.html")
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from .frontier import SearchResult

__all__ = ["Event", "Trace", "TraceNode"]

Event = Literal["created", "expanded", "pruned", "finished", "blocked"]
Status = Literal["open", "expanded", "pruned", "finished"]
_STATUS: dict[str, Status] = {"created": "open", "expanded": "expanded", "pruned": "pruned", "finished": "finished"}


@dataclass(slots=True)
class TraceNode:
    """A prefix, as the trace knows it.

    Attributes:
        number: the node's.
        parent: number of the prefix that it extends; ``None`` for a root.
        token: its last token; ``None`` for a root.
        text: what the token writes, where that is known.
        logprob: of the whole prefix under the model.
        score: what the strategy ordered by when it last said something of the node.
        status: ``"open"`` (made and not looked at again), ``"expanded"``, ``"pruned"`` (given up, maybe after it was expanded), or
            ``"finished"``.
        note: why it was pruned, say; several are joined by ``"; "``.
        expanded: its place in the order of expansions, from 0; ``None``: it was never expanded.
        blocked: how many tokens the constraint forbade after it; ``None``: nobody asked.
        examples: the most probable ones of these, as text.
    """

    number: int
    parent: int | None
    token: int | None
    text: str | None
    logprob: float
    score: float
    status: Status = "open"
    note: str = ""
    expanded: int | None = None
    blocked: int | None = None
    examples: list[str] = field(default_factory=list)


class Trace:
    """A search tree that is written down while it grows.

    Args:
        text: what a token writes; asked where whoever adds a node does not say.
        limit: nodes that are kept; of later ones only the number is, so that a long search does not fill the memory.

    Attributes:
        nodes: by number, in the order of their making.
        left_out: nodes beyond the limit.
        method: name of the strategy, once it is known.
        found: numbers of the nodes that the search returned, best first.
        statistics: numbers about the search, by name.

    Raises:
        ValueError: a limit below 1.
    """

    def __init__(self, *, text: Callable[[int], str] | None = None, limit: int = 100_000) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self.text, self.limit = text, limit
        self.nodes: dict[int, TraceNode] = {}
        self.left_out = 0
        self.method = ""
        self.found: list[int] = []
        self.statistics: dict[str, float | str] = {}
        self._expansions = 0

    def add(
        self,
        node_number: int,
        parent_number: int | None,
        token: int | None,
        text: str | None,
        logprob: float,
        score: float,
        event: Event,
        note: str = "",
    ) -> None:
        """Something happened to a node; the first event makes it.

        Args:
            node_number, parent_number: unique within the search; the parent comes first.
            token, text, logprob, score: see :class:`TraceNode`.
            event: what happened. ``"blocked"`` only adds a note: the constraint left the node nothing, say.

        Raises:
            ValueError: an unknown event.
        """
        if event not in get_args(Event):
            raise ValueError(f"event must be one of {get_args(Event)}, not {event!r}")
        node = self.nodes.get(node_number)
        if node is None:
            if len(self.nodes) >= self.limit:
                self.left_out += event in ("created", "finished")
                return
            if text is None and token is not None and self.text is not None:
                text = self.text(token)
            node = self.nodes[node_number] = TraceNode(node_number, parent_number, token, text, logprob, score)
        node.logprob, node.score = logprob, score
        if note:
            node.note = f"{node.note}; {note}" if node.note else note
        if event == "expanded":
            if node.expanded is None:
                node.expanded = self._expansions
            self._expansions += 1
        if event != "blocked" and node.status != "finished":
            node.status = _STATUS[event]

    def blocked(self, node_number: int, count: int, examples: Sequence[str] = ()) -> None:
        """The constraint forbade ``count`` tokens after a node; ``examples`` are the most probable ones."""
        node = self.nodes.get(node_number)
        if node is not None:
            node.blocked, node.examples = count, list(examples)

    def conclude(self, result: SearchResult) -> None:
        """Notes what the search returned, and its numbers."""
        self.method = result.method
        self.found = [found.node.number for found in result.found]
        self.statistics = {
            "complete": "yes" if result.complete else "no: the budget ended it",
            "forwards": result.forwards,
            "expansions": result.expansions,
            "tokens": result.tokens,
            "seconds": round(result.seconds, 3),
            **result.details,
        }

    # ------------------------------------------------------------ what it is written as
    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; numbers that are not finite become ``None``."""
        return {
            "format": "guided.search.trace/1",
            "method": self.method,
            "statistics": {name: _plain(value) for name, value in self.statistics.items()},
            "found": list(self.found),
            "left_out": self.left_out,
            "nodes": [
                {
                    "number": node.number,
                    "parent": node.parent,
                    "token": node.token,
                    "text": node.text,
                    "logprob": _plain(node.logprob),
                    "score": _plain(node.score),
                    "status": node.status,
                    "note": node.note,
                    "expanded": node.expanded,
                    "blocked": node.blocked,
                    "examples": list(node.examples),
                }
                for node in self.nodes.values()
            ],
        }

    def to_json(self, path: str | Path) -> None:
        """Writes :meth:`as_dict` to a file."""
        Path(path).write_text(json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False), encoding="utf-8")

    def to_html(self, path: str | Path) -> None:
        """Writes one self-contained page: the tree, what was found, and what the constraint blocked."""
        from .trace_page import page

        Path(path).write_text(page(self), encoding="utf-8")

    def save(self, path: str | Path) -> None:
        """Writes HTML where the name ends in ``.html`` or ``.htm``, JSON otherwise."""
        (self.to_html if Path(path).suffix.lower() in (".html", ".htm") else self.to_json)(path)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
