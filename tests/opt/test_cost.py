"""profscope opt --cost, and the occupancy it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from profscope.commands.opt import main
from profscope.instrument_passes import LEVELS
from profscope.instrument_passes.analyses.occupancy import limits_of
from profscope.instrument_passes.cost import cost
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline
from profscope.instrument_passes.toolchain import ToolchainError, build, triton_version
from tests.kernels import add, control_flow, gluon_ws, matmul
from tests.kernels.aot import compiled, ttgir
from tests.kernels.spec import CUDA80, CUDA90, CUDA100, GFX942, Spec
from tests.support.builds import cached_builds
from tests.support.quick import quick

CONTEXT = PassContext(triton_version())


@pytest.fixture(scope="module", autouse=True)
def builds() -> Iterator[None]:
    with cached_builds():
        yield


def test_costs_are_those_of_the_two_binaries() -> None:
    spec = matmul.specs()[0]
    text = ttgir(spec, CUDA90)
    found = cost(text, "matmul", parse_pipeline(LEVELS["heavy"]), CONTEXT)
    reads = [instruction for instruction in found.instrumented.instructions if "SR_CLOCK" in instruction]
    assert len(reads) == found.records + 2  # and the header's two
    assert not any("SR_CLOCK" in instruction for instruction in found.bare.instructions)
    # Measured: 51 on Triton 3.6 and 3.7, 65 on 3.8 and 3.9.
    assert 40 <= len(found.header.instructions) - len(found.bare.instructions) <= 70
    # Measured: 2.4, on Triton 3.9 1.5; Proton adds 14.
    assert 1.5 <= found.instructions_per_record <= 2.5
    assert found.bare.shared_bytes == found.instrumented.shared_bytes
    assert found.bare.shared_bytes == compiled(spec, CUDA90).metadata.shared


def test_a_second_body_is_no_cost_of_records() -> None:
    pipeline = parse_pipeline("light,lower-records{unrecorded=true},allocate-buffer")
    found = cost(ttgir(add.specs()[0], CUDA90), "add", pipeline, CONTEXT)
    assert abs(found.instructions_per_record) < 10  # of a body of 80


def test_output_ends_with_the_instructions_per_record(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "add.ttgir"
    file.write_text(ttgir(add.specs()[0], CUDA80))
    assert main([str(file), "--cost", "-p", "kernel-span,op-spans{classes=load}"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "add_kernel on cuda:80"
    assert lines[1].split() == ["bare", "instrumented"]
    named = {line[:26].strip(): line[26:].split() for line in lines[2:9]}
    assert named["warps per CTA"] == ["4", "4"]
    assert named["occupancy, %"] == ["100", "100"]
    assert named["CTAs per SM"] == ["16", "16"]
    assert int(named["SASS instructions"][0]) < int(named["SASS instructions"][1])
    assert re.fullmatch(r"\d+ buffer bytes per CTA", lines[-3])
    assert lines[-2].startswith("6 records, ")  # the kernel's begin and end, two for each of two loads
    assert re.fullmatch(r"\d+\.\d SASS instructions per record", lines[-1])


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(CUDA80, marks=pytest.mark.exhaustive),
        CUDA90,
        pytest.param(CUDA100, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize(
    "spec", quick([*add.specs(), *control_flow.specs()[:2]], add.specs()), ids=lambda spec: spec.name
)
def test_latency_reads_the_clock_behind_the_data(spec: Spec, target: str) -> None:
    """In the machine code: loads, then what waits for them, then the clock; nothing has been moved."""
    pipeline = parse_pipeline("op-spans{classes=load measure=latency}")
    found = cost(ttgir(spec, target), spec.name, pipeline, CONTEXT)
    names = {"LDG": "L", "PMTRIG": "P", "CS2R.32": "C", "SR_CLOCK": "C"}
    order = "".join(
        next((c for n, c in names.items() if n in i), "") for i in found.instrumented.instructions
    )
    assert re.fullmatch(r"C+(L+P+C+)+", order), order


def test_worker_warps_count() -> None:
    found = build(ttgir(gluon_ws.specs()[0], CUDA100), "gluon_ws")
    assert found.warps == 8  # 4, 1 and 2, in whole groups of 4


@pytest.mark.exhaustive
def test_passes_of_a_session_are_the_default(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "add.ttgir"
    file.write_text(ttgir(add.specs()[0], CUDA90))
    assert main([str(file), "--cost"]) == 0
    default = capfd.readouterr().out
    assert main([str(file), "--cost", "-p", LEVELS["default"] + ",lower-records,allocate-buffer"]) == 0
    assert capfd.readouterr().out == default


def test_other_targets_are_refused_by_name() -> None:
    text = ttgir(add.specs()[0], GFX942).replace("hip:gfx942", "xpu:1")
    with pytest.raises(ToolchainError, match="can build for cuda and hip targets, not for xpu:1"):
        build(text, "add")


def test_a_module_that_cannot_be_built(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An instruction that ptxas does not know, in inline assembly: its message, on one line."""
    clock = 'tt.elementwise_inline_asm "mov.u32 $0, %no_such_register;" {constraints = "=r", '
    text = ttgir(add.specs()[0], CUDA90).replace(
        "    tt.return", f"    %bad = {clock}packed_element = 1 : i32, pure = false}} -> i32\n    tt.return"
    )
    file = tmp_path / "bad.ttgir"
    file.write_text(text)
    assert main([str(file), "--cost"]) == 1
    said = capfd.readouterr().err.splitlines()
    assert said[-1].startswith("profscope opt: Triton cannot build the module: ")
    assert "no_such_register" in said[-1]


@pytest.mark.parametrize(
    ("target", "warps", "registers", "shared", "ctas"),
    [
        ("cuda:90", 4, 32, 0, 16),  # warps: 64 / 4
        ("cuda:90", 1, 16, 0, 32),  # CTAs
        ("cuda:90", 8, 255, 0, 1),  # registers: 8 warps of 8192
        ("cuda:90", 8, 128, 0, 2),
        ("cuda:90", 4, 168, 0, 3),  # 12 warps of 5376
        ("cuda:80", 4, 32, 163 << 10, 1),
        ("cuda:80", 4, 32, 48 << 10, 3),  # 49 KiB with the system's
        ("cuda:90", 12, 168, 90584, 1),
        ("cuda:90", 4, 32, 228 << 10, 0),  # the last KiB is the system's
        ("cuda:89", 8, 32, 0, 6),
        ("hip:gfx942", 4, 32, 0, 8),  # waves: 4 SIMDs of 8
        ("hip:gfx942", 4, 65, 0, 7),  # registers: 512 / 72 waves on each SIMD
        ("hip:gfx942", 8, 256, 0, 1),
        ("hip:gfx942", 2, 32, 0, 16),  # CTAs
        ("hip:gfx942", 4, 32, 24 << 10, 2),
        ("hip:gfx950", 4, 32, 24 << 10, 6),  # 25600 bytes each of 163840
    ],
)
def test_ctas_that_fit(target: str, warps: int, registers: int, shared: int, ctas: int) -> None:
    limits = limits_of(target)
    assert limits is not None
    assert limits.fit(warps, registers, shared) == ctas
