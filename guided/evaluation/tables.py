"""Tables of a report, on the console and in Markdown: the first column to the left, the others to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

__all__ = ["Titled", "markdown_lines", "markdown_tables", "print_tables"]

Titled = tuple[str, Sequence[str], list[list[str]]]
"""Title, head and rows of a table."""


def print_tables(tables: Iterable[Titled], console: Console) -> None:
    """Prints tables under their titles."""
    for title, head, rows in tables:
        table = Table(title=title)
        for i, name in enumerate(head):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def markdown_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown, with an empty line behind it."""
    return [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1), *(f"| {' | '.join(row)} |" for row in rows), ""]


def markdown_tables(tables: Iterable[Titled]) -> str:
    """Tables in Markdown, each behind its title."""
    lines: list[str] = []
    for title, head, rows in tables:
        lines += [f"{title[0].upper()}{title[1:]}:", "", *markdown_lines(head, rows)]
    return "\n".join(lines).rstrip()
