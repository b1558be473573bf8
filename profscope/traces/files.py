"""Write a file whole or not at all, plain or gzip-compressed by several threads."""

import errno
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["GZIP_LEVEL", "GzipFile", "PlainFile", "gzip_end", "whole_file"]

GZIP_LEVEL = 5
"""zlib's level: event lines come out a fifth smaller than at 3, for two thirds more time; 6 doubles it."""

GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
"""RFC 1952: deflate, no name, no time, unknown system; so the same profile gives the same bytes."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes `path`'s place when the body succeeds, and vanishes when it raises.

    Raises OSError when `path`'s folder cannot be written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    # Opened by name, not by tempfile, so that the file gets the permissions any new file would.
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    with part.open("xb") as file:
        try:
            yield file
            file.close()
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


class PlainFile:
    """Bytes as they are."""

    def __init__(self, file: IO[bytes], end: bytes) -> None:
        self._file = file
        self._end = end

    def prepare(self, piece: bytes) -> tuple[bytes, bytes]:
        """What to hand to `write` for a piece: as it is, and as it goes to the file; in any thread."""
        return piece, piece

    def write(self, prepared: tuple[bytes, bytes]) -> None:
        """Append a prepared piece."""
        self._file.write(prepared[1])

    def close(self) -> None:
        """Append the end."""
        self._file.write(self._end)


class GzipFile:
    """One gzip member whose pieces were compressed apart, so that threads can share the work."""

    def __init__(self, file: IO[bytes], end: bytes) -> None:
        self._file = file
        self._end = end
        self._crc = 0
        self._size = 0
        file.write(GZIP_HEADER)

    def prepare(self, piece: bytes) -> tuple[bytes, bytes]:
        """What to hand to `write` for a piece: as it is, and compressed up to a byte boundary.

        May run in any thread; zlib lets others run meanwhile.
        """
        deflate = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        return piece, deflate.compress(piece) + deflate.flush(zlib.Z_SYNC_FLUSH)

    def write(self, prepared: tuple[bytes, bytes]) -> None:
        """Append a prepared piece."""
        piece, compressed = prepared
        self._crc = zlib.crc32(piece, self._crc)
        self._size += len(piece)
        self._file.write(compressed)

    def close(self) -> None:
        """Append the end, and the checks that end a gzip member."""
        self._crc = zlib.crc32(self._end, self._crc)
        self._size += len(self._end)
        trailer = self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        self._file.write(gzip_end(self._end) + trailer)


def gzip_end(end: bytes) -> bytes:
    """The last deflate block of a file `GzipFile` wrote with that end; 8 bytes of checks follow it."""
    deflate = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(end) + deflate.flush()
