"""The areas of one launch's buffer: whose they are, and where its warps' words lie."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from instrument_passes.records import CTA_HEADER, VECTOR, WORD, LaunchBits
from instrument_passes.selection import Selection
from profscope.errors import RecordError

__all__ = ["first_wave", "has_records", "headers", "launch_bits", "segments", "tickets"]

Ints = npt.NDArray[np.int64]


def has_records(buffer: npt.NDArray[np.uint8]) -> bool:
    """Whether a launch wrote into its buffer; its first CTA writes first thing, if the launch runs at all."""
    return bool(buffer[: CTA_HEADER.itemsize].any())


def launch_bits(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> LaunchBits:
    """How the launch that wrote this buffer recorded; its first area says so.

    Raises RecordError for a buffer that is too short, or that another program wrote.
    """
    if buffer.nbytes < CTA_HEADER.itemsize:
        raise RecordError(
            f"truncated profile buffer of kernel {manifest.kernel}: {buffer.nbytes} bytes hold no CTA header"
        )
    first = buffer[: CTA_HEADER.itemsize].view(CTA_HEADER)[0]
    if first["digest"] != manifest.digest:
        raise RecordError(
            f"profile buffer was not written by this build of kernel {manifest.kernel}: it carries "
            f"digest {int(first['digest']):#x}, the manifest {manifest.digest:#x}"
        )
    return LaunchBits.decode(int(first["launch_bits"]))


def headers(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> npt.NDArray[np.void]:
    """The CTA headers of a launch's buffer, shape (recorded CTAs,), dtype CTA_HEADER, a view.

    Areas whose ticket nobody drew are left out; see `Selection`.

    Raises RecordError for a truncated or damaged buffer, or another program's.
    """
    bits = launch_bits(buffer, manifest)
    cta_bytes = manifest.cta_bytes(bits.ring_log2)
    area_bytes = buffer.nbytes - manifest.selection.counter_bytes
    if area_bytes % cta_bytes:
        raise RecordError(
            f"truncated profile buffer of kernel {manifest.kernel}: {buffer.nbytes} bytes is not a multiple "
            f"of the {cta_bytes} bytes a CTA writes"
        )
    areas = area_bytes // cta_bytes
    if manifest.selection.ctas == "sms":
        areas = min(areas, tickets(buffer))
    found = np.ndarray((areas,), CTA_HEADER, buffer.data, strides=(cta_bytes,))
    due = _ctas_due(manifest.selection, areas, bits)
    if due is not None:
        wrong = np.flatnonzero((found["start_clock"] != 0) & (found["cta"] != due))
        if wrong.size:
            there, wanted = found["cta"][wrong[0]], due[wrong[0]]
            raise RecordError(
                f"damaged profile buffer of kernel {manifest.kernel}: it holds CTA {there} "
                f"where CTA {wanted} is due"
            )
    return found


def segments(
    buffer: npt.NDArray[np.uint8], ctas: int, manifest: Manifest, ring_log2: int
) -> npt.NDArray[np.uint32]:
    """The words of all segments, shape (CTAs, recorded warps, words), a view."""
    area_bytes = ctas * manifest.cta_bytes(ring_log2)
    words = buffer[:area_bytes].view(WORD).reshape(ctas, -1)[:, CTA_HEADER.itemsize // WORD.itemsize :]
    in_segment = manifest.segment_bytes(ring_log2) // WORD.itemsize
    return words[:, : manifest.segments * in_segment].reshape(ctas, manifest.segments, in_segment)


def tickets(buffer: npt.NDArray[np.uint8]) -> int:
    """How many CTAs asked for an area, those that found none included, where areas go by ticket."""
    return int(buffer[-VECTOR:].view(WORD)[0])


def first_wave(found: npt.NDArray[np.void]) -> Ints:
    """Positions of the CTAs that started before any of the recorded ones on the same SM had ended."""
    written = found[found["end_clock"] != 0]
    first_end = np.full(1 << 16, np.iinfo(np.uint64).max, np.uint64)  # by SM
    np.minimum.at(first_end, written["sm"], written["end_clock"])
    return np.flatnonzero(found["start_clock"] < first_end[found["sm"]])


def _ctas_due(selection: Selection, areas: int, bits: LaunchBits) -> Ints | None:
    """The CTAs whose records are in the areas, by linear id; None where only the kernel knows."""
    if selection.ctas == "sms":
        return None
    if selection.ctas == "list":
        return np.array(selection.ids[:areas], np.int64)
    return np.arange(areas, dtype=np.int64) << (bits.stride_log2 if selection.ctas == "stride" else 0)
