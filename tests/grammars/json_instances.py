"""Helpers of the JSON Schema tests: schemas as recognisers over a shared pool, and verdicts on instances."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grammars.errors import ConstraintError, SchemaError
from grammars.json_schema import JsonSchema
from grammars.regex.expr import Pool
from tests.recogniser import Recogniser

__all__ = ["accepts", "lines", "recogniser", "verdict"]

POOL = Pool()


def recogniser(schema: object, **options: Any) -> Recogniser | None:
    """A recogniser of the schema's texts; ``None`` for a schema without instance."""
    try:
        return Recogniser(JsonSchema(schema, **options).build(POOL), POOL)
    except SchemaError:
        raise
    except ConstraintError as error:
        assert "no instance" in str(error)
        return None


def accepts(found: Recogniser | None, value: Any) -> bool:
    """Whether a text (``bytes``), or the JSON text of any other value, is accepted."""
    text = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    return found is not None and found.accepts(text)


def verdict(found: Recogniser | None, value: Any, valid: bool) -> str:
    """``"right"``, ``"wrong accept"`` or ``"wrong reject"``."""
    got = accepts(found, value)
    return "right" if got == valid else "wrong accept" if got else "wrong reject"


def lines(path: Path) -> Iterator[Any]:
    """The values of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
