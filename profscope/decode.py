"""From one launch's buffer to columns of spans: numpy only, no loop over records.

A frame is a regular array of rows, so every site decodes at once: its begin and end columns are two strided
views over (CTA, warp, slot). What is irregular (how many rows a warp wrote, which parent row a row belongs
to) follows from the counts that the rows themselves carry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Frame, Manifest, Section, Span
from instrument_passes.records import CTA_HEADER, VECTOR, WORD, LaunchBits
from instrument_passes.selection import Selection
from profscope.errors import RecordError

__all__ = [
    "FOR_ITERATION",
    "DecodedLaunch",
    "decode",
    "has_records",
    "headers",
    "launch_bits",
    "ring_rows",
    "tickets",
]

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

# A warp may enter the kernel a little before the header's clock is read; the anchor is set this much earlier.
ANCHOR_MARGIN_CYCLES = 1 << 24
# Low halves of clocks are unambiguous while the whole CTA lasts less than this; see `_Clock`.
WRAP_CYCLES = 1 << 32
FOR_ITERATION = "for_iteration"
"""The payload of ops in pipelined loops: which iteration of their loop they worked for."""
_PAYLOAD_TYPES = {"i32": np.dtype("<i4"), "f32": np.dtype("<f4")}


@dataclass(frozen=True)
class Payload:
    """The values of one site: column `name` of the spans at `rows` (positions), int32 or float32."""

    name: str
    rows: Ints
    values: npt.NDArray[Any]


@dataclass(frozen=True)
class DecodedLaunch:
    """Spans of one launch, unordered by time; all arrays have one entry per span.

    span: index into `sites`; cta, warp, sm; start_cycle, end_cycle (SM clock64); iteration (-1 outside
    loops); parent: position in these arrays, -1 at a root; depth. headers: the CTA headers (CTA_HEADER
    dtype) of every CTA of the launch, unwritten ones included. dropped: rows that a ring overwrote, per
    frame and warp program summed over warps, in records (clock words). unmatched: spans whose begin ran
    but whose end did not. anomalies: sentences about what did not fit the model, empty on a good buffer.
    payloads: values that spans carry. unpaired: starts of asynchronous work that no wait ended, where waits
    are recorded. refused: CTAs that drew a ticket for an area and found none left. wait: for asynchronous
    intervals the position of the span whose return ended them, -1 for others; None if there are none. idle:
    positions of spans on ops of a pipelined loop for iterations that it did not have: those do nothing.
    """

    sites: tuple[Span, ...]
    span: Small
    cta: Small
    warp: Small
    sm: Small
    start_cycle: Ints
    end_cycle: Ints
    iteration: Small
    parent: Small
    depth: Small
    headers: npt.NDArray[np.void]
    records: int
    dropped: int
    unmatched: int
    anomalies: tuple[str, ...] = field(default=())
    payloads: tuple[Payload, ...] = field(default=())
    unpaired: int = 0
    refused: int = 0
    wait: Small | None = None
    idle: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def has_records(buffer: npt.NDArray[np.uint8]) -> bool:
    """Whether a launch wrote into its buffer; its first CTA writes first thing, if the launch runs at all."""
    return bool(buffer[: CTA_HEADER.itemsize].any())


def launch_bits(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> LaunchBits:
    """How the launch that wrote this buffer recorded; its first area says so.

    Raises RecordError for a buffer that is too short, or that another program wrote.
    """
    if buffer.nbytes < CTA_HEADER.itemsize:
        raise RecordError(
            f"truncated profile buffer of kernel {manifest.kernel}: {buffer.nbytes} bytes hold no CTA header"
        )
    first = buffer[: CTA_HEADER.itemsize].view(CTA_HEADER)[0]
    if first["digest"] != manifest.digest:
        raise RecordError(
            f"profile buffer was not written by this build of kernel {manifest.kernel}: it carries "
            f"digest {int(first['digest']):#x}, the manifest {manifest.digest:#x}"
        )
    return LaunchBits.decode(int(first["launch_bits"]))


def headers(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> npt.NDArray[np.void]:
    """The CTA headers of a launch's buffer, shape (recorded CTAs,), dtype CTA_HEADER, a view.

    Areas whose ticket nobody drew are left out; see `Selection`.

    Raises RecordError for a truncated or damaged buffer, or another program's.
    """
    bits = launch_bits(buffer, manifest)
    cta_bytes = manifest.cta_bytes(bits.ring_log2)
    area_bytes = buffer.nbytes - manifest.selection.counter_bytes
    if area_bytes % cta_bytes:
        raise RecordError(
            f"truncated profile buffer of kernel {manifest.kernel}: {buffer.nbytes} bytes is not a multiple "
            f"of the {cta_bytes} bytes a CTA writes"
        )
    areas = area_bytes // cta_bytes
    if manifest.selection.ctas == "sms":
        areas = min(areas, tickets(buffer))
    found = np.ndarray((areas,), CTA_HEADER, buffer.data, strides=(cta_bytes,))
    due = _ctas_due(manifest.selection, areas, bits)
    if due is not None:
        wrong = np.flatnonzero((found["start_clock"] != 0) & (found["cta"] != due))
        if wrong.size:
            there, wanted = found["cta"][wrong[0]], due[wrong[0]]
            raise RecordError(
                f"damaged profile buffer of kernel {manifest.kernel}: it holds CTA {there} "
                f"where CTA {wanted} is due"
            )
    return found


def decode(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> DecodedLaunch:
    """Decode one launch. buffer: uint8, all its CTA areas. Raises RecordError (see `headers`)."""
    buffer = np.ascontiguousarray(buffer)
    found = headers(buffer, manifest)
    ring_log2 = launch_bits(buffer, manifest).ring_log2
    segments = _segments(buffer, len(found), manifest, ring_log2)
    if manifest.selection.ctas == "first":
        wave = _first_wave(found)
        found, segments = found[wave], segments[wave]
    blocks = _Blocks(_Clock(found))
    for index, section in enumerate(manifest.sections):
        _SectionDecoder(segments, manifest, section, index, ring_log2, found, blocks).run()
    refused = max(0, tickets(buffer) - len(found)) if manifest.selection.ctas == "sms" else 0
    return replace(blocks.finish(manifest, found), refused=refused)


def ring_rows(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> int:
    """The most rows that any warp appended to any ring, overwritten ones included."""
    buffer = np.ascontiguousarray(buffer)
    found = headers(buffer, manifest)
    ring_log2 = launch_bits(buffer, manifest).ring_log2
    segments = _segments(buffer, len(found), manifest, ring_log2)
    blocks = _Blocks(_Clock(found))
    most = 0
    for index, section in enumerate(manifest.sections):
        decoder = _SectionDecoder(segments, manifest, section, index, ring_log2, found, blocks)
        decoder.gather()
        most = max([most, *(decoder.most[f.index] for f in section.frames if f.is_ring)])
    return most


def tickets(buffer: npt.NDArray[np.uint8]) -> int:
    """How many CTAs asked for an area, those that found none included, where areas go by ticket."""
    return int(buffer[-VECTOR:].view(WORD)[0])


def _ctas_due(selection: Selection, areas: int, bits: LaunchBits) -> Ints | None:
    """The CTAs whose records are in the areas, by linear id; None where only the kernel knows."""
    if selection.ctas == "sms":
        return None
    if selection.ctas == "list":
        return np.array(selection.ids[:areas], np.int64)
    return np.arange(areas, dtype=np.int64) << (bits.stride_log2 if selection.ctas == "stride" else 0)


def _first_wave(found: npt.NDArray[np.void]) -> Ints:
    """Positions of the CTAs that started before any of the recorded ones on the same SM had ended."""
    written = found[found["end_clock"] != 0]
    first_end = np.full(1 << 16, np.iinfo(np.uint64).max, np.uint64)  # by SM
    np.minimum.at(first_end, written["sm"], written["end_clock"])
    return np.flatnonzero(found["start_clock"] < first_end[found["sm"]])


def _segments(
    buffer: npt.NDArray[np.uint8], ctas: int, manifest: Manifest, ring_log2: int
) -> npt.NDArray[np.uint32]:
    """The words of all segments, shape (CTAs, recorded warps, words)."""
    area_bytes = ctas * manifest.cta_bytes(ring_log2)
    words = buffer[:area_bytes].view(WORD).reshape(ctas, -1)[:, CTA_HEADER.itemsize // WORD.itemsize :]
    in_segment = manifest.segment_bytes(ring_log2) // WORD.itemsize
    return words[:, : manifest.segments * in_segment].reshape(ctas, manifest.segments, in_segment)


class _Clock:
    """Full clock64 values from 32-bit words, anchored per CTA.

    A word is the low half of the SM's clock64, and the header has the CTA's full start value, so while a
    CTA lasts less than 2^32 cycles (2.2 s at 1.98 GHz) the full value is anchor + (word - anchor) mod 2^32.
    A CTA that lasted longer is decoded too, but its rows may be off by multiples of 2^32: `ambiguous`
    counts such CTAs so that the caller can say so.
    """

    def __init__(self, found: npt.NDArray[np.void]) -> None:
        start = found["start_clock"].astype(np.int64)
        self.anchor = start - ANCHOR_MARGIN_CYCLES
        duration = found["end_clock"].astype(np.int64) - start
        self.ambiguous = int(np.count_nonzero(duration >= WRAP_CYCLES - 2 * ANCHOR_MARGIN_CYCLES))

    def full(self, words: Words, anchor: Ints) -> Ints:
        """words and anchor: one per row. The subtraction wraps as the clock does."""
        return anchor + (words - anchor.astype(np.uint32)).astype(np.int64)


class _Blocks:
    """Collects one block of spans per site and joins them."""

    def __init__(self, clock: _Clock) -> None:
        self.clock = clock
        self.sites: list[Span] = []
        self.parts: list[tuple[npt.NDArray[np.signedinteger[Any]], ...]] = []
        self.size = 0
        self.records = 0
        self.dropped = 0
        self.unmatched = 0
        self.anomalies: list[str] = []
        self.payloads: list[Payload] = []
        self.idle: list[Ints] = []

    def add(self, *columns: npt.NDArray[np.signedinteger[Any]]) -> None:
        self.parts.append(columns)
        self.size += len(columns[0])

    def finish(self, manifest: Manifest, found: npt.NDArray[np.void]) -> DecodedLaunch:
        types = (np.int32, np.int32, np.int32, np.int64, np.int64, np.int32, np.int32, np.int32)
        if self.parts:
            columns = [np.concatenate(c) for c in zip(*self.parts, strict=True)]
        else:
            columns = [np.zeros(0, dtype) for dtype in types]
        self.parts.clear()
        span, cta, warp, start, end, iteration, parent, depth = columns
        backwards = int(np.count_nonzero(end < start))
        if backwards:
            self.anomalies.append(f"{backwards} spans of kernel {manifest.kernel} end before they start")
        if self.clock.ambiguous:
            self.anomalies.append(
                f"{self.clock.ambiguous} CTAs of kernel {manifest.kernel} ran for more than 2^32 cycles; "
                "their times may be off by multiples of that"
            )
        sm = found["sm"].astype(np.int32)[cta]
        cta = found["cta"].astype(np.int32)[cta]
        return DecodedLaunch(
            tuple(self.sites), span, cta, warp, sm, start, end, iteration, parent, depth, found,
            self.records, self.dropped, self.unmatched, tuple(self.anomalies), tuple(self.payloads),
            idle=np.concatenate([np.zeros(0, np.int64), *self.idle]),
        )  # fmt: skip


@dataclass
class _Rows:
    """The rows of one frame that survived, flattened in (CTA, warp, row) order.

    words: shape (rows, columns); lane: index of the warp in the section's list of (CTA, warp) pairs;
    number: row number since the warp started; instance: which parent row (position in the parent's _Rows)
    they belong to; iteration: row number within that instance. newest: shape (lanes, columns), the last row
    of each warp whether it survived or not, zeros where there was none. area, warp, anchor: of the lane.
    """

    words: Words
    lane: Ints
    number: Ints
    instance: Ints
    iteration: Small
    newest: Words
    area: Small = field(init=False)
    warp: Small = field(init=False)
    anchor: Ints = field(init=False)

    def locate(self, area: Ints, warp: Ints, clock: _Clock) -> _Rows:
        """Fill in what the lanes say; area and warp: per lane."""
        self.area = area.astype(np.int32)[self.lane]
        self.warp = warp.astype(np.int32)[self.lane]
        self.anchor = clock.anchor[area][self.lane]
        return self


class _SectionDecoder:
    """Decodes what the warps of one section (warp program) wrote."""

    def __init__(
        self,
        segments: npt.NDArray[np.uint32],
        manifest: Manifest,
        section: Section,
        index: int,
        ring_log2: int,
        found: npt.NDArray[np.void],
        blocks: _Blocks,
    ) -> None:
        mine = np.zeros(segments.shape[:2], bool)
        mine[found["start_clock"] != 0] = True
        if len(manifest.sections) > 1:
            mine &= segments[:, :, section.frames[0].offset // WORD.itemsize] == index + 1
        if index:  # a warp of the kernel's body may have anything where a later partition has its marker
            mine &= segments[:, :, 0] != 1
        self.area, self.warp = (a.astype(np.int64) for a in np.nonzero(mine))  # area: position of the CTA
        # The warp in its CTA; self.warp is the place of its segment, the same unless warps are left out.
        chosen = manifest.selection.warps
        self.number = np.array(chosen, np.int64)[self.warp] if chosen else self.warp
        self.segments = segments
        self.manifest = manifest
        self.section = section
        self.ring_log2 = ring_log2
        self.blocks = blocks
        self.clock = blocks.clock
        self.site_base = len(blocks.sites)
        self.rows: dict[int, _Rows] = {}
        self.most: dict[int, int] = {}  # per frame: the most rows a warp appended
        # Per span: row of its frame -> position in the blocks, -1 if none.
        self.position: dict[int, Small] = {}
        self.columns: dict[tuple[int, int], tuple[Flags, Ints]] = {}

    def run(self) -> None:
        self.blocks.sites.extend(self.section.spans)
        self.gather()
        for span in self.section.spans:
            self._span(span)

    def gather(self) -> None:
        """Find the rows of every frame."""
        for frame in self.section.frames:
            rows = self._root(frame) if frame.parent < 0 else self._child(frame)
            self.rows[frame.index] = rows.locate(self.area, self.number, self.clock)
            clocks = [c for c, column in enumerate(frame.columns) if column.kind == "clock"]
            self.blocks.records += int(np.count_nonzero(rows.words[:, clocks]))

    def _table(self, frame: Frame) -> npt.NDArray[np.uint32]:
        """All ring slots of a frame, shape (warps of the section, capacity, columns)."""
        first = self.manifest.start(frame, self.ring_log2) // WORD.itemsize
        width, rows = len(frame.columns), frame.rows(self.ring_log2)
        block = self.segments[:, :, first : first + rows * width]
        return block[self.area, self.warp].reshape(len(self.area), rows, width)

    def _root(self, frame: Frame) -> _Rows:
        lanes = np.arange(len(self.area), dtype=np.int64)
        none = np.full(len(lanes), -1, np.int64)
        words = self._table(frame)[:, 0]
        return _Rows(words, lanes, np.zeros_like(lanes), none, none.astype(np.int32), words)

    def _child(self, frame: Frame) -> _Rows:
        """Rows of a loop's frame: which ring slots hold which row, and which parent row each belongs to."""
        parent_frame = self.section.frames[frame.parent]
        parent = self.rows[frame.parent]
        count_column = next(
            c
            for c, column in enumerate(parent_frame.columns)
            if (column.kind, column.frame) == ("count", frame.index)
        )
        after = parent.words[:, count_column].astype(np.int64)  # rows written once the parent row ended
        total = parent.newest[:, count_column].astype(np.int64)
        self.most[frame.index] = int(total.max(initial=0))
        # Slot s holds row number: the largest n < total that is s modulo the capacity.
        capacity = frame.rows(self.ring_log2)
        slot = np.arange(capacity, dtype=np.int64)[None, :]
        number = slot + (total[:, None] - 1 - slot) // capacity * capacity
        lane, kept_slot = np.nonzero((number >= 0) & (number < total[:, None]))
        number = number[lane, kept_slot]
        if total.max(initial=0) > capacity:  # the ring has turned: its rows begin somewhere in the middle
            order = np.argsort(lane * (1 << 32) + number, kind="stable")
            lane, kept_slot, number = lane[order], kept_slot[order], number[order]
        table = self._table(frame)
        words = table[lane, kept_slot]
        newest = table[np.arange(len(total)), (total - 1) % capacity]
        newest[total == 0] = 0
        clocks_in_row = sum(column.kind == "clock" for column in frame.columns)
        # The parent row of row n is the first whose count exceeds n; parents are sorted by (lane, number).
        before = np.zeros_like(after)
        same = parent.lane[1:] == parent.lane[:-1]
        before[1:][same] = after[:-1][same]
        rows_of = np.maximum(after - before, 0)
        if int(rows_of.sum()) == len(number) == int(total.sum()) and bool((before <= after).all()):
            instance = np.repeat(np.arange(len(after)), rows_of)  # every row is there, in order
        else:
            key = parent.lane * (1 << 33) + after
            instance = np.searchsorted(key, lane * (1 << 33) + number, side="right").astype(np.int64)
        # The oldest parent row that a ring kept has lost its predecessor's count, so nobody can tell which
        # rows were its own: they count as dropped, with the rows of the parents that were overwritten.
        oldest_lost = np.ones(len(after), bool)
        oldest_lost[1:] = ~same
        oldest_lost &= parent.number > 0
        # Behind the last entry: rows of a warp none of whose parent rows could be placed.
        keep = ~np.append(oldest_lost, True)[instance] & (np.append(parent.lane, -1)[instance] == lane)
        lane, number, instance, words = lane[keep], number[keep], instance[keep], words[keep]
        self.blocks.dropped += int(total.sum() - len(number)) * clocks_in_row
        iteration = (number - before[instance]).astype(np.int32)
        return _Rows(words, lane, number, instance, iteration, newest)

    def _span(self, span: Span) -> None:
        frame = self.section.frames[span.frame]
        rows = self.rows[span.frame]
        began, start = self._column(span.frame, span.begin)
        ended, end = self._end(span, frame)
        if span.ran >= 0:
            began = began & (rows.words[:, span.ran] != 0)
        valid = began & ended
        self.blocks.unmatched += int(np.count_nonzero(began & ~ended))
        parent = np.full(len(rows.lane), -1, np.int32)
        if span.parent >= 0:
            above = self.position[span.parent]
            same_frame = self.section.spans[span.parent].frame == span.frame
            np.copyto(parent, above if same_frame else above[self._ancestor_row(span)])
            valid &= parent >= 0
        # Nearly always everything is valid, and then nothing is copied.
        where = slice(None) if valid.all() else np.flatnonzero(valid)
        count = len(rows.lane) if isinstance(where, slice) else len(where)
        position: Small = np.full(len(rows.lane), -1, np.int32)
        position[where] = np.arange(self.blocks.size, self.blocks.size + count)
        self.position[span.id] = position
        for at in span.payloads:
            column = frame.columns[at]
            values = np.ascontiguousarray(rows.words[where, at]).view(_PAYLOAD_TYPES[column.kind])
            at_rows = np.arange(self.blocks.size, self.blocks.size + count)
            self.blocks.payloads.append(Payload(column.name, at_rows, values))
        self._stage(span, rows, where, count)
        self.blocks.add(
            np.full(count, self.site_base + span.id, np.int32), rows.area[where], rows.warp[where],
            start[where], end[where], rows.iteration[where], parent[where],
            np.full(count, self._depth(span), np.int32),
        )  # fmt: skip

    def _stage(self, span: Span, rows: _Rows, where: Any, count: int) -> None:
        """Which iteration of a pipelined loop the op worked for, as a payload, and where there was none."""
        frames = {
            other.frame
            for other in self.section.spans
            if (other.stage, other.loop) == ("steady", span.loop)
            and (
                other.frame == span.frame
                or (span.stage != "steady" and self.section.frames[other.frame].parent == span.frame)
            )
        }
        lost = self.blocks.dropped > 0
        if not span.stage or len(frames) != 1 or (span.stage == "epilogue" and (lost or span.ahead < 0)):
            return
        loop = self.rows[frames.pop()].instance
        # The loop's iterations, those behind it included; unless a ring has dropped some.
        iterations = np.bincount(loop, minlength=int(loop.max(initial=-1)) + 1) + span.peeled
        if span.stage == "steady":
            values, of_loop = rows.iteration[where] + span.ahead, iterations[rows.instance][where]
        else:
            per_row = np.full(len(rows.lane), span.peeled, np.int64)
            per_row[: len(iterations)] = iterations
            of_loop = per_row[where]
            known = span.stage == "prologue"
            values = np.full(count, span.ahead, np.int32) if known else of_loop - 1 - span.ahead
        at_rows = np.arange(self.blocks.size, self.blocks.size + count)
        self.blocks.payloads.append(Payload(FOR_ITERATION, at_rows, values.astype(np.int32)))
        if not lost:
            self.blocks.idle.append(at_rows[values >= of_loop])

    def _column(self, frame: int, column: int) -> tuple[Flags, Ints]:
        """A clock column: where it was written, and the full values. Neighbouring spans share columns."""
        if (frame, column) not in self.columns:
            rows = self.rows[frame]
            words = rows.words[:, column]
            self.columns[frame, column] = words != 0, self.clock.full(words, rows.anchor)
        return self.columns[frame, column]

    def _ancestor_row(self, span: Span) -> Ints:
        """For every row of the span's frame, the row of its parent span's frame it ran under."""
        target = self.section.spans[span.parent].frame
        index, frame = (
            self.rows[span.frame].instance,
            self.section.frames[self.section.frames[span.frame].parent],
        )
        while frame.index != target:
            index, frame = self.rows[frame.index].instance[index], self.section.frames[frame.parent]
        return index

    def _depth(self, span: Span) -> int:
        return 0 if span.parent < 0 else 1 + self._depth(self.section.spans[span.parent])

    def _end(self, span: Span, frame: Frame) -> tuple[Flags, Ints]:
        """Where a span has ended, and when; per row of its frame."""
        if not span.ends:
            return self._end_of_iteration(span, frame)
        ended, end = self._column(frame.index, span.ends[0])
        for column in span.ends[1:]:
            other_ended, other_end = self._column(frame.index, column)
            end = np.where(ended, end, other_end)
            ended = ended | other_ended
        return ended, end

    def _end_of_iteration(self, span: Span, frame: Frame) -> tuple[Flags, Ints]:
        """An iteration lasts until the next one of its loop begins; the last one until the loop ends."""
        rows = self.rows[frame.index]
        began, start = self._column(frame.index, span.begin)
        loop_ended, loop_end = self._end(self.section.spans[frame.loop], self.section.frames[frame.parent])
        ended, end = loop_ended[rows.instance], loop_end[rows.instance]
        follows = (rows.instance[1:] == rows.instance[:-1]) & began[1:]
        np.copyto(end[:-1], start[1:], where=follows)
        ended[:-1] |= follows
        return ended, end
