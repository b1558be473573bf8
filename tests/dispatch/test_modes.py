"""Records and Triton's own instrumentation modes: on each version they work together or are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.compiler import ASTSource, compile
from triton.runtime import _allocation

import profscope
from profscope.compat.compiling import conflict
from profscope.compat.programs import manifest_in
from profscope.dispatch import recording_stages
from profscope.errors import CompileError
from profscope.instrument_passes.toolchain import triton_version
from profscope.options import Options
from tests.kernels import add, softmax
from tests.kernels.aot import gpu_target
from tests.kernels.spec import CUDA90, CUDA100, Spec
from tests.support.builds import recording_builds

# ruff: noqa: N803

VERSION = triton_version()
MODES = {
    (3, 6): ["consan"],
    (3, 7): ["consan", "iisan"],
    (3, 8): ["consan", "iisan", "fpsan", "gsan"],
    (3, 9): ["consan", "iisan", "fpsan", "gsan"],
}[VERSION]
REFUSED = {"consan", "fpsan", "gsan"} if VERSION >= (3, 8) else set[str]()
KEPT = [mode for mode in MODES if mode not in REFUSED]


@triton.jit
def asserting_kernel(x_ptr, out_ptr, start, BLOCK: tl.constexpr):
    tl.device_assert(start >= 0, "start")  # the modes that are kept switch assertions on
    at = start + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + 1.0)


SIGNATURE = {"x_ptr": "*fp32", "out_ptr": "*fp32", "start": "i32"}
ASSERTING = Spec("asserting", asserting_kernel, SIGNATURE, {"BLOCK": 128})


def build(spec: Spec, target: str) -> Any:
    signature = {name: spec.signature.get(name, "constexpr") for name in spec.fn.arg_names}
    source = ASTSource(fn=spec.fn, signature=signature, constexprs=dict(spec.constexprs))
    mode = knobs.compilation.instrumentation_mode  # a launch puts it there
    options = {"enable_fp_fusion": True, **spec.options, "instrumentation_mode": mode}
    return compile(source, target=gpu_target(target), options=options)


@pytest.fixture
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(knobs.compilation, "instrumentation_mode", request.param)
    return str(request.param)


@pytest.mark.parametrize("mode", sorted(REFUSED - {"gsan"}), indirect=True)  # gsan asks the driver for a GPU
def test_a_mode_that_cannot_be_kept_is_refused_by_name(mode: str) -> None:
    refused = pytest.raises(CompileError, match=rf"'{mode}' cannot be combined.*take {mode} out of")
    with recording_builds(Options()), refused:
        build(add.specs()[0], CUDA90)


@pytest.mark.skipif(VERSION < (3, 8), reason="consan keeps nothing in the profile scratch before 3.8")
def test_foreign_data_in_the_profile_buffer_stop_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever put them there: the records would go astray. Here it is consan, unnoticed."""
    monkeypatch.setattr(recording_stages, "conflict", lambda modes, triton: "")
    monkeypatch.setattr(knobs.compilation, "instrumentation_mode", "consan")
    with (
        recording_builds(Options(instrument="light")),
        pytest.raises(CompileError, match=r"add_kernel: another instrumentation .* data of its own"),
    ):
        build(add.specs()[0], CUDA90)


def sanitizer(kernel: Any) -> tuple[int, int]:
    """How much of a mode is in a binary: assertions, and bytes for consan's bookkeeping."""
    return kernel.asm["ptx"].count("__assertfail"), kernel.metadata.global_scratch_size


# The softmax is pipelined, so it has copies for consan to watch; a Blackwell matmul takes it half a minute.
CASES = [(ASSERTING, CUDA90), (softmax.specs()[0], CUDA100)]


@pytest.mark.parametrize("mode", KEPT, indirect=True)
@pytest.mark.parametrize(
    ("spec", "target"), [pytest.param(*case, id=f"{case[0].name}-{case[1]}") for case in CASES]
)
def test_a_mode_that_is_kept_does_what_it_did(spec: Spec, target: str, mode: str) -> None:
    alone = build(spec, target)
    with recording_builds(Options()):
        both = build(spec, target)
    found = manifest_in(both.asm["ttgir"])
    assert found is not None
    assert both.asm["ptx"].count("%clock") > len(found.sections)
    assert sanitizer(both) == sanitizer(alone)
    if spec is ASSERTING or mode == "consan":
        assert max(sanitizer(both)) > 0
    assert both.metadata.profile_scratch_align == found.tag


@pytest.mark.parametrize("mode", KEPT, indirect=True)
def test_kernels_are_recorded_under_a_mode_that_is_kept(mode: str) -> None:
    x = torch.arange(256, dtype=torch.float32)
    out = torch.zeros_like(x)
    token = _allocation._allocator.set(lambda size, *_: torch.zeros(size, dtype=torch.int8))  # for consan
    try:
        with profscope.session(backend="emulator") as prof:
            asserting_kernel[(1,)](x, out, 0, BLOCK=128)
    finally:
        _allocation._allocator.reset(token)
    assert torch.equal(out[:128], x[:128] + 1)
    assert knobs.compilation.instrumentation_mode == mode
    assert {"asserting_kernel", "load", "store"} <= set(prof.df["scope"])


def test_modes_are_read_as_triton_reads_them() -> None:
    assert "'consan'" in conflict("consan,other", (3, 9))
    assert conflict("myconsan", (3, 9)) == ""
    assert "'consan'" in conflict("myconsan", (3, 8))
    assert conflict("", VERSION) == conflict("iisan", VERSION) == conflict("consan", (3, 7)) == ""
