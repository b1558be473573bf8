"""A file that is being loaded, in the forms importers ask for, and a clear word on one that is no trace."""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from profscope.analysis.texts import printable
from profscope.errors import TraceError
from profscope.store.file_checks import most_content_bytes
from profscope.store.free_memory import free_bytes
from profscope.threads import daemon
from profscope.traces.chrome.text import json_document
from profscope.traces.output import gzip_end
from profscope.traces.places import is_remote, place
from profscope.traces.trace_filter import TraceFilter

if TYPE_CHECKING:
    from profscope.traces.chrome.reading import ChromeTrace

__all__ = ["TraceFile", "check_room", "one_line"]

GZIP_MAGIC = b"\x1f\x8b"
GZIP_CHECKS_BYTES = 8
PIECE_BYTES = 1 << 20
GZIP_PIECE_BYTES = 1 << 16
"""Read at a time of gzip: what is left of it after a piece of content is copied."""

HEAD_BYTES = 4096
PACKET_HEAD_BYTES = 32
"""More than the tags and lengths before a packet's data take."""
END_BYTES = 64
"""More than any end takes, compressed or not."""

LONGEST_REASON = 300
"""Characters of what a library says of a damaged file."""

BLANKS = b" \t\r\n"
MARK = b"\xef\xbb\xbf"
"""Some editors begin a file with it."""

