"""The areas of one launch's buffer: their CTAs, and the places of their warps' words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from profscope.errors import RecordError
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import (
    BASE_ALIGNMENT,
    CTA_HEADER,
    LAUNCH_HEADER,
    PLACE_RANK_SHIFT,
    WORD,
    LaunchBits,
)
from profscope.instrument_passes.selection import Selection

__all__ = [
    "CTA",
    "LaunchBuffer",
    "has_records",
    "launch_header",
    "packed_headers",
    "read_areas",
    "read_buffer",
    "segments",
    "split",
    "without_vacant_area",
    "words_of_areas",
]

Ints = npt.NDArray[np.int64]

CTA: Final = np.dtype(
    [
        ("start_clock", "<u8"),  # SM clock64, cycles; 0: the CTA wrote nothing, or has not left the kernel
        ("start_globaltimer", "<u8"),  # ns, read with it
        ("end_clock", "<u8"),
        ("end_globaltimer", "<u8"),
        ("cta", "<u4"),  # linear id in the launch, x fastest
        ("sm", "<u2"),
        ("cluster_rank", "<u2"),
    ]
)
"""What a CTA header says, with the times in full."""


def split(
    buffer: npt.NDArray[np.uint8], manifest: Manifest, ctas: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The buffer of a launch of `ctas` CTAs in two: its stamps, and its records from the launch header on."""
    stamps = manifest.stamps_bytes(ctas)
    return buffer[:stamps], buffer[stamps:]


def has_records(buffer: npt.NDArray[np.uint8]) -> bool:
    """Whether a launch wrote into its buffer; its first CTA writes first thing, if the launch runs at all."""
    return bool(buffer[: LAUNCH_HEADER.itemsize].any())


def launch_header(buffer: npt.NDArray[np.uint8]) -> np.void:
    """The launch header, dtype LAUNCH_HEADER, a view."""
    header: np.void = buffer[: LAUNCH_HEADER.itemsize].view(LAUNCH_HEADER)[0]
    return header


@dataclass(frozen=True)
class LaunchBuffer:
    """One launch's buffer, read as far as its headers go.

    data: uint8, contiguous. header: dtype LAUNCH_HEADER. bits: how the launch recorded. ctas: what the CTA
    headers say, shape (recorded CTAs,), dtype CTA.
    """

    data: npt.NDArray[np.uint8]
    header: np.void
    bits: LaunchBits
    ctas: npt.NDArray[np.void]


def read_buffer(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> LaunchBuffer:
    """The headers of a launch's buffer. Raises RecordError for one that is truncated or damaged, or that
    another program wrote."""
    data = np.ascontiguousarray(buffer)
    header = _checked_header(data, manifest)
    bits = LaunchBits.decode(int(header["launch_bits"]))
    return LaunchBuffer(data, header, bits, _cta_headers(data, manifest, bits))


def read_areas(
    buffers: Sequence[npt.NDArray[np.uint8]], manifest: Manifest
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.void]] | None:
    """The areas of several launches whose buffers have one size, copied one after the other: uint8, shape
    (launches, bytes); and what their CTA headers say, dtype CTA, shape (launches, areas).

    None if their headers do not agree. Raises RecordError as `read_buffer` does, for the first of them.
    """
    begin, size = LAUNCH_HEADER.itemsize, buffers[0].nbytes
    if size < begin:
        return None
    bits = LaunchBits.decode(int(_checked_header(np.ascontiguousarray(buffers[0]), manifest)["launch_bits"]))
    areas = _area_count(buffers[0], manifest, bits)
    heads = np.empty((len(buffers), begin), np.uint8)
    data = np.empty((len(buffers), size - begin), np.uint8)
    for at, buffer in enumerate(buffers):
        heads[at], data[at] = buffer[:begin], buffer[begin:]
    if not _like_the_first(heads.view(LAUNCH_HEADER)[:, 0]).all():
        return None
    cta_bytes = manifest.cta_bytes(bits.ring_log2)
    packed = np.ndarray((len(buffers), areas), CTA_HEADER, data.data, 0, (data.strides[0], cta_bytes))
    due = _ctas_due(manifest.selection, packed, bits)
    if ((packed["end_clock"] != 0) & (packed["cta"] != due)).any():
        return None
    return data, _unpacked(packed)


