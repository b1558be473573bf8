"""The clock read that ends a load's span does not wait for the data, whatever it takes to unpack them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from instrument_passes.sass.listing import read_listing
from instrument_passes.sass.operands import access
from instrument_passes.toolchain import built, disassembled
from instrument_passes.unpacking import unpacked_late
from profscope.emulator import activate
from profscope.emulator.costs import COSTS, Cost
from profscope.options import Options
from tests.kernels import aot
from tests.kernels.spec import CUDA90, Spec
from tests.support.builds import recording_builds
from tests.support.sessions import session

# ruff: noqa: N803


@triton.jit
def scaled_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=1).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=offs < n, other=0).to(tl.float32)
    tl.store(out_ptr + offs, tl.exp(x - tl.max(x, 0)) * y, mask=offs < n)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)


KERNELS = pytest.mark.parametrize(
    ("kernel", "dtype"),
    [(scaled_kernel, "fp16"), (scaled_kernel, "bf16"), (add_kernel, "i8")],
    ids=lambda each: each if isinstance(each, str) else each.fn.__name__,
)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}


@KERNELS
def test_a_load_ends_at_its_issue(kernel: triton.JITFunction, dtype: str) -> None:
    x, y = torch.arange(1024).to(DTYPES[dtype]) % 7, torch.ones(1024).to(DTYPES[dtype])
    bare, out = torch.zeros_like(x), torch.zeros_like(x)
    with session() as prof:
        kernel[(4,)](x, y, out, 1024, BLOCK=256)
    with activate():
        kernel[(4,)](x, y, bare, 1024, BLOCK=256)
    assert torch.equal(out, bare)
    loads = prof.df[prof.df["scope"].str.startswith("load ")]
    assert set(loads["duration_cycles"] < COSTS[Cost.GLOBAL_LOAD].latency) == {True}


@KERNELS
def test_nothing_reads_loaded_data_ahead_of_the_next_clock_read(
    kernel: triton.JITFunction, dtype: str
) -> None:
    pointers = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), f"*{dtype}")
    spec = Spec(
        "unpacking",
        kernel,
        pointers | {"n": "i32"},
        {"BLOCK": 256},
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


def test_numbers_stay_in_order() -> None:
    clock = 'tail call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()\n'
    text = (
        "define void @k(i32 %0) {\n"
        "  %2 = bitcast i32 %0 to <2 x half>\n"
        "  %3 = extractelement <2 x half> %2, i64 0\n"
        f"  %4 = {clock}"
        "  %5 = add i32 %4, %0\n"
        "  %6 = fpext half %3 to float\n"
        "  br label %7\n"
        "\n"
        "7:\n"
        "  ret void\n"
        "}\n"
    )
    assert unpacked_late(text) == (
        "define void @k(i32 %0) {\n"
        f"  %2 = {clock}"
        "  %3 = add i32 %2, %0\n"
        "  %4 = bitcast i32 %0 to <2 x half>\n"
        "  %5 = extractelement <2 x half> %4, i64 0\n"
        "  %6 = fpext half %5 to float\n"
        "  br label %7\n"
        "\n"
        "7:\n"
        "  ret void\n"
        "}\n"
    )
