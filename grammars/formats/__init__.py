"""The formats of JSON Schema as languages of characters.

:func:`format_language` gives the language of a format, spelled by an encoder (see :mod:`grammars.strings`).
Reading order: :mod:`~grammars.formats.dates` (calendar, clock, durations), :mod:`~grammars.formats.network`
(addresses, host names, mail), :mod:`~grammars.formats.references` (URIs, IRIs, templates, pointers),
:mod:`~grammars.formats.patterns` (regular expressions).

What is not a regular language is approximated **from the inside**: every accepted text is valid, some valid texts are
not accepted. That concerns ``hostname`` and ``idn-hostname`` (labels in Punycode, ``xn--``, are not accepted, since their
decoded form would have to be checked; Unicode normalisation of labels) and ``regex`` (see there).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import dates, idn, network, patterns, references
from .writer import Encoder, Writer

if TYPE_CHECKING:
    from ..regex.expr import Pool

__all__ = ["FORMATS", "format_language"]

FORMATS: dict[str, Callable[[Writer], int]] = {
    "date-time": dates.date_time,
    "date": dates.date,
    "time": dates.time,
    "duration": dates.duration,
    "email": network.email,
    "idn-email": network.idn_email,
    "hostname": network.hostname,
    "idn-hostname": idn.idn_hostname,
    "ipv4": network.ipv4,
    "ipv6": network.ipv6,
    "uuid": references.uuid,
    "uri": references.uri,
    "uri-reference": references.uri_reference,
    "iri": references.iri,
    "iri-reference": references.iri_reference,
    "uri-template": references.uri_template,
    "json-pointer": references.json_pointer,
    "relative-json-pointer": references.relative_json_pointer,
    "regex": patterns.regex,
}

_KNOWN: weakref.WeakKeyDictionary[Pool, dict[tuple[str, Encoder], int]] = weakref.WeakKeyDictionary()


def format_language(pool: Pool, name: str, encoder: Encoder) -> int | None:
    """The texts of a format as an expression of ``pool``; built once a pool.

    Args:
        name: the value of the ``format`` keyword.
        encoder: how one character is written; hashable.

    Returns:
        The expression (without quotes), or ``None`` where the format is unknown.
    """
    make = FORMATS.get(name)
    if make is None:
        return None
    known = _KNOWN.setdefault(pool, {})
    found = known.get((name, encoder))
    if found is None:
        found = known[name, encoder] = make(Writer(pool, encoder))
    return found
