"""A launch as it came back from the device: what recording hands to decoding, and a spool keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from instrument_passes.records import STAMP
from profscope.decoding.areas import split
from profscope.decoding.build import Build
from profscope.errors import RecordError

__all__ = ["ORDINARY", "Mark", "RawLaunch"]


class Mark(NamedTuple):
    """What a launch was part of. graph, replay: indices in the session; cold:
    much of the L2 cache was displaced right before it, as its memory was zeroed; host: the number of the
    host scope that it was launched in."""

    graph: int = -1
    replay: int = -1
    cold: bool = False
    host: int = -1


ORDINARY: Final = Mark()


@dataclass(frozen=True)
class RawLaunch:
    """One launch as it came back. ctas: CTAs of the grid; buffer: uint8, stamps and the areas of those
    recorded. build: of the binary, None where it is not known."""

    index: int
    manifest: Manifest
    device: int
    stream: int
    ctas: int
    buffer: npt.NDArray[np.uint8]
    mark: Mark = ORDINARY
    build: Build | None = None

    @property
    def records(self) -> npt.NDArray[np.uint8]:
        """Launch header and areas."""
        return split(self.buffer, self.manifest, self.ctas)[1]

    @property
    def stamps(self) -> npt.NDArray[np.void]:
        """dtype STAMP, one for each CTA of the grid, or none. Raises RecordError if they are cut."""
        stamps = split(self.buffer, self.manifest, self.ctas)[0]
        if len(stamps) < self.manifest.stamps_bytes(self.ctas):
            raise RecordError(
                f"truncated profile buffer of kernel {self.manifest.kernel}: {len(stamps)} bytes do not hold "
                f"the stamps of {self.ctas} CTAs"
            )
        return np.ascontiguousarray(stamps).view(STAMP)[: self.manifest.stamps_of(self.ctas)]
