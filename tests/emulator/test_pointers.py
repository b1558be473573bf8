"""Memory that a launch was not given as a tensor: tables of addresses, numbers, wrappers."""

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from profscope.emulator.launcher import live_tensors
from profscope.emulator.machine.memory import Allocation, GlobalMemory, MemoryViolationError
from profscope.errors import EmulatorError
from tests.kernels.add import add_kernel

# ruff: noqa: N803


@triton.jit
def table_kernel(table_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    """out = the sum of `count` arrays, whose addresses are in the table; each is also doubled."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(count):
        x_ptr = tl.load(table_ptr + i).to(tl.pointer_type(tl.float32))
        x = tl.load(x_ptr + offs, mask)
        tl.store(x_ptr + offs, 2 * x, mask)
        total += x
    tl.store(out_ptr + offs, total, mask)


def test_a_table_of_addresses() -> None:
    xs = [torch.rand(1000) for _ in range(5)]
    before = [x.clone() for x in xs]
    out = torch.zeros(1000)
    table = torch.tensor([x.data_ptr() for x in xs])
    table_kernel[(8,)](table, out, 5, 1000, BLOCK=128)
    torch.testing.assert_close(out, sum(before))
    for x, old in zip(xs, before, strict=True):
        torch.testing.assert_close(x, 2 * old)


def test_a_table_of_what_is_gone_is_an_error() -> None:
    """Also one step beyond a tensor that is still there."""
    gone = torch.rand(1 << 20).data_ptr()
    out = torch.zeros(64)
    with pytest.raises(EmulatorError, match=r"table_kernel: out of bounds: 4 bytes at .*test_pointers\.py"):
        table_kernel[(1,)](torch.tensor([gone]), out, 1, 64, BLOCK=64)
    x = torch.rand(50)
    with pytest.raises(EmulatorError, match=r"float32 tensor \[50\]' byte offset 200 \(its memory: 0 to 200"):
        table_kernel[(1,)](torch.tensor([x.data_ptr()]), out, 1, 64, BLOCK=64)


@triton.jit
def number_kernel(address, out_ptr):
    offs = tl.arange(0, 32)
    tl.store(out_ptr + offs, tl.load(address.to(tl.pointer_type(tl.int32)) + offs))


def test_an_address_passed_as_a_number() -> None:
    x, out = torch.arange(100, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    number_kernel[(1,)](x[10:].data_ptr(), out)
    assert torch.equal(out, x[10:42])


class Holder:
    """What a library may pass instead of a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.inner = tensor
        self.dtype = tensor.dtype

    def data_ptr(self) -> int:
        return self.inner.data_ptr()


class Closed:
    """One that shows no tensor."""

    __slots__ = ("data_ptr", "dtype")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.data_ptr = tensor.data_ptr
        self.dtype = tensor.dtype


@pytest.mark.parametrize("wrap", [Holder, Closed, lambda x: triton.reinterpret(x, tl.float32)])
def test_wrappers(wrap: Any) -> None:
    x, y, out = torch.rand(96), torch.rand(96), torch.zeros(96)
    add_kernel[(1,)](wrap(x[32:]), y, wrap(out), 64, BLOCK=64)
    torch.testing.assert_close(out[:64], x[32:] + y[:64])


@pytest.mark.parametrize("wrap", [Holder, lambda x: triton.reinterpret(x, tl.float32)])
def test_wrappers_are_checked_like_their_tensors(wrap: Any) -> None:
    whole = torch.rand(4096)  # what lies behind the tensor is memory of this process, and of no tensor
    x = whole[:100].clone()
    with pytest.raises(EmulatorError, match=r"'x_ptr' byte offset 400 \(its memory: 0 to 400\)"):
        add_kernel[(1,)](wrap(x), whole, whole.clone(), 128, BLOCK=128)


def test_who_comes_from_known_tensors_must_stay_there() -> None:
    """An address that was computed from pointers that were given is not looked for elsewhere."""
    mine, other = np.zeros(32, np.float32), np.zeros(32, np.float32)
    a, b = (Allocation(n, x.ctypes.data, x.nbytes, x.ctypes.data) for n, x in (("a", mine), ("b", other)))
    address = np.array([other.ctypes.data])
    for pointers in ([0], [0, 1]):
        memory = GlobalMemory([a], [a, a], lambda: [b])
        with pytest.raises(MemoryViolationError):
            memory.offsets(address, 0, 4, frozenset(pointers))
    memory = GlobalMemory([a], [a, None], lambda: [b])
    for pointers in ([], [1], [0, 1]):
        offset = memory.offsets(address, 0, 4, frozenset(pointers))
        assert memory.views[4][offset >> 2].tolist() == [0]
        assert int(offset[0]) + memory.base == other.ctypes.data


def test_live_tensors_have_memory() -> None:
    """Not those that have none: sparse, on the meta device, empty."""
    x = torch.rand(77)
    without = [torch.zeros(5, device="meta"), torch.eye(3).to_sparse(), torch.zeros(0)]
    tensors = live_tensors()
    assert any(a.start == x.data_ptr() and a.size == 4 * 77 for a in tensors)
    assert all(a.start and a.owner is not t for a in tensors for t in without)
