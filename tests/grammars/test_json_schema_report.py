"""``explain``: every assertion is told, what users do not expect is warned of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grammars.json_schema import JsonSchema
from grammars.json_schema.report import explain
from guided.cli import app

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
    "required": ["name"],
    "additionalProperties": False,
}


def kinds(schema: Any, **options: Any) -> dict[str, str]:
    return {warning.pointer: warning.kind for warning in explain(JsonSchema(schema, **options)).warnings}


def test_every_assertion_is_told_once() -> None:
    found = explain(JsonSchema(PERSON))
    assert found.supported and not found.warnings
    told = [finding.pointer for finding in found.findings]
    assert sorted(set(told)) == told
    assert set(told) == {
        *("/type", "/properties", "/required", "/additionalProperties", "/properties/name/type", "/properties/name/minLength"),
        *("/properties/tags/type", "/properties/tags/items", "/properties/tags/items/enum"),
    }
    assert {finding.status for finding in found.findings} == {"masked"}
    assert found.cost.schemas == 4 and found.cost.records == 2 and found.cost.whole and found.cost.states > 5 and found.cost.compile_ms > 0


@pytest.mark.parametrize(
    ("schema", "pointer", "kind"),
    [
        ({"type": "string", "pattern": "x"}, "/pattern", "unanchored pattern"),
        ({"type": "string", "pattern": "^x"}, "/pattern", "half-anchored pattern"),
        ({"type": "object", "properties": {"a": {}}}, "", "open object"),
        ({"type": "array", "maxItems": 100000}, "/maxItems", "huge count"),
        ({"type": "string", "format": "shoe-size"}, "/format", "unknown format"),
        ({"minimum": 3}, "", "no type"),
        ({"type": "string", "minLenght": 3}, "/minLenght", "unknown keyword"),
        ({"type": "object", "dependencies": {}}, "/dependencies", "keyword of another draft"),
        ({"type": "object", "properties": {}, "unevaluatedProperties": False, "patternProperties": {"^a$": {}}}, None, ""),
        ({"type": "object", "properties": {}, "additionalProperties": True, "required": ["b"]}, "/required", "required but not declared"),
        ({"type": "string", "pattern": "^x$", "title": "t", "description": "d"}, None, ""),
        ({"type": "object", "allOf": [{"minProperties": 1}]}, None, ""),
    ],
)
def test_warnings(schema: Any, pointer: str | None, kind: str) -> None:
    assert kinds(schema, draft="2020-12") == ({} if pointer is None else {pointer: kind})


def test_siblings_of_references_are_ignored_by_old_drafts_only() -> None:
    schema = {"definitions": {"x": {"type": "string"}}, "allOf": [{"$ref": "#/definitions/x", "minLength": 2}]}
    assert kinds(schema, draft="7") == {"/allOf/0": "beside $ref"}
    assert kinds(schema, draft="2020-12") == {}


def test_refusals_are_told() -> None:
    found = explain(JsonSchema({"type": "string", "properties": {"a": {"pattern": "(a)\\1"}}}))
    assert not found.supported and "backreferences" in (found.problem or "")
    assert [(f.pointer, f.status) for f in found.findings if f.status == "refused"] == [("/properties/a/pattern", "refused")]
    assert "no instance" in (explain(JsonSchema({"type": "string", "const": 1})).problem or "")


def test_recursion_is_not_followed_without_end() -> None:
    found = explain(JsonSchema({"type": "array", "items": {"$ref": "#"}}, whitespace="indent=2"))
    assert found.supported and not found.cost.whole


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "person.json"
    path.write_text(json.dumps(PERSON))
    run = CliRunner().invoke(app, ["explain", str(path)])
    assert run.exit_code == 0 and "9 masked" in run.output and "additionalProperties" in run.output
    run = CliRunner().invoke(app, ["explain", "-", "--json"], input=json.dumps({"format": "date", "type": "string"}))
    assert run.exit_code == 0 and json.loads(run.stdout)["draft"] == "2020-12"
    assert CliRunner().invoke(app, ["explain", '{"pattern": "("}']).exit_code == 1
    assert CliRunner().invoke(app, ["explain", "[1"]).exit_code == 2
    assert CliRunner().invoke(app, ["explain", "[1]"]).exit_code == 2
    assert CliRunner().invoke(app, ["explain", str(tmp_path / "none.json")]).exit_code == 2
