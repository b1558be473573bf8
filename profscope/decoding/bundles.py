"""Launches that are alike and small, decoded as one: what numpy's steps cost is then shared by all of them.

A step of numpy's takes a microsecond however little it has to do, and a launch takes hundreds of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from profscope.decoding.build import Build
from profscope.decoding.cta_templates import decode_launch
from profscope.decoding.decode import decode_as_one
from profscope.decoding.decoded import DecodedLaunch
from profscope.decoding.in_flight import with_transactions
from profscope.decoding.raw import RawLaunch
from profscope.decoding.stamps import Stamped, sms_of_stamps, stamped
from profscope.decoding.timebase import Readings, TimeBase, readings
from profscope.errors import RecordError

__all__ = ["Bundle", "Damaged", "Placed", "TimedBundle", "decoded", "groups"]

Ints = npt.NDArray[np.int64]
# A launch and where it stands among all that are decoded.
Placed = tuple[int, RawLaunch]
Damaged = tuple[Placed, RecordError]

# What is decoded as one should stay in a core's own cache; larger launches gain nothing by company.
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Bundle:
    """L decoded launches of one program, configuration, grid and device. places: where they stand among all
    that are decoded, ascending; stamped: their CTAs that did not record."""

    raws: tuple[RawLaunch, ...]
    places: Ints
    decoded: DecodedLaunch
    stamped: Stamped

    def __len__(self) -> int:
        return len(self.raws)

    @property
    def index(self) -> int:
        """The number in the session of the first of them."""
        return self.raws[0].index

    @property
    def manifest(self) -> Manifest:
        """The program they ran."""
        return self.raws[0].manifest

    @property
    def build(self) -> Build | None:
        """Of the binary they ran."""
        return self.raws[0].build

    @property
    def device(self) -> int:
        """Where they ran."""
        return self.raws[0].device

    @property
    def launch_of_header(self) -> Ints:
        """Per CTA header, its launch, from 0 to L - 1."""
        several = self.decoded.several
        return several.header if several else np.zeros(len(self.decoded.headers), np.int64)

    def launch_of(self, cta: npt.NDArray[np.int32]) -> npt.NDArray[np.integer[Any]]:
        """The launches of CTAs, by the ids that decoding gave them."""
        several = self.decoded.several
        return cta // np.int32(several.apart.ctas) if several else np.zeros(len(cta), np.int32)

    def each(self, name: str) -> Ints:
        """By launch, its "records", "dropped" or "unmatched"."""
        several = self.decoded.several
        if several is None:
            return np.array([getattr(self.decoded, name)], np.int64)
        of_launches: Ints = getattr(several, name)
        return of_launches

    def headers_each(self, written: bool = False) -> Ints:
        """By launch, the CTAs that were to record; or those of them that came to their end."""
        of = self.launch_of_header
        if written:
            of = of[self.decoded.headers["start_clock"] != 0]
        return np.bincount(of, minlength=len(self))

    def counts(self, spans: Ints | None = None) -> Ints:
        """How many spans each site has, or how many of those at some positions; shape (L, sites)."""
        sites, some = len(self.decoded.sites), self.decoded
        if not some.several:
            return (some.counts if spans is None else some.counted(spans))[None]
        site, cta = (some.span, some.cta) if spans is None else (some.span[spans], some.cta[spans])
        key = self.launch_of(cta).astype(np.int64) * sites + site
        return np.bincount(key, minlength=len(self) * sites).reshape(len(self), sites)

    def readings(self) -> Readings:
        """What they say of the clocks."""
        several = self.decoded.several
        return readings(self.decoded.headers, several.header if several else None, len(self), self.stamped)


@dataclass(frozen=True)
class TimedBundle(Bundle):
    """A bundle and its place in time. base: from cycles to ns; start_ns, end_ns: by launch, when its first
    CTA began and its last one ended."""

    base: TimeBase
    start_ns: Ints
    end_ns: Ints

    @property
    def grid_ctas(self) -> int:
        """The CTAs of all grids."""
        return sum(raw.ctas for raw in self.raws)

    @property
    def recorded(self) -> Ints:
        """By launch, how many CTAs were to record."""
        return self.headers_each()

    @property
    def unfinished(self) -> Ints:
        """By launch, CTAs that were to record and wrote nothing, or did not come to their end: they have no
        spans."""
        return self.recorded - self.headers_each(written=True)

    @property
    def are_whole(self) -> npt.NDArray[np.bool_]:
        """By launch, whether all that the recorded CTAs executed is there, and they speak for the grid."""
        missing = self.each("dropped") + self.each("unmatched") + self.unfinished
        return np.asarray((missing == 0) & self.manifest.selection.is_sample, np.bool_)


def groups(launches: Sequence[RawLaunch]) -> list[list[Placed]]:
    """Launches that may be decoded as one, put together; a large one is alone."""
    by_kind: dict[tuple[Any, ...], list[list[Placed]]] = {}
    every: list[list[Placed]] = []
    for placed in enumerate(launches):
        raw = placed[1]
        size = raw.buffer.nbytes
        kind = id(raw.manifest), id(raw.build), raw.device, raw.ctas, size
        open_groups = by_kind.setdefault(kind, [])
        if not open_groups or (len(open_groups[-1]) + 1) * size > _MOST_BYTES:
            open_groups.append([])
            every.append(open_groups[-1])
        open_groups[-1].append(placed)
    return every


def decoded(group: Sequence[Placed]) -> tuple[list[Bundle], list[Damaged]]:
    """A group decoded as one, or by halves, where some launches of it are of another kind than the others."""
    try:
        raws = tuple(raw for _, raw in group)
        launch = _as_one(raws)
        if launch is not None:
            places = np.array([place for place, _ in group], np.int64)
            return [Bundle(raws, places, launch, stamped(raws, launch))], []
    except RecordError as error:
        if len(group) == 1:
            return [], [(group[0], error)]
    half = len(group) // 2
    (bundles, damaged), (others, more) = decoded(group[:half]), decoded(group[half:])
    return [*bundles, *others], [*damaged, *more]


def _as_one(raws: Sequence[RawLaunch]) -> DecodedLaunch | None:
    first = raws[0]
    if len(raws) == 1:
        sms_of_stamps(raws)
        launch = decode_launch(first.records, first.manifest)
        _check_grid(first, launch.grid_x, launch.grid_y)
        _check_ctas(first, launch)
        return launch
    several = decode_as_one([raw.records for raw in raws], first.manifest, first.ctas, sms_of_stamps(raws))
    if several is None:
        return None
    _check_grid(first, several.grid_x, several.grid_y)  # CTAs of another grid are no launch's of these
    return with_transactions(several)


def _check_ctas(raw: RawLaunch, launch: DecodedLaunch) -> None:
    """Raises RecordError for a CTA that is none of the launch's grid."""
    greatest = int(launch.headers["cta"].max(initial=0))
    if greatest >= raw.ctas:
        raise RecordError(
            f"damaged profile buffer of kernel {raw.manifest.kernel}: it holds CTA {greatest} of a launch of "
            f"{raw.ctas}"
        )


def _check_grid(launch: RawLaunch, grid_x: int, grid_y: int) -> None:
    """Raises RecordError for a header whose grid is not that of the launch."""
    plane = grid_x * grid_y
    if plane == 0 or launch.ctas % plane:
        raise RecordError(
            f"damaged profile buffer of kernel {launch.manifest.kernel}: its header has a grid of "
            f"{grid_x} by {grid_y} CTAs in a launch of {launch.ctas}"
        )
