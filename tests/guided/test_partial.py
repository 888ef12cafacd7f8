"""Values of the beginnings of JSON texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.partial import NOTHING, partial_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", NOTHING),
        ("  \n", NOTHING),
        ("1", NOTHING),
        ("1 ", 1),
        ("-2.5e3\n", -2500.0),
        ("tru", NOTHING),
        ("null", NOTHING),
        ("null ", None),
        ('"', ""),
        ('"ab', "ab"),
        ('"ab\\', "ab"),
        ('"ab\\u00', "ab"),
        ('"ab\\u00e9', "abé"),
        ('"\\ud83d', ""),
        ('"\\ud83d\\ude', ""),
        ('"\\ud83d\\ude42', "🙂"),
        ('"a\\"b"', 'a"b'),
        ("[", []),
        ("[1", []),
        ("[1,", [1]),
        ("[1,2", [1]),
        ("[1,[true, ", [1, [True]]),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": 1', {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": {"b": [', {"a": {"b": []}}),
        ('{"a": [1], "b": {"c": null}, "d"', {"a": [1], "b": {"c": None}}),
    ],
)
def test_examples(text: str, value: Any) -> None:
    assert repr(partial_json(text)) == repr(value)


def grows(before: Any, after: Any) -> bool:
    """Whether ``after`` is ``before`` or more of it."""
    if before is NOTHING:
        return True
    if isinstance(before, str):
        return isinstance(after, str) and after.startswith(before)
    if isinstance(before, list):
        return isinstance(after, list) and len(after) >= len(before) and all(map(grows, before, after))
    if isinstance(before, dict):
        return isinstance(after, dict) and list(after)[: len(before)] == list(before) and all(grows(before[k], after[k]) for k in before)
    return bool(before == after)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_values_only_grow_until_they_are_whole(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only) + "\n"
    before: Any = NOTHING
    for end in range(len(text) + 1):
        after = partial_json(text[:end])
        assert grows(before, after), (text[:end], before, after)
        before = after
    assert before == value


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(alphabet='{}[]",:\\u0d1ntf \n-', max_size=20))
def test_no_text_breaks_it(text: str) -> None:
    partial_json(text)


def test_depth_is_no_trouble() -> None:
    value = partial_json('[{"a":' * 5_000)
    for _ in range(4_999):
        value = value[0]["a"]
    assert value == [{}]
