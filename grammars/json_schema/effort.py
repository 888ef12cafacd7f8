"""A bound on the work of one step: compiling a schema, or expanding one state of its rules while a text is written.

Normal forms, look-ahead and expressions all count what they do with :meth:`~grammars.regex.expr.Pool.charge`, so that whichever of
them a hostile schema blows up, the step ends in a :class:`~grammars.errors.LimitError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ..errors import LimitError
from ..limits import Limits

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["RECORD", "bounded", "metered"]

RECORD = 8
"""Work of an operation on one record, in expressions."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def metered(pool: Pool, limits: Limits, step: Callable[[], _T]) -> _T:
    """What ``step`` returns; within a step that is metered already its fuel is that one's.

    Raises:
        LimitError: the step needs too much for ``limits.fuel``, or recursion deeper than the interpreter has.
    """
    try:
        return pool.metered(limits.fuel, step)
    except RecursionError:
        raise LimitError("nesting", limits.nesting, "(schemas within schemas, by references or in place)") from None


def bounded(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Meters a method of a rule that has a ``writer``."""

    @wraps(method)
    def wrapper(self: Any, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        meaning = self.writer.meaning
        if meaning.pool.deadline < math.inf:
            return method(self, *args, **kwargs)
        return metered(meaning.pool, meaning.limits, lambda: method(self, *args, **kwargs))

    return wrapper
