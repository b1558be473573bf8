"""Launches that kept sums and whose buffers are alike, one upon the other: numpy sees many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from instrument_passes.records import CTA_HEADER, LAUNCH_HEADER, WORD, LaunchBits
from profscope.decoding.alike import Alike
from profscope.decoding.areas import (
    HeaderTimes,
    area_count,
    checked_header,
    ctas_due,
    damage_at,
    header_times,
    launch_header,
    like_the_first,
    places_of,
    started_first,
    tickets,
)
from profscope.decoding.build import Build
from profscope.decoding.columns import WRAP_NS
from profscope.decoding.raw import RawLaunch
from profscope.errors import RecordError

__all__ = ["Stack", "check_grid", "stacks"]

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
_OfGrid = Alike | RawLaunch
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

    launches: Alike
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
        return self.launches.manifest

    @property
    def build(self) -> Build | None:
        return self.launches.build


def stacks(groups: Iterable[Alike], damaged: list[tuple[int, RecordError]]) -> Iterator[Stack]:
    """Launches that kept sums as stacks; those that cannot be read go to `damaged`, by their index."""
    for group in groups:
        for part in group.parts(_STACK_BYTES):
            yield from _of_headers(part, part.buffers(), damaged)


def _of_headers(launches: Alike, data: Bytes, damaged: list[tuple[int, RecordError]]) -> Iterator[Stack]:
    """One stack for each header that there is among these launches."""
    try:
        header = checked_header(data[0], launches.manifest)
        area_count(data[0], launches.manifest, LaunchBits.decode(int(header["launch_bits"])))
        check_grid(launches, int(header["grid_x"]), int(header["grid_y"]))
    except RecordError as error:
        alike = _like_the_first(data)
        damaged += [(index, error) for index in launches.indices[alike].tolist()]
    else:
        alike = _like_the_first(data)
        stack = _stack(launches.where(alike), data if alike.all() else data[alike], damaged)
        if stack is not None:
            yield stack
    if not alike.all():
        yield from _of_headers(launches.where(~alike), data[~alike], damaged)


def _like_the_first(data: Bytes) -> Flags:
    """Which launches' headers say what that of the first says, shape (L,)."""
    if data.shape[1] < LAUNCH_HEADER.itemsize:
        return np.ones(len(data), bool)
    return like_the_first(data[:, : LAUNCH_HEADER.itemsize].view(LAUNCH_HEADER)[:, 0])


def check_grid(launch: _OfGrid, grid_x: int, grid_y: int) -> None:
    """Raises RecordError for a header whose grid is not that of the launch."""
    plane = grid_x * grid_y
    if plane == 0 or launch.ctas % plane:
        raise RecordError(
            f"damaged profile buffer of kernel {launch.manifest.kernel}: its header has a grid of "
            f"{grid_x} by {grid_y} CTAs in a launch of {launch.ctas}"
        )


def _stack(launches: Alike, data: Bytes, damaged: list[tuple[int, RecordError]]) -> Stack | None:
    """Launches that are alike, less those whose areas do not hold the CTAs that are due. data: their
    buffers."""
    manifest, bits = launches.manifest, LaunchBits.decode(int(launch_header(data[0])["launch_bits"]))
    selection, cta_bytes, begin = manifest.selection, manifest.cta_bytes(0), LAUNCH_HEADER.itemsize
    areas = area_count(data[0], manifest, bits)
    shape, strides = (len(data), areas), (data.strides[0], cta_bytes)
    packed: npt.NDArray[np.void] = np.ndarray(shape, CTA_HEADER, data.data, begin, strides)
    times, (sm, rank) = header_times(packed), places_of(packed)
    due = ctas_due(selection, areas, bits)
    if due is not None:
        sound = ((packed["cta"] == due) | (times.end_clock == 0)).all(axis=1)
        if not sound.all():
            indices = launches.indices.tolist()
            damaged += [
                (indices[at], damage_at(packed[at], due, manifest)) for at in np.flatnonzero(~sound).tolist()
            ]
            return _stack(launches.where(sound), data[sound], damaged) if sound.any() else None
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
