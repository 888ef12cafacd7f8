"""The benchmarks of batches and of starting: what is run is right, whatever the times are."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from grammars import Vocabulary
from grammars.errors import GuidedError
from guided.evaluation import batch_report, batches, start
from guided.evaluation.suites import Case, Instance
from guided.evaluation.tokenizers import Tokens, load_tokens
from guided.model import Model
from tests import tiny

NUMBERS = {"type": "array", "items": {"type": "integer"}}
CASES = [
    Case("numbers", "x", NUMBERS, (Instance("no", False), Instance([12, 345, 6789, 1000000], True))),
    Case("word", "x", {"enum": ["a rather long word", "x"]}, (Instance("a rather long word", True),)),
    Case("short", "x", NUMBERS, (Instance([1], True),)),
    Case("invalid only", "x", NUMBERS, (Instance("no valid instance here", False),)),
    Case("refused", "x", {"$ref": "elsewhere.json"}, (Instance("a rather long word", True),)),
    Case("mislabelled", "x", {"type": "integer"}, (Instance("a rather long word", True),)),
]


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return load_tokens("bytes")


def test_texts_are_valid_instances_of_some_length(tokens: Tokens) -> None:
    texts = batches.texts_of(CASES, tokens)
    assert [text.schema for text in texts] == [CASES[i].schema for i in (0, 1, 4, 5)]
    assert json.loads(bytes(texts[0].tokens)) == [12, 345, 6789, 1000000]


@pytest.mark.parametrize("size", [1, 3])
def test_fills_go_through_the_texts(tokens: Tokens, size: int) -> None:
    texts = batches.texts_of(CASES, tokens)
    clock = iter(range(10**9, 10**12, 1000))
    rows = list(batches.fills(texts, tokens, ["guided"], size, steps=40, clock=lambda: next(clock)))
    assert [(row["engine"], row["pass"]) for row in rows] == [
        (engine, which) for which in ("cold", "warm") for engine in ("guided, rows", "guided, table")
    ]
    for row in rows:
        assert row["batch"] == size and row["fill_us"] == row["advance_us"] == [1.0] * 40
        assert row["schemas"] == 2, "one is refused, one does not take its text"


def test_a_mask_without_the_next_token_is_noticed(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches.GuidedBatch, "fill", lambda self: self.rows.fill(0))
    with pytest.raises(GuidedError, match="lacks the token that comes next"):
        list(batches.fills(batches.texts_of(CASES, tokens), tokens, ["guided"], 2, steps=2))


def test_what_fills_refuses(tokens: Tokens) -> None:
    with pytest.raises(GuidedError, match="no engine 'nobody'"):
        list(batches.fills([], tokens, ["nobody"], 1))
    with pytest.raises(GuidedError, match="larger sample"):
        list(batches.fills(batches.texts_of(CASES[4:], tokens), tokens, ["guided"], 1))


def test_steps_of_the_processor_beside_a_model(byte_vocab: Vocabulary) -> None:
    model = Model(tiny.llama(300, scale=1.0), None, vocabulary=byte_vocab)
    texts = batches.texts_of(CASES, Tokens("model", byte_vocab), longest=64)
    found = batches.processor_steps(texts, model, 3, steps=6, forwards=2, prompt=4)
    assert found["batch"] == 3 and len(found["model_us"]) == 2
    assert {name: len(times) for name, times in found["processor_us"].items()} == dict.fromkeys(
        ("cold", "warm", "cold, budget", "warm, budget"), 6
    )


def test_the_tables() -> None:
    fills = [{"engine": "one", "batch": 8, "pass": "cold", "schemas": 5, "fill_us": [80.0, 160.0, 80.0], "advance_us": [8.0] * 3}]
    steps = [{"batch": 8, "model_us": [1000.0, 3000.0, 2000.0], "processor_us": {"warm": [20.0, 10.0, 30.0]}}]
    found = batch_report.summary(fills, steps, {"tokenizer": "bytes", "cpu": True})
    json.dumps(found)
    text = batch_report.markdown(found)
    assert "| 8 | cold | one | 80.0 | 158.4 | 106.7 | 10.0 | 8.0 |" in text
    assert "| 8 | 2.0 | warm | 20 | 30 | 20 | 1.00% |" in text
    out = io.StringIO()
    batch_report.show(found, Console(file=out, width=160))
    assert "of the model step" in out.getvalue() and "CPU clock" in out.getvalue()


def test_stages_of_a_start() -> None:
    rows: list[dict[str, Any]] = start._stages("bytes", json.dumps(NUMBERS), 1)
    last = [row["what"].removeprefix("first schema: ") for row in rows[-3:]]
    assert last == ["compile", "first mask", "shortest completion, second mask"]
    assert all(row["wall_ms"] >= 0 for row in rows)
    text = start.markdown({"run": {}, "stages": rows, "imports": [{"what": "import x", "wall_ms": 1, "cpu_ms": 2, "loads": ["numpy"]}]})
    assert "| import x | 1.0 | 2.0 | numpy |" in text
    with pytest.raises(GuidedError, match="failed"):
        start._python(["-c", "raise SystemExit(3)"])
