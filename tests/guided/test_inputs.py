"""What may stand for a constraint, and the values that come back."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Required, TypedDict

import pytest
from pydantic import BaseModel, Field

from grammars import Choice, Constraint, ConstraintError, JsonSchema, Regex
from guided import constraint_from
from guided.explain import check
from guided.inputs import target_of


class Pet(BaseModel):
    name: str = Field(max_length=8)
    kind: Literal["cat", "dog"]
    age: int | None = None


@dataclass
class Point:
    x: int
    y: int = 0


class Entry(TypedDict):
    key: str
    value: int


class Shelf(TypedDict, total=False):
    entries: list[Entry | None]
    best: Annotated[Entry, "the best one"]
    size: Required[int]


class Pair(NamedTuple):
    a: int
    b: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    value: int
    next: Node | None = None


def order(item: str, count: int = 1) -> None:
    """Orders something."""


CASES: list[tuple[Any, str, Any]] = [
    ({"type": "integer"}, "3", 3),
    (True, '{"a": [1]}', {"a": [1]}),
    ('{"enum": ["a", 2]}', '"a"', "a"),
    (Pet, '{"name": "Tom", "kind": "cat"}', Pet(name="Tom", kind="cat")),
    (Pet, '{"name": "Tom", "kind": "dog", "age": 3}', Pet(name="Tom", kind="dog", age=3)),
    (Point, '{"x": 1, "y": 2}', Point(1, 2)),
    (Point, '{"x": 1}', Point(1)),
    (Entry, '{"key": "k", "value": 5}', {"key": "k", "value": 5}),
    (Shelf, '{"size": 2}', {"size": 2}),
    (Shelf, '{"entries": [{"key": "k", "value": 5}, null], "size": 2}', {"entries": [{"key": "k", "value": 5}, None], "size": 2}),
    (list[Entry], '[{"key": "k", "value": 5}]', [{"key": "k", "value": 5}]),
    (Pair, '[1, "x"]', Pair(1, "x")),
    (Colour, '"blue"', Colour.BLUE),
    (Node, '{"value": 1, "next": {"value": 2, "next": null}}', Node(value=1, next=Node(value=2))),
    (list[int], "[1, 2]", [1, 2]),
    (Literal["x", "y"], '"y"', "y"),
    (int | None, "null", None),
    (order, '{"item": "tea", "count": 2}', {"item": "tea", "count": 2}),
    (order, '{"item": "tea"}', {"item": "tea", "count": 1}),
    (["yes", "no"], "no", "no"),
    (re.compile("[a-c]+", re.I), "aBc", "aBc"),
    (Regex("x+"), "xx", "xx"),
    (JsonSchema({"type": "array"}), "[1]", [1]),
]


@pytest.mark.parametrize(("given", "text", "value"), CASES, ids=[f"{str(c[0])[:30]}-{c[1]}" for c in CASES])
def test_text_fits_and_becomes_a_value(given: Any, text: str, value: Any) -> None:
    target = target_of(given)
    assert isinstance(target.constraint, Constraint)
    assert check(target.constraint, text.encode()) is None
    found = target.parse(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Pet, '{"name": "Tom", "kind": "cow"}'),
        (Pet, '{"name": "Tom", "kind": "cat", "owner": "me"}'),
        (Pet, '{"name": "much too long", "kind": "cat"}'),
        (Point, '{"x": 1, "z": 2}'),
        (Entry, '{"key": "k"}'),
        (Shelf, '{"best": {"key": "k"}, "size": 1}'),
        (order, '{"count": 2}'),
        (order, '{"item": "tea", "size": 1}'),
        (["yes", "no"], "nope"),
        (re.compile("a.c"), "a\nc"),
        (re.compile("abc"), "xabc"),
    ],
)
def test_text_that_does_not_fit(given: Any, text: str) -> None:
    constraint = constraint_from(given)
    assert isinstance(constraint, Constraint)
    assert check(constraint, text.encode()) is not None


def test_nothing_is_free_text() -> None:
    assert constraint_from(None) is None
    assert target_of(None).parse("x") == "x"
    choice = Choice(["a"])
    assert constraint_from(choice) is choice


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "stands for no constraint"),
        (object(), "stands for no constraint"),
        ("not json", "JSON text of a schema"),
        ("[1]", "object or a boolean"),
        (re.compile(b"x"), "over str"),
        ((lambda *a: None), "cannot be given by name"),
        ((lambda **k: None), "cannot be given by name"),
        ([], "at least one option"),
    ],
)
def test_what_stands_for_none(given: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        constraint_from(given)
