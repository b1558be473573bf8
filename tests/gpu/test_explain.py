"""`explain` on a real device: times with intervals, evidence of the hardware, options of registers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import profscope


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
    evidence = found.profile.metadata["evidence"]
    assert len(found.profile.counters) or evidence["not_measured"]
