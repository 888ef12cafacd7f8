"""Reading collections."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from grammars.errors import GuidedError
from guided.evaluation.suites import DIALECTS, Case, instance_text, maskbench, sample, schema_test_suite, suite_remotes


def test_maskbench_is_sorted_and_complete(collection: Path) -> None:
    cases = maskbench(collection)
    assert [case.id for case in cases] == ["easy-1", "easy-2", "easy-3", "hard-1", "hard-2"]
    assert [instance.valid for instance in cases[0].instances] == [False, True, False, False]
    assert [case.id for case in maskbench(collection, ["Hard"])] == ["hard-1", "hard-2"]


def test_official_suite_names_drafts_and_keeps_ids_apart(collection: Path) -> None:
    cases = schema_test_suite(collection)
    names = ["draft7/type.json: integers", "draft7/type.json: integers (2)", "draft2020-12/type.json: integers"]
    assert [case.id for case in cases] == names
    assert cases[0].schema == {"$schema": DIALECTS["draft7"], "type": "integer"}
    assert cases[2].schema is True
    assert len(schema_test_suite(collection, optional=True)) == 4
    assert [case.split for case in schema_test_suite(collection, ["draft2020-12"])] == ["draft2020-12"]
    assert suite_remotes(collection) == {"http://localhost:1234/integer.json": {"type": "integer"}}


def test_bad_folders_and_names_are_refused(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(GuidedError, match="no MaskBench"):
        maskbench(tmp_path / "nothing")
    with pytest.raises(GuidedError, match="no split 'Medium'; there are Easy, Hard"):
        maskbench(collection, ["Medium"])
    with pytest.raises(GuidedError, match="no draft"):
        schema_test_suite(collection, ["draft5"])
    with pytest.raises(GuidedError, match="cannot read"):
        schema_test_suite(tmp_path)


def test_sample_is_stratified_and_repeatable() -> None:
    cases = [Case(f"{split}-{i}", split, {}, ()) for split, n in (("a", 900), ("b", 90), ("c", 3)) for i in range(n)]
    chosen = sample(cases, 100)
    assert chosen == sample(cases, 100)
    assert Counter(case.split for case in chosen) == {"a": 91, "b": 9, "c": 1}
    assert chosen != sample(cases, 100, seed=8)
    assert {case.id for case in sample(cases, 10_000)} == {case.id for case in cases}


@pytest.mark.parametrize("data", ["é \U0001f600", {"b": 1, "a": [None, 1.5]}, "\ud83d", ["\x00\n"]])
def test_instance_text_is_the_instance(data: object) -> None:
    text = instance_text(data)
    assert json.loads(text) == data
    assert b"\\u00e9" not in text
