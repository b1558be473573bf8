"""measure="latency" on data of every type and size: where a warp cannot wait for it, a note says so."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from tests.support.quick import quick
from tests.support.sessions import session

# ruff: noqa: N803


@triton.jit
def scaled_sum_kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in tl.range(0, n, num_stages=3):
        scale = tl.load(scale_ptr + i)
        x = tl.load(x_ptr + i * BLOCK + offs)
        total += scale * x
    tl.store(out_ptr + offs, total)


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    one = tl.load(x_ptr)
    tl.store(out_ptr + offs, x)
    tl.store(out_ptr + BLOCK, one)


def test_scalars_in_a_pipelined_loop() -> None:
    x, scale, out = torch.randn(8, 128), torch.randn(8), torch.zeros(128)
    with session(instrument="heavy", measure="latency") as prof:
        scaled_sum_kernel[(1,)](x, scale, out, 8, BLOCK=128)
    torch.testing.assert_close(out, scale @ x)
    assert prof.metadata["notes"] == []
    names = set(prof.df["scope"])
    assert {"local load scale latency", "local load x latency", "async wait (drain)", "store"} <= names


@pytest.mark.parametrize(
    ("dtype", "size"),
    quick(
        itertools.product(
            (torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.int64), (1, 2, 4, 32)
        ),
        {(torch.int8, 1), (torch.int8, 32), (torch.bfloat16, 32)},
    ),
    ids=str,
)
def test_data_of_every_size(dtype: torch.dtype, size: int) -> None:
    x, out = torch.arange(1, 33).to(dtype), torch.zeros(33).to(dtype)
    with session(instrument="heavy", measure="latency") as prof:
        copy_kernel[(1,)](x, out, BLOCK=size, num_warps=1)
    assert torch.equal(out[:size], x[:size])
    assert out[size] == x[0]
    byte = dtype == torch.int8
    line = Path(__file__).read_text().splitlines().index("    one = tl.load(x_ptr)") + 1
    note = "is shown until its issue: no wait is known for i8 data"
    lines = [at for at in (line - 1, line) if byte and (at == line or size == 1)]
    assert prof.metadata["notes"] == [f"copy_kernel: tt.load ({__file__}:{at}) {note}" for at in lines]
    measures = prof.summary().set_index("scope")["measures"]
    waited = {name for name, measured in measures.items() if measured == "data"}
    assert waited == {
        f"load {name} latency" for name in ("x", "one") if not byte or (name == "x" and size > 1)
    }
