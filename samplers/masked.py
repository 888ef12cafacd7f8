"""The decode loop: a causal language model, one constraint a row, one token a row and step.

Rows are left-padded into one batch with a KV cache; a row that is finished leaves the batch. A row's constraint is a state (an
integer), its randomness a generator of its own, so what a row gives does not depend on the rows beside it (up to the floating point
noise of the model's batched kernels).
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from grammars.errors import DeadEnd, ModelError

from .budget import Budget, Plan
from .masks import MaskTable, serial
from .registry import method
from .sampling import Settings, choose

if TYPE_CHECKING:
    from grammars.automaton import Automaton

    from .warpers.base import Row
    from .warpers.pipeline import Pipeline

__all__ = ["Request", "Step", "decode"]

Reason = Literal["complete", "length"]

_PLAIN = Settings()


@dataclass(frozen=True, slots=True)
class Request:
    """One text to generate.

    Attributes:
        prompt: token ids, at least one.
        automaton: the constraint; ``None`` leaves the text free.
        max_tokens: tokens to generate at most, the EOS included.
        seed: of the row's own generator.
        budget: see :class:`~samplers.budget.Budget`; ``None`` lets the text be cut at ``max_tokens``.
    """

    prompt: Sequence[int]
    automaton: Automaton | None = None
    max_tokens: int = 256
    seed: int = 0
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One token of one row.

    Attributes:
        row: index of the request.
        token: its id.
        logprob, log_kept: see :class:`~samplers.sampling.Drawn`.
        reason: why the row ends with this token (``"complete"``: an EOS; ``"length"``: the number of tokens), else ``None``.
    """

    row: int
    token: int
    logprob: float
    log_kept: float
    reason: Reason | None


@dataclass(slots=True)
class _Row:
    index: int
    request: Request
    state: int
    left: int
    generator: torch.Generator
    serial: int
    plan: Plan = None
    made: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, index: int, request: Request) -> _Row:
        start, number = (0, -1) if request.automaton is None else (request.automaton.start, serial(request.automaton))
        return cls(index, request, start, request.max_tokens, torch.Generator().manual_seed(request.seed), number)

    def key(self) -> Hashable | None:
        """Of the row's mask; see :meth:`~samplers.masks.MaskTable.select`."""
        if self.request.automaton is None:
            return None
        budget = self.request.budget
        return (self.serial, self.state) if budget is None else budget.key(self.state, self.left, self.plan)

    def fill(self, row: np.ndarray) -> None:
        automaton, budget = self.request.automaton, self.request.budget
        assert automaton is not None
        if budget is None:
            automaton.fill_mask(self.state, row[: automaton.words])
        else:
            budget.fill(self.state, self.left, self.plan, row)

    def advance(self, token: int, ends: frozenset[int]) -> Reason | None:
        automaton, budget = self.request.automaton, self.request.budget
        self.left -= 1
        self.made.append(token)
        if automaton is not None:
            if budget is None:
                self.state = automaton.advance(self.state, token)
            else:
                self.state, self.plan = budget.advance(self.state, self.plan, token, self.left)
            if self.state == automaton.DEAD:
                raise DeadEnd(f"row {self.index}: no token can follow after {self.request.max_tokens - self.left - 1} tokens")
        if token in ends:
            return "complete"
        return "length" if self.left == 0 else None


class _Forward:
    """The model's side: prompts in, then one token a row; the next token's logits out."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], pad: int) -> None:
        self.model, self.device = model, model.device
        known = inspect.signature(model.forward).parameters
        self.positions, self.last_only = "position_ids" in known, "logits_to_keep" in known
        self.cache_name = "cache" if "cache" in known else "past_key_values"  # renamed in transformers 5
        length = max(map(len, prompts))
        self.ids = torch.tensor([[pad] * (length - len(p)) + list(p) for p in prompts], device=self.device)
        self.attention = torch.tensor([[0] * (length - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        self.cache: Any = None

    @torch.inference_mode()
    def logits(self) -> torch.Tensor:
        """``[rows, width]``."""
        extra: dict[str, Any] = {"logits_to_keep": 1} if self.last_only else {}
        if self.positions:
            extra["position_ids"] = (self.attention.cumsum(-1) - 1).clamp(min=0)[:, -self.ids.shape[1] :]
        extra[self.cache_name] = self.cache
        out = self.model(input_ids=self.ids, attention_mask=self.attention, use_cache=True, **extra)
        self.cache = out[self.cache_name]
        return out.logits[:, -1]

    @torch.inference_mode()
    def feed(self, tokens: torch.Tensor, keep: list[int]) -> None:
        """Takes the last step's tokens; only the rows ``keep`` go on."""
        if len(keep) < len(tokens):
            chosen = torch.tensor(keep, device=self.device)
            tokens, self.attention = tokens[chosen], self.attention[chosen]
            self.cache.batch_select_indices(chosen)
        self.ids = tokens[:, None]
        self.attention = torch.cat([self.attention, self.attention.new_ones((len(tokens), 1))], dim=-1)


