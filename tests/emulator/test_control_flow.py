"""Branches, loops, calls, atomics, locks and random numbers: results that are exact."""

import pytest
import torch
import triton
import triton.language as tl

from tests.kernels.atomics import atomic_kernel, lock_kernel
from tests.kernels.cases import Case, cases, check

CASES = [case for case in cases("small") if case.capability <= 80]


@pytest.mark.on_gpu_too
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(case: Case) -> None:
    check(case, "cpu")


def test_atomics() -> None:
    n, bins = 1000, 7
    index = torch.randint(0, bins, (n,), dtype=torch.int32)
    reduce = {"add": "sum", "max": "amax", "min": "amin"}
    for dtype in (torch.int32, torch.int64, torch.float32):
        x = torch.randint(-50, 50, (n,)).to(dtype)
        for name, torch_name in reduce.items():
            out = torch.zeros(bins, dtype=dtype)
            atomic_kernel[(4,)](x, index, out, n, OP=name, BLOCK=256)
            assert torch.equal(out, torch.zeros_like(out).scatter_reduce(0, index.long(), x, torch_name)), (
                name
            )
    for name, operation in (("and", "__iand__"), ("or", "__ior__"), ("xor", "__ixor__")):
        x = torch.randint(0, 1 << 30, (n,), dtype=torch.int32)
        out = torch.full((bins,), 0x5555, dtype=torch.int32)
        expected = out.clone()
        for place, value in zip(index.tolist(), x, strict=True):
            getattr(expected[place], operation)(value)
        atomic_kernel[(4,)](x, index, out, n, OP=name, BLOCK=256)
        assert torch.equal(out, expected), name


@pytest.mark.on_gpu_too
def test_half_precision_atomic_add() -> None:
    index = torch.arange(256, dtype=torch.int32) % 64
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randint(0, 8, (256,)).to(dtype)
        out = torch.zeros(64, dtype=dtype)
        atomic_kernel[(1,)](x, index, out, 256, OP="add", BLOCK=256)
        assert torch.equal(out, x.view(4, 64).sum(0))


@pytest.mark.on_gpu_too
def test_lock_between_ctas() -> None:
    """CTAs that spin on a lock must not keep the one that holds it from going on."""
    lock, total, x = torch.zeros(1, dtype=torch.int32), torch.zeros(1), torch.arange(12.0)
    lock_kernel[(12,)](lock, total, x)
    assert float(total) == float(x.sum())
    assert int(lock) == 0


def philox(seed: int, offset: int) -> int:
    """The first of the four words of Philox 4x32-10 with the counter (offset, 0, 0, 0)."""
    c = [offset, 0, 0, 0]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF,
        ]  # fmt: skip
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


@triton.jit
def random_kernel(out_ptr, seed):
    offs = tl.arange(0, 256)
    tl.store(out_ptr + offs, tl.randint(seed, offs))


@pytest.mark.on_gpu_too
def test_philox() -> None:
    out = torch.zeros(256, dtype=torch.int32)
    random_kernel[(1,)](out, 1234)
    expected = [philox(1234, i) for i in range(256)]
    assert [v % 2**32 for v in out.tolist()] == expected
