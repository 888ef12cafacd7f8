"""HFModel against forwards over whole sequences without a cache: architectures, forks, ragged batches, bounds, what it costs."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import transformers

from grammars.errors import ModelError
from samplers.models import Context, Counting, HFModel, LanguageModel
from tests import tiny

WIDTH = 40
SMALL: dict[str, Any] = {
    "vocab_size": WIDTH,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5}


def make(name: str, attention: str | None = None, scale: float = 3.0, config: str | None = None, **options: Any) -> Any:
    torch.manual_seed(0)
    settings = getattr(transformers, config or f"{name}Config")(**{**SMALL, **options})
    if attention is not None:
        settings._attn_implementation = attention
    model = getattr(transformers, f"{name}ForCausalLM")(settings).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)  # as they are initialised, tiny models hardly look at their context
    return model


ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "llama": lambda: make("Llama"),
    "llama eager": lambda: make("Llama", "eager"),
    "gpt2": lambda: tiny.gpt2(WIDTH, scale=3),
    "mistral": lambda: make("Mistral", sliding_window=None),
    "mistral, sliding window": lambda: make("Mistral", sliding_window=5),
    "qwen2": lambda: make("Qwen2"),
    "qwen2, sliding layers": lambda: make("Qwen2", use_sliding_window=True, max_window_layers=1, sliding_window=5),
    "qwen3": lambda: make("Qwen3"),
    "gemma2": lambda: make("Gemma2", **MIXED),
    "gemma3": lambda: make("Gemma3", config="Gemma3TextConfig", **MIXED),
    "gpt-oss": lambda: make("GptOss", num_local_experts=2, num_experts_per_tok=1, **MIXED),
    "phi3": lambda: make("Phi3", sliding_window=6),
    "olmo2": lambda: make("Olmo2"),
}
WHOLE: dict[str, Callable[[], Any]] = {
    "gpt-neo, local attention of its own": lambda: make(
        "GPTNeo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=5
    ),
    "bloom, biases by distance": lambda: make("Bloom", n_layer=2, n_head=4),
    "mamba, a state": lambda: make("Mamba", state_size=4, scale=1.5),
    "qwen3-next, linear attention": lambda: make(
        "Qwen3Next",
        layer_types=["linear_attention", "full_attention"],
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
    ),
}


@torch.inference_mode()
def whole(model: Any, tokens: Sequence[int]) -> torch.Tensor:
    return model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0].double().log_softmax(-1)


def steps(seed: int, count: int = 12) -> Iterator[list[Context]]:
    """Batches as samplers make them: a prompt, particles that grow, are resampled, end, get blocks of tokens; and other prompts."""
    rng = random.Random(seed)
    token = lambda: rng.randrange(WIDTH)
    prompt = Context([token() for _ in range(13)])
    rows = [prompt] * 4
    yield [prompt]
    for _ in range(count):
        kind = rng.random()
        if kind < 0.6:
            rows = [row.extend(token()) for row in rows]
        elif kind < 0.75:
            rows = [rng.choice(rows).extend(token()) for _ in range(rng.randrange(1, 7))]
        elif kind < 0.9:
            rows = [row.extend([token() for _ in range(rng.randrange(1, 9))]) for row in rows]
        else:
            rows = [*rows, Context([token() for _ in range(rng.randrange(1, 30))])]
        yield rows


def check(model: Any, asked: HFModel, contexts: Sequence[Context], tolerance: float = 1e-4) -> None:
    found = asked.next_logprobs(contexts)
    assert found.dtype == torch.float64 and found.shape == (len(contexts), WIDTH)
    for row, context in zip(found, contexts):
        assert torch.allclose(row, whole(model, context.tokens)[-1], atol=tolerance)


@pytest.fixture(scope="module")
def llama() -> Any:
    return make("Llama")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_answers_are_those_of_whole_forwards(name: str) -> None:
    network = ARCHITECTURES[name]()
    model = HFModel(network)
    assert isinstance(model, LanguageModel) and model.shares_prefixes and model.width == WIDTH
    for contexts in steps(1):
        check(network, model, contexts)


@pytest.mark.parametrize("name", WHOLE)
def test_other_architectures_are_evaluated_as_a_whole(name: str) -> None:
    network = WHOLE[name]()
    model = HFModel(network)
    assert not model.shares_prefixes
    for contexts in steps(2, 4):
        check(network, model, contexts)
    context = Context([1, 2, 3])
    expected = whole(network, [1, 2, 3, 4, 5])
    (first, none, second) = model.score(context, [[4, 5], [], [6]])
    assert torch.allclose(first, expected[[2, 3], [4, 5]], atol=1e-4) and torch.allclose(second, expected[2, 6], atol=1e-4)
    assert none.shape == (0,)
    assert model.hidden([context, Context([7])]).shape[0] == 2
    forwards = model.usage.forwards
    model.next_logprobs([context, Context([7])])
    assert model.usage.forwards == forwards


def test_a_model_that_ignores_masks_is_found_out(llama: Any) -> None:
    class Careless(type(llama)):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            mask = kwargs.get("attention_mask")
            if mask is not None and mask.ndim == 4:
                kwargs["attention_mask"] = torch.ones_like(mask)
            return super().forward(*args, **kwargs)

    careless = make("Llama")
    careless.__class__ = Careless
    Careless.forward.__signature__ = inspect.signature(type(llama).forward)  # type: ignore[attr-defined]
    careless.config.model_type = "careless"
    model = HFModel(careless)
    assert not model.shares_prefixes
    check(careless, model, [Context([1, 2, 3]), Context([1, 2, 4, 5])])


def test_each_token_is_evaluated_once(llama: Any) -> None:
    model = HFModel(llama)
    prompt = model.context(range(20))
    rows = [prompt.extend(i % 3) for i in range(6)]
    model.next_logprobs(rows)
    assert (model.usage.forwards, model.usage.rows, model.usage.tokens, model.usage.hits) == (1, 3, 23, 3)
    assert model.usage.prefix_hits == 2 * 20
    model.next_logprobs(rows)
    assert (model.usage.forwards, model.usage.hits) == (1, 9)
    model.next_logprobs([row.extend(7) for row in rows])
    assert (model.usage.forwards, model.usage.tokens) == (2, 26)
    model.next_logprobs([prompt])  # its states are there, its logits are not
    assert (model.usage.forwards, model.usage.tokens, model.cached_tokens) == (3, 27, 26)
    counting = Counting(model)
    counting.next_logprobs([Context([*range(20), 1]), Context([*range(20), 1, 7, 8])])
    assert (counting.forwards, counting.rows, counting.tokens, counting.hits, counting.prefix_hits) == (1, 1, 1, 1, 22)
    model.clear()
    assert model.cached_tokens == 0
    check(llama, model, rows)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_scores_are_those_of_whole_forwards(name: str) -> None:
    network = ARCHITECTURES[name]()
    model = HFModel(network)
    context = model.context([3, 1, 4, 1, 5, 9])
    options = [[2, 6, 5], [2, 6, 7, 8], [2], [], [9] * 20, [2, 6, 5]]
    for _ in range(2):
        scores = model.score(context, options)
        for option, score in zip(options, scores):
            rows = whole(network, [*context.tokens, *option])[len(context) - 1 : -1]
            assert score.dtype == torch.float64 and score.shape == (len(option),)
            assert torch.allclose(score, rows[torch.arange(len(option)), option], atol=1e-4)
    assert model.usage.forwards == 2
    check(network, model, [context.extend([2, 6]), context.extend([9, 9, 9])])
    model.score(context.extend([2, 6]), [[1], [2]])
    assert model.usage.forwards == 3  # the check's; the last scores were known


def test_the_end_of_a_context_is_known_after_scoring(llama: Any) -> None:
    model = HFModel(llama)
    context = model.context([1, 2, 3])
    model.score(context, [[4, 5], [6]])
    check(llama, model, [context])
    assert model.usage.forwards == 1 and model.usage.tokens == 4


def test_hidden_states(llama: Any) -> None:
    model = HFModel(llama)
    contexts = [model.context([1, 2, 3]), model.context([1, 2, 4, 5])]
    model.next_logprobs(contexts)
    found = model.hidden([*contexts, contexts[0]])
    for row, context in zip(found, [*contexts, contexts[0]]):
        out = llama(input_ids=torch.tensor([context.tokens]), output_hidden_states=True)
        assert torch.allclose(row, out.hidden_states[-1][0, -1], atol=1e-4)
        assert torch.allclose(llama.lm_head(row), out.logits[0, -1], atol=1e-4)
    forwards = model.usage.forwards
    longer = [context.extend(6) for context in contexts]
    model.next_logprobs(longer)
    model.hidden(longer)
    assert model.usage.forwards == forwards + 1
    assert model.hidden([]).shape[0] == 0 and model.next_logprobs([]).shape == (0, WIDTH)


@pytest.mark.parametrize("bound", [1, 8, 30, 64])
def test_the_cache_is_bounded(llama: Any, bound: int) -> None:
    model = HFModel(llama, max_cache_tokens=bound, max_logits_bytes=3 * 4 * WIDTH)
    for seed in (3, 4):
        for contexts in steps(seed):
            check(llama, model, contexts)
            assert model.cached_tokens <= bound
    scores = model.score(Context([1, 2, 3]), [[i] * 10 for i in range(8)])
    assert model.cached_tokens <= bound
    for i, score in enumerate(scores):
        assert torch.allclose(score, whole(llama, [1, 2, 3, *[i] * 10])[2:-1, i], atol=1e-4)


def test_bytes_bound_the_cache_too(llama: Any) -> None:
    of_a_token = 2 * 2 * 2 * 8 * 4  # layers, keys and values, heads, size, float32
    model = HFModel(llama, max_cache_bytes=50 * of_a_token)
    for start in range(10):
        check(llama, model, [Context([start] * 20)])
        assert model.cached_tokens <= 50
    forwards = model.usage.tokens
    check(llama, model, [Context([9] * 20)])
    assert model.usage.tokens == forwards


def test_prefixes_that_were_not_used_for_longest_are_forgotten(llama: Any) -> None:
    model = HFModel(llama, max_cache_tokens=40)
    prompts = [Context([i] * 15) for i in range(3)]
    for prompt in (prompts[0], prompts[1], prompts[0].extend(5), prompts[2]):
        model.next_logprobs([prompt])
    before = model.usage.tokens
    model.next_logprobs([prompts[0].extend(6)])
    assert model.usage.tokens == before + 1
    model.next_logprobs([prompts[1].extend(6)])
    assert model.usage.tokens > before + 2


@pytest.mark.parametrize("name", ["llama", "mistral, sliding window"])
def test_many_prompts_at_once(name: str) -> None:
    """Windows of which each row needs little: every row reads slots of its own choice."""
    network = ARCHITECTURES[name]()
    model = HFModel(network)
    rng = random.Random(0)
    rows = [Context([rng.randrange(WIDTH) for _ in range(80 + 10 * i)]) for i in range(8)]
    check(network, model, rows)
    for _ in range(3):
        rows = [row.extend(rng.randrange(WIDTH)) for row in rows]
        check(network, model, rows)
    check(network, model, [row.extend(3) for row in rows[3:5]])


def test_large_plans_take_several_forwards(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from samplers.models import network

    monkeypatch.setattr(network, "_CELLS", 1)
    monkeypatch.setattr(network, "_LOGITS", 3 * WIDTH)
    model = HFModel(llama)
    check(llama, model, [Context(range(30)), Context([*range(25), 0, 1, 2]), Context([1] * 40)])
    assert model.usage.forwards > 3
    (score,) = model.score(Context([5]), [list(range(20))])
    assert torch.allclose(score, whole(llama, [5, *range(20)])[torch.arange(20), torch.arange(20)], atol=1e-4)


def test_what_cannot_be_asked_is_refused(llama: Any) -> None:
    model = HFModel(llama)
    known = model.context([1, 2])
    for context, message in (([], "no tokens"), ([WIDTH], "no token id"), ([-1], "no token id"), ([1] * 257, "takes 256")):
        with pytest.raises(ModelError, match=message):
            model.next_logprobs([known, model.context(context)])
        check(llama, model, [known])
    with pytest.raises(ModelError, match="no token id"):
        model.score(known, [[WIDTH]])
    with pytest.raises(ModelError, match="no tokens"):
        model.score(Context(), [[1]])
    with pytest.raises(ValueError, match="above 0"):
        HFModel(llama, max_cache_tokens=0)


def test_the_same_calls_give_the_same_bits(llama: Any) -> None:
    runs = []
    for _ in range(2):
        model = HFModel(llama)
        runs.append([model.next_logprobs(contexts) for contexts in steps(6)])
    assert all(torch.equal(a, b) for a, b in zip(*runs))


def test_an_answer_is_the_callers(llama: Any) -> None:
    model = HFModel(llama)
    context = model.context([1, 2])
    model.next_logprobs([context]).fill_(0)
    model.hidden([context]).fill_(0)
    check(llama, model, [context])


def test_a_failing_forward_leaves_nothing_behind(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = HFModel(llama)
    check(llama, model, [Context([1, 2, 3])])
    with monkeypatch.context() as patch:
        patch.setattr(llama.model.layers[1], "forward", lambda *a, **k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.next_logprobs([Context([1, 2, 3, 4])])
    check(llama, model, [Context([1, 2, 3, 4])])


def test_end_tokens() -> None:
    network = make("Llama")
    assert HFModel(network).eos_token_ids == () and HFModel(network, eos_token_ids=[3]).eos_token_ids == (3,)
    network.generation_config.eos_token_id = [1, 2]
    assert HFModel(network).eos_token_ids == (1, 2)


def test_half_precision() -> None:
    network = make("Llama").to(torch.bfloat16)
    model = HFModel(network)
    rows = model.next_logprobs([Context([1, 2, 3]), Context([1, 2, 3, 4, 5])])
    assert rows.dtype == torch.float64 and torch.allclose(rows.exp().sum(-1), torch.ones(2, dtype=torch.float64))
    assert float((rows[1].exp() - whole(network, [1, 2, 3, 4, 5])[-1].exp()).abs().sum()) < 0.1


def test_the_packaged_model(packaged_model: Any) -> None:
    network, _ = packaged_model
    model = HFModel(network)
    prompt = model.context(range(100, 130))
    rows = [prompt.extend([i, 7]) for i in (5, 6, 5)]
    found = model.next_logprobs([prompt, *rows])
    assert (model.usage.forwards, model.usage.tokens) == (1, 34)
    assert torch.allclose(found[0], whole(network, prompt.tokens)[-1], atol=1e-3)
    found = model.next_logprobs([row.extend(9) for row in rows])
    assert (model.usage.forwards, model.usage.tokens) == (2, 36)
    assert torch.allclose(found[1], whole(network, [*prompt.tokens, 6, 7, 9])[-1], atol=1e-3)
    assert torch.equal(found[0], found[2])
