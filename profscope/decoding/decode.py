"""From one launch's buffer to columns of spans: numpy only, no loop over records.

Warps that took the same way through the kernel wrote the same words, but for the clocks in them. So each
shape of a warp's words is decoded once (`shapes`, `rows`, `patterns`), and every span only fetches its clocks
(`columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import (
    LaunchBuffer,
    launch_header,
    read_areas,
    read_buffer,
    segments,
    words_of_areas,
)
from profscope.decoding.columns import Clocks, Recorded, fill, spread
from profscope.decoding.decoded import Apart, DecodedLaunch, Payload, SeveralLaunches
from profscope.decoding.gaps import with_gaps
from profscope.decoding.patterns import PAYLOAD_TYPES, Patterns, Values, find_patterns, join
from profscope.decoding.rows import find_rows
from profscope.decoding.shapes import Wrote, shapes, warps_of, without_unused
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import LaunchBits

__all__ = ["Found", "decode", "decode_as_one", "find", "ring_rows", "spans_of"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Found:
    """The records of a launch without the clocks of its spans. words: shape (CTAs, recorded warps, words);
    ctas: their headers; of: the launch of each."""

    header: np.void
    manifest: Manifest
    words: Words
    ctas: npt.NDArray[np.void]
    of: Ints
    clocks: Clocks
    sections: list[Wrote]
    patterns: Patterns
    recorded: Recorded


def decode(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> DecodedLaunch:
    """Decode one launch. buffer: uint8, all its CTA areas. Raises RecordError (see `read_buffer`)."""
    found = find(buffer, manifest)
    return spans_of(found, found.recorded)


def find(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> Found:
    """Which spans a launch recorded, and where their clocks are. Raises RecordError (see `read_buffer`)."""
    launch, words = _read(buffer, manifest)
    return _find(launch, words, manifest, np.zeros(len(launch.ctas), np.int64))


def decode_as_one(
    buffers: Sequence[npt.NDArray[np.uint8]], manifest: Manifest, ctas: int, sms: int = 0
) -> DecodedLaunch | None:
    """Decode several launches of one program whose buffers have one size; ctas: of each grid; sms: how many
    there are at least.

    None if they differ and must be decoded one by one. Raises RecordError (see `read_areas`).
    """
    first = buffers[0]
    header, areas = launch_header(first), read_areas(buffers, manifest)
    if areas is None:
        return None
    data, headers = areas
    bits = LaunchBits.decode(int(header["launch_bits"]))
    launches, each = headers.shape
    if (headers["cta"] >= ctas).any():  # damaged
        return None
    sms = max(sms, int(headers["sm"].max(initial=0)) + 1)
    if launches * sms > np.iinfo(headers["sm"].dtype).max or launches * ctas > np.iinfo(np.int32).max:
        return None
    number = np.arange(launches)[:, None]
    headers["sm"] += (number * sms).astype(headers["sm"].dtype)
    headers["cta"] += (number * ctas).astype(headers["cta"].dtype)
    words = without_unused(words_of_areas(data, manifest, bits.ring_log2), manifest, bits.ring_log2)
    launch = LaunchBuffer(data, header, bits, headers.reshape(-1))
    of = np.repeat(np.arange(launches), each)
    found = _find(launch, words, manifest, of)
    decoded = spans_of(found, found.recorded, Apart(launches, ctas, sms))
    return None if decoded.several is None or decoded.anomalies else decoded


def _find(launch: LaunchBuffer, words: Words, manifest: Manifest, of: Ints) -> Found:
    """of: the launch of each area."""
    ctas, ring_log2 = launch.ctas, launch.bits.ring_log2
    clocks = Clocks(ctas)
    sections = _sections(words, ctas, manifest, ring_log2)
    patterns = join([with_gaps(part) for part in _patterns(sections, manifest)])
    recorded = _recorded(sections, ctas, manifest, patterns)
    return Found(launch.header, manifest, words, ctas, of, clocks, sections, patterns, recorded)


def spans_of(found: Found, recorded: Recorded, apart: Apart | None = None) -> DecodedLaunch:
    """The spans of some warps; apart: where there are several launches."""
    words, patterns, sections = found.words, found.patterns, found.sections
    columns, backwards = fill(words, found.clocks.anchor, recorded, patterns)
    return DecodedLaunch(
        **vars(columns),
        sites=patterns.sites,
        headers=found.ctas,
        records=sum(int(each.rows.records[each.shapes.of].sum()) for each in sections),
        dropped=sum(int(each.rows.dropped[each.shapes.of].sum()) for each in sections),
        unmatched=int(patterns.unmatched[found.recorded.pattern].sum()),
        anomalies=_anomalies(backwards, found.clocks, found.manifest),
        payloads=tuple(_payload(words, recorded, values) for values in patterns.values),
        idle=_idle(recorded, patterns) if len(patterns.idle) else patterns.idle,
        recorded=recorded,
        grid_x=int(found.header["grid_x"]),
        grid_y=int(found.header["grid_y"]),
        several=None if apart is None else _several(apart, found.of, sections, recorded, patterns),
    )


def ring_rows(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> int:
    """The most rows that any warp appended to any ring, overwritten ones included."""
    launch, words = _read(buffer, manifest)
    sections = _sections(words, launch.ctas, manifest, launch.bits.ring_log2)
    return max((each.rows.most for each in sections), default=0)


def _read(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> tuple[LaunchBuffer, Words]:
    """The buffer and the words of its segments."""
    launch = read_buffer(buffer, manifest)
    ring_log2 = launch.bits.ring_log2
    words = segments(launch.data, len(launch.ctas), manifest, ring_log2)
    return launch, without_unused(words, manifest, ring_log2)


def _sections(words: Words, ctas: npt.NDArray[np.void], manifest: Manifest, ring_log2: int) -> list[Wrote]:
    sections = []
    for index, section in enumerate(manifest.sections):
        warps = warps_of(words, manifest, index, ctas["start_clock"] != 0)
        alike = shapes(words, warps, manifest, section, ring_log2)
        one_each = words[warps.area[alike.warp], warps.segment[alike.warp]]
        rows = find_rows(one_each, manifest, section, ring_log2)
        sections.append(Wrote(warps, alike, one_each, rows))
    return sections


def _several(
    apart: Apart, of: Ints, sections: list[Wrote], recorded: Recorded, patterns: Patterns
) -> SeveralLaunches | None:
    """None if only some of these launches have lost rows: `_patterns` takes all of them for alike."""
    launches = apart.launches
    records, dropped = np.zeros(launches), np.zeros(launches)
    for each in sections:
        launch = of[each.warps.area]
        records += np.bincount(launch, each.rows.records[each.shapes.of], launches)
        dropped += np.bincount(launch, each.rows.dropped[each.shapes.of], launches)
        if dropped.any() and not dropped.all():
            return None
    unmatched = np.bincount(of[recorded.area], patterns.unmatched[recorded.pattern], launches)
    return SeveralLaunches(apart, of, *(each.astype(np.int64) for each in (records, dropped, unmatched)))


def _patterns(sections: list[Wrote], manifest: Manifest) -> list[Patterns]:
    """A pattern for every shape, section by section."""
    parts, lost = [], False
    for section, each in zip(manifest.sections, sections, strict=True):
        lost = lost or bool(each.rows.dropped.any())
        parts.append(find_patterns(each.words, section, each.rows, lost=lost))
    return parts


def _recorded(
    sections: list[Wrote], ctas: npt.NDArray[np.void], manifest: Manifest, patterns: Patterns
) -> Recorded:
    """The warps of all sections, by CTA and warp; those that a warp ran one after the other in that order."""
    none = np.zeros(0, np.int64)
    base = np.cumsum([0, *(len(each.shapes.warp) for each in sections)])
    area, segment = (np.concatenate([none, *(each.warps[at] for each in sections)]) for at in (0, 1))
    pattern = np.concatenate([none, *(each.shapes.of + b for each, b in zip(sections, base, strict=False))])
    if len(sections) > 1:  # or they are in order already
        order = np.lexsort((segment, ctas["cta"][area]))
        area, segment, pattern = area[order], segment[order], pattern[order]
    sizes = np.diff(patterns.first)[pattern]
    cta, sm = ctas["cta"][area].astype(np.int32), ctas["sm"][area]
    return Recorded(
        area, segment, cta, sm, segment.astype(np.int16), pattern, np.cumsum(sizes) - sizes, sizes
    )


def _anomalies(backwards: int, clocks: Clocks, manifest: Manifest) -> tuple[str, ...]:
    said = []
    if backwards:
        said.append(f"{backwards} spans of kernel {manifest.kernel} end before they start")
    if clocks.ambiguous:
        said.append(
            f"{clocks.ambiguous} CTAs of kernel {manifest.kernel} may have run for more than 2^32 cycles; "
            "their times may be off by multiples of that"
        )
    return tuple(said)


def _payload(words: Words, recorded: Recorded, values: Values) -> Payload:
    """What the spans of all warps carry as one name."""
    first = recorded.first.astype(np.int32)
    sizes = np.diff(values.first)[recorded.pattern]
    if len(values.first) == 2:  # all warps are alike
        rows = np.add.outer(first, values.span).reshape(-1)
        source = np.tile(values.source, len(first))
    else:
        at = spread(values.first, recorded.pattern)
        rows = np.repeat(first, sizes) + values.span.take(at)
        source = values.source.take(at)
    if not values.kind:
        return Payload(values.name, rows, source)
    segment = np.repeat(recorded.segment, sizes)
    taken = words[np.repeat(recorded.area, sizes), segment, source]
    places = segment * words.shape[2] + source
    return Payload(values.name, rows, taken.view(PAYLOAD_TYPES[values.kind]), places)


def _idle(recorded: Recorded, patterns: Patterns) -> Ints:
    """Positions of all spans that worked for an iteration that their loop did not have."""
    first = np.searchsorted(patterns.idle, patterns.first)
    base = recorded.first - patterns.first[recorded.pattern]
    at = spread(first, recorded.pattern)
    return patterns.idle[at] + np.repeat(base, np.diff(first)[recorded.pattern])
