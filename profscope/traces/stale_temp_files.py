"""What saves that were killed have left behind.

A save writes to `.HEX.part` and holds a lock on it, which goes with its process. So the next save into that
folder can throw away what nobody holds any more.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["held", "new_part", "old_of", "sweep"]

_PART: Final = re.compile(r"\.[0-9a-f]{32}\.part")
_OLD: Final = ".old"
_YOUNG_S: Final = 60.0  # so old is a part before it counts as left: its save may be about to lock it


def new_part(path: Path) -> Path:
    """Where to write what is to become `path`: beside it, hidden."""
    return path.with_name(f".{uuid.uuid4().hex}.part")


def old_of(part: Path) -> Path:
    """Where what stands in the way of a part is put meanwhile."""
    return part.with_suffix(_OLD)


@contextlib.contextmanager
def held(part: Path) -> Iterator[None]:
    """The part, a file or a folder, is being written in the body of the with statement."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # Windows opens no folder; without a lock it is never thrown away
            descriptor = os.open(part, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            _try_to_lock(descriptor)
        yield


def sweep(folder: Path) -> None:
    """Throw away what killed saves have left in a folder, as far as it can be."""
    with contextlib.suppress(OSError):
        for part in folder.iterdir():
            if _PART.fullmatch(part.name) and not old_of(part).exists():
                with contextlib.suppress(OSError):
                    _sweep(part)


def _sweep(part: Path) -> None:
    if time.time() - part.stat().st_mtime < _YOUNG_S:
        return
    descriptor = os.open(part, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        if not _try_to_lock(descriptor):
            return
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink()
    finally:
        os.close(descriptor)


def _try_to_lock(descriptor: int) -> bool:
    """Whether nobody else holds it; it is held until it is closed."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # a system or a file system without locks
        return False
    return True
