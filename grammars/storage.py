"""Files that are computed once and kept: the cache directory, and writing into it so that readers never see half a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

__all__ = ["cache_directory", "write_atomically"]


def cache_directory(*parts: str) -> Path | None:
    """``$GUIDED_CACHE`` (default ``~/.cache/guided-decoding``) joined with ``parts``, created; ``None`` where that is impossible."""
    try:
        given = os.environ.get("GUIDED_CACHE")
        path = (Path(given) if given else Path.home() / ".cache" / "guided-decoding").joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None
    return path


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> bool:
    """Lets ``write`` fill a temporary file next to ``path`` and renames it to ``path``; ``False`` where the file system refuses."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        return False
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True
