"""``guided choose``: the probability of each of some answers."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

__all__ = ["choose"]


def choose(
    prompt: Annotated[str | None, typer.Argument(help="What to ask the model; '-' or nothing reads the standard input.")] = None,
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="An answer; repeat the option.")] = None,
    event: Annotated[
        str, typer.Option("--event", help="An answer counts if it is all that is said ('complete'), the first 'word', or a 'prefix'.")
    ] = "complete",
    terminator: Annotated[str | None, typer.Option("--terminator", help="The text that ends an answer, instead of an end token.")] = None,
    bias: Annotated[str, typer.Option("--bias", help="Order by 'none' (probability), 'per_token', 'per_byte' or 'pmi'.")] = "none",
    unconditional: Annotated[str, typer.Option("--unconditional", help="The prompt that 'pmi' compares with.")] = "",
    tolerance: Annotated[float, typer.Option("--tolerance", help="Share of a probability that may be missing; 0 for none.")] = 1e-3,
    max_contexts: Annotated[int, typer.Option("--max-contexts", help="Contexts to ask the model about, at most.")] = 512,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Folder or hub id of a model; the packaged one otherwise.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="Where the model runs: cpu, cuda.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Type of the weights: float32, bfloat16.")] = None,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Use the model's chat template, where it has one.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Rank given answers by their probability under the model.

    The probability is summed over all ways to write an answer in tokens. Nothing is sampled.
    """
    from .answers import choose as run
    from .model import load

    text = sys.stdin.read() if prompt in (None, "-") else str(prompt)
    loaded = load(None if model in (None, "packaged") else model, device, dtype)
    options: dict[str, Any] = {"event": event, "terminator": terminator, "bias": bias, "unconditional": unconditional, "chat": chat}
    found = run(loaded, text, option or [], tolerance=tolerance, max_contexts=max_contexts, **options)
    if as_json:
        rows = [
            {
                "text": row.text,
                "probability": row.probability,
                "logprob": row.logprob,
                "missed": row.missed,
                "share": row.share,
                "score": row.score,
                "tokenisations": row.tokenisations,
            }
            for row in found.ranked
        ]
        report = {"event": found.event, "bias": found.bias, "mass": found.mass, "options": rows}
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
        return
    for row in found.ranked:
        score = "" if found.bias == "none" else f"  {found.bias} {row.score:.4f}"
        typer.echo(f"{row.share:8.4f}  {row.text!r}  P = {row.probability:.4g} (at most {row.missed:.2g} more){score}")
    typer.echo(f"event: {found.event}; the options hold {found.mass:.4g} of the mass; {found.contexts} contexts", err=True)
