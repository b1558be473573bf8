"""Write a folder whole or not at all; what it replaces is a trace of profscope's, or empty."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from profscope.traces.formats import PROFILE, is_part
from profscope.traces.output import (
    check_name,
    check_parent,
    followed,
    keep_mode,
    new_part,
)
from profscope.traces.own_files import first_foreign

__all__ = ["check_folder", "whole_folder"]


def _is_empty_folder(path: Path) -> bool:
    """Whether there is a folder with nothing in it, which a trace may take the place of; not one that nobody
    may look into."""
    return path.is_dir() and os.access(path, os.R_OK | os.X_OK) and not any(path.iterdir())


def check_folder(path: Path) -> None:
    """Raises OSError where `whole_folder` would: for what is there that is no part of a trace."""
    check_name(path)
    path = followed(path)
    if path.exists() and not (path / PROFILE).exists() and not _is_empty_folder(path):
        raise OSError(errno.EEXIST, "it exists, and is no trace in Parquet that could be replaced")
    if stranger := next((file for file in path.rglob("*") if not is_part(file.relative_to(path))), None):
        raise OSError(
            errno.EEXIST, f"it has {str(stranger.relative_to(path))!r}, no part of the trace to be replaced"
        )
    if path.exists() and (foreign := first_foreign(path)) not in (None, path):
        raise OSError(errno.EEXIST, f"profscope did not write {str(foreign.relative_to(path))!r} in it")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """An empty folder that takes `path`'s place when the body succeeds, and vanishes when it raises.

    It has the permissions of what it replaces. Of a link, that is what it leads to. Raises OSError where that
    cannot be, and where something is there that is no part of a trace in Parquet.
    """
    check_folder(path)
    path = followed(path)
    check_parent(path)
    part = new_part(path)
    old = part.with_suffix(".old")
    try:
        part.mkdir(0o700 if path.exists() else 0o777)
        yield part
        keep_mode(path, part)
        if path.exists():  # two renames: between them a reader finds neither, but never a mixture
            path.rename(old)
        part.rename(path)
    except BaseException:  # Ctrl-C, too
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
