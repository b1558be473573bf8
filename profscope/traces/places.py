"""Where traces are: files and folders, and addresses such as s3://bucket/step, which fsspec reads."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from profscope.errors import TraceError
from profscope.installed import require

__all__ = ["is_remote", "place", "uploaded"]


def is_remote(path: str | Path) -> bool:
    """Whether it is an address, not a path of this machine's."""
    return "://" in str(path)


def place(path: str | Path) -> Path:
    """A path; for an address what reads it in the same way.

    Raises TraceError without the extra that addresses need, and for a place that cannot be reached.
    """
    if not is_remote(path):
        return Path(path)
    require("remote", f"{path} is an address: to read it", TraceError)
    from upath import UPath

    try:
        remote: Any = UPath(str(path))
        remote.exists()
    except Exception as error:
        raise TraceError(f"cannot read {path}: {error}") from error
    return remote  # type: ignore[no-any-return]


@contextmanager
def uploaded(path: Path) -> Iterator[IO[bytes]]:
    """A file whose content is at a remote path when the body succeeds; nothing is when it raises."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as remote:
                shutil.copyfileobj(file, remote, 1 << 24)
        except NotImplementedError as error:
            raise TraceError(f"cannot write {path}: files at such addresses can only be read") from error
