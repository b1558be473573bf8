"""maxnreg, cooperative and dependent launches, and kernels with scratch of their own, on a real device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from triton.runtime import _allocation

import profscope
from profscope.instrument_passes import LEVELS
from tests.kernels.dependent import dependent_kernel, meeting_kernel
from tests.kernels.matmul_tma import matmul_tma_kernel
from tests.support.sessions import recorded_binaries
from tests.support.validation import validate

_GPU = torch.cuda.is_available()
_HOPPER = _GPU and torch.cuda.get_device_capability() >= (9, 0)
pytestmark = pytest.mark.skipif(not _HOPPER, reason="needs an NVIDIA GPU of compute capability 9.0 or newer")


@pytest.mark.parametrize("level", ["light", "heavy"])
def test_cooperative_launches(level: str) -> None:
    """The CTAs wait for each other, as many as the GPU has SMs."""
    ctas = torch.cuda.get_device_properties(0).multi_processor_count
    x = torch.arange(ctas * 128, dtype=torch.float32, device="cuda")
    out = torch.zeros_like(x)
    with profscope.session(instrument=level, backend="gpu") as prof:
        for _ in range(3):
            arrived = torch.zeros(1, dtype=torch.int32, device="cuda")
            meeting_kernel[(ctas,)](arrived, x, out, BLOCK=128, launch_cooperative_grid=True)
    assert torch.equal(out, x + 1)
    assert prof.launches["ctas"].tolist() == [ctas] * 3
    assert validate(prof.profile.tables) == []
    # All CTAs were there at the same time, so every one ends after every other has begun.
    kernels = prof.df[prof.df["kind"] == "kernel"]
    for _, spans in kernels.groupby("launch"):
        assert (spans["start_ns"] + spans["duration_ns"]).min() >= spans["start_ns"].max()


@pytest.mark.parametrize("level", ["light", "heavy"])
def test_dependent_launches(level: str) -> None:
    """A chain: each launch adds one to what the launch before it left, behind its wait."""
    n, steps = 1 << 20, 50
    x = torch.zeros(n, dtype=torch.float32, device="cuda")
    other = torch.empty_like(x)
    with profscope.session(instrument=level, memory=8, backend="gpu") as prof:
        for step in range(steps):
            source, target = (x, other) if step % 2 == 0 else (other, x)
            dependent_kernel[(n // 1024,)](source, target, BLOCK=1024, launch_pdl=True)
    assert torch.equal(x, torch.full_like(x, steps))
    assert len(prof.launches) == steps
    assert (prof.launches["ctas"] == n // 1024).all()
    assert validate(prof.profile.tables) == []
    if level == "heavy":
        assert (prof.df["scope"] == "grid dependency wait").any()


@pytest.mark.parametrize("level", LEVELS)
def test_scratch_of_the_kernel_itself(level: str) -> None:
    """Descriptors that the kernel builds, in memory that the user's allocator gives."""
    a, b = (torch.randn(256, 256, device="cuda", dtype=torch.float16) for _ in range(2))
    asked: list[int] = []

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        asked.append(size)
        return torch.empty(size, dtype=torch.int8, device="cuda")

    def launch() -> tuple[torch.Tensor, Any]:
        c = torch.empty_like(a)
        blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "FLATTEN": False}
        return c, matmul_tma_kernel[(8,)](a, b, c, 256, 256, 256, **blocks)

    token = _allocation._allocator.set(allocate)
    try:
        bare, bare_kernel = launch()
        with profscope.session(instrument=level, backend="gpu") as prof:
            recorded, _ = launch()
        (kernel,) = recorded_binaries(prof)
        torch.cuda.synchronize()
    finally:
        _allocation._allocator.reset(token)
    assert torch.equal(recorded, bare)
    assert kernel.metadata.global_scratch_size == bare_kernel.metadata.global_scratch_size > 0
    assert asked == [bare_kernel.metadata.global_scratch_size * 8] * 2
    assert prof.launches["ctas"].tolist() == [8]
    assert validate(prof.profile.tables) == []
