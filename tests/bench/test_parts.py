"""The parts of a record that `bench.parts` takes out are in the PTX, and then they are not."""

from __future__ import annotations

import re

import pytest

from bench import kernels
from bench.parts import WITHOUT
from tests.support.sessions import recorded_binaries, session


@pytest.fixture(scope="module")
def ptx() -> str:
    workload = kernels.add(1 << 12)
    with session(instrument="heavy") as prof:
        workload.launch(workload.inputs("cpu"))
        (kernel,) = recorded_binaries(prof)
    text: str = kernel.asm["ptx"]
    return text


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


@pytest.mark.parametrize(
    ("part", "gone"),
    [
        ("clock reads", [r"%r\d+, %clock;"]),
        ("order of clock reads", [r"%r\d+, %clock;"]),
        ("globaltimer", ["%globaltimer"]),
        ("header", ["@lead st", "%globaltimer", "%clock64"]),
        ("records", [r"%r\d+, %clock;", r"@(%p\d+|here) st\.global\.cs"]),
        ("anything", [r"%r\d+, %clock;", r"st\.global\.cs", "%globaltimer", "%clock64"]),
    ],
)
def test_a_part_is_taken_out(ptx: str, part: str, gone: list[str]) -> None:
    edited = WITHOUT[part](ptx)
    for pattern in gone:
        assert count(pattern, ptx) > 0
        assert count(pattern, edited) == 0
    kept = r"st\.global\.v4|ld\.global"  # the kernel's own
    assert count(kept, edited) == count(kept, ptx) > 0


_MMA = """\
mov.u32 %r1, %clock;
ld.global.b32 %r9, [%rd1];
mov.u32 %r2, %clock;
add.s32 %r8, %r9, 1;
mov.u32 %r3, %clock;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r10};
wgmma.commit_group.sync.aligned;
mov.u32 %r4, %clock;
wgmma.wait_group.sync.aligned 0;
mov.u32 %r5, %clock;
"""


def test_clock_reads_around_mmas_are_taken_out() -> None:
    edited = WITHOUT["clock reads around MMAs"](_MMA)
    assert re.findall(r"(%r\d), %clock", edited) == ["%r1", "%r2", "%r5"]
    assert edited.count("wgmma") == _MMA.count("wgmma")


def test_every_part_is_tested() -> None:
    (mark,) = (m for m in test_a_part_is_taken_out.pytestmark if m.name == "parametrize")
    assert {part for part, _ in mark.args[1]} | {"clock reads around MMAs"} == WITHOUT.keys()
