"""Checksums of a Parquet file as a whole: of its data by blocks, and of its footer.

Parquet's own checksums are of what is in a page. Its header, which says how to read that, and the footer,
which says where it is, have none: one changed byte there can load as other numbers. So between the data and
the footer, where no reader looks, stand

    the CRC-32 of each block of the data | `TRAILER` | footer | its length | PAR1

A part of a large file is verified by the blocks that are read for it; a digest of the file would need all.
A file without them, as other tools write it, is read all the same.
"""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from typing import Final

import numpy as np

__all__ = ["BLOCK_BYTES", "CRC", "TRAILER", "Checked", "Checksums", "has_checksums"]

BLOCK_BYTES: Final = 1 << 16
"""Data that a checksum is of: what is read at least, where a part is asked for."""

CRC: Final = np.dtype("<u4")
TRAILER: Final = np.dtype([("magic", "S8"), ("blocks", "<u4"), ("footer_crc", "<u4")])
_MAGIC: Final = b"PSCOPECK"
_END: Final = np.dtype([("footer_bytes", "<u4"), ("magic", "S4")])  # of every Parquet file
_PARQUET: Final = b"PAR1"


class Checksums:
    """Of a file that is being written, piece by piece."""

    def __init__(self) -> None:
        self._left = b""
        self._blocks: list[int] = []

    def add(self, piece: bytes) -> bytes:
        """Note a piece of the data; returns it."""
        self._left += piece
        whole = len(self._left) // BLOCK_BYTES * BLOCK_BYTES
        data = memoryview(self._left)
        self._blocks += [zlib.crc32(data[at : at + BLOCK_BYTES]) for at in range(0, whole, BLOCK_BYTES)]
        self._left = bytes(data[whole:])
        return piece

    def end(self, piece: bytes) -> bytes:
        """The last piece, which ends with the footer, with the checksums before that."""
        (end,) = np.frombuffer(piece[-_END.itemsize :], _END)
        footer_at = len(piece) - _END.itemsize - int(end["footer_bytes"])
        data, footer = self.add(piece[:footer_at]), piece[footer_at:]
        blocks = self._blocks + ([zlib.crc32(self._left)] if self._left else [])
        trailer = np.array([(_MAGIC, len(blocks), zlib.crc32(footer))], TRAILER)
        return data + np.array(blocks, CRC).tobytes() + trailer.tobytes() + footer


class Checked(io.RawIOBase):
    """A file for pyarrow that reads whole blocks and compares each with its checksum, once.

    checks: whether the file has checksums. Raises OSError where what is read is not what was saved.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self._at = 0
            self._crcs = self._stated()
        except BaseException:
            self._file.close()
            raise
        self.checks = self._crcs is not None
        self._right = np.zeros(0 if self._crcs is None else len(self._crcs), np.bool_)

    def _stated(self) -> np.ndarray[tuple[int], np.dtype[np.uint32]] | None:
        end_at = self._size - _END.itemsize
        if end_at < TRAILER.itemsize:
            return None
        (end,) = np.frombuffer(self._bytes(end_at, self._size), _END)
        trailer_at = end_at - int(end["footer_bytes"]) - TRAILER.itemsize
        if end["magic"] != _PARQUET or trailer_at < 0:
            return None
        tail = self._bytes(trailer_at, self._size)
        (trailer,) = np.frombuffer(tail[: TRAILER.itemsize], TRAILER)
        if trailer["magic"] != _MAGIC:
            return None
        self._data_end = trailer_at - int(trailer["blocks"]) * CRC.itemsize
        if zlib.crc32(tail[TRAILER.itemsize :]) != trailer["footer_crc"]:
            raise OSError("its footer is not the one that was saved")
        if -(-self._data_end // BLOCK_BYTES) != trailer["blocks"]:
            raise OSError(
                f"it has checksums of {trailer['blocks']} blocks, and {self._data_end} bytes of data"
            )
        return np.frombuffer(self._bytes(self._data_end, trailer_at), CRC)

    def _bytes(self, begin: int, end: int) -> bytes:
        self._file.seek(begin)
        return self._file.read(end - begin)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        begin, end = self._at, self._size if size < 0 else min(self._at + size, self._size)
        found = (
            self._bytes(begin, end)
            if self._crcs is None or begin >= self._data_end
            else self._blocks(begin, end)
        )
        self._at += len(found)
        return found

    def _blocks(self, begin: int, end: int) -> bytes:
        """These bytes, which begin in the data."""
        first, last = begin // BLOCK_BYTES, -(-min(end, self._data_end) // BLOCK_BYTES)
        at = first * BLOCK_BYTES
        found = self._bytes(at, max(end, min(last * BLOCK_BYTES, self._data_end)))
        view = memoryview(found)
        assert self._crcs is not None
        for block in (np.flatnonzero(~self._right[first:last]) + first).tolist():
            inside = view[block * BLOCK_BYTES - at : min((block + 1) * BLOCK_BYTES, self._data_end) - at]
            if zlib.crc32(inside) != self._crcs[block]:
                what = f"bytes {block * BLOCK_BYTES} to {block * BLOCK_BYTES + len(inside)}"
                raise OSError(f"{what} are not those that were saved")
            self._right[block] = True
        return found[begin - at : end - at]

    def close(self) -> None:
        self._file.close()
        super().close()


def has_checksums(path: Path) -> bool:
    """Whether a file ends as a Parquet file with these checksums does, whatever they say. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < _END.itemsize + TRAILER.itemsize:
            return False
        file.seek(size - _END.itemsize)
        (end,) = np.frombuffer(file.read(), _END)
        trailer_at = size - _END.itemsize - int(end["footer_bytes"]) - TRAILER.itemsize
        if end["magic"] != _PARQUET or trailer_at < 0:
            return False
        file.seek(trailer_at)
        return file.read(len(_MAGIC)) == _MAGIC
