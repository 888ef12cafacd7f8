"""The front-ends: :class:`JsonSchema` and :class:`AnyJson`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..constraint import Constraint
from ..errors import ConstraintError, LimitError, SchemaError
from ..limits import Limits
from ..rules import Rule
from ..strings import JsonEncoder
from .effort import metered
from .keywords import DRAFTS
from .layout import Layout, Whitespace
from .meaning import Meaning
from .references import Documents, draft_of_uri
from .scalars import Scalars
from .scan import Finding, Scan, scan
from .source import document_of, guess_draft, may_be_dynamic
from .writer import ValueRule, Writer

if TYPE_CHECKING:
    import referencing

    from ..regex.expr import Pool

__all__ = ["AnyJson", "JsonSchema"]


class JsonSchema(Constraint):
    """The JSON texts of the values that a JSON Schema admits.

    Every assertion is enforced or the schema is refused, when it is compiled at the latest; nothing is dropped. Values that must
    differ (``uniqueItems``) are compared as the standard says: numbers by value, strings however spelled, objects in any key order.

    Args:
        schema: a JSON Schema (``dict``, ``bool``, or its JSON text), or anything that pydantic can describe: a model, a
            dataclass, a ``TypedDict``, ``list[int]``, ``Literal[...]``, an ``Enum``; or a function, for an object of its parameters.
        draft: ``"4"``, ``"6"``, ``"7"``, ``"2019-09"`` or ``"2020-12"``, where the schema's ``$schema`` does not say.
        registry: where ``$ref`` finds other documents. Nothing is ever fetched.
        format: ``"assert"`` known formats or take them as ``"annotation"`` s. Unknown ones are annotations.
        order: ``"schema"``: declared members keep the schema's order (optional ones may be left out), others stand anywhere
            between. To the standard order means nothing: texts in another order are valid, too, and rejected then.
            ``"any"``: members in any order, exactly the texts of valid values. A declared key never comes twice; an undeclared one
            may only be repeated where that changes nothing.
        whitespace: ``"flexible"`` (any blanks between tokens, runs bounded), ``"compact"``, ``"indent=N"`` or a :class:`Whitespace`.
        max_blanks: bound on a run of blanks.
        escapes: ``"any"`` spelling of a character that JSON allows, or only the ``"minimal"`` one.
        on_unsupported: every keyword is enforced by the masks, so there is nothing that ``"check"`` would have to verify afterwards:
            it means the same as ``"refuse"``. What is refused cannot be checked either (a malformed schema, one that says nothing, a size
            beyond ``limits``).
        limits: bounds on the size of the normal form.

    Raises:
        SchemaError: the schema is malformed or uses something unsupported; names pointer and keyword.
    """

    def __init__(
        self,
        schema: object,
        *,
        draft: str | None = None,
        registry: referencing.Registry[Any] | None = None,
        format: str = "assert",
        order: str = "schema",
        whitespace: str | Whitespace = "flexible",
        max_blanks: int | None = None,
        escapes: str = "any",
        on_unsupported: str = "refuse",
        limits: Limits | None = None,
    ) -> None:
        if draft is not None and draft not in DRAFTS:
            raise ConstraintError(f"draft is one of {', '.join(DRAFTS)}, not {draft!r}")
        if format not in ("assert", "annotation"):
            raise ConstraintError(f'format is "assert" or "annotation", not {format!r}')
        if order not in ("schema", "any"):
            raise ConstraintError(f'order is "schema" or "any", not {order!r}')
        if escapes not in ("any", "minimal"):
            raise ConstraintError(f'escapes is "any" or "minimal", not {escapes!r}')
        if on_unsupported not in ("refuse", "check"):
            raise ConstraintError(f'on_unsupported is "refuse" or "check", not {on_unsupported!r}')
        self.document, text = document_of(schema)
        stated = self.document.get("$schema") if isinstance(self.document, dict) else None
        self.draft = draft_of_uri(stated) or draft or guess_draft(self.document, text)
        self.registry, self.format, self.order, self.escapes = registry, format, order, escapes
        self.whitespace = Whitespace.of(whitespace, max_blanks)
        self.limits = limits or Limits()
        self._dynamic = may_be_dynamic(self.document, text)
        self._documents: Documents | None = None
        self._scan: Scan | None = None

    def __repr__(self) -> str:
        shown = repr(self.document)
        return f"JsonSchema({shown if len(shown) <= 80 else shown[:77] + '...'})"

    def _scanned(self) -> tuple[Documents, Scan]:
        if self._documents is None or self._scan is None:
            self._documents = Documents(self.document, self.draft, self.registry, self.limits, self._dynamic)
            self._scan = scan(self._documents, self.format == "assert")
        return self._documents, self._scan

    def report(self) -> list[Finding]:
        """What becomes of every assertion that the schema reaches: pointer, keyword, status and reason.

        Raises:
            SchemaError: a keyword is malformed, or a reference leads nowhere.
        """
        from ..regex.expr import Pool

        findings = list(self._scanned()[1].findings)
        try:
            self.build(Pool())
        except SchemaError as e:
            findings = [f for f in findings if f.pointer != e.pointer]
            findings.append(Finding(e.pointer, e.keyword or "", "refused", e.reason))
        except (ConstraintError, LimitError):  # no keyword of its own is to blame
            pass
        return findings

    def build(self, pool: Pool) -> Rule:
        """The rules of the schema's texts.

        Raises:
            SchemaError: the schema is malformed or uses something unsupported.
            ConstraintError: it has no instance.
            LimitError: it is bigger or deeper than the limits allow.
        """
        return metered(pool, self.limits, lambda: self._built(pool))

    def _built(self, pool: Pool) -> Rule:
        documents, scanned = self._scanned()
        scalars = Scalars(pool, JsonEncoder("minimal" if self.escapes == "minimal" else "any"), self.format == "assert", self.draft == "4")
        meaning = Meaning(documents, scalars, self.limits, self.order == "schema")
        goal = meaning.goal_of(documents.root)
        if not meaning.alive(goal):
            raise ConstraintError("the schema has no instance, so no text fits it")
        if scanned.risky:
            meaning.explore(goal, scanned.risky)
        return ValueRule(Writer(meaning, Layout(pool, self.whitespace)), goal)


class AnyJson(JsonSchema):
    """Any JSON text.

    Args:
        whitespace, max_blanks, escapes: as for :class:`JsonSchema`.
    """

    def __init__(self, *, whitespace: str | Whitespace = "flexible", max_blanks: int | None = None, escapes: str = "any") -> None:
        super().__init__(True, whitespace=whitespace, max_blanks=max_blanks, escapes=escapes)

    def __repr__(self) -> str:
        return "AnyJson()"
