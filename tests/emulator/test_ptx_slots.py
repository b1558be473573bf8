"""What ptxas makes of an instruction of PTX, against ptxas."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest
from triton import knobs

from profscope.analysis.kernels.devices import pipe_of, slots_of
from profscope.binaries.listing import read_listing
from profscope.instrument_passes.toolchain import disassembled

BYTES = {"b32": 4, "b64": 8, "f32": 4, "f64": 8}
# Of two operands, and how many more instructions it takes than the other one.
EXPANDED = {
    ("div.s32", "b32"): "add.s32",
    ("rem.u32", "b32"): "add.s32",
    ("div.s64", "b64"): "add.s64",
    ("div.u64", "b64"): "add.s64",
    ("rem.s64", "b64"): "add.s64",
    ("mul.lo.s64", "b64"): "add.s64",
    ("min.s64", "b64"): "add.s64",
    ("div.full.f32", "f32"): "add.f32",
    ("div.full.ftz.f32", "f32"): "add.f32",
    ("div.approx.f32", "f32"): "add.f32",
    ("div.approx.ftz.f32", "f32"): "add.f32",
}
# Of so many operands, and the pipe it goes to.
PIPES = {
    ("add.f32", "f32", 2): "fma",
    ("fma.rn.f64", "f64", 3): "fp64",
    ("min.f32", "f32", 2): "alu",
    ("mul.lo.s32", "b32", 2): "fma",
    ("xor.b32", "b32", 2): "alu",
    ("popc.b32", "b32", 1): "xu",
    ("tanh.approx.f32", "f32", 1): "xu",
    ("ex2.approx.ftz.f32", "f32", 1): "xu",
}
Form = tuple[str, str, int]


def entry(number: int, form: Form) -> str:
    """A kernel that loads the operands, and stores the result, of one instruction."""
    opcode, kind, operands = form
    loads = "\n".join(f"ld.global.{kind} %v{i}, [%a+{i * BYTES[kind]}];" for i in range(operands))
    names = ", ".join(f"%v{i}" for i in range(operands))
    return f""".visible .entry k{number}(.param .u64 p, .param .u64 q) {{
.reg .{kind} %v<4>; .reg .{kind} %r; .reg .b64 %a, %b;
ld.param.u64 %a, [p]; ld.param.u64 %b, [q];
{loads}
{opcode} %r, {names};
st.global.{kind} [%b], %r;
ret;
}}"""


@pytest.fixture(scope="module")
def sass(tmp_path_factory: pytest.TempPathFactory) -> dict[Form, Counter[str]]:
    """By instruction, the opcodes of its kernel."""
    forms = [
        *PIPES,
        *((opcode, kind, 2) for (one, kind), other in EXPANDED.items() for opcode in (one, other)),
        *((f"mov.{kind}", kind, 1) for kind in BYTES),
    ]
    source = tmp_path_factory.mktemp("ptx") / "k.ptx"
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    source.write_text(head + "\n".join(entry(number, form) for number, form in enumerate(forms)))
    cubin = source.with_suffix(".cubin")
    subprocess.run([knobs.nvidia.ptxas.path, "-arch=sm_80", str(source), "-o", str(cubin)], check=True)
    parts = re.split(r"^\s*\.section\s+\.text\.k(\d+),", disassembled(cubin.read_bytes()), flags=re.MULTILINE)
    return {
        forms[int(number)]: Counter(each.name for each in read_listing(text).instructions)
        for number, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.mark.parametrize(("opcode", "kind"), EXPANDED)
def test_as_many_instructions_as_of_ptxas(sass: dict[Form, Counter[str]], opcode: str, kind: str) -> None:
    """More than of an addition, give or take the moves of constants."""
    other = EXPANDED[opcode, kind]
    more = sass[opcode, kind, 2] - sass[other, kind, 2]
    more.pop("NOP", None)
    expected = sum(slots_of(opcode).values()) - sum(slots_of(other).values())
    assert more.total() == pytest.approx(expected, abs=3 + expected // 10)
    special = sum(count for name, count in more.items() if pipe_of(name) == "xu")
    assert special == slots_of(opcode).get("xu", 0)


@pytest.mark.parametrize(("opcode", "kind", "operands"), PIPES)
def test_the_pipe_of_ptxas(sass: dict[Form, Counter[str]], opcode: str, kind: str, operands: int) -> None:
    found = sass[opcode, kind, operands] - sass[f"mov.{kind}", kind, 1]
    pipe = PIPES[opcode, kind, operands]
    assert pipe in {pipe_of(name) for name in found}
    assert slots_of(opcode) == {pipe: 1}


def test_one_of_sass_is_one() -> None:
    assert slots_of("MUFU.EX2") == {"xu": 1}
    assert slots_of("BRA") == {"": 1}
    assert slots_of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == {"tensor": 1}
    assert slots_of("cvt.rn.f32.s32") == slots_of("cvt.rzi.s32.f32") == {"xu": 1}
    assert slots_of("cvt.rn.f16.f32") == slots_of("cvt.u64.u32") == {"alu": 1}
    assert slots_of("cvt.f32.f16") == {"fma": 1}
