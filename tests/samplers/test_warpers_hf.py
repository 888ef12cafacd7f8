"""Warpers against the ones of transformers that are meant to do the same: equal kept sets, equal scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LogitsProcessorList
from transformers.generation import logits_process as hf

from samplers.models import HFModel
from samplers.warpers import (
    ClassifierFreeGuidance,
    EpsilonCutoff,
    EtaCutoff,
    MinP,
    NoRepeatNGram,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from tests import tiny

WIDTH = 97
PAIRS: dict[str, tuple[Any, Any]] = {
    "temperature": (Temperature(0.6), hf.TemperatureLogitsWarper(0.6)),
    "top-k": (TopK(7), hf.TopKLogitsWarper(7)),
    "top-k beyond the width": (TopK(999), hf.TopKLogitsWarper(999)),
    "top-p": (TopP(0.8), hf.TopPLogitsWarper(0.8)),
    "top-p small": (TopP(0.01), hf.TopPLogitsWarper(0.01)),
    "min-p": (MinP(0.07), hf.MinPLogitsWarper(0.07)),
    "typical": (Typical(0.7), hf.TypicalLogitsWarper(0.7)),
    "epsilon": (EpsilonCutoff(0.01), hf.EpsilonLogitsWarper(0.01)),
    "eta": (EtaCutoff(0.02), hf.EtaLogitsWarper(0.02)),
    "repetition": (RepetitionPenalty(1.7), hf.RepetitionPenaltyLogitsProcessor(1.7)),
    "no unigram twice": (NoRepeatNGram(1), hf.NoRepeatNGramLogitsProcessor(1)),
    "no bigram twice": (NoRepeatNGram(2), hf.NoRepeatNGramLogitsProcessor(2)),
    "no trigram twice": (NoRepeatNGram(3), hf.NoRepeatNGramLogitsProcessor(3)),
}


def random_step(seed: int, masked: bool) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 12, (5, 40), generator=generator)  # few ids, so that n-grams repeat
    scores = 3 * torch.randn((5, WIDTH), generator=generator)
    if masked:
        scores = scores.masked_fill(torch.rand(scores.shape, generator=generator) < 0.4, float("-inf"))
    return ids, scores


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_as_in_transformers(name: str, masked: bool) -> None:
    ours, theirs = PAIRS[name]
    changed = False
    for seed in range(20):
        ids, scores = random_step(seed, masked)
        given = scores.clone()
        out = ours(ids, scores)
        assert torch.equal(scores, given), "the scores that came in are left as they were"
        torch.testing.assert_close(out, theirs(ids, scores.clone()))
        changed = changed or not torch.equal(out, scores)
    assert changed or "beyond" in name


def test_in_generate() -> None:
    """The same greedy and sampled texts from ``generate``, with its own processors and with these."""
    model = tiny.gpt2(WIDTH, seed=1, scale=6.0)
    prompt = torch.randint(3, WIDTH, (3, 6), generator=torch.Generator().manual_seed(0))

    def run(processors: list[Any], sample: bool) -> list[list[int]]:
        torch.manual_seed(3)
        out = model.generate(
            prompt, logits_processor=LogitsProcessorList(processors), max_new_tokens=12, do_sample=sample, top_k=0, pad_token_id=0
        )
        return out.tolist()

    for sample in (False, True):
        ours = run([RepetitionPenalty(1.4), NoRepeatNGram(2), Temperature(0.8), TopP(0.9)], sample)
        theirs = run(
            [
                hf.RepetitionPenaltyLogitsProcessor(1.4),
                hf.NoRepeatNGramLogitsProcessor(2),
                hf.TemperatureLogitsWarper(0.8),
                hf.TopPLogitsWarper(0.9),
            ],
            sample,
        )
        assert ours == theirs


@pytest.mark.parametrize("negative", [None, [5, 6, 7]])
def test_classifier_free_guidance_as_in_transformers(negative: list[int] | None) -> None:
    model = tiny.llama(WIDTH, seed=2, scale=4.0)
    prompt = torch.tensor([[11, 12, 13, 14]])
    theirs = hf.UnbatchedClassifierFreeGuidanceLogitsProcessor(
        1.8, model, unconditional_ids=None if negative is None else torch.tensor([negative]), use_cache=False
    )
    ours = ClassifierFreeGuidance(HFModel(model), 1.8, negative=negative)
    ids = prompt
    for _ in range(5):
        with torch.inference_mode():
            scores = model(ids).logits[:, -1]
        out = ours(ids, scores)
        torch.testing.assert_close(out, theirs(ids, scores), rtol=1e-4, atol=1e-4)
        ids = torch.cat([ids, out.argmax(-1, keepdim=True)], dim=-1)
