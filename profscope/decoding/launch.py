"""Decoded launches and their place in time: what the tables and what is said beside them are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from profscope.decoding.build import Build
from profscope.decoding.bundles import Bundle
from profscope.decoding.decode import DecodedLaunch
from profscope.decoding.timebase import TimeBase

__all__ = ["TimedBundle"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TimedBundle:
    """L launches, decoded. base: from their cycles to ns; start_ns, end_ns: by launch, when its first CTA
    began and its last one ended."""

    bundle: Bundle
    base: TimeBase
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.bundle)

    @property
    def decoded(self) -> DecodedLaunch:
        return self.bundle.decoded

    @property
    def manifest(self) -> Manifest:
        """The program they ran."""
        return self.bundle.manifest

    @property
    def index(self) -> int:
        """The number in the session of the first of them."""
        return self.bundle.index

    @property
    def build(self) -> Build | None:
        """Of the binary they ran."""
        return self.bundle.build

    @property
    def grid_ctas(self) -> int:
        """The CTAs of all their grids."""
        return sum(raw.ctas for raw in self.bundle.raws)

    @property
    def recorded(self) -> Ints:
        """By launch, how many CTAs were to record."""
        return self.bundle.headers_each()

    @property
    def unfinished(self) -> Ints:
        """By launch, CTAs that were to record and wrote nothing, or did not come to their end: they have no
        spans."""
        return self.recorded - self.bundle.headers_each(written=True)

    @property
    def are_whole(self) -> npt.NDArray[np.bool_]:
        """By launch, whether all that the recorded CTAs executed is there, and they speak for the grid."""
        missing = self.bundle.each("dropped") + self.bundle.each("unmatched") + self.unfinished
        return np.asarray((missing == 0) & self.manifest.selection.is_sample, np.bool_)
