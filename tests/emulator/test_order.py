"""CTAs that wait for each other or take turns do so in the order of their clocks."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope
from profscope.emulator.device import Device, Model
from profscope.emulator.driver import EmulatorDriver
from profscope.emulator.machine.timeline import Timeline
from profscope.emulator.ptx_parser import parse
from profscope.emulator.translation.flow import build
from tests.kernels.add import add_kernel
from tests.kernels.atomics import lock_kernel
from tests.support.examples import examples
from tests.support.ptx_kernel import assemble, run

# ruff: noqa: N803


@triton.jit
def steal_kernel(counter_ptr, x_ptr, work_ptr, taker_ptr, tiles, BLOCK: tl.constexpr):
    """Whoever is ready takes the next tile."""
    tile = tl.atomic_add(counter_ptr, 1)
    while tile < tiles:
        offs = tile * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        for _ in range(tl.load(work_ptr + tile)):
            x = x * 1.5 + 1
        tl.store(x_ptr + offs, x)
        tl.store(taker_ptr + tile, tl.program_id(0))
        tile = tl.atomic_add(counter_ptr, 1)


def takers(work: list[int], ctas: int = 4) -> list[int]:
    """How many tiles each CTA takes."""
    tiles = len(work)
    taker = torch.full((tiles,), -1, dtype=torch.int32)
    counter = torch.zeros(1, dtype=torch.int32)
    x = torch.zeros(tiles * 128)
    steal_kernel[(ctas,)](counter, x, torch.tensor(work, dtype=torch.int32), taker, tiles, BLOCK=128)
    assert int(counter) == tiles + ctas
    return torch.bincount(taker, minlength=ctas).tolist()


def test_tiles_stay_shared_equally_when_one_took_longer() -> None:
    """The CTA that fell behind runs in a batch of its own from then on."""
    assert takers([22] + [10] * 16) == [4, 5, 4, 4]


def test_who_has_the_long_tile_takes_no_other() -> None:
    assert takers([2000] + [1] * 15) == [1, 5, 5, 5]


CLOCK = """
  mov.u64 {into}, %clock64;
  mov.u32 %r30, %smid;
  mad.wide.u32 %q30, %r30, -1000003, {into};
  cvt.u64.u32 %q29, %r30;
  shl.b64 %q29, %q29, 32;
  sub.s64 {into}, %q30, %q29;
"""  # without the skew of the SM; -1000003 is read as unsigned, 2^32 more than it is


# Warp 0 of each CTA takes a ticket `rounds` times, each time after a delay of its own.
TICKETS = f"""
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  mov.b32 %r2, 0;
$round:
  mad.lo.u32 %r3, %cta, 3, %r2;
  mul.wide.u32 %q2, %r3, 4;
  add.s64 %q2, %q2, %a;
  ld.global.b32 %r4, [%q2];
$delay:
  sub.s32 %r4, %r4, 1;
  setp.gt.s32 %p2, %r4, 0;
  @%p2 bra $delay;
  mov.b32 %r5, 0;
{CLOCK.format(into="%q3")}
  @%p1 atom.global.gpu.acq_rel.add.u32 %r5, [%b], 1;
  cvt.u64.u32 %q4, %r5;
  mul.wide.u32 %q5, %r3, 16;
  add.s64 %q5, %q5, %out;
  @%p1 st.global.v2.b64 [%q5], {{%q3, %q4}};
  bar.sync 0;
  add.s32 %r2, %r2, 1;
  setp.lt.s32 %p3, %r2, 3;
  @%p3 bra $round;
