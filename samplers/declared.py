"""The table of methods as the source files declare it, so that showing it loads neither torch nor the methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import registry
from .registry import Method

__all__ = ["declared"]

_FIELDS = ("law", "target", "cost", "paper", "use")


def declared() -> list[Method]:
    """What :func:`samplers.registry.methods` gives, read from the decorators ``@method(...)`` of the modules' sources.

    Where one of them cannot be read (its arguments are more than texts put together from constants of its module) all are loaded after all.
    """
    try:
        found = [one for module in registry._MODULES for one in _of_module(module)]
    except (OSError, SyntaxError, ValueError, KeyError):
        return registry.methods()
    return sorted(found, key=lambda m: (m.package, m.name))


def _sources(module: str) -> Iterator[tuple[str, str]]:
    """Names and texts of a module, or of all that a package holds."""
    path = Path(__file__).resolve().parent.parent.joinpath(*module.split("."))
    if not path.is_dir():
        yield module, path.with_suffix(".py").read_text(encoding="utf-8")
        return
    for file in sorted(path.rglob("*.py")):
        yield ".".join([module, *file.relative_to(path).with_suffix("").parts]), file.read_text(encoding="utf-8")


def _of_module(module: str) -> Iterator[Method]:
    for name, text in _sources(module):
        tree = ast.parse(text)
        constants = dict(_constants(tree))
        seen = 0
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for call in filter(_is_method, node.decorator_list):
                    seen += 1
                    yield _method(call, f"{name}.{node.name}", constants)
        if seen != sum(map(_is_method, ast.walk(tree))):
            raise ValueError(f"{name} registers methods in other ways than by decorators at its top level")


def _is_method(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "method"


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Names that the module gives a literal."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from _bound(target, node.value)


def _bound(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, Any]]:
    """What ``target = value`` gives to names, tuples taken apart, as far as it is literal."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, part in zip(target.elts, value.elts):
            yield from _bound(one, part)
    elif isinstance(target, ast.Name):
        with suppress(ValueError):
            yield target.id, ast.literal_eval(value)


def _value(node: ast.expr, constants: dict[str, Any]) -> Any:
    """Of a literal, a constant's name, a sum of those or an f-string of those; raises ``ValueError`` or ``KeyError`` for others."""
    if isinstance(node, ast.Name):
        return constants[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _value(node.left, constants) + _value(node.right, constants)
    if isinstance(node, ast.JoinedStr):
        return "".join(_value(part, constants) for part in node.values)
    if isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion == -1:
        return str(_value(node.value, constants))
    return ast.literal_eval(node)


def _method(call: Any, where: str, constants: dict[str, Any]) -> Method:
    given = {keyword.arg: _value(keyword.value, constants) for keyword in call.keywords}
    if len(call.args) != 1 or not given.keys() <= set(_FIELDS):
        raise ValueError(f"{where}: @method(...) with other arguments than it takes")
    name, package = _value(call.args[0], constants), where.split(".")[0]
    return Method(name, package, given["law"], given["target"], given["cost"], given.get("paper", ""), given.get("use") or where)
