"""A language model ready for constrained generation: weights, tokenizer, vocabulary, and the masks and automata made so far."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from grammars import Automaton, ModelError, Vocabulary
from samplers.budget import Budget
from samplers.masks import MaskTable

from .inputs import Target, compile_constraint

if TYPE_CHECKING:
    from samplers.models.hf import HFModel

__all__ = ["Compiled", "Model", "load"]


@dataclass(frozen=True)
class Compiled:
    """An automaton over a model's vocabulary with its token budget; both ``None`` for free text."""

    automaton: Automaton | None
    budget: Budget | None


class Model:
    """A causal language model with its tokenizer; made by :func:`load`.

    Attributes:
        model: the Hugging Face model, in evaluation mode.
        tokenizer: its tokenizer.
        vocabulary: the tokenizer's :class:`grammars.Vocabulary`; several end tokens where the model's generation config has them.
        name: for messages.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str = "model", vocabulary: Vocabulary | None = None) -> None:
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        width = _logits_width(model)
        self.vocabulary = vocabulary or Vocabulary.from_tokenizer(tokenizer, logits_size=width, eos_token_ids=_end_tokens(model))
        self.masks = MaskTable(width, model.device, self.vocabulary.words)
        self._compiled: OrderedDict[Hashable, Compiled] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Model {self.name}: {self.vocabulary.size} tokens, {self.model.device}, {self.model.dtype}>"

    @property
    def context(self) -> int | None:
        """Tokens that fit into the model (prompt and text together), where it says so."""
        config = self.model.config
        found = getattr(config.get_text_config() if hasattr(config, "get_text_config") else config, "max_position_embeddings", None)
        return found if isinstance(found, int) and found > 0 else None

    @cached_property
    def language_model(self) -> HFModel:
        """The model as samplers ask it, with its cache of prefixes; texts end with the vocabulary's end tokens."""
        from samplers.models import HFModel

        return HFModel(self.model, eos_token_ids=self.vocabulary.eos_token_ids)

    def compile(self, value: Any, target: Target, keep: int = 64) -> Compiled:
        """The automaton of a constraint; the last ``keep`` ones are kept, so that the same schema is compiled once.

        Args:
            value: what the user gave.
            target: what :func:`guided.inputs.target_of` made of it.
        """
        key = _key(value, target)
        found = self._compiled.pop(key, None)
        if found is None:
            automaton = compile_constraint(target.constraint, self.vocabulary)
            found = Compiled(automaton, None if automaton is None else Budget(automaton))
        self._compiled[key] = found
        while len(self._compiled) > keep:
            self._compiled.popitem(last=False)
        return found


def _key(value: Any, target: Target) -> Hashable:
    """Equal for equal schemas; a constraint object stands for itself."""
    if target.schema is not None and target.constraint is not value:
        return "schema", json.dumps(target.schema)
    if isinstance(value, list | tuple):
        return "choice", *value
    return value if isinstance(value, Hashable) else id(target)


def _logits_width(model: Any) -> int:
    output = model.get_output_embeddings()
    return int(output.weight.shape[0] if output is not None and hasattr(output, "weight") else model.config.vocab_size)


def _end_tokens(model: Any) -> list[int]:
    ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return [] if ends is None else [int(e) for e in ends] if isinstance(ends, list | tuple) else [int(ends)]


def load(
    model: str | Path | tuple[Any, Any] | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
) -> Model:
    """A model for :func:`guided.generate` and :func:`guided.stream`.

    Args:
        model: ``None`` for the packaged demo model; a folder, or the id of a model in the hub's cache (nothing is downloaded
            here); or ``(model, tokenizer)``.
        device: where it runs, ``"cpu"`` or ``"cuda"``, say; ``None`` leaves it where it is loaded.
        dtype: of the weights, ``"bfloat16"``, say; ``None`` is float32 for the packaged model, the checkpoint's own otherwise.

    Raises:
        ModelError: it cannot be loaded.
        VocabularyError: its tokenizer cannot be turned into byte strings.
    """
    kind = _dtype(dtype)
    network: Any
    if model is None:
        from .packaged import load_packaged

        network, tokenizer = load_packaged(kind)
        name = "packaged model"
    elif isinstance(model, tuple):
        network, tokenizer = model
        name = type(network).__name__
    else:
        network, tokenizer = _from_pretrained(str(model), kind)
        name = str(model)
    if device is not None:
        network = network.to(torch.device(device))
    return Model(network.to(kind) if kind is not None else network, tokenizer, name)


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and not (isinstance(found, torch.dtype) and found.is_floating_point):
        raise ModelError(f"{dtype!r} is no floating point type of torch: give float32, bfloat16 or float16")
    return found


def _from_pretrained(name: str, dtype: torch.dtype | None) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)
        return AutoModelForCausalLM.from_pretrained(name, dtype=dtype or "auto", local_files_only=True), tokenizer
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(
            f"the model {name!r} cannot be loaded ({str(error).strip().splitlines()[0]}); give a folder that holds a causal language model "
            "and its tokenizer, the id of a model that was downloaded before (hf download ID), or nothing for the packaged model"
        ) from error
