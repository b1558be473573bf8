"""What ptxas makes of an instruction of PTX, against ptxas."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from triton import knobs

from profscope.analysis.kernels.devices import pipe_of, slots_of
from profscope.binaries.listing import read_listing
from profscope.instrument_passes.toolchain import disassembled
from tests.support.quick import quick

OPERANDS = {"b32": 4, "b64": 8, "f32": 4, "f64": 8}


@cache
def sass(opcode: str, kind: str, operands: int) -> Counter[str]:
    """The opcodes of a kernel that loads the operands, and stores the result, of one instruction."""
    size = OPERANDS[kind]
    loads = "\n".join(f"ld.global.{kind} %v{i}, [%a+{i * size}];" for i in range(operands))
    names = ", ".join(f"%v{i}" for i in range(operands))
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {{
.reg .{kind} %v<4>; .reg .{kind} %r; .reg .b64 %a, %b;
ld.param.u64 %a, [p]; ld.param.u64 %b, [q];
{loads}
{opcode} %r, {names};
st.global.{kind} [%b], %r;
ret;
}}"""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(text)
        subprocess.run([knobs.nvidia.ptxas.path, "-arch=sm_80", str(source), "-o", str(cubin)], check=True)
        listing = read_listing(disassembled(cubin.read_bytes()))
    return Counter(each.name for each in listing.instructions)


@pytest.mark.parametrize(
    ("opcode", "kind", "other"),
    quick(
        [
            ("div.s32", "b32", "add.s32"),
            ("rem.u32", "b32", "add.s32"),
            ("div.s64", "b64", "add.s64"),
            ("div.u64", "b64", "add.s64"),
            ("rem.s64", "b64", "add.s64"),
            ("mul.lo.s64", "b64", "add.s64"),
            ("min.s64", "b64", "add.s64"),
            ("div.full.f32", "f32", "add.f32"),
        ],
        [
            ("rem.u32", "b32", "add.s32"),
            ("div.s64", "b64", "add.s64"),
            ("min.s64", "b64", "add.s64"),
            ("div.full.f32", "f32", "add.f32"),
        ],
    ),
)
def test_as_many_instructions_as_of_ptxas(opcode: str, kind: str, other: str) -> None:
    """More than of an addition, give or take the moves of constants."""
    more = sass(opcode, kind, 2) - sass(other, kind, 2)
    more.pop("NOP", None)
    expected = sum(slots_of(opcode).values()) - sum(slots_of(other).values())
    assert more.total() == pytest.approx(expected, abs=3 + expected // 10)
    special = sum(count for name, count in more.items() if pipe_of(name) == "xu")
    assert special == slots_of(opcode).get("xu", 0)


@pytest.mark.parametrize(
    ("opcode", "kind", "operands", "pipe"),
    quick(
        [
            ("add.f32", "f32", 2, "fma"),
            ("fma.rn.f64", "f64", 3, "fp64"),
            ("min.f32", "f32", 2, "alu"),
            ("mul.lo.s32", "b32", 2, "fma"),
            ("xor.b32", "b32", 2, "alu"),
            ("popc.b32", "b32", 1, "xu"),
            ("tanh.approx.f32", "f32", 1, "xu"),
            ("ex2.approx.ftz.f32", "f32", 1, "xu"),
        ],
        [
            ("fma.rn.f64", "f64", 3, "fp64"),
            ("mul.lo.s32", "b32", 2, "fma"),
            ("xor.b32", "b32", 2, "alu"),
            ("popc.b32", "b32", 1, "xu"),
        ],
    ),
)
def test_the_pipe_of_ptxas(opcode: str, kind: str, operands: int, pipe: str) -> None:
    found = sass(opcode, kind, operands) - sass("mov." + kind, kind, 1)
    assert pipe in {pipe_of(name) for name in found}
    assert slots_of(opcode) == {pipe: 1}


def test_one_of_sass_is_one() -> None:
    assert slots_of("MUFU.EX2") == {"xu": 1}
    assert slots_of("BRA") == {"": 1}
    assert slots_of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == {"tensor": 1}
    assert slots_of("cvt.rn.f32.s32") == slots_of("cvt.rzi.s32.f32") == {"xu": 1}
    assert slots_of("cvt.rn.f16.f32") == slots_of("cvt.u64.u32") == {"alu": 1}
    assert slots_of("cvt.f32.f16") == {"fma": 1}
