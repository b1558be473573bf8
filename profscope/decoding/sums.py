"""What a launch that kept sums wrote: per warp and site a count, the sum of durations, and the longest.

    sums = read_sums(buffer, manifest)
    sums.total[sums.section == 0]        # shape (warps that ran the kernel's body, sites)

Nothing is searched for: each number has its place in the warp's one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from instrument_passes.lowering.numbers import WORDS
from instrument_passes.manifest import Manifest, Section, Span
from instrument_passes.records import WORD
from profscope.decoding.areas import CTA, first_wave, read_buffer, segments
from profscope.decoding.shapes import warps_of

__all__ = ["Numbers", "SectionSums", "Sums", "read_sums"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Numbers:
    """What the warps that ran one section kept of one payload; each shape (warps,).

    site: the position of its span among the sites. count: int64, how many numbers there were, NaNs left out;
    nans: int64, how many of those. total, least, greatest: int64 or, of an f32, float64, exact but for the
    last bits of a total of floats; without meaning where count is 0.
    """

    site: int
    name: str
    count: Ints
    nans: Ints
    total: npt.NDArray[Any]
    least: npt.NDArray[Any]
    greatest: npt.NDArray[Any]


@dataclass(frozen=True)
class SectionSums:
    """What the warps that ran one section kept.

    sites: its spans. area, warp: per warp, the place of its CTA among the headers and its number in the CTA.
    count, total_cycles, longest_cycles: int64, shape (warps, sites); the longest is -1 where it was not kept.
    numbers: of every payload of every site. left_out: per site warps of which nothing is told: of a site of
    asynchronous work those that returned while some was under way, or whose sum may not have fitted 32 bits.
    """

    sites: tuple[Span, ...]
    area: Ints
    warp: Ints
    count: Ints
    total_cycles: Ints
    longest_cycles: Ints
    numbers: tuple[Numbers, ...]
    left_out: Ints


@dataclass(frozen=True)
class Sums:
    """One launch. headers: of its recorded CTAs, dtype `areas.CTA`."""

    headers: npt.NDArray[np.void]
    sections: tuple[SectionSums, ...]


def read_sums(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> Sums:
    """The sums of one launch. buffer: uint8, all its CTA areas. Raises RecordError (see `read_buffer`)."""
    launch = read_buffer(buffer, manifest)
    words = segments(launch.data, len(launch.ctas), manifest, launch.bits.ring_log2)
    ctas = launch.ctas
    if manifest.selection.ctas == "first":
        wave = first_wave(ctas)
        ctas, words = ctas[wave], words[wave]
    assert ctas.dtype == CTA
    started = ctas["start_clock"] != 0
    chosen = np.array(manifest.selection.warps or range(words.shape[1]), np.int64)
    sections = []
    for index, section in enumerate(manifest.sections):
        warps = warps_of(words, manifest, index, started)
        first = section.frames[0].offset // WORD.itemsize
        rows = words[warps.area, warps.segment, first : first + len(section.frames[0].columns)]
        cycles = (ctas["end_clock"] - ctas["start_clock"]).astype(np.int64)[warps.area]
        sections.append(_section(section, rows, cycles, warps.area, chosen[warps.segment]))
    return Sums(ctas, tuple(sections))


def _section(
    section: Section, rows: npt.NDArray[np.uint32], cycles: Ints, area: Ints, warp: Ints
) -> SectionSums:
    """cycles: of the warps' CTAs."""
    wide = rows.astype(np.int64)
    ones, unknown = np.ones(len(rows), np.int64), np.full(len(rows), -1)
    counts: list[Ints] = []
    totals, longest, left_out = [], [], np.zeros(len(section.spans), np.int64)
    for number, span in enumerate(section.spans):
        count = (ones if span.count < 0 else wide[:, span.count]) * span.times
        total = wide[:, span.total]
        if span.left >= 0:  # its starts are sites before it
            count = np.sum([counts[start] for start in span.starts], axis=0)
            most = np.where(span.most, span.most, count)
            told = (wide[:, span.left] == 0) & (most * cycles < 1 << 32)
            count, total, left_out[number] = count * told, total * told, np.count_nonzero(~told)
        counts.append(count)
        totals.append(total)
        longest.append(unknown if span.longest < 0 else wide[:, span.longest])
    shape = (len(rows), len(section.spans))
    return SectionSums(
        section.spans,
        area,
        warp,
        np.array(counts).T.reshape(shape),
        np.array(totals).T.reshape(shape),
        np.array(longest).T.reshape(shape),
        tuple(_numbers(section, rows, counts)),
        left_out,
    )


def _numbers(section: Section, rows: npt.NDArray[np.uint32], counts: Sequence[Ints]) -> Iterator[Numbers]:
    """As `instrument_passes.lowering.numbers` keeps them."""
    columns = section.frames[0].columns
    for site, span in enumerate(section.spans):
        for at in span.payloads:
            name, kind = columns[at].name, columns[at].kind
            words = [rows[:, at + number] for number in range(WORDS[kind])]
            least, greatest = ~words[2], words[3]
            sign = np.uint32(1 << 31)
            if kind == "i32":
                total = np.stack(words[:2], 1).view("<i8")[:, 0]
                extremes = [(key ^ sign).view(np.int32).astype(np.int64) for key in (least, greatest)]
                yield Numbers(site, name, counts[site], np.zeros(len(rows), np.int64), total, *extremes)
                continue
            head, tail = (word.view(np.float32).astype(np.float64) for word in words[:2])
            # A key's highest bit is set where the number is positive.
            turned = [np.where(key & sign, key ^ sign, ~key) for key in (least, greatest)]
            extremes = [bits.astype(np.uint32).view(np.float32).astype(np.float64) for bits in turned]
            nans = words[4].astype(np.int64)
            total = np.where(np.isfinite(head), head + tail, head)
            yield Numbers(site, name, counts[site] - nans, nans, total, *extremes)
