"""The verdicts on outside collections may only get better. ``make ratchet`` writes the file of expected ones anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guided.evaluation import official, ratchet
from guided.evaluation.judge import Judge
from guided.evaluation.official import FORMATS, file_of
from guided.evaluation.suites import Case, maskbench, sample, schema_test_suite, suite_remotes
from guided.evaluation.verdicts import judge_cases

EXPECTED = Path(__file__).with_name("ratchet.json")
COUNT, SEED = 400, 11
"""The sample of MaskBench, as ``make ratchet`` draws it."""


def judged(cases: list[Case], remotes: dict[str, Any] | None = None, **options: Any) -> list[dict[str, Any]]:
    judge = Judge(options=options, remotes=remotes)
    return [judge(case) for case in cases]


def test_counts_that_fall_are_told() -> None:
    expected = {"a": [4, 3, 0, 1], "b": [2, 2, 0, 0], "c": [1, 1, 0, 0]}
    assert not ratchet.worse(expected, {"a": [4, 4, 0, 0], "b": [2, 2, 0, 0], "c": [1, 1, 0, 0], "d": [1, 0, 1, 0]})
    found = ratchet.worse(expected, {"a": [4, 2, 1, 1], "b": [2, 0, 0, 2]})
    assert [line.partition(":")[0] for line in found] == ["a", "a", "b", "b", "c"]


def test_file_of_a_ratchet(tmp_path: Path) -> None:
    path = tmp_path / "ratchet.json"
    assert ratchet.read(path, "suite") == {}
    ratchet.write(path, "suite", {"x": [1, 1, 0, 0]})
    ratchet.write(path, "maskbench", {"y": [2, 1, 0, 1], "z": [0, 0, 0, 0]})
    ratchet.write(path, "suite", {"w": [3, 1, 0, 0]})
    assert ratchet.read(path, "suite") == {"w": [3, 1, 0, 0]}
    assert ratchet.read(path, "maskbench") == {"y": [2, 1, 0, 1], "z": [0, 0, 0, 0]}


@pytest.mark.parametrize("draft", ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"])
def test_official_suite(data_dir: Path, draft: str) -> None:
    cases = schema_test_suite(data_dir, [draft], optional=True)
    remotes = suite_remotes(data_dir)
    plain = [case for case in cases if not file_of(case.id)[1].startswith(FORMATS)]
    formats = [case for case in cases if file_of(case.id)[1].startswith(FORMATS)]
    records = judged(plain, remotes, order="any", format="annotation") + judged(formats, remotes, order="any", format="assert")
    expected = {group: row for group, row in ratchet.read(EXPECTED, "suite").items() if group.startswith(f"{draft}/")}
    assert expected
    assert ratchet.worse(expected, ratchet.of_suite(cases, records)) == []


def test_sample_of_maskbench(data_dir: Path) -> None:
    expected = ratchet.read(EXPECTED, "maskbench")
    cases = [case for case in maskbench(data_dir) if case.id in expected]
    chosen = sample(cases, 100, SEED)
    records = judged(chosen)
    for record in records:
        assert record["status"] in ("passed", "refused", "wrong"), (record["id"], record["reason"])
    part = ratchet.of_maskbench(chosen, records)
    assert ratchet.worse({group: expected[group] for group in part}, part) == []


@pytest.mark.slow
def test_the_whole_sample_of_maskbench(data_dir: Path, tmp_path: Path) -> None:
    expected = ratchet.read(EXPECTED, "maskbench")
    cases = sample(maskbench(data_dir), COUNT, SEED)
    assert {case.id for case in cases} == expected.keys()
    records = judge_cases(cases, tmp_path / "records.jsonl", seconds=30)
    assert ratchet.worse(expected, ratchet.of_maskbench(cases, records)) == []


@pytest.mark.slow
def test_all_of_maskbench(data_dir: Path, tmp_path: Path) -> None:
    records = judge_cases(maskbench(data_dir), tmp_path / "records.jsonl", seconds=30)
    for record in records:
        assert record["status"] in ("passed", "refused", "wrong"), (record["id"], record["reason"])
        for wrong in record["wrong"]:
            assert not wrong["accepted"] or wrong["validator_agrees"], (record["id"], wrong)
    assert sum(record["status"] == "passed" for record in records) / len(records) >= 0.97


def test_tables_of_the_suite(collection: Path, tmp_path: Path) -> None:
    cases, records = official.run_suite(collection, tmp_path, workers=1, spellings=2)
    tallies = official.tally(cases, records)
    assert {(key, counts.total, counts.right) for key, counts in tallies.items()} == {
        (("draft7", "type.json"), 4, 4),
        (("draft2020-12", "type.json"), 1, 1),
        (("draft7", "optional/type.json"), 2, 2),
    }
    text = official.markdown(tallies)
    assert "| required | draft7 | 4 | 4 (100.0 %) | 0 | 0 | 0 | 0 |" in text
    assert "| optional/type | 2/2 |  |" in text
