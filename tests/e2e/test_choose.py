"""``guided.choose`` on the packaged model against brute force: every tokenisation scored by a forward of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import guided
from guided.inputs import target_of
from guided.prompts import prompt_ids


def segmentations(vocabulary: guided.Vocabulary, text: bytes) -> Iterator[tuple[int, ...]]:
    if not text:
        yield ()
    for token, data in enumerate(vocabulary.tokens):
        if data and vocabulary.is_text(token) and text.startswith(data):
            for rest in segmentations(vocabulary, text[len(data) :]):
                yield token, *rest


@pytest.mark.slow
def test_choose_is_the_sum_over_all_tokenisations(packaged_model: Any) -> None:
    model = guided.load(packaged_model)
    prompt, options = "Is the sky blue? Answer yes or no.", ["Yes", "No", "Yes."]
    ids = prompt_ids(model, prompt, target_of(None), chat=True, instruct=False)
    ends = list(model.vocabulary.eos_token_ids)
    found = guided.choose(model, prompt, options, tolerance=0)
    for option in found:
        total = 0.0
        for way in segmentations(model.vocabulary, option.text.encode()):
            with torch.inference_mode():
                rows = model.model(torch.tensor([[*ids, *way]])).logits[0].double().log_softmax(-1)
            score = sum(float(rows[len(ids) - 1 + i, token]) for i, token in enumerate(way)) + float(rows[-1, ends].logsumexp(0))
            total += math.exp(score)
        assert option.probability == pytest.approx(total, rel=1e-3) and option.missed == 0
        assert option.tokenisations > 1
    shortened = guided.choose(model, prompt, options, tolerance=0.01)
    for option in shortened:
        exact = found[option.text].probability
        assert option.probability <= exact * 1.0001 and exact <= (option.probability + option.missed) * 1.0001
