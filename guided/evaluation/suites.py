"""Collections of schemas with labelled instances, read where they lie (gzipped JSON lines, one schema a line).

Layout of a data folder::

    maskbench/<split>.jsonl.gz                   {"id", "split", "schema", "tests": [{"valid", "data"}]}
    json_schema_test_suite.jsonl.gz              {"draft", "file", "optional", "description", "schema", "tests"}
    json_schema_test_suite_remotes.jsonl.gz      {"uri", "schema"}: what its $refs expect to find
"""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grammars.errors import GuidedError

__all__ = ["DIALECTS", "Case", "Instance", "instance_text", "maskbench", "sample", "schema_test_suite", "suite_remotes"]

DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


@dataclass(frozen=True, slots=True)
class Instance:
    """A JSON value and whether the schema's label calls it valid."""

    data: Any
    valid: bool


@dataclass(frozen=True, slots=True)
class Case:
    """One schema with its labelled instances.

    Attributes:
        id: unique within its collection.
        split: what the tables are grouped by.
        schema: the schema, a dict or a bool.
        instances: its labelled instances, in the collection's order.
    """

    id: str
    split: str
    schema: Any
    instances: tuple[Instance, ...]


def instance_text(data: Any) -> bytes:
    """The text of an instance: keys in the given order, characters raw (escaped only where they are lone surrogates)."""
    try:
        return json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(data).encode()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
    except OSError as error:
        raise GuidedError(f"cannot read {path.name} in the data folder {str(path.parent)!r}: {error.strerror or error}") from error


def _instances(row: dict[str, Any]) -> tuple[Instance, ...]:
    return tuple(Instance(test["data"], bool(test["valid"])) for test in row.get("tests") or ())


def maskbench(data: Path, splits: Sequence[str] = ()) -> list[Case]:
    """The cases of MaskBench (all splits, or those named), sorted by split and id.

    Raises:
        GuidedError: the folder has no MaskBench, or no such split.
    """
    folder = data / "maskbench"
    files = {path.name.removesuffix(".jsonl.gz"): path for path in sorted(folder.glob("*.jsonl.gz"))}
    if not files:
        raise GuidedError(f"no MaskBench in the data folder {str(data)!r}: expected maskbench/<split>.jsonl.gz")
    unknown = [name for name in splits if name not in files]
    if unknown:
        raise GuidedError(f"no split {unknown[0]!r}; there are {', '.join(files)}")
    cases = [Case(row["id"], row["split"], row["schema"], _instances(row)) for name in (splits or files) for row in _rows(files[name])]
    return sorted(cases, key=lambda case: (case.split, case.id))


def with_dialect(schema: Any, draft: str) -> Any:
    """``schema`` with ``$schema`` naming its draft, where it is an object that does not say so itself."""
    if isinstance(schema, dict) and "$schema" not in schema:
        return {"$schema": DIALECTS[draft], **schema}
    return schema


def schema_test_suite(data: Path, drafts: Sequence[str] = (), *, optional: bool = False) -> list[Case]:
    """The cases of the official JSON-Schema-Test-Suite, those required of every validator unless ``optional``.

    Raises:
        GuidedError: the folder has no such suite, or a draft is unknown.
    """
    unknown = [name for name in drafts if name not in DIALECTS]
    if unknown:
        raise GuidedError(f"no draft {unknown[0]!r}; there are {', '.join(DIALECTS)}")
    cases, seen = [], defaultdict(int)  # type: list[Case], defaultdict[str, int]
    for row in _rows(data / "json_schema_test_suite.jsonl.gz"):
        if (drafts and row["draft"] not in drafts) or (row["optional"] and not optional):
            continue
        file = row["file"] if not row["optional"] or row["file"].startswith("optional/") else f"optional/{row['file']}"
        name = f"{row['draft']}/{file}: {row['description']}"
        seen[name] += 1
        case_id = name if seen[name] == 1 else f"{name} ({seen[name]})"
        cases.append(Case(case_id, row["draft"], with_dialect(row["schema"], row["draft"]), _instances(row)))
    return cases


def suite_remotes(data: Path) -> dict[str, Any]:
    """The documents, by URI, that the test suite's ``$ref``\\ s expect to find elsewhere."""
    return {row["uri"]: row["schema"] for row in _rows(data / "json_schema_test_suite_remotes.jsonl.gz")}


def sample(cases: Iterable[Case], count: int, seed: int = 7) -> list[Case]:
    """About ``count`` cases, every split in proportion and with one case at least; the same ones for the same seed."""
    by_split: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_split[case.split].append(case)
    total = sum(map(len, by_split.values()))
    chosen: list[Case] = []
    for split in sorted(by_split):
        rows = by_split[split]
        share = min(len(rows), max(1, round(count * len(rows) / total)))
        chosen += sorted(random.Random(seed).sample(rows, share), key=lambda case: case.id)
    return chosen
