"""``guided explain``: what becomes of a JSON schema."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grammars.errors import ConstraintError

if TYPE_CHECKING:
    from grammars.json_schema.report import Explanation

__all__ = ["explain"]

REFUSED = 1
_STYLES = {"masked": "green", "checked": "yellow", "annotation": "dim", "refused": "bold red"}


def _document(source: str) -> Any:
    inline = source.lstrip()[:1] in ("{", "[") or source.strip() in ("true", "false")
    try:
        text = source if inline else sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        document = json.loads(text)
    except ValueError as error:
        raise ConstraintError(f"{'the schema' if inline or source == '-' else source} is not JSON: {error}") from None
    if not isinstance(document, dict | bool):
        raise ConstraintError(f"a JSON schema is an object or a boolean, not {type(document).__name__}")
    return document


def explain(
    schema: Annotated[str, typer.Argument(help="A file, '-' (standard input) or the JSON itself.")],
    draft: Annotated[str | None, typer.Option("--draft", help="4, 6, 7, 2019-09 or 2020-12, where $schema does not say.")] = None,
    format: Annotated[
        str, typer.Option("--format", help="Known formats: 'assert' (texts must fit them) or 'annotation' (only a note).")
    ] = "assert",
    order: Annotated[str, typer.Option("--order", help="Order of an object's keys: 'schema' (the schema's) or 'any'.")] = "schema",
    everything: Annotated[bool, typer.Option("--all/--brief", help="Every assertion, or only what is not masked.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what becomes of each assertion of a JSON schema.

    By JSON pointer: whether the token masks enforce an assertion, whether it is only a note, or why it is refused; what may be
    unexpected; and what the schema costs.

    Exit codes: 0 supported, 1 refused, 2 bad input.
    """
    from grammars import JsonSchema
    from grammars.json_schema.report import explain as run

    found = run(JsonSchema(_document(schema), draft=draft, format=format, order=order))
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        _show(found, everything)
    if not found.supported:
        raise typer.Exit(REFUSED)


def _show(found: Explanation, everything: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    counts = Counter(finding.status for finding in found.findings)
    rows = [finding for finding in found.findings if everything or finding.status != "masked"]
    if rows:
        table = Table("pointer", "keyword", "is", "why")
        for finding in rows:
            status = f"[{_STYLES.get(finding.status, '')}]{finding.status}[/]" if finding.status in _STYLES else finding.status
            table.add_row(escape(f"#{finding.pointer}"), escape(finding.keyword), status, escape(finding.reason))
        console.print(table)
    if found.warnings:
        table = Table("pointer", "what", "warning", title="may be unexpected")
        for warning in found.warnings:
            table.add_row(escape(f"#{warning.pointer}"), warning.kind, escape(warning.message))
        console.print(table)
    totals = ", ".join(f"{number} {status}" for status, number in counts.most_common()) or "none"
    console.print(f"draft {found.draft}; assertions: {totals}; {len(found.warnings)} warnings")
    if found.supported:
        cost = found.cost
        states = f"{cost.states} rule states" + ("" if cost.whole else " and more")
        console.print(f"size: {cost.schemas} schemas, {cost.records} records, {states}; built in {cost.compile_ms:.1f} ms")
    else:
        console.print(f"[bold red]refused[/]: {escape(found.problem or '')}")
