"""What exported kernels wrote, as a profile; needs neither Triton nor a GPU."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from instrument_passes.records import LAUNCH_HEADER
from instrument_passes.selection import LaunchBits, Selection
from profscope.aot.description import Description
from profscope.decoding.areas import without_vacant_area
from profscope.decoding.assemble import assemble
from profscope.decoding.raw import RawLaunch
from profscope.errors import OptionError, RecordError
from profscope.profiles import Profile
from profscope.version import __version__

__all__ = ["decode"]

Bytes = npt.NDArray[np.uint8]


def decode(
    buffer: Any, manifest: Description | Mapping[str, Any] | str | Path, *, ctas: int | None = None
) -> Profile:
    """The profile of launches of an exported kernel.

        profscope.decode("softmax.records", "build/softmax.json").summary()

    buffer: what one launch wrote, from the aligned address on: bytes, a uint8 array, or the path of a file
    with them; or a list of these, a launch each. manifest: the JSON file that `export` wrote, what it has, or
    what `export` returned. ctas: CTAs of the grid, those of all clusters; needed only where the buffer does
    not say it: it holds one CTA of every 2^s of a grid with more than one plane.

    Raises RecordError for a buffer of another kernel, one that is cut, and one that nothing was recorded in,
    and for a manifest that is none; OptionError for a bad `ctas`.
    """
    if ctas is not None and (isinstance(ctas, bool) or not isinstance(ctas, int) or ctas < 1):
        raise OptionError(f"decode: ctas={ctas!r}; it is a number of CTAs, at least 1")
    description = Description.read(manifest)
    program, build = description.manifest, description.build
    several = isinstance(buffer, list | tuple)
    launches = []
    for index, each in enumerate(buffer if several else [buffer]):
        name = f"buffer {index}" if several else "buffer"
        data, total = _trimmed(_read(each), program, ctas, each if isinstance(each, str | Path) else name)
        launches.append(RawLaunch(index, program, 0, 0, total, data, build=build))
    return Profile.of(assemble(launches, _metadata(description)))


def _read(given: Any) -> Bytes:
    if isinstance(given, str | Path):
        try:
            return np.fromfile(given, np.uint8)
        except OSError as error:
            raise RecordError(f"{given}: cannot be read: {error.strerror or error}") from error
    try:
        return np.frombuffer(given, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise RecordError(f"a buffer is bytes, a uint8 array or a path, no {type(given).__name__}") from error


def _trimmed(data: Bytes, manifest: Manifest, ctas: int | None, name: Any) -> tuple[Bytes, int]:
    """A launch's bytes without what stands behind them, and the CTAs of its grid."""
    if data.nbytes < LAUNCH_HEADER.itemsize:
        raise RecordError(f"{name}: {data.nbytes} bytes are no launch's; it has a header of 64")
    header = data[: LAUNCH_HEADER.itemsize].view(LAUNCH_HEADER)[0]
    if not int(header["digest"]):
        raise RecordError(
            f"{name}: nothing was recorded: the kernel had not ended when it was copied, its pointer had no "
            "enable bits, or the copy does not begin at the aligned address"
        )
    if int(header["digest"]) != manifest.digest:
        raise RecordError(f"{name}: was written by another kernel, or another build of {manifest.kernel}")
    bits = LaunchBits.decode(int(header["launch_bits"]))
    area, held = manifest.cta_bytes(bits.ring_log2), data.nbytes - LAUNCH_HEADER.itemsize
    plane = int(header["grid_x"]) * int(header["grid_y"])
    total = _ctas(held // area, plane, manifest.selection, bits.stride_log2, name) if ctas is None else ctas
    if total % max(1, plane):
        raise RecordError(
            f"{name}: ctas={total} cannot be: its grid has {int(header['grid_x'])} x {int(header['grid_y'])} "
            "CTAs, once or more"
        )
    needed = manifest.selection.areas(total, bits.stride_log2) * area
    if needed > held or (ctas is None and needed < held):
        raise RecordError(
            f"{name}: {data.nbytes} bytes, where {total} CTAs with ring_log2={bits.ring_log2} and "
            f"stride_log2={bits.stride_log2} write {needed + LAUNCH_HEADER.itemsize}"
        )
    return without_vacant_area(data[: LAUNCH_HEADER.itemsize + needed], manifest, total), total


def _ctas(areas: int, plane: int, selection: Selection, stride_log2: int, name: Any) -> int:
    """CTAs of the grid: whole planes of it, one CTA of every 2^stride_log2 with an area."""
    step = 1 << stride_log2
    least, most = ((areas + more) * step // max(1, plane) for more in (-1, 1))
    likely = range(max(1, least), most + 1)  # of a damaged buffer 2^32 of them

    def areas_of(planes: int) -> int:
        return selection.areas(planes * plane, stride_log2)

    fits = likely[bisect_left(likely, areas, key=areas_of) : bisect_right(likely, areas, key=areas_of)]
    if len(fits) > 1:
        raise RecordError(
            f"{name}: the grid may have {fits[0] * plane} to {fits[-1] * plane} CTAs; say ctas="
        )
    return (fits[0] if fits else max(1, most)) * plane


def _metadata(description: Description) -> dict[str, Any]:
    document = description.document
    arch = str(document["target"]).partition(":")[2]
    return {
        "tool": "profscope",
        "profscope": __version__,
        "backend": "gpu",
        "device": {"name": "", "arch": f"sm_{arch}", "sm_count": 0},
        "clock": {},
        "triton": document["triton"],
        "options": document["options"],
    }
