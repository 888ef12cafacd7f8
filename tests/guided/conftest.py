"""A tiny random model with a real tokenizer, for everything that only has to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guided import Model, load
from tests import tiny, tokenizers

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</{{ m['role'] }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make(chat: bool) -> tuple[Any, Any]:
    tokenizer = tokenizers.gpt2()
    tokenizer.chat_template = TEMPLATE if chat else None
    network = tiny.llama(len(tokenizer) + 13, seed=1, scale=6.0, positions=2048)
    network.generation_config.eos_token_id = tokenizer.eos_token_id
    return network, tokenizer


@pytest.fixture(scope="session")
def chat_model() -> Model:
    return load(make(True))


@pytest.fixture(scope="session")
def plain_model() -> Model:
    return load(make(False))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint on disk."""
    folder = tmp_path_factory.mktemp("tiny-model")
    network, tokenizer = make(True)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
