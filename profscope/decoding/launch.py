"""A decoded launch and its place in time: what the tables and what is said beside them are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instrument_passes.manifest import Manifest
from profscope.decoding.build import Build
from profscope.decoding.decode import DecodedLaunch
from profscope.decoding.raw import RawLaunch
from profscope.decoding.timebase import TimeBase

__all__ = ["TimedLaunch"]


@dataclass(frozen=True)
class TimedLaunch:
    """One launch, decoded. base: from its cycles to ns; start_ns, end_ns: of its first and last span."""

    raw: RawLaunch
    decoded: DecodedLaunch
    base: TimeBase
    start_ns: int
    end_ns: int

    @property
    def manifest(self) -> Manifest:
        """The program it ran."""
        return self.raw.manifest

    @property
    def index(self) -> int:
        """Its number in the session."""
        return self.raw.index

    @property
    def build(self) -> Build | None:
        """Of the binary it ran."""
        return self.raw.build

    @property
    def unfinished(self) -> int:
        """CTAs that were to record and wrote nothing, or did not come to their end: they have no spans."""
        return int(np.count_nonzero(self.decoded.headers["start_clock"] == 0))

    @property
    def is_whole(self) -> bool:
        """Whether all that the recorded CTAs executed is there, and they speak for the grid."""
        selection, decoded = self.manifest.selection, self.decoded
        if selection.warps or not selection.is_sample or decoded.dropped or decoded.unmatched:
            return False
        return self.unfinished == 0
