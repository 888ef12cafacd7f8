"""What the ``jsonschema`` package says of a text, with exact numbers and with patterns read as ECMA-262 reads them.

``jsonschema`` computes with floats and hands patterns to Python's ``re``. Here numbers are parsed to fractions, and patterns
are written anew for ``re`` first, so that its verdicts can be held against ours without noise. ``format`` is an annotation.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from grammars.errors import GuidedError
from grammars.json_schema import JsonSchema

from .places import children, subschema

__all__ = ["Oracle", "Unknown", "exact", "python_pattern"]

_MAGNITUDE = 400
"""Decimal exponent up to which numbers are compared exactly."""
_SPACE = "\\t\\n\\x0b\\x0c\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
_NO_SPACE = (
    "\\x00-\\x08\\x0e-\\x1f!-\\x9f\\xa1-\\u167f\\u1681-\\u1fff\\u200b-\\u2027\\u202a-\\u202e\\u2030-\\u205e\\u2060-\\u2fff"
    "\\u3001-\\ufefe\\uff00-\\U0010ffff"
)
_CLASSES = {
    "d": "0-9",
    "D": "\\x00-/:-\\U0010ffff",
    "w": "A-Za-z0-9_",
    "W": "\\x00-/:-@\\[-\\^`{-\\U0010ffff",
    "s": _SPACE,
    "S": _NO_SPACE,
}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\x0b", "f": "\x0c", "r": "\r", "0": "\x00"}
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|x([0-9a-fA-F]{2})|c([A-Za-z])|(.))",
    re.DOTALL,
)
_GROUP = re.compile(r"\((?:\?(?:[:=!]|<[=!]|<[A-Za-z_$][\w$]*>))?")
_BRACE = re.compile(r"\{\d+(,\d*)?\}")
_NAMES = {"4": "Draft4Validator", "6": "Draft6Validator", "7": "Draft7Validator", "2019-09": "Draft201909Validator"}


class Unknown(ValueError):
    """The oracle has no verdict: what is asked of it is beyond what it can do exactly."""


def _escape(match: re.Match[str], within: bool) -> str:
    braced, unit, low, byte, control, other = match.groups()
    if other is not None:
        if other in _CLASSES:
            return _CLASSES[other] if within else f"[{_CLASSES[other]}]"
        if other in "bB" and not within:
            return f"(?a:\\{other})"
        if other == "b":
            return "\\x08"
        if other in "123456789kpP":
            raise Unknown(f"\\{other} in a pattern")
        return re.escape(_CONTROLS.get(other, other))
    code = int(braced or unit or byte or "0", 16)
    if control:
        code = ord(control) % 32
    elif low is not None and 0xD800 <= code < 0xDC00:
        code = 0x10000 + ((code - 0xD800) << 10) + int(low, 16) - 0xDC00
    elif low is not None or 0xD800 <= code < 0xE000:
        raise Unknown("a surrogate in a pattern")
    return re.escape(chr(code))


def _class(pattern: str, at: int) -> tuple[str, int]:
    """The character class that begins at ``at``, for ``re``, and where it ends."""
    negated = pattern[at + 1 : at + 2] == "^"
    at += 2 if negated else 1
    out: list[str] = []
    while at < len(pattern) and pattern[at] != "]":
        match = _ESCAPE.match(pattern, at)
        if match:
            out.append(_escape(match, True))
            at = match.end()
        else:
            out.append("\\" + pattern[at] if pattern[at] in "[&~|^" else pattern[at])
            at += 1
    if at == len(pattern):
        raise Unknown("an open class in a pattern")
    if not out:
        return ("[\\x00-\\U0010ffff]" if negated else "(?!)"), at + 1
    return f"[{'^' * negated}{''.join(out)}]", at + 1


@cache
def python_pattern(pattern: str) -> str:
    """An ECMA-262 pattern as Python's ``re`` has to see it.

    Raises:
        Unknown: it uses what has no counterpart (back references, properties, modifiers), or is malformed.
    """
    out: list[str] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == "[":
            made, at = _class(pattern, at)
            out.append(made)
            continue
        match = {"\\": _ESCAPE, "(": _GROUP, "{": _BRACE}[c].match(pattern, at) if c in "\\({" else None
        if match is None:
            out.append({".": "[^\\n\\r\\u2028\\u2029]", "$": "\\Z", "{": "\\{", "}": "\\}"}.get(c, c))
        elif c == "(":
            if pattern[match.end() : match.end() + 1] == "?":
                raise Unknown("a group of another kind in a pattern")
            out.append(match.group() if match.group()[-1] in ":=!" else "(?:")
        else:
            out.append(_escape(match, False) if c == "\\" else match.group())
        at = (match.end() if match else at + 1) or at + 1
    made = "".join(out)
    try:
        re.compile(made)
    except (re.error, OverflowError, RecursionError) as error:
        raise Unknown(f"a pattern that re does not take: {error}") from None
    return made


def _number(text: str) -> Fraction:
    value = Decimal(text)
    if value and abs(value.adjusted()) > _MAGNITUDE:
        raise Unknown("a number of great magnitude")
    return Fraction(value)


def exact(text: str) -> Any:
    """A JSON text as a value whose numbers with a point or an exponent are fractions.

    Raises:
        Unknown: a number is too large or too small for that.
        ValueError: it is no JSON.
    """
    return json.loads(text, parse_float=_number)


def _with_patterns(schema: Any) -> Any:
    """A copy of ``schema`` with its patterns written for ``re``; keywords that are no schemas are shared."""
    if not isinstance(schema, dict):
        return schema
    copy = dict(schema)
    for keyword, path in children(schema):
        if path:
            if copy[keyword] is schema[keyword]:
                copy[keyword] = schema[keyword].copy()
            copy[keyword][path[0]] = _with_patterns(subschema(schema, (keyword, *path)))
        else:
            copy[keyword] = _with_patterns(schema[keyword])
    if isinstance(copy.get("pattern"), str):
        copy["pattern"] = python_pattern(copy["pattern"])
    if isinstance(copy.get("patternProperties"), dict):
        copy["patternProperties"] = {python_pattern(k): v for k, v in copy["patternProperties"].items()}
    return copy


def _is_number(checker: Any, value: Any) -> bool:
    return isinstance(value, int | Fraction) and not isinstance(value, bool)


def _is_integer(checker: Any, value: Any) -> bool:
    return isinstance(value, int | Fraction) and not isinstance(value, bool) and value == int(value)


def _is_plain_integer(checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@cache
def _validator(draft: str) -> Any:
    try:
        import jsonschema.validators
    except ImportError:
        raise GuidedError("this needs the package jsonschema: pip install jsonschema") from None
    kind = getattr(jsonschema.validators, _NAMES.get(draft, "Draft202012Validator"))
    integer = _is_plain_integer if draft == "4" else _is_integer  # in draft 4 the spelling counts: 1.0 is none
    types = kind.TYPE_CHECKER.redefine_many({"number": _is_number, "integer": integer})
    return jsonschema.validators.extend(kind, type_checker=types)


class Oracle:
    """Verdicts on texts under one schema.

    Args:
        schema: as given to :class:`grammars.JsonSchema`; the draft is the one that that class takes it for.

    Raises:
        Unknown: patterns or numbers of the schema are beyond it.
        GuidedError: ``jsonschema`` is not installed.
    """

    def __init__(self, schema: Any) -> None:
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

        kind = _validator(JsonSchema(schema).draft)
        try:
            self._validator = kind(_with_patterns(exact(json.dumps(schema))), registry=REGISTRY)  # nothing is ever fetched
        except (TypeError, AttributeError, LookupError) as error:  # keywords with malformed arguments
            raise Unknown(f"a malformed schema: {error}") from None

    def valid(self, text: str) -> bool | None:
        """Whether the text is an instance; ``None`` where there is no verdict."""
        try:
            return bool(self._validator.is_valid(exact(text)))
        except ValueError as error:
            if not isinstance(error, Unknown) and isinstance(error, json.JSONDecodeError):
                return False
            return None
        except Exception:  # whatever goes wrong in the other library is no verdict
            return None
