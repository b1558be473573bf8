"""One launch that kept sums, warp by warp, as folding never has it.

sums = read_sums(buffer, manifest)
sums.sections[0].total_cycles        # shape (warps that ran the kernel's body, sites)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest, Section, Span
from instrument_passes.records import WORD
from profscope.decoding.areas import CTA, first_wave, read_buffer, segments
from profscope.decoding.numbers import number_words, numbers_of, payloads_of
from profscope.decoding.shapes import warps_of
from profscope.decoding.sums import site_values

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
    shape = (len(section.spans), len(rows))
    count, total = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    longest, left_out = np.full(shape, -1), np.zeros(len(section.spans), np.int64)
    for at, span in enumerate(section.spans):
        site = site_values(rows.T, section.spans, at, cycles)
        count[at] = site.count if site.count is not None else span.times
        total[at] = site.total_cycles
        if site.longest_cycles is not None:
            longest[at] = site.longest_cycles
        if site.left_out is not None:
            left_out[at] = np.count_nonzero(site.left_out)
    numbers = tuple(_numbers(section, rows, count))
    return SectionSums(section.spans, area, warp, count.T, total.T, longest.T, numbers, left_out)


def _numbers(section: Section, rows: npt.NDArray[np.uint32], counts: Ints) -> Iterator[Numbers]:
    for payload in payloads_of(section):
        words, count = number_words(rows.T, payload), counts[payload.site]
        nans = np.zeros(len(rows), np.int64) if words.nans is None else words.nans
        extremes = (numbers_of(keys, payload.kind) for keys in (~words.least, words.greatest))
        yield Numbers(payload.site, payload.name, count - nans, nans, words.total, *extremes)
