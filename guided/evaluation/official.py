"""The official JSON Schema test suite: how many instances are judged right, per draft and keyword file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .suites import DIALECTS, Case, sample, schema_test_suite, suite_remotes
from .verdicts import judge_cases

__all__ = ["Tally", "file_of", "markdown", "run_suite", "show", "tally"]

FORMATS = "optional/format/"
"""Files whose instances are labelled as if ``format`` were asserted."""


@dataclass(slots=True)
class Tally:
    """Instances of one file of one draft.

    Attributes:
        right: judged as labelled.
        wrong_accept, wrong_reject: judged otherwise.
        order: of the wrong rejections, those for the order of keys alone.
        refused: of schemas that were refused when they were compiled.
        failed: of schemas that ended in an error, a crash, or at a limit of time or memory.
    """

    total: int = 0
    right: int = 0
    wrong_accept: int = 0
    wrong_reject: int = 0
    order: int = 0
    refused: int = 0
    failed: int = 0

    def add(self, other: Tally) -> None:
        """Adds the counts of ``other``."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def marks(self) -> str:
        """What is not right, in short: ``u`` invalid accepted, ``o`` valid rejected, ``x`` refused, ``f`` failed."""
        letters = {"u": self.wrong_accept, "o": self.wrong_reject, "x": self.refused, "f": self.failed}
        return " ".join(f"{letter}{number}" for letter, number in letters.items() if number)

    def __str__(self) -> str:
        return f"{self.right}/{self.total}" + (f" {self.marks}" if self.marks else "")


def file_of(case_id: str) -> tuple[str, str]:
    """``(draft, file)`` of a case's id."""
    draft, _, rest = case_id.partition(": ")[0].partition("/")
    return draft, rest


def of_record(record: Mapping[str, Any], total: int) -> Tally:
    """The tally of one case with ``total`` instances."""
    counts = Tally(total)
    wrong = record.get("wrong") or ()
    if record["status"] == "refused":
        counts.refused = total
    elif record["status"] not in ("passed", "wrong"):
        counts.failed = total
    else:
        counts.wrong_accept = sum(w["accepted"] for w in wrong)
        counts.wrong_reject = len(wrong) - counts.wrong_accept
        counts.order = sum(w["order_only"] for w in wrong)
        counts.right = total - len(wrong)
    return counts


def tally(cases: Sequence[Case], records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Tally]:
    """Tallies by ``(draft, file)``, in the suite's order."""
    totals = {case.id: len(case.instances) for case in cases}
    found: dict[tuple[str, str], Tally] = {}
    for record in records:
        found.setdefault(file_of(record["id"]), Tally()).add(of_record(record, totals[record["id"]]))
    return found


def run_suite(
    data: Path,
    out: Path,
    *,
    drafts: Sequence[str] = (),
    optional: bool = True,
    order: str = "any",
    spellings: int = 0,
    seed: int = 0,
    count: int = 0,
    workers: int = 2,
    seconds: float = 10.0,
    megabytes: int = 4096,
    console: Console | None = None,
) -> tuple[list[Case], list[dict[str, Any]]]:
    """Judges the suite in the folder ``data``; the cases and their records.

    Args:
        data, out: folders of the collection and of the records.
        drafts: only these.
        optional: the optional files too; those about formats are judged with ``format="assert"``, all others without.
        order: of keys.
        spellings, seed: see :class:`.judge.Judge`.
        count: about so many cases only; 0 for all.
        workers, seconds, megabytes, console: see :func:`.verdicts.judge_cases`.

    Raises:
        GuidedError: there is no suite in the folder, or no such draft.
    """
    cases = schema_test_suite(data, drafts, optional=optional)
    if count:
        cases = sample(cases, count, seed)
    remotes = suite_remotes(data)
    records: list[dict[str, Any]] = []
    for name, format in (("suite", "annotation"), ("formats", "assert")):
        chosen = [case for case in cases if file_of(case.id)[1].startswith(FORMATS) == (format == "assert")]
        if chosen:
            records += judge_cases(
                chosen,
                out / f"{name}-{order}.jsonl",
                options={"order": order, "format": format},
                remotes=remotes,
                spellings=spellings,
                seed=seed,
                workers=workers,
                seconds=seconds,
                megabytes=megabytes,
                console=console,
            )
    return cases, records


def _sums(tallies: Mapping[tuple[str, str], Tally]) -> list[tuple[str, dict[str, Tally]]]:
    """``(part, tally by draft)`` of the three parts of the suite."""
    parts: dict[str, dict[str, Tally]] = {"required": {}, "optional": {}, "optional formats": {}}
    for (draft, file), counts in tallies.items():
        part = "optional formats" if file.startswith(FORMATS) else "optional" if file.startswith("optional/") else "required"
        parts[part].setdefault(draft, Tally()).add(counts)
    return [(name, by_draft) for name, by_draft in parts.items() if by_draft]


def _grid(tallies: Mapping[tuple[str, str], Tally]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Drafts, and a row a file: the tally in each draft."""
    drafts = [draft for draft in DIALECTS if any(d == draft for d, _ in tallies)]
    files = sorted({file for _, file in tallies}, key=lambda file: (file.startswith("optional/"), file.startswith(FORMATS), file))
    rows = []
    for file in files:
        cells = [tallies.get((draft, file)) for draft in drafts]
        rows.append((file.removesuffix(".json"), ["" if cell is None else str(cell) for cell in cells]))
    return drafts, rows


def markdown(tallies: Mapping[tuple[str, str], Tally]) -> str:
    """The tables in Markdown, as they stand in the documents."""
    names = ("right", "wrong accept", "wrong reject", "refused", "failed")
    lines = [f"| part | draft | instances | {' | '.join(names)} |", "|---|---|" + "--:|" * (1 + len(names))]
    for part, by_draft in _sums(tallies):
        for draft, counts in sorted(by_draft.items(), key=lambda pair: list(DIALECTS).index(pair[0])):
            share = 100 * counts.right / max(1, counts.total)
            cells = [f"{counts.right} ({share:.1f} %)", counts.wrong_accept, counts.wrong_reject, counts.refused, counts.failed]
            lines.append(f"| {part} | {draft} | {counts.total} | {' | '.join(str(cell) for cell in cells)} |")
    drafts, rows = _grid(tallies)
    lines += ["", f"| file | {' | '.join(drafts)} |", "|---|" + "--:|" * len(drafts)]
    lines += [f"| {file} | {' | '.join(cells)} |" for file, cells in rows]
    return "\n".join(lines)


def show(tallies: Mapping[tuple[str, str], Tally], console: Console) -> None:
    """Prints the tables: files that are not all right one by one, the others as a sum."""
    summary = Table(title="official test suite: instances")
    summary.add_column("part")
    summary.add_column("draft")
    for name in Tally.__slots__:
        summary.add_column(name.replace("_", " "), justify="right")
    for part, by_draft in _sums(tallies):
        for draft, counts in by_draft.items():
            summary.add_row(part, draft, *(str(value) for value in asdict(counts).values()))
    console.print(summary)
    drafts, rows = _grid(tallies)
    legend = "right/instances; u invalid accepted, o valid rejected, x refused, f failed"
    table = Table("file", *drafts, title=f"files that are not all right ({legend})")
    wrong = [(file, cells) for file, cells in rows if any(" " in cell for cell in cells)]
    for file, cells in wrong:
        table.add_row(file, *cells)
    if wrong:
        console.print(table)
    console.print(f"{len(rows) - len(wrong)} of {len(rows)} files are all right in every draft", highlight=False)
