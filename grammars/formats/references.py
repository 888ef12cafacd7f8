"""URIs (RFC 3986), IRIs (RFC 3987), URI templates (RFC 6570), JSON pointers (RFC 6901) and UUIDs (RFC 4122)."""

from __future__ import annotations

from .network import IPV6
from .writer import Writer

__all__ = ["iri", "iri_reference", "json_pointer", "relative_json_pointer", "uri", "uri_reference", "uri_template", "uuid"]

_PERCENT = "%[0-9A-Fa-f]{2}"
_SUB_DELIMS = "!$&'()*+,;="
_UNRESERVED = r"A-Za-z0-9._~\-"
_PLANES = [(plane << 16, (plane << 16) + 0xFFFD) for plane in range(1, 14)]
_UCS = "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in [(0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF), *_PLANES, (0xE1000, 0xEFFFD)])
_PRIVATE = r"\U0000e000-\U0000f8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _reference(more: str, private: str) -> tuple[str, str]:
    """Patterns of an absolute reference (with a scheme) and of a relative one; ``more`` widens the unreserved characters."""
    plain = f"{_UNRESERVED}{more}{_SUB_DELIMS}"
    userinfo = f"(?:[{plain}:]|{_PERCENT})*"
    name = f"(?:[{plain}]|{_PERCENT})*"
    future = f"[vV][0-9A-Fa-f]+[.][{_UNRESERVED}{_SUB_DELIMS}:]+"
    authority = rf"(?:{userinfo}@)?(?:\[(?:{IPV6}|{future})\]|{name})(?::[0-9]*)?"
    char = f"(?:[{plain}:@]|{_PERCENT})"
    segments = f"(?:/{char}*)*"
    rooted = f"//{authority}{segments}|/(?:{char}+{segments})?"
    query = rf"(?:\?(?:[{plain}:@/?{private}]|{_PERCENT})*)?"
    fragment = f"(?:[#](?:[{plain}:@/?]|{_PERCENT})*)?"
    absolute = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{rooted}|{char}+{segments}|){query}{fragment}"
    relative = f"(?:{rooted}|(?:[{plain}@]|{_PERCENT})+{segments}|){query}{fragment}"
    return absolute, relative


_URI, _RELATIVE_URI = _reference("", "")
_IRI, _RELATIVE_IRI = _reference(_UCS, _PRIVATE)


def uri(w: Writer) -> int:
    """``URI``: with a scheme."""
    return w.pattern(_URI)


def uri_reference(w: Writer) -> int:
    """``URI-reference``."""
    return w.pattern(f"{_URI}|{_RELATIVE_URI}")


def iri(w: Writer) -> int:
    """``IRI``: with a scheme."""
    return w.pattern(_IRI)


def iri_reference(w: Writer) -> int:
    """``IRI-reference``."""
    return w.pattern(f"{_IRI}|{_RELATIVE_IRI}")


def uri_template(w: Writer) -> int:
    """Literals and expressions of all levels."""
    literal = rf"[!#$&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_UCS}{_PRIVATE}]|{_PERCENT}"
    char = f"(?:[A-Za-z0-9_]|{_PERCENT})"
    variable = rf"{char}(?:\.?{char})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return w.pattern(rf"(?:{literal}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*")


_POINTER = "(?:/(?:[^~/]|~[01])*)*"


def json_pointer(w: Writer) -> int:
    """A JSON pointer."""
    return w.pattern(_POINTER)


def relative_json_pointer(w: Writer) -> int:
    """A relative JSON pointer (draft-bhutton-relative-json-pointer, without index manipulation)."""
    return w.pattern(f"(?:0|[1-9][0-9]*)(?:[#]|{_POINTER})")


def uuid(w: Writer) -> int:
    """Hexadecimal digits in groups of 8, 4, 4, 4 and 12."""
    h = "[0-9A-Fa-f]"
    return w.pattern(f"{h}{{8}}-{h}{{4}}-{h}{{4}}-{h}{{4}}-{h}{{12}}")
