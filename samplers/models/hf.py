"""Hugging Face causal language models, with one cache of key/value states for every prefix that was ever asked about.

A sampler's particles, beams and drafts share most of their tokens. Here every token of every context is evaluated once: the cache is a
trie (:mod:`.cache`) whose nodes lie in one pool of slots (:mod:`.pool`), and a forward evaluates any set of new tokens, at any depths, in
any branches, in one go (:mod:`.network`): each token is told its position and, by a mask, which slots it sees. So there is no padding,
forking and resampling move nothing, and the prompt of a hundred particles is in memory once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from .cache import PrefixTree
from .context import Context
from .counting import Usage
from .network import Network, Output
from .packed import PackedLinears
from .pool import Pool

__all__ = ["HFModel"]

# architectures that the tests compare with forwards without a cache; others are compared once, on first use
_TESTED = frozenset({"gemma2", "gemma3_text", "gpt2", "gpt_oss", "llama", "mistral", "qwen2", "qwen3"})


@dataclass(slots=True)
class _Plan:
    """What has to be evaluated, together.

    Attributes:
        again: tokens whose states are there, but not what is asked for; parents before their children.
        fresh: tokens that are new in the tree; parents before their children.
        wanted: tokens of either kind whose logits are asked for.
    """

    again: dict[int, None] = field(default_factory=dict)
    fresh: list[int] = field(default_factory=list)
    wanted: set[int] = field(default_factory=set)

    @property
    def nodes(self) -> list[int]:
        """All of them; none of ``fresh`` is an ancestor of one of ``again``."""
        return [*self.again, *self.fresh]


class HFModel:
    """A :class:`LanguageModel` over a Hugging Face causal language model.

    Answers equal those of a forward over the whole context to rounding: how many tokens are evaluated together changes the last bits of a
    sum, as it does in any batched computation. The same calls give the same answers, bit for bit.

    Architectures whose layers are not all attention by position (state-space and linear attention layers), or whose attention takes no
    explicit masks, are evaluated as a whole each time, in batches of equal length: correct, and slow. :attr:`shares_prefixes` tells.

    Args:
        model: the model; put into evaluation mode.
        eos_token_ids: tokens that end a text; ``None``: those of its generation config.
        max_cache_tokens: how many tokens are kept; those of prefixes that were not used for longest are forgotten first. ``None``: as many
            as take ``max_cache_bytes``. One call may go beyond it as far as a single context needs.
        max_cache_bytes: see ``max_cache_tokens``.
        max_logits_bytes: of the logits that are kept for contexts that are asked about again.

    Attributes:
        width, eos_token_ids: see :class:`LanguageModel`.
        usage: what was done so far.

    Raises:
        ModelError: not a causal language model.
        ValueError: a bound is not above 0.

    May be used from several threads; they take turns.
    """

    def __init__(
        self,
        model: Any,
        *,
        eos_token_ids: Sequence[int] | None = None,
        max_cache_tokens: int | None = None,
        max_cache_bytes: int = 1 << 30,
        max_logits_bytes: int = 1 << 28,
    ) -> None:
        if min(max_cache_bytes, max_logits_bytes, 1 if max_cache_tokens is None else max_cache_tokens) < 1:
            raise ValueError("the bounds of the caches must be above 0")
        self.model = model.eval()
        self.usage = Usage()
        self._network = Network(model)
        self.width = self._network.width
        self.eos_token_ids = tuple(_end_tokens(model) if eos_token_ids is None else eos_token_ids)
        self._max_tokens, self._max_bytes, self._max_logits = max_cache_tokens, max_cache_bytes, max_logits_bytes
        self._lock = threading.RLock()
        self._checked = getattr(model.config, "model_type", None) in _TESTED
        self._keep_hidden = False
        self._token_bytes = 0.0
        # of a node of the tree; of a context where there is no tree
        self._logits: OrderedDict[int | Context, torch.Tensor] = OrderedDict()
        self._hidden: dict[int | Context, torch.Tensor] = {}
        self.clear()

    def __repr__(self) -> str:
        return f"<HFModel {type(self.model).__name__}: {self.width} logits, {self.cached_tokens} tokens cached>"

    @property
    def shares_prefixes(self) -> bool:
        """Whether prefixes are evaluated once; see the class."""
        with self._lock:
            self._check()
            return self._network.refusal is None

    def pack(self) -> None:
        """Keeps packed copies of the model's linear layers, where that makes forwards of several tokens faster: see :mod:`.packed`.

        Takes about as much memory again as the model, on CPUs with float32 weights; elsewhere it does nothing.
        """
        with self._lock:
            if self._network.packed is None:
                self._network.packed = PackedLinears.of(self.model)

    @property
    def cached_tokens(self) -> int:
        """Number of tokens whose states are kept."""
        return len(self._tree)

    def clear(self) -> None:
        """Forgets everything that is cached."""
        with self._lock:
            self._tree = PrefixTree()
            self._pool = Pool(self._network.layers, 1 << 62)
            self._logits.clear()
            self._hidden.clear()

    # ------------------------------------------------------------ questions
    def context(self, tokens: Sequence[int]) -> Context:
        """See :meth:`LanguageModel.context`."""
        return Context(tokens)

    def next_logprobs(self, contexts: Sequence[Context]) -> torch.Tensor:
        """See :meth:`LanguageModel.next_logprobs`; on the model's device."""
        return self.next_logits(contexts).double().log_softmax(-1)

    def next_logits(self, contexts: Sequence[Context]) -> torch.Tensor:
        """As :meth:`next_logprobs`, not normalised and in the model's type: for those who need the best token only, say."""
        rows = self._answers(contexts, self._logits)
        return torch.stack(rows) if rows else torch.zeros((0, self.width), dtype=self.model.dtype, device=self.model.device)

    def hidden(self, contexts: Sequence[Context]) -> torch.Tensor:
        """See :meth:`LanguageModel.hidden`: what the output layer reads (after the last normalisation), in the model's type.

        From the first call on they are kept beside the logits, so that asking for both costs one evaluation.
        """
        self._keep_hidden = True
        rows = self._answers(contexts, self._hidden)
        return torch.stack(rows) if rows else torch.zeros((0, 0), dtype=self.model.dtype, device=self.model.device)

    def score(self, context: Context, continuations: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """See :meth:`LanguageModel.score`; what continuations share, with each other or with a cached context, is evaluated once."""
        with self._lock:
            self._check()
            asked = [tuple(map(int, c)) for c in continuations]
            self._validate(context)
            for continuation in asked:
                self._network.validate(context.length + max(0, len(continuation) - 1), continuation)
            if self._network.refusal is not None:
                return self._plain_score(context, asked)
            with self._call():
                return self._tree_score(context, asked)

    def _answers(self, contexts: Sequence[Context], store: MutableMapping[Any, torch.Tensor]) -> list[torch.Tensor]:
        """The rows of ``store`` (logits or hidden states) for the contexts, evaluated where they are not there."""
        with self._lock:
            self._check()
            for context in contexts:
                self._validate(context)
            if self._network.refusal is not None:
                return self._plain_answers(contexts, store)
            with self._call():
                return self._tree_answers(contexts, store)

    def _validate(self, context: Context) -> None:
        """Refuses what the model cannot take, before anything is done."""
        _, known = self._tree.find(context)
        self._network.validate(context.length, context.tokens_from(known))

    def _check(self) -> None:
        if not self._checked:
            self._checked = True
            self._network.probe()

    # ------------------------------------------------------------ by tree
    @contextmanager
    def _call(self) -> Iterator[None]:
        """Around a call: whatever goes wrong, nothing half evaluated stays in the cache; afterwards the bounds hold."""
        self._tree.tick()
        try:
            yield
        except BaseException:
            self.clear()
            raise
        self._evict(len(self._tree) - self._bound, spare_touched=False)
        self._trim_logits()

    def _trim_logits(self) -> None:
        """Forgets the logits that were not asked for longest, down to the bound."""
        row = next(iter(self._logits.values()), None)
        if row is not None:
            for _ in range(len(self._logits) - max(1, self._max_logits // (row.numel() * row.element_size()))):
                forgotten, _ = self._logits.popitem(last=False)
                self._hidden.pop(forgotten, None)

    @property
    def _bound(self) -> int:
        """How many tokens may be cached."""
        if self._max_tokens is not None:
            return self._max_tokens
        if not self._token_bytes and self._pool.capacity:
            self._token_bytes = self._pool.bytes / self._pool.capacity
        # unknown before the first forward: everything is let in, and what is too much forgotten after it
        return max(1, int(self._max_bytes / self._token_bytes)) if self._token_bytes else 1 << 40

    def _evict(self, count: int, *, spare_touched: bool) -> None:
        if count > 0:
            for node in self._tree.evict(count, spare_touched=spare_touched):
                self._logits.pop(node, None)
                self._hidden.pop(node, None)

    def _tree_answers(self, contexts: Sequence[Context], store: MutableMapping[Any, torch.Tensor]) -> list[torch.Tensor]:
        rows: dict[Context, torch.Tensor] = {}
        pending: dict[Context, int] = {}
        plan = _Plan()

        def evaluate() -> None:
            for output in self._run(plan):
                self._logits.update(zip(output.nodes, output.logits.unbind()))
                if output.hidden is not None:
                    self._hidden.update(zip(output.nodes, output.hidden.unbind()))
            rows.update((context, store[node]) for context, node in pending.items())
            pending.clear()

        for context in contexts:
            if context in rows or context in pending:
                self.usage.hits += 1
                continue
            if pending and self._is_full(context):
                evaluate()
                plan = _Plan()
                self._tree.tick()
            node, fresh = self._extend(plan, context)
            if node in store:
                self.usage.hits += 1
                rows[context] = store[node]
                if node in self._logits:
                    self._logits.move_to_end(node)
            else:
                pending[context] = node
                again = self._want(plan, node)
                self._count(context.length, fresh, again, True)
        evaluate()
        return [rows[context] for context in contexts]

    def _is_full(self, context: Context) -> bool:
        """Whether ``context`` does not fit into the bound together with what this call has used so far."""
        if len(self._tree) + context.length <= self._bound:
            return False
        _, matched = self._tree.find(context)
        return self._tree.touched + context.length - matched > self._bound

    def _extend(self, plan: _Plan, context: Context) -> tuple[int, int]:
        """Adds to the tree and the plan what they lack of ``context``; its node, and how many tokens were new."""
        node, matched = self._tree.find(context)
        self._tree.touch(node)
        missing = context.tokens_from(matched)
        for token in missing:
            node = self._tree.add(node, token)
            plan.fresh.append(node)
        if missing:
            self._tree.remember(context, node)
        return node, len(missing)

    def _want(self, plan: _Plan, node: int) -> bool:
        """Asks for what is known at a node of the tree; whether its token has to be evaluated again for that."""
        again = node not in plan.wanted and bool(self._tree.places([node])[0] >= 0)
        plan.wanted.add(node)
        if again:
            plan.again[node] = None
        return again

    def _count(self, length: int, fresh: int, again: int, evaluated: bool) -> None:
        self.usage.rows += evaluated
        self.usage.hits += not evaluated
        self.usage.prefix_hits += length - fresh - again if evaluated else 0

    def _run(self, plan: _Plan) -> Iterator[Output]:
        """Evaluates a plan, in as few forwards as its size allows."""
        if not plan.nodes:
            return
        excess = len(self._tree) - self._bound
        if excess > 0:
            # somewhat more than needed, so that it is not done at every step
            self._evict(excess + self._bound // 16, spare_touched=True)
        self._pool.limit = 4 * self._bound // 3 + 1024
        for nodes in self._network.chunks(self._tree, plan.nodes, plan.wanted):
            self.usage.forwards += 1
            self.usage.tokens += len(nodes)
            wanted = [node for node in nodes if node in plan.wanted]
            yield self._network.grow(self._tree, self._pool, nodes, wanted, hidden=self._keep_hidden)

    def _tree_score(self, context: Context, asked: list[tuple[int, ...]]) -> list[torch.Tensor]:
        scores: list[list[float]] = [[0.0] * len(continuation) for continuation in asked]
        plan, group = _Plan(), dict[int, list[tuple[int, int]]]()  # of a node: the continuations, and places in them, that it predicts
        for i, continuation in enumerate(asked):
            if not continuation:
                continue
            end = context.extend(continuation[:-1])
            if group and self._is_full(end):
                self._score_group(plan, group, asked, scores)
                plan, group = _Plan(), {}
                self._tree.tick()
            node, fresh = self._extend(plan, end)
            nodes: list[int] = self._tree.path(node)[context.length - 1 :].tolist()
            unknown = [n for n in nodes if n not in self._logits and n not in plan.wanted]
            again = sum(self._want(plan, n) for n in unknown)
            self._count(end.length, fresh, again, bool(unknown))
            for k, n in enumerate(nodes):
                group.setdefault(n, []).append((i, k))
        self._score_group(plan, group, asked, scores)
        return [torch.tensor(row, dtype=torch.float64, device=self.model.device) for row in scores]

    def _score_group(
        self, plan: _Plan, group: dict[int, list[tuple[int, int]]], asked: list[tuple[int, ...]], scores: list[list[float]]
    ) -> None:
        def note(nodes: list[int], logits: torch.Tensor) -> None:
            places = [(row, i, k) for row, node in enumerate(nodes) for i, k in group[node]]
            table = logits.double().log_softmax(-1)
            values = table[[row for row, _, _ in places], [asked[i][k] for _, i, k in places]].tolist()
            for (_, i, k), value in zip(places, values):
                scores[i][k] = value

        known = [node for node in group if node not in plan.wanted]
        if known:
            note(known, torch.stack([self._logits[node] for node in known]))
        first = next(iter(group), None)
        for output in self._run(plan):
            note(output.nodes, output.logits)
            if first in output.nodes:  # the end of the context, which is likely to be asked about
                self._logits[first] = output.logits[output.nodes.index(first)].clone()

    # ------------------------------------------------------------ as a whole
    def _plain_answers(self, contexts: Sequence[Context], store: MutableMapping[Any, torch.Tensor]) -> list[torch.Tensor]:
        rows: dict[Context, torch.Tensor] = {}
        pending: dict[int, list[Context]] = {}
        for context in dict.fromkeys(contexts):
            if context in store:
                rows[context] = store[context]
            else:
                pending.setdefault(context.length, []).append(context)
        self.usage.hits += len(contexts) - sum(map(len, pending.values()))
        for group in pending.values():
            logits, hidden = self._whole([context.tokens for context in group], 1)
            self._logits.update(zip(group, logits[:, 0].unbind()))
            if hidden is not None:
                self._hidden.update(zip(group, hidden[:, 0].unbind()))
            rows.update((context, store[context]) for context in group)
        self._trim_logits()
        return [rows[context] for context in contexts]

    def _plain_score(self, context: Context, asked: list[tuple[int, ...]]) -> list[torch.Tensor]:
        results = [torch.zeros(0, dtype=torch.float64, device=self.model.device)] * len(asked)
        groups: dict[int, list[int]] = {}
        for i, continuation in enumerate(asked):
            if continuation:
                groups.setdefault(len(continuation), []).append(i)
        prefix = context.tokens
        for length, group in groups.items():
            logits, _ = self._whole([prefix + asked[i][:-1] for i in group], length)
            chosen = torch.tensor([asked[i] for i in group], device=logits.device)
            scores = logits.double().log_softmax(-1).gather(-1, chosen[..., None])[..., 0]
            for i, row in zip(group, scores.unbind()):
                results[i] = row
        return results

    def _whole(self, sequences: list[tuple[int, ...]], keep: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        self.usage.forwards += 1
        self.usage.rows += len(sequences)
        self.usage.tokens += sum(map(len, sequences))
        return self._network.plain(sequences, keep, hidden=self._keep_hidden)


def _end_tokens(model: Any) -> tuple[int, ...]:
    ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return () if ends is None else tuple(map(int, ends)) if isinstance(ends, list | tuple) else (int(ends),)
