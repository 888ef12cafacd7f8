"""The measurement of speculation: tasks, records that go on, figures; on a tiny model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from grammars.errors import GuidedError
from guided import Model, load
from guided.evaluation import speculation as measure
from guided.evaluation import speculation_report as report
from tests import tiny, tokenizers

WAYS = ["plain", "transformers", "transformers, prompt lookup", "forced tokens", "auto"]


@pytest.fixture(scope="module")
def model() -> Model:
    tokenizer = tokenizers.gpt2()
    tokenizer.chat_template = None
    network = tiny.llama(len(tokenizer) + 13, seed=1, scale=6.0, positions=2048)
    network.generation_config.eos_token_id = tokenizer.eos_token_id
    return load((network, tokenizer))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    prompts = [
        {"question_id": i, "category": c, "turns": [f"{c} {i}"]} for i, c in enumerate(["qa", "qa", "qa", "rag", "coding", "writing"])
    ]
    with gzip.open(folder / "prompts_spec_bench.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in prompts)
    (folder / "maskbench").mkdir()
    schema = {"type": "object", "properties": {"first_name": {"enum": ["Ada"]}, "tags": {"type": "array"}}, "additionalProperties": False}
    good = {"first_name": "Ada", "tags": ["a rather long tag", {"inner": 1.5}, None, True, "another tag"]}
    rows = [
        {"id": "a", "split": "s", "schema": schema, "tests": [{"valid": False, "data": 1}, {"valid": True, "data": good}]},
        {"id": "b", "split": "s", "schema": schema, "tests": [{"valid": True, "data": {}}]},
        {"id": "c", "split": "s", "schema": {"type": "nothing"}, "tests": [{"valid": True, "data": good}]},
    ]
    with gzip.open(folder / "maskbench" / "s.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


def test_tasks(data: Path, model: Model) -> None:
    tasks = measure.spec_bench_tasks(data, 2, seed=1)
    assert sorted(task.group for task in tasks) == [
        "conversation",
        "conversation",
        "question answering",
        "question answering",
        "retrieval (RAG)",
    ]
    assert tasks == measure.spec_bench_tasks(data, 2, seed=1)
    (task,) = measure.json_tasks(data, 5, 1, model.vocabulary)  # one has too small an instance, one is no schema
    assert task.id == "json/s/a" and task.group == measure.JSON_GROUP
    assert "- first_name: Ada\n- tags 1: a rather long tag\n- tags 2 inner: 1.5\n- tags 3: null\n- tags 4: true" in task.prompt
    with pytest.raises(GuidedError, match="prompts_spec_bench"):
        measure.spec_bench_tasks(data / "maskbench", 2, seed=1)


def test_run_goes_on_and_is_summed_up(data: Path, model: Model, tmp_path: Path) -> None:
    tasks = [*measure.spec_bench_tasks(data, 1, seed=1), *measure.json_tasks(data, 1, 1, model.vocabulary)]
    ticks = iter(range(1 << 30))
    records = measure.run(tasks, WAYS, model, tmp_path, max_tokens=16, clock=lambda: float(next(ticks)))
    assert len(records) == len(tasks) * len(WAYS) and all(record["same"] in (None, True) for record in records)
    plain = [record for record in records if record["way"] == "plain"]
    assert all(record["forwards"] == record["timed"] == record["tokens"] - 1 and record["seconds"] == 1.0 for record in plain)
    (forced,) = [r for r in records if r["way"] == "forced tokens" and r["group"] == measure.JSON_GROUP]
    # every forward gives one token besides those that were accepted, but for the last where an accepted one ends the text
    assert forced["forwards"] - (forced["timed"] - forced["accepted"]) in (0, 1)

    path = tmp_path / "speculation.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[: 1 + 2 * len(WAYS)]) + '\n{"cut')
    again = measure.run(tasks, WAYS, model, tmp_path, max_tokens=16, clock=lambda: float(next(ticks)))
    assert again[: 2 * len(WAYS)] == records[: 2 * len(WAYS)] and len(again) == len(records)
    assert path.read_text().count("\n") == len(lines)

    found = report.summary(records)
    assert found["tasks"] == {report.ALL: 3, "JSON extraction": 1, "conversation": 1, "question answering": 1, "retrieval (RAG)": 1}
    text = report.markdown(found)
    assert "speed-up over plain decoding, by group" in text.lower() and "| forced tokens |" in text
    picture = tmp_path / "plot.png"
    report.plot(found, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def record(way: str, seconds: float, **more: Any) -> dict[str, Any]:
    whole = {"task": "t", "group": "g", "way": way, "tokens": 11, "timed": 10, "forwards": 10, "drafted": 0, "accepted": 0, "same": None}
    return {**whole, "seconds": seconds, **more}


def test_figures() -> None:
    rows = [record("plain", 2.0), record("auto", 1.0, forwards=5, drafted=10, accepted=5, same=True)]
    rows.append(record("plain", 100.0, task="u"))  # a task that not all ways have written counts for none
    found = report.summary(rows)["groups"]["g"]
    assert found["plain"] == {
        "tokens/s": 5.0,
        "tokens a forward": 1.0,
        "drafted a forward": 0.0,
        "accepted": None,
        "same": None,
        "speed-up": 1.0,
    }
    assert found["auto"]["speed-up"] == 2.0 and found["auto"]["tokens a forward"] == 2.0
    assert found["auto"]["drafted a forward"] == 2.0 and found["auto"]["accepted"] == 0.5 and found["auto"]["same"] == 1.0


def test_refusals(model: Model, tmp_path: Path) -> None:
    with pytest.raises(GuidedError, match="no way 'magic'"):
        measure.run([], ["plain", "magic"], model, tmp_path)
    with pytest.raises(GuidedError, match="plain must be among"):
        measure.run([], ["auto"], model, tmp_path)
