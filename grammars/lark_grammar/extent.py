"""How big a grammar becomes when Lark writes it out, told before it does: its loader multiplies optional parts and templates."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from lark.grammar import RuleOptions
from lark.tree import Tree

from ..errors import LimitError
from ..limits import Limits

__all__ = ["bound_templates", "check_extent"]

_MANY = 10**12
"""Counts are not followed further."""
_NAIVE = 50
"""From this many repetitions on Lark makes rules of their own for ``~``, with about ``_FACTOR`` copies each."""
_FACTOR = 10
_INSTANCES = 10
"""Instances of templates, for each level of nesting that is allowed."""

Extent = tuple[int, int]
"""Expansions, and symbols in all of them."""


def check_extent(rules: Iterable[tuple[str, Any, Tree[Any] | None, Any]], limits: Limits) -> None:
    """Checks Lark's rule definitions ``(name, parameters, tree, options)``.

    Raises:
        LimitError: written out they have more symbols than ``limits.grammar_size``.
    """
    total = 0
    for name, _, tree, _ in rules:
        if tree is not None:
            total += _extent(tree)[1]
            if total > limits.grammar_size:
                raise LimitError("grammar_size", limits.grammar_size, f"by writing out the optional parts of the rule {name}")


def _extent(tree: Tree[Any]) -> Extent:
    """Of a whole rule; without recursion, children first."""
    known: dict[int, Extent] = {}
    for part in tree.iter_subtrees():
        known[id(part)] = _from_parts(part, [known.get(id(child), (1, 1)) for child in part.children])
    return known[id(tree)]


def _from_parts(tree: Tree[Any], parts: list[Extent]) -> Extent:
    if tree.data == "expansions":
        return min(sum(ways for ways, _ in parts), _MANY), min(sum(size for _, size in parts), _MANY)
    if tree.data == "alias":
        return parts[0]
    if tree.data == "expansion":
        return reduce(_side_by_side, parts, (1, 0))
    if tree.data == "maybe":
        return parts[0][0] + 1, parts[0][1]
    return _repeated(tree.children, parts[0]) if tree.data == "expr" else (1, 1)


def _side_by_side(a: Extent, b: Extent) -> Extent:
    return min(a[0] * b[0], _MANY), min(a[1] * b[0] + b[1] * a[0], _MANY)


def _repeated(children: list[Any], item: Extent) -> Extent:
    """An item with an operator; what is repeated without bound becomes a rule of its own."""
    operator = str(children[1])
    if operator == "+":
        return 1, 1
    if operator == "*":
        return 2, 1
    if operator == "?":
        return item[0] + 1, item[1]
    least, most = int(children[2]), int(children[-1])
    if most >= _NAIVE:
        least = most = _FACTOR
    ways, size = 0, 0
    power: Extent = (1, 0)
    for count in range(most + 1):
        if count >= least:
            ways, size = ways + power[0], size + power[1]
        power = _side_by_side(power, item)
    return min(ways, _MANY), min(size, _MANY)


class _Template(RuleOptions):
    """Options of a template. Lark copies them for each instance that it makes, which is where instances can be counted."""

    def __init__(self, options: RuleOptions, made: list[int], limits: Limits) -> None:
        super().__init__(options.keep_all_tokens, options.expand1, options.priority, options.template_source, options.empty_indices)
        self._made, self._limits = made, limits

    def __deepcopy__(self, memo: dict[int, Any]) -> RuleOptions:
        self._made[0] += 1
        if self._made[0] > _INSTANCES * self._limits.nesting:
            raise LimitError("nesting", self._limits.nesting, "by templates that are used with ever new arguments")
        return RuleOptions(self.keep_all_tokens, self.expand1, self.priority, self.template_source, self.empty_indices)


def bound_templates(rules: Iterable[tuple[str, Any, Any, Any]], limits: Limits) -> list[tuple[str, Any, Any, Any]]:
    """The rule definitions with the instances of their templates counted: too many end in a :class:`~grammars.errors.LimitError`."""
    made = [0]
    return [(name, params, tree, _Template(options, made, limits) if params else options) for name, params, tree, options in rules]
