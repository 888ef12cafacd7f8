"""Tiny random models for tests: real Hugging Face classes, a few thousand weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

__all__ = ["gpt2", "llama"]

torch.set_num_threads(1)  # for weights this small more threads only wait for each other


def gpt2(width: int, seed: int = 0, scale: float = 1.0, positions: int = 256) -> Any:
    """A GPT-2 with ``width`` logits; a bigger ``scale`` gives more peaked distributions."""
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=width, n_positions=positions, n_embd=32, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None)
    return _sharpened(GPT2LMHeadModel(config), scale)


def llama(width: int, seed: int = 0, scale: float = 1.0, positions: int = 256) -> Any:
    """A Llama (rotary positions, grouped keys) with ``width`` logits."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=width,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=False,
    )
    return _sharpened(LlamaForCausalLM(config), scale)


def _sharpened(model: Any, scale: float) -> Any:
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(scale)
    return model.eval()
