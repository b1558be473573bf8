"""In-flight intervals: against a queue simulated in plain Python, and end to end on the emulator."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.decoding.areas import CTA
from profscope.decoding.decode import decode
from profscope.decoding.decoded import DecodedLaunch
from profscope.decoding.in_flight import with_transactions
from profscope.instrument_passes.manifest import Manifest, Span
from tests.support.examples import examples
from tests.support.quick import quick
from tests.support.sessions import heavy
from tests.support.validation import validate

ISSUE, MEMBER, OPEN, CLOSE, WAIT0, WAIT1, WAIT2, PHASE, OTHER = range(9)
PARTS = ("issue", "member", "open", "close", "wait", "wait", "wait", "phase", "")
PENDING = (0, 0, 0, 0, 0, 1, 2, 0, 0)
SITES = tuple(
    Span(
        id=i,
        parent=-1,
        frame=0,
        kind="op",
        name=f"{part} {i}",
        op="op",
        file="k.py",
        line=i,
        begin=1,
        ends=(2,),
        part=part,
        pending=pending,
    )
    for i, (part, pending) in enumerate(zip(PARTS, PENDING, strict=True))
)

DATA = Path(__file__).parents[1] / "data"
CAPTURES = sorted([*DATA.glob("matmul*-heavy-0.npz"), *DATA.glob("attention-heavy-0.npz")])


def launch(
    events: list[tuple[int, int, int]], sites: tuple[Span, ...] = SITES, dropped: int = 0
) -> DecodedLaunch:
    """Spans from (CTA, warp, site) in order of time: the n-th runs from cycle 10 n to 10 n + 5."""
    cta, warp, site = np.array(events, np.int32).reshape(-1, 3).T
    start = np.arange(len(events), dtype=np.int64) * 10
    zeros = np.zeros(len(events), np.int32)
    shuffled = np.random.default_rng(0).permutation(len(events))  # decoders hand spans over site by site
    columns = [
        c[shuffled] for c in (site, cta, warp, zeros, start, start + 5, zeros, zeros - 1, zeros)
    ]  # fmt: skip
    return DecodedLaunch(*columns, sites, np.zeros(1, CTA), len(events), dropped, 0)


def in_flight(decoded: DecodedLaunch) -> list[tuple[int, int]]:
    """(start, end) of the async spans, sorted."""
    found = with_transactions(decoded)
    new = slice(len(decoded.span), None)
    assert all(found.sites[site].kind == "async" for site in found.span[new])
    return sorted(zip(found.start_cycle[new].tolist(), found.end_cycle[new].tolist(), strict=True))


def queue(sites: list[int]) -> list[tuple[int, int]]:
    """The same by a queue of groups: what one warp does, one event after the other."""
    flying: deque[list[int]] = deque()
    collecting: list[int] = []
    done = []
    for number, site in enumerate(sites):
        start = number * 10
        if site == ISSUE:
            flying.append([start])
        elif site == MEMBER:
            collecting.append(start)
        elif site == CLOSE:
            flying.append(collecting)
            collecting = []
        elif site in (WAIT0, WAIT1, WAIT2):
            while len(flying) > site - WAIT0:
                done += [(member, start + 5) for member in flying.popleft()]
    return sorted(done)


@settings(max_examples=examples(200), deadline=None)
@given(
    kinds=st.sampled_from([(MEMBER, CLOSE), (ISSUE,)]),
    picks=st.lists(st.integers(0, 5), min_size=1, max_size=60),
)
def test_queues_of_a_warp(kinds: tuple[int, ...], picks: list[int]) -> None:
    """cp.async groups with their commits; wgmma and TMA stores, each a group of its own."""
    allowed = [*kinds, WAIT0, WAIT1, WAIT2, OTHER]
    sites = [allowed[pick % len(allowed)] for pick in picks]
    used = tuple(replace(s, part=s.part if i in allowed else "") for i, s in enumerate(SITES))
    assert in_flight(launch([(0, 0, site) for site in sites], used)) == queue(sites)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=80))
def test_warps_do_not_mix(events: list[tuple[int, int, int]]) -> None:
    allowed = [MEMBER, CLOSE, WAIT0, WAIT1]
    used = tuple(replace(s, part=s.part if i in allowed else "") for i, s in enumerate(SITES))
    every = [(cta, warp, allowed[pick]) for cta, warp, pick in events]
    expected = []
    for lane in {event[:2] for event in every}:
        times = [n * 10 for n, event in enumerate(every) if event[:2] == lane]
        alone = queue([site for cta, warp, site in every if (cta, warp) == lane])
        expected += [(times[start // 10], times[end // 10] + 5) for start, end in alone]
    assert in_flight(launch(every, used)) == sorted(expected)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_ctas_that_ran_alike_are_counted_once(path: Path) -> None:
    """Knowing which CTAs ran alike changes nothing but the time that it takes."""
    with np.load(path) as arrays:
        buffer, manifest = arrays["buffer"], Manifest.from_json(arrays["manifest"].tobytes().decode())
    decoded = decode(buffer, manifest)
    assert decoded.recorded is not None
    fast, slow = with_transactions(decoded), with_transactions(replace(decoded, recorded=None))
    assert fast.wait is not None
    assert (fast.wait >= 0).any()
    for name in ("span", "cta", "warp", "start_cycle", "end_cycle", "parent", "wait"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), name)
    assert fast.unpaired == slow.unpaired


def test_copies_of_a_phase_end_together() -> None:
    """Two copies an mbarrier phase, two phases ahead; the last copies are predicated off and never end."""
    sites = [OPEN, MEMBER, MEMBER, OPEN, MEMBER, MEMBER, PHASE, OPEN, MEMBER, MEMBER, PHASE]
    used = tuple(replace(s, part=s.part if i in (OPEN, MEMBER, PHASE) else "") for i, s in enumerate(SITES))
    found = in_flight(launch([(0, 0, site) for site in sites], used))
    assert found == [(10, 65), (20, 65), (40, 105), (50, 105)]


def test_a_producer_warp_and_its_consumers() -> None:
    used = tuple(replace(s, part=s.part if i in (OPEN, MEMBER, PHASE) else "") for i, s in enumerate(SITES))
    producer = [(0, 4, OPEN), (0, 4, MEMBER), (0, 4, OPEN), (0, 4, MEMBER)]
    consumers = [(0, 0, PHASE), (0, 1, PHASE), (0, 0, PHASE), (0, 1, PHASE)]
    elsewhere = [(1, 0, PHASE)]  # another CTA's barrier
    assert in_flight(launch(elsewhere + producer + consumers, used)) == [(20, 55), (40, 75)]


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 3), st.lists(st.booleans(), max_size=40))
def test_a_producer_that_first_finds_free_buffers(depth: int, turns: list[bool]) -> None:
    """Warp 0 waits for buffers that warp 1 frees; its first `depth` waits return at once."""
    used = tuple(
        replace(s, part=s.part if i in (ISSUE, PHASE) else "", pending=depth if i == PHASE else 0)
        for i, s in enumerate(SITES)
    )
    events: list[tuple[int, int, int]] = []
    freed: list[int] = []
    expected, waits = [], 0
    for issue in turns:
        if issue:
            freed.append(len(events) * 10)
        elif waits < depth + len(freed):  # else the wait has not returned yet
            if waits >= depth:
                expected.append((freed[waits - depth], len(events) * 10 + 5))
            waits += 1
        else:
            continue
        events.append((0, 1, ISSUE) if issue else (0, 0, PHASE))
    assert in_flight(launch(events, used)) == expected


def test_nothing_to_pair() -> None:
    starts = tuple(replace(s, part=s.part if i in (ISSUE,) else "") for i, s in enumerate(SITES))
    assert with_transactions(launch([(0, 0, ISSUE)], starts)).sites == starts
    members = tuple(replace(s, part=s.part if i in (MEMBER, WAIT0) else "") for i, s in enumerate(SITES))
    assert in_flight(launch([(0, 0, MEMBER), (0, 0, WAIT0)], members)) == []


def test_starts_that_no_wait_ends_are_counted() -> None:
    used = tuple(replace(s, part=s.part if i in (ISSUE, WAIT1) else "") for i, s in enumerate(SITES))
    found = with_transactions(launch([(0, 0, ISSUE), (0, 0, ISSUE), (0, 0, WAIT1), (0, 0, ISSUE)], used))
    assert found.unpaired == 2
    assert with_transactions(launch([(0, 0, ISSUE), (0, 0, WAIT0)], SITES[:5])).unpaired == 0


def test_an_incomplete_record_says_so() -> None:
    used = tuple(replace(s, part=s.part if i in (ISSUE, WAIT0) else "") for i, s in enumerate(SITES))
    found = with_transactions(launch([(0, 0, ISSUE), (0, 0, WAIT0)], used, dropped=4))
    assert len(found.span) == 2
    assert found.anomalies == (
        "in-flight intervals are left out: they cannot be told from an incomplete record",
    )


@pytest.mark.parametrize("name", quick(["softmax", "matmul", "attention"], ["softmax", "matmul"]))
def test_every_copy_of_a_pipelined_kernel_is_paired(name: str) -> None:
    prof = heavy(name)
    df = prof.df
    assert validate(prof.tables) == []
    assert prof.metadata["notes"] == []
    scope = df["scope"].astype(str)
    copies = df[scope.str.startswith("async copy") & (df["kind"] == "op")]
    flights = df[df["kind"] == "async"]
    assert len(copies) == len(flights) > 0
    (about,) = prof.metadata["kernels"].values()
    assert about["in_flight"] == len(flights)
    assert about["unpaired"] == 0
    key = ["cta", "warp", "start_cycle"]
    assert flights[key].to_numpy().tolist() == copies[key].to_numpy().tolist()
    waits = df[scope.str.startswith("async wait")]
    ends = set(zip(waits["cta"], waits["warp"], waits["start_cycle"] + waits["duration_cycles"], strict=True))
    found = zip(
        flights["cta"], flights["warp"], flights["start_cycle"] + flights["duration_cycles"], strict=True
    )
    assert set(found) <= ends
    assert (flights["duration_cycles"] > 400).all()  # the emulator's global memory takes that long
    assert flights["parent"].tolist() == copies.index.tolist()
    waited = df.loc[flights["wait"]]
    assert (waited["start_cycle"] + waited["duration_cycles"]).tolist() == (
        flights["start_cycle"] + flights["duration_cycles"]
    ).tolist()
    table = prof.timeline.transactions()
    assert table.index.tolist() == flights.index.tolist()
    assert table["scope"].astype(str).tolist() == copies["scope"].astype(str).tolist()
    assert table["start_ns"].tolist() == copies["start_ns"].tolist()
    assert table["issue_ns"].tolist() == copies["duration_ns"].tolist()
    assert table["in_flight_cycles"].tolist() == flights["duration_cycles"].tolist()
    assert table["waiting_cycles"].tolist() == waited["duration_cycles"].tolist()
    assert set(table["wait"].astype(str)) <= set(waits["scope"].astype(str))
