"""Kernel options that say how a kernel is built and launched do in a session what they do without one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from triton.compiler import compile

import profscope
from profscope.compat.programs import manifest_in
from profscope.options import Options
from tests.kernels import matmul, matmul_tma
from tests.kernels.aot import ast_source, gpu_target
from tests.kernels.dependent import dependent_kernel, meeting_kernel
from tests.kernels.spec import CUDA90, CUDA100, Spec
from tests.support.builds import recording_builds
from tests.support.quick import quick
from tests.support.validation import validate

MATMUL, TMA = matmul.specs()[0], matmul_tma.specs()[0]
DEPENDENT = Spec("dependent", dependent_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32"}, {"BLOCK": 128})
LAUNCH = [{}, {"launch_pdl": True}, {"launch_cooperative_grid": True}, {"maxnreg": 64}]


def build(spec: Spec, target: str, **options: Any) -> Any:
    options = {"enable_fp_fusion": True, **spec.options, **options}
    return compile(ast_source(spec), target=gpu_target(target), options=options)


def test_maxnreg_is_kept() -> None:
    bare = build(MATMUL, CUDA90, maxnreg=128)
    with recording_builds(Options(instrument="heavy")):
        kernel = build(MATMUL, CUDA90, maxnreg=128)
    assert manifest_in(kernel.asm["ttgir"]) is not None
    for built in (bare, kernel):
        assert built.metadata.maxnreg == 128
        assert re.search(r"\.maxnreg 128\b", built.asm["ptx"])


@pytest.mark.parametrize("target", [CUDA90, CUDA100])
def test_dependent_launches_are_built_with_their_waits(target: str) -> None:
    with recording_builds(Options()):
        kernel = build(DEPENDENT, target, launch_pdl=True)
    manifest = manifest_in(kernel.asm["ttgir"])
    assert manifest is not None
    assert "grid dependency wait" in [span.name for span in manifest.sections[0].spans]
    assert kernel.metadata.launch_pdl
    # In the PTX the wait stands between two clock reads, and the load behind it.
    ptx = kernel.asm["ptx"]
    order = re.findall(r"%clock;|griddepcontrol\.\w+|ld\.global", ptx)
    wait = order.index("griddepcontrol.wait")
    assert order[wait - 1] == order[wait + 1] == "%clock;"
    assert order.index("ld.global") > wait


@pytest.mark.parametrize("options", LAUNCH, ids=str)
def test_launches_on_the_emulator(options: dict[str, Any]) -> None:
    x = torch.arange(512, dtype=torch.float32)
    middle, out = torch.zeros_like(x), torch.zeros_like(x)
    with profscope.session(instrument="heavy", backend="emulator") as prof:
        dependent_kernel[(4,)](x, middle, BLOCK=128, **options)
        kernel = dependent_kernel[(4,)](middle, out, BLOCK=128, **options)
    assert torch.equal(out, x + 2)
    assert {name: getattr(kernel.metadata, name) for name in options} == options
    assert prof.launches["ctas"].tolist() == [4, 4]
    assert validate(prof.profile.tables) == []
    waits = prof.df[prof.df["scope"] == "grid dependency wait"]
    assert len(waits) == 2 * 4 * 4  # launches, CTAs, warps


def test_cooperative_ctas_meet_on_the_emulator() -> None:
    x = torch.arange(512, dtype=torch.float32)
    out, arrived = torch.zeros_like(x), torch.zeros(1, dtype=torch.int32)
    with profscope.session(instrument="heavy", backend="emulator") as prof:
        meeting_kernel[(4,)](arrived, x, out, BLOCK=128, launch_cooperative_grid=True)
    assert torch.equal(out, x + 1)
    assert validate(prof.profile.tables) == []
    assert (prof.df["kind"] == "kernel").sum() == 4 * 4  # CTAs, warps


@pytest.mark.parametrize("target", quick([CUDA90, CUDA100], (CUDA90,)))
def test_scratch_of_the_kernel_itself_is_left_alone(target: str) -> None:
    """Descriptors that the kernel builds are in global scratch; records are not."""
    bare = build(TMA, target)
    with recording_builds(Options()):
        kernel = build(TMA, target)
    manifest = manifest_in(kernel.asm["ttgir"])
    assert manifest is not None
    assert bare.metadata.global_scratch_size > 0
    for name in ("global_scratch_size", "global_scratch_align"):
        assert getattr(kernel.metadata, name) == getattr(bare.metadata, name)
    assert kernel.metadata.profile_scratch_align == manifest.tag
    # Each is a kernel parameter of its own, the last but one and the last.
    params = re.findall(r"\.param \.u64 \.ptr [^\n]*_param_(\d+)", kernel.asm["ptx"])
    assert len(params) == len(TMA.signature) - 3 + 2
