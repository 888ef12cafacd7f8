"""The one interface of every search: a target seen as a tree of prefixes, what a search may spend, and what it returns.

A :class:`Node` is a prefix; its children are the tokens that the target allows after it. A :class:`Space` hands out nodes, asks the model
about many of them in one batch, applies masks before anything is scored, counts, and writes the search tree to a trace. A strategy is a
function ``name(target, *, ..., budget=None, trace=None, progress=None) -> SearchResult`` that decides which nodes to expand.

Three kinds of endings (:data:`Ending`):

* ``"budget"``: under an automaton a token is allowed only where the text can still be completed within ``max_tokens``
  (:class:`samplers.budget.Budget`), so no node is a dead end; without one the last of ``max_tokens`` tokens must be an end token.
* ``"exact"``: exactly the texts of the target's language. A node may turn out to have no children.
* ``"cut"``: nothing forces an end; a prefix of ``max_tokens`` tokens is a leaf that is not finished (as ``generate`` of transformers).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch

from grammars.errors import DeadEnd

from ..budget import Budget, Plan
from ..masks import MaskTable, serial
from ..target import Meter, Target

if TYPE_CHECKING:
    from ..models.context import Context
    from ..scores.protocol import Candidate
    from .trace import Trace

__all__ = ["Ending", "Expansion", "Found", "Node", "Progress", "SearchBudget", "SearchResult", "Space"]

Ending = Literal["budget", "exact", "cut"]
_EXAMPLES = 5  # blocked tokens that a trace names


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A prefix of a text; two nodes are equal only if they are the same object.

    Attributes:
        context: the model's handle of the prompt and the prefix.
        state: the automaton's; 2 without one.
        plan: see :class:`samplers.budget.Budget`.
        tokens: generated token ids.
        logprob: their natural log-probability under the model at the target's temperature, nothing renormalised.
        score: what the strategy orders by; larger is better.
        finished: whether the last token ends the text.
        parent: ``None`` for the root.
        number: order of creation, unique within a space: breaks ties.
    """

    context: Context
    state: int
    plan: Plan
    tokens: tuple[int, ...]
    logprob: float
    score: float
    finished: bool
    parent: Node | None
    number: int

    def __len__(self) -> int:
        """Number of generated tokens."""
        return len(self.tokens)

    def path(self) -> list[Node]:
        """The nodes from the root to this one, both included."""
        found, node = [], self
        while True:
            found.append(node)
            if node.parent is None:
                return found[::-1]
            node = node.parent


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """What may follow a node.

    Attributes:
        node: which.
        allowed: ``int64[k]``, token ids, ascending; may be empty (a dead end).
        logprobs: ``float64[k]``, the model's log-probabilities of them; they sum to 1 only where they were renormalised.
        log_kept: natural logarithm of the probability mass that is allowed; ``-inf`` for a dead end.
    """

    node: Node
    allowed: torch.Tensor
    logprobs: torch.Tensor
    log_kept: float

    def best(self, k: int) -> list[tuple[int, float]]:
        """The ``k`` most probable tokens (fewer if there are no more) with their log-probabilities, best first; none of probability 0."""
        values, places = self.logprobs.topk(min(k, len(self.allowed)))
        found = zip(self.allowed[places].tolist(), values.tolist())
        return [(token, value) for token, value in found if value > -math.inf]


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """What a search may spend; ``None``: no bound. It is asked before every batch, so the last batch may go beyond it.

    Attributes:
        forwards: distinct contexts whose next-token distribution is asked for.
        tokens: tokens that are generated: nodes that are made.
        seconds: wall time from the making of the space.

    Raises:
        ValueError: a bound that is not above 0.
    """

    forwards: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("forwards", "tokens", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} of a search budget must be above 0, not {value}; leave it out for no bound")

    def spent(self, space: Space) -> bool:
        """Whether nothing is left of one of them."""
        return (
            (self.forwards is not None and space.forwards >= self.forwards)
            or (self.tokens is not None and space.tokens >= self.tokens)
            or (self.seconds is not None and space.seconds >= self.seconds)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """One text of a result.

    Attributes:
        tokens: generated token ids, the end token included where ``finished``.
        logprob: see :class:`Node`.
        score: what the strategy ranks by.
        finished: whether it is a text; ``False``: it was cut.
        node: where it lies in the tree.
    """

    tokens: tuple[int, ...]
    logprob: float
    score: float
    finished: bool
    node: Node


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is; handed to ``progress`` after every batch.

    Attributes:
        forwards, tokens, seconds: spent, as :class:`SearchBudget` counts.
        expansions: nodes that were expanded.
        depth: tokens of the longest node so far.
        best: score of the best finished text so far, ``None`` before there is one.
    """

    forwards: int
    tokens: int
    seconds: float
    expansions: int
    depth: int
    best: float | None


@dataclass
class SearchResult:
    """What a search found.

    Attributes:
        found: best first; texts before what was cut.
        complete: whether the search ran to its own end; ``False``: the budget stopped it, and ``found`` is the best so far.
        forwards: distinct contexts whose next-token distribution was needed.
        expansions: nodes that were expanded.
        tokens: nodes that were made.
        seconds: wall time.
        method: name in the table of methods.
        trace: the search tree where one was asked for.
        details: further numbers, named by the strategy.
    """

    found: list[Found]
    complete: bool
    forwards: int
    expansions: int
    tokens: int
    seconds: float
    method: str
    trace: Trace | None = None
    details: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> Found:
        """The first one.

        Raises:
            DeadEnd: nothing was found.
        """
        if not self.found:
            raise DeadEnd(f"{self.method}: no text was found; allow more tokens, a larger budget or a wider search")
        return self.found[0]


class Space:
    """A target as a tree: hands out nodes, asks the model, counts.

    Args:
        target: what is searched.
        ending: see this module's docstring.
        budget: what :attr:`spent` looks at.
        renormalise: whether log-probabilities of allowed tokens are made to sum to 1 (the law of local masking).
        trace: receives every node that is made, expanded, pruned or finished, and what the constraint blocked.
        progress: called after every batch.

    Attributes:
        expansions: nodes that were expanded.
        tokens: nodes that were made, the root not counted.
        depth: tokens of the longest node so far.

    Raises:
        ValueError: an unknown ending.
        ConstraintError: with ``"budget"``, not even the shortest text fits into ``max_tokens``.
    """

    def __init__(
        self,
        target: Target,
        *,
        ending: Ending = "budget",
        budget: SearchBudget | None = None,
        renormalise: bool = False,
        trace: Trace | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        if ending not in get_args(Ending):
            raise ValueError(f"ending must be one of {get_args(Ending)}, not {ending!r}")
        self.target, self.ending, self.budget, self.renormalise, self.trace = target, ending, budget, renormalise, trace
        self.meter = Meter(target)
        self.expansions = self.tokens = self.depth = 0
        self._progress, self._best, self._numbers = progress, -math.inf, 0
        self._began = time.perf_counter()
        automaton = target.automaton
        self._closing = Budget(automaton) if automaton is not None and ending == "budget" else None
        if self._closing is not None:
            self._closing.check(target.max_tokens)
        self._serial = -1 if automaton is None else serial(automaton)
        self._table = MaskTable(target.model.width, words=0 if automaton is None else automaton.words)

    # ------------------------------------------------------------ what was spent
    @property
    def forwards(self) -> int:
        """Distinct contexts that the model was asked about."""
        return self.meter.forwards

    @property
    def seconds(self) -> float:
        """Wall time since the space was made."""
        return time.perf_counter() - self._began

    @property
    def spent(self) -> bool:
        """Whether the budget is used up; every loop asks before it goes on."""
        return self.budget is not None and self.budget.spent(self)

    # ------------------------------------------------------------ nodes
    def start(self) -> Node:
        """A root: the empty text."""
        return self._made(Node(self.target.root, self.target.start, None, (), 0.0, 0.0, False, None, self._number()))

    def child(self, node: Node, token: int, logprob: float, score: float) -> Node:
        """``node`` followed by ``token``, which must be allowed there.

        Args:
            logprob: of the token, as :meth:`expand` gives it; it is added to the node's.
            score: of the child.
        """
        left = self.target.max_tokens - len(node.tokens) - 1
        plan: Plan = None
        if self._closing is None:
            state = self.target.advance(node.state, token)
        else:
            state, plan = self._closing.advance(node.state, node.plan, token, left)
        self.tokens += 1
        self.depth = max(self.depth, len(node.tokens) + 1)
        finished = token in self.target.ends
        if finished:
            self._best = max(self._best, score)
        context = node.context.extend(token)
        made = Node(context, state, plan, (*node.tokens, token), node.logprob + logprob, score, finished, node, self._number())
        return self._made(made)

    def is_leaf(self, node: Node) -> bool:
        """Whether nothing may follow: it is finished, or has ``max_tokens`` tokens."""
        return node.finished or len(node.tokens) >= self.target.max_tokens

    def candidate(self, node: Node) -> Candidate:
        """The node as scores see it."""
        from ..scores.protocol import Candidate

        return Candidate(node.context, len(self.target.prompt), node.finished, self.target.ends)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers - 1

    # ------------------------------------------------------------ expansion
    def rows(self, nodes: Sequence[Node]) -> torch.Tensor:
        """The model's log-probabilities after each node, in one batch: ``float64[len(nodes), width]``, ``-inf`` for what is not allowed.

        The tensor is the caller's to change. No node may be a leaf.
        """
        rows, allowed = self._ask(nodes)
        if allowed is not None:
            rows = rows.masked_fill(~allowed, -math.inf)
            if self.renormalise:
                rows = rows - rows.logsumexp(-1, keepdim=True).nan_to_num(neginf=0.0)
        return rows

    def expand(self, nodes: Sequence[Node]) -> list[Expansion]:
        """What may follow each node; as :meth:`rows`, with the allowed tokens listed."""
        rows, allowed = self._ask(nodes)
        found = []
        for i, node in enumerate(nodes):
            tokens = torch.arange(rows.shape[1]) if allowed is None else allowed[i].nonzero()[:, 0]
            logprobs = rows[i, tokens]
            log_kept = 0.0 if allowed is None else min(0.0, float(logprobs.logsumexp(0))) if len(tokens) else -math.inf
            found.append(Expansion(node, tokens, logprobs - log_kept if self.renormalise and log_kept > -math.inf else logprobs, log_kept))
        return found

    def _ask(self, nodes: Sequence[Node]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The model's rows and the masks of nodes."""
        if not nodes:
            return torch.zeros((0, self.target.model.width), dtype=torch.float64), None
        rows, allowed = self.meter.logprobs([node.context for node in nodes]), self.allowed(nodes)
        self.expansions += len(nodes)
        if self.trace is not None:
            self._trace_expanded(nodes, rows, allowed)
        if self._progress is not None:
            self._progress(self._so_far())
        return rows, allowed

    def allowed(self, nodes: Sequence[Node]) -> torch.Tensor | None:
        """``bool[len(nodes), width]``: what may follow each node; ``None`` where that is everything. Asks no model.

        With a ``check`` in the target it is called for every token that the mask allows.
        """
        if self.target.check is not None:
            return torch.stack([self._checked(node) for node in nodes])
        keys = [self._key(node) for node in nodes]
        if all(key is None for key in keys):
            return None
        return self._table.select(keys, lambda i, row: self._fill(nodes[i], row)).allowed()

    def _left(self, node: Node) -> int:
        return self.target.max_tokens - len(node.tokens)

    def _key(self, node: Node) -> Hashable | None:
        """What the mask of a node depends on; ``None``: all is allowed."""
        left = self._left(node)
        last = left == 1 and self.ending != "cut"
        if self.target.automaton is None:
            return "ends" if last else None
        if self._closing is not None:
            return self._closing.key(node.state, left, node.plan)
        return self._serial, node.state, last

    def _fill(self, node: Node, row: np.ndarray) -> None:
        """Writes the mask of a node into ``row``, ``int32[words]`` of zeros."""
        automaton = self.target.automaton
        if self._closing is not None:
            self._closing.fill(node.state, self._left(node), node.plan, row)
        elif self._left(node) == 1 and self.ending != "cut":
            for token in self.target.ends:
                if self.target.advance(node.state, token):
                    row.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))
        elif automaton is not None:
            automaton.fill_mask(node.state, row[: automaton.words])
        else:
            row[:] = -1

    def _checked(self, node: Node) -> torch.Tensor:
        check = self.target.check
        assert check is not None
        words = np.zeros(self._table.words, np.int32)
        self._fill(node, words)
        mask = torch.from_numpy(np.unpackbits(words.view(np.uint8), bitorder="little")[: self.target.model.width].astype(np.bool_))
        for token in mask.nonzero()[:, 0].tolist():
            mask[token] = bool(check(node.tokens, token))
        return mask

    # ------------------------------------------------------------ results
    def close(self, node: Node) -> Node | None:
        """``node`` completed by the shortest way there is, in one batch of the model: how a search that is cut short keeps its promise.

        Returns:
            a finished node whose score is its log-probability, or ``None`` where there is no such way (no automaton, or a ``check``
            forbids it, or it does not fit into ``max_tokens``).
        """
        automaton, target = self.target.automaton, self.target
        if node.finished:
            return node
        if automaton is None or node.state == automaton.DEAD:
            return None
        way = list(automaton.shortest_completion(node.state) if node.plan is None else node.plan)
        way.append(min(target.ends))
        if len(node.tokens) + len(way) > target.max_tokens:
            return None
        if target.check is not None:
            tokens = node.tokens
            for token in way:
                if not target.check(tokens, token):
                    return None
                tokens = (*tokens, token)
        contexts = [node.context.extend(way[:i]) for i in range(len(way))]
        values = self.meter.logprobs(contexts)[range(len(way)), way].tolist()
        for token, value in zip(way, values):
            node = self.child(node, token, value, node.logprob + value)
        return node

    def result(
        self,
        nodes: Iterable[Node],
        method: str,
        *,
        complete: bool,
        rest: Iterable[Node] = (),
        scores: Callable[[Node], float] | None = None,
        details: dict[str, float] | None = None,
    ) -> SearchResult:
        """What a strategy returns: ``nodes`` by score, finished ones first (with ending ``"cut"`` by score alone), then ``rest``.

        Where no node is finished though the target has an automaton, and endings are not ``"cut"``, the best one is completed by
        :meth:`close`: a search that the budget stopped early gives a valid text all the same.

        Args:
            rest: nodes that the search was not done with, listed behind the others.
            scores: of the texts; ``None``: the nodes' own.
        """
        value = scores or (lambda node: node.score)
        aside = self.ending != "cut"
        listed = sorted(nodes, key=lambda node: (aside and not node.finished, -value(node), node.number))
        listed += sorted(rest, key=lambda node: (not node.finished, -value(node), node.number))
        if aside and listed and not listed[0].finished:
            listed[0] = self.close(listed[0]) or listed[0]
        found = [Found(node.tokens, node.logprob, value(node), node.finished, node) for node in listed]
        return SearchResult(
            found, complete, self.forwards, self.expansions, self.tokens, self.seconds, method, self.trace, dict(details or {})
        )

    def _so_far(self) -> Progress:
        best = None if self._best == -math.inf else self._best
        return Progress(self.forwards, self.tokens, self.seconds, self.expansions, self.depth, best)

    # ------------------------------------------------------------ the trace
    def text(self, token: int) -> str | None:
        """What a token writes, where the target has an automaton (and so a vocabulary); bytes that are no character are escaped."""
        if self.target.automaton is None:
            return None
        tokens = self.target.automaton.vocabulary.tokens
        return tokens[token].decode("utf-8", "backslashreplace") if token < len(tokens) else ""

    def prune(self, nodes: Iterable[Node], note: str = "") -> None:
        """Notes in the trace that the search gave these nodes up."""
        if self.trace is not None:
            for node in nodes:
                self._event(node, "pruned", note)

    def _made(self, node: Node) -> Node:
        if self.trace is not None:
            self._event(node, "finished" if node.finished else "created")
        return node

    def _event(self, node: Node, event: Literal["expanded", "pruned", "finished", "created"], note: str = "") -> None:
        assert self.trace is not None
        token = node.tokens[-1] if node.tokens else None
        text = None if token is None else self.text(token)
        parent = None if node.parent is None else node.parent.number
        self.trace.add(node.number, parent, token, text, node.logprob, node.score, event, note)

    def _trace_expanded(self, nodes: Sequence[Node], rows: torch.Tensor, allowed: torch.Tensor | None) -> None:
        """Notes expansions, and of each the most probable tokens that the constraint blocked."""
        assert self.trace is not None
        for i, node in enumerate(nodes):
            self._event(node, "expanded")
            if allowed is not None and not bool(allowed[i].all()):
                blocked = ~allowed[i]
                count = int(blocked.sum())
                likely = rows[i].masked_fill(allowed[i], -math.inf).topk(min(_EXAMPLES, count)).indices.tolist()
                name = self.trace.text or "token {}".format
                self.trace.blocked(node.number, count, [self.text(token) or name(token) for token in likely])
