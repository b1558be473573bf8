"""What exported kernels wrote, as a profile; needs neither Triton nor a GPU."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import without_vacant_area
from profscope.decoding.assemble import assemble
from profscope.decoding.build import Build, RawLaunch
from profscope.errors import ManifestError, OptionError, RecordError
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import (
    BASE_ALIGNMENT,
    LAUNCH_HEADER,
    MAX_AREA_BYTES,
    MAX_RING_LOG2,
    MIN_RING_LOG2,
    LaunchBits,
)
from profscope.instrument_passes.selection import Selection
from profscope.profiles import Profile
from profscope.version import __version__

__all__ = ["COMPILED_IN", "SCHEMA", "Description", "Parameter", "decode", "profile_layout"]

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


# What a launcher must know of an instrumented binary, and a decoder of what it wrote: one JSON file.


SCHEMA: Final = 1
COMPILED_IN: Final = ("instrument", "measure", "sources")  # options of session()


@dataclass(frozen=True)
class Parameter:
    """One of a kernel's parameters. type: as Triton spells it; bytes: its size; hidden: one that Triton's
    launcher adds, "global_scratch" or "profile_scratch"."""

    name: str
    type: str
    bytes: int
    hidden: bool = False


@dataclass(frozen=True)
class Description:
    """document: what the JSON file has.

    `entry`: the function's name in the cubin; `target`; `cubin`: its file beside this one. `parameters`, in
    order, as `Parameter`. `launch`: `threads_per_cta`, `shared_bytes`, `cluster` (CTAs of one),
    `cooperative`, `programmatic` (dependent launch). `global_scratch`: `bytes_per_cta` and `alignment`, of
    the kernel's own. `profile`: see `profile_layout`. `manifest` and `build`: what decoding needs. `options`:
    those it was exported with.
    """

    document: dict[str, Any]

    @property
    def manifest(self) -> Manifest:
        """Raises ManifestError where it is none, or of another version."""
        return Manifest.from_json(json.dumps(self.document["manifest"]))

    @property
    def build(self) -> Build:
        return Build.from_json(self.document["build"])

    @staticmethod
    def read(given: Description | Mapping[str, Any] | str | Path) -> Description:
        """What `export` returned or wrote. Raises RecordError for anything else, naming it."""
        if isinstance(given, Description):
            return given
        if isinstance(given, str | Path):
            try:
                document = json.loads(Path(given).read_bytes())
            except (OSError, ValueError) as error:
                raise RecordError(f"{given}: cannot be read as what export() wrote: {error}") from error
            where = str(given)
        else:
            document, where = given, "manifest="
        if not isinstance(document, Mapping) or document.get("tool") != "profscope export":
            raise RecordError(f"{where}: is not what export() wrote")
        if document.get("schema") != SCHEMA:
            raise RecordError(
                f"{where}: written by profscope {document.get('profscope')}, in schema "
                f"{document.get('schema')}; {__version__} reads {SCHEMA}"
            )
        description = Description(dict(document))
        try:
            _check(description)
        except (ManifestError, KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{where}: is damaged: {error}") from error
        return description


def _check(description: Description) -> None:
    """Raises ManifestError, KeyError, TypeError or ValueError for what cannot be decoded with."""
    _ = description.manifest, description.build
    document = description.document
    for name, kind in (("target", str), ("triton", str), ("options", dict)):
        if not isinstance(document[name], kind):
            raise TypeError(f"{name} is {document[name]!r}")


def profile_layout(manifest: Manifest) -> dict[str, int]:
    """How large a launch's buffer is, and what its pointer says, in numbers that a launcher can use.

        areas   = CTAs of the grid / 2^stride_log2, rounded up
        bytes   = header_bytes + areas * (cta_bytes + (ring_bytes << ring_log2))
        pointer = address | enable_bits | stride_log2 << stride_shift
                  | (ring_log2 - min_ring_log2) << ring_shift

    All bytes are zero before the launch; the address is a multiple of `alignment`. One CTA of every
    2^stride_log2 records.
    Rings have 2^ring_log2 rows; `ring_log2` is one that most kernels need no more than. `ring_bytes` is 0
    where there are no rings.
    """
    longest = _longest_rings(manifest)
    return {
        "header_bytes": LAUNCH_HEADER.itemsize,
        "cta_bytes": manifest.cta_fixed_bytes,
        "ring_bytes": manifest.warps * manifest.ring_bytes,
        "alignment": BASE_ALIGNMENT,
        "enable_bits": LaunchBits.ENABLE,
        "stride_shift": LaunchBits.STRIDE_SHIFT,
        "ring_shift": LaunchBits.RING_SHIFT,
        "min_ring_log2": MIN_RING_LOG2,
        "max_ring_log2": longest,
        "ring_log2": min(10, longest),
    }


def _longest_rings(manifest: Manifest) -> int:
    """The ring_log2 of the longest rings with which a CTA's area is as large as kernels can address."""
    return next(
        log2
        for log2 in range(MAX_RING_LOG2, MIN_RING_LOG2 - 1, -1)
        if manifest.cta_bytes(log2) <= MAX_AREA_BYTES or log2 == MIN_RING_LOG2
    )
