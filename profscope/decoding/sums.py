"""What a launch that kept sums wrote: per warp and site a count, the sum of durations, and the longest.

    sums = read_sums(buffer, manifest)
    sums.total[sums.section == 0]        # shape (warps that ran the kernel's body, sites)

Nothing is searched for: each number has its place in the warp's one row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest, Section, Span
from instrument_passes.records import WORD
from profscope.decoding.areas import CTA, first_wave, read_buffer, segments
from profscope.decoding.shapes import warps_of

__all__ = ["SectionSums", "SiteValues", "Sums", "read_sums", "site_values"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SectionSums:
    """What the warps that ran one section kept.

    sites: its spans. area, warp: per warp, the place of its CTA among the headers and its number in the CTA.
    count, total_cycles, longest_cycles: int64, shape (warps, sites); the longest is -1 where it was not kept.
    """

    sites: tuple[Span, ...]
    area: Ints
    warp: Ints
    count: Ints
    total_cycles: Ints
    longest_cycles: Ints


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
        sections.append(_section(section, rows, warps.area, chosen[warps.segment]))
    return Sums(ctas, tuple(sections))


def _section(section: Section, rows: npt.NDArray[np.uint32], area: Ints, warp: Ints) -> SectionSums:
    shape = (len(section.spans), len(rows))
    count, total = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    longest = np.full(shape, -1)
    for at, span in enumerate(section.spans):
        site = site_values(rows.T, span)
        count[at] = site.count if site.count is not None else span.times
        total[at] = site.total_cycles
        if site.longest_cycles is not None:
            longest[at] = site.longest_cycles
    return SectionSums(section.spans, area, warp, count.T, total.T, longest.T)


@dataclass(frozen=True)
class SiteValues:
    """What warps kept of one site, in arrays of one shape. count: None where it is `span.times` for every
    warp that ran the section; longest_cycles: None where it was not kept."""

    count: Ints | None
    total_cycles: npt.NDArray[np.uint32]
    longest_cycles: npt.NDArray[np.uint32] | None


def site_values(columns: npt.NDArray[np.uint32], span: Span) -> SiteValues:
    """columns: the words of rows of the span's section, shape (columns, ...)."""
    return SiteValues(
        None if span.count < 0 else columns[span.count].astype(np.int64) * span.times,
        columns[span.total],
        None if span.longest < 0 else columns[span.longest],
    )
