"""Speculative decoding under a constraint: drafters, draft trees and verifiers, on top of :mod:`samplers`.

The package holds the place of that layer in the import order (``grammars`` < ``samplers`` < ``speculative`` < ``guided``);
it has no public names in this version.
"""

from __future__ import annotations

__all__: list[str] = []
