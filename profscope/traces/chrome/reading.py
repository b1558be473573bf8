"""Chrome traces in JSON, read in pieces: their fields, and their events of GPU kernels.

As Python objects, a million events take 2 GB, and seconds. So the file is cut between events, msgspec checks
each piece, and only kernels become more than a slice of its text. Pieces that are valid arrays of events make
up a valid array, so nothing is read that `json` would refuse; what msgspec refuses and `json` reads (NaN,
lone surrogates), `json` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any, Final, NamedTuple

import msgspec

from profscope.traces.chrome.text import json_document

__all__ = ["ChromeTrace", "is_kernel", "read_pieces", "trace_of_document"]

EVENTS: Final = "traceEvents"
PIECE_BYTES: Final = 1 << 20
"""Of events that are checked together; more is no faster."""

_MARK: Final = b"\xef\xbb\xbf"
_OPENING: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN: Final = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts)"')
"""Between two events; no string can hold it, as a quote in one has a backslash before it."""
_SEARCHED_BYTES: Final = (1 << 12, 1 << 16, 1 << 21)
"""Of the end of a piece, for the last place between two events: most often the first few are enough."""
_KERNEL: Final = re.compile(rb'"cat"\s*:\s*"kernel"')
_KERNEL_OR_ESCAPE: Final = re.compile(rb'"cat"\s*:\s*"kernel"|\\u00')
"""An escape may spell a letter of either word."""

_SLICES: Final = msgspec.json.Decoder(list[msgspec.Raw])


class ChromeTrace(NamedTuple):
    """fields: what the object around the events holds, with no event in it; {} for a bare array.

    kernels: in order, pieces with all events of kernels: JSON text of an array, which may hold a few other
    events, too, or the kernels themselves.
    """

    fields: dict[str, Any]
    kernels: list[bytes | list[dict[str, Any]]]


def read_pieces(content: Iterable[bytes], piece_bytes: int = PIECE_BYTES) -> ChromeTrace | None:
    """None for what cannot be read in pieces, which may yet be a trace. content: the file's, in order."""
    pieces = iter(content)
    ahead = bytearray()
    while len(ahead) < piece_bytes and (piece := next(pieces, None)) is not None:
        ahead += piece
    try:
        fields, begin = _opening(bytes(ahead))
        del ahead[:begin]
        kernels: list[bytes | list[dict[str, Any]]] = []
        for array in _cut(pieces, ahead, piece_bytes):
            kernels.append(_kernels(array))
        last = _closing(ahead.decode(errors="replace"), bool(fields))
    except (ValueError, RecursionError):
        return None
    return ChromeTrace(fields | last.fields, [*kernels, *last.kernels])


def trace_of_document(document: Any) -> ChromeTrace:
    """Of JSON in one piece; without events if it is no Chrome trace."""
    is_object = isinstance(document, dict)
    events = document.get(EVENTS) if is_object else document
    kernels = [event for event in events if is_kernel(event)] if isinstance(events, list) else []
    fields = {name: [] if name == EVENTS else value for name, value in document.items()} if is_object else {}
    return ChromeTrace(fields, [kernels])


def is_kernel(event: Any) -> bool:
    """Whether it is a complete ("X") event of a kernel, with a name and a time."""
    kind = (event.get("ph"), event.get("cat")) if isinstance(event, dict) else None
    return kind == ("X", "kernel") and "ts" in event and "name" in event


def _opening(start: bytes) -> tuple[dict[str, Any], int]:
    """The fields before the events, and where these begin. Raises ValueError, RecursionError."""
    array = re.match(rb"(?:%s)?[ \t\r\n]*\[" % _MARK, start)
    if array:
        return {}, array.end()
    events = _OPENING.search(start)
    if events is None:
        raise ValueError("no events near its beginning")
    # Only if the array is a value of the outermost object do these two brackets close all that is open.
    return json.loads((start[: events.end()] + b"]}").decode("utf-8-sig", errors="replace")), events.end()


def _cut(pieces: Iterator[bytes], ahead: bytearray, piece_bytes: int) -> Iterator[bytes]:
    """Arrays of as many events as make up a piece; the last events are left in `ahead`."""
    while True:
        end = _last_between(ahead) if len(ahead) >= piece_bytes else 0
        if end:
            with memoryview(ahead) as text, text[:end] as events:
                array = b"".join((b"[", events, b"]"))
            yield array
            del ahead[: ahead.index(b",", end) + 1]
        elif (piece := next(pieces, None)) is not None:
            ahead += piece
        else:
            return


def _last_between(text: bytearray) -> int:
    """Where the last event but one ends; 0 if there is no such place near the end."""
    for size in _SEARCHED_BYTES:
        places = [found.start() + 1 for found in _BETWEEN.finditer(text, max(0, len(text) - size))]
        if places:
            return places[-1]
    return 0


def _kernels(array: bytes) -> bytes | list[dict[str, Any]]:
    """Those of events. Raises ValueError, RecursionError."""
    try:
        events = _SLICES.decode(array)
    except (msgspec.DecodeError, RecursionError):
        return [event for event in json.loads(array.decode(errors="replace")) if is_kernel(event)]
    search = (_KERNEL_OR_ESCAPE if b"\\u00" in array else _KERNEL).search
    return b"[%s]" % b",".join(compress(events, map(search, events)))


def _closing(text: str, in_object: bool) -> ChromeTrace:
    """The last events, and the fields behind them. Raises ValueError, RecursionError."""
    if not in_object:
        return trace_of_document(json_document("[" + text.strip()))
    if f'"{EVENTS}"' in text:
        raise ValueError("its events are not in one place")
    return trace_of_document(json.loads(f'{{"{EVENTS}":[{text.strip()}'))
