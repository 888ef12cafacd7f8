"""The eager part of compilation: every reachable schema is checked once, cheaply, so that nothing is refused later.

The scan walks schemas as documents (no normal form is made), follows references, checks arguments and patterns, and
notes for every assertion whether it is enforced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import RegexError, SchemaError
from ..formats import FORMATS
from .keywords import REFERENCES, Keyword, check
from .references import Documents, Node

__all__ = ["Finding", "Scan", "scan"]

_RISKY = frozenset({"not", "oneOf", "if", "unevaluatedItems", "unevaluatedProperties"})
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", *REFERENCES})


@dataclass(frozen=True, slots=True)
class Finding:
    """What becomes of one assertion.

    Attributes:
        pointer: where it is.
        keyword: its name.
        status: ``"masked"`` (enforced), ``"annotation"`` (ignored, as its draft says) or ``"refused"``.
        reason: why, where it is not masked.
    """

    pointer: str
    keyword: str
    status: str
    reason: str = ""


@dataclass
class Scan:
    """What the scan found.

    Attributes:
        findings: one per assertion, in the order met.
        risky: numbers of the schemas that lead to keywords whose normal form may have to be refused, so that it must be made at once.
    """

    findings: list[Finding] = field(default_factory=list)
    risky: set[int] = field(default_factory=set)


class _Scanner:
    def __init__(self, documents: Documents, assert_format: bool) -> None:
        self.documents, self.assert_format = documents, assert_format
        self.result = Scan()
        self.patterns: set[str] = set()
        self.edges: dict[int, list[tuple[Node, str]]] = {}
        self.parents: dict[int, list[int]] = {}

    def run(self) -> Scan:
        seen, todo = {self.documents.root.number}, [self.documents.root]
        while todo:
            parent = todo.pop()
            for node in self.visit(parent):
                self.parents.setdefault(node.number, []).append(parent.number)
                if node.number not in seen:
                    seen.add(node.number)
                    todo.append(node)
        self.loops()
        self.spread()
        return self.result

    def spread(self) -> None:
        """What leads to something risky is risky."""
        todo = list(self.result.risky)
        while todo:
            for parent in self.parents.get(todo.pop(), ()):
                if parent not in self.result.risky:
                    self.result.risky.add(parent)
                    todo.append(parent)

    def visit(self, node: Node) -> list[Node]:
        """Checks one schema; its subschemas and what it refers to."""
        schema = node.schema
        if isinstance(schema, bool):
            return []
        found: list[Node] = []
        for name, keyword in node.keywords.items():
            value = schema[name]
            check(keyword, value, node.pointer)
            children = self.children(node, keyword, value)
            if name in _IN_PLACE:
                self.edges.setdefault(node.number, []).extend((child, name) for child in children)
            found += children
            self.judge(node, keyword, value)
        return found

    def children(self, node: Node, keyword: Keyword, value: Any) -> list[Node]:
        name, child = keyword.name, self.documents.child
        if name in REFERENCES:
            return [self.documents.target(node, value, name)]
        if keyword.schemas == "one":
            return [child(node, value, name)]
        if keyword.schemas == "list":
            return [child(node, schema, name, i) for i, schema in enumerate(value)]
        if keyword.schemas == "one|list":
            return [child(node, s, name, i) for i, s in enumerate(value)] if isinstance(value, list) else [child(node, value, name)]
        if keyword.schemas == "map":
            return [child(node, schema, name, key) for key, schema in value.items()]
        if keyword.schemas == "map|strings":
            for key, needed in value.items():
                if isinstance(needed, list) and not all(isinstance(n, str) for n in needed):
                    raise SchemaError("a dependency is a schema or an array of strings", node.at(name, key), name)
            return [child(node, schema, name, key) for key, schema in value.items() if not isinstance(schema, list)]
        return []

    def judge(self, node: Node, keyword: Keyword, value: Any) -> None:
        name, status, reason = keyword.name, "masked", ""
        if name == "pattern":
            self.pattern(value, node.at(name))
        elif name == "patternProperties":
            for pattern in value:
                self.pattern(pattern, node.at(name, pattern))
        elif name == "format":
            if not self.assert_format:
                status, reason = "annotation", "formats are annotations, as asked"
            elif value not in FORMATS:
                status, reason = "annotation", f"{value!r} is no known format"
        elif name in _RISKY or (name == "minProperties" and value > 1) or (name == "uniqueItems" and value):
            self.result.risky.add(node.number)
        self.result.findings.append(Finding(node.at(name), name, status, reason))

    def pattern(self, pattern: str, pointer: str) -> None:
        from ..regex.syntax import parse

        if pattern in self.patterns:
            return
        self.patterns.add(pattern)
        try:
            parse(pattern, "ecma")
        except RegexError as e:
            raise SchemaError(f"this pattern is not supported: {e}", pointer, "pattern") from None

    def loops(self) -> None:
        """Refuses schemas that are defined as themselves."""
        state: dict[int, int] = {}
        for start in self.edges:
            stack = [(start, iter(self.edges[start]))]
            if state.setdefault(start, 1) == 2:
                continue
            while stack:
                number, rest = stack[-1]
                step = next(rest, None)
                if step is None:
                    state[number] = 2
                    stack.pop()
                    continue
                child, keyword = step
                if state.get(child.number) == 1:
                    node = self.documents.nodes[number]
                    raise SchemaError(f"the schema at #{child.pointer} is defined as itself, so it says nothing", node.at(keyword), keyword)
                if child.number not in state:
                    state[child.number] = 1
                    stack.append((child.number, iter(self.edges.get(child.number, ()))))


def scan(documents: Documents, assert_format: bool) -> Scan:
    """Checks everything that the root schema reaches.

    Raises:
        SchemaError: a keyword is malformed, a reference leads nowhere, a pattern is not regular.
    """
    return _Scanner(documents, assert_format).run()
