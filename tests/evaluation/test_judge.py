"""Verdicts on single schemas and on a small collection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from guided.evaluation.judge import Judge
from guided.evaluation.suites import Case, Instance, maskbench
from guided.evaluation.verdicts import app, judge_cases


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(times=True)


def case(schema: Any, *instances: tuple[Any, bool]) -> Case:
    return Case("one", "split", schema, tuple(Instance(data, valid) for data, valid in instances))


def test_right_verdicts_pass_and_are_timed(judge: Judge) -> None:
    record = judge(case({"type": "integer", "maximum": 12}, (12, True), (13, False), (-5, True), ("12", False)))
    assert record["status"] == "passed" and record["instances"] == 4 and not record["wrong"]
    assert 0 < record["compile_ms"] <= record["first_mask_ms"]
    # a mask a byte and one for the end, fewer where the text leaves the language
    assert len(record["mask_us"]) == 3 + 2 + 3 + 1


def test_wrong_verdicts_say_which_and_where(judge: Judge) -> None:
    record = judge(case({"const": "abc"}, ("abc", False), ("abd", True), ("abc", True)))
    assert record["status"] == "wrong"
    accepted, rejected = record["wrong"]
    assert accepted == {"index": 0, "accepted": True, "at": None, "validator_agrees": True, "order_only": False, "spelling": None}
    assert (rejected["index"], rejected["accepted"], rejected["at"], rejected["validator_agrees"]) == (1, False, len('"ab'), True)


def test_text_that_ends_too_early_is_rejected_at_its_end(judge: Judge) -> None:
    record = judge(case({"type": "array", "minItems": 1}, ([], True)))
    assert record["wrong"][0]["at"] == 1


def test_rejections_for_key_order_alone_are_marked(judge: Judge) -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "b"], "additionalProperties": False}
    record = judge(case(schema, ({"b": 1, "a": 2}, True), ({"b": 1, "a": "2"}, True), ({"a": 2, "b": 1}, True)))
    assert [(wrong["index"], wrong["order_only"]) for wrong in record["wrong"]] == [(0, True), (1, False)]


def test_an_empty_language_is_a_verdict(judge: Judge) -> None:
    assert judge(case(False, (1, False)))["status"] == "passed"
    record = judge(case({"type": "string", "const": 3}, (3, True)))
    assert record["status"] == "wrong" and record["wrong"][0]["validator_agrees"]


def test_refusals_name_the_keyword(judge: Judge) -> None:
    record = judge(case({"properties": {"a": {"minimum": "x"}}}))
    assert record["status"] == "refused"
    assert record["pointer"].startswith("/properties/a") and record["keyword"] == "minimum"
    assert record["kind"] and record["reason"]


def test_surprises_are_errors_not_refusals(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_badly(*args: Any, **options: Any) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("guided.evaluation.judge.JsonSchema", compile_badly)
    record = judge(case({}))
    assert record["status"] == "error" and "KeyError" in record["kind"]


def test_a_collection_is_judged_in_order_and_resumed(collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guided.evaluation.verdicts.code_digest", lambda: "the same code")
    cases = maskbench(collection)
    out = tmp_path / "out" / "verdicts.jsonl"
    records = judge_cases(cases, out, workers=1)
    assert [record["id"] for record in records] == [case.id for case in cases]
    assert [record["status"] for record in records] == ["passed", "passed", "wrong", "refused", "passed"]

    lines = out.read_text().splitlines()
    assert len(lines) == 6
    marked = json.loads(lines[1]) | {"reason": "kept"}
    out.write_text("\n".join([lines[0], json.dumps(marked), lines[2], lines[3][:10]]))  # stopped while it wrote the third record
    again = judge_cases(cases, out, workers=1)
    assert {record["id"]: record["reason"] for record in again}[marked["id"]] == "kept"
    assert [record["status"] for record in again] == [record["status"] for record in records]

    fresh = judge_cases(cases, out, workers=1, seconds=9)  # other options: nothing is kept
    assert all(record["reason"] != "kept" for record in fresh)


def test_command_line(collection: Path, tmp_path: Path) -> None:
    args = ["--data", str(collection), "--out", str(tmp_path / "out"), "--workers", "1", "--show", "3"]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    assert "maskbench: verdicts" in run.output and "official: verdicts" in run.output
    assert (tmp_path / "out" / "verdicts-official.jsonl").exists()
    assert CliRunner().invoke(app, ["--data", str(tmp_path / "nowhere")]).exit_code == 2
    assert CliRunner().invoke(app, ["--data", str(collection), "--suite", "other"]).exit_code == 2