def _like_the_first(headers: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Which launch headers, dtype LAUNCH_HEADER, shape (launches,), say what the first says."""
    alike: npt.NDArray[np.bool_] = (headers["launch_bits"] ^ headers["launch_bits"][0]) % BASE_ALIGNMENT == 0
    for name in ("digest", "grid_x", "grid_y"):
        alike &= headers[name] == headers[name][0]
    return alike


def _checked_header(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> np.void:
    """The launch header. Raises RecordError if there is none, or another program's."""
    if buffer.nbytes < LAUNCH_HEADER.itemsize:
        raise RecordError(
            f"truncated profile buffer of kernel {manifest.kernel}: {buffer.nbytes} bytes hold no header"
        )
    header = launch_header(buffer)
    if header["digest"] != manifest.digest:
        raise RecordError(
            f"profile buffer was not written by this build of kernel {manifest.kernel}: it carries "
            f"digest {int(header['digest']):#x}, the manifest {manifest.digest:#x}"
        )
    return header


def _cta_headers(buffer: npt.NDArray[np.uint8], manifest: Manifest, bits: LaunchBits) -> npt.NDArray[np.void]:
    areas = _area_count(buffer, manifest, bits)
    packed = packed_headers(buffer, areas, manifest.cta_bytes(bits.ring_log2))
    due = _ctas_due(manifest.selection, packed, bits)
    if ((packed["end_clock"] != 0) & (packed["cta"] != due)).any():
        raise _damage_at(packed, due, manifest)
    return _unpacked(packed)


def _area_count(buffer: npt.NDArray[np.uint8], manifest: Manifest, bits: LaunchBits) -> int:
    """How many CTA areas a buffer has room for. Raises RecordError if it holds a part of one."""
    cta_bytes = manifest.cta_bytes(bits.ring_log2)
    area_bytes = buffer.nbytes - LAUNCH_HEADER.itemsize
    if area_bytes % cta_bytes:
        raise RecordError(
            f"truncated profile buffer of kernel {manifest.kernel}: its areas take {area_bytes} bytes, not "
            f"a multiple of the {cta_bytes} that a CTA writes"
        )
    return area_bytes // cta_bytes


def _damage_at(packed: npt.NDArray[np.void], due: Ints, manifest: Manifest) -> RecordError:
    """The error to raise for headers of other CTAs than are due (see `_ctas_due`); shape (areas,)."""
    wrong = np.flatnonzero((packed["end_clock"] != 0) & (packed["cta"] != due))
    there, wanted = packed["cta"][wrong[0]], due[wrong[0]]
    return RecordError(
        f"damaged profile buffer of kernel {manifest.kernel}: it holds CTA {there} where CTA {wanted} is due"
    )


def packed_headers(buffer: npt.NDArray[np.uint8], areas: int, cta_bytes: int) -> npt.NDArray[np.void]:
    """The CTA headers as they were written, shape (areas,), dtype CTA_HEADER, a view."""
    return np.ndarray((areas,), CTA_HEADER, buffer.data, LAUNCH_HEADER.itemsize, strides=(cta_bytes,))


def _times(packed: npt.NDArray[np.void]) -> dict[str, Ints]:
    """When CTAs started and ended, 0 for those that did not end: of headers of any shape, of dtype
    CTA_HEADER. Clocks in cycles of the SM's clock64, the rest in ns of the globaltimer.

    The ends are there in full, and a start is before its end: by less than 2^32 cycles and 2^48 ns.
    """
    end, end_ns = (packed[name].astype(np.int64) for name in ("end_clock", "end_globaltimer"))
    start = end - (end.astype(np.uint32) - packed["start_clock_low"])
    start_ns = packed["start_ns_high"].astype(np.int64) << 32 | packed["start_ns_low"]
    start_ns = end_ns - ((end_ns - start_ns) & ((1 << 48) - 1))
    if not end.all():
        for each in (start, start_ns, end_ns):
            each[end == 0] = 0
    return {
        "start_clock": start,
        "end_clock": end,
        "start_globaltimer": start_ns,
        "end_globaltimer": end_ns,
    }


def _unpacked(packed: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    ctas = np.zeros(packed.shape, CTA)
    for name, values in _times(packed).items():
        ctas[name] = values
    ctas["cta"] = packed["cta"]
    ctas["sm"], ctas["cluster_rank"] = _places_of(packed)
    return ctas


def _places_of(packed: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """SM and rank in the cluster of each CTA; headers of any shape, of dtype CTA_HEADER."""
    place = packed["place"].astype(np.uint16)
    return place & np.uint16((1 << PLACE_RANK_SHIFT) - 1), place >> np.uint16(PLACE_RANK_SHIFT)


def segments(
    buffer: npt.NDArray[np.uint8], ctas: int, manifest: Manifest, ring_log2: int
) -> npt.NDArray[np.uint32]:
    """The words of all segments, shape (CTAs, recorded warps, words), a view."""
    begin, area_bytes = LAUNCH_HEADER.itemsize, ctas * manifest.cta_bytes(ring_log2)
    return words_of_areas(buffer[begin : begin + area_bytes], manifest, ring_log2)


def words_of_areas(
    areas: npt.NDArray[np.uint8], manifest: Manifest, ring_log2: int
) -> npt.NDArray[np.uint32]:
    """As `segments`, of areas that follow each other, uint8 of any shape."""
    words = areas.reshape(-1, manifest.cta_bytes(ring_log2)).view(WORD)
    words = words[:, CTA_HEADER.itemsize // WORD.itemsize :]
    in_segment = manifest.segment_bytes(ring_log2) // WORD.itemsize
    return words[:, : manifest.warps * in_segment].reshape(len(words), manifest.warps, in_segment)


def without_vacant_area(
    buffer: npt.NDArray[np.uint8], manifest: Manifest, ctas: int
) -> npt.NDArray[np.uint8]:
    """The buffer of a launch of `ctas` CTAs, less a last area that is of none of them in this launch's turn.

    Raises RecordError for one that is truncated.
    """
    bits = LaunchBits.decode(int(launch_header(buffer)["launch_bits"]))
    if manifest.selection.ids or not ctas % (1 << bits.stride_log2):
        return buffer
    areas = _area_count(buffer, manifest, bits)
    cta_bytes = manifest.cta_bytes(bits.ring_log2)
    due = _ctas_due(manifest.selection, packed_headers(buffer, areas, cta_bytes), bits)
    return buffer[:-cta_bytes] if areas and due[-1] >= ctas else buffer


def _ctas_due(selection: Selection, packed: npt.NDArray[np.void], bits: LaunchBits) -> Ints:
    """The CTAs whose records are in the areas, by linear id. packed: their headers, of one or more launches;
    those that have begun tell in whose turn it was."""
    number = np.arange(packed.shape[-1], dtype=np.int64)
    if selection.ids:
        return np.array(selection.ids[: len(number)], np.int64)
    if not len(number):
        return number
    ctas = packed["cta"].astype(np.int64)
    begun = (ctas != 0) | (packed["start_clock_low"] != 0) | (packed["start_ns_low"] != 0)
    begun &= ctas >> bits.stride_log2 == number  # a damaged one tells nothing
    of_each = np.where(begun, selection.flips(number, ctas, bits.stride_log2), -1)
    first = np.argmax(begun, axis=-1)[..., None]
    flips = np.maximum(np.take_along_axis(of_each, first, axis=-1), 0)
    due: Ints = selection.cta(number, bits.stride_log2, flips)
    return due
