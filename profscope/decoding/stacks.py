"""Launches that kept sums and whose buffers are alike, one upon the other: numpy sees many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from instrument_passes.records import BASE_ALIGNMENT, CTA_HEADER, LAUNCH_HEADER, WORD, LaunchBits
from profscope.decoding.areas import (
    HeaderTimes,
    area_count,
    checked_header,
    ctas_due,
    damage_at,
    header_times,
    launch_header,
    places_of,
    started_first,
    tickets,
)
from profscope.decoding.build import Build
from profscope.decoding.columns import WRAP_NS
from profscope.decoding.raw import RawLaunch
from profscope.errors import RecordError

__all__ = ["Stack", "check_grid", "stacks"]

Flags = npt.NDArray[np.bool_]
# What is worked on together should stay in a core's own cache.
_STACK_BYTES: Final = 4 << 20


class Stack(NamedTuple):
    """Launches of one program, grid, device and mark: L of them, with C CTA areas each.

    header: the launch header of the first. words: of the segments, uint32, shape (L, C, recorded warps,
    words), a view. sm, rank, times: what the CTA headers say, each of shape (L, C). chosen: the CTAs that
    were to record, ended: those of them that came to their end, wrapped: those of these that may have run for
    more than 2^32 cycles, so that 32 bits cannot tell how long; each of shape (L, C). refused: by launch,
    CTAs that found no area.
    """

    launches: Sequence[RawLaunch]
    header: np.void
    words: npt.NDArray[np.uint32]
    sm: npt.NDArray[np.uint16]
    rank: npt.NDArray[np.uint16]
    times: HeaderTimes
    chosen: Flags
    ended: Flags
    wrapped: Flags
    refused: npt.NDArray[np.int64]

    @property
    def manifest(self) -> Manifest:
        return self.launches[0].manifest

    @property
    def build(self) -> Build | None:
        return self.launches[0].build


def stacks(launches: Sequence[RawLaunch], damaged: list[tuple[int, RecordError]]) -> Iterator[Stack]:
    """Put launches that kept sums together; those that cannot be read go to `damaged`, by their index."""
    alike: dict[tuple[Any, ...], list[RawLaunch]] = {}
    for raw in launches:
        bits, *rest = launch_header(raw.buffer).tolist()[:-1] if _has_header(raw) else (0,)
        of_binary = id(raw.manifest), id(raw.build), raw.mark.trial, raw.device
        key = *of_binary, raw.ctas, raw.buffer.nbytes, bits % BASE_ALIGNMENT, *rest
        alike.setdefault(key, []).append(raw)
    for group in alike.values():
        first = group[0]
        try:
            header = checked_header(first.buffer, first.manifest)
            area_count(first.buffer, first.manifest, LaunchBits.decode(int(header["launch_bits"])))
            check_grid(first, int(header["grid_x"]), int(header["grid_y"]))
        except RecordError as error:
            damaged += [(raw.index, error) for raw in group]
            continue
        step = max(1, _STACK_BYTES // first.buffer.nbytes)
        for begin in range(0, len(group), step):
            stack = _stack(group[begin : begin + step], damaged)
            if stack is not None:
                yield stack


def check_grid(raw: RawLaunch, grid_x: int, grid_y: int) -> None:
    """Raises RecordError for a header whose grid is not that of the launch."""
    plane = grid_x * grid_y
    if plane == 0 or raw.ctas % plane:
        raise RecordError(
            f"damaged profile buffer of kernel {raw.manifest.kernel}: its header has a grid of "
            f"{grid_x} by {grid_y} CTAs in a launch of {raw.ctas}"
        )


def _has_header(raw: RawLaunch) -> bool:
    return raw.buffer.nbytes >= LAUNCH_HEADER.itemsize


def _bits(raw: RawLaunch) -> LaunchBits:
    return LaunchBits.decode(int(launch_header(raw.buffer)["launch_bits"]))


def _stack(launches: Sequence[RawLaunch], damaged: list[tuple[int, RecordError]]) -> Stack | None:
    """Launches that are alike, less those whose areas do not hold the CTAs that are due."""
    manifest, bits = launches[0].manifest, _bits(launches[0])
    data = np.stack([raw.buffer for raw in launches])
    selection, cta_bytes, begin = manifest.selection, manifest.cta_bytes(0), LAUNCH_HEADER.itemsize
    areas = area_count(data[0], manifest, bits)
    shape, strides = (len(data), areas), (data.strides[0], cta_bytes)
    packed: npt.NDArray[np.void] = np.ndarray(shape, CTA_HEADER, data.data, begin, strides)
    times, (sm, rank) = header_times(packed), places_of(packed)
    due = ctas_due(selection, areas, bits)
    if due is not None:
        sound = ((packed["cta"] == due) | (times.end_clock == 0)).all(axis=1)
        if not sound.all():
            for at in np.flatnonzero(~sound).tolist():
                damaged.append((launches[at].index, damage_at(packed[at], due, manifest)))
            left = [launches[at] for at in np.flatnonzero(sound).tolist()]
            return _stack(left, damaged) if left else None
    chosen, refused = np.ones(shape, bool), np.zeros(len(data), np.int64)
    if selection.ctas == "sms":
        asked = np.array([tickets(each) for each in data], np.int64)
        chosen, refused = np.arange(areas) < asked[:, None], np.maximum(0, asked - areas)
    if selection.ctas == "first":
        chosen[:] = False
        for at in range(len(data)):
            chosen[at, started_first(sm[at], times.start_clock[at], times.end_clock[at])] = True
    words = data[:, begin : begin + areas * cta_bytes].view(WORD).reshape(*shape, -1)
    in_segment, first = manifest.segment_bytes(0) // WORD.itemsize, CTA_HEADER.itemsize // WORD.itemsize
    words = words[:, :, first : first + manifest.segments * in_segment]
    ended = chosen & (times.end_clock != 0)
    wrapped = ended & (times.end_globaltimer - times.start_globaltimer >= WRAP_NS)
    by_warp = words.reshape(*shape, manifest.segments, in_segment)
    header = launch_header(data[0])
    return Stack(launches, header, by_warp, sm, rank, times, chosen, ended, wrapped, refused)
