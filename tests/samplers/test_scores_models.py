"""Scores that ask networks: classifiers with and without a cache, heads on hidden states, judges."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
)

from grammars.errors import ModelError
from samplers import Context, HFModel, TabularModel
from samplers.scores import Candidate, Classifier, Head, Judge
from tests.tiny import llama

WIDTH = 40
END = 39
ENDS = frozenset({END})


def of(*tokens: int, prompt: tuple[int, ...] = (1, 2, 3)) -> Candidate:
    return Candidate.of(prompt, tokens, ends=ENDS)


def classifier(kind: str, labels: int = 3, dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(4)
    common = {"vocab_size": WIDTH, "num_labels": labels, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
    if kind == "llama":
        model = LlamaForSequenceClassification(
            LlamaConfig(
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=128,
                **common,
            )
        )
    elif kind == "gpt2":
        model = GPT2ForSequenceClassification(GPT2Config(n_positions=128, n_embd=32, n_layer=2, n_head=2, **common))
    else:
        config = BertConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, **common)
        model = BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.to(dtype).eval()


def plainly(model: Any, tokens: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([tokens])).logits[0].double()


class Letters:
    """A tokenizer of single letters: ``a`` is 1, ``b`` 2 ...; pads with 0."""

    pad_token_id = 0
    chat_template: str | None = None

    def __call__(self, text: Any, **options: Any) -> Any:
        if isinstance(text, str):
            return {"input_ids": [1 + "abcdefghijklmnopqrstuvwxyz {}".index(c) for c in text]}
        rows = [self(t)["input_ids"] for t in text]
        if options.get("return_tensors") != "pt":
            return {"input_ids": rows}
        size = max(map(len, rows))
        ids = torch.tensor([row + [0] * (size - len(row)) for row in rows])
        return _Entry(input_ids=ids, attention_mask=(ids > 0).long())

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join("abcdefghijklmnopqrstuvwxyz {}"[i - 1] for i in ids if 0 < i < 30)


class _Entry(dict[str, torch.Tensor]):
    def to(self, _: Any) -> _Entry:
        return self


CANDIDATES = [of(5), of(5, 6), of(5, 7), of(5, 6, 8, 9), of(9), of(5, 6), of(5, 6, END)]


# ------------------------------------------------------------ classifiers
@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_classifier_answers_as_the_model_itself(kind: str) -> None:
    model = classifier(kind)
    score = Classifier(model, label=1, read="logit")
    assert score.shares_prefixes == (kind != "bert")
    expected = [float(plainly(model, (1, 2, 3, *(t for t in c.tokens if t != END)))[1]) for c in CANDIDATES]
    assert score.values(CANDIDATES) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert len({round(x, 6) for x in expected}) == 5  # five different texts
    ends = Classifier(model, label=1, read="logit", keep_end=True).values(CANDIDATES[-1:])
    assert ends == pytest.approx([float(plainly(model, (1, 2, 3, 5, 6, END))[1])], rel=1e-6, abs=1e-6) and ends[0] != expected[-1]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_next_tokens_cost_only_themselves(kind: str) -> None:
    score = Classifier(classifier(kind, labels=1))
    usage = score._reader.usage  # type: ignore[union-attr]
    score.values([of(5, 6, 7)])
    before = usage.copy()
    found = score.next_values(of(5, 6, 7), [8, 9, 10, 11])
    assert usage.since(before).tokens == 4 and usage.since(before).forwards == 1
    assert found.tolist() == pytest.approx([float(plainly(score.model, (1, 2, 3, 5, 6, 7, t))[0]) for t in (8, 9, 10, 11)], rel=1e-6)


def test_readings_of_a_classifier() -> None:
    model = classifier("llama")
    model.config.label2id, model.config.id2label = {"sad": 0, "glad": 1, "none": 2}, {0: "sad", 1: "glad", 2: "none"}
    logits = plainly(model, (1, 2, 3, 5))
    probabilities = logits.softmax(-1)
    assert Classifier(model, label="glad").values([of(5)]) == pytest.approx([float(probabilities[1].log())])
    odds = float((probabilities[1] / (1 - probabilities[1])).log())
    assert Classifier(model, label=1, read="log_odds").values([of(5)]) == pytest.approx([odds])
    one = classifier("llama", labels=1)
    logit = float(plainly(one, (1, 2, 3, 5))[0])
    assert Classifier(one).values([of(5)]) == pytest.approx([logit])
    assert Classifier(one, read="log_prob").values([of(5)]) == pytest.approx([-math.log1p(math.exp(-logit))])


def test_what_a_classifier_reads() -> None:
    model = classifier("gpt2")
    assert Classifier(model, with_prompt=False, read="logit").values([of(5, 6)]) == pytest.approx([float(plainly(model, (5, 6))[0])])
    first = Classifier(model, first=[7], read="logit").values([of(5, END)])
    assert first == pytest.approx([float(plainly(model, (7, 1, 2, 3, 5))[0])])
    with pytest.raises(ModelError, match="no tokens"):
        Classifier(model, with_prompt=False).values([of()])
    with pytest.raises(ModelError, match="at least one token"):
        Classifier(classifier("bert"), with_prompt=False).values([of()])


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_classifier_with_a_tokenizer_of_its_own(kind: str) -> None:
    model, letters = classifier(kind), Letters()

    def read(ids: Any) -> str:
        return "".join("zyxwvutsrqponmlkjihgfedcba"[i] for i in ids if i < 26)

    score = Classifier(model, letters, texts=read, label=2, read="logit", batch=2)
    candidates = [of(5), of(5, 6, 7, 8), of(9, 9), of(4)]
    texts = [read((1, 2, 3, *c.tokens)) for c in candidates]
    expected = [float(plainly(model, tuple(letters(t)["input_ids"]))[2]) for t in texts]
    assert score.values(candidates) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    quoted = Classifier(model, letters, texts=read, label=2, read="logit", template=lambda prompt, text: f"{{{prompt}}} {text}")
    ids = tuple(letters(f"{{{read((1, 2, 3))}}} {read((5, 6))}")["input_ids"])
    assert quoted.values([of(5, 6, END)]) == pytest.approx([float(plainly(model, ids)[2])], rel=1e-6, abs=1e-6)
    if kind == "llama":
        usage = score._reader.usage  # type: ignore[union-attr]
        before = usage.copy()
        score.values([of(5, 6, 7, 8, 9)])
        assert usage.since(before).tokens == 1  # the same ids again, but for the last


def test_a_classifier_that_is_more_than_body_and_head_is_read_as_a_whole() -> None:
    class Shifted(GPT2ForSequenceClassification):
        def forward(self, *args: Any, **options: Any) -> Any:
            out = super().forward(*args, **options)
            out.logits = out.logits + 1
            return out

    torch.manual_seed(0)
    model = Shifted(GPT2Config(vocab_size=WIDTH, n_positions=64, n_embd=32, n_layer=2, n_head=2, num_labels=2, pad_token_id=0))
    Shifted.__name__ = "ShiftedForSequenceClassification"
    score = Classifier(model, read="logit")
    assert not score.shares_prefixes
    assert score.values([of(5), of(5, 6)]) == pytest.approx([float(plainly(model, (1, 2, 3, *t))[0]) for t in ((5,), (5, 6))])
    with pytest.raises(ModelError, match="left to right"):
        Classifier(model, share=True)


def test_classifier_refuses() -> None:
    with pytest.raises(ModelError, match="no sequence classification"):
        Classifier(llama(WIDTH))
    model = classifier("gpt2")
    with pytest.raises(ModelError, match="texts"):
        Classifier(model, Letters())
    with pytest.raises(ModelError, match="no label 'happy'"):
        Classifier(model, label="happy")
    with pytest.raises(ModelError, match="no label 3"):
        Classifier(model, label=3)
    with pytest.raises(ValueError, match="batch"):
        Classifier(model, batch=0)
    with pytest.raises(ValueError, match="one of"):
        Classifier(model, read="odds")  # type: ignore[arg-type]


# ------------------------------------------------------------ heads
def hidden(model: HFModel, *tokens: int) -> torch.Tensor:
    return model.hidden([Context(tokens)])[0].double()


def test_head_reads_the_hidden_state_of_the_last_token() -> None:
    model = HFModel(llama(WIDTH))
    weight = torch.randn(32, generator=torch.Generator().manual_seed(0))
    head = Head(model, weight, 0.5)
    expected = [float(hidden(model, 1, 2, 3, *t) @ weight.double() + 0.5) for t in ((5,), (5, 6))]
    assert head.values([of(5), of(5, 6), of(5, 6, END)]) == pytest.approx([*expected, expected[1]])
    assert Head(model, weight, 0.5, "log_sigmoid").values([of(5)]) == pytest.approx([-math.log1p(math.exp(-expected[0]))])
    assert head.next_values(of(5), [6, END]).tolist() == pytest.approx([expected[1], expected[0]])


def labelled(count: int) -> tuple[list[Candidate], list[int]]:
    """Texts of six tokens; the label is whether the last one is even."""
    source = torch.Generator().manual_seed(1)
    texts = [of(*row) for row in torch.randint(4, 38, (count, 6), generator=source).tolist()]
    return texts, [text.tokens[-1] % 2 for text in texts]


def test_head_learns_labels_of_texts() -> None:
    model = HFModel(llama(WIDTH))
    texts, labels = labelled(160)
    for kind in ("ridge", "logistic"):
        head = Head.fit(model, texts[:120], labels[:120], kind=kind, penalty=0.1)  # type: ignore[arg-type]
        border = 0.5 if kind == "ridge" else math.log(0.5)
        right = sum((value > border) == label for value, label in zip(head.values(texts[120:]), labels[120:]))
        assert right >= 32, kind  # of 40; a coin has 32 or more with probability 1e-4


def test_fits_are_optimal() -> None:
    """The gradient of the objective that the docstring names is zero, computed by autograd from the raw states."""
    model = HFModel(llama(WIDTH))
    texts, labels = labelled(40)
    states = model.hidden([c.context for c in texts]).double()
    mean, spread = states.mean(0), states.std(0, correction=0)
    target = torch.tensor(labels, dtype=torch.float64)
    for kind, penalty in (("ridge", 2.0), ("logistic", 0.7)):
        head = Head.fit(model, texts, labels, kind=kind, penalty=penalty)  # type: ignore[arg-type]
        w = (head.weight * spread).requires_grad_()
        b = torch.tensor(head.bias + float(head.weight @ mean), dtype=torch.float64, requires_grad=True)
        scores = (states - mean) / spread @ w + b
        if kind == "ridge":
            loss = ((scores - target) ** 2).sum() / 2
        else:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum")
        (loss + penalty * (w @ w) / 2).backward()
        assert float(w.grad.abs().max()) < 1e-6 and abs(float(b.grad)) < 1e-6, kind  # type: ignore[union-attr,arg-type]


def test_heads_of_prefixes() -> None:
    model = HFModel(llama(WIDTH))
    texts, labels = labelled(30)
    few, all_, none = (Head.fit(model, texts, labels, prefixes=count) for count in (2, None, 0))
    assert not torch.allclose(few.weight, all_.weight) and not torch.allclose(none.weight, few.weight)
    first = Candidate.of((1, 2, 3), texts[0].tokens[:3])
    again = Head.fit(model, [texts[0], first], [1.0, 1.0], kind="logistic")  # one class only: still finite
    assert again.values([texts[0]])[0] > math.log(0.5)


def test_head_refuses() -> None:
    model = HFModel(llama(WIDTH))
    texts, labels = labelled(4)
    for change in ({"labels": labels[:2]}, {"kind": "svm"}, {"penalty": 0.0}, {"prefixes": -1}, {"labels": [2] * 4, "kind": "logistic"}):
        with pytest.raises(ValueError):
            Head.fit(model, texts, **{"labels": labels, **change})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="vector"):
        Head(model, torch.zeros(2, 2))
    with pytest.raises(ValueError, match="link"):
        Head(model, torch.zeros(2), link="tanh")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="2 weights"):
        Head(model, torch.zeros(2)).values([of(5)])
    with pytest.raises(ModelError, match="no hidden states"):
        Head(TabularModel.random(5, 3, 1), torch.zeros(2)).values([Candidate.of((1,), (2,))])


# ------------------------------------------------------------ judges
def test_judge_is_the_log_odds_of_its_answers() -> None:
    model, letters = HFModel(llama(WIDTH, scale=3.0)), Letters()
    judge = Judge(model, letters, "{prompt} is {text} ok", yes=("yes", "ja"), no=("no",))
    question = "abc is ef ok"
    assert judge.message(of(5, 6, END)) == question

    def log_prob(answer: str) -> float:
        ids = letters(question)["input_ids"]
        return float(model.score(Context(ids), [letters(" " + answer)["input_ids"]])[0].sum())

    expected = math.log(math.exp(log_prob("yes")) + math.exp(log_prob("ja"))) - log_prob("no")
    found = judge.values([of(5, 6), of(5, 6, END), of(7)])
    assert found[0] == pytest.approx(expected) and found[1] == pytest.approx(expected) and found[2] != pytest.approx(expected)


def test_judge_batches_and_leaves_quoted_places_alone() -> None:
    model = HFModel(llama(WIDTH))
    judge = Judge(model, Letters(), "{text} or {prompt}", yes=("y",), no=("n",), texts=lambda ids: "{prompt}" if 5 in ids else "z")
    assert judge.message(of(5)) == "{prompt} or z"
    many = [of(a, b) for a in range(6, 9) for b in range(6, 9)]
    assert judge.values(many) == pytest.approx([judge.values([c])[0] for c in many]) and len(judge.values([])) == 0


def test_judge_in_a_chat_template() -> None:
    class Chat(Letters):
        chat_template = "yes"

        def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
            return " ".join(f"{{{m['role'][0]} {m['content']}}}" for m in messages)

    model, letters = HFModel(llama(WIDTH)), Chat()
    judge = Judge(model, letters, "rate {text}", yes=("y",), no=("n",), system="judge")
    row = model.next_logprobs([Context(letters("{s judge} {u rate e}")["input_ids"])])[0]
    assert judge.values([of(5)])[0] == pytest.approx(float(row[25] - row[14]))


def test_an_answer_that_begins_with_another_counts_once() -> None:
    judge = Judge(HFModel(llama(WIDTH)), Letters(), "{text}", yes=("y", "yes", "y"), no=("n", "no"))
    assert len(judge.yes) == len(judge.no) == 1


def test_judge_refuses() -> None:
    model = HFModel(llama(WIDTH))
    with pytest.raises(ModelError, match="where the text stands"):
        Judge(model, Letters(), "is it good")
    with pytest.raises(ModelError, match="differ"):
        Judge(model, Letters(), "{text}", yes=("y",), no=("y", "n"))
    with pytest.raises(ModelError, match="differ"):
        Judge(model, Letters(), "{text}", yes=("y",), no=())
