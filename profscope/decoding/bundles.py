"""Small launches that are alike, decoded as one to share the cost of numpy's steps.

A step of numpy's takes a microsecond however little it has to do, and a launch takes hundreds of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.decoding.build import Build, RawLaunch
from profscope.decoding.columns import Columns, Recorded, spread
from profscope.decoding.decode import Found, decode_as_one, find, spans_of
from profscope.decoding.decoded import DecodedLaunch, Layout, Payload, time_order
from profscope.decoding.in_flight import kinds_of_ctas, with_transactions
from profscope.decoding.timebase import Readings, Stamped, TimeBase, readings, sms_of_stamps, stamped
from profscope.errors import RecordError
from profscope.instrument_passes.manifest import Manifest

__all__ = [
    "LEAST_ALIKE",
    "LEAST_OF_CTA",
    "MOST_BYTES",
    "Bundle",
    "Damaged",
    "TimedBundle",
    "decoded",
    "groups",
]

Ints = npt.NDArray[np.int64]
# A launch and where it stands among all that are decoded.
Placed = tuple[int, RawLaunch]
Damaged = tuple[Placed, RecordError]

# What is decoded as one should stay in a core's own cache; larger launches gain nothing by company.
MOST_BYTES: Final = 1 << 20


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
        """The build of the binary they ran."""
        return self.raws[0].build

    @property
    def device(self) -> int:
        """The device they ran on."""
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
        """Their readings of the clocks."""
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
        if not open_groups or (len(open_groups[-1]) + 1) * size > MOST_BYTES:
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


# Launches whose CTAs are of few kinds: one of each is decoded, and what it says is laid out for the others.
#
# Which spans a CTA has, in which order they stand in the table, and which wait ended which asynchronous work
# follows from its kind, as long as clocks went on as programs do. That is looked at in every CTA; a launch of
# which it does not hold is decoded span by span.


# Below these, steps of numpy's have too little to do: spans of a CTA, and of CTAs of one kind that follow
# each other, on average. They take about 180 us however few spans there are; span by span, each takes 80 ns.
LEAST_OF_CTA: Final = 16
LEAST_ALIKE: Final = 4096


def decode_launch(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> DecodedLaunch:
    """A launch with its transactions, and with a layout where it can have one. Raises RecordError (see
    `read_buffer`)."""
    found = find(buffer, manifest)
    return _laid_out(found) or with_transactions(spans_of(found, found.recorded))


def _laid_out(found: Found) -> DecodedLaunch | None:
    """One CTA of each kind, and the layout of all; None if CTAs are too many kinds or too short, or where
    clocks do not go on in the order of the program."""
    spans = int(found.recorded.spans.sum())
    if spans < LEAST_ALIKE:
        return None
    some = _part(found.recorded, np.flatnonzero(found.recorded.spans))
    opens = np.append(True, some.cta[1:] != some.cta[:-1])
    first = np.flatnonzero(opens)
    kind, chosen = kinds_of_ctas(some)
    runs = 1 + np.count_nonzero(kind[1:] != kind[:-1])
    if spans < LEAST_OF_CTA * len(kind) or spans < LEAST_ALIKE * runs:
        return None
    one_each = _part(some, spread(np.append(first, len(some.cta)), chosen))
    if 2 * int(one_each.spans.sum()) > spans or (opens[1:] != (some.area[1:] != some.area[:-1])).any():
        return None
    plain = spans_of(found, one_each)
    model = with_transactions(plain, forward=False)
    order = np.arange(len(model.span))[time_order(model)]
    recorded = order[order < len(plain.span)]
    if (recorded[1:] < recorded[:-1]).any():
        return None
    begin, end = _places(found, one_each, model)
    layout = Layout(
        segments=found.words,
        area=some.area[first],
        anchor=found.clocks.anchor[some.area[first]],
        cta=some.cta[first],
        sm=some.sm[first].astype(np.int32),
        kind=kind,
        first=np.append(np.searchsorted(model.cta[order], some.cta[first][chosen]), len(order)),
        begin=begin[order],
        end=end[order],
    )
    return _in_order(model, order, layout) if _holds(layout, model, order) else None


def _part(recorded: Recorded, at: Ints) -> Recorded:
    """Some warps, as if there were no others."""
    part = Recorded(*(column[at] for column in vars(recorded).values()))
    return replace(part, first=np.cumsum(part.spans) - part.spans)


def _places(found: Found, recorded: Recorded, model: DecodedLaunch) -> tuple[Ints, Ints]:
    """Of each span, where among its CTA's words its clocks are; an async one has them of two others."""
    at = spread(found.patterns.first, recorded.pattern)
    segment = np.repeat(recorded.segment * found.words.shape[2], recorded.spans)
    begin, end = found.patterns.begin[at] + segment, found.patterns.end[at] + segment
    if model.wait is None:
        return begin, end
    start, wait = model.parent[len(at) :], model.wait[len(at) :]
    return np.append(begin, begin[start]), np.append(end, end[wait])


def _holds(layout: Layout, model: DecodedLaunch, order: Ints) -> bool:
    """Whether in every CTA no span ends before it begins, and the spans of a warp begin in this order: not
    together, where spans were put between others."""
    warp = model.warp[order]
    other_warp = warp[1:] != warp[:-1]
    apart = order[1:] < order[:-1]
    for part in layout.parts(whole=True):
        begin, end = layout.clocks(part, layout.words(part))
        if (end < begin).any():
            return False
        pairs = slice(part.rows.start, part.rows.stop - 1)
        later = begin[:, :-1] <= begin[:, 1:]
        later[:, other_warp[pairs]] = True
        if not later.all():
            return False
        at = np.flatnonzero(apart[pairs] & ~other_warp[pairs])
        if len(at) and (begin[:, at] == begin[:, at + 1]).any():
            return False
    return True


def _in_order(model: DecodedLaunch, order: Ints, layout: Layout) -> DecodedLaunch:
    """The model with its spans in order of the table."""
    rank = np.full(len(order) + 1, -1, np.int32)  # behind the last: that of -1
    rank[order] = np.arange(len(order), dtype=np.int32)
    columns = {name: getattr(model, name)[order] for name in Columns.__dataclass_fields__}
    laid_out = replace(
        model,
        **columns | {"parent": rank[columns["parent"]]},
        wait=None if model.wait is None else rank[model.wait[order]],
        idle=rank[model.idle].astype(np.int64),
        payloads=tuple(_sorted(replace(each, rows=rank[each.rows])) for each in model.payloads),
        recorded=None,
        layout=layout,
    )
    # The site of asynchronous work stands behind that which starts it.
    counts = laid_out.counts
    started = [at - 1 for at, site in enumerate(model.sites) if site.kind == "async"]
    unpaired = sum(int(counts[at] - counts[at + 1]) for at in started)
    return replace(laid_out, unpaired=unpaired)


def _sorted(payload: Payload) -> Payload:
    """With its rows in order."""
    at = np.argsort(payload.rows)
    places = None if payload.places is None else payload.places[at]
    return Payload(payload.name, payload.rows[at], payload.values[at], places)
