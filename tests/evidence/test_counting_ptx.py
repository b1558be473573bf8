"""Counting PTX of kernels for GPUs that the emulator is not: that ptxas takes it, and what its words say of
the bare binary's instructions."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from profscope.binaries.rows import Row, instructions_of, reached_blocks
from profscope.compat.edited import Assembly, assembly_of
from profscope.errors import CompileError
from profscope.evidence.counted_words import counts_of
from profscope.evidence.counting_ptx import COPIES, HIGH, CountingPtx, counting_ptx
from tests.kernels import aot, corpus
from tests.kernels.counting import iterate_kernel
from tests.kernels.spec import Spec
from tests.support.quick import quick

# ruff: noqa: N803


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, k, BLOCK: tl.constexpr, STEP: tl.constexpr):
    """From 3.9 on, its copies to shared memory have a cache policy."""
    row, col = tl.arange(0, BLOCK), tl.arange(0, STEP)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for at in tl.range(0, k, STEP, num_stages=3):
        inside = at + col < k
        a = tl.load(
            a_ptr + row[:, None] * k + (at + col)[None, :],
            mask=inside[None, :], other=0.0, eviction_policy="evict_last",
        )  # fmt: skip
        b = tl.load(
            b_ptr + (at + col)[:, None] * BLOCK + row[None, :],
            mask=inside[:, None], other=0.0, eviction_policy="evict_first",
        )  # fmt: skip
        total = tl.dot(a, b, total)
    tl.store(c_ptr + row[:, None] * BLOCK + row[None, :], total)


SPECS = {spec.name: spec for spec in corpus.specs()} | {
    "iterate": Spec(
        "iterate", iterate_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 128}
    ),
    "dot": Spec(
        "dot",
        dot_kernel,
        {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "k": "i32"},
        {"BLOCK": 64, "STEP": 64},
        aligned=("a_ptr", "b_ptr", "c_ptr", "k"),
    ),
}
# With the capability of the GPU.
BUILDS = quick(
    [
        ("softmax", 86),
        ("matmul", 89),
        ("matmul", 90),  # wgmma
        ("matmul", 100),  # tcgen05
        ("dot", 80),
        ("matmul_tma", 90),
        ("matmul_ws", 90),  # warp-specialised
        ("gluon_commit", 100),
        ("attention", 100),
        ("nested_loops", 80),  # of which ptxas makes copies
        ("iterate", 80),
        ("lock", 90),
        ("noinline", 90),
    ],
    [("softmax", 86), ("matmul", 90), ("dot", 80), ("matmul_ws", 90), ("nested_loops", 80), ("noinline", 90)],
)
ONCE, ROUNDS = 3, 5040  # 5040 can be divided among any number of copies up to 10
# Classes of instructions that a loop is for; others ptxas also moves out of it, or adds.
ARITHMETIC = ("mma", "special function")


@cache
def built(name: str, capability: int) -> Any:
    return aot.compiled(SPECS[name], f"cuda:{capability}")


def in_loops(code: CountingPtx) -> set[int]:
    return {block for loop in code.loops for block in loop}


def filled(code: CountingPtx) -> np.ndarray:
    """Words of one warp in all: blocks of loops run ROUNDS times, the others ONCE; each access takes four."""
    copies = np.zeros((COPIES, code.words), np.uint64)
    loops, own = in_loops(code), copies[5]
    for block in set(code.blocks) - {-1}:
        times = ROUNDS if block in loops else ONCE
        own[block] = times << HIGH | 32 * times
    for access in code.accesses:
        times = ROUNDS if code.blocks[access.ptx_line - 1] in loops else ONCE
        own[access.word], own[access.word + 1] = 32 * times << HIGH | 4 * times, 2 * times
    return copies.reshape(-1)


@cache
def counts(name: str, capability: int) -> tuple[CountingPtx, tuple[Row, ...], dict[str, np.ndarray]]:
    kernel = built(name, capability)
    ptx, cubin = kernel.asm["ptx"], kernel.asm["cubin"]
    code, rows = counting_ptx(ptx), instructions_of(cubin, ptx).rows
    pcs, columns = counts_of(code, filled(code), rows, reached_blocks(cubin), 1.0)
    assert pcs.tolist() == [row.pc for row in rows]
    return code, rows, columns


@pytest.mark.parametrize(
    ("instruction", "found"),
    [
        ("ld.global.L1::evict_first.L2::cache_hint.v8.b32 {%r1}, [ %q1 + 0 ], %q2", [("ld", "global", 32)]),
        ("@!%p1 st.shared::cta.v2.b64 [%r1+-8], {%q1, %q2}", [("st", "shared", 16)]),
        ("red.global.gpu.relaxed.add.noftz.f16x2 [%q1], %r1", [("red", "global", 4)]),
        ("atom.acq_rel.gpu.global.cas.b16 %h1, [%q1], %h2, %h3", [("atom", "global", 2)]),
        ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r1}, [%r2]", [("ldmatrix", "shared", 16)]),
        (
            "cp.async.cg.shared.global.L2::cache_hint [%r1], [%q1], 0x10, %r2, %q2",
            [("cp", "shared", 16), ("cp", "global", 16)],
        ),
        ("ld.param.b64 %q1, [kernel_param_0]", []),
        ("st.local.b32 [%q1], %r1", []),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2]", []),
        ("cp.async.bulk.commit_group", []),
        ("mbarrier.init.shared::cta.b64 [%r1], 1", []),
    ],
)
def test_bytes_of_a_lane(instruction: str, found: list[tuple[str, str, int]]) -> None:
    code = counting_ptx(f"\t.address_size 64\n.entry kernel()\n{{\n\t{instruction};\n}}\n")
    assert [(each.kind, each.space, each.bytes) for each in code.accesses] == found


@pytest.mark.parametrize(("name", "capability"), BUILDS)
def test_ptxas_takes_it(name: str, capability: int) -> None:
    kernel = built(name, capability)
    code = counting_ptx(kernel.asm["ptx"])
    assert code.words > len(set(code.blocks) - {-1}) == code.words - 2 * len(code.accesses) > 0
    assert assembly_of(kernel).cubin(code.text).startswith(b"\x7fELF")


@pytest.mark.parametrize(("name", "capability"), BUILDS)
def test_instructions_of_a_loop_run_as_often_as_the_loop(name: str, capability: int) -> None:
    """All copies of an instruction together, if ptxas has made several."""
    code, rows, columns = counts(name, capability)
    loops = in_loops(code)
    executed: Counter[tuple[int, str]] = Counter()
    for row, times in zip(rows, columns["executed"].tolist(), strict=True):
        if row.ptx_line and (row.cls in ARITHMETIC or row.opcode.startswith("FFMA")):
            executed[row.ptx_line, row.opcode] += times
    for (line, opcode), times in executed.items():
        each = ROUNDS if code.blocks[line - 1] in loops else ONCE
        assert times % each == 0 < times, (line, opcode)


@pytest.mark.parametrize(("name", "capability"), BUILDS)
def test_all_that_accesses_took_is_in_the_rows(name: str, capability: int) -> None:
    """Except what ptxas leaves out, as loads that nobody needs."""
    code, rows, columns = counts(name, capability)
    loops = in_loops(code)
    lines = {row.ptx_line for row in rows if row.cls.endswith(("load", "store", "atomic", "async copy"))}
    for space, column in (("global", "sectors"), ("shared", "wavefronts")):
        own = [each for each in code.accesses if each.space == space and each.ptx_line in lines]
        times = sum(ROUNDS if code.blocks[each.ptx_line - 1] in loops else ONCE for each in own)
        of_others = [row.opcode.startswith(("HGMMA", "IGMMA", "QGMMA")) for row in rows]
        assert columns[column][~np.array(of_others)].sum() == 4 * times
        assert columns[f"{column}_ideal"][~np.array(of_others)].sum() == 2 * times


def test_copies_of_a_loop_share_its_rounds() -> None:
    """A loop of one multiplication, which ptxas writes four times, and again for the rest."""
    _, rows, columns = counts("iterate", 80)
    fused = [at for at, row in enumerate(rows) if row.opcode.startswith("FFMA")]
    assert len(fused) > 4
    assert columns["executed"][fused].sum() == ROUNDS


def test_what_ptxas_says_is_told() -> None:
    kernel = built("iterate", 80)
    with pytest.raises(CompileError, match=r"ptxas ended with \d+: .*error"):
        assembly_of(kernel).cubin(kernel.asm["ptx"].replace("fma.rn.f32", "fma.of.f32"))


def test_a_ptxas_that_crashes_or_is_not_there() -> None:
    with pytest.raises(CompileError, match="ptxas ended with -11: no message"):
        Assembly(["/bin/sh", "-c", "kill -SEGV $$"]).cubin("")
    with pytest.raises(CompileError, match=r"ptxas: .*No such file"):
        Assembly(["/nowhere/ptxas"]).cubin("")
