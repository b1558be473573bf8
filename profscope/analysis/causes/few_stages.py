"""few-stages: a pipelined loop waits for its copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.kernel_analysis import DURATION, KernelAnalysis
from profscope.analysis.partitions import partitions_of
from profscope.analysis.roof import bytes_unknown
from profscope.analysis.stage_occupancy import StageOccupancy, room_for_stages

__all__ = ["causes"]

# What a wait takes that has nothing to wait for, its record included.
_PASSED: Final = 30
_UNSEEN: Final = "copies were not recorded (heavy does), so memory itself may be what they wait for"
_MORE: Final = (
    "raise num_stages so that copies start earlier (shared memory and CTAs per SM allowing), or give each "
    "step more arithmetic (a larger tile)"
)
_SMALLER: Final = "a smaller tile, or a narrower type, leaves room for more stages"
_STEADY: Final = 4  # iterations that a loop must have so that stages could help


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Waits for copies that were started too late.

    Gain: the time of the waits in loops that end asynchronous copies, less 30 cycles each, over the time of
    all warps: as if the copies were always there. The first wait of each loop is left out: its copies started
    right before it, however many stages there are. Like any gain it is no more than the roof leaves, since
    what memory cannot deliver no stage hides. Confidence: high where the copies are paired with their waits
    (`transactions`), low where the wait is known by its name alone, as at the default level; where nobody
    knows what these copies move, there is no roof. The evidence says what a further stage costs in CTAs on an
    SM, as if all shared memory were of stages; where not one would fit, the advice is a smaller tile. The
    line is that of the copy that was waited for longest.
    """
    if not judged.of_class("wait").any() or partitions_of(judged) > 1:
        return
    spans, sites = judged.spans, judged.sites
    names = sites["scope"].str.startswith(("async wait", "tma wait", "tdm wait", "barrier wait")).to_numpy()
    copies = names & (sites["cls"] == "wait").to_numpy() & ~sites["scope"].str.contains("drain").to_numpy()
    rows = copies[spans.site] & (spans.iteration > 0) & ~judged.for_dots
    if not rows.any() or spans.iteration[rows].max() < _STEADY:
        return
    lost = np.where(rows, np.maximum(spans.duration - _PASSED, 0), 0)
    cycles = float(lost.sum())
    wait = int(np.argmax(judged.total(lost)))
    site, in_flight = _producer(judged, rows)
    file, line = judged.at(wait) if site is None else site
    unseen = f"; {_UNSEEN}" if bytes_unknown(judged) else ""
    costs, advice = _further_stage(room_for_stages(judged))
    yield Finding(
        "few-stages",
        file,
        line,
        f"{sites['scope'].iloc[wait]}: {judged.share_pct(cycles):.0f} % of warp time is spent waiting for "
        f"copies behind the first step, {cycles / rows.sum():.0f} cycles a wait{in_flight}{unseen}{costs}",
        advice,
        judged.share_pct(cycles),
        "low" if site is None else "high",
    )


def _further_stage(room: StageOccupancy | None) -> tuple[str, str]:
    """What one stage more costs, as a part of the evidence, and what to try."""
    if room is None:
        return "", _MORE
    then = room.ctas_with(room.stages + 1)
    if not then:
        return "; a further stage would not fit into an SM's shared memory", _SMALLER
    if then < room.ctas:
        return f"; with a further stage CTAs on an SM would be {then}, not {room.ctas}", _MORE
    return "", _MORE


def _producer(judged: KernelAnalysis, rows: np.ndarray) -> tuple[tuple[str, int] | None, str]:
    """File and line of the copy that the waits waited for longest, and how long it was in flight."""
    df = judged.tables.df
    waits = judged.spans.row[rows]
    first, last = int(judged.spans.row[0]), int(judged.spans.row[-1]) + 1
    wait = df["wait"].to_numpy()[first:last]
    ended = np.flatnonzero(wait >= 0)
    theirs = np.zeros(last - first, np.bool_)
    theirs[waits - first] = True
    ended = ended[theirs[wait[ended] - first]]
    if not len(ended):
        return None, ""
    flights = df.iloc[first + ended]
    waited = df[DURATION].to_numpy()[wait[ended]]
    by_line = flights[["file", "line"]].assign(waited=waited).groupby(["file", "line"], observed=True)
    most = by_line["waited"].sum().sort_values().reset_index().iloc[-1]
    mean = float(flights[DURATION].mean())
    return (str(most["file"]), int(most["line"])), f"; copies are in flight for {mean:.0f} cycles"
