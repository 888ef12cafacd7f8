"""Schema nodes and how they refer to each other (``$ref``, ``$id``, ``$anchor``, JSON pointers), through ``referencing``.

A :class:`Node` is one schema at one place of one document. :class:`Documents` hands out nodes: equal places
are the same node, so recursive schemas are finite graphs. Remote documents come from the registry that the caller
passes (and the published metaschemas); nothing is ever fetched.
"""

from __future__ import annotations

from typing import Any

import referencing
import referencing.exceptions
import referencing.jsonschema
from jsonschema_specifications import REGISTRY as METASCHEMAS  # type: ignore[import-untyped]

from ..errors import LimitError, SchemaError
from ..limits import Limits
from .keywords import DRAFTS, NEWEST, Keyword, escape_token, keywords_of

__all__ = ["Documents", "Node", "draft_of_uri", "specification_of"]

Resolver = Any
Dialect = tuple[str, bool]
Scope = tuple[str, ...]

_SPECIFICATIONS: dict[str, referencing.Specification[Any]] = {
    "4": referencing.jsonschema.DRAFT4,
    "6": referencing.jsonschema.DRAFT6,
    "7": referencing.jsonschema.DRAFT7,
    "2019-09": referencing.jsonschema.DRAFT201909,
    "2020-12": referencing.jsonschema.DRAFT202012,
}
_METASCHEMAS = {
    "http://json-schema.org/draft-04/schema": "4",
    "http://json-schema.org/draft-06/schema": "6",
    "http://json-schema.org/draft-07/schema": "7",
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
}
_ROOT = "urn:guided:schema"
_PROBE: referencing.Resource[Any] = referencing.jsonschema.DRAFT202012.create_resource({"$id": "urn:guided:probe"})


def draft_of_uri(uri: object) -> str | None:
    """The draft whose metaschema ``uri`` names, if it is one of the five."""
    if not isinstance(uri, str):
        return None
    bare = uri.rstrip("#").rstrip("/").strip()
    return _METASCHEMAS.get(bare) or _METASCHEMAS.get(bare.replace("https://json-schema.org/draft-", "http://json-schema.org/draft-"))


def specification_of(draft: str) -> referencing.Specification[Any]:
    """``referencing``'s rules for a draft."""
    return _SPECIFICATIONS[draft]


class Node:
    """One schema at its place.

    Attributes:
        number: its number in :class:`Documents`.
        schema: a ``dict`` or a ``bool``.
        pointer: JSON pointer in the document that the user gave (or URI and pointer, for other documents).
        dialect: the draft that it is written in, and whether its metaschema has the validation vocabulary.
    """

    __slots__ = ("_keywords", "dialect", "number", "pointer", "resolver", "schema")

    def __init__(self, number: int, schema: Any, pointer: str, dialect: Dialect, resolver: Resolver) -> None:
        self.number, self.schema, self.pointer, self.dialect, self.resolver = number, schema, pointer, dialect, resolver
        self._keywords: dict[str, Keyword] | None = None

    @property
    def draft(self) -> str:
        """The draft that it is written in."""
        return self.dialect[0]

    def at(self, keyword: str, *more: str | int) -> str:
        """Pointer of a keyword of this schema, or of something in it."""
        return "/".join([self.pointer, escape_token(keyword), *map(escape_token, more)])

    @property
    def keywords(self) -> dict[str, Keyword]:
        """The assertions and applicators of this schema that its draft knows, in the order written."""
        found = self._keywords
        if found is None:
            table = keywords_of(self.draft)
            if "$ref" in self.schema and DRAFTS.index(self.draft) <= 2:
                found = {"$ref": table["$ref"]}  # in these drafts a reference hides its siblings
            else:
                found = {name: table[name] for name in self.schema if name in table and (self.dialect[1] or table[name].applies)}
            self._keywords = found
        return found


