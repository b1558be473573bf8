"""Kernels for AMD GPUs, built to code objects with their records in them. Nothing here runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from triton.compiler import ASTSource, compile

from profscope.commands.opt import main
from profscope.compat.programs import manifest_in
from profscope.instrument_passes import LOWERING
from profscope.instrument_passes.analyses.occupancy import limits_of
from profscope.instrument_passes.cost import cost
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.targets import target_of
from profscope.instrument_passes.targets.amd import ARCHITECTURES, Amd
from profscope.instrument_passes.toolchain import build, triton_version
from profscope.options import Options
from tests.kernels import add, attention, matmul, softmax
from tests.kernels.aot import gpu_target, ttgir
from tests.kernels.corpus import specs
from tests.kernels.spec import GFX942, GFX950, Spec
from tests.support.builds import recording_builds
from tests.support.quick import quick

CONTEXT = PassContext(triton_version())
ADD, SOFTMAX, MATMUL, ATTENTION = (m.specs()[0] for m in (add, softmax, matmul, attention))
CALLING = next(spec for spec in specs() if spec.name == "noinline")
CASES = [
    *((ADD, GFX942, level) for level in ("light", "default", "heavy")),
    (SOFTMAX, GFX942, "heavy"),
    (MATMUL, GFX942, "default"),
    (MATMUL, GFX942, "heavy"),
    (MATMUL, GFX950, "heavy"),
    (ATTENTION, GFX942, "light"),
    (ATTENTION, GFX950, "default"),
]
QUICK = (CASES[1], CASES[5], CASES[8])
# The assembler may put an s_nop before it, which the hardware asks for.
CLOCK = re.compile(r"; sched_barrier mask\(0x0+\)\n(?:\t?\.\S.*\n|\ts_nop 0\n)*\ts_memtime s\[\d+:\d+\]")


def built(spec: Spec, target: str, attrs: dict[Any, Any] | None = None) -> Any:
    """Triton's CompiledKernel."""
    signature = {name: spec.signature.get(name, "constexpr") for name in spec.fn.arg_names}
    source = ASTSource(fn=spec.fn, signature=signature, constexprs=dict(spec.constexprs), attrs=attrs)
    options = {**spec.options, "enable_fp_fusion": True}
    return compile(source, target=gpu_target(target), options=options)


@pytest.mark.parametrize(
    ("spec", "target", "level"),
    [
        pytest.param(
            *case,
            id=f"{case[0].name}-{case[1]}-{case[2]}",
            marks=() if case in QUICK else pytest.mark.exhaustive,
        )
        for case in CASES
    ],
)
def test_kernels_build_with_every_record_in_them(spec: Spec, target: str, level: str) -> None:
    with recording_builds(Options(instrument=level)):
        kernel = built(spec, target)
    manifest = manifest_in(kernel.asm["ttgir"])
    assert manifest is not None
    assert manifest.target == target
    assert kernel.asm["hsaco"].startswith(b"\x7fELF")
    assert kernel.metadata.profile_scratch_align == manifest.tag
    assert getattr(kernel.metadata, "global_scratch_size", 0) == 0
    assembly = kernel.asm["amdgcn"]
    columns = [c.kind for section in manifest.sections for frame in section.frames for c in frame.columns]
    # A clock for each column, two for the header; at no place may the scheduler move one. Loops that the
    # compiler peels or unrolls have more.
    assert assembly.count("\ts_memtime ") >= columns.count("clock") + 2
    assert len(CLOCK.findall(assembly)) == assembly.count("\ts_memtime ")
    assert re.search(r"\.vgpr_spill_count: +0\n", assembly)
    # No branch and no change of the execution mask is for our sake: stores are dropped by their offset.
    stores = re.findall(r"\tbuffer_store_dword\S* .* offen nt", assembly)
    assert len(stores) >= 4
    assert all(" offen" in store for store in stores)


@pytest.mark.parametrize("spec", quick([ADD, SOFTMAX, CALLING], [ADD, CALLING]), ids=lambda spec: spec.name)
def test_ctas_that_do_not_record_write_a_stamp(spec: Spec) -> None:
    kernels = []
    for ctas in (1, 64):
        with recording_builds(Options(ctas=ctas)):
            kernels.append(built(spec, GFX942).asm)
    manifest = manifest_in(kernels[1]["ttgir"])
    assert manifest is not None
    assert manifest.stamps
    assert manifest.twin is (spec is not CALLING)
    timers, stores = (
        [len(re.findall(pattern, asm["amdgcn"])) for asm in kernels]
        for pattern in (r"\ts_memrealtime ", r"\tbuffer_store_dwordx4 .* offen nt")
    )
    assert timers[1] == timers[0] + 2  # when it begins and when it ends
    assert stores[1] == stores[0] + 1


def test_lanes_are_masked_as_in_tritons_own_stores() -> None:
    """The buffer's descriptor, and the offset that is outside of it."""
    pointers = {(index,): [["tt.divisibility", 16], ["tt.pointer_range", 32]] for index in range(3)}
    theirs = built(ADD, GFX942, pointers).asm
    assert "buffer_store" in theirs["ttgir"]
    ours = cost(ttgir(ADD, GFX942), "add", parse_pipeline("kernel-span"), CONTEXT).instrumented.instructions
    for text in (theirs["amdgcn"], "\n".join(ours)):
        assert re.search(r"s_mov_b32 s\d+, 0x27000\b", text)
        assert re.search(r"s_mov_b32 s\d+, 0x7ffffffe\b", text)
        assert re.search(r"v_bfrev_b32_e32 v\d+, 1\b", text)  # 0x80000000


