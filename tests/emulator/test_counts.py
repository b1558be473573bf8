"""What is counted of each instruction. All figures follow from the addresses: a lane's is lane * stride."""

from __future__ import annotations

import numpy as np
import pytest

from profscope.emulator.device import Device
from profscope.emulator.machine.counts import COLUMNS
from tests.support.ptx_kernel import LANE, SHARED_AT, counted, run

AT = LANE + "mad.wide.u32 %q1, %r1, {stride}, %a;\n"


def counts(body: str, threads: int = 32, ctas: int = 1) -> dict[str, list[dict[str, int]]]:
    """By opcode, the counts of its instructions in the order of the text."""
    _, totals = counted(body, threads=threads, ctas=ctas)
    found: dict[str, list[dict[str, int]]] = {}
    for at, row in enumerate(totals.instructions):
        found.setdefault(row.instruction.opcode, []).append(
            {name: int(totals.columns[name][at]) for name in COLUMNS}
        )
    return found


@pytest.mark.parametrize(
    ("stride", "access", "sectors", "fewest"),
    [
        (4, "ld.global.b32 %r2, [%q1]", 4, 4),
        (4, "ld.global.b32 %r2, [%q1+16]", 5, 4),  # bytes 16 to 144
        (8, "ld.global.b32 %r2, [%q1]", 8, 4),
        (32, "ld.global.b32 %r2, [%q1]", 32, 4),
        (128, "ld.global.b32 %r2, [%q1]", 32, 4),
        (0, "ld.global.b32 %r2, [%q1]", 1, 1),
        (1, "ld.global.b8 %r2, [%q1]", 1, 1),
        (2, "ld.global.b16 %h1, [%q1]", 2, 2),
        (8, "ld.global.b64 %q2, [%q1]", 8, 8),
        (16, "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%q1]", 16, 16),
        (32, "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%q1]", 32, 16),
        (64, "st.global.b32 [%q1], %r1", 32, 4),
        (16, "atom.global.add.u32 %r2, [%q1], 1", 16, 4),
        (16, "red.global.add.u32 [%q1], 1", 16, 4),
    ],
)
def test_sectors_of_a_warp(stride: int, access: str, sectors: int, fewest: int) -> None:
    (found,) = counts(AT.format(stride=stride) + access + ";", threads=64, ctas=3)[access.split()[0]]
    assert (found["sectors"], found["sectors_ideal"]) == (6 * sectors, 6 * fewest)
    assert found["wavefronts"] == found["local_sectors"] == 0


@pytest.mark.parametrize(
    ("stride", "access", "wavefronts", "fewest"),
    [
        (4, "ld.shared.b32 %r4, [%r2]", 1, 1),
        (8, "ld.shared.b32 %r4, [%r2]", 2, 1),
        (128, "ld.shared.b32 %r4, [%r2]", 32, 1),
        (132, "ld.shared.b32 %r4, [%r2]", 1, 1),  # a padded row
        (0, "ld.shared.b32 %r4, [%r2]", 1, 1),
        (2, "ld.shared.b16 %h1, [%r2]", 1, 1),
        (8, "ld.shared.b64 %q2, [%r2]", 2, 2),
        (128, "ld.shared.b64 %q2, [%r2]", 32, 2),
        (16, "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2]", 4, 4),
        (128, "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2]", 32, 4),
        (64, "st.shared.b32 [%r2], %r1", 16, 1),
        (64, "atom.shared.add.u32 %r4, [%r2], 1", 16, 1),
        (16, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2]", 4, 4),
        (64, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2]", 16, 4),
        (64, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r4, %r5}, [%r2]", 8, 2),
    ],
)
def test_wavefronts_of_a_warp(stride: int, access: str, wavefronts: int, fewest: int) -> None:
    body = SHARED_AT.format(stride=stride) + access + ";"
    (found,) = counts(body, threads=64, ctas=3)[access.split()[0]]
    assert (found["wavefronts"], found["wavefronts_ideal"]) == (6 * wavefronts, 6 * fewest)
    assert found["sectors"] == found["local_sectors"] == 0


