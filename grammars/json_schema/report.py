"""What becomes of a schema, told in full: every assertion, what users may not expect, and what it costs."""

from __future__ import annotations

import difflib
import time
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import ConstraintError, GuidedError, LimitError, SchemaError
from ..regex.expr import Pool
from ..rules import Capture, Rule
from .keywords import KEYWORDS, REFERENCES, keywords_of
from .references import Node
from .scan import Finding
from .schema import JsonSchema

__all__ = ["Caution", "Cost", "Explanation", "explain"]

HUGE = 10_000
"""Counts above this are worth a word."""
STATES = 5_000
"""Rule states that are counted; there may be more, or infinitely many."""
_KINDS = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_OTHERS = ("type", "enum", "const", "allOf", "anyOf", "oneOf", *REFERENCES)
_PARTIAL = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_ANNOTATIONS = (
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"),
    *("contentSchema", "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
    *("$comment", "$defs", "definitions"),
)


@dataclass(frozen=True, slots=True)
class Caution:
    """Something that is as the standard says, but perhaps not as meant.

    Attributes:
        pointer: of the keyword or the schema.
        kind: a short name.
        message: what it means, and what to do about it.
    """

    pointer: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Cost:
    """How big the schema is.

    Attributes:
        schemas: subschemas that it reaches, references counted once.
        records: rules (one an array or object record of the normal form) that were met.
        states: states of these rules.
        whole: whether these are all there are; otherwise counting stopped.
        compile_ms: milliseconds to build the start.
    """

    schemas: int = 0
    records: int = 0
    states: int = 0
    whole: bool = True
    compile_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """See :func:`explain`.

    Attributes:
        draft: what the schema is read as.
        findings: one an assertion, by pointer.
        warnings: what may be unexpected.
        cost: its size.
        problem: why there is no constraint; ``None`` where the schema is supported.
    """

    draft: str
    findings: list[Finding] = field(default_factory=list)
    warnings: list[Caution] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    problem: str | None = None

    @property
    def supported(self) -> bool:
        """Whether texts can be generated."""
        return self.problem is None

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON has it."""
        return {**asdict(self), "supported": self.supported}


def explain(schema: JsonSchema) -> Explanation:
    """What becomes of every assertion of ``schema``, warnings, and its cost. Unsupported schemas are explained, not raised."""
    findings: list[Finding] = []
    warnings: list[Caution] = []
    try:
        nodes = [node for node in schema._scanned()[0].nodes if isinstance(node.schema, dict)]
        findings = sorted(schema.report(), key=lambda finding: finding.pointer)
        warnings = sorted((w for node in nodes for w in _warnings(node, schema)), key=lambda w: (w.kind, w.pointer))
        begin = time.perf_counter()
        rule = schema.build(Pool())
        took = (time.perf_counter() - begin) * 1e3
        records, states, whole = _size(rule)
    except SchemaError as error:
        refused = Finding(error.pointer, error.keyword or "", "refused", error.reason)
        findings = [finding for finding in findings if finding.pointer != error.pointer] + [refused]
        return Explanation(schema.draft, findings, warnings, problem=str(error))
    except (ConstraintError, LimitError) as error:
        return Explanation(schema.draft, findings, warnings, problem=str(error))
    return Explanation(schema.draft, findings, warnings, Cost(len(nodes), records, states, whole, took))


def _size(start: Rule) -> tuple[int, int, bool]:
    """Rules and states that are reached from ``start``, breadth first, and whether these are all."""
    todo: deque[tuple[Rule, Hashable]] = deque([(start, start.start)])
    seen: set[tuple[Rule, Hashable]] = set(todo)
    exact = True
    while todo and len(seen) < STATES:
        rule, key = todo.popleft()
        try:
            state = rule.expand(key)
        except GuidedError:
            exact = False
            break
        for symbol, target in state.edges:
            reached = [(symbol, symbol.start)] if isinstance(symbol, Rule) else []
            if isinstance(target, Capture):
                exact = False  # which states follow depends on the text
            else:
                reached.append((rule, target))
            for pair in reached:
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
    return len({id(rule) for rule, _ in seen}) - 1, len(seen), exact and not todo


# ---------------------------------------------------------------- warnings
def _warnings(node: Node, schema: JsonSchema) -> Iterator[Caution]:
    if "$ref" in node.schema and set(node.keywords) == {"$ref"}:
        hidden = [name for name in node.schema if name != "$ref" and name in keywords_of(node.draft)]
        if hidden:
            message = f"draft {node.draft} ignores what stands beside a $ref ({', '.join(hidden)}): put both into an allOf"
            yield Caution(node.pointer, "beside $ref", message)
        return
    yield from _unknown(node)
    yield from _open(node)
    yield from _texts(node, schema.format == "assert")
    for name in _COUNTS:
        value = node.schema.get(name) if name in node.keywords else None
        if isinstance(value, int | float) and value > HUGE:
            means = "is more than a text will hold, so it bounds nothing" if name.startswith("max") else "asks for very long texts"
            message = f"{name} {value:g} {means}"
            yield Caution(node.at(name), "huge count", message)


def _unknown(node: Node) -> Iterator[Caution]:
    known = keywords_of(node.draft)
    if "dependencies" in node.schema and node.draft not in ("4", "6", "7"):
        message = f"dependencies is no keyword of draft {node.draft} any more; it is enforced as in draft 7"
        yield Caution(node.at("dependencies"), "keyword of another draft", message)
    for name in node.schema:
        if name in known or name in _ANNOTATIONS:
            continue
        drafts = [draft for draft, table in KEYWORDS.items() if name in table]
        if drafts and name not in node.keywords:
            message = f"{name} says nothing in draft {node.draft}, it is a keyword of {', '.join(drafts)}: name the draft ($schema)"
            yield Caution(node.at(name), "keyword of another draft", message)
        elif close := difflib.get_close_matches(name, known, 1, 0.8):
            yield Caution(node.at(name), "unknown keyword", f"{name} is no keyword, so it says nothing; did you mean {close[0]}?")


def _open(node: Node) -> Iterator[Caution]:
    """Types that are not told, and objects that take members besides the declared ones."""
    schema = node.schema
    keywords = node.keywords
    parts = node.pointer.split("/")
    partial = not _PARTIAL.isdisjoint(parts[-2:])
    if not partial and not any(name in keywords for name in _OTHERS):
        for kind, names in _KINDS.items():
            used = [name for name in names if name in keywords]
            if used:
                yield Caution(node.pointer, "no type", f"{used[0]} speaks of {kind}s only, values of other types fit as well: add a type")
                break
    if "properties" not in keywords or partial:
        return
    if not any(name in keywords for name in ("additionalProperties", "unevaluatedProperties")):
        message = "members besides the declared ones are allowed, with any value: add additionalProperties: false to close the object"
        yield Caution(node.pointer, "open object", message)
    for name in schema.get("required", ()):
        if name not in schema["properties"] and "patternProperties" not in keywords:
            yield Caution(node.at("required"), "required but not declared", f"{name!r} is required, but properties do not say what it is")


def _texts(node: Node, asserted: bool) -> Iterator[Caution]:
    schema, keywords = node.schema, node.keywords
    for keyword in ("pattern", "patternProperties"):
        for pattern in ([schema[keyword]] if keyword == "pattern" else schema[keyword]) if keyword in keywords else ():
            if "^" not in pattern and "$" not in pattern:
                message = f"the pattern {pattern!r} may match anywhere in the text: anchor it with ^ and $ to match the whole"
                yield Caution(node.at(keyword), "unanchored pattern", message)
            elif not (pattern.lstrip("(").startswith("^") and pattern.rstrip(")").endswith("$")):
                message = f"the pattern {pattern!r} is anchored on one side only: anything may stand on the other"
                yield Caution(node.at(keyword), "half-anchored pattern", message)
    if "format" in keywords and asserted:
        from ..formats import FORMATS

        if schema["format"] not in FORMATS:
            message = f"{schema['format']!r} is no known format, so it is an annotation: add a pattern"
            yield Caution(node.at("format"), "unknown format", message)
