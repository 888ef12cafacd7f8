"""The numba functions of the engine, and nothing else: flat arrays in, flat arrays out.

Reading order: :mod:`.memory` (tables that kernels reach through one argument), :mod:`.fields` (which there are), :mod:`.views`; the lexer:
:mod:`.texts` (expressions that kernels derive themselves), :mod:`.rows`, :mod:`.segments`; the parser: :mod:`.closure`, :mod:`.goto`; the
big functions behind addresses: :mod:`.entries`; both: :mod:`.masking`, :mod:`.stepping`; the entry: :mod:`.earley`. Besides, :mod:`.walk`:
the trie walked with a plain automaton.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

__all__: list[str] = []


def _forget_stale() -> None:
    """Removes compiled kernels where a source has changed: numba's cache does not see that a function in another file has."""
    here = Path(__file__).parent
    digest = hashlib.blake2b()
    for source in sorted(here.glob("*.py")):
        digest.update(source.read_bytes())
    stamp = here / "__pycache__" / "sources"
    with suppress(OSError):  # a place that cannot be written holds no cache either
        if not stamp.exists() or stamp.read_text() != digest.hexdigest():
            for pattern in ("*.nbi", "*.nbc"):
                for file in stamp.parent.glob(pattern):
                    file.unlink(missing_ok=True)
            stamp.parent.mkdir(exist_ok=True)
            stamp.write_text(digest.hexdigest())


_forget_stale()