@method(
    "local masking",
    law="exact",
    target=(
        "the product over steps of the model's next-token distribution restricted to the tokens that can be completed, renormalised; "
        "this is not the model conditioned on the language: log_kept of the steps is the logarithm of the importance weight between them"
    ),
    cost="one mask a step: cached by state, otherwise microseconds to milliseconds",
    paper="Deutsch, Upadhyay, Roth 2019 (CoNLL); Willard, Louf 2023, arXiv:2307.09702",
    use="guided.generate(model, prompt, constraint), GuidedLogitsProcessor",
)
def decode(
    model: Any,
    requests: Sequence[Request],
    eos_token_ids: Sequence[int],
    settings: Settings = _PLAIN,
    table: MaskTable | None = None,
    warpers: Pipeline | Iterable[Any] | None = None,
) -> Iterator[list[Step]]:
    """Generates one text for every request, all together; yields the tokens of each step.

    Args:
        model: a Hugging Face causal language model.
        requests: see :class:`Request`.
        eos_token_ids: ids that end a text; a constrained row can take one only where its language allows it.
        settings: temperature, top-k, top-p.
        table: masks of earlier calls on the same device, to be used again.
        warpers: a :class:`~samplers.warpers.Pipeline`, or its parts in order; they act before ``settings``. The pipeline states its law.

    Yields:
        One :class:`Step` for every row that is not finished, in the order of the requests.

    Raises:
        ConstraintError: a request's budget is too small for any text of its language.
        DeadEnd: a row without a budget has no token that can follow (only if its constraint breaks its contract).
        ModelError: an empty prompt.
    """
    if not requests:
        return
    for request in requests:
        if not request.prompt:
            raise ModelError("a prompt has no tokens: a causal model needs at least one (its BOS token, say)")
        if request.budget is not None:
            request.budget.check(request.max_tokens)
    rows = [_Row.of(i, request) for i, request in enumerate(requests)]
    ends = frozenset(eos_token_ids)
    pipeline = _pipeline(warpers)
    forward = _Forward(model, [r.prompt for r in requests], next(iter(eos_token_ids), 0))
    while rows:
        logits = forward.logits()
        if table is None:
            words = max((r.automaton.words for r in requests if r.automaton is not None), default=0)
            table = MaskTable(logits.shape[-1], logits.device, words)
        allowed = _allowed(table, rows, logits.shape[-1])
        uniforms = torch.stack([torch.rand((), dtype=torch.float64, generator=row.generator) for row in rows])
        warp = None if pipeline is None else partial(pipeline.apply, _texts(rows) if pipeline.reads_text else [])
        choice = choose(logits, allowed, uniforms, settings, warp)
        facts = zip(rows, choice.tokens.tolist(), choice.logprobs.tolist(), choice.log_kept.tolist())
        steps = [Step(row.index, token, logprob, kept, row.advance(token, ends)) for row, token, logprob, kept in facts]
        yield steps
        keep = [i for i, step in enumerate(steps) if step.reason is None]
        rows = [rows[i] for i in keep]
        if rows:
            forward.feed(choice.tokens, keep)


def _pipeline(warpers: Pipeline | Iterable[Any] | None) -> Pipeline | None:
    """The pipeline of this call, at the beginning of its texts."""
    if warpers is None:
        return None
    from .warpers.pipeline import as_pipeline

    pipeline = as_pipeline(warpers)
    pipeline.reset()
    return pipeline


def _texts(rows: Sequence[_Row]) -> list[Row]:
    from .warpers.base import Row

    return [Row([*row.request.prompt, *row.made], len(row.request.prompt), row.request.seed) for row in rows]


def _allowed(table: MaskTable, rows: Sequence[_Row], width: int) -> torch.Tensor | None:
    if all(row.request.automaton is None for row in rows):
        return None
    if table.width != width:
        raise ModelError(f"the mask table is for {table.width} logits, the model has {width}")
    return table.select([row.key() for row in rows], lambda i, mask: rows[i].fill(mask)).allowed()
