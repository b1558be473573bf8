"""The areas of one launch's buffer: whose they are, and where its warps' words lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from instrument_passes.records import (
    CTA_HEADER,
    LAUNCH_HEADER,
    PLACE_RANK_SHIFT,
    VECTOR,
    WORD,
    LaunchBits,
)
from instrument_passes.selection import Selection
from profscope.errors import RecordError

__all__ = [
    "CTA",
    "LaunchBuffer",
    "first_wave",
    "has_records",
    "launch_header",
    "packed_headers",
    "read_buffer",
    "segments",
    "tickets",
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
    headers say, shape (recorded CTAs,), dtype CTA; areas whose ticket nobody drew are left out (see
    `Selection`).
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


def _checked_header(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> np.void:
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
    cta_bytes = manifest.cta_bytes(bits.ring_log2)
    area_bytes = buffer.nbytes - LAUNCH_HEADER.itemsize - manifest.selection.counter_bytes
    if area_bytes % cta_bytes:
        raise RecordError(
            f"truncated profile buffer of kernel {manifest.kernel}: its areas take {area_bytes} bytes, not "
            f"a multiple of the {cta_bytes} that a CTA writes"
        )
    areas = area_bytes // cta_bytes
    if manifest.selection.ctas == "sms":
        areas = min(areas, tickets(buffer))
    packed = packed_headers(buffer, areas, cta_bytes)
    due = _ctas_due(manifest.selection, areas, bits)
    if due is not None:
        wrong = np.flatnonzero((packed["end_clock"] != 0) & (packed["cta"] != due))
        if wrong.size:
            there, wanted = packed["cta"][wrong[0]], due[wrong[0]]
            raise RecordError(
                f"damaged profile buffer of kernel {manifest.kernel}: it holds CTA {there} "
                f"where CTA {wanted} is due"
            )
    return _unpacked(packed)


def packed_headers(buffer: npt.NDArray[np.uint8], areas: int, cta_bytes: int) -> npt.NDArray[np.void]:
    """The CTA headers as they were written, shape (areas,), dtype CTA_HEADER, a view."""
    return np.ndarray((areas,), CTA_HEADER, buffer.data, LAUNCH_HEADER.itemsize, strides=(cta_bytes,))


def _unpacked(packed: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """The ends are there in full, and a start is before its end: by less than 2^32 cycles and 2^48 ns."""
    ctas = np.zeros(len(packed), CTA)
    end, end_ns = packed["end_clock"], packed["end_globaltimer"]
    ended = end != 0
    cycles = (end.astype(np.uint32) - packed["start_clock_low"]).astype(np.uint64)
    start_ns = packed["start_ns_high"].astype(np.uint64) << np.uint64(32) | packed["start_ns_low"]
    took_ns = (end_ns - start_ns) & np.uint64((1 << 48) - 1)
    ctas["start_clock"], ctas["end_clock"] = (end - cycles) * ended, end
    ctas["start_globaltimer"], ctas["end_globaltimer"] = (end_ns - took_ns) * ended, end_ns
    ctas["cta"] = packed["cta"]
    ctas["sm"] = packed["place"] & ((1 << PLACE_RANK_SHIFT) - 1)
    ctas["cluster_rank"] = packed["place"] >> PLACE_RANK_SHIFT
    return ctas


def segments(
    buffer: npt.NDArray[np.uint8], ctas: int, manifest: Manifest, ring_log2: int
) -> npt.NDArray[np.uint32]:
    """The words of all segments, shape (CTAs, recorded warps, words), a view."""
    begin, area_bytes = LAUNCH_HEADER.itemsize, ctas * manifest.cta_bytes(ring_log2)
    words = buffer[begin : begin + area_bytes].view(WORD).reshape(ctas, -1)
    words = words[:, CTA_HEADER.itemsize // WORD.itemsize :]
    in_segment = manifest.segment_bytes(ring_log2) // WORD.itemsize
    return words[:, : manifest.segments * in_segment].reshape(ctas, manifest.segments, in_segment)


def tickets(buffer: npt.NDArray[np.uint8]) -> int:
    """How many CTAs asked for an area, those that found none included, where areas go by ticket."""
    return int(buffer[-VECTOR:].view(WORD)[0])


def first_wave(ctas: npt.NDArray[np.void]) -> Ints:
    """Positions of the CTAs that started before any of the recorded ones on the same SM had ended."""
    written = ctas[ctas["end_clock"] != 0]
    first_end = np.full(1 << 16, np.iinfo(np.uint64).max, np.uint64)  # by SM
    np.minimum.at(first_end, written["sm"], written["end_clock"])
    return np.flatnonzero(ctas["start_clock"] < first_end[ctas["sm"]])


def _ctas_due(selection: Selection, areas: int, bits: LaunchBits) -> Ints | None:
    """The CTAs whose records are in the areas, by linear id; None where only the kernel knows."""
    if selection.ctas == "sms":
        return None
    if selection.ctas == "list":
        return np.array(selection.ids[:areas], np.int64)
    return np.arange(areas, dtype=np.int64) << (bits.stride_log2 if selection.ctas == "stride" else 0)
