"""A user who is not root, to whom permissions of files apply."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def unprivileged_in(folder: Path) -> Iterator[None]:
    """In a folder that belongs to the user, with all that is in it. What is imported must be by then."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        if os.geteuid():
            yield
            return
        for path in (folder, *folder.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, 0)
        try:
            yield
        finally:
            os.setresuid(0, 0, 0)
    finally:
        os.chdir(before)
