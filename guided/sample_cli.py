"""What ``guided sample`` reads and writes: judges from files, options of methods, results."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from grammars.errors import ConstraintError

if TYPE_CHECKING:
    from .sampled import Sampled

__all__ = ["function_of", "options_of", "show"]


_OWN = ("reward", "check", "seed", "particles", "temperature", "max_tokens", "method")


def function_of(source: str) -> Callable[..., Any]:
    """The function that ``FILE.py:NAME`` names. The file is run.

    Raises:
        ConstraintError: there is no such file, or no such function in it.
    """
    path, _, name = source.rpartition(":")
    if not path or not name.isidentifier():
        raise ConstraintError(f"{source!r} names no function: give FILE.py:NAME")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ConstraintError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise ConstraintError(f"{path} has no function {name!r}")
    return found


def options_of(given: list[str]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; values are JSON where they are, else text.

    Raises:
        ConstraintError: what is given is no such pair, or has an option of the command's own.
    """
    found: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConstraintError(f"{pair!r} is no option of the method: give NAME=VALUE")
        if name in _OWN:
            raise ConstraintError(f"{name} is no option of a method: give --{name.replace('_', '-')}")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            found[name.replace("-", "_")] = value
    return found


def show(result: Sampled, draws: int, as_json: bool) -> None:
    """Writes a result: as JSON, as ``draws`` texts drawn by weight, or else as a table."""
    if as_json:
        typer.echo(result.to_json(indent=2))
    elif draws:
        for item in result.draw(draws):
            typer.echo(item.text if draws == 1 or "\n" not in item.text else json.dumps(item.text, ensure_ascii=False))
        typer.echo(result.summary(), err=True)
    else:
        from rich.console import Console

        Console(highlight=False).print(result)
