"""`explain` on a real device: times with intervals, evidence of the hardware, options of registers."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import profscope
from tests.support.page_kernels import softmax_kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@triton.jit
def increased(x_ptr, count, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < count) + 1, at < count)


def test_tiny_ctas() -> None:
    """Of 32 elements: with 1,024 the launch is faster on any GPU."""
    count = 1 << 24
    x = torch.arange(count, dtype=torch.float32, device="cuda")
    found = profscope.explain(
        increased, x, count, BLOCK=32, grid=lambda given: (count // given["BLOCK"],), vary={"BLOCK": [1024]},
        num_warps=1, backend="gpu",
    )  # fmt: skip
    assert torch.equal(x, torch.arange(count, dtype=torch.float32, device="cuda"))
    tries = found.tries[found.tries["failed"] == ""].set_index("options")
    assert found.tries.attrs["unit"] == "us"
    assert (tries["low_us"] <= tries["us"]).all()
    assert (tries["us"] <= tries["high_us"]).all()
    assert (tries["same_results"] == "bit-equal").all()
    assert "BLOCK=1024" in found.best
    assert "us, bare" in repr(found)
    hardware = found.profile.metadata["hardware"]
    assert len(found.profile.counters) or hardware["not_measured"]


def test_the_launch_against_itself_is_no_gain() -> None:
    x = torch.randn(4096, 1000, device="cuda")
    out = torch.empty_like(x)
    found = profscope.explain(softmax_kernel, x, out, 1000, grid=(4096,), BLOCK=1024, backend="gpu")
    row = found.tries.set_index("options").loc["as launched"]
    assert row["same_results"] == "bit-equal"
    assert 0 < row["low_us"] <= row["us"] <= row["high_us"]
    measured = found.findings["measured_pct"].dropna()
    assert (measured < 100).all()