@pytest.mark.parametrize("spec", quick([ADD, SOFTMAX], [ADD]), ids=lambda spec: spec.name)
def test_latency_reads_the_clock_behind_the_data(spec: Spec) -> None:
    """In the machine code: clock, loads, a wait for loads, clock; nothing has been moved."""
    pipeline = parse_pipeline("op-spans{classes=load measure=latency}")
    found = cost(ttgir(spec, GFX942), spec.name, pipeline, CONTEXT)
    names = {"global_load": "L", "buffer_load": "L", "s_waitcnt vmcnt(0)": "W", "s_memtime": "C"}
    order = "".join(
        next((c for n, c in names.items() if n in i), "") for i in found.instrumented.instructions
    )
    assert re.match(r"C+(L+W+C+)+", order), order


KINDS = ("f64", "i64", "f32", "i32", "f16", "bf16", "i16")
WAIT = """
#blocked = #ttg.blocked<{{sizePerThread = [4], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942",
    "ttg.threads-per-warp" = 64 : i32}} {{
  tt.func public @kernel(%p: !tt.ptr<{kind}> {{tt.divisibility = 16 : i32}}) {{
    %r = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32, #blocked>
    %s = tt.splat %p : !tt.ptr<{kind}> -> tensor<{size}x!tt.ptr<{kind}>, #blocked>
    %q = tt.addptr %s, %r : tensor<{size}x!tt.ptr<{kind}>, #blocked>, tensor<{size}xi32, #blocked>
    %v = tt.load %q : tensor<{size}x!tt.ptr<{kind}>, #blocked>
    %x = tt.load %p : !tt.ptr<{kind}>
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("kind", "size"),
    quick(
        [*((kind, 1024) for kind in KINDS), ("i16", 1), ("f32", 1)],
        [("i64", 1024), ("f32", 1024), ("bf16", 1024), ("i16", 1)],
    ),
)
def test_waiting_for_values_of_every_type(kind: str, size: int) -> None:
    module = parse(WAIT.format(kind=kind, size=size), "wait")
    run_pipeline(module, parse_pipeline(f"op-spans{{classes=load measure=latency}},{LOWERING}"), CONTEXT)
    assert str(module).count("; wait for") == 2
    code = build(str(module), "wait").instructions
    names = {"global_load": "L", "vmcnt": "W", "s_memtime": "C"}
    order = "".join(next((c for n, c in names.items() if n in i), "") for i in code)
    assert re.match(r"C+L+W+C", order), order
    assert not Amd("gfx942").waitable("tensor<4xi1, #blocked>")
    assert not Amd("gfx942").waitable("!tt.ptr<f32>")


def test_cost_and_verify(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "matmul.ttgir"
    file.write_text(ttgir(MATMUL, GFX942))
    assert main([str(file), "--verify", "-p", f"kernel-span,op-spans,{LOWERING}"]) == 0
    assert '"llvm.amdgcn.s.memtime"' in capfd.readouterr().out
    assert main([str(file), "--cost", "-p", "kernel-span,op-spans"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "matmul_kernel on hip:gfx942"
    named = {line[:26].strip(): [int(word) for word in line[26:].split()] for line in lines[2:9]}
    assert named["registers per thread"][0] > 32
    assert named["spills and stack, bytes"] == [0, 0]
    assert named["CTAs per CU"] == [64 // 16] * 2  # KiB of LDS
    assert 0 < named["AMDGCN instructions"][0] < named["AMDGCN instructions"][1]
    assert re.fullmatch(
        r"-?\d+\.\d AMDGCN instructions per record", lines[-1]
    )  # Triton 3.9 unrolls it when bare


def test_occupancy_by_registers_is_the_compilers() -> None:
    """LLVM prints the waves a SIMD holds, shared memory that is known at launch only left out."""
    kernel = built(ATTENTION, GFX942)
    said = re.search(r"; Occupancy: (\d+)", kernel.asm["amdgcn"])
    limits = limits_of(GFX942)
    registers = re.search(r"\.vgpr_count: +(\d+)", kernel.asm["amdgcn"])
    assert said is not None
    assert registers is not None
    assert limits is not None
    assert limits.fit(4, int(registers[1]), 0) == int(said[1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_targets_by_name(architecture: str) -> None:
    module = parse(WAIT.format(kind="f32", size=1024).replace("gfx942", architecture), "wait")
    assert target_of(module) == Amd(architecture)
    assert target_of(module).name == f"hip:{architecture}"


def test_an_architecture_without_a_file_is_refused() -> None:
    """In a session the launch then runs bare, and a note says this."""
    says = "cannot instrument for target 'hip:gfx1100'.*hip:gfx942, hip:gfx950"
    with recording_builds(Options()), pytest.raises(PassError, match=says):
        built(ADD, "hip:gfx1100")
