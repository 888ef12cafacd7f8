"""What a user may give as a schema -> a JSON Schema document.

A ``dict`` or ``bool`` is a schema as it is, a ``str`` is its JSON text. Everything else is a Python type (a pydantic
model, a dataclass, a ``TypedDict``, ``list[int]``, ``Literal``, an ``Enum``, ...) or a function, whose parameters become
the members of an object; pydantic writes the schemas of these.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import typing_extensions

from ..errors import SchemaError

__all__ = ["document_of", "guess_draft", "may_be_dynamic", "modern_type"]

_OLD_FORMS = re.compile(r'"exclusiveM(?:in|ax)imum"\s*:\s*[tf]|"items"\s*:\s*\[')
_DYNAMIC = re.compile(r'"\$(?:dynamicRef|recursiveRef)"|"\$ref"\s*:\s*"(?!#)')


def document_of(schema: object) -> tuple[Any, str]:
    """The JSON Schema document behind ``schema``, a fresh copy without shared parts; and its text.

    Raises:
        SchemaError: it is not JSON, or pydantic has no schema for it.
    """
    if isinstance(schema, str):
        return _parsed(schema)
    if not isinstance(schema, (dict, bool)):
        schema = _of_function(schema) if _is_function(schema) else _of_type(schema)
    try:
        return _parsed(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as e:
        raise SchemaError(f"the schema is not JSON: {e}") from None
    except RecursionError:
        raise SchemaError("the schema is nested too deeply (or holds itself)") from None


def _parsed(text: str) -> tuple[Any, str]:
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except ValueError as e:
        raise SchemaError(f"the schema is not valid JSON: {e}") from None
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    if not isinstance(document, (dict, bool)):
        raise SchemaError(f"a schema is a JSON object or a boolean, not {type(document).__name__}")
    return document, text


def _mentions(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether a JSON text may have what the pattern finds; a search is a hundred times faster than a walk through the document."""
    return pattern.search(text) is not None or "\\u00" in text  # which may be a letter of a keyword, escaped


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _is_function(value: object) -> bool:
    return inspect.isfunction(value) or inspect.ismethod(value) or inspect.isbuiltin(value)


def _of_type(kind: Any) -> Any:
    import pydantic
    import pydantic.errors

    try:
        adapter = kind if isinstance(kind, pydantic.TypeAdapter) else pydantic.TypeAdapter(modern_type(kind))
        return adapter.json_schema()
    except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError, TypeError, AttributeError) as e:
        first = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise SchemaError(f"pydantic has no JSON schema for {kind!r}: {first}") from None


def modern_type(kind: Any) -> Any:
    """``kind`` with each ``typing.TypedDict`` in it replaced by that of ``typing_extensions``.

    Before Python 3.12 pydantic takes only the latter; the two describe the same dictionaries.
    """
    if sys.version_info < (3, 12) and typing.is_typeddict(kind) and type(kind).__module__ == "typing":
        fields = {}
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            marked = typing.get_origin(hint) in (typing.Required, typing.NotRequired)
            needed = typing.get_origin(hint) is typing.Required if marked else name in kind.__required_keys__
            inner = modern_type(typing.get_args(hint)[0] if marked else hint)
            fields[name] = inner if needed else typing.NotRequired[inner]
        return typing_extensions.TypedDict(kind.__name__, fields)  # type: ignore[operator]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None or origin is typing.Literal or not arguments:
        return kind
    changed = tuple(modern_type(a) if isinstance(a, type) or typing.get_origin(a) else a for a in arguments)
    if changed == arguments:
        return kind
    if origin in (typing.Union, types.UnionType):
        return typing.Union[changed]
    return typing.Annotated[changed] if origin is typing.Annotated else origin[changed]


def _of_function(function: object) -> Any:
    """An object with one member per parameter; parameters with a default are optional."""
    import pydantic

    assert callable(function)
    call: Callable[..., Any] = function
    try:
        parameters = inspect.signature(call, eval_str=True).parameters
    except (TypeError, ValueError, NameError) as e:
        raise SchemaError(f"the signature of {function!r} cannot be read: {e}") from None
    fields: dict[str, Any] = {}
    extra: Any = None
    for name, parameter in parameters.items():
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = kind
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise SchemaError(f"the parameter {name!r} of {getattr(function, '__name__', function)!r} cannot be passed by name")
        else:
            fields[name] = (kind, ... if parameter.default is parameter.empty else parameter.default)
    title = getattr(function, "__name__", "arguments")
    adapters = {name: _of_field(name, kind, default) for name, (kind, default) in fields.items()}
    required = [name for name, (_, default) in fields.items() if default is ...]
    document: dict[str, Any] = {"title": title, "type": "object", "properties": {}, "required": required}
    inputs = [(name, "validation", adapter) for name, adapter in adapters.items()]
    schemas, definitions = pydantic.TypeAdapter.json_schemas(inputs)  # type: ignore[arg-type]
    document["properties"] = {name: schemas[name, "validation"] for name in fields}
    document.update(definitions)
    document["additionalProperties"] = False if extra is None else _of_type(extra)
    return document


def _of_field(name: str, kind: Any, default: object) -> Any:
    import pydantic
    import pydantic.errors

    try:
        return pydantic.TypeAdapter(modern_type(kind))
    except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError, TypeError) as e:
        raise SchemaError(f"pydantic has no JSON schema for the parameter {name!r}: {str(e).splitlines()[0]}") from None


def guess_draft(document: Any, text: str) -> str:
    """The draft of a document that does not say: the newest, unless it only makes sense in an older one.

    Old forms that 2020-12 calls malformed are taken as a hint: ``exclusiveMinimum: true`` (draft 4) and
    ``items: [...]`` (up to 2019-09).
    """
    todo, guess = [document] if _mentions(text, _OLD_FORMS) else [], "2020-12"
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if isinstance(value.get("exclusiveMinimum"), bool) or isinstance(value.get("exclusiveMaximum"), bool):
                return "4"
            if isinstance(value.get("items"), list):
                guess = "7"
            todo.extend(v for k, v in value.items() if k not in ("enum", "const", "default", "examples") and isinstance(v, (dict, list)))
        elif isinstance(value, list):
            todo.extend(v for v in value if isinstance(v, (dict, list)))
    return guess


def may_be_dynamic(document: Any, text: str) -> bool:
    """Whether a document has dynamic references, or refers to other documents, which may have some."""
    todo = [document] if _mentions(text, _DYNAMIC) else []
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if "$dynamicRef" in value or "$recursiveRef" in value:
                return True
            reference = value.get("$ref", "#")
            if isinstance(reference, str) and not reference.startswith("#"):
                return True
            todo.extend(v for v in value.values() if isinstance(v, (dict, list)))
        elif isinstance(value, list):
            todo.extend(v for v in value if isinstance(v, (dict, list)))
    return False
