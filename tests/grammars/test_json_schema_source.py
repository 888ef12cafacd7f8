"""What is told from a schema's text, instead of a walk through the document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars import JsonSchema
from grammars.json_schema.source import document_of, guess_draft, may_be_dynamic

KEYS = ("items", "exclusiveMinimum", "exclusiveMaximum", "$ref", "$dynamicRef", "$recursiveRef", "properties", "const", "a")
LEAVES = st.sampled_from([True, False, None, 3, "#/a", "other.json", "items", '"items": [', "$dynamicRef", '"$ref": "x"', "é\u0001"])
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4), max_leaves=12
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(KEYS), DOCUMENTS, max_size=4), st.sampled_from([None, 1]), st.booleans())
def test_the_text_says_what_a_walk_says(document: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    always = text + '"\\u00"'  # what makes the text useless, so that the document is walked
    assert guess_draft(document, text) == guess_draft(document, always)
    assert may_be_dynamic(document, text) == may_be_dynamic(document, always)


@pytest.mark.parametrize(
    ("text", "draft", "dynamic"),
    [
        ('{"items" : [ true ]}', "7", False),
        ('{"it\\u0065ms": [true]}', "7", False),
        ('{"properties": {"a": {"exclusiveMaximum":\n true}}}', "4", False),
        ('{"exclusiveMaximum": 3, "items": {}}', "2020-12", False),
        ('{"enum": [{"items": [1]}]}', "2020-12", False),
        ('{"\\u0024dynamicRef": "#a"}', "2020-12", True),
        ('{"$ref":\t"other.json"}', "2020-12", True),
        ('{"$ref": "#/$defs/a", "$defs": {"a": {}}}', "2020-12", False),
    ],
)
def test_examples(text: str, draft: str, dynamic: bool) -> None:
    document, same = document_of(text)
    assert same == text
    assert (guess_draft(document, text), may_be_dynamic(document, text)) == (draft, dynamic)


def test_an_escaped_keyword_is_a_keyword(byte_vocab: Any) -> None:
    schema = '{"\\u0024ref": "#/$defs/a", "$defs": {"a": {"it\\u0065ms": [{"const": 1}], "type": "array"}}}'
    automaton = JsonSchema(schema).compile(byte_vocab)
    assert automaton.accepts(automaton.advance_bytes(automaton.start, b"[1, 2]"))
    assert automaton.advance_bytes(automaton.start, b"[2") == automaton.DEAD
