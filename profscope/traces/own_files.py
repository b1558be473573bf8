"""Files that profscope wrote, recognised by their contents, and their removal.

A name proves nothing: a checkpoint may be in `rank=5/`. A trace is profscope's if it has one of these marks:

    spool          `PSspool` at the start; an empty `.spool`, too: a run was killed before it wrote
    Chrome JSON    the first line that the exporter writes
    Perfetto       a packet with profscope's own field at the start
    Parquet        the key that profscope puts into the footer
    _ranks.json    its schema, at the start

A command replaces these, empty files, and what else profscope writes, by these marks:

    .html, .report.json, a self-test    `_WRITTEN`, at the start
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from profscope.errors import OptionError
from profscope.traces.output import check_writable, followed

__all__ = ["check_replaceable", "first_foreign", "is_own_file", "remove_own"]

_HEAD_BYTES: Final = 1024  # more than any mark takes
_PARQUET_KEY: Final = b"\x18\x09profscope\x18"  # as Thrift writes a text, and that another follows
_WRITTEN: Final = re.compile(
    rb'<!doctype html>[^\0]{,800}<meta name="generator" content="profscope '
    rb'|\{\s*"schema": "profscope-(?:model|self-test)/'
)
_GZIP_MAGIC: Final = b"\x1f\x8b"
_OWN_FOLDER: Final = re.compile(r"rank=\d+|.+\.partial")


def is_own_file(path: Path) -> bool:
    """Whether profscope can prove that it wrote a file. Links are not followed: a link is not ours.

    Raises OSError for a file that cannot be read.
    """
    if path.is_symlink() or not path.is_file():
        return False
    from profscope.store.chunks import SUFFIX, version_of
    from profscope.traces.chrome.text import FIRST_LINE_START
    from profscope.traces.jobs.manifest import MANIFEST_START
    from profscope.traces.perfetto.protobuf import data_place

    if path.suffix == SUFFIX and path.stat().st_size == 0:
        return True
    head = _head(path)
    begin, end = data_place(head)
    return (
        version_of(head) is not None
        or head.startswith((FIRST_LINE_START, MANIFEST_START))
        or begin < end
        or _PARQUET_KEY in _parquet_footer(path)
    )


def _parquet_footer(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        end = file.read()
        if not end.endswith(b"PAR1"):
            return b""
        file.seek(max(0, size - 8 - int.from_bytes(end[:4], "little")))
        return file.read()


def _head(path: Path) -> bytes:
    """The first bytes of a file, decompressed if it is gzip."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_GZIP_MAGIC):
        with gzip.open(path) as file, contextlib.suppress(EOFError, gzip.BadGzipFile, zlib.error):
            return file.read(_HEAD_BYTES)
    return head


def check_replaceable(path: Path, refusal: str) -> None:
    """Raises OptionError for what must stay: a folder, a read-only file, or one that profscope cannot prove
    to have written and that is not empty. Of a link, that is what it leads to. refusal: how the error begins,
    such as "cannot write 't.json'"."""
    try:
        _check_replaceable(followed(path))
    except OSError as error:
        raise OptionError(f"{refusal}: {error.strerror}") from error


def _check_replaceable(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not path.is_file():
        return
    check_writable(path)
    if path.stat().st_size and not (is_own_file(path) or _WRITTEN.match(_head(path))):
        raise OSError(
            errno.EEXIST, "profscope did not write the file that is there; move it, or choose another name"
        )


def first_foreign(folder: Path) -> Path | None:
    """The first thing at or below `folder` that profscope cannot prove to have written; else None.

    An empty folder is its own if it has a name that profscope gives to folders. Raises OSError.
    """
    return next((path for path, is_own in _walk(folder) if not is_own), None)


def remove_own(folder: Path) -> Path | None:
    """Remove `folder` if all in it is profscope's; else remove nothing, and return the first foreign thing.

    Raises OSError.
    """
    paths = []
    for path, is_own in _walk(folder):
        if not is_own:
            return path
        paths.append(path)
    for path in reversed(paths):  # what is in a folder comes behind it
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    return None


def _walk(path: Path) -> Iterator[tuple[Path, bool]]:
    """Everything from `path` down, a folder before what is in it, and whether it is profscope's."""
    if path.is_symlink() or not path.is_dir():
        yield path, is_own_file(path)
        return
    inside = sorted(path.iterdir())
    yield path, bool(inside) or _OWN_FOLDER.fullmatch(path.name) is not None
    for each in inside:
        yield from _walk(each)
