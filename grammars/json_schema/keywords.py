"""The assertion and applicator keywords of each draft: which there are, where their subschemas sit, how their arguments look.

Drafts 4, 6, 7, 2019-09 and 2020-12 (https://json-schema.org/specification-links). A keyword that a draft
does not define is an annotation in it. A keyword with a malformed argument is a :class:`SchemaError` that
names pointer and keyword.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaError

__all__ = ["DRAFTS", "KEYWORDS", "NEWEST", "REFERENCES", "Keyword", "check", "escape_token", "keywords_of"]

DRAFTS = ("4", "6", "7", "2019-09", "2020-12")
NEWEST = DRAFTS[-1]
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword of one draft.

    Attributes:
        name: as written.
        schemas: where subschemas are: ``""`` nowhere, ``"one"``, ``"list"``, ``"map"``, ``"one|list"`` or ``"map|strings"``.
        problem: what is wrong with an argument, ``None`` when it is well-formed.
    """

    name: str
    schemas: str
    problem: Callable[[Any], str | None]

    @property
    def applies(self) -> bool:
        """Whether it is an applicator or a reference, which asserts also where the validation vocabulary is not in use."""
        return bool(self.schemas) or self.name in REFERENCES


def is_number(value: object) -> bool:
    """Whether ``value`` is a finite JSON number (booleans are none)."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> str | None:
    return None if is_number(value) else "must be a number"


def _positive(value: object) -> str | None:
    return None if is_number(value) and value > 0 else "must be a number greater than 0"  # type: ignore[operator]


def _count(value: object) -> str | None:
    good = is_number(value) and value == int(value) and value >= 0  # type: ignore[operator,call-overload]
    return None if good else "must be a non-negative integer"


def _boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _string(value: object) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def _strings(value: object) -> str | None:
    return None if isinstance(value, list) and all(isinstance(v, str) for v in value) else "must be an array of strings"


def _array(value: object) -> str | None:
    return None if isinstance(value, list) else "must be an array"


def _anything(value: object) -> str | None:
    return None


def _types(value: object) -> str | None:
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            return f"must be one or several of {', '.join(sorted(TYPES))}, not {name!r}"
    return None


def _schema(value: object) -> str | None:
    return None if isinstance(value, (dict, bool)) else "must be a schema (an object or a boolean)"


def _object(value: object) -> str | None:
    return None if isinstance(value, dict) else "must be an object of schemas"


def _schemas(value: object) -> str | None:
    return None if isinstance(value, list) and value else "must be a non-empty array of schemas"


def _some_schemas(value: object) -> str | None:
    return None if isinstance(value, list) else "must be an array of schemas"


def _schema_or_list(value: object) -> str | None:
    return None if isinstance(value, list) else _schema(value)


def _lists_of_strings(value: object) -> str | None:
    good = isinstance(value, dict) and all(_strings(v) is None for v in value.values())
    return None if good else "must be an object whose values are arrays of strings"


_PLAIN: tuple[tuple[str, str, Callable[[Any], str | None]], ...] = (
    ("type", "", _types),
    ("enum", "", _array),
    ("allOf", "list", _schemas),
    ("anyOf", "list", _schemas),
    ("oneOf", "list", _schemas),
    ("not", "one", _schema),
    ("minimum", "", _number),
    ("maximum", "", _number),
    ("multipleOf", "", _positive),
    ("minLength", "", _count),
    ("maxLength", "", _count),
    ("pattern", "", _string),
    ("format", "", _string),
    ("minItems", "", _count),
    ("maxItems", "", _count),
    ("uniqueItems", "", _boolean),
    ("minProperties", "", _count),
    ("maxProperties", "", _count),
    ("required", "", _strings),
    ("properties", "map", _object),
    ("patternProperties", "map", _object),
    ("additionalProperties", "one", _schema),
    ("$ref", "", _string),
)


def _draft(draft: str) -> Mapping[str, Keyword]:
    at = DRAFTS.index(draft)
    table = {name: Keyword(name, where, problem) for name, where, problem in _PLAIN}

    def add(name: str, where: str, problem: Callable[[Any], str | None]) -> None:
        table[name] = Keyword(name, where, problem)

    for name in ("exclusiveMinimum", "exclusiveMaximum"):
        add(name, "", _boolean if at == 0 else _number)
    if at >= 1:
        add("const", "", _anything)
        add("contains", "one", _schema)
        add("propertyNames", "one", _schema)
    if at >= 2:
        for name in ("if", "then", "else"):
            add(name, "one", _schema)
    # No keyword of the standard any more from 2019-09 on, but one that it lets implementations go on with, and schemas rely on.
    add("dependencies", "map|strings", _object)
    if at >= 3:
        add("dependentRequired", "", _lists_of_strings)
        add("dependentSchemas", "map", _object)
        add("minContains", "", _count)
        add("maxContains", "", _count)
        for name in ("unevaluatedProperties", "unevaluatedItems"):
            add(name, "one", _schema)
    if at <= 3:
        add("items", "one|list", _schema_or_list)
        add("additionalItems", "one", _schema)
    else:
        add("items", "one", _schema)
        add("prefixItems", "list", _some_schemas)
    if at == 3:
        add("$recursiveRef", "", _string)
    if at == 4:
        add("$dynamicRef", "", _string)
    return table


KEYWORDS: Mapping[str, Mapping[str, Keyword]] = {draft: _draft(draft) for draft in DRAFTS}


def keywords_of(draft: str) -> Mapping[str, Keyword]:
    """The keywords that assert something (or hold subschemas that do) in ``draft``, by name."""
    return KEYWORDS[draft]


def check(keyword: Keyword, value: object, pointer: str) -> None:
    """Refuses a malformed argument.

    Raises:
        SchemaError: with the keyword's pointer.
    """
    problem = keyword.problem(value)
    if problem is not None:
        raise SchemaError(f"{keyword.name!r} {problem}, not {_shown(value)}", f"{pointer}/{escape_token(keyword.name)}", keyword.name)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def escape_token(token: str | int) -> str:
    """One reference token of a JSON pointer (RFC 6901)."""
    return str(token).replace("~", "~0").replace("/", "~1")