@pytest.mark.parametrize(
    ("access", "wavefronts"), [("b32 %r6", 8), ("b64 %q2", 16), ("v4.b32 {%r6, %r7, %r8, %r9}", 32)]
)
def test_wider_accesses_go_in_halves_and_quarters_of_a_warp(access: str, wavefronts: int) -> None:
    """Eight lanes each stand in one column, 16 bytes from the next eight: what goes together differs."""
    body = SHARED_AT.format(stride=128) + "shr.u32 %r4, %r1, 3;\nmad.lo.u32 %r2, %r4, 16, %r2;\n"
    found = counts(body + f"ld.shared.{access}, [%r2];")
    assert found["ld.shared." + access.split()[0]][0]["wavefronts"] == wavefronts


def test_only_active_lanes_take_sectors() -> None:
    body = AT.format(stride=4) + "setp.lt.u32 %p1, %r1, 9;\n@%p1 ld.global.b32 %r2, [%q1];"
    (found,) = counts(body, ctas=2)["ld.global.b32"]
    assert found["executed"] == 2
    assert found["threads"] == 18
    assert found["sectors"] == found["sectors_ideal"] == 4  # 36 bytes, twice
    nobody = body.replace("%r1, 9", "%r1, 0")
    (found,) = counts(nobody)["ld.global.b32"]
    assert (found["executed"], found["threads"], found["sectors"]) == (1, 0, 0)


def test_a_copy_of_nothing_reads_no_sector() -> None:
    copy = "cp.async.cg.shared.global [%r2], [%q1], 16, %r4;"
    body = SHARED_AT.format(stride=16) + "mad.wide.u32 %q1, %r1, 16, %a;\n" + "mov.u32 %r4, {};\n" + copy
    (found,) = counts(body.format(16))["cp.async.cg.shared.global"]
    assert (found["sectors"], found["wavefronts"]) == (16, 4)
    (found,) = counts(body.format(0))["cp.async.cg.shared.global"]
    assert (found["sectors"], found["wavefronts"]) == (0, 4)


@pytest.mark.parametrize(("access", "sectors"), [("b32 [%q1], %r1", 4), ("b64 [%q1], %q2", 8)])
def test_local_memory_lies_word_by_word(access: str, sectors: int) -> None:
    body = LANE + f".local .align 8 .b8 own[16];\nmov.b64 %q1, own;\nst.local.{access};"
    (found,) = counts(body, threads=64)[f"st.local.{access.split()[0]}"]
    assert found["local_sectors"] == 2 * sectors
    assert found["sectors"] == found["wavefronts"] == 0


def test_loops_and_branches() -> None:
    """Warp w goes round w + 1 times; in each round half of a warp takes a branch."""
    body = """
  mov.u32 %r1, %warpid;
  mov.u32 %r2, %laneid;
$again:
  setp.lt.u32 %p1, %r2, 16;
  @%p1 bra $skip;
  xor.b32 %r3, %r2, 5;
$skip:
  sub.u32 %r1, %r1, 1;
  setp.ge.s32 %p2, %r1, 0;
  @%p2 bra $again;"""
    found = counts(body, threads=96)
    parting, back = found["bra"]
    rounds = 1 + 2 + 3
    assert (parting["executed"], parting["threads"], parting["divergent"]) == (rounds, 16 * rounds, rounds)
    assert (back["executed"], back["threads"], back["divergent"]) == (rounds, 32 * (rounds - 3), 0)
    (xor,) = found["xor.b32"]
    assert (xor["executed"], xor["threads"]) == (rounds, 16 * rounds)
    assert found["ret"] == [dict.fromkeys(COLUMNS, 0) | {"executed": 3, "threads": 96}]


def test_what_only_serves_records_is_not_counted() -> None:
    body = """
  mov.u64 %q1, %clock64;
  mov.u32 %r1, %laneid;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $others;
  st.global.b64 [%out], %q1;
$others:
  st.global.b32 [%a], %r1;"""
    found = counts(body)
    opcodes = ["ld.param.b64", "mov.u32", "st.global.b32", "ret"]
    assert {name: len(rows) for name, rows in found.items()} == dict.fromkeys(opcodes, 1)


def test_a_launch_that_fails_counts_nothing() -> None:
    device = Device(counts={})
    with pytest.raises(Exception, match="out of bounds"):
        run("ld.global.b32 %r1, [%a+64];", *[np.zeros(4, np.int32)] * 4, device=device, is_counted=True)
    assert device.counts == {}
