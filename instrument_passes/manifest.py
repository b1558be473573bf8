"""The manifest: the layout of one kernel's records, enough to decode its buffers without the kernel.

The manifest is JSON in a string attribute of the module (`profscope.manifest`), so it stays with the
binary in Triton's cache and a kernel compiled by another process can still be decoded.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from profscope.instrument_passes.errors import ManifestError
from profscope.instrument_passes.progress import Arrival, ProgressMark
from profscope.instrument_passes.records import (
    CTA_HEADER,
    MAX_STAMPED,
    SECTOR,
    STAMP,
    STAMPS_ALIGN,
    VECTOR,
    WORD,
    align,
)
from profscope.instrument_passes.selection import Selection

__all__ = [
    "ATTRIBUTE",
    "BITS",
    "PATH_SEPARATOR",
    "RESERVED",
    "SCHEMA",
    "Column",
    "Frame",
    "Manifest",
    "Section",
    "Span",
    "SpanAttributes",
    "layout",
    "wrong_field",
]

PATH_SEPARATOR: Final = " > "
"""What stands between the steps of a `call_path`."""

RESERVED: Final = frozenset(
    [
        "kernel",
        "launch",
        "cta",
        "sm",
        "warp",
        "scope",
        "kind",
        "file",
        "line",
        "call_path",
        "iteration",
        "depth",
        "parent",
        "wait",
        "start_cycle",
        "duration_cycles",
        "start_ns",
        "duration_ns",
        "stage",
        "for_iteration",
        "corrected_cycles",
        "corrected_ns",
        "module",
        "model_file",
        "model_line",
    ]
)
"""What no payload may be called: the columns that tables of spans have (`profscope.schema`)."""

BITS: Final = "bits"  # in a field's metadata: how wide an integer is printed; 32 without


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanAttributes:
    """Attributes that have their default value are not printed and not stored.

    kind: of the table of spans, such as "op". name: of the span. op: the name of the op inside. bytes and
    flops: moved and computed by one CTA each time, by the types of the op; 0 if unknown (see
    `analyses/metrics.py`). part, channel and pending: the op's role in asynchronous work (see
    `async_roles.Role`), "" if none. stage, loop, ahead and peeled: its role in a pipelined loop (see
    `loop_stages.Stage`), "" if none.
    """

    kind: str
    name: str
    op: str
    bytes: int = field(default=0, metadata={BITS: 64})
    flops: int = field(default=0, metadata={BITS: 64})
    part: str = ""
    channel: int = 0
    pending: int = 0
    stage: str = ""
    loop: int = -1
    ahead: int = 0
    peeled: int = 0


_MOST: Final = 1 << 63  # what 64 bits can hold


def wrong_field(value: Any) -> str | None:
    """The first field of another type than declared, as `Span.line='x'`; None if all are right.

    Types that are known: int of 64 bits, bool, str, dict, tuples of one type, unions, dataclasses and Any.
    """
    kind: type = type(value)
    for name, declared in _declared(kind).items():
        found = getattr(value, name)
        inside = found if isinstance(found, tuple) else (found,)
        within = next((wrong for each in inside if is_dataclass(each) and (wrong := wrong_field(each))), None)
        if within is not None:
            return within
        if not _fits(found, declared):
            return f"{kind.__name__}.{name}={found!r}"[:200]
    return None


@cache
def _declared(kind: Hashable) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}  # type: ignore[arg-type]


def _fits(value: object, declared: Any) -> bool:
    if isinstance(declared, UnionType):
        return any(_fits(value, each) for each in get_args(declared))
    kind = get_origin(declared) or declared
    if kind is tuple:
        return isinstance(value, tuple) and all(_fits(each, get_args(declared)[0]) for each in value)
    if kind is int:
        return type(value) is int and abs(value) < _MOST
    return kind is Any or isinstance(value, kind)


ATTRIBUTE: Final = "profscope.manifest"
SCHEMA: Final = 6  # of the manifest and of the record format
# Of the steps of a call path.
_LINES: Final = re.compile(rf":(\d+(?::\d+)?)(?={re.escape(PATH_SEPARATOR)}|$)")


@dataclass(frozen=True, slots=True)
class Column:
    """One 32-bit word of a row.

    kind: "section" (index of the section + 1), "clock" (low half of the SM clock, 0 = not executed),
    "count" (rows that frame `frame` holds so far, over all its instances), "i32" / "f32" (payload `name`),
    "ran" (whether the predicate of an op was true), "pad" (never read).
    """

    kind: str
    frame: int = -1
    name: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A table of rows: the root (one row) or a loop body (one row per iteration and warp).

    capacity: rows, where the trip count is static; 0 for a ring, whose 2^c rows are decided at launch.
    offset: bytes from the segment's start; for a ring, see `start`.
    """

    index: int
    parent: int
    columns: tuple[Column, ...]
    capacity: int
    offset: int = 0
    loop: int = -1  # the loop span whose iterations these rows are, -1 for the root

    @property
    def row_bytes(self) -> int:
        return len(self.columns) * WORD.itemsize

    @property
    def is_ring(self) -> bool:
        return self.capacity == 0

    def rows(self, ring_log2: int) -> int:
        """Rows the frame has room for."""
        return 1 << ring_log2 if self.is_ring else self.capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(SpanAttributes):
    """A site: something that is shown as one span each time it runs. Ids are in program order (pre-order).

    begin and ends are columns of the span's frame; of several ends (one per return) the one that ran
    counts. No ends: the span lasts until the next row begins, or its loop ends (an iteration).
    parent is the id of the enclosing span, -1 for a root. file, line and call_path: where it stands in the
    source (see `places.Place` and `places.call_paths`). payloads are columns of the frame that hold values;
    they are written whenever the span is. ran: column that is zero where the op was switched off, so that
    there is no span; -1 if it always runs.
    """

    id: int
    parent: int
    frame: int
    file: str
    line: int
    begin: int
    ends: tuple[int, ...] = ()
    payloads: tuple[int, ...] = ()
    ran: int = -1
    call_path: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A warp program: the kernel's body or one warp-specialised partition, with its frames and spans."""

    name: str
    warps: int
    frames: tuple[Frame, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Manifest:
    """One instrumented kernel.

    warps: of a CTA, each with a segment of its area. fixed_bytes: of a segment,
    for all frames but the rings; ring_bytes: of a segment, for one row of each ring. A segment is
    fixed_bytes + (ring_bytes << ring_log2) long, and ring frames start at fixed_bytes +
    (offset << ring_log2).

    twin: its CTAs that do not record run a body of their own (`lowering/unrecorded_body.py`). stamps: each of
    them writes a stamp. marks: of a program that says where its warps are, and has no spans
    (`passes/progress.py`).
    """

    kernel: str
    target: str
    warps: int
    fixed_bytes: int
    ring_bytes: int
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    selection: Selection = field(default=Selection())
    twin: bool = False
    stamps: bool = False
    marks: tuple[ProgressMark, ...] = ()
    schema: int = field(default=SCHEMA)

    @cached_property
    def digest(self) -> int:
        """32-bit identity, stored in a launch's buffer by the program this manifest describes.

        Names of files are no part of it: copies of a function in two files make the same records.
        """
        text = self._without_files().to_json()
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")

    def _without_files(self) -> Manifest:
        sections = tuple(
            replace(section, spans=tuple(_without_file(span) for span in section.spans))
            for section in self.sections
        )
        marks = tuple(
            replace(mark, file="", arrivals=tuple(replace(each, file="") for each in mark.arrivals))
            for mark in self.marks
        )
        return replace(self, sections=sections, notes=(), marks=marks)

    @cached_property
    def tag(self) -> int:
        """The alignment that the scratch allocation requests, and the bytes per CTA: tells the profile
        allocator, which learns nothing else, roughly which program is launched. Odd, so that it is no real
        alignment, and small, because without a session Triton may allocate that much."""
        first, count = self.selection.tags
        return 3 + 2 * (first + self.digest % count)

    def segment_bytes(self, ring_log2: int) -> int:
        return self.fixed_bytes + (self.ring_bytes << ring_log2)

    @property
    def cta_fixed_bytes(self) -> int:
        """Bytes of a CTA's area without its rings: whole sectors, like the rings."""
        return align(CTA_HEADER.itemsize + self.warps * self.fixed_bytes, SECTOR)

    def cta_bytes(self, ring_log2: int) -> int:
        return self.cta_fixed_bytes + (self.warps * self.ring_bytes << ring_log2)

    def stamps_of(self, ctas: int) -> int:
        """How many stamps the buffer of a launch of `ctas` CTAs begins with."""
        return min(ctas, MAX_STAMPED) if self.stamps else 0

    def stamps_bytes(self, ctas: int) -> int:
        """Bytes of them, up to the launch header."""
        return align(self.stamps_of(ctas) * STAMP.itemsize, STAMPS_ALIGN)

    def start(self, frame: Frame, ring_log2: int) -> int:
        """Byte offset of a frame in its segment."""
        return self.fixed_bytes + (frame.offset << ring_log2) if frame.is_ring else frame.offset

    def to_json(self) -> str:
        return json.dumps(_plain(self), separators=(",", ":"), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Raises ManifestError when the text is not a manifest, or one of another schema."""
        malformed = ManifestError(f"not a profscope manifest: {text[:60]!r}")
        try:
            data = json.loads(text)
            schema = data["schema"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise malformed from error
        if schema != SCHEMA:
            raise ManifestError(
                f"manifest schema {schema} is not {SCHEMA}: written by another profscope version"
            )
        try:
            data["sections"] = tuple(_section(section) for section in data["sections"])
            data["notes"] = tuple(data.get("notes", ()))
            data["marks"] = tuple(_mark(mark) for mark in data.get("marks", ()))
            data["selection"] = Selection(tuple(data.get("selection", {}).get("ids", ())))
            manifest = Manifest(**data)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise malformed from error
        wrong = wrong_field(manifest)
        if wrong is not None:
            raise ManifestError(f"not a profscope manifest: it has {wrong}")
        return manifest


def _without_file(span: Span) -> Span:
    """Of its call path the lines are left: they may be all that two programs differ in."""
    return replace(span, file="", call_path=" ".join(_LINES.findall(span.call_path)))


def _plain(value: Any) -> Any:
    """JSON-able; fields with their default value are left out, so that a field can be added later without
    changing the digest of programs that do not use it."""
    if is_dataclass(value):
        pairs = {f.name: (getattr(value, f.name), f.default) for f in fields(value)}
        return {name: _plain(v) for name, (v, default) in pairs.items() if v != default or name == "schema"}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _section(data: dict[str, Any]) -> Section:
    frames = tuple(
        Frame(**{**f, "columns": tuple(Column(**c) for c in f["columns"])}) for f in data["frames"]
    )
    tuples = ("ends", "payloads")
    spans = tuple(
        Span(**{**s, **{name: tuple(s[name]) for name in tuples if name in s}}) for s in data["spans"]
    )
    return Section(data["name"], data["warps"], frames, spans)


def _mark(data: dict[str, Any]) -> ProgressMark:
    return ProgressMark(**{**data, "arrivals": tuple(Arrival(**each) for each in data.get("arrivals", ()))})


def layout(sections: list[Section], groups: list[int]) -> tuple[tuple[Section, ...], int, int]:
    """Place every frame: returns the sections with offsets, fixed_bytes and ring_bytes of a segment.

    All segments are as long as the longest section needs, so that a warp finds its own from its warp id
    alone. groups: per section 0 for the kernel's body, else the number of its warp_specialize op from 1.
    Sections of one op run on different warps and share the segment's bytes; a worker warp runs one
    section of every op in turn, so each further op starts where the longest section of the last one ends.
    """
    fixed, ring = dict.fromkeys(groups, 0), dict.fromkeys(groups, 0)
    for section, group in zip(sections, groups, strict=True):
        fixed[group] = max(fixed[group], _extent(section.frames))
        ring[group] = max(ring[group], sum(f.row_bytes for f in section.frames if f.is_ring))
    placed = []
    for section, group in zip(sections, groups, strict=True):
        at = sum(align(fixed[earlier], VECTOR) for earlier in range(1, group))
        ring_at = sum(ring[earlier] for earlier in range(1, group))
        frames = []
        for f in section.frames:
            frames.append(
                Frame(f.index, f.parent, f.columns, f.capacity, ring_at if f.is_ring else at, f.loop)
            )
            ring_at += f.row_bytes if f.is_ring else 0
            at += _fixed_bytes(f)
        placed.append(Section(section.name, section.warps, tuple(frames), section.spans))
    workers = sum(align(fixed[group], VECTOR) for group in fixed if group)
    total_fixed = max(fixed[0], workers)
    total_ring = max(ring[0], sum(ring[group] for group in ring if group))
    return tuple(placed), _segment_bytes(total_fixed, total_ring), total_ring


def _fixed_bytes(frame: Frame) -> int:
    return align(frame.row_bytes * frame.capacity, VECTOR)


def _extent(frames: tuple[Frame, ...]) -> int:
    """Bytes up to the end of the last frame, without the padding behind it."""
    fixed = [frame for frame in frames if frame.row_bytes * frame.capacity]
    return sum(map(_fixed_bytes, fixed[:-1])) + sum(f.row_bytes * f.capacity for f in fixed[-1:])


def _segment_bytes(fixed: int, ring: int) -> int:
    """Whole sectors, or, without rings, a power of two below: no segment lies across sectors needlessly."""
    small = max(WORD.itemsize, 1 << (fixed - 1).bit_length()) if fixed else WORD.itemsize
    return small if small < SECTOR and not ring else align(fixed, SECTOR)
