"""Random shapes, types, masks and warp counts against torch."""

import pytest
import torch
import triton
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.add import add_kernel
from tests.kernels.attention import attention_kernel
from tests.kernels.dot import dot_kernel
from tests.kernels.matmul import matmul_kernel
from tests.kernels.reductions import argmax_kernel, cumsum_kernel, reduce_kernel
from tests.kernels.softmax import softmax_kernel
from tests.support.examples import examples

FLOATS = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
WARPS = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=examples(15))
@given(n=st.integers(1, 5000), block=st.sampled_from([32, 128, 1024]), dtype=FLOATS, warps=WARPS)
def test_add(n: int, block: int, dtype: torch.dtype, warps: int) -> None:
    x, y = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    out = torch.full((n + 7,), 42.0).to(dtype)
    add_kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block, num_warps=warps)
    assert torch.equal(out[:n], x + y)
    assert (out[n:] == 42).all()


@settings(max_examples=examples(10))
@given(rows=st.integers(1, 20), cols=st.integers(1, 500), programs=st.integers(1, 30), warps=WARPS)
def test_softmax(rows: int, cols: int, programs: int, warps: int) -> None:
    x = torch.randn(rows, cols)
    out = torch.zeros_like(x)
    softmax_kernel[(programs,)](out, x, cols, rows, cols, BLOCK=512, STAGES=2, num_warps=warps)
    torch.testing.assert_close(out, x.softmax(1), rtol=1e-5, atol=1e-7)


@settings(max_examples=examples(8))
@given(
    m=st.integers(1, 150), n=st.integers(1, 150), k=st.integers(1, 150),
    tile=st.sampled_from([(16, 16, 16), (32, 64, 32), (64, 32, 16)]), stages=st.integers(1, 4),
)  # fmt: skip
def test_matmul(m: int, n: int, k: int, tile: tuple[int, int, int], stages: int) -> None:
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    c = torch.zeros(m, n).half()
    grid = (triton.cdiv(m, tile[0]) * triton.cdiv(n, tile[1]),)
    matmul_kernel[grid](
        a, b, c, m, n, k, k, n, n,
        BLOCK_M=tile[0], BLOCK_N=tile[1], BLOCK_K=tile[2], GROUP_M=2, num_stages=stages,
    )  # fmt: skip
    torch.testing.assert_close(c, (a.float() @ b.float()).half(), rtol=2e-3, atol=1e-2)


@pytest.mark.exhaustive
@settings(max_examples=examples(8))
@given(
    m=st.sampled_from([16, 32, 64, 128]), n=st.sampled_from([16, 32, 64]), k=st.sampled_from([32, 64, 128]),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.int8]), warps=WARPS,
)  # fmt: skip
def test_dot(m: int, n: int, k: int, dtype: torch.dtype, warps: int) -> None:
    a, b = (torch.randint(-8, 8, shape).to(dtype) for shape in ((m, k), (k, n)))
    integer = dtype == torch.int8
    c = torch.zeros(m, n, dtype=torch.int32 if integer else torch.float32)
    dot_kernel[(1,)](a, b, c, k, BLOCK_M=m, BLOCK_N=n, BLOCK_K=32, PRECISION="ieee", num_warps=warps)
    assert torch.equal(c.double(), a.double() @ b.double())  # small whole numbers: exact in every type


@settings(max_examples=examples(6))
@given(blocks=st.integers(1, 4), heads=st.integers(1, 3), causal=st.booleans(), warps=st.sampled_from([2, 4]))
def test_attention(blocks: int, heads: int, causal: bool, warps: int) -> None:
    length = 64 * blocks
    q, k, v = (torch.randn(heads, length, 32).half() for _ in range(3))
    out = torch.zeros_like(q)
    attention_kernel[(blocks, heads)](
        q, k, v, out, length, 0.2, BLOCK_M=64, BLOCK_N=32, HEAD=32, CAUSAL=causal, num_warps=warps
    )
    scores = q.float() @ k.float().transpose(1, 2) * 0.2
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -float("inf"))
    torch.testing.assert_close(out.float(), scores.softmax(-1) @ v.float(), rtol=2e-2, atol=3e-3)


@settings(max_examples=examples(10))
@given(cols=st.integers(1, 256), warps=WARPS, reverse=st.booleans())
def test_reductions_and_scans(cols: int, warps: int, reverse: bool) -> None:
    x = torch.randint(-1000, 1000, (3, cols)).float()
    total = torch.zeros(3)
    reduce_kernel[(3,)](x, total, cols, OP="sum", BLOCK=256, num_warps=warps)
    assert torch.equal(total, x.sum(1))
    value, index = torch.zeros(3), torch.zeros(3, dtype=torch.int32)
    argmax_kernel[(3,)](x, value, index, cols, BLOCK=256, num_warps=warps)
    assert torch.equal(x.gather(1, index.long()[:, None])[:, 0], x.amax(1))
    scanned = torch.zeros_like(x)
    cumsum_kernel[(3,)](x, scanned, cols, REVERSE=reverse, BLOCK=256, num_warps=warps)
    assert torch.equal(scanned, x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1))
