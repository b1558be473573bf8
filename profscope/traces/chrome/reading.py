"""Chrome traces in JSON, read in pieces: their fields, and their events of GPU kernels.

As Python objects, a million events take 1 GB, and seconds. So the file is cut between events, msgspec checks
each piece, and only kernels become objects. Pieces that are valid arrays of events make up a valid array, so
nothing is read that `json` would refuse. What msgspec refuses, such as NaN, `json` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Annotated, Any, Final, Literal, NamedTuple, Union

import msgspec

from profscope.traces.chrome.text import json_document

__all__ = ["ChromeTrace", "Kernel", "Kernels", "is_kernel", "read_pieces", "trace_of_document"]

EVENTS: Final = "traceEvents"
PIECE_BYTES: Final = 1 << 20
"""Of events that are checked together; more is no faster."""

_MARK: Final = b"\xef\xbb\xbf"
_OPENING: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN: Final = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts)"')
"""Between two events; no string can hold it, as a quote in one has a backslash before it."""
_SEARCHED_BYTES: Final = (1 << 12, 1 << 16, 1 << 21)
"""Of the end of a piece, for the last place between two events: most often the first few are enough."""
_KERNEL: Final = re.compile(rb'"cat"\s*:\s*"kernel"|\\u00')
"""An escape may spell a letter of either word."""

_CATEGORY: Final = re.compile(rb'"cat"\s*:\s*"([^"\\]*)"')
_MOST_CATEGORIES: Final = 100

_Int32 = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
_BlockSide = Annotated[int, msgspec.Meta(ge=0, le=1024)]


class KernelArgs(msgspec.Struct, gc=False):
    correlation: _Int32
    device: _Int32
    stream: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    grid: tuple[_Int32, _Int32, _Int32]
    block: tuple[_BlockSide, _BlockSide, _BlockSide]


class Kernel(msgspec.Struct, tag_field="cat", tag="kernel", gc=False):
    """A kernel's event as torch.profiler writes it, with times in us: less than 126 years, and a week."""

    ph: Literal["X"]
    name: str
    ts: Annotated[float, msgspec.Meta(ge=-4e15, le=4e15)]
    dur: Annotated[float, msgspec.Meta(ge=0, le=7 * 86_400 * 1e6)]
    args: KernelArgs


Kernels = list[Kernel] | list[dict[str, Any]]

_SLICES: Final = msgspec.json.Decoder(list[msgspec.Raw])


class ChromeTrace(NamedTuple):
    """fields: what the object around the events holds, with no event in it; {} for a bare array.

    kernels: all of them in order, piece by piece; as `json` reads them where one of a piece has another form
    than `Kernel`.
    """

    fields: dict[str, Any]
    kernels: list[Kernels]


def read_pieces(content: Iterable[bytes], piece_bytes: int = PIECE_BYTES) -> ChromeTrace | None:
    """None for what cannot be read in pieces, which may yet be a trace. content: the file's, in order."""
    pieces = iter(content)
    ahead = bytearray()
    while len(ahead) < piece_bytes and (piece := next(pieces, None)) is not None:
        ahead += piece
    try:
        fields, begin = _opening(bytes(ahead))
        del ahead[:begin]
        decoder = _Decoder()
        kernels: list[Kernels] = []
        for array in _cut(pieces, ahead, piece_bytes):
            regular = decoder.kernels(array)
            kernels.append(_odd_kernels(array) if regular is None else regular)
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


class _Decoder:
    """Decodes kernels, and skips other events: msgspec must know their categories, so it learns these."""

    def __init__(self) -> None:
        self._others: set[str] = set()
        self._decoder = self._decoder_of(self._others)

    def kernels(self, array: bytes) -> list[Kernel] | None:
        """Those of an array of events; None if it has an event of another form, or is no valid JSON."""
        try:
            events = self._decoder.decode(array)
        except msgspec.ValidationError:
            return self.kernels(array) if self._learn(array) else None
        except (msgspec.DecodeError, RecursionError):
            return None
        return [event for event in events if type(event) is Kernel]

    def _learn(self, array: bytes) -> bool:
        """Whether there are new categories."""
        named = {name.decode(errors="replace") for name in set(_CATEGORY.findall(array))}
        known = named - {"kernel"} | self._others
        if known == self._others or len(known) > _MOST_CATEGORIES:
            return False
        self._others, self._decoder = known, self._decoder_of(known)
        return True

    @staticmethod
    def _decoder_of(categories: set[str]) -> msgspec.json.Decoder[Any]:
        """Always of several forms: of a single one msgspec takes events without a category."""
        others = [
            msgspec.defstruct(f"Other{number}", [], tag_field="cat", tag=name, gc=False)
            for number, name in enumerate(sorted(categories | {""}))
        ]
        either: Any = Union[(Kernel, *others)]
        return msgspec.json.Decoder(list[either])


def _odd_kernels(array: bytes) -> list[dict[str, Any]]:
    """Those of an array of events of any form. Raises ValueError, RecursionError."""
    try:
        events = _SLICES.decode(array)
        array = b"[%s]" % b",".join(compress(events, map(_KERNEL.search, events)))
    except (msgspec.DecodeError, RecursionError):
        pass
    return [event for event in json.loads(array.decode(errors="replace")) if is_kernel(event)]


def _closing(text: str, in_object: bool) -> ChromeTrace:
    """The last events, and the fields behind them. Raises ValueError, RecursionError."""
    if not in_object:
        return trace_of_document(json_document("[" + text.strip()))
    if f'"{EVENTS}"' in text:
        raise ValueError("its events are not in one place")
    return trace_of_document(json.loads(f'{{"{EVENTS}":[{text.strip()}'))