_OTHERS = (
    (b"SQLite format 3\0", "an SQLite database (Nsight Systems exports these)"),
    (b"NVR\0", "an Nsight Compute report"),
    ((b"<!doctype html", b"<!DOCTYPE html"), "HTML, as reports are"),
    ((b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\0"), "an archive to be unpacked"),
)
"""By the first bytes, files that readers may take for traces."""

NO_FILES = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class TraceFile:
    """A file or folder that is being loaded, as importers see it. `str` of it is its path, in one line.

    path       where it is
    is_folder  whether it is a folder; those have no content
    size       bytes on disk
    only       the spans that are asked for; an importer may leave out others
    left_out   how many rows it has left out
    """

    def __init__(self, path: str | Path, *, only: TraceFilter | None = None) -> None:
        """path: also an address that fsspec reads, such as s3://bucket/step.

        Raises TraceError if there is no file and no folder, or none that can be reached.
        """
        self.path = place(path)
        self.only, self.left_out = only or TraceFilter(), 0
        self._ahead: Thread | None = None
        try:
            # As given: as a Path, "" would be the current folder.
            status = self.path.stat() if is_remote(path) else os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise TraceError(f"no such file: {self if str(path) else repr(path)}") from None
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            raise TraceError(f"cannot read {self}: {getattr(error, 'strerror', None) or error}") from error
        for is_one, name in NO_FILES:
            if is_one(status.st_mode):
                raise TraceError(f"{self} is {name}, not a file: save what comes from it, and load that")
        self.is_folder = stat.S_ISDIR(status.st_mode)
        self.size = status.st_size

    def __str__(self) -> str:
        return one_line(self.path)

    def damaged(self, why: object) -> TraceError:
        """The error to raise for a file of profscope's whose data cannot be read."""
        return TraceError(f"{self} is damaged: {one_line(why)[:LONGEST_REASON]}")

    @cached_property
    def head(self) -> bytes:
        """The first bytes of its content, decompressed, at most `HEAD_BYTES`; none for a folder.

        Raises TraceError.
        """
        head = b""
        for piece in () if self.is_folder else self.pieces():
            head += piece
            if len(head) >= HEAD_BYTES:
                break
        return head[:HEAD_BYTES]

    @cached_property
    def document(self) -> Any:
        """The JSON document in it; None if it is no JSON.

        An event array may lack its closing bracket, as the Chrome trace format allows. Raises TraceError for
        a file that begins as JSON does and is none.
        """
        if not _begins_as_json(self.head):
            return None
        content = b"".join(self.pieces())
        text = content.decode("utf-8-sig", errors="replace").strip()
        try:
            return json_document(text)
        except json.JSONDecodeError as error:
            if error.pos >= len(text) - 1 or error.msg.startswith("Unterminated string"):
                raise TraceError(
                    f"{self} is cut off: its JSON ends in the middle, after {len(content)} bytes"
                ) from None
            place = f"line {error.lineno}, column {error.colno}"
            raise TraceError(f"{self} is not valid JSON: {error.msg} at {place}") from None
        except ValueError as error:  # a number of thousands of digits
            raise TraceError(f"{self} is no trace: {error}") from None
        except RecursionError:
            raise TraceError(f"{self} is JSON nested too deeply to be a trace") from None

    @cached_property
    def chrome(self) -> ChromeTrace | None:
        """The Chrome trace in it; None if it is no JSON. Raises TraceError as `document` does, which needs
        far more time and memory."""
        if not _begins_as_json(self.head):
            return None
        from profscope.traces.chrome.reading import read_pieces, trace_of_document

        return read_pieces(self.pieces()) or trace_of_document(self.document)

    def pieces(self) -> Iterator[bytes]:
        """The file's content in order, decompressed when it is gzip, in pieces of at most a MB.

        Raises TraceError when it cannot be read, and for gzip data that are damaged, end too early or expand
        as no trace does.
        """
        yield from self._stream()

    @property
    def has_packets(self) -> bool:
        """Whether packets of a Perfetto trace with profscope's data stand at its start."""
        from profscope.traces.perfetto.protobuf import data_place  # not before a file is there: numpy

        begin, end = data_place(self.head[:PACKET_HEAD_BYTES])
        return begin < end

    def read_ahead(self) -> None:
        """Begin to read its packets in a thread: zlib lets others run, which import what comes next."""

        def read() -> None:
            with suppress(TraceError):  # `packets` raises it
                self._packets  # noqa: B018

        self._ahead = daemon("read", read)

    def packets(self) -> bytes:
        """The data in the packets at its start. Raises TraceError for a file that ends inside them."""
        if self._ahead is not None:
            self._ahead.join()
        return self._packets

    @cached_property
    def _packets(self) -> bytes:
        if not self.has_packets:
            return b""
        from profscope.traces.perfetto.protobuf import data_place

        text, ahead = bytearray(), bytearray()
        pieces = self.pieces()
        while True:
            _fill(ahead, pieces, PACKET_HEAD_BYTES)
            begin, end = data_place(bytes(ahead[:PACKET_HEAD_BYTES]))
            if begin == end:
                return bytes(text)
            _fill(ahead, pieces, end)
            if len(ahead) < end:
                raise TraceError(f"{self} is cut off: its data end in the middle")
            text += ahead[begin:end]
            del ahead[:end]

    def first_line(self) -> bytes:
        """The first line with its newline; all there is when there is none."""
        line = bytearray()
        for piece in self.pieces():
            newline = piece.find(b"\n")
            if newline >= 0:
                return bytes(line + piece[: newline + 1])
            line += piece
        return bytes(line)

    def check_end(self, end: bytes) -> None:
        """Notice a file cut off before that end, without reading all of one that is as profscope wrote it.

        Raises TraceError.
        """
        with self.path.open("rb") as file:
            magic = file.read(2)
            file.seek(-min(END_BYTES, self.size), 2)
            tail = file.read()
        if magic == GZIP_MAGIC:
            if tail[:-GZIP_CHECKS_BYTES].endswith(gzip_end(end)):
                return
            for piece in self._stream():
                tail = (tail + piece)[-END_BYTES:]
        if not tail.rstrip().endswith(end.strip()):
            raise TraceError(f"{self} is cut off: its events end in the middle")

    def describe(self) -> str:
        """What it looks like, for a reader who expected a trace."""
        if self.is_folder:
            listed = "; where folders cannot be listed, name its _ranks.json" if is_remote(self.path) else ""
            return f"a folder with no profile in it: no spool, and no parts of ranks{listed}"
        if self.document is not None:
            return _name_document(self.document)
        if self.path.suffix == ".py":
            return "a program, not a trace; profscope run records one"
        return _name_content(self.head)

    def _stream(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                magic = file.read(2)
                file.seek(0)
                if magic == GZIP_MAGIC:
                    yield from self._gunzip(iter(lambda: file.read(GZIP_PIECE_BYTES), b""))
                else:
                    yield from iter(lambda: file.read(PIECE_BYTES), b"")
        except OSError as error:
            raise TraceError(f"cannot read {self}: {error.strerror or error}") from error

    def _gunzip(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        member = zlib.decompressobj(wbits=31)
        raw_bytes = content_bytes = 0
        try:
            for left in raw:
                raw_bytes += len(left)
                more = True
                while left or more:
                    if member.eof:
                        if not left.startswith(GZIP_MAGIC[:1]):
                            raise self.damaged(f"{len(left)} or more bytes follow its gzip data")
                        member = zlib.decompressobj(wbits=31)
                    piece = member.decompress(left, PIECE_BYTES)
                    content_bytes += len(piece)
                    if content_bytes > most_content_bytes(raw_bytes):  # of what was read, not of all there is
                        raise TraceError(
                            f"{self} is no trace: its first {raw_bytes} bytes of gzip expand to more than "
                            f"{most_content_bytes(raw_bytes)} bytes"
                        )
                    yield piece
                    left = member.unused_data or member.unconsumed_tail
                    more = len(piece) == PIECE_BYTES and not member.eof  # it may hold back a little
        except zlib.error as error:
            raise TraceError(f"{self} is damaged gzip data: {error}") from None
        if not member.eof:
            raise TraceError(f"{self} is cut off: its gzip data ends in the middle")


def _fill(ahead: bytearray, pieces: Iterator[bytes], size: int) -> None:
    """Read on until that many bytes are there, or all there are."""
    while len(ahead) < size and (piece := next(pieces, None)) is not None:
        ahead += piece


def _begins_as_json(start: bytes) -> bool:
    return start.removeprefix(MARK).lstrip(BLANKS).startswith((b"{", b"["))


def one_line(text: object) -> str:
    """A path or another tool's words in one line that any terminal can show."""
    return printable(str(text).replace("\n", " "))


def _name_document(document: Any) -> str:
    events = document.get("traceEvents") if isinstance(document, dict) else document
    dicts = [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    if any("ph" in event for event in dicts):
        return "a Chrome trace without GPU kernels of torch.profiler in it"
    return "JSON but no trace"


def _name_content(head: bytes) -> str:
    if not head.strip():
        return "empty"
    for starts, name in _OTHERS:
        if head.startswith(starts):
            return f"{name}, not a trace that profscope reads"
    if not any(byte < 9 or 13 < byte < 32 for byte in head[:512]):
        return "text, not JSON"
    # A Perfetto trace is a protobuf of packets: field 1, length-delimited.
    is_protobuf = head.startswith(b"\n")
    return "a protobuf, perhaps a Perfetto trace of another tool" if is_protobuf else "no trace"


# Whether spans fit into memory, asked before they are read: else the kernel would end the process.

PEAK_BYTES_A_SPAN: Final = 240
"""While Parquet is read, of spans without payloads: a table of 81 bytes a span, up to three times. Measured
were 143."""
PAYLOAD_BYTES: Final = 27  # three times a number and whether it is missing


def check_room(name: str, spans: int, payloads: int = 0) -> None:
    """Raises TraceError if so many spans do not fit into free memory; does nothing if that is unknown.

    name: of the trace.
    """
    free, need = free_bytes(), spans * (PEAK_BYTES_A_SPAN + payloads * PAYLOAD_BYTES)
    if free is not None and need > free:
        raise TraceError(
            f"{name} has {spans:,} spans: to read them takes up to {need / 1e9:.1f} GB of memory, and "
            f"{free / 1e9:.1f} GB are free; `profscope view {name} --launch N` reads one launch, and DuckDB "
            "works through all of them (docs/views.md)"
        )
