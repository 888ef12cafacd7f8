"""On the packaged model: greedy texts with every draft are token for token those of plain greedy decoding."""

from __future__ import annotations

from typing import Any

import pytest

import guided
from guided.drafting import DRAFTS

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 40},
        "year": {"type": "integer", "minimum": 1500, "maximum": 2100},
        "kind": {"enum": ["novel", "poem", "play"]},
    },
    "required": ["title", "year", "kind"],
    "additionalProperties": False,
}
PROMPTS = ["Pride and Prejudice, a novel of 1813.", "Say three times: the sea is blue."]


@pytest.mark.slow
@pytest.mark.parametrize("draft", DRAFTS)
def test_greedy_texts_are_the_same(packaged_model: Any, draft: str) -> None:
    model = guided.load(packaged_model)
    for constraint in (None, SCHEMA):
        options: dict[str, Any] = {"max_tokens": 40, "temperature": 0.0, "seed": 0}
        plain = guided.generate(model, PROMPTS, constraint, **options)
        drafted = guided.generate(model, PROMPTS, constraint, draft=draft, **options)
        assert [r.tokens for r in drafted] == [r.tokens for r in plain]
