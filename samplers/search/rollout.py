"""Sampled and greedy continuations of nodes: all that are alive take their next token in one batch of the model.

Tokens are drawn from the model restricted to what is allowed (the law of local masking). Every continuation has a source of randomness of
its own, made from the seed, the node and the number of the continuation, so that what one of them writes does not depend on the others.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from ..target import pick
from .frontier import Node, Space
from .steps import StepRule

if TYPE_CHECKING:
    from ..scores.protocol import StepScorer

__all__ = ["OnToken", "Row", "begin", "run", "sample_steps", "sample_texts", "shortest", "step_scores"]

OnToken = Callable[["Row", torch.Tensor, int], None]
"""Told of a row before it takes a token: the masked log-probabilities (``float64[width]``, summing to 1) and the token."""


class Row:
    """One continuation on its way.

    Attributes:
        node: how far it is.
        start: tokens of the node that it began with.
        steps: steps that it has completed.
        dead: nothing may follow the node, though it is not finished.
    """

    __slots__ = ("_source", "_step_start", "dead", "node", "start", "steps")

    def __init__(self, node: Node, source: random.Random | None) -> None:
        self.node, self._source = node, source
        self.start = self._step_start = len(node.tokens)
        self.steps, self.dead = 0, False

    def take(self, space: Space, row: torch.Tensor, on_token: OnToken | None) -> None:
        """One token more: drawn, or the most probable one where the row has no source of randomness."""
        total = float(row.logsumexp(0))
        if total == -math.inf:
            self.dead = True
            space.prune([self.node], "a dead end")
            return
        token = int(row.argmax()) if self._source is None else pick((row - total).exp().cumsum(0).numpy(), self._source)
        if on_token is not None:
            on_token(self, row - total, token)
        value = float(row[token])
        self.node = space.child(self.node, token, value, self.node.logprob + value)

    def after(self, space: Space, rule: StepRule | None) -> None:
        """Notes whether a step has ended."""
        if rule is not None and len(self.node.tokens) > self._step_start and rule.ends(space, self.node, self._step_start):
            self.steps += 1
            self._step_start = len(self.node.tokens)


def begin(nodes: Iterable[Node], counts: Iterable[int], seed: int | str | None, *, first: int = 0) -> list[Row]:
    """``counts[i]`` rows for node ``i``; greedy ones where ``seed`` is ``None``.

    Args:
        first: number of each node's first row.
    """
    return [
        Row(node, None if seed is None else random.Random(f"{seed}/{node.number}/{j}"))
        for node, count in zip(nodes, counts)
        for j in range(first, first + count)
    ]


def run(
    space: Space,
    rows: Sequence[Row],
    *,
    rule: StepRule | None = None,
    steps: int = 1,
    max_tokens: int | None = None,
    on_token: OnToken | None = None,
    stop: Callable[[], bool] | None = None,
) -> bool:
    """Carries rows on until they have completed ``steps`` steps of ``rule`` (without one: until they end), or cannot go on.

    Args:
        max_tokens: a row stops also when it has so many tokens more than when it began; a step that is cut by it is one.
        on_token: see :data:`OnToken`.
        stop: asked before every batch, beside the budget of the space.

    Returns:
        ``False`` where the budget (or ``stop``) left rows on their way.
    """

    def moving(row: Row) -> bool:
        if row.dead or space.is_leaf(row.node) or (rule is not None and row.steps >= steps):
            return False
        return max_tokens is None or len(row.node.tokens) - row.start < max_tokens

    while active := [row for row in rows if moving(row)]:
        if space.spent or (stop is not None and stop()):
            return False
        for row, logs in zip(active, space.rows([row.node for row in active])):
            row.take(space, logs, on_token)
            row.after(space, rule)
    return True


def shortest(space: Space) -> list[Node]:
    """The shortest text of the constraint, where there is one: what is left where the model gives no way that was tried a probability."""
    closed = None if space.ending == "cut" else space.close(space.start())
    return [] if closed is None else [closed]


def sample_texts(space: Space, n: int, seed: int) -> tuple[list[Node], bool]:
    """``n`` independent texts, fewer that are finished where the budget ends; the i-th does not depend on ``n``."""
    rows = begin([space.start()], [n], seed)
    done = run(space, rows)
    return [row.node for row in rows if not row.dead], done


def sample_steps(
    space: Space, nodes: list[Node], counts: list[int], rule: StepRule, seed: int, max_step_tokens: int | None
) -> tuple[list[tuple[int, Node]], list[Node]]:
    """Sampled next steps.

    Returns:
        the continuations that completed their step, each with the place of its beginning in ``nodes`` (dead ends are left out), and
        those that the budget stopped.
    """
    rows = begin(nodes, counts, seed)
    places = [i for i, count in enumerate(counts) for _ in range(count)]
    done = run(space, rows, rule=rule, max_tokens=max_step_tokens)
    kept = [(place, row) for place, row in zip(places, rows) if not row.dead]
    if done:
        return [(place, row.node) for place, row in kept], []

    def whole(tokens: int, steps: int, node: Node) -> bool:
        return steps > 0 or space.is_leaf(node) or (max_step_tokens is not None and tokens >= max_step_tokens)

    full = [(place, row.node) for place, row in kept if whole(len(row.node.tokens) - row.start, row.steps, row.node)]
    return full, [row.node for _, row in kept if not whole(len(row.node.tokens) - row.start, row.steps, row.node)]


def step_scores(space: Space, scorer: StepScorer, nodes: list[Node], starts: list[int]) -> list[float]:
    """Process rewards of the last steps of nodes, in one batch.

    Raises:
        ValueError: one is not a number.
    """
    found = [float(value) for value in scorer.step_scores([space.candidate(node) for node in nodes], starts)] if nodes else []
    for node, value in zip(nodes, found):
        if math.isnan(value):
            raise ValueError(f"the process reward of {node.tokens[-8:]} (last tokens) is not a number")
    return found
