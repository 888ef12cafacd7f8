"""What measures searches: data, records that go on, the parts on a tiny model, tables and the plot."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grammars.errors import GuidedError
from guided import Model, load
from guided.evaluation.searches import concepts, objects, prompts, report, rewards
from guided.evaluation.searches.records import Log, Task
from guided.evaluation.searches.run import PARTS, run_searches, tasks_of
from tests import tiny, tokenizers


@pytest.fixture(scope="module")
def model() -> Model:
    tokenizer = tokenizers.gpt2()
    network = tiny.llama(len(tokenizer), seed=1, scale=6.0, positions=2048)
    network.generation_config.eos_token_id = tokenizer.eos_token_id
    return load((network, tokenizer))


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    _write(folder / "prompts_commongen_dev.jsonl.gz", [{"concepts": words, "references": []} for words in (["dog", "run"], ["sea"])])
    question = {"category": "writing", "turns": ["Describe a house."]}
    article = {"category": "summarization", "turns": ["Summarize: A dog ran. It was brown. " + "It ran on. " * 80]}
    long = {"category": "roleplay", "turns": ["x" * 400]}
    _write(folder / "prompts_spec_bench.jsonl.gz", [question, article, long, {"category": "math", "turns": ["1 + 1"]}])
    return folder


# ---------------------------------------------------------------- data and rewards
def test_prompts_are_picked(data: Path) -> None:
    assert sorted(prompts.concepts(data, 5, 1)) == [("dog", "run"), ("sea",)]
    assert prompts.questions(data, 5, 1) == ["Describe a house."]
    (article,) = prompts.articles(data, 5, 1)
    assert len(article) <= 700 and article.endswith("ran on.")
    with pytest.raises(GuidedError, match="missing"):
        prompts.concepts(data / "no", 1, 1)


@pytest.mark.parametrize(
    ("word", "said"),
    [("run", "ran"), ("stop", "stopped"), ("try", "tried"), ("ride", "riding"), ("box", "boxes"), ("foot", "feet"), ("play", "plays")],
)
def test_inflected_forms_count(word: str, said: str) -> None:
    assert said in prompts.forms(word) and prompts.forms(word)[0] == word
    assert prompts.covered((word, "zebra"), f"They {said}.") == 0.5


def test_other_words_do_not_count() -> None:
    assert prompts.covered(("run", "sea"), "The season was a rune.") == 0.0


def test_the_lexicon_has_words_once() -> None:
    assert len(rewards.LEXICON) > 200 and set(rewards.LEXICON.values()) == {1.0, -1.0}
    assert all(word.isalpha() and word.islower() for word in rewards.LEXICON)


def test_the_reward_of_a_summary() -> None:
    article = "The brown horse crossed the river. The river carried the horse away."
    good = {"title": "t", "points": ["horse crossed river", "carried away"]}
    made_up = {"title": "t", "points": ["dragons landed", "castles burning"]}
    twice = {"title": "t", "points": ["horse crossed river", "river crossed horse"]}
    assert objects.faithful(article, good) > objects.faithful(article, twice)
    assert objects.faithful(article, made_up) == 0.0
    assert objects.faithful(article, {"title": "t", "points": ["a", "b"]}) == 0.0


# ---------------------------------------------------------------- records
def test_records_go_on(tmp_path: Path) -> None:
    calls: list[str] = []

    def task(name: str) -> Task:
        return Task("p", "0", name, lambda: calls.append(name) or {"x": float("nan"), "y": 1.0})  # type: ignore[func-returns-value]

    log = Log(tmp_path / "new" / "log.jsonl")
    assert log.run(task("a")) == {"part": "p", "case": "0", "method": "a", "x": None, "y": 1.0}
    log.run(task("b"))
    with log.path.open("a") as out:
        out.write('{"part": "p", "case": "0", "meth')  # stopped while it wrote
    again = Log(log.path)
    assert again.records == log.records
    assert [t.method for t in again.missing([task("a"), task("c")])] == ["c"]
    again.run(task("c"))
    assert [json.loads(line)["method"] for line in log.path.read_text().splitlines()] == ["a", "b", "c"] == calls


# ---------------------------------------------------------------- the parts
@pytest.mark.parametrize("part", PARTS)
def test_parts_run_and_are_reported(part: str, model: Model, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if part in ("rewards", "objects", "concepts"):  # a few of the methods will do for a model that writes noise
        module = {"rewards": rewards, "objects": objects, "concepts": concepts}[part]
        every = module.methods  # type: ignore[attr-defined]
        monkeypatch.setattr(module, "methods", lambda *args: every(*args)[:2])
    options: dict[str, Any] = {"parts": [part], "sample": 1, "console": Console(quiet=True)}
    records = run_searches(model, data, tmp_path, **options)
    assert records and all(record["part"] == part and record["seconds"] > 0 for record in records)
    written = (tmp_path / "search.jsonl").read_text()
    assert run_searches(model, data, tmp_path, **options) == records and (tmp_path / "search.jsonl").read_text() == written
    ((title, head, body),) = report.tables(records)
    assert "(1 prompt)" in title and all(len(row) == len(head) for row in body)
    if part == "beams":
        assert all(row[1] == "1 of 1" and float(row[2]) < 1e-3 for row in body)
    if part == "objects":
        assert all(record["valid"] and record["all_valid"] for record in records)
    if part == "concepts":
        assert all(0 <= record["coverage"] <= 1 for record in records)
    assert report.plot(records, tmp_path / "plot.png") == (part == "rewards")
    assert (tmp_path / "plot.png").exists() == (part == "rewards")


def test_included_words_are_covered(model: Model, tmp_path: Path) -> None:
    for task in concepts.tasks(model, [("dog", "run")], max_tokens=40):
        if task.method == "MustInclude, greedy":
            record = task.run()
            assert record["coverage"] == 1.0 and record["text"].endswith(".")
            break
    else:
        raise AssertionError("no such method")


def test_unknown_parts_are_refused(model: Model, data: Path) -> None:
    with pytest.raises(GuidedError, match="no part 'speed'"):
        tasks_of(model, data, "speed", 1, 7)


def test_the_command(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    import guided.model
    from guided.cli import app

    monkeypatch.setattr(guided.model, "load", lambda *args: model)
    options = ["bench", "search", str(data), "--out", str(tmp_path / "out"), "--part", "beams", "--sample", "1"]
    done = CliRunner().invoke(app, [*options, "--markdown"])
    assert done.exit_code == 0 and "| beams | same text |" in done.stdout
    assert len(json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)) == 4
    assert CliRunner().invoke(app, ["bench", "search", str(data), "--part", "luck"]).exit_code == 2
