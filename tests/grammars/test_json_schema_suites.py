"""JSON Schema against other people's tests: the official suite, and real schemas with instances (MaskBench)."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest
import referencing
import referencing.jsonschema

from grammars.errors import SchemaError
from tests.grammars.json_instances import lines, recogniser, verdict

DRAFTS = {"draft4": "4", "draft6": "6", "draft7": "7", "draft2019-09": "2019-09", "draft2020-12": "2020-12"}
SPECIFICATIONS = {
    "draft4": referencing.jsonschema.DRAFT4,
    "draft6": referencing.jsonschema.DRAFT6,
    "draft7": referencing.jsonschema.DRAFT7,
    "draft2019-09": referencing.jsonschema.DRAFT201909,
    "draft2020-12": referencing.jsonschema.DRAFT202012,
}

# Files of which something is refused: never more instances than these may be (a ratchet: lower them, do not raise them).
REFUSED: dict[str, dict[str, int]] = {}


@lru_cache(maxsize=8)
def registry(data_dir: Path, draft: str) -> referencing.Registry[Any]:
    found = lines(data_dir / "json_schema_test_suite_remotes.jsonl.gz")
    documents = [d for d in found if not re.search("/(draft|v1)", d["uri"]) or f"/{draft}/" in d["uri"]]
    make = partial(referencing.Resource.from_contents, default_specification=SPECIFICATIONS[draft])
    return referencing.Registry().with_resources((d["uri"], make(d["schema"])) for d in documents)


@pytest.mark.parametrize("draft", DRAFTS)
def test_official_suite(data_dir: Path, draft: str) -> None:
    """Every required instance is judged right, or its schema refused."""
    refused: Counter[str] = Counter()
    wrong = []
    for case in lines(data_dir / "json_schema_test_suite.jsonl.gz"):
        if case["draft"] != draft or case["optional"]:
            continue
        try:
            found = recogniser(case["schema"], draft=DRAFTS[draft], registry=registry(data_dir, draft), format="annotation", order="any")
        except SchemaError:
            refused[case["file"]] += len(case["tests"])
            continue
        for test in case["tests"]:
            got = verdict(found, test["data"], test["valid"])
            if got != "right":
                wrong.append((got, case["file"], case["description"], test["description"]))
    assert not wrong
    assert {file: n for file, n in refused.items() if n > REFUSED.get(draft, {}).get(file, 0)} == {}


def judge(case: dict[str, Any], **options: Any) -> str:
    try:
        found = recogniser(case["schema"], **options)
    except SchemaError:
        return "refused"
    verdicts = [verdict(found, t["data"], t["valid"]) for t in case["tests"]]
    return next((v for v in verdicts if v != "right"), "right")


def sample(data_dir: Path, per_split: int | None) -> list[dict[str, Any]]:
    cases = []
    for path in sorted((data_dir / "maskbench").glob("*.jsonl.gz")):
        split = list(lines(path))
        if per_split is not None:
            random.Random(path.name).shuffle(split)
        cases += split[:per_split]
    return cases


def test_maskbench_sample(data_dir: Path) -> None:
    """Of a fixed sample of real schemas no instance is judged wrong, and few schemas are refused."""
    cases = [case for case in sample(data_dir, 12) if case["split"] != "Handwritten"]
    counts = Counter(judge(case, order="any") for case in cases)
    assert counts["wrong accept"] == counts["wrong reject"] == 0
    assert counts["refused"] <= 0.03 * len(cases)


@pytest.mark.slow
def test_maskbench_whole(data_dir: Path) -> None:
    wrong = [(case["id"], found) for case in sample(data_dir, None) if (found := judge(case, order="any")).startswith("wrong")]
    assert not wrong
