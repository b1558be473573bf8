"""Findings of launches that kept sums: what follows from how long each site took in all, and from the
spreads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.causes.idle_sms import idle_sms
from profscope.analysis.causes.tail import tail
from profscope.analysis.devices import sm_count_of
from profscope.analysis.judged import op_class
from profscope.analysis.launch_shape import UNLIKE, Shape, shape_kept
from profscope.analysis.room import room_on_sm
from profscope.analysis.span_rows import self_times
from profscope.schema import Tables

__all__ = ["sum_findings"]

_PASSED = 30  # cycles of a wait that has nothing to wait for
_SHARES = {
    "few-stages": "raise num_stages so that copies start earlier, or give each step more arithmetic",
    "atomics": "add up in registers or shared memory first and go to memory once a CTA",
    "layout-conversion": "store in the layout that the value has, or order the axes so that both sides agree",
}


def sum_findings(tables: Tables, kernel: str, variant: int) -> Iterator[Finding | NotMeasured]:
    """Findings of a configuration none of whose launches kept spans.

    few-stages, atomics and layout-conversion: the self time of waits for copies (less 30 cycles each),
    atomics and layout conversions over the time of all warps. tail, idle-sms, load-imbalance: as of launches
    that kept spans, by what the clocks of all CTAs of some launches say (`launch_shape.shape_kept`); where
    not all of them recorded, load-imbalance is one minus the mean CTA over the longest of its launch, of
    the recorded ones. Confidence: medium, of idle-sms as there. What needs single spans is not measured.
    """
    launches = tables.launches
    mine = (launches["kernel"] == kernel) & (launches["variant"] == variant) & ~launches["trial"]
    if not (launches.loc[mine, "keeps"] == "sums").all():
        return
    sums = tables.sums
    sums = sums.assign(own=self_times(sums, "total_cycles"))
    sums = sums[(sums["kernel"] == kernel) & (sums["variant"] == variant) & ~sums["trial"]]
    sm_count = sm_count_of(tables.metadata)
    room = room_on_sm(tables.metadata, kernel, variant)
    shape = shape_kept(tables.metadata, kernel, variant, sm_count, room)
    others = "tail, idle-sms, " if shape is None else ""
    yield NotMeasured(
        f"exposed-load, {others}late-warp, serial-stage, outliers and what else needs single spans: its "
        "launches kept sums"
    )
    if shape is not None:
        yield from _of_shape(shape, sm_count or shape.sms, sums)
    whole = float(sums.loc[(sums["parent"] < 0) & (sums["kind"] != "async"), "total_cycles"].sum())
    if not whole:
        return
    yield from _shares(sums[sums["kind"] == "op"], whole)
    yield from _imbalance(tables.spreads, kernel, variant, shape)


def _of_shape(shape: Shape, sm_count: int, sums: pd.DataFrame) -> Iterator[Finding | NotMeasured]:
    kernels = sums[(sums["kind"] == "kernel") & (sums["line"] > 0)]
    place = next(zip(kernels["file"].tolist(), kernels["line"].tolist(), strict=True), ("", 0))
    yield from tail(shape, sm_count, place)
    yield from idle_sms(shape, sm_count, place)


def _shares(ops: pd.DataFrame, whole: float) -> Iterator[Finding]:
    cls = ops["scope"].map(op_class)
    copies = ops["scope"].str.startswith(("async wait", "barrier wait")) & ~ops["scope"].str.contains("drain")
    rows = {
        "few-stages": ops[copies].assign(own=lambda t: (t["own"] - _PASSED * t["count"]).clip(lower=0)),
        "atomics": ops[cls == "atomic"],
        "layout-conversion": ops[cls == "layout"],
    }
    for name, each in rows.items():
        if each.empty:
            continue
        most = each.iloc[int(each["own"].argmax())]
        cycles, count = float(each["own"].sum()), int(each["count"].sum())
        launches = int(most["launches"])
        yield Finding(
            name,
            str(most["file"]),
            int(most["line"]),
            f"{most['scope']}: {100 * cycles / whole:.0f} % of warp time, {cycles / max(1, count):,.0f} "
            f"cycles each, over {launches:,} launch{'es' * (launches != 1)} that kept sums",
            _SHARES[name],
            100 * cycles / whole,
            "medium",
        )


def _imbalance(spreads: pd.DataFrame, kernel: str, variant: int, shape: Shape | None) -> Iterator[Finding]:
    """Of CTAs of one launch with each other: launches may be of other sizes."""
    mine = spreads[
        (spreads["kernel"] == kernel)
        & (spreads["variant"] == variant)
        & ~spreads["trial"]
        & (spreads["launch"] >= 0)
        & (spreads["by"] == "cta")
    ]
    kernels = mine[(mine["kind"] == "kernel") & (mine["line"] > 0)]
    whole = _within(kernels)
    if whole is None or whole.variation < UNLIKE:
        return
    loops = [
        each
        for _, rows in mine[mine["kind"] == "loop"].groupby(
            ["scope", "file", "line", "call_path"], sort=False
        )
        if (each := _within(rows)) is not None and each.variation > whole.variation / 2
    ]
    place = max(loops, key=lambda each: each.mean_cycles, default=whole)
    mean, longest, variation = whole.mean_cycles, whole.longest_cycles, whole.variation
    gain_pct = 100 * (1 - mean / longest)
    launches = f", of {whole.launches:,} launches" if whole.launches > 1 else ""
    if shape is not None:  # of CTAs rather than of their warps together
        mean, longest, variation = shape.mean_cycles, shape.longest_cycles, shape.variation
        gain_pct, launches = shape.imbalance_pct, ""
    yield Finding(
        "load-imbalance",
        place.file,
        place.line,
        f"the mean CTA takes {mean:,.0f} cycles, the longest {longest:,.0f} "
        f"(standard deviation {100 * variation:.0f} % of the mean{launches})"
        f"{shape.told_by if shape is not None else ''}",
        "spread the work evenly: sort or interleave long and short tiles, or let programs fetch the next "
        "tile from a counter",
        gain_pct,
        "medium",
    )


class _Within(NamedTuple):
    """How the CTAs of a launch differ at one scope. mean_cycles and longest_cycles: means over launches."""

    file: str
    line: int
    launches: int
    mean_cycles: float
    longest_cycles: float
    variation: float


def _within(rows: pd.DataFrame) -> _Within | None:
    """Of the rows of one scope, one for each launch; None where it took no time."""
    if rows.empty or not rows["greatest_cycles"].any():
        return None
    mean = rows["mean_cycles"]
    return _Within(
        str(rows["file"].iloc[0]),
        int(rows["line"].iloc[0]),
        len(rows),
        float(mean.mean()),
        float(rows["greatest_cycles"].mean()),
        float((rows["variation"] * mean).sum() / mean.sum()),
    )
