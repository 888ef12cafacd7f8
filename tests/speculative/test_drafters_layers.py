"""Drafting with some of the target's own layers."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from grammars.errors import ModelError
from samplers.masked import Request
from samplers.models import HFModel
from samplers.sampling import Settings
from speculative.decode import decode
from speculative.drafters import LayerSkipDrafter, SwiftDrafter
from speculative.drafters.layers import first_layers, without
from speculative.drafters.skips import SkipSearch
from speculative.shapes import Branches, Chain
from speculative.verifiers import Greedy, Matching
from tests.tiny import gpt2

WIDTH = 24
IDS = torch.tensor([[1, 5, 2, 9, 14, 3, 3, 8]])


def network(kind: str = "llama", layers: int = 5) -> Any:
    torch.manual_seed(3)
    shape: dict[str, Any] = {
        "vocab_size": WIDTH,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=8, layer_types=["full_attention"] * layers)).eval()
    model = LlamaForCausalLM(LlamaConfig(**shape)).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(8)
    return model


def by_hand(model: Any, attention: set[int], mlp: set[int]) -> torch.Tensor:
    """The logits of a model whose sublayers add nothing, by hooks that take out what they add."""
    hooks = []
    for i, layer in enumerate(model.model.layers):
        if i in attention:
            hooks.append(layer.self_attn.register_forward_hook(lambda m, a, out: (torch.zeros_like(out[0]), *out[1:])))
        if i in mlp:
            hooks.append(layer.mlp.register_forward_hook(lambda m, a, out: torch.zeros_like(out)))
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=IDS, use_cache=False).logits
    for hook in hooks:
        hook.remove()
    return logits


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize(
    ("attention", "mlp"), [({1, 3}, {1, 3}), ({2}, {1, 2}), ({1, 2, 3}, set()), (set(), {3, 4}), ({2, 3, 4}, {2, 3, 4})]
)
def test_what_is_left_is_the_model_without_these_sublayers(kind: str, attention: set[int], mlp: set[int]) -> None:
    model = network(kind)
    whole = by_hand(model, set(), set())
    part = without(model, attention, mlp)
    expected = by_hand(model, attention, mlp)
    with torch.inference_mode():
        assert torch.allclose(part(input_ids=IDS, use_cache=False).logits, expected, atol=1e-4)
    # in small steps, with a cache and branches
    wrapped = HFModel(part, eos_token_ids=[0])
    tokens = IDS[0].tolist()
    contexts = [wrapped.context(tokens[:k]) for k in range(1, 9)]
    for some in (contexts[:2], contexts[2:3], contexts[3:]):
        found = wrapped.next_logits(some)
        assert torch.allclose(found, expected[0, [c.length - 1 for c in some]], atol=1e-4)
    assert torch.equal(by_hand(model, set(), set()), whole), "the model itself is as it was"
    own = {p.data_ptr() for p in model.parameters()}
    assert {p.data_ptr() for p in part.parameters()} <= own


def test_first_layers() -> None:
    model = network()
    with torch.inference_mode():
        found = first_layers(model, 2)(input_ids=IDS, use_cache=False).logits
    assert torch.allclose(found, by_hand(model, {2, 3, 4}, {2, 3, 4}), atol=1e-4)
    for count in (0, 6):
        with pytest.raises(ValueError):
            first_layers(model, count)
    with pytest.raises(ModelError):
        first_layers(gpt2(WIDTH), 1)
    with pytest.raises(ValueError):
        without(model, range(5), range(5))


def written(
    model: HFModel, drafter: Any, verifier: Any, shape: Any, temperature: float = 0.0, tokens: int = 40
) -> tuple[list[int], int, int]:
    """The text, and how many tokens were drafted and accepted."""
    found: list[int] = []
    accepted = drafted = 0
    requests = [Request((1, 5, 2), None, tokens, 5)]
    for step in decode(model, requests, drafter, verifier=verifier, shape=shape, settings=Settings(temperature)):
        found += [one.token for one in step]
        drafted += step.rows[0].drafted
        accepted += step.rows[0].accepted
    return found, drafted, accepted


def plain(model: HFModel, temperature: float = 0.0) -> list[int]:
    class Nothing:
        name = "nothing"
        begin = observe = end = lambda *a: None

        def draft(self, places: Any, shapes: Any, step: Any, generators: Any) -> Any:
            from speculative.tree import DraftTree

            return [DraftTree(p, r) for p, r in zip(places, step.rules)]

    return written(model, Nothing(), Greedy() if not temperature else Matching(), Chain(1), temperature)[0]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_layer_skip_writes_the_same_text(temperature: float) -> None:
    model = HFModel(network(), eos_token_ids=[0])
    verifier = Matching() if temperature else Greedy()
    text, drafted, accepted = written(model, LayerSkipDrafter(model, 4), verifier, Branches(2, 1, 1), temperature)
    assert text == plain(model, temperature)
    assert 0 < accepted <= drafted


def test_all_layers_draft_the_text_itself() -> None:
    model = HFModel(network(), eos_token_ids=[0])
    _, drafted, accepted = written(model, LayerSkipDrafter(model, 5), Greedy(), Chain(4))
    assert accepted == drafted > 0


def test_swift_writes_the_same_text_and_finds_better_skips() -> None:
    model = HFModel(network(), eos_token_ids=[0])
    drafter = SwiftDrafter(model, ratio=0.4, window=8, context=24, trials=20, bayes=4, good=1.0)
    text, _, _ = written(model, drafter, Greedy(), Chain(3), tokens=60)
    assert text == written(model, LayerSkipDrafter(model, 5), Greedy(), Chain(4), tokens=60)[0]
    scores = [score for _, score in drafter.search.tried]
    assert 2 <= len(scores) <= 20
    assert drafter.search.best_score == max(scores) >= scores[0]
    assert drafter.skipped == max(drafter.search.tried, key=lambda pair: pair[1])[0]
    assert all(sum(choice) == 2 for choice, _ in drafter.search.tried)


def test_swift_refuses_what_it_cannot_skip() -> None:
    with pytest.raises(ValueError):
        SwiftDrafter(HFModel(network(layers=2), eos_token_ids=[0]))
    with pytest.raises(ModelError):
        SwiftDrafter(HFModel(gpt2(WIDTH), eos_token_ids=[0]))


def test_bayesian_proposals_beat_random_ones() -> None:
    """Of a score that is the number of good sublayers skipped, the search with proposals finds more, over 30 seeds."""

    def best(every: int, seed: int) -> float:
        search = SkipSearch(24, 10, every, random.Random(seed))
        choice = search.spread()
        for _ in range(40):
            search.note(choice, sum(choice[:10]) / 10)
            choice = search.propose()
        return search.best_score

    bayes = sum(best(2, seed) for seed in range(30))
    chance = sum(best(10_000, seed) for seed in range(30))
    assert bayes > chance + 1


def test_a_search_begins_evenly_spread() -> None:
    choice = SkipSearch(10, 4, 5, random.Random(0)).spread()
    assert sum(choice) == 4 and not any(choice[i] and choice[i + 1] for i in range(9))
