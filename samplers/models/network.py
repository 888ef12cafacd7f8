"""One forward of a Hugging Face model over a set of tokens of a prefix tree: ids, positions, masks in; logits out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grammars.errors import ModelError

from .cache import ROOT, PrefixTree, Window
from .packed import PackedLinears
from .pool import Pool

__all__ = ["Network", "Output"]

# up to so many tokens, each is a row of its own (one query attends to grouped keys without a copy of them); more are packed in one row
_ROWS = 16
# a row that would read this many times more slots of the window than it needs reads a copy of its own instead
_WASTE = 4
_CELLS = 1 << 24  # of a mask: tokens of a forward times slots of its window
_LOGITS = 1 << 26  # numbers in the logits of a forward
_PROBE = ((1, 2, 3, 4), (1, 2, 5, 6), (1, 2, 3, 7))
_MASKED = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


@dataclass(frozen=True, slots=True)
class Output:
    """Of one forward: for ``nodes``, ``logits[len(nodes), width]`` and, where asked for, ``hidden[len(nodes), size]``."""

    nodes: list[int]
    logits: torch.Tensor
    hidden: torch.Tensor | None


class Network:
    """How to call a model.

    Attributes:
        model: the causal language model.
        width: of its logits.
        refusal: why prefixes cannot be shared with this model, or ``None`` where they can: it takes positions, masks of four dimensions
            (one for each kind of layer) and a cache, and its layers attend by position only.
        limit: largest number of tokens of a context, ``None`` where the configuration does not say.
        packed: packed copies of the model's linear layers, for :meth:`grow`; ``None``: there are none.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.device = model, model.device
        config = model.config
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(f"{type(model).__name__} is an encoder with a decoder; give a causal language model")
        text = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
        known = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in known else "past_key_values"  # renamed in transformers 5
        self.last_only = "logits_to_keep" in known
        self.layers = int(getattr(text, "num_hidden_layers", 0))
        self.kinds = _layer_kinds(text, self.layers)
        self.spans = {
            "sliding_attention": getattr(text, "sliding_window", None),
            "chunked_attention": getattr(text, "attention_chunk_size", None),
        }
        self.attention = getattr(text, "_attn_implementation", None) or getattr(config, "_attn_implementation", None)
        self.refusal = self._refusal(known)
        self.width = _width(model)
        limit = getattr(text, "max_position_embeddings", None)
        self.limit = limit if isinstance(limit, int) and limit > 0 else None
        entry = model.get_input_embeddings()
        self.tokens = int(getattr(entry, "num_embeddings", self.width))
        heads = getattr(text, "num_attention_heads", 1)
        self._grouped = getattr(text, "num_key_value_heads", None) not in (None, heads)
        self.packed: PackedLinears | None = None

    def _refusal(self, known: Any) -> str | None:
        if not getattr(self.model, "_supports_attention_backend", False):
            return "its attention is not that of transformers' common interface"
        if not {"position_ids", "attention_mask", self.cache_name} <= set(known):
            return "its forward takes no positions, mask or cache"
        if self.attention not in ("sdpa", "eager"):
            return (
                f"its attention implementation {self.attention!r} takes no masks of four dimensions (set_attn_implementation('sdpa') does)"
            )
        if not self.layers or not set(self.kinds) <= _MASKED:
            return f"it has layers of other kinds than attention: {', '.join(sorted(set(self.kinds) - _MASKED)) or 'unknown'}"
        if any(kind in self.kinds and not self.spans[kind] for kind in self.spans):
            return "the size of its attention window is unknown"
        return None

    def validate(self, length: int, tokens: Sequence[int]) -> None:
        """Refuses a context of ``length`` tokens, or one with ``tokens`` in it, that the model cannot take.

        Raises:
            ModelError: it is empty or too long, or a token id is out of range.
        """
        if length < 1:
            raise ModelError("a context has no tokens: a causal model needs at least one (its BOS token, say)")
        if self.limit is not None and length > self.limit:
            raise ModelError(f"a context of {length} tokens is too long: the model takes {self.limit}; shorten the prompt or the text")
        for token in tokens:
            if not 0 <= token < self.tokens:
                raise ModelError(f"{token} is no token id of this model: it has {self.tokens}")

    # ------------------------------------------------------------ whole sequences
    @torch.inference_mode()
    def plain(self, sequences: Sequence[Sequence[int]], keep: int, hidden: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        """A forward over sequences of one length, without a cache, padding or mask: right for any causal model.

        Returns:
            the logits, ``[len(sequences), keep, width]``, of the last ``keep`` tokens, and their hidden states where asked for.
        """
        ids = torch.tensor([list(s) for s in sequences], device=self.device)
        extra: dict[str, Any] = {"logits_to_keep": keep} if self.last_only else {}
        out = self.model(input_ids=ids, use_cache=False, output_hidden_states=hidden, **extra)
        return out.logits[:, -keep:], out.hidden_states[-1][:, -keep:] if hidden else None

    # ------------------------------------------------------------ trees
    def chunks(self, tree: PrefixTree, nodes: Sequence[int], wanted: set[int]) -> Iterator[list[int]]:
        """Parts of ``nodes``, in order, whose masks and logits stay of moderate size: one forward each."""
        size, rows = max(_ROWS, _CELLS // max(1, len(tree))), max(1, _LOGITS // self.width)
        part: list[int] = []
        found = 0
        for node in nodes:
            if len(part) == size or (found == rows and node in wanted):
                yield part
                part, found = [], 0
            part.append(node)
            found += node in wanted
        if part:
            yield part

    @torch.inference_mode()
    def grow(
        self,
        tree: PrefixTree,
        pool: Pool,
        nodes: Sequence[int],
        wanted: Sequence[int],
        *,
        hidden: bool = False,
        rows: bool | None = None,
    ) -> Output:
        """Evaluates ``nodes`` (new ones after their parents; whoever else they descend from is evaluated already) in one forward.

        Args:
            rows: whether each token is a row of the batch of its own; ``None``: what is likely to be faster.

        Returns:
            what was asked for at ``wanted``, a part of ``nodes``, in that order.
        """
        used = tree.slots
        before = tree.places(nodes)
        inner = set(tree.parents(nodes).tolist())
        leaves = [node for node in nodes if node not in inner]
        window = tree.place(leaves, [n for n, slot in zip(nodes, before) if slot < 0], pool.capacity)
        places = tree.places(nodes)
        if rows is None:
            rows = len(nodes) <= _ROWS and self._rows_are_cheap
        visible = _visibility(tree, window, nodes, places)
        gather = None
        if rows and (longest := int(visible.sum(-1).max())) * _WASTE + 256 < visible.shape[1]:
            gather, visible, positions = _narrow(tree, window, visible, longest)
        else:
            positions = tree.depths(np.maximum(tree.occupants(window), 0))[None]
        pool.begin(window, places.tolist(), tree.slots, rows=rows, gather=gather, used=used)
        depths = tree.depths(nodes)
        shape = (-1, 1) if rows else (1, -1)
        index = {node: i for i, node in enumerate(nodes)}
        keep = torch.tensor([index[node] for node in wanted], dtype=torch.int64, device=self.device)
        extra: dict[str, Any] = {self.cache_name: pool.cache}
        sliced = self.last_only and not rows
        if sliced:
            extra["logits_to_keep"] = keep
        with nullcontext() if self.packed is None else self.packed.active(len(nodes)):
            out = self.model(
                input_ids=torch.from_numpy(tree.tokens(nodes).reshape(shape)).to(self.device),
                position_ids=torch.from_numpy(depths.reshape(shape)).to(self.device),
                attention_mask=self._masks(visible, depths, positions, rows),
                use_cache=True,
                output_hidden_states=hidden,
                **extra,
            )
        logits = out.logits.flatten(0, 1)
        states = out.hidden_states[-1].flatten(0, 1)[keep] if hidden else None
        return Output(list(wanted), logits if sliced else logits[keep], states)

    def probe(self) -> None:
        """Compares forwards over trees with forwards over whole sequences; notes a :attr:`refusal` where they differ."""
        if self.refusal is not None:
            return
        texts = [[token % self.tokens for token in text] for text in _PROBE]
        expected = self.plain(texts, 1, hidden=False)[0][:, 0].double().softmax(-1)
        tolerance = 1e-3 if self.model.dtype in (torch.float32, torch.float64) else 0.1
        for rows in (False, True):
            try:
                found = self._probe(texts, rows).double().softmax(-1)
            except Exception as error:  # whatever a model says to arguments that it does not know
                self.refusal = f"it takes no masks of four dimensions ({type(error).__name__}: {error})"
                return
            difference = float((found - expected).abs().sum(-1).max()) / 2
            if not difference < tolerance:
                self.refusal = f"with explicit masks and positions its probabilities differ, by {difference:.2g}"
                return

    def _probe(self, texts: list[list[int]], rows: bool) -> torch.Tensor:
        """The logits after each text, the last tokens evaluated after all others."""
        tree, pool = PrefixTree(), Pool(self.layers, 1024)
        first: list[int] = []
        last: list[int] = []
        known: dict[tuple[int, ...], int] = {(): ROOT}
        for text in texts:
            for end in range(1, len(text) + 1):
                key = tuple(text[:end])
                if key not in known:
                    known[key] = tree.add(known[key[:-1]], key[-1])
                    (last if end == len(text) else first).append(known[key])
        self.grow(tree, pool, first, first[-1:], rows=rows)
        leaves = [known[tuple(text)] for text in texts]
        return self.grow(tree, pool, last, leaves, rows=rows).logits

    @property
    def _rows_are_cheap(self) -> bool:
        """Whether one query a row reads grouped keys as they are; an implementation that repeats them would do so for every row."""
        if not self._grouped:
            return self.attention == "sdpa"
        from transformers.integrations import sdpa_attention

        return self.attention == "sdpa" and hasattr(sdpa_attention, "pack_gqa")

    def _masks(self, visible: np.ndarray, depths: np.ndarray, positions: np.ndarray, rows: bool) -> Any:
        """The masks of each kind of layer, ``[tokens, 1, 1, slots]`` or ``[1, 1, tokens, slots]``; a dict where there are several."""
        found: dict[str, torch.Tensor] = {}
        for kind in set(self.kinds):
            mask = visible
            if kind == "sliding_attention":
                mask = visible & (positions > depths[:, None] - self.spans[kind])
            elif kind == "chunked_attention":
                mask = visible & (positions // self.spans[kind] == depths[:, None] // self.spans[kind])
            tensor = torch.from_numpy(mask).to(self.device)
            if self.attention == "eager":
                dtype = self.model.dtype
                tensor = torch.zeros(tensor.shape, dtype=dtype, device=self.device).masked_fill_(~tensor, torch.finfo(dtype).min)
            found[kind] = tensor[:, None, None] if rows else tensor[None, None]
        return found if len(found) > 1 else next(iter(found.values()))


def _visibility(tree: PrefixTree, window: Window, nodes: Sequence[int], places: np.ndarray) -> np.ndarray:
    """``bool[len(nodes), slots of the window]``: the slots of each node's ancestors and its own."""
    visible = np.zeros((len(nodes), window.high - window.low), bool)
    row = {node: i for i, node in enumerate(nodes)}
    own = (places - window.low).tolist()
    for i, parent in enumerate(tree.parents(nodes).tolist()):
        above = row.get(parent)
        if above is not None and above < i:
            visible[i] = visible[above]
        elif parent != ROOT:
            visible[i, tree.places(tree.path(parent)) - window.low] = True
        visible[i, own[i]] = True
    return visible


def _narrow(tree: PrefixTree, window: Window, visible: np.ndarray, longest: int) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """For each row the slots that it sees, first, filled up to the ``longest`` row; which of them it sees; their positions."""
    order = np.argsort(~visible, axis=-1, kind="stable")[:, :longest]
    positions = tree.depths(np.maximum(tree.occupants(window), 0))[order]
    return torch.from_numpy(order + window.low), np.take_along_axis(visible, order, -1), positions


def _layer_kinds(config: Any, layers: int) -> list[str]:
    """The kind of attention of each layer, as transformers reads it from a configuration."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        shared = getattr(config, "kv_sharing_modes", None) or [None] * len(kinds)
        return ["shared" if mode == "reuse" else kind for kind, mode in zip(kinds, shared)]
    if getattr(config, "sliding_window", None) is not None:
        return ["sliding_attention"] * layers
    return ["chunked_attention" if getattr(config, "attention_chunk_size", None) is not None else "full_attention"] * layers


def _width(model: Any) -> int:
    output = model.get_output_embeddings()
    return int(output.weight.shape[0] if output is not None and hasattr(output, "weight") else model.config.vocab_size)
