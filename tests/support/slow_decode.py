"""A second decoder, in plain Python, one record after the other, written from the text of `records.py`.

It shares no code with the real one beyond the header's dtype and the manifest, and makes no attempt at speed:
it walks each warp's rows from the root down, as the warp wrote them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from profscope.instrument_passes.manifest import Frame, Manifest, Section, Span
from profscope.instrument_passes.records import CTA_HEADER, LAUNCH_HEADER, LaunchBits
from tests.support.synth import Seen

__all__ = ["SlowLaunch", "slow_decode"]

# A warp may begin a little before the header's clock was read.
_EARLY = 1 << 24


@dataclass
class SlowLaunch:
    """spans: every span of the launch. dropped: clock words of rows that are gone or cannot be placed."""

    spans: list[Seen] = field(default_factory=list)
    dropped: int = 0


def slow_decode(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> SlowLaunch:
    """Decode the buffer of one launch."""
    found = SlowLaunch()
    data = buffer.tobytes()
    (first,) = np.frombuffer(data, LAUNCH_HEADER, 1)
    ring_log2 = LaunchBits.decode(int(first["launch_bits"])).ring_log2
    stride = manifest.cta_bytes(ring_log2)
    for at in range(LAUNCH_HEADER.itemsize, len(data), stride):
        (header,) = np.frombuffer(data, CTA_HEADER, 1, at)
        if header["end_clock"] == 0:
            continue
        for warp in range(manifest.warps):
            begin = at + CTA_HEADER.itemsize + warp * manifest.segment_bytes(ring_log2)
            segment = data[begin : begin + manifest.segment_bytes(ring_log2)]
            alone = len(manifest.sections) == 1
            in_body = alone or _word(segment, 0) == 1
            for index, section in enumerate(manifest.sections):
                marked = alone or _word(segment, section.frames[0].offset) == index + 1
                if in_body == (index == 0) and marked:
                    _Walk(manifest, index, section, header, warp, segment, ring_log2, found).run()
    return found


def _word(segment: bytes, offset: int) -> int:
    return int(struct.unpack_from("<I", segment, offset)[0])


class _Walk:
    """One warp's records."""

    def __init__(
        self,
        manifest: Manifest,
        index: int,
        section: Section,
        header: np.void,
        warp: int,
        segment: bytes,
        ring_log2: int,
        found: SlowLaunch,
    ) -> None:
        self.manifest, self.index, self.section = manifest, index, section
        self.header, self.warp = header, warp
        self.segment, self.ring_log2 = segment, ring_log2
        self.found = found
        self.totals: dict[int, int] = {}  # by frame, how many rows the warp wrote
        self.walked: dict[int, set[int]] = {}  # by frame, the rows that could be placed so far

    def run(self) -> None:
        frames = self.section.frames
        for frame in frames:
            self.totals[frame.index] = 1 if frame.parent < 0 else self._total(frame)
            self.walked[frame.index] = set()
        self._row(frames[0], 0, -1, {}, None)
        for frame in frames:
            clocks = sum(column.kind == "clock" for column in frame.columns)
            self.found.dropped += (self.totals[frame.index] - len(self.walked[frame.index])) * clocks

    def _total(self, frame: Frame) -> int:
        """How often the loop body ran: the count in the last row of the frame around it."""
        parent = self.section.frames[frame.parent]
        return self._count(parent, self.totals[parent.index] - 1, frame) if self.totals[parent.index] else 0

    def _words(self, frame: Frame, number: int) -> list[int]:
        rows = frame.rows(self.ring_log2)
        at = self.manifest.start(frame, self.ring_log2) + number % rows * frame.row_bytes
        return list(struct.unpack_from(f"<{len(frame.columns)}I", self.segment, at))

    def _count(self, frame: Frame, number: int, child: Frame) -> int:
        """How many rows of the child there were once this row was written."""
        words = self._words(frame, number)
        (column,) = [i for i, c in enumerate(frame.columns) if c.kind == "count" and c.frame == child.index]
        return words[column]

    def _row(
        self, frame: Frame, number: int, iteration: int, above: dict[int, Seen], after: int | None
    ) -> None:
        """The spans of one row, and below it the rows of the loops that ran in it.

        above: the open spans by id; after: the row number of the loop's next iteration.
        """
        self.walked[frame.index].add(number)
        words = self._words(frame, number)
        here = dict(above)
        for span in self.section.spans:
            if span.frame != frame.index or not words[span.begin]:
                continue
            if span.ran < 0 or words[span.ran]:
                self._span(span, words, iteration, here, after)
        if number and number - 1 not in self.walked[frame.index]:
            return  # nobody knows where this row's own rows of the loops in it begin
        for child in self.section.frames:
            if child.parent == frame.index:
                self._loop(child, frame, number, here)

    def _loop(self, child: Frame, frame: Frame, number: int, here: dict[int, Seen]) -> None:
        first = self._count(frame, number - 1, child) if number else 0
        end = self._count(frame, number, child)
        oldest = self.totals[child.index] - child.rows(self.ring_log2)
        for n in range(max(first, oldest), end):
            self._row(child, n, n - first, here, n + 1 if n + 1 < end else None)

    def _span(
        self, span: Span, words: list[int], iteration: int, here: dict[int, Seen], after: int | None
    ) -> None:
        frame = self.section.frames[span.frame]
        ends = [self._full(words[column]) for column in span.ends if words[column]]
        if not span.ends:  # an iteration: until the next one begins, or the loop ends
            follows = self._words(frame, after)[span.begin] if after is not None else 0
            ends = [self._full(follows) if follows else here[frame.loop].end]
        if not ends or (span.parent >= 0 and span.parent not in here):
            return
        parent = here.get(span.parent)
        depth = 0 if parent is None else parent.depth + 1
        cta, sm = int(self.header["cta"]), int(self.header["place"]) % 4096
        start = self._full(words[span.begin])
        seen = Seen(self.index, span.id, cta, self.warp, sm, start, ends[0], iteration, depth, parent)
        here[span.id] = seen
        self.found.spans.append(seen)

    def _full(self, word: int) -> int:
        """The 64-bit clock: the first value from shortly before the CTA's start on with this low half."""
        end = int(self.header["end_clock"])
        start = end - (end - int(self.header["start_clock_low"])) % (1 << 32)
        origin = start - _EARLY
        return origin + (word - origin) % (1 << 32)
