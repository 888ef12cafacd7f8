"""``guided methods``: every method, and the law that its output follows."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["methods"]

_LAWS = {
    "exact": "the output follows what stands under 'of'",
    "exact in the limit": "it does so the better, the more texts, particles or steps there are",
    "argmax": "no draw: the best token by what stands under 'of'",
    "bounded": "the error is bounded, and the bound is reported",
    "lossy": "none of these; 'of' says what is done",
}


def methods(as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False) -> None:
    """List all methods: what each one draws, its cost, its paper.

    'law' says how far the output follows the distribution under 'of'; tests prove it. 'use' says how to call the method.
    """
    from samplers.declared import declared

    rows = declared()
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in rows], indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    legend = Table.grid(padding=(0, 2))
    for law, meaning in _LAWS.items():
        legend.add_row("", Text(law, "bold"), Text(meaning))
    console.print("Laws:", legend, sep="\n")
    for row in rows:
        lines = Table.grid(padding=(0, 2))
        for label, value in (("law", row.law), ("of", row.target), ("cost", row.cost), ("paper", row.paper), ("use", row.use)):
            if value:
                lines.add_row("", label, Text(value))
        console.print(Text(f"\n{row.name}", "bold"), lines, sep="\n")
