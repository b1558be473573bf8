"""What the passes did to one kernel: enough to decode its buffers without ever seeing the kernel.

The manifest is JSON in a string attribute of the module (`profscope.manifest`), so it stays with the
binary in Triton's cache and a kernel compiled by another process can still be decoded.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from instrument_passes.errors import ManifestError
from instrument_passes.records import CTA_HEADER, CTA_STRIDE, WORD, align

__all__ = ["ATTRIBUTE", "SCHEMA", "Column", "Frame", "Manifest", "Section", "Span", "layout"]

ATTRIBUTE: Final = "profscope.manifest"
SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Column:
    """One 32-bit word of a row.

    kind: "section" (index of the section + 1), "clock" (low half of the SM clock, 0 = not executed),
    "count" (rows that frame `frame` holds so far, over all its instances), "i32" / "f32" (payload),
    "pad" (never read).
    """

    kind: str
    frame: int = -1
    name: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A table of rows: the root (one row) or a loop body (one row per iteration and warp).

    offset is in bytes from the segment's start; capacity is in rows.
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


@dataclass(frozen=True, slots=True)
class Span:
    """A site: something that is shown as one span each time it runs. Ids are in program order (pre-order).

    begin and ends are columns of the span's frame; of several ends (one per return) the one that ran
    counts. No ends: the span lasts until the next row begins, or its loop ends (an iteration).
    parent is the id of the enclosing span, -1 for a root.
    """

    id: int
    parent: int
    frame: int
    kind: str
    name: str
    op: str
    file: str
    line: int
    begin: int
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A warp program: the kernel's body or one warp-specialised partition, with its frames and spans."""

    name: str
    warps: int
    frames: tuple[Frame, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One instrumented kernel. `warps` counts segments, `cta_bytes` and `segment_bytes` are bytes.

    A kernel that could not be instrumented carries a manifest with `failure` set and no sections: the
    binary is the bare one, and the reason stays with it in the cache.
    """

    kernel: str
    target: str
    warps: int
    segment_bytes: int
    cta_bytes: int
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    failure: str = ""
    schema: int = field(default=SCHEMA)

    @property
    def digest(self) -> int:
        """64-bit identity, stored in every CTA header by the program this manifest describes."""
        return int.from_bytes(hashlib.sha256(self.to_json().encode()).digest()[:8], "little")

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Raises ManifestError when the text is not a manifest, or one of a newer schema."""
        try:
            data = json.loads(text)
            schema = data["schema"]
        except (json.JSONDecodeError, TypeError, KeyError) as error:
            raise ManifestError(f"not a profscope manifest: {text[:60]!r}") from error
        if schema != SCHEMA:
            raise ManifestError(
                f"manifest schema {schema} is not {SCHEMA}: written by another profscope version"
            )
        data["sections"] = tuple(_section(section) for section in data["sections"])
        data["notes"] = tuple(data["notes"])
        return Manifest(**data)


def _section(data: dict[str, Any]) -> Section:
    frames = tuple(
        Frame(**{**f, "columns": tuple(Column(**c) for c in f["columns"])}) for f in data["frames"]
    )
    spans = tuple(Span(**{**s, "ends": tuple(s["ends"])}) for s in data["spans"])
    return Section(data["name"], data["warps"], frames, spans)


def layout(sections: list[Section], groups: list[int], warps: int) -> tuple[tuple[Section, ...], int, int]:
    """Place every frame: returns the sections with offsets, segment_bytes and cta_bytes.

    All segments are as long as the longest section needs, so that a warp finds its own from its warp id
    alone. groups: per section 0 for the kernel's body, else the number of its warp_specialize op from 1.
    Sections of one op run on different warps and share the segment's bytes; a worker warp runs one
    section of every op in turn, so each further op starts where the longest section of the last one ends.
    Frames are 16-byte aligned for vector stores.
    """
    size = dict.fromkeys(groups, 0)
    for section, group in zip(sections, groups, strict=True):
        size[group] = max(size[group], sum(_frame_bytes(frame) for frame in section.frames))
    placed = []
    for section, group in zip(sections, groups, strict=True):
        offset = sum(size[earlier] for earlier in range(1, group))
        frames = []
        for frame in section.frames:
            frames.append(Frame(frame.index, frame.parent, frame.columns, frame.capacity, offset, frame.loop))
            offset += _frame_bytes(frame)
        placed.append(Section(section.name, section.warps, tuple(frames), section.spans))
    segment_bytes = max(size[0], sum(size[group] for group in size if group))
    return tuple(placed), segment_bytes, align(CTA_HEADER.itemsize + warps * segment_bytes, CTA_STRIDE)


def _frame_bytes(frame: Frame) -> int:
    return align(frame.row_bytes * frame.capacity, 16)
