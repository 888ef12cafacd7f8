"""One step: what is drawn, with which probabilities, and what is reported about it."""

from __future__ import annotations

import math

import pytest
import torch

from samplers.sampling import Settings, choose

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -30.0]])
PROBS = LOGITS.double().softmax(-1)[0]


def draws(settings: Settings, allowed: list[bool] | None, points: int = 20_000) -> torch.Tensor:
    """Frequencies over evenly spaced uniforms: the law itself, up to the grid."""
    uniforms = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    mask = None if allowed is None else torch.tensor([allowed]).expand(points, -1)
    drawn = choose(LOGITS.expand(points, -1), mask, uniforms, settings)
    return torch.bincount(drawn.tokens, minlength=5).double() / points


def renormalised(keep: list[int], temperature: float = 1.0) -> torch.Tensor:
    scores = torch.full((5,), float("-inf"), dtype=torch.float64)
    scores[keep] = LOGITS[0, keep].double() / temperature
    return scores.softmax(-1)


@pytest.mark.parametrize(
    ("settings", "allowed", "law"),
    [
        (Settings(), None, PROBS),
        (Settings(), [True, False, True, True, False], renormalised([0, 2, 3])),
        (Settings(temperature=2.5), [False, True, True, True, True], renormalised([1, 2, 3, 4], 2.5)),
        (Settings(top_k=2), None, renormalised([0, 1])),
        (Settings(top_k=2), [False, True, False, True, True], renormalised([1, 3])),
        (Settings(top_k=99), None, PROBS),
        (Settings(top_p=0.5), None, renormalised([0])),
        (Settings(top_p=0.7), None, renormalised([0, 1])),
        (Settings(top_p=0.7), [False, True, True, True, False], renormalised([1, 2])),
        (Settings(top_p=1.0), None, PROBS),
        (Settings(temperature=0), [False, False, True, True, True], renormalised([2])),
    ],
)
def test_the_law_of_a_step(settings: Settings, allowed: list[bool] | None, law: torch.Tensor) -> None:
    assert torch.allclose(draws(settings, allowed), law, atol=2e-4)


def test_what_is_reported() -> None:
    allowed = torch.tensor([[False, True, True, False, False]])
    drawn = choose(LOGITS, allowed, torch.tensor([0.1], dtype=torch.float64), Settings())
    assert drawn.tokens.tolist() == [1]
    assert drawn.logprobs.item() == pytest.approx(math.log(PROBS[1]))
    assert drawn.log_kept.item() == pytest.approx(math.log(PROBS[1] + PROBS[2]))
    warm = choose(LOGITS, allowed, torch.tensor([0.1], dtype=torch.float64), Settings(temperature=3.0))
    third = (LOGITS.double() / 3).softmax(-1)[0]
    assert warm.log_kept.item() == pytest.approx(math.log(third[1] + third[2]))
    assert warm.logprobs.item() == pytest.approx(math.log(PROBS[1])), "of the model itself, whatever the temperature"
    assert choose(LOGITS, None, torch.zeros(1).double(), Settings()).log_kept.item() == 0


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
def test_no_uniform_leads_to_a_forbidden_token(uniform: float) -> None:
    width = 50_000
    logits = torch.randn((1, width), generator=torch.Generator().manual_seed(0))
    allowed = torch.zeros((1, width), dtype=torch.bool)
    allowed[0, [7, 40_000]] = True
    token = choose(logits, allowed, torch.tensor([uniform], dtype=torch.float64), Settings()).tokens.item()
    assert token in (7, 40_000)


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"temperature": float("nan")}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_settings_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]
