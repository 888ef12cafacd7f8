"""What may stand for a constraint, and what the text that fits it is turned into.

====================================================  =================================================  ==================================
given                                                 language                                           value of the result
====================================================  =================================================  ==================================
``None``                                              any text                                           ``str``
a :class:`grammars.Constraint`, a compiled automaton  its own                                            parsed JSON for ``JsonSchema`` and
                                                                                                         ``AnyJson``, else ``str``
``dict``, ``bool``, ``str`` (the JSON text of one)    JSON that fits the schema                          parsed JSON
a pydantic model, dataclass, ``TypedDict``,           JSON that fits the type's schema; objects have no  an instance of the type
``NamedTuple``, ``Enum`` or typing construct          members besides the type's (unless it allows them)
a function                                            JSON object of its arguments                       ``dict`` of arguments
a list of strings                                     one of them                                        ``str``
a compiled ``re.Pattern``                             what the pattern matches as a whole                ``str``
====================================================  =================================================  ==================================
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import TypedDict

from grammars import AnyJson, Automaton, Choice, Constraint, ConstraintError, JsonSchema, Regex, Vocabulary

from .partial import NOTHING, partial_json

__all__ = ["Target", "compile_constraint", "constraint_from", "target_of"]


@dataclass(frozen=True)
class Target:
    """A constraint and the way from its text to a value.

    Attributes:
        constraint: the language; ``None``: any text.
        parse: value of a complete text.
        partial: value of the beginning of a text, :data:`guided.partial.NOTHING` where there is none yet.
        schema: the JSON schema, where there is one.
    """

    constraint: Constraint | Automaton | None
    parse: Callable[[str], Any]
    partial: Callable[[str], Any]
    schema: Any = None


def constraint_from(value: Any) -> Constraint | Automaton | None:
    """The constraint that ``value`` stands for; see the table in :mod:`guided.inputs`.

    Raises:
        ConstraintError: it stands for none, or what it stands for is not supported.
    """
    return target_of(value).constraint


def compile_constraint(value: Any, vocabulary: Vocabulary) -> Automaton | None:
    """The automaton over ``vocabulary`` of what :func:`constraint_from` takes.

    Raises:
        ConstraintError: see :func:`constraint_from`; or a compiled automaton is over another vocabulary.
    """
    constraint = constraint_from(value)
    if isinstance(constraint, Automaton):
        if constraint.vocabulary.digest != vocabulary.digest:
            raise ConstraintError("the automaton was compiled for another vocabulary: compile the constraint with this model's")
        return constraint
    return None if constraint is None else constraint.compile(vocabulary)


def target_of(value: Any) -> Target:
    """The constraint that ``value`` stands for and how its texts become values.

    Raises:
        ConstraintError: it stands for none.
    """
    if value is None or isinstance(value, Automaton):
        return _text(value)
    if isinstance(value, JsonSchema | AnyJson):
        return Target(value, json.loads, partial_json, getattr(value, "document", None))
    if isinstance(value, Constraint):
        return _text(value)
    if isinstance(value, dict | bool):
        return _json(value)
    if isinstance(value, str):
        return _json(_schema_text(value))
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return _text(Choice(list(value)))
    if isinstance(value, re.Pattern):
        return _text(_pattern(value))
    return _function(value) if inspect.isroutine(value) else _type(value)


def _text(constraint: Constraint | Automaton | None) -> Target:
    return Target(constraint, str, lambda text: text or NOTHING)


def _json(schema: Any) -> Target:
    return Target(JsonSchema(schema), json.loads, partial_json, schema)


def _schema_text(text: str) -> Any:
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConstraintError(
            f"a str as a constraint is the JSON text of a schema, and this is not JSON ({error}); "
            "for other languages use Regex(...), Lark(...), Gbnf(...), Choice([...]) or Literal(...)"
        ) from None
    if not isinstance(schema, dict | bool):
        raise ConstraintError(f"a JSON schema is an object or a boolean, not {type(schema).__name__}")
    return schema


def _pattern(pattern: re.Pattern[Any]) -> Constraint:
    if not isinstance(pattern.pattern, str):
        raise ConstraintError("a pattern has to be over str: compile it without the b prefix")
    flags = "".join(letter for letter, flag in (("i", re.I), ("m", re.M), ("s", re.S), ("x", re.X), ("a", re.A)) if pattern.flags & flag)
    return Regex(pattern.pattern, flags=flags)


# ---------------------------------------------------------------- types
class _Closed(GenerateJsonSchema):
    """Schemas of types whose objects have only the type's own members, unless it says otherwise."""

    def _close(self, made: JsonSchemaValue) -> JsonSchemaValue:
        if made.get("type") == "object":
            made.setdefault("additionalProperties", False)
        return made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._close(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._close(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return self._close(super().typed_dict_schema(schema))


def _modern(kind: Any) -> Any:
    """``typing.TypedDict`` s in a type as those of ``typing_extensions``, which is what pydantic needs before Python 3.12."""
    if is_typeddict(kind) and type(kind).__module__ == "typing" and sys.version_info < (3, 12):
        fields = {}
        for name, hint in get_type_hints(kind, include_extras=True).items():
            bare = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
            fields[name] = (Required if name in kind.__required_keys__ else NotRequired)[_modern(bare)]
        made: Any = TypedDict(kind.__name__, fields)  # type: ignore[misc]
        made.__doc__ = kind.__doc__
        return made
    origin, inner = get_origin(kind), get_args(kind)
    modern = tuple(map(_modern, inner)) if origin not in (None, Literal, Callable) else inner
    if modern == inner:
        return kind
    if origin is Annotated:
        return Annotated[(modern[0], *inner[1:])]
    return Union[modern] if origin in (Union, UnionType) else origin[modern]


def _type(value: Any) -> Target:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_modern(value))
        schema = adapter.json_schema(schema_generator=_Closed)
    except (PydanticUserError, TypeError, NameError) as error:
        raise ConstraintError(
            f"{value!r} stands for no constraint ({str(error).splitlines()[0]}); give a Constraint, a JSON schema (dict), a type, "
            "a function, a list of texts, or a compiled re.Pattern"
        ) from None
    return Target(JsonSchema(schema), adapter.validate_json, partial_json, schema)


def _function(function: Callable[..., Any]) -> Target:
    """The arguments of a call, as an object."""
    name = getattr(function, "__name__", "function")
    fields: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (ValueError, NameError, TypeError) as error:
        raise ConstraintError(f"the signature of {name} cannot be read ({error})") from None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConstraintError(f"the parameter {parameter} of {name} cannot be given by name: only named parameters can be generated")
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        fields[parameter.name] = (kind, ... if parameter.default is parameter.empty else parameter.default)
    try:
        model: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        schema = model.model_json_schema(schema_generator=_Closed)
    except (PydanticUserError, TypeError, NameError) as error:
        raise ConstraintError(f"the parameters of {name} have no JSON schema ({str(error).splitlines()[0]})") from None
    if description := inspect.getdoc(function):
        schema["description"] = description

    def arguments(text: str) -> dict[str, Any]:
        made = model.model_validate_json(text)
        return {key: getattr(made, key) for key in fields}

    return Target(JsonSchema(schema), arguments, partial_json, schema)
