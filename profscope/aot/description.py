"""What a launcher must know of an instrumented binary, and a decoder of what it wrote: one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from instrument_passes.manifest import Manifest
from instrument_passes.records import (
    BASE_ALIGNMENT,
    LAUNCH_HEADER,
    MAX_AREA_BYTES,
    MAX_RING_LOG2,
    MIN_RING_LOG2,
    LaunchBits,
)
from profscope.decoding.build import Build
from profscope.errors import ManifestError, RecordError
from profscope.version import __version__

__all__ = ["COMPILED_IN", "SCHEMA", "Description", "Parameter", "profile_layout"]

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