"""


@settings(max_examples=examples(15))
@given(data=st.data())
def test_tickets_are_in_the_order_of_clocks(data: st.DataObject) -> None:
    """Also of more CTAs than run at a time: one that starts late must not come before those that run."""
    ctas = data.draw(st.integers(1, 12))
    delays = data.draw(st.lists(st.integers(1, 300), min_size=3 * ctas, max_size=3 * ctas))
    out = np.zeros((3 * ctas, 2), np.int64)
    device = Device(Model(sm_count=data.draw(st.integers(1, 3)), warps_per_sm=4))
    counter = np.zeros(1, np.uint32)
    run(TICKETS, np.array(delays, np.int32), counter, out, threads=64, ctas=ctas, device=device)
    assert int(counter[0]) == 3 * ctas
    clocks, tickets = out.T
    assert sorted(tickets) == list(range(3 * ctas))
    assert (np.diff(clocks[np.argsort(tickets)]) >= 0).all()
    assert device.notes({}) == []


# A lock that one thread of each CTA takes, and holds for some 4,000 cycles.
LOCK = f"""
  mov.u32 %r1, %laneid;
  setp.ne.u32 %p3, %r1, 0;
  @%p3 ret;
$spin:
  atom.global.acquire.gpu.cas.b32 %r2, [%a], 0, 1;
  setp.ne.s32 %p1, %r2, 0;
  @%p1 bra $spin;
{CLOCK.format(into="%q3")}
  mov.b32 %r4, 400;
$delay:
  sub.s32 %r4, %r4, 1;
  setp.gt.s32 %p2, %r4, 0;
  @%p2 bra $delay;
{CLOCK.format(into="%q4")}
  mov.b32 %r9, 0;
  {{release}};
  mul.wide.u32 %q5, %cta, 16;
  add.s64 %q5, %q5, %out;
  st.global.v2.b64 [%q5], {{{{%q3, %q4}}}};
"""


@pytest.mark.parametrize(
    "release",
    ["atom.global.exch.b32 %r5, [%a], 0", "red.global.and.b32 [%a], 0", "st.release.gpu.global.b32 [%a], %r9",
     "st.global.b32 [%a], %r9", "st.b32 [%a], %r9"],
)  # fmt: skip
def test_a_lock_is_free_when_it_was_given_back(release: str) -> None:
    """Also by a plain store."""
    out = np.zeros((12, 2), np.int64)
    run(LOCK.format(release=release), np.zeros(1, np.int32), out, ctas=12, device=Device(Model(sm_count=4)))
    taken, given = out[out[:, 0].argsort()].T
    assert (given - taken > 3000).all()
    assert (taken[1:] > given[:-1]).all()


FLAG = (
    """
  mov.u32 %r1, %cta;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $wait;
  mov.b32 %r2, 400;
$work:
  sub.s32 %r2, %r2, 1;
  setp.gt.s32 %p2, %r2, 0;
  @%p2 bra $work;
  mov.b32 %r3, 1;
  st.global.b32 [%a], %r3;
  bra.uni $end;
$wait:
  {load} %r4, [%a];
  setp.eq.s32 %p3, %r4, 0;
  @%p3 bra $wait;
