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

__all__ = ["SectionSums", "Sums", "read_sums"]

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
    wide = rows.astype(np.int64)
    ones, unknown = np.ones(len(rows), np.int64), np.full(len(rows), -1)
    counts, longest = [], []
    for span in section.spans:
        counts.append((ones if span.count < 0 else wide[:, span.count]) * span.times)
        longest.append(unknown if span.longest < 0 else wide[:, span.longest])
    shape = (len(rows), len(section.spans))
    return SectionSums(
        section.spans,
        area,
        warp,
        np.array(counts).T.reshape(shape),
        wide[:, [span.total for span in section.spans]].reshape(shape),
        np.array(longest).T.reshape(shape),
    )
