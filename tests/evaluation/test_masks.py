"""MaskBench on engines side by side, JSONSchemaBench's summary, and their commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from guided.cli import app
from guided.evaluation import generation, mask_report
from guided.evaluation.figures import FIGURES
from guided.evaluation.masks import Meter, run_masks
from guided.evaluation.suites import Case, Instance, maskbench


def case(schema: Any, *instances: tuple[Any, bool]) -> Case:
    return Case("one", "split", schema, tuple(Instance(data, valid) for data, valid in instances))


def test_a_meter_judges_and_times() -> None:
    meter = Meter("guided", "bytes")
    record = meter(case({"type": "integer", "maximum": 12}, (12, True), (13, False), ("1", True)))
    assert record["status"] == "wrong" and record["verdicts"] == ["accept", "reject", "reject"]
    assert [len(times) for times in record["mask_us"]] == [3, 2, 1]
    assert [len(times) for times in record["warm_us"]] == [3, 0, 0]
    assert 0 < record["compile_ms"] < record["first_mask_ms"]
    assert meter(case({"type": "string", "const": 1}, (1, False)))["status"] == "passed"
    assert meter(case({"minimum": "x"}))["status"] == "refused"


def test_what_fails_at_its_first_mask_is_refused() -> None:
    meter = Meter("guided", "bytes")
    meter.engine.error = lambda: "too much"  # type: ignore[method-assign]
    record = meter(case({"type": "integer"}, (12, True)))
    assert record["status"] == "refused" and record["reason"] == "first mask: too much"
    assert record["compile_ms"] is None and record["mask_us"] == []


def test_a_run_resumes_and_is_summed_up(collection: Path, tmp_path: Path) -> None:
    cases = maskbench(collection)
    out = tmp_path / "out"
    records = run_masks(cases, out, tokenizer="bytes", engines=["guided"])
    assert [row["id"] for row in records["guided"]] == [c.id for c in cases]
    path = out / "masks-guided.jsonl"
    lines = path.read_text().splitlines()
    kept = json.loads(lines[1]) | {"reason": "kept"}
    path.write_text("\n".join([lines[0], json.dumps(kept), lines[2][:9]]))
    again = run_masks(cases, out, tokenizer="bytes", engines=["guided"])
    assert [row["reason"] for row in again["guided"]].count("kept") == 1

    twin = {**again, "other": [{**row, "status": "refused", "verdicts": [], "compile_ms": None} for row in again["guided"]]}
    found = mask_report.summary(twin, {})
    assert found["common"] == {"schemas": 0, "instances": 0}
    counts = found["engines"]["guided"]["counts"]
    assert counts["all"]["schemas"] == 5 and counts["Easy"]["passed"] == 2 and counts["Easy"]["wrong accept"] == 1
    assert counts["Hard"]["refused"] == 1
    assert found["engines"]["other"]["counts"]["all"]["refused"] == 5
    assert "| guided | 5 | 3 | 1 |" in mask_report.markdown(found)


def test_like_for_like_counts_only_what_all_did() -> None:
    row = {"id": "a", "split": "s", "status": "passed", "valid": [True, False, True], "compile_ms": 1.0, "first_mask_ms": 2.0}
    one = {**row, "verdicts": ["accept", "reject", "accept"], "mask_us": [[1.0, 2.0], [3.0], [4.0]], "warm_us": [[1.0, 1.0], [], [4.0]]}
    two = {**row, "verdicts": ["accept", "reject", "reject"], "mask_us": [[5.0, 7.0], [6.0], [7.0]], "warm_us": [[1.0, 3.0], [], []]}
    found = mask_report.summary({"one": [one], "two": [two]}, {})
    assert found["common"] == {"schemas": 1, "instances": 1}
    assert found["engines"]["two"]["like for like"]["mask us"]["mean"] == 6.0
    assert found["engines"]["two"]["like for like"]["warm mask us"]["mean"] == 2.0
    assert found["engines"]["one"]["times"]["mask us"]["n"] == 4
    assert found["comparison"] == []


def test_figures_are_ratios_to_the_better_peer() -> None:
    def engine(first: float, cold: list[float], warm: float) -> list[dict[str, Any]]:
        row = {"id": "a", "split": "s", "status": "passed", "valid": [True], "verdicts": ["accept"], "compile_ms": 1.0}
        return [{**row, "first_mask_ms": first, "mask_us": [cold], "warm_us": [[warm]]}]

    records = {
        "guided": engine(3.0, [1.0, 2.0, 9.0], 1.0),
        "llguidance": engine(2.0, [8.0, 8.0, 8.0], 8.0),
        "xgrammar": engine(1.0, [1.0, 4.0, 25.0], 2.0),
    }
    found = mask_report.summary(records, {})
    rows = {row["figure"]: row for row in found["comparison"]}
    assert list(rows) == [figure.name for figure in FIGURES]
    first = rows["TTFM p50"]
    assert (first["peer"], first["ratio"], first["met"]) == ("llguidance", 1.5, "missed"), "TTFM is compared with llguidance"
    middle = rows["mask p50, cold"]
    assert (middle["peer"], middle["ratio"], middle["met"]) == ("xgrammar", 0.5, "aim")
    mean = rows["mask mean, cold"]
    assert (mean["peer"], mean["ratio"], mean["met"]) == ("llguidance", 0.5, "floor")
    assert rows["mask mean, warm"]["ratio"] == 0.5 and rows["mask mean, warm"]["met"] == "floor"
    assert rows["compile + all masks"]["ours"] == pytest.approx(1e-3 + 12e-6)
    assert "| TTFM p50, ms | 3.00 | 2.00 | 1.00 | 1.50x llguidance | 1x | 0.5x | missed |" in mask_report.markdown(found)


def test_command(collection: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    arguments = ["bench", "masks", str(collection), "--tokenizer", "bytes", "--out", str(out), "--split", "Easy", "--json"]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 0, run.output
    assert json.loads((out / "masks.json").read_text())["engines"]["guided"]["counts"]["all"]["schemas"] == 3
    assert (out / "masks.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "masks.md").read_text().startswith("Verdicts: schemas:")
    run = CliRunner().invoke(app, [*arguments, "--tokenizer", "bytes,small", "--no-plot"])
    assert run.exit_code == 0 and json.loads((out / "small" / "masks.json").read_text())["run"]["tokenizer"] == "small"
    run = CliRunner().invoke(app, [*arguments, "--engines", "other"])
    assert run.exit_code == 2 and "no engine" in run.output


def test_coverage_of_generation() -> None:
    def row(status: str, compiled: float | None, split: str = "s") -> dict[str, Any]:
        times = {"compile_ms": compiled, "first_ms": compiled and 2 * compiled, "token_ms": compiled and 1.0}
        return {"id": status, "split": split, "status": status, "tokens": 9, **times}

    found = generation.summary([row("valid", 1.0), row("invalid", 3.0), row("refused", None), row("valid", 2.0, "t")])
    everything = found["coverage"]["all"]
    assert (everything["declared"], everything["empirical"], everything["compliance"]) == (0.75, 0.5, pytest.approx(2 / 3))
    assert found["times"]["compile ms"]["n"] == 3 and found["times"]["first token ms"]["max"] == 6.0
    assert "| all | 4 | 75.0 % | 50.0 % | 66.7 % | 2 | 1 |" in generation.markdown(found)


def test_a_model_writes_instances(collection: Path, packaged_model: Any) -> None:
    writer = generation.Writer("packaged", None, None, {"max_tokens": 12, "temperature": 0.0, "seed": 1})
    records = [writer(c) for c in maskbench(collection)[1:4]]
    assert [record["status"] for record in records] == ["valid", "valid", "refused"]
    assert writer(case({"type": "string", "minLength": 500}))["status"] == "too long"
