"""What the marks of progress say of places in kernels, and that Triton takes them."""

from __future__ import annotations

from functools import cache

import pytest
from triton.experimental.gluon import language as gl

from profscope.compat.programs import manifest_in
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.progress import ProgressMark
from profscope.instrument_passes.toolchain import triton_version
from profscope.options import Options
from tests.kernels import aot, hanging
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, GFX942, Spec
from tests.support.builds import recording_builds

SPECS = {spec.name: spec for spec in specs()}


def _pipelined() -> Spec:
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    tile = f"tensordesc<fp16[64, 64],{layout!r}>"
    return Spec(
        "pipelined_matmul",
        hanging.pipelined_matmul_kernel,
        {"a_desc": tile, "b_desc": tile, "out_ptr": "*fp32", "k_tiles": "i32"},
        {"STAGES": 3, "FAULT": "arrive", "num_warps": 4},
        {"num_warps": 4},
    )


@cache
def manifest(name: str) -> Manifest:
    """Of a kernel with marks, compiled for a GPU of capability 9.0 up to its LLVM IR."""
    spec = _pipelined() if name == "pipelined_matmul" else SPECS[name]
    with recording_builds(Options(hang_s=10)):
        texts, _ = aot.lowered(spec, CUDA90, "llir")
    found = manifest_in(texts["ttgir"])
    assert found is not None
    return found


def marks(name: str, kind: str = "at") -> list[ProgressMark]:
    return [mark for mark in manifest(name).marks if mark.kind == kind]


def test_two_partitions() -> None:
    """Which mbarrier each waits for, and which partition arrives there."""
    sections = [(section.name, section.warps) for section in manifest("pipelined_matmul").sections]
    assert sections == [("kernel", 4), ("partition0", 1)]
    waits = {
        mark.waits_for: (mark.section, mark.detail, {(each.section, each.op) for each in mark.arrivals})
        for mark in marks("pipelined_matmul")
        if mark.op == "ttng.wait_barrier"
    }
    assert waits == {
        "mbarrier full": (
            0, "barrier", {(1, "ttng.barrier_expect"), (1, "ttng.async_tma_copy_global_to_local")},
        ),
        "mbarrier empty": (1, "barrier", {(0, "ttng.arrive_barrier")}),
    }  # fmt: skip
    joins = [mark.waits_for for mark in marks("pipelined_matmul") if mark.op == "ttg.warp_yield"]
    assert joins == ["the other partitions"]


def test_barriers_that_triton_makes_are_named_by_what_they_are_for() -> None:
    waits = {mark.waits_for for mark in marks("matmul_tma") if mark.op == "ttng.wait_barrier"}
    assert waits == {"the mbarrier of a, b"}


def test_a_loop_that_polls() -> None:
    """Its iterations are no progress, and the lock's address is stored."""
    (poll,) = marks("lock", "poll")
    (polled,) = [mark for mark in marks("lock") if mark.op == "tt.atomic_cas"]
    assert (polled.detail, manifest("lock").marks[polled.loop]) == ("address", poll)


def test_a_loop_that_works_is_no_poll() -> None:
    assert marks("while", "poll") == []
    assert len(marks("while", "loop")) == 1


def test_marks_that_others_follow_at_once_are_left_out() -> None:
    """Of the pipelined loop of a matmul an iteration, its waits, and what is behind them store."""
    with recording_builds(Options(hang_s=10)):
        texts, _ = aot.lowered(SPECS["matmul_tma"], CUDA90, "llir")
    loops = [op for op in parse(texts["ttgir"]).walk() if op.name == "scf.for"]
    stores = [op for op in loops[-1].regions[0].walk() if "st.volatile.global.v4" in op.first_line]
    waits = [op for op in loops[-1].regions[0].walk() if op.name.endswith(("wait_barrier", "dot_wait"))]
    assert len(waits) == 2
    assert len(stores) == 1 + 2 * len(waits)


def test_what_cannot_hang_gets_no_marks() -> None:
    text = aot.ttgir(SPECS["add"], CUDA90)
    module = parse(text)
    run_pipeline(module, parse_pipeline("progress,allocate-buffer"), PassContext(triton_version()))
    found = manifest_in(str(module))
    assert found is not None
    assert (found.sections, found.marks) == ((), ())
    assert str(module.functions[0]) == str(parse(text).functions[0])


def test_other_gpus_are_refused() -> None:
    with pytest.raises(PassError, match="NVIDIA GPUs only"):
        _run(aot.ttgir(SPECS["while"], GFX942))


def test_a_module_with_marks_is_not_lowered_again() -> None:
    module = parse(aot.ttgir(SPECS["while"], CUDA90))
    run_pipeline(module, parse_pipeline("progress"), PassContext(triton_version()))
    with pytest.raises(PassError, match="lowered already"):
        run_pipeline(module, parse_pipeline("progress"), PassContext(triton_version()))


@pytest.mark.parametrize(
    "spec",
    [pytest.param(spec, marks=pytest.mark.exhaustive) for spec in specs() if CUDA90 not in spec.unsupported],
    ids=lambda spec: spec.name,
)
def test_the_corpus(spec: Spec) -> None:
    """Triton verifies and lowers what the pass writes, and each kernel's marks have their section."""
    found = manifest(spec.name)
    assert {mark.section for mark in found.marks} == set(range(len(found.sections)))
    assert all(
        mark.loop < at or mark.loop == -1 for at, mark in enumerate(found.marks) if mark.kind == "loop"
    )


def _run(text: str) -> None:
    run_pipeline(parse(text), parse_pipeline("progress"), PassContext(triton_version()))
