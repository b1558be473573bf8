"""The bytes of a trace file, and a clear word on a file that is no trace."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profscope.errors import TraceError

__all__ = ["GZIP_MAGIC", "file_pieces", "first_line", "json_documents"]

GZIP_MAGIC = b"\x1f\x8b"
PIECE_BYTES = 1 << 20

SIGNATURES = (
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\0", "an SQLite database (Nsight Systems exports these)"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed; decompress it first"),
    (b"BZh", "bzip2-compressed; decompress it first"),
    (b"\xfd7zXZ\0", "xz-compressed; decompress it first"),
    (b"\x7fELF", "an ELF program or cubin"),
    (b"NVR\0", "an Nsight Compute report"),
    (b"\x89PNG", "a PNG image"),
    (b"\x80\x04", "a Python pickle"),
)


def file_pieces(path: Path) -> Iterator[bytes]:
    """The file's content in order, decompressed when it is gzip, in pieces of about a MB.

    Raises TraceError when it cannot be read, and for gzip data that is damaged or ends too early.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(2)
            file.seek(0)
            raw = iter(lambda: file.read(PIECE_BYTES), b"")
            yield from _gunzip(path, raw) if magic == GZIP_MAGIC else raw
    except FileNotFoundError:
        raise TraceError(f"no such file: {path}") from None
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error


def first_line(path: Path) -> bytes:
    """The first line with its newline; all there is when there is none."""
    line = bytearray()
    for piece in file_pieces(path):
        newline = piece.find(b"\n")
        if newline >= 0:
            return bytes(line + piece[: newline + 1])
        line += piece
    return bytes(line)


def json_documents(path: Path) -> list[Any]:
    """The JSON documents of a file: one as a rule, one a line in some of Proton's traces.

    An event array may lack its closing bracket, as the Chrome trace format allows. Raises TraceError for a
    file that is not JSON, saying what it looks like.
    """
    content = b"".join(file_pieces(path))
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        raise TraceError(f"{path} is {_name_content(content)}")
    text = content.decode("utf-8-sig", errors="replace").strip()
    try:
        return _decode_all(text)
    except json.JSONDecodeError as error:
        if text.startswith("["):
            try:
                return [json.loads(text.rstrip(", \t\r\n") + "]")]
            except json.JSONDecodeError:
                pass  # the error found first says more
        if error.pos >= len(text) - 1 or error.msg.startswith("Unterminated string"):
            raise TraceError(
                f"{path} is cut off: its JSON ends in the middle, after {len(content)} bytes"
            ) from None
        place = f"line {error.lineno}, column {error.colno}"
        raise TraceError(f"{path} is not valid JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise TraceError(f"{path} is JSON nested too deeply to be a trace") from None


def _decode_all(text: str) -> list[Any]:
    decoder = json.JSONDecoder()
    documents = []
    at = 0
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        documents.append(document)
        while at < len(text) and text[at].isspace():
            at += 1
    return documents


def _gunzip(path: Path, pieces: Iterator[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    try:
        for piece in pieces:
            left = piece
            while left:
                if member.eof:
                    if not left.startswith(GZIP_MAGIC[:1]):
                        raise TraceError(f"{path} is damaged: {len(left)} or more bytes follow its gzip data")
                    member = zlib.decompressobj(wbits=31)
                yield member.decompress(left)
                left = member.unused_data
    except zlib.error as error:
        raise TraceError(f"{path} is damaged gzip data: {error}") from None
    if not member.eof:
        raise TraceError(f"{path} is cut off: its gzip data ends in the middle")


def _name_content(content: bytes) -> str:
    if not content:
        return "empty"
    head = content[:512]
    for signature, name in SIGNATURES:
        if head.startswith(signature):
            return name
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not text:
        return "blank"
    if text.startswith((b"<!doctype html", b"<html")):
        return "an HTML page, not a trace"
    control = any(byte < 9 or 13 < byte < 32 for byte in head)
    if head[:1] == b"\n" and control:
        # A Perfetto trace is a protobuf of packets: field 1, length-delimited.
        return (
            "a protobuf, perhaps a Perfetto trace of another tool; profscope reads its own .pftrace files, "
            "and Chrome JSON traces of torch.profiler and Proton"
        )
    return "a binary file of unknown kind" if control else "text, not JSON"
