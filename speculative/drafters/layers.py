"""Models that leave out layers of a model, and share all of their weights with it."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any, TypeVar

import torch

from grammars.errors import ModelError

__all__ = ["decoder_layers", "first_layers", "without"]

M = TypeVar("M", bound=torch.nn.Module)


class _NoAttention(torch.nn.Module):
    """Adds nothing to the residual stream, where an attention stands."""

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
        return torch.zeros_like(hidden_states), None


class _NoMlp(torch.nn.Module):
    """Adds nothing to the residual stream, where a feed-forward network stands."""

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(hidden_states)


def decoder_layers(model: Any) -> torch.nn.ModuleList:
    """The decoder layers of a causal language model that is built like Llama: a body with ``layers``, each with ``self_attn`` and ``mlp``.

    Raises:
        ModelError: it is built otherwise.
    """
    body = getattr(model, getattr(model, "base_model_prefix", "") or "model", None)
    layers = getattr(body, "layers", None)
    if not isinstance(layers, torch.nn.ModuleList) or not all(hasattr(x, "self_attn") and hasattr(x, "mlp") for x in layers):
        raise ModelError(
            f"{type(model).__name__} is not built of layers with self_attn and mlp, as Llama is, so none can be left out: "
            "use a draft model or a drafter that needs none"
        )
    return layers


def first_layers(model: Any, count: int) -> Any:
    """The model with its first ``count`` layers, its last normalisation and its output layer.

    Raises:
        ModelError: it is not built like Llama.
        ValueError: no such number of layers.
    """
    total = len(decoder_layers(model))
    if not 1 <= count <= total:
        raise ValueError(f"the model has {total} layers; {count} of them cannot be kept")
    rest = range(count, total)
    return without(model, rest, rest)


def without(model: Any, attention: Collection[int], mlp: Collection[int]) -> Any:
    """The model without the attention of some layers and the feed-forward network of some; a layer that loses both is not there at all.

    What it returns is a model of the same class; its weights are those of ``model``, so that it takes no memory.

    Args:
        attention, mlp: numbers of layers.

    Raises:
        ModelError: the model is not built like Llama.
        ValueError: no layer would be left.
    """
    layers = decoder_layers(model)
    kept = [i for i in range(len(layers)) if i not in attention or i not in mlp]
    if not kept:
        raise ValueError("at least one layer must be left")
    config = copy.deepcopy(model.config)
    text = config.get_text_config(decoder=True)
    text.num_hidden_layers = len(kept)
    if getattr(text, "layer_types", None):
        text.layer_types = [text.layer_types[i] for i in kept]
    new = torch.nn.ModuleList([_layer(layers[i], at, i in attention, i in mlp) for at, i in enumerate(kept)])
    prefix = getattr(model, "base_model_prefix", "") or "model"
    body = _twin(getattr(model, prefix))
    body.layers, body.config = new, text
    twin = _twin(model)
    setattr(twin, prefix, body)
    twin.config = config
    return twin


def _layer(layer: Any, at: int, no_attention: bool, no_mlp: bool) -> Any:
    """A layer that stands at another place (of the cache, that is), with or without its parts."""
    found = _twin(layer)
    if no_attention:
        found.self_attn = _NoAttention()
    else:
        found.self_attn = _twin(layer.self_attn)
        found.self_attn.layer_idx = at
    if no_mlp:
        found.mlp = _NoMlp()
    return found


def _twin(module: M) -> M:
    """A module of the same class with the same parameters and children, whose own attributes and children can be replaced."""
    found = object.__new__(type(module))
    found.__dict__ = dict(module.__dict__)
    found.__dict__["_modules"] = dict(module.__dict__["_modules"])
    return found
