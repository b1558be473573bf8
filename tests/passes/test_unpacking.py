"""The clock read that ends a load's span does not wait for the data, whatever it takes to unpack them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from profscope.binaries.listing import read_listing
from profscope.binaries.operands import access
from profscope.emulator.costs import COSTS, Cost
from profscope.instrument_passes.llvm_ir import unpacked_late
from profscope.instrument_passes.toolchain import built, disassembled
from profscope.options import Options
from tests.kernels import aot
from tests.kernels.spec import CUDA90, Spec
from tests.support.builds import recording_builds
from tests.support.quick import quick
from tests.support.sessions import session

# ruff: noqa: N803


@triton.jit
def scaled_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1.0).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offs, tl.exp(x - tl.max(x, 0)) * y, mask=offs < n)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)


KERNELS = pytest.mark.parametrize(
    ("kernel", "dtype", "block"),
    quick(
        [
            (scaled_kernel, "fp16", 256),
            (scaled_kernel, "bf16", 256),
            (scaled_kernel, "fp8e5", 256),
            (add_kernel, "i8", 256),
            (add_kernel, "i1", 256),
            (add_kernel, "i1", 128),
        ],
        [(scaled_kernel, "fp8e5", 256), (add_kernel, "i1", 128)],
    ),
    ids=lambda each: each.fn.__name__ if isinstance(each, triton.JITFunction) else str(each),
)


@triton.jit
def narrow_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(tl.int8))


@KERNELS
def test_nothing_reads_loaded_data_ahead_of_the_next_clock_read(
    kernel: triton.JITFunction, dtype: str, block: int
) -> None:
    pointers = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), f"*{dtype}")
    spec = Spec(
        "unpacking",
        kernel,
        pointers | {"n": "i32"},
        {"BLOCK": block},
        aligned=("x_ptr", "y_ptr", "out_ptr", "n"),
    )
    with recording_builds(Options()):
        texts, _ = aot.lowered(spec, CUDA90, "ttgir")
    _, left, _ = built(texts["ttgir"], "unpacking")
    code = read_listing(disassembled(left["cubin"])).instructions
    loads = [at for at, each in enumerate(code) if each.name == "LDG"]
    assert len(loads) == 2
    for load in loads:
        clock = next(at for at in range(load, len(code)) if "SR_CLOCKLO" in code[at].operands)
        assert not any(access(each).reads & access(code[load]).writes for each in code[load + 1 : clock])


def test_what_the_program_does_with_the_data_stays_where_it_is() -> None:
    x, out = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int8)
    with session() as prof:
        narrow_kernel[(1,)](x, out, BLOCK=64, num_warps=1)
    assert torch.equal(out, x.to(torch.int8))
    stores = prof.df[prof.df["scope"] == "store"]
    assert set(stores["duration_cycles"] < COSTS[Cost.GLOBAL_LOAD].latency) == {True}, (
        "the wait is ahead of it"
    )


def test_numbers_stay_in_order() -> None:
    clock = 'tail call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()\n'
    load = 'tail call i32 asm sideeffect "ld.global.b32 { $0 }, [ $1 + 0 ];", "=r,l"(ptr addrspace(1) %0)\n'
    text = (
        "define void @k(ptr addrspace(1) %0) {\n"
        f"  %2 = {load}"
        "  %3 = bitcast i32 %2 to <2 x half>\n"
        "  %4 = extractelement <2 x half> %3, i64 0\n"
        f"  %5 = {clock}"
        "  %6 = add i32 %5, 1\n"
        "  %7 = fpext half %4 to float\n"
        "  br label %8\n"
        "\n"
        "8:\n"
        "  ret void\n"
        "}\n"
    )
    assert unpacked_late(text) == (
        "define void @k(ptr addrspace(1) %0) {\n"
        f"  %2 = {load}"
        f"  %3 = {clock}"
        "  %4 = add i32 %3, 1\n"
        "  %5 = bitcast i32 %2 to <2 x half>\n"
        "  %6 = extractelement <2 x half> %5, i64 0\n"
        "  %7 = fpext half %6 to float\n"
        "  br label %8\n"
        "\n"
        "8:\n"
        "  ret void\n"
        "}\n"
    )
