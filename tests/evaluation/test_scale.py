"""Curves of cost, the child processes that measure them, synthetic vocabularies, and the soak."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from grammars.errors import GuidedError
from guided.cli import app
from guided.evaluation import performance, soak
from guided.evaluation.children import in_child
from guided.evaluation.engines import make_engine
from guided.evaluation.masks import Meter
from guided.evaluation.scale import report
from guided.evaluation.scale.batches import make_batch
from guided.evaluation.scale.curves import CURVES, Curve, curve_of
from guided.evaluation.suites import Case, Instance, instance_text, maskbench
from guided.evaluation.synthetic import synthetic_vocabulary
from guided.evaluation.tokenizers import load_tokens, small_vocabulary


# ---------------------------------------------------------------- curves
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_instances_of_a_curve_are_valid_and_accepted(curve: Curve) -> None:
    point = curve.make(curve.sizes[0])
    meter = Meter("guided", "small")
    meter.engine.options = point.options.get("guided", {})
    assert point.instances and curve.sizes == tuple(sorted(curve.sizes))
    for data in point.instances:
        Draft202012Validator(point.schema).validate(data)
    record = meter(Case(curve.name, "", point.schema, tuple(Instance(data, True) for data in point.instances)))
    assert record["status"] == "passed", record


def test_the_size_of_a_curve_is_what_it_says() -> None:
    for size in curve_of("schema-size").sizes[:4]:
        assert size <= len(json.dumps(curve_of("schema-size").make(size).schema)) < size + 3000
    schema = curve_of("enum").make(10_000).schema
    assert len(set(schema["properties"]["pick"]["enum"])) == 10_000
    assert len(curve_of("properties").make(300).instances[0]) == 300
    assert list(curve_of("properties-any-order").make(100).instances[0]) != list(curve_of("properties").make(100).instances[0])
    assert len(curve_of("max-length").make(1_000).instances[0]) == 1_000
    text = json.dumps(curve_of("nested-instance").make(200).instances[0])
    assert text.count("{") == 201


def test_a_schema_grows_without_its_entry_point() -> None:
    def reached(size: int) -> set[str]:
        schema = curve_of("schema-size").make(size).schema
        found, todo = set(), [schema["$ref"]]
        while todo:
            name = todo.pop().rpartition("/")[2]
            if name not in found:
                found.add(name)
                todo += [part.split('"')[0] for part in json.dumps(schema["definitions"][name]).split('"$ref": "')[1:]]
        return found

    assert 1 < len(reached(16 << 10)) <= 9 and reached(16 << 10) == reached(256 << 10)


def test_unknown_curve() -> None:
    with pytest.raises(GuidedError, match="no curve 'other'; there are schema-size"):
        curve_of("other")


# ---------------------------------------------------------------- vocabularies
def test_synthetic_vocabularies_are_cut_or_grown() -> None:
    source = small_vocabulary()
    cut = synthetic_vocabulary(300, [source])
    assert cut.size == 300 and cut.eos_token_ids == [299] and set(cut.tokens[256:299]) <= set(source.tokens)
    grown = synthetic_vocabulary(5_000, [source])
    assert grown.size == 5_000 == len(set(grown.tokens))
    assert grown.tokens[:299] == cut.tokens[:299], "a bigger one begins with the smaller one"
    assert synthetic_vocabulary(5_000, [source]).digest == grown.digest
    assert any(token not in source.tokens for token in grown.tokens)
    with pytest.raises(GuidedError, match="257 tokens at least"):
        synthetic_vocabulary(256, [source])


# ---------------------------------------------------------------- children
def test_work_in_a_child() -> None:
    assert in_child(lambda: {"status": "done", "pid": os.getpid()})["pid"] != os.getpid()
    assert in_child(lambda: {"value": 1 // 0}) == {"status": "error", "reason": "ZeroDivisionError: integer division or modulo by zero"}
    assert in_child(lambda: os.kill(os.getpid(), signal.SIGKILL) or {}) == {"status": "crash", "reason": "the process ended with code -9"}

    def out_of_memory() -> dict[str, Any]:
        raise MemoryError

    assert in_child(out_of_memory)["status"] == "memory"


def test_an_interrupted_parent_kills_its_child(tmp_path: Path) -> None:
    def forever() -> dict[str, Any]:
        signal.setitimer(signal.ITIMER_REAL, 0)
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)
        return {}

    def interrupt(signum: int, frame: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(TimeoutError):
            in_child(forever)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


# ---------------------------------------------------------------- batches and runs
@pytest.mark.parametrize("name", ["guided", "llguidance", "xgrammar"])
def test_a_batch_writes_the_masks_of_single_texts(name: str) -> None:
    try:
        engine = make_engine(name, load_tokens("small"))
    except GuidedError as error:
        pytest.skip(str(error))
    point = curve_of("batch").make(4)
    engine.compile(point.schema)
    batch = make_batch(engine, 4)
    assert batch is not None
    texts = [engine.vocabulary.encode(instance_text(data)) for data in point.instances]
    for row, text in enumerate(texts):
        for token in text[: 3 * row]:
            batch.advance(row, token)
    batch.fill()
    for row, text in enumerate(texts):
        engine.begin()
        for token in text[: 3 * row]:
            engine.advance(token)
        engine.fill()
        assert (batch.masks[row] == engine.row).all()
        assert batch.allows(row, text[3 * row])


def test_command(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    arguments = ["bench", "scale", "--tokenizer", "small", "--out", str(out), "--points", "2", "--repeats", "1", "--json"]
    arguments += ["--curve", "enum", "--curve", "batch"]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 0, run.output
    rows = json.loads((out / "scale.json").read_text())["points"]
    assert [(row["curve"], row["size"], row["status"]) for row in rows] == [
        ("enum", 10, "done"),
        ("enum", 100, "done"),
        ("batch", 1, "done"),
        ("batch", 2, "done"),
    ]
    assert all(0 < row["compile_ms"] < row["ttfm_ms"] and row["cold_us"]["p50"] <= row["cold_us"]["max"] for row in rows)
    assert (out / "scale-enum.png").read_bytes()[:4] == b"\x89PNG"
    lost = [*rows, {"curve": "enum", "size": 1000, "engine": "guided", "status": "timeout", "reason": ""}]
    assert "| 1,000 | timeout |" in report.markdown(lost)
    report.plots(lost, out)
    run = CliRunner().invoke(app, [*arguments, "--curve", "other"])
    assert run.exit_code == 2 and "no curve" in run.output


# ---------------------------------------------------------------- soak
def test_the_stream_has_no_schema_twice(collection: Path) -> None:
    cases = maskbench(collection)
    made = []
    for schema, _ in soak.stream(cases, seed=3):
        made.append(json.dumps(schema))
        if len(made) == 60:
            break
    assert len(set(made)) == 60
    again = [json.dumps(schema) for schema, _ in zip(soak.stream(cases, seed=3), range(60))]
    assert [json.loads(text)[0] for text in again] == [json.loads(text) for text in made]


def test_growth_compares_the_last_third_with_the_middle_one() -> None:
    def samples(*resident: float) -> list[soak.Sample]:
        return [soak.Sample(float(i), i, 0, 0, 0, mb, 0) for i, mb in enumerate(resident)]

    assert soak.growth(samples(1, 50, 100, 100, 100, 100)) == 1.0
    assert soak.growth(samples(10, 10, 10, 20, 30, 30)) == 2.0
    with pytest.raises(ValueError, match="say nothing about growth"):
        soak.growth(samples(1, 2, 3))


@pytest.mark.slow
def test_resident_size_is_bounded(data_dir: Path) -> None:
    samples = soak.run_soak(maskbench(data_dir, ["Github_easy", "Glaiveai2K"]), tokenizer="small", minutes=1.5, every=3.0, seed=1)
    assert samples[-1].schemas > 100 and samples[-1].restarts == 0
    assert soak.growth(samples) < 1.25


# ---------------------------------------------------------------- the document
def test_the_document_shows_what_was_measured(collection: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results, plots = tmp_path / "results", tmp_path / "plots"
    empty, _ = performance.page(results)
    assert empty.count("Not measured yet.") == 3
    common = ["--tokenizer", "small"]
    runs = [
        ["masks", str(collection), *common, "--out", str(results / "masks")],
        ["scale", *common, "--curve", "enum", "--points", "1", "--repeats", "1", "--out", str(results / "scale")],
    ]
    for arguments in runs:
        run = CliRunner().invoke(app, ["bench", *arguments])
        assert run.exit_code == 0, run.output
    samples = [soak.Sample(60.0 * i, 100 * i, 1, 0, 900, 250.0, 0).as_dict() for i in range(1, 10)]
    (results / "soak.json").write_text(json.dumps({"run": {"tokenizer": "small", "minutes": 9, "seed": 1}, "samples": samples}))
    (results / "notes.md").write_text("Why it is so.")
    run = CliRunner().invoke(performance.app, [str(results), "--plots", str(plots)])
    assert run.exit_code == 0, run.output
    assert "Not measured yet." not in run.output
    for part in ("5 schemas (seed 7), CPU clock", "Why it is so.", "### Strings in an enum", "| 10 |", "900 distinct schemas in 9 minutes"):
        assert part in run.output
    assert "holds 1.000 times the memory" in run.output
    assert {path.name for path in plots.iterdir()} == {"masks-masks.png", "scale-enum.png"}
