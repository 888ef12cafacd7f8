"""A small collection in the layout of the data folder, made by the tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}


def row(name: str, split: str, schema: Any, *tests: tuple[Any, bool]) -> dict[str, Any]:
    return {"id": name, "split": split, "schema": schema, "tests": [{"data": data, "valid": valid} for data, valid in tests]}


ROWS = [
    row("easy-1", "Easy", PERSON, ({"name": "é \ud83d"}, False), ({"name": "Ada"}, True), ({"name": 1}, False), ({}, False)),
    row("easy-2", "Easy", {"type": "integer", "minimum": 3}, (3, True), (2, False), (17, True)),
    row("easy-3", "Easy", {"type": "string"}, ("mislabelled", False), ("fine", True)),
    row("hard-1", "Hard", {"type": "object", "unevaluatedProperties": {"type": "integer"}, "minimum": "x"}, ({}, True)),
    row("hard-2", "Hard", {"enum": ["a", "ä", None]}, ("a", True), ("ä", True), (None, True), ("b", False)),
]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as lines:
        for entry in rows:
            lines.write(json.dumps(entry) + "\n")


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    for split in ("Easy", "Hard"):
        write(data / "maskbench" / f"{split}.jsonl.gz", [entry for entry in ROWS if entry["split"] == split])
    case = {"draft": "draft7", "file": "type.json", "optional": False, "description": "integers"}
    tests = [{"description": "", "data": 1, "valid": True}, {"description": "", "data": "1", "valid": False}]
    official = [
        {**case, "schema": {"type": "integer"}, "tests": tests},
        {**case, "schema": {"type": "integer"}, "tests": tests},
        {**case, "draft": "draft2020-12", "schema": True, "tests": tests[:1]},
        {**case, "optional": True, "schema": {"type": "integer"}, "tests": tests},
    ]
    write(data / "json_schema_test_suite.jsonl.gz", official)
    write(data / "json_schema_test_suite_remotes.jsonl.gz", [{"uri": "http://localhost:1234/integer.json", "schema": {"type": "integer"}}])
    return data
