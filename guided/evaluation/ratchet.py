"""Ratchets: expected verdicts that are checked in; they may only get better.

A ratchet file is JSON: for each part (``suite``, ``maskbench``) a count by group and what it counts. It holds names and
numbers, no data. Groups of the suite are its files per draft; of MaskBench single schemas of a fixed sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .official import tally
from .suites import Case

__all__ = ["of_maskbench", "of_suite", "read", "worse", "write"]

Part = dict[str, list[int]]
"""Per group the instances, and of them: right, wrongly accepted, wrongly rejected."""


def of_suite(cases: Sequence[Case], records: Iterable[Mapping[str, Any]]) -> Part:
    """``"draft/file"`` -> instances, right, wrongly accepted, wrongly rejected."""
    tallies = tally(cases, records)
    return {f"{draft}/{file}": [t.total, t.right, t.wrong_accept, t.wrong_reject] for (draft, file), t in sorted(tallies.items())}


def of_maskbench(cases: Sequence[Case], records: Iterable[Mapping[str, Any]]) -> Part:
    """Id of the schema -> instances, right, wrongly accepted, wrongly rejected (the last for another cause than key order).

    A refused or failed schema has none right.
    """
    totals = {case.id: len(case.instances) for case in cases}
    part: Part = {}
    for record in records:
        wrong = record.get("wrong") or ()
        judged = record["status"] in ("passed", "wrong")
        total = totals[record["id"]]
        accepts = sum(w["accepted"] for w in wrong)
        rejects = sum(not w["accepted"] and not w["order_only"] for w in wrong)
        part[record["id"]] = [total, total - len(wrong) if judged else 0, accepts, rejects]
    return dict(sorted(part.items()))


def worse(expected: Part, found: Part) -> list[str]:
    """What fell behind, in words: fewer right, or more wrong verdicts in a group; a group that is missing."""
    lines = []
    for group, (total, right, accepts, rejects) in expected.items():
        if group not in found:
            lines.append(f"{group}: not judged")
            continue
        now_total, now_right, now_accepts, now_rejects = found[group]
        if now_total != total:
            continue  # other data
        if now_right < right:
            lines.append(f"{group}: {now_right} of {total} right, {right} expected")
        if now_accepts > accepts:
            lines.append(f"{group}: {now_accepts} invalid accepted, {accepts} expected")
        if now_rejects > rejects:
            lines.append(f"{group}: {now_rejects} valid rejected, {rejects} expected")
    return lines


def read(path: Path, name: str) -> Part:
    """A part of a ratchet file; empty where there is none."""
    if not path.exists():
        return {}
    part: Part = json.loads(path.read_text()).get(name, {})
    return part


def write(path: Path, name: str, part: Part) -> None:
    """Sets a part of a ratchet file and leaves the other one."""
    parts = json.loads(path.read_text()) if path.exists() else {}
    parts[name] = part
    blocks = []
    for title, rows in sorted(parts.items()):
        lines = ",\n".join(f"  {json.dumps(group)}: {json.dumps(counts)}" for group, counts in rows.items())
        blocks.append(f" {json.dumps(title)}: {{\n{lines}\n }}")
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n")
