"""The manifest of a section while its code is being woven, and literals that are only known at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from profscope.instrument_passes.analyses.places import Place
from profscope.instrument_passes.dialect import attributes_of
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Block, Module, Op
from profscope.instrument_passes.manifest import Column, Frame, Manifest, Section, Span, SpanAttributes
from profscope.instrument_passes.records import CTA_HEADER, LAUNCH_HEADER, MIN_RING_LOG2, WORD, align

__all__ = ["FrameBuilder", "Pending", "SectionBuilder", "Tick", "fill_holes", "hole"]

_MAX_COLUMNS = 4096  # 16 KiB rows; more sites than this in one loop body is a generated monster


@dataclass(eq=False)
class Tick:
    """One clock read, payload or predicate. `column` is known once its value is stored."""

    frame: int
    column: int = -1


@dataclass(frozen=True)
class Pending:
    """A value that waits to be stored: its column, its SSA name, and the tick it is the clock of, if any."""

    column: Column
    value: str
    tick: Tick | None = None


@dataclass
class FrameBuilder:
    """A frame whose columns are still being assigned; capacity as in Frame."""

    index: int
    parent: int
    capacity: int
    loop: int = -1
    columns: list[Column] = field(default_factory=list)
    conditional: set[int] = field(default_factory=set)  # columns that not every row stores

    @property
    def width(self) -> int:
        """Words of a row: as wide as its widest store is aligned, 1, 2 or a multiple of 4."""
        width = len(self.columns)
        return width if width in (1, 2) else align(width, 4)

    def place(self, group: list[Pending]) -> int:
        """Give a group of 1, 2 or 4 values consecutive, aligned columns; returns the first."""
        while len(self.columns) % len(group):
            self.columns.append(Column("pad"))
        first = len(self.columns)
        for offset, pending in enumerate(group):
            self.columns.append(pending.column)
            if pending.tick is not None:
                pending.tick.column = first + offset
        if len(self.columns) > _MAX_COLUMNS:
            raise PassError(
                f"one loop body holds more than {_MAX_COLUMNS} records; choose fewer classes of ops"
            )
        return first

    def finish(self) -> Frame:
        pads = (Column("pad"),) * (self.width - len(self.columns))
        return Frame(self.index, self.parent, (*self.columns, *pads), self.capacity, loop=self.loop)


@dataclass
class _SpanBuilder:
    id: int
    parent: int
    begin: Tick
    attributes: SpanAttributes
    place: Place
    block: Block | None
    ends: list[Tick] = field(default_factory=list)
    payloads: list[Tick] = field(default_factory=list)
    ran: Tick | None = None


@dataclass
class SectionBuilder:
    """A section while it is woven. Spans are keyed by the ids of their records."""

    index: int
    name: str
    warps: int
    frames: list[FrameBuilder] = field(default_factory=list)
    spans: dict[int, _SpanBuilder] = field(default_factory=dict)

    def new_frame(self, parent: int, capacity: int) -> FrameBuilder:
        frame = FrameBuilder(len(self.frames), parent, capacity, -1)
        self.frames.append(frame)
        return frame

    def begin(self, span: int, parent: int, tick: Tick, record: Op, place: Place) -> None:
        """Start a span from its begin record. Raises IRError if it has begun elsewhere."""
        if span in self.spans:
            raise record.error(f"span {span} begins twice")
        self.spans[span] = _SpanBuilder(span, parent, tick, attributes_of(record), place, record.parent)

    def finish(self, paths: Mapping[tuple[str, Place], str]) -> Section:
        """The section, its spans renumbered densely in program order. paths: see `places.call_paths`."""
        number = {span: i for i, span in enumerate(self.spans)}
        number[-1] = -1
        spans = tuple(
            Span(
                id=number[s.id],
                parent=number[s.parent],
                frame=s.begin.frame,
                file=s.place.file,
                line=s.place.line,
                call_path=paths[s.attributes.name, s.place],
                begin=s.begin.column,
                ends=tuple(tick.column for tick in s.ends),
                payloads=tuple(tick.column for tick in s.payloads),
                ran=-1 if s.ran is None else s.ran.column,
                **{field.name: getattr(s.attributes, field.name) for field in fields(s.attributes)},
            )
            for s in self.spans.values()
        )
        frames = []
        for builder in self.frames:
            builder.loop = number[builder.loop]
            frames.append(builder.finish())
        return Section(self.name, self.warps, tuple(frames), spans)


_TOKEN: Final = re.compile(r"__ps_([a-z_]+?)((?:_\d+)*)__")


def hole(what: str, *numbers: int) -> str:
    """A literal that depends on the layout: a token while weaving, which `fill_holes` replaces.

    tag, digest; fixed_bytes, cta_fixed_bytes: as of the manifest; ring_bytes, cta_ring_bytes: all rings of a
    segment, and of a CTA, at their shortest. With the numbers of section and frame: row_bytes; frame_offset,
    of a ring, where all rings are at their shortest. With that of the column, too: store_offset, from what
    the code takes for the address of a row to a word in it, all that is static.
    """
    return f"__ps_{'_'.join([what, *map(str, numbers)])}__"


def fill_holes(module: Module, manifest: Manifest) -> None:
    """Replace the tokens in all ops of the module."""
    plain = {
        "tag": manifest.tag,
        "fixed_bytes": manifest.fixed_bytes,
        "ring_bytes": manifest.ring_bytes << MIN_RING_LOG2,
        "cta_fixed_bytes": manifest.cta_fixed_bytes,
        "cta_ring_bytes": manifest.warps * manifest.ring_bytes << MIN_RING_LOG2,
        "digest": manifest.digest,
    }

    def value(match: re.Match[str]) -> str:
        if match[1] in plain:
            return str(plain[match[1]])
        section, index, *column = (int(n) for n in match[2].split("_") if n)
        frame = manifest.sections[section].frames[index]
        if match[1] == "row_bytes":
            return str(frame.row_bytes)
        if match[1] == "frame_offset":
            return str(frame.offset << MIN_RING_LOG2)
        start = manifest.fixed_bytes if frame.is_ring else frame.offset
        headers = LAUNCH_HEADER.itemsize + CTA_HEADER.itemsize
        return str(headers + start + WORD.itemsize * column[0])

    for op in module.walk():
        for index, part in enumerate(op.parts):
            if isinstance(part, str) and "__ps_" in part:
                op.set_part(index, _TOKEN.sub(value, part))
