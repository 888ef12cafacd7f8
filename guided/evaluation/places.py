"""Where the subschemas of a schema are, whatever its draft; and how to change a schema at a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grammars.json_schema.keywords import KEYWORDS

__all__ = ["Path", "children", "places", "replaced", "subschema"]

Path = tuple[str | int, ...]

_WHERE: dict[str, str] = {"$defs": "map", "definitions": "map"}
for _table in KEYWORDS.values():
    for _name, _keyword in _table.items():
        if _keyword.schemas:
            _WHERE[_name] = "any" if _WHERE.get(_name, _keyword.schemas) != _keyword.schemas else _keyword.schemas


def children(schema: Any) -> Iterator[tuple[str, Path]]:
    """``(keyword, ())`` or ``(keyword, (key or index,))`` of every direct subschema."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        where = _WHERE.get(keyword)
        if where is None:
            continue
        if isinstance(value, list) and where != "map":
            yield from ((keyword, (i,)) for i, item in enumerate(value) if isinstance(item, dict | bool))
        elif isinstance(value, dict) and where.startswith("map"):
            yield from ((keyword, (key,)) for key, item in value.items() if isinstance(item, dict | bool))
        elif isinstance(value, dict | bool):
            yield keyword, ()


def places(schema: Any, most: int = 2000) -> list[Path]:
    """Paths of the schema itself and of its subschemas, outer ones first; ``most`` of them at most."""
    found: list[Path] = [()]
    for path in found:
        if len(found) >= most:
            break
        found += [(*path, keyword, *rest) for keyword, rest in children(subschema(schema, path))]
    return found[:most]


def subschema(schema: Any, path: Path) -> Any:
    """What is at ``path``."""
    for step in path:
        schema = schema[step]
    return schema


def replaced(schema: Any, path: Path, new: Any) -> Any:
    """A copy of ``schema`` with ``new`` at ``path``; everything beside the path is shared."""
    if not path:
        return new
    copy = schema.copy()
    copy[path[0]] = replaced(schema[path[0]], path[1:], new)
    return copy