class Documents:
    """The schema documents that one constraint can reach.

    Args:
        document: the root schema, out of ``json.loads`` (no shared parts).
        draft: of the root, unless it says another itself.
        registry: where other documents may come from.
        limits: ``schema_size`` bounds the number of nodes.
        dynamic: whether there may be dynamic references, in the document or in others that it refers to.
    """

    def __init__(self, document: Any, draft: str, registry: referencing.Registry[Any] | None, limits: Limits, dynamic: bool = True) -> None:
        self.limits = limits
        self.nodes: list[Node] = []
        self._by_place: dict[tuple[int, Scope], Node] = {}
        self._values: dict[str, Node] = {}
        self._unions: dict[tuple[frozenset[int], ...], Node] = {}
        self._false: Node | None = None
        self._targets: dict[tuple[int, str], Node] = {}
        self._kept: list[Any] = []  # places are known by the identity of their contents, which must therefore live
        self._new(True, "", (draft, True), None)
        base: referencing.Registry[Any] = METASCHEMAS if registry is None else METASCHEMAS.combine(registry)
        own = draft_of_uri(document.get("$schema")) if isinstance(document, dict) else None
        self.draft = own or draft
        resource: referencing.Resource[Any] = specification_of(self.draft).create_resource(document)
        uri = resource.id() or _ROOT
        self.registry = base.with_resource(uri, resource)
        self._dynamic = dynamic
        self.root = self.place(document, "", (self.draft, True), self.registry.resolver(uri))

    def _dialect(self, schema: Any, outer: Dialect) -> Dialect:
        """The dialect of a schema within a document of another (or the same)."""
        stated = schema.get("$schema")
        known = draft_of_uri(stated)
        if known is not None:
            return known, True
        if not isinstance(stated, str) or stated.rstrip("#") not in self.registry:
            return outer
        metaschema = self.registry.contents(stated.rstrip("#"))
        draft = draft_of_uri(metaschema.get("$schema")) or outer[0]
        vocabularies = metaschema.get("$vocabulary", {})
        return draft, not vocabularies or any(uri.endswith("/vocab/validation") for uri in vocabularies)

    def _new(self, schema: Any, pointer: str, dialect: Dialect, resolver: Resolver) -> Node:
        if len(self.nodes) >= self.limits.schema_size:
            raise LimitError("schema_size", self.limits.schema_size, "(schemas within the schema)")
        node = Node(len(self.nodes), schema, pointer, dialect, resolver)
        self.nodes.append(node)
        return node

    def place(self, schema: Any, pointer: str, dialect: Dialect, resolver: Resolver) -> Node:
        """The node of ``schema``, whose own ``$id`` is not yet taken into account by ``resolver``."""
        if isinstance(schema, bool):
            return self.nodes[0] if schema else self.false(pointer)
        if not isinstance(schema, dict):
            raise SchemaError(f"a schema must be an object or a boolean, not {type(schema).__name__}", pointer)
        dialect = self._dialect(schema, dialect)
        if isinstance(schema.get("$id", schema.get("id")), str):
            resolver = resolver.in_subresource(specification_of(dialect[0]).create_resource(schema))
        return self._placed(schema, pointer, dialect, resolver)

    def _placed(self, schema: Any, pointer: str, dialect: Dialect, resolver: Resolver) -> Node:
        """The node of ``schema``, whose own ``$id`` is taken into account by ``resolver``."""
        key = id(schema), self._scope(resolver)
        node = self._by_place.get(key)
        if node is None:
            node = self._by_place[key] = self._new(schema, pointer, dialect, resolver)
            self._kept.append(schema)
        return node

    def _scope(self, resolver: Resolver) -> Scope:
        """The documents passed through, outermost first and each once: what a dynamic reference depends on."""
        if not self._dynamic:
            return ()
        passed = [uri for uri, _ in resolver.in_subresource(_PROBE).dynamic_scope()]  # the probe makes the present one a past one
        return tuple(dict.fromkeys(reversed(passed)))

    def false(self, pointer: str) -> Node:
        """The schema ``false``."""
        if self._false is None:
            self._false = self._new(False, pointer, (NEWEST, True), None)
        return self._false

    def child(self, node: Node, schema: Any, *path: str | int) -> Node:
        """A subschema of ``node``; ``path``: the reference tokens that lead to it."""
        if isinstance(schema, dict) and not self._dynamic:
            known = self._by_place.get((id(schema), ()))
            if known is not None:
                return known
        pointer = node.pointer + "".join("/" + escape_token(token) for token in path)
        return self.place(schema, pointer, node.dialect, node.resolver)

    def constant(self, value: Any, pointer: str, ordered: bool = True) -> Node:
        """A schema that only ``value`` fits; one of its own where the order of members does not count."""
        key = repr((value, ordered))
        node = self._values.get(key)
        if node is None:
            node = self._values[key] = self._new({"const": value}, pointer, (NEWEST, True), None)
        return node

    def union(self, goals: tuple[frozenset[int], ...]) -> Node:
        """A node of its own for "one of these goals", whose meaning is kept elsewhere."""
        node = self._unions.get(goals)
        if node is None:
            node = self._unions[goals] = self._new({}, self.nodes[min(goals[0]) >> 1].pointer, (NEWEST, True), None)
        return node

    def target(self, node: Node, reference: str, keyword: str = "$ref") -> Node:
        """What a reference in ``node`` refers to.

        Raises:
            SchemaError: there is no such place, or its document is not in the registry.
        """
        known = self._targets.get((node.number, keyword))
        if known is not None:
            return known
        try:
            if keyword == "$recursiveRef":
                resolved = referencing.jsonschema.lookup_recursive_ref(node.resolver)
            else:
                resolved = node.resolver.lookup(reference)
        except referencing.exceptions.Unresolvable as e:
            raise SchemaError(
                f"the reference {reference!r} leads nowhere ({type(e).__name__}); documents other than this one must be in the registry",
                node.at(keyword),
                keyword,
            ) from None
        except (ValueError, TypeError, AttributeError, LookupError) as e:  # pointers through things that are no containers
            raise SchemaError(f"the reference {reference!r} cannot be followed ({e})", node.at(keyword), keyword) from None
        contents = resolved.contents
        if not isinstance(contents, (dict, bool)):
            raise SchemaError(f"the reference {reference!r} leads to something that is no schema", node.at(keyword), keyword)
        pointer = reference[1:] if reference.startswith("#") else reference
        found = self._targets[node.number, keyword] = self._resolved(contents, pointer, node, resolved.resolver)
        return found

    def _resolved(self, contents: Any, pointer: str, node: Node, resolver: Resolver) -> Node:
        if isinstance(contents, bool):
            return self.place(contents, pointer, node.dialect, resolver)
        dialect = node.dialect
        if not pointer.startswith(("/", "#")) and pointer:  # perhaps another document, which says its own dialect
            resource = resolver.lookup("#").contents
            dialect = self._dialect(resource, dialect) if isinstance(resource, dict) else dialect
        return self._placed(contents, pointer, self._dialect(contents, dialect), resolver)