$end:
"""
    + CLOCK.format(into="%q1")
    + "mad.wide.u32 %q31, %t, 8, %out; st.global.b64 [%q31], %q1;"
)


@pytest.mark.parametrize("load", ["ld.volatile.global.b32", "ld.global.b32", "ld.acquire.gpu.global.b32"])
def test_who_waits_for_a_flag_goes_on_after_it_was_set(load: str) -> None:
    out = np.zeros((6, 32), np.int64)
    run(FLAG.format(load=load), np.zeros(1, np.int32), out, ctas=6)
    setter, waiters = out[0, 0], out[1:, 0]
    assert (waiters > setter).all()
    assert (waiters < setter + 1000).all()  # and not long after


@pytest.mark.parametrize(
    ("body", "ordered"),
    [
        ("atom.global.add.u32 %r1, [%a], 1; add.s32 %r2, %r1, 1;", True),
        ("atom.global.add.u32 %r1, [%a], 1;", False),
        ("red.global.add.u32 [%a], 1;", False),
        ("atom.shared.add.u32 %r1, [%r3], 1; add.s32 %r2, %r1, 1;", False),
        ("atom.global.cas.b32 %r1, [%a], 0, 1;", True),
        ("ld.volatile.global.b32 %r1, [%a];", False),
        ("ld.volatile.global.b32 %r1, [%a]; red.global.add.u32 [%b], 1;", True),
        ("atom.global.cas.b32 %r1, [%a], 0, 1; st.global.b32 [%a], 0;", True),
        ("$a: ld.global.b32 %r1, [%q1]; add.s64 %q1, %q1, 4; setp.eq.s32 %p1, %r1, 0; @%p1 bra $a;"
         "st.global.b32 [%b], %r1;", False),
    ],
)  # fmt: skip
def test_which_accesses_meet(body: str, ordered: bool) -> None:
    assert build(parse(assemble(body)), "kernel").is_ordered == ordered


def test_sync_points_cost_nothing_themselves() -> None:
    """A load is on its way across an atomic: the block that is cut there takes as long as it did whole."""
    timed = """
  mov.u64 %q1, %clock64;
  ld.global.b32 %r2, [%a+4];
  {atomic} [%b], 1;
  add.s32 %r3, %r2, 1;
  mov.u64 %q2, %clock64;
  mad.wide.u32 %q31, %t, 16, %out;
  st.global.v2.b64 [%q31], {{%q1, %q2}};
  {use}"""
    took = []
    for use in ("", "st.global.b32 [%a], %r1;"):
        out = np.zeros((32, 2), np.int64)
        run(
            timed.format(atomic="atom.global.add.u32 %r1,", use=use),
            np.zeros(2, np.int32),
            np.zeros(1, np.int32),
            out,
        )
        took.append(int(out[0, 1] - out[0, 0]))
    assert took[0] == took[1]


# Warp 1 takes long to an atomic in a block before that of warp 0, and blocks run in their order.
OUT_OF_ORDER = """
  mov.u32 %r1, %warpid;
  setp.eq.u32 %p1, %r1, 1;
  mov.b32 %r2, 100;
  @%p1 bra $work;
  atom.global.add.u32 %r3, [%a], 1;
  bra.uni $end;
$work:
  sub.s32 %r2, %r2, 1;
  setp.gt.s32 %p2, %r2, 0;
  @%p2 bra $work;
  atom.global.add.u32 %r3, [%a], 1;
$end:
  st.global.b32 [%out], %r3;"""


def test_what_cannot_be_kept_in_order_is_said() -> None:
    device = Device()
    run(OUT_OF_ORDER, np.zeros(1, np.int32), np.zeros(1, np.int32), threads=64, device=device)
    (note,) = device.notes({})
    assert note.startswith(
        "kernel: on the emulator 1 accesses by which CTAs wait for each other came after others"
    )


def test_profiles_say_so(monkeypatch: pytest.MonkeyPatch, emulator: EmulatorDriver) -> None:
    note = Timeline.note

    def late(self: Timeline, clocks: np.ndarray) -> None:
        note(self, clocks)
        self.late, self.late_by = 7, 50

    monkeypatch.setattr(Timeline, "note", late)
    with profscope.session(backend="emulator") as prof:
        lock_kernel[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1), torch.ones(2))
    (note_text,) = [n for n in prof.metadata["notes"] if n.startswith("lock_kernel: on the emulator 7 ")]
    assert "by up to 50 cycles" in note_text


def test_launches_of_two_threads_do_not_mix(emulator: EmulatorDriver) -> None:
    """Each has a clock of its own that nobody else's launch moves on: all take equally long."""
    x, outs = torch.rand(2048), [torch.zeros(2048) for _ in range(2)]

    def launch(out: torch.Tensor) -> None:
        for _ in range(40):
            add_kernel[(2,)](x, x, out, 2048, BLOCK=1024)

    with profscope.session(backend="emulator") as prof, ThreadPoolExecutor(2) as pool:
        list(pool.map(launch, outs))
    launches = prof.launches.sort_values("start_ns")
    assert len(launches) == 80
    starts, ends = launches["start_ns"].to_numpy(), launches["end_ns"].to_numpy()
    assert np.ptp(ends - starts) <= emulator.device.model.globaltimer_tick_ns
    assert (starts[1:] >= ends[:-1]).all()
